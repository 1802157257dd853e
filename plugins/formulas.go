package plugins

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/plugins/score"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/scan"
)

// scoreName is the name under which Score blocks keep their books, all together. No plugin can have it.
const scoreName = "_score"

const (
	// maxFormulas bounds the compiled formulas that are kept. Their memory, 64 KiB or more of code and as much of a sandbox, counts as that
	// of plugins.
	maxFormulas = 256
	// A caller may bring a new formula every formulaEvery, after a burst of formulaBurst: compiling takes some hundred microseconds.
	formulaEvery = 50 * time.Millisecond
	formulaBurst = 2 * time.Second
)

// errTooMany is why a formula is not compiled now.
var errTooMany = errors.New("its caller sends more than 20 new formulas a second; put what changes into metadata or context")

// formulas are those of Score blocks, compiled. The server makes their modules itself, from a tree that it has checked, so
// they are compiled in this process; they go through scan and instrumentation like all others.
type formulas struct {
	scorers  *scorers
	metrics  *metrics
	openings openings    // formulas that are being compiled, beside the mutex
	anyone   access.Pace // of formulas from callers without a token
	again    access.Pace // of dropped formulas that a strategy wants that was checked before

	mu     sync.Mutex
	plugin *plugin
	open   map[string]*list.Element
	recent list.List // of *formula, the one that was used last in front
}

// formula is one that is kept.
type formula struct {
	text   string
	scorer *scorer
}

func (f *formulas) check(ctx context.Context, b *strategy.Scored) (*strategy.Unavailable, error) {
	pace := &f.anyone
	if token := access.Of(ctx).Token; token != nil && token.Use != nil {
		pace = &token.Use.Formulas
	}
	s, err := f.get(ctx, b, pace)
	switch {
	case errors.Is(err, errTooMany):
		return resting(b, err.Error()), nil
	case errors.Is(err, host.ErrMemory):
		return resting(b, "all plugins together have the memory that they may have (plugin-memory)"), nil
	case errors.Is(err, errStarting):
		return resting(b, starting), nil
	case err != nil:
		return nil, err
	}
	return s.plugin.resting(b, s.active.use, f.scorers.now), nil
}

func (f *formulas) scorer(b *strategy.Scored) (strategy.Scorer, bool) {
	s, err := f.get(context.Background(), b, &f.again)
	if err != nil {
		f.missing(err)
		return nil, false
	}
	if !s.ready() {
		s.plugin.totals.fallbacks.add(fellBreaker)
		return nil, false
	}
	return s, true
}

// missing notes why a formula did not score.
func (f *formulas) missing(err error) {
	f.mu.Lock()
	f.begun()
	p := f.plugin
	f.mu.Unlock()
	why := fellBusy
	switch {
	case errors.Is(err, errStarting):
		why = fellStarting
	case errors.Is(err, host.ErrMemory):
		why = fellMemory
		f.scorers.open.starved(p, err)
	case !errors.Is(err, errTooMany):
		why = fellFault
		f.scorers.log.Error("a formula cannot be opened", "error", err)
	}
	p.totals.fallbacks.add(why)
}

// get gives the scorer of a formula. One that is new is charged to pace and compiled, once for all that ask for it.
func (f *formulas) get(ctx context.Context, b *strategy.Scored, pace *access.Pace) (*scorer, error) {
	text := b.Expression.String()
	if s := f.find(text); s != nil {
		return s, nil
	}
	one := f.openings.join(useKey{config: text}, func() error { return f.add(text, b.Expression, pace) })
	if one == nil {
		return nil, errStarting
	}
	if err := one.wait(ctx, 0); err != nil {
		return nil, err
	}
	if s := f.find(text); s != nil {
		return s, nil
	}
	return nil, errStarting // dropped since
}

// find gives the scorer of a formula that is kept; nil: it is not.
func (f *formulas) find(text string) *scorer {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.open[text]
	if at == nil {
		return nil
	}
	f.recent.MoveToFront(at)
	return at.Value.(*formula).scorer
}

