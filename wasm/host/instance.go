package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/manifest"
)

// instance is one sandbox: a memory with the module's code over it. One goroutine uses it at a time.
type instance struct {
	version *Version
	ctx     *guestContext
	module  api.Module
	score0  api.Function
	region  uint32 // where the batch region begins
	stack   [2]uint64

	fuel, slice, depth api.MutableGlobal // nil when the module is not metered
	snapshot           *snapshot         // the state to restore after each batch; nil for pooled
	memory             *mapping
	idle               time.Duration // when its last batch ended, by the clock of the options
	words              words
	call               call
}

// call is the host's state of one call, while the guest runs and no longer.
type call struct {
	ctx      context.Context
	starting bool
	began    time.Duration
	deadline time.Duration
	budget   int64 // fuel given to the module
	hostFuel int64 // left for the host's work for it
	owed     int64 // host fuel used since the deadline was looked at
	ticks    int
	fault    *Fault
	clock    guestClock
	chance   uint64
	log      log
	counters []float64
	counted  bool
}

// guestContext carries the instance to the functions that its guest calls.
type guestContext struct {
	context.Context
	instance *instance
}

type instanceKey struct{}

// Value finds the instance, and the values of the context below.
func (c *guestContext) Value(key any) any {
	if key == (instanceKey{}) {
		return c.instance
	}
	return c.Context.Value(key)
}

// start makes an instance and brings it to where it can score. The error is a *Fault of kind Init or Stopped when the
// guest failed, ErrMemory when there was no memory for it.
func (v *Version) start(ctx context.Context) (*instance, error) {
	i := &instance{version: v, memory: &mapping{pages: v.options.pages, budget: v.options.Memory}}
	i.ctx = &guestContext{v.ctx, i}
	i.call.counters = make([]float64, len(v.options.Manifest.Counters))
	i.begin(ctx, v.options.Limits.FuelForInit, v.options.Limits.InitDeadline, 0, 0)
	i.call.starting = true
	least := v.compiled.Module.ExportedMemories()[abi.ExportMemory].Min()
	if !i.memory.reserve(int64(least) << 16) { // the engine wants its first memory for sure
		return nil, ErrMemory
	}
	module, err := v.compiled.Runtime.InstantiateModule(experimental.WithMemoryAllocator(i.ctx, i.memory), v.compiled.Module, v.config)
	if err != nil {
		i.memory.Free() // the engine does not free the memory of an instance that it failed to make
		return nil, &Fault{Kind: Init, Cause: Trap, Detail: firstLine(err)}
	}
	i.module = module
	if err := i.prepare(); err != nil {
		i.close()
		if i.memory.denied {
			return nil, ErrMemory
		}
		return nil, err
	}
	i.call.starting = false
	i.idle = v.options.Clock()
	if v.options.Manifest.State == manifest.Reset {
		if !i.memory.reserveCopy() {
			i.close()
			return nil, ErrMemory
		}
		i.snapshot = i.take()
	}
	return i, nil
}

func (i *instance) prepare() error {
	var err error
	if i.fuel, err = i.meter(instrument.FuelExport, nil); err == nil {
		i.slice, err = i.meter(instrument.SliceExport, err)
		i.depth, err = i.meter(instrument.DepthExport, err)
	}
	if err != nil {
		return err
	}
	i.arm(i.call.budget)
	if err := i.run(abi.ExportInitialize, nil); err != nil {
		return err
	}
	config := i.version.options.Config
	if i.module.ExportedFunction(abi.ExportInit) != nil {
		at, err := i.room(uint32(len(config)))
		if err != nil {
			return err
		}
		if !i.module.Memory().Write(at, config) {
			return &Fault{Kind: Init, Cause: Trap, Detail: "quern_alloc gave room outside of the memory"}
		}
		status := []uint64{uint64(at), uint64(len(config))}
		if err := i.run(abi.ExportInit, status); err != nil {
			return err
		}
		if code := int32(uint32(status[0])); code != 0 {
			return &Fault{Kind: Init, Cause: Status, Code: code, Detail: i.call.log.last()}
		}
	}
	layout := &i.version.layout
	if i.region, err = i.room(layout.Size); err != nil {
		return err
	}
	region, ok := i.module.Memory().Read(i.region, layout.Size)
	if !ok {
		return &Fault{Kind: Init, Cause: Trap, Detail: "quern_alloc gave room outside of the memory"}
	}
	layout.Start(region)
	i.score0 = i.module.ExportedFunction(abi.ExportScore)
	return nil
}

