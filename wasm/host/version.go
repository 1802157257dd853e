package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/manifest"
)

// Limits of guests.
type Limits struct {
	FuelPerBatch int64         // units that every batch has
	FuelForInit  int64         // units for _initialize and quern_init together
	Slice        int64         // units between two ticks, as the module was instrumented
	Depth        int64         // calls open at once
	Deadline     time.Duration // of a batch
	InitDeadline time.Duration // of _initialize and quern_init together
	StartWait    time.Duration // that a batch waits for a sandbox that is being started, when there is no other; 0: as long as that takes
	LogLines     int           // per batch
	LogLineBytes int
}

// DefaultLimits: a batch of 256 gets 7.1 million units, which are 3 to 6 ms; Go guests use 12 million to start, a
// hundred times less than allowed.
func DefaultLimits() Limits {
	return Limits{
		FuelPerBatch: 2_000_000, FuelForInit: 1_000_000_000, Slice: 200_000, Depth: 1_000,
		Deadline: 15 * time.Millisecond, InitDeadline: 2 * time.Second, StartWait: 15 * time.Millisecond, LogLines: 32, LogLineBytes: 1024,
	}
}

// Options are the settings of a version. Manifest, Instances, Capacity and Clock are required.
type Options struct {
	Manifest  *manifest.Manifest
	Config    []byte               // in canonical form, as manifest.ValidateConfig gives it
	Globals   []instrument.State   // the guest's own mutable globals, from wasm/instrument; needed for the state "reset"
	Hidden    bool                 // scan.Report.HiddenState: there is state that cannot be restored; with the state "reset" it is refused
	Instances int                  // at most that many at once, at least 1
	Capacity  int                  // rows that a batch may have
	Clock     func() time.Duration // a clock that only goes forward; its zero does not matter
	Stop      func() bool          // asked at every tick: true ends the batch; nil never does
	LogLevel  int                  // lines below it are dropped: abi.LevelDebug keeps all
	Limits    Limits
	Memory    *Memory     // that versions share; nil: no limit but each one's own
	Needless  func() bool // is asked for memory when no sandbox is left: closes the version if no one needs it; nil: it is always needed
	Started   func(Start) // gets each start of a sandbox but the first, from a goroutine of its own; may be nil
	Unmetered bool        // accept a module that was not instrumented: it may run for ever. For tests and benchmarks

	pages *pages // where memories come from; nil: the system. For tests
}

// Start is the report of a sandbox's start: making its memory, _initialize and quern_init.
type Start struct {
	Duration time.Duration // by the clock of the options
	Ended    time.Duration // by the same
	Err      error         // why the start failed: a *Fault when the guest did
	Reported bool          // a batch that waited has the error
}

// Version is a plugin ready to score. Many goroutines may use it.
type Version struct {
	compiled  *compile.Compiled
	options   Options
	layout    abi.Layout
	budget    int64  // fuel per candidate
	unwritten []byte // a column of scores before the guest wrote any
	ctx       context.Context
	config    wazero.ModuleConfig
	pool      pool

	mu      sync.Mutex
	users   int
	closing bool
	drained chan struct{} // closed when the last user left after closing began
	freed   sync.Once
	failure error // of closing
}

// Open makes a version of compiled code and its first instance, so that a bad configuration fails here. From then on the code
// belongs to the version, which closes it; when Open fails it is closed already. Versions that share code (compile.Compiled.Share) are
// opened one at a time. The error is a *Fault when the guest failed.
func Open(ctx context.Context, compiled *compile.Compiled, o Options) (*Version, error) {
	v, err := open(ctx, compiled, o)
	if err != nil {
		return nil, errors.Join(err, compiled.Close(context.WithoutCancel(ctx)))
	}
	return v, nil
}

