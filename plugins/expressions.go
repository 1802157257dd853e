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
	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/scan"
)

// scoreName is the name under which Score blocks keep their books, all together. No plugin can have it.
const scoreName = "_score"

// maxExpressions bounds the compiled formulas that are kept.
const maxExpressions = 256

// expressions are the formulas of Score blocks, compiled. The server makes their modules itself, from a tree that it has checked, so
// they are compiled in this process; they go through scan and instrumentation like all others.
type expressions struct {
	mu     sync.Mutex
	plugin *plugin
	open   map[string]*scorer
	order  []string // the one that came first is the first to go
}

func (e *expressions) check(c *Catalogue, b *strategy.Scored) (*strategy.Unavailable, error) {
	s, err := e.find(c, b)
	if err != nil {
		return nil, err
	}
	return s.plugin.resting(b, s.active.use, c.options.Now), nil
}

func (e *expressions) scorer(c *Catalogue, b *strategy.Scored) (strategy.Scorer, bool) {
	s, err := e.find(c, b)
	if err != nil {
		c.log.Error("a formula cannot be opened", "error", err)
		return nil, false
	}
	if !s.ready() {
		s.plugin.totals.fallbacks.add(fellBreaker)
		return nil, false
	}
	return s, true
}

// find gives the scorer of a formula, making it if need be, which takes some hundred microseconds.
func (e *expressions) find(c *Catalogue, b *strategy.Scored) (*scorer, error) {
	text := b.Expression.String()
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.open[text]; s != nil {
		return s, nil
	}
	u, err := c.openExpression(b.Expression)
	if err != nil {
		return nil, err
	}
	if e.open == nil {
		e.open = map[string]*scorer{}
		e.plugin = newPlugin(scoreName, &c.limits)
		c.metrics.watch(e.plugin)
	}
	s := newScorer(c, e.plugin, u)
	e.open[text] = s
	e.order = append(e.order, text)
	if len(e.order) <= maxExpressions {
		return s, nil
	}
	old := e.open[e.order[0]]
	delete(e.open, e.order[0])
	e.order = slices.Delete(e.order, 0, 1)
	return s, old.active.use.host.Close()
}

func (c *Catalogue) openExpression(x *strategy.Expression) (*use, error) {
	module, read := score.Compile(x)
	m := &manifest.Manifest{
		Name: scoreName, Version: "1.0.0", Columns: read, State: manifest.Pooled, Take: manifest.All,
		WindowDefault: strategy.DefaultWindow, WindowMax: strategy.MaxWindow,
		Pages: c.limits.Scan.MemoryPages, FuelPerCandidate: manifest.DefaultFuelEach,
	}
	columns, wrong := columnsOf(m)
	if len(wrong) > 0 {
		return nil, fmt.Errorf("plugins: a formula reads what there is not: %s %s", wrong[0].Pointer, wrong[0].Detail)
	}
	report, violations := scan.Scan(module, c.limits.Scan)
	if len(violations) > 0 {
		return nil, &queue.Error{Code: queue.CodeInvalid, Message: "The formula is too large.", Err: errors.New(violations[0].String())}
	}
	rewritten, err := instrument.Instrument(module, report, c.limits.rewriting(m))
	if err != nil {
		return nil, fmt.Errorf("plugins: %w", err)
	}
	ctx := context.Background()
	compiled, err := compile.InProcess(ctx, rewritten.Bytes, uint32(c.limits.Scan.MemoryPages))
	if err != nil {
		return nil, err
	}
	v := &version{PluginVersion: queue.PluginVersion{Name: scoreName, Version: m.Version}, manifest: m, route: columns,
		state: state{name: Ready}}
	u := c.newUse(useKey{config: x.String()}, v)
	return u, c.start(ctx, u, compiled, rewritten, report, []byte("{}"), c.limits.Host)
}

// books are those of all formulas, nil before the first.
func (e *expressions) books() *plugin {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.plugin
}

func (e *expressions) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, s := range e.open {
		errs = append(errs, s.active.use.host.Close())
	}
	e.open, e.order = nil, nil
	return errors.Join(errs...)
}