// meter finds one of the counters.
func (i *instance) meter(name string, before error) (api.MutableGlobal, error) {
	g, ok := i.module.ExportedGlobal(name).(api.MutableGlobal)
	if before != nil || i.version.options.Unmetered && !ok {
		return nil, before
	}
	if !ok || g.Type() != api.ValueTypeI64 {
		return nil, errors.New("host: the module has no fuel counter; it must go through wasm/instrument")
	}
	return g, nil
}

// room asks the guest for n bytes, aligned. It asks for more than it needs, so that any allocator fits.
func (i *instance) room(n uint32) (uint32, error) {
	arguments := []uint64{uint64(n + abi.Align)}
	if err := i.run(abi.ExportAlloc, arguments); err != nil {
		return 0, err
	}
	at := uint32(arguments[0])
	if at == 0 || at > math.MaxUint32-n-abi.Align || at+n+abi.Align > i.module.Memory().Size() {
		return 0, &Fault{Kind: Init, Cause: Trap,
			Detail: fmt.Sprintf("quern_alloc(%d) gave %d, which is no room within the memory", n+abi.Align, at)}
	}
	return (at + abi.Align - 1) &^ (abi.Align - 1), nil
}

// run calls an export during the start, when it is there; results overwrite the arguments.
func (i *instance) run(name string, arguments []uint64) error {
	f := i.module.ExportedFunction(name)
	if f == nil {
		return nil
	}
	if len(arguments) == 0 {
		arguments = make([]uint64, 1)
	}
	if err := f.CallWithStack(i.ctx, arguments); err != nil {
		fault := i.classify(err)
		if fault.Kind == Stopped {
			return fault
		}
		fault.Kind, fault.Cause = Init, fault.Kind
		fault.Detail = strings.TrimSuffix(name+": "+fault.Detail+"; "+i.call.log.last(), "; ")
		return fault
	}
	return nil
}

// begin forgets the call before and sets the limits of the next one.
func (i *instance) begin(ctx context.Context, fuel int64, deadline time.Duration, now int64, seed uint64) {
	c := &i.call
	o := &i.version.options
	i.memory.denied = false
	c.ctx, c.fault = ctx, nil
	c.budget, c.hostFuel, c.owed, c.ticks = fuel, fuel, 0, 0
	c.began, c.deadline = o.Clock(), deadline
	c.clock.set(now, o.Manifest.State == manifest.Pooled)
	c.chance = seed
	c.log.begin(o.LogLevel, o.Limits.LogLines, o.Limits.LogLineBytes)
	if c.counted {
		clear(c.counters)
	}
	c.counted = false
}

// arm fills the counters: the first slice is handed out at once, so that a short call never ticks.
func (i *instance) arm(budget int64) {
	if i.fuel == nil {
		return
	}
	fuel, slice := instrument.Options{Slice: i.version.options.Limits.Slice}.Arm(budget)
	i.fuel.Set(uint64(fuel))
	i.slice.Set(uint64(slice))
	i.depth.Set(uint64(i.version.options.Limits.Depth))
}

// used is the fuel that the call has taken so far.
func (i *instance) used() int64 {
	if i.fuel == nil {
		return 0
	}
	c := &i.call
	left := max(0, int64(i.fuel.Get())) + max(0, int64(i.slice.Get()))
	return max(0, c.budget-left) + c.budget - max(0, c.hostFuel)
}