// add compiles a formula and keeps it, in the place of the one that was not used for the longest time if there are as many as there may be.
func (f *formulas) add(text string, x *strategy.Expression, pace *access.Pace) error {
	if f.find(text) != nil { // it came meanwhile
		return nil
	}
	if pace.Take(f.scorers.clock(), formulaEvery, formulaBurst) > 0 {
		return errTooMany
	}
	u, err := f.openFormula(x)
	if err != nil {
		return err
	}
	if old := f.keep(text, u); old != nil {
		f.openings.group.Go(func() { f.scorers.open.close(old.active.use) }) // it waits for batches that run
	}
	return nil
}

// keep keeps a formula and gives the one that had to go for it; nil: none.
func (f *formulas) keep(text string, u *use) (old *scorer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun()
	f.open[text] = f.recent.PushFront(&formula{text, newScorer(f.scorers, f.plugin, u)})
	if len(f.open) <= maxFormulas {
		return nil
	}
	last := f.recent.Remove(f.recent.Back()).(*formula)
	delete(f.open, last.text)
	return last.scorer
}

func (f *formulas) openFormula(x *strategy.Expression) (*use, error) {
	limits, open := &f.scorers.limits, f.scorers.open
	module, read := score.Compile(x)
	m := &manifest.Manifest{
		Name: scoreName, Version: "1.0.0", Columns: read, State: manifest.Pooled, Take: manifest.All,
		WindowDefault: strategy.DefaultWindow, WindowMax: strategy.MaxWindow,
		Pages: limits.Scan.MemoryPages, FuelPerCandidate: manifest.DefaultFuelEach,
	}
	columns, wrong := columnsOf(m)
	if len(wrong) > 0 {
		return nil, fmt.Errorf("plugins: a formula reads what there is not: %s %s", wrong[0].Pointer, wrong[0].Detail)
	}
	report, violations := scan.Scan(module, limits.Scan)
	if len(violations) > 0 {
		return nil, &queue.Error{Code: queue.CodeInvalid, Message: "The formula is too large.", Err: errors.New(violations[0].String())}
	}
	rewritten, err := instrument.Instrument(module, report, limits.rewriting(m))
	if err != nil {
		return nil, fmt.Errorf("plugins: %w", err)
	}
	ctx := context.Background()
	compiled, err := open.compiler.InProcess(ctx, rewritten.Bytes)
	if err != nil {
		return nil, err
	}
	v := &version{PluginVersion: queue.PluginVersion{Name: scoreName, Version: m.Version}, manifest: m, route: columns}
	v.state.Store(&state{name: api.PluginReady})
	u := open.newUse(useKey{config: x.String()}, v)
	u.needless = func() bool { return f.retire(u) }
	return u, open.start(ctx, u, &code{compiled, rewritten.Globals, report.HiddenState}, []byte("{}"), limits.Host)
}

// retire drops a formula because memory is short, if no one is in it: its next user has it compiled again.
func (f *formulas) retire(u *use) bool {
	f.mu.Lock()
	at := f.open[u.key.config]
	gone := at != nil && at.Value.(*formula).scorer.active.use == u && u.host.Retire()
	if gone {
		f.recent.Remove(at)
		delete(f.open, u.key.config)
	}
	f.mu.Unlock()
	if gone {
		f.scorers.open.close(u)
	}
	return gone
}

// books are those of all formulas, nil before the first.
func (f *formulas) books() *plugin {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.plugin
}

// kept is how many are compiled.
func (f *formulas) kept() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open)
}

// begun makes the books with the first formula. The mutex is held.
func (f *formulas) begun() {
	if f.open == nil {
		f.open = map[string]*list.Element{}
	}
	if f.plugin == nil {
		f.plugin = newPlugin(scoreName, &f.scorers.limits)
		f.metrics.watch(f.plugin)
	}
}

func (f *formulas) close() error {
	f.openings.close()
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, at := range f.open {
		errs = append(errs, at.Value.(*formula).scorer.active.use.host.Close())
	}
	f.open = nil
	f.recent.Init()
	return errors.Join(errs...)
}