func open(ctx context.Context, compiled *compile.Compiled, o Options) (*Version, error) {
	if o.Manifest == nil || o.Instances < 1 || o.Clock == nil {
		return nil, errors.New("host: open: manifest, clock and at least one instance are required")
	}
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	if o.pages == nil {
		o.pages = systemPages()
	}
	if len(o.Config) == 0 {
		o.Config = []byte("{}")
	}
	if len(o.Config) > abi.MaxConfigBytes {
		return nil, fmt.Errorf("host: open: the configuration has %d bytes; at most %d are allowed", len(o.Config), abi.MaxConfigBytes)
	}
	if o.Hidden && o.Manifest.State == manifest.Reset {
		return nil, errors.New("host: open: the module changes tables, segments or vectors in globals, which the " +
			"state \"reset\" cannot bring back; declare \"fresh\"")
	}
	layout, err := abi.NewLayout(o.Manifest.Columns, o.Capacity)
	if err != nil {
		return nil, fmt.Errorf("host: open: %w", err)
	}
	if err := checkExports(compiled.Module); err != nil {
		return nil, err
	}
	v := &Version{
		compiled: compiled, options: o, layout: layout, budget: int64(o.Manifest.FuelPerCandidate),
		ctx: context.Background(), config: wazero.NewModuleConfig().WithName("").WithStartFunctions(),
		drained: make(chan struct{}),
	}
	v.pool.max, v.pool.start = o.Instances, v.startBeside
	v.unwritten = make([]byte, o.Capacity*8)
	for at := 0; at < len(v.unwritten); at += 8 {
		abi.PutU64(v.unwritten[at:], abi.NotWritten)
	}
	if err := v.offer(); err != nil {
		return nil, fmt.Errorf("host: open: %w", err)
	}
	i, err := v.start(ctx)
	if err != nil {
		return nil, err
	}
	v.pool.live = 1
	v.pool.put(i)
	o.Memory.enter(v)
	return v, nil
}

// startBeside starts an instance in a goroutine of its own and says what that took.
func (v *Version) startBeside() {
	if !v.enter() {
		v.pool.failed(ErrClosed)
		return
	}
	go func() {
		defer v.leave()
		began := v.options.Clock()
		i, err := v.start(v.ctx)
		report := Start{Ended: v.options.Clock(), Err: err}
		report.Duration = report.Ended - began
		if err != nil {
			report.Reported = v.pool.failed(err)
		}
		if v.options.Started != nil {
			v.options.Started(report)
		}
		if err == nil { // only now, so that a start is in the books before the batch that it was for
			v.pool.started(i)
		}
	}()
}

// checkExports refuses what would otherwise panic or trap later. The pre-scan says the same with more words.
func checkExports(m wazero.CompiledModule) error {
	var wrong []string
	if m.ExportedMemories()[abi.ExportMemory] == nil {
		wrong = append(wrong, "it exports no memory")
	}
	functions := m.ExportedFunctions()
	for _, want := range []struct {
		name     string
		params   int
		results  int
		optional bool
	}{
		{abi.ExportMarker, 0, 0, false},
		{abi.ExportAlloc, 1, 1, false},
		{abi.ExportScore, 1, 1, false},
		{abi.ExportInit, 2, 1, true},
		{abi.ExportInitialize, 0, 0, true},
	} {
		f := functions[want.name]
		if f == nil {
			if !want.optional {
				wrong = append(wrong, "it exports no function "+want.name)
			}
			continue
		}
		if !slices.Equal(f.ParamTypes(), i32s(want.params)) || !slices.Equal(f.ResultTypes(), i32s(want.results)) {
			wrong = append(wrong, fmt.Sprintf("%s must take %d and return %d numbers of type i32", want.name, want.params, want.results))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("host: the module is no plugin: %q", wrong)
	}
	return nil
}

func i32s(n int) []api.ValueType {
	if n == 0 {
		return nil
	}
	return slices.Repeat([]api.ValueType{api.ValueTypeI32}, n)
}

// Report is the report of one call of Score.
type Report struct {
	Duration    time.Duration // of the guest's call, by the clock of the options
	Ended       time.Duration // when it ended, by the same; 0 when there was no call
	Fuel        int64         // units used; 0 when the module is not metered
	Pages       uint32        // memory of the instance afterwards, in pages of 64 KiB
	Skipped     int           // candidates with another NaN than the host's
	Unwritten   int           // candidates whose score was not written; they are skipped too
	Logs        []Line        // the guest's log lines
	LogsDropped int           // lines over the limit
	Counters    []float64     // the guest's additions to its counters, in the manifest's order; nil when none
}

// Score scores a batch: scores gets one number per row, NaN for candidates that are skipped. It waits for an instance when all are
// in use, until ctx ends, and for Limits.StartWait when all are only being started; ctx also ends a running guest at
// its next tick. The report is filled in as far as it goes even when there is an error: a *Fault when the guest failed
// (the scores mean nothing then), ErrStarting, ErrMemory, ErrClosed, ctx's error while waiting, or the batch's when it
// does not fit the manifest's columns. Strings of the batch's dictionary must differ from each other.
func (v *Version) Score(ctx context.Context, b *abi.Batch, scores []float64) (Report, error) {
	return v.scoreWithin(ctx, b, scores, v.options.Limits.StartWait)
}

// Try is Score for callers that have time: it waits for a sandbox for as long as its start takes.
func (v *Version) Try(ctx context.Context, b *abi.Batch, scores []float64) (Report, error) {
	return v.scoreWithin(ctx, b, scores, 0)
}

func (v *Version) scoreWithin(ctx context.Context, b *abi.Batch, scores []float64, patience time.Duration) (Report, error) {
	if len(scores) != int(b.Rows) || b.Rows > v.layout.Capacity {
		return Report{}, fmt.Errorf("host: score: %d rows, room for %d scores and for %d rows", b.Rows, len(scores), v.layout.Capacity)
	}
	if err := b.Check(v.layout.Columns); err != nil {
		return Report{}, fmt.Errorf("host: score: %w", err)
	}
	if !v.enter() {
		return Report{}, ErrClosed
	}
	defer v.leave()
	i, err := v.pool.get(ctx, patience)
	if err != nil {
		return Report{}, err
	}
	report, fault := i.score(ctx, b, scores)
	i.idle = report.Ended
	if fault != nil || !i.renew() {
		starved := i.memory.denied
		i.close()
		v.pool.drop(fault == nil)
		if fault != nil && starved {
			return report, ErrMemory
		}
	} else {
		v.pool.put(i)
	}
	if fault != nil {
		return report, fault
	}
	return report, nil
}

// Instances is how many instances there are, in use or not.
func (v *Version) Instances() int { return v.pool.size() }

// Close lets running and waiting batches end, then frees the sandboxes, and the code unless other versions share it. Later batches fail
// with ErrClosed. It may be called again.
func (v *Version) Close() error {
	v.end(false)
	<-v.drained
	v.freed.Do(func() {
		v.options.Memory.leave(v)
		for i := v.pool.evict(); i != nil; i = v.pool.evict() {
			i.close()
		}
		v.failure = v.compiled.Close(v.ctx)
	})
	return v.failure
}

// Retire has later batches fail with ErrClosed, unless the version is in use or closing. After true comes Close, which does not wait.
func (v *Version) Retire() bool { return v.end(true) }

// end begins closing, if it did not begin before; with idle only when no one is in the version.
func (v *Version) end(idle bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closing || idle && v.users > 0 {
		return false
	}
	v.closing = true
	if v.users == 0 {
		close(v.drained)
	}
	return true
}

func (v *Version) enter() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closing {
		return false
	}
	v.users++
	return true
}

