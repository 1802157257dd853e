package plugins

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/plugins/score"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/scan"
)

// scoreName is the name under which Score blocks keep their books, all together. No plugin can have it.
const scoreName = "_score"

// maxFormulas bounds the compiled formulas that are kept.
const maxFormulas = 256

// formulas are those of Score blocks, compiled. The server makes their modules itself, from a tree that it has checked, so
// they are compiled in this process; they go through scan and instrumentation like all others.
type formulas struct {
	scorers *scorers
	metrics *metrics

	mu     sync.Mutex
	plugin *plugin
	open   map[string]*scorer
	order  []string // the one that came first is the first to go
}

func (f *formulas) check(b *strategy.Scored) (*strategy.Unavailable, error) {
	s, err := f.find(b)
	if err != nil {
		return nil, err
	}
	return s.plugin.resting(b, s.active.use, f.scorers.now), nil
}

func (f *formulas) scorer(b *strategy.Scored) (strategy.Scorer, bool) {
	s, err := f.find(b)
	if err != nil {
		f.scorers.log.Error("a formula cannot be opened", "error", err)
		return nil, false
	}
	if !s.ready() {
		s.plugin.totals.fallbacks.add(fellBreaker)
		return nil, false
	}
	return s, true
}

// find gives the scorer of a formula, making it if need be, which takes some hundred microseconds.
func (f *formulas) find(b *strategy.Scored) (*scorer, error) {
	text := b.Expression.String()
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.open[text]; s != nil {
		return s, nil
	}
	u, err := f.openFormula(b.Expression)
	if err != nil {
		return nil, err
	}
	if f.open == nil {
		f.open = map[string]*scorer{}
		f.plugin = newPlugin(scoreName, &f.scorers.limits)
		f.metrics.watch(f.plugin)
	}
	s := newScorer(f.scorers, f.plugin, u)
	f.open[text] = s
	f.order = append(f.order, text)
	if len(f.order) <= maxFormulas {
		return s, nil
	}
	old := f.open[f.order[0]]
	delete(f.open, f.order[0])
	f.order = slices.Delete(f.order, 0, 1)
	return s, old.active.use.host.Close()
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
	compiled, err := compile.InProcess(ctx, rewritten.Bytes, uint32(limits.Scan.MemoryPages))
	if err != nil {
		return nil, err
	}
	v := &version{PluginVersion: queue.PluginVersion{Name: scoreName, Version: m.Version}, manifest: m, route: columns}
	v.state.Store(&state{name: api.PluginReady})
	u := open.newUse(useKey{config: x.String()}, v)
	return u, open.start(ctx, u, compiled, rewritten, report, []byte("{}"), limits.Host)
}

// books are those of all formulas, nil before the first.
func (f *formulas) books() *plugin {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.plugin
}

func (f *formulas) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, s := range f.open {
		errs = append(errs, s.active.use.host.Close())
	}
	f.open, f.order = nil, nil
	return errors.Join(errs...)
}