// classify says what an error of a call means.
func (i *instance) classify(err error) *Fault {
	switch {
	case i.call.fault != nil:
		return i.call.fault
	case i.fuel != nil && int64(i.fuel.Get()) < 0:
		return &Fault{Kind: Fuel, Detail: fmt.Sprintf("more than %d units", i.call.budget)}
	case i.depth != nil && int64(i.depth.Get()) < 0:
		return &Fault{Kind: Depth, Detail: fmt.Sprintf("more than %d calls within calls", i.version.options.Limits.Depth)}
	}
	return &Fault{Kind: Trap, Detail: firstLine(err)}
}

// firstLine is the reason of a trap without the addresses below it, which mean nothing outside of the process.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSuffix(line, " (recovered by wazero)")
}

func (i *instance) close() {
	if i.module != nil {
		_ = i.module.Close(i.ctx) // it takes the instance off the runtime's list and frees its memory, and cannot fail
	}
}

// snapshot is all state of an instance that a batch may change: its memory and its mutable globals. The counters of fuel and depth are
// set before every batch anyway.
type snapshot struct {
	memory  []byte
	globals []api.MutableGlobal
	values  []uint64
}

// take remembers an instance as it is.
func (i *instance) take() *snapshot {
	memory, _ := i.module.Memory().Read(0, i.module.Memory().Size())
	s := &snapshot{memory: append([]byte(nil), memory...)}
	for _, state := range i.version.options.Globals {
		if g, ok := i.module.ExportedGlobal(state.Export).(api.MutableGlobal); ok {
			s.globals = append(s.globals, g)
			s.values = append(s.values, g.Get())
		}
	}
	return s
}

// renew makes the instance ready for the next batch. It returns false if the instance cannot be used again: its state must be fresh,
// or its memory has grown, which cannot be undone.
func (i *instance) renew() bool {
	if i.version.options.Manifest.State == manifest.Fresh {
		return false
	}
	if i.snapshot == nil {
		return true
	}
	memory := i.module.Memory()
	if int(memory.Size()) != len(i.snapshot.memory) {
		return false
	}
	memory.Write(0, i.snapshot.memory)
	for k, g := range i.snapshot.globals {
		g.Set(i.snapshot.values[k])
	}
	return true
}

// Kind is the kind of the guest's fault; it is a metric's value.
type Kind string

// The kinds of faults.
const (
	Fuel      Kind = "fuel"      // the budget is used up
	Deadline  Kind = "deadline"  // the time is
	Depth     Kind = "depth"     // too many calls within calls
	Trap      Kind = "trap"      // unreachable, a division by zero, an access outside of memory, abort
	Status    Kind = "status"    // quern_score returned something else than 0
	Exit      Kind = "exit"      // the guest ended itself, as a panic of a Go guest does
	Unwritten Kind = "unwritten" // it returned 0 and wrote no score at all
	Init      Kind = "init"      // it failed before its first batch, for the Cause
	Stopped   Kind = "stopped"   // not its own fault: the caller or the server stopped it
)

// Fault is the error of a guest that failed. The instance is gone; the version can be used on.
type Fault struct {
	Kind   Kind
	Cause  Kind   // of Init: the kind of the failure
	Detail string // for people
	Code   int32  // of Status and Exit
}

// Is says that a plugin that was stopped did nothing wrong: its caller gave up, or the server stops.
func (f *Fault) Is(target error) bool {
	return target == context.Canceled && f.Kind == Stopped
}

func (f *Fault) Error() string {
	text := "host: plugin fault: " + string(f.Kind)
	if f.Cause != "" {
		text += " (" + string(f.Cause) + ")"
	}
	if f.Kind == Status || f.Kind == Exit || f.Cause == Status || f.Cause == Exit {
		text += fmt.Sprintf(" %d", f.Code)
	}
	if f.Detail != "" {
		text += ": " + f.Detail
	}
	return text
}

// ErrClosed is the error of a version that is closing: take the one that replaced it.
var ErrClosed = errors.New("host: the version is closed")