func (v *Version) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.users--
	if v.closing && v.users == 0 {
		close(v.drained)
	}
}

// score runs one batch through the guest.
func (i *instance) score(ctx context.Context, b *abi.Batch, scores []float64) (Report, *Fault) {
	v := i.version
	fuel := v.options.Limits.FuelPerBatch + v.budget*int64(b.Rows)
	i.begin(ctx, fuel, v.options.Limits.Deadline, b.Now, b.Seed)
	region, ok := i.module.Memory().Read(i.region, v.layout.Size)
	if !ok {
		return Report{}, &Fault{Kind: Trap, Detail: "the batch region is outside of the memory"}
	}
	i.words.load(b.Dictionary)
	fill(region, &v.layout, b, &i.words, v.unwritten)
	i.arm(fuel)

	i.stack[0] = uint64(i.region)
	err := i.score0.CallWithStack(i.ctx, i.stack[:])

	c := &i.call
	ended := v.options.Clock()
	report := Report{Duration: ended - c.began, Ended: ended, Fuel: i.used(), Pages: i.module.Memory().Size() >> 16}
	report.Logs, report.LogsDropped = c.log.end()
	if c.counted {
		report.Counters = append([]float64(nil), c.counters...)
	}
	if err != nil {
		return report, i.classify(err)
	}
	if code := int32(uint32(i.stack[0])); code != 0 {
		return report, &Fault{Kind: Status, Code: code, Detail: lastOf(report.Logs)}
	}
	// The memory may have grown, which moves it.
	if region, ok = i.module.Memory().Read(i.region+v.layout.Scores, b.Rows*8); !ok {
		return report, &Fault{Kind: Trap, Detail: "the batch region is outside of the memory"}
	}
	report.Skipped, report.Unwritten = readScores(scores, region)
	if report.Unwritten == len(scores) && len(scores) > 0 {
		return report, &Fault{Kind: Unwritten, Detail: "quern_score returned 0 and wrote no score"}
	}
	return report, nil
}

// readScores takes the scores out of the guest's memory and counts those that are no score.
func readScores(scores []float64, memory []byte) (skipped, unwritten int) {
	copy(bytesOf(scores), memory)
	for _, score := range scores {
		if score != score {
			if math.Float64bits(score) == abi.NotWritten {
				unwritten++
			} else {
				skipped++
			}
		}
	}
	return skipped, unwritten
}
