package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/api"
)

var pluginNames = []string{
	"native_ns", "ns_per_candidate/*", "reserve_inner_p50", "reserve_through_plugin_p50", "reserve_through_score_p50",
	"hostile_batch_p50", "hostile_batch_max", "reserve_idle_p99", "reserve_beside_hostile_p99", "activate_p99", "restart_12_plugins",
}

// pluginScale is how large the backlog of the suite is and how often everything is measured.
type pluginScale struct {
	submissions int
	chunks      uint32 // of each
	timing      timing
	blocks      int    // of 32 windows each, per language
	hostile     int    // reserves per hostile plugin
	beside      timing // of reserves beside each hostile plugin
	activations int
	restarts    int
	guests      int // in Go, beside ten small ones, over a restart; 0 leaves out whatever needs a toolchain
}

var largePlugins = pluginScale{
	submissions: largeSubmissions, chunks: largeChunks, timing: fullTiming, blocks: 400, hostile: 30,
	beside: timing{warm: 1000, samples: 30_000, hold: 1000}, activations: 300, restarts: 7, guests: 2,
}

// scoringBed is an engine with plugins.
type scoringBed struct {
	*bed
	held *plugins.Catalogue
	took time.Duration // opening the catalogue, until every plugin scores
}

// openScoring opens the engine and its plugins under a name, as the server does. Nothing throttles the plugins, because the figures are
// about the time that they take.
func (r *run) openScoring(ctx context.Context, name string) (*scoringBed, error) {
	limits := plugins.DefaultLimits()
	limits.CPUShare = 64
	limits.Host.StartWait = 0 // a batch is measured with the start that it waits for
	began := time.Now()
	held, err := plugins.New(plugins.Options{Dir: filepath.Join(r.dir, name+"-compiled"), Child: r.compiler, Now: time.Now, Limits: limits})
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	b, err := r.openWith(ctx, name, held)
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	began = time.Now()
	if err := held.Open(b.PluginStore(), b.Engine); err != nil {
		return nil, errors.Join(err, held.Close(), b.close())
	}
	held.Start(ctx) // a server does it beside what it serves
	return &scoringBed{bed: b, held: held, took: took + time.Since(began)}, nil
}

func (b *scoringBed) close() error { return errors.Join(b.held.Close(), b.bed.close()) }

// use uploads a module and activates it.
func (b *scoringBed) use(ctx context.Context, module []byte, err error) (string, error) {
	if err != nil {
		return "", err
	}
	v, _, err := b.held.Versions.Upload(ctx, plugins.Upload{Module: module})
	if err != nil {
		return "", fmt.Errorf("uploading a plugin: %w", err)
	}
	_, err = b.held.Rollout.Activate(ctx, v.Name, api.PluginSelection{Version: v.SHA256}, plugins.Change{})
	return v.Name, err
}

func pluginSuite(ctx context.Context, r *run) error { return pluginFigures(ctx, r, largePlugins) }

func pluginFigures(ctx context.Context, r *run, scale pluginScale) error {
	b, err := r.openScoring(ctx, "plugins")
	if err != nil {
		return err
	}
	m := &pluginRun{run: r, scoringBed: b, guests: newGuests(r.dir), scale: scale}
	defer func() { m.close() }()
	for _, step := range []func(context.Context) error{m.candidates, m.reserves, m.hostiles, m.activations, m.restart} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

type pluginRun struct {
	*run
	*scoringBed
	guests *guests
	scale  pluginScale
}

// The comparison of examples/plugins/compare as a formula, with the context's value written out.
const comparedFormula = `(priority*10 + age*0.001 - attempts*5 + 1000/(1 + available)` +
	` - 0.5*inflight("tenant")*inflight("tenant") + meta("cost_ms", 0)*0.25)` +
	` * if(meta.model == "mistral", 2, 1) - if(limit("tenant") == 0, 1000000, 0)`

// comparedRow is a candidate of the comparison, as Go would have it.
type comparedRow struct {
	priority, age, attempts, available, inflight, cost, limit int64
	model                                                     uint32
}

// comparedNatively is the same in Go, over structs. The conversions keep the compiler from joining a product and a sum into one rounding,
// which WebAssembly does not do.
func comparedNatively(rows []comparedRow, warm uint32, scores []float64) {
	for i := range rows {
		c := &rows[i]
		busy := float64(c.inflight)
		s := float64(float64(c.priority)*10) + float64(float64(c.age)*0.001) - float64(float64(c.attempts)*5) +
			1000/(1+float64(c.available)) - float64(0.5*busy*busy) + float64(float64(c.cost)*0.25)
		if c.model == warm {
			s *= 2
		}
		if c.limit == 0 {
			s -= 1e6
		}
		scores[i] = s
	}
}

// comparedWindow is the rows as a window with these columns.
func comparedWindow(rows []comparedRow, warm uint32, reads []strategy.Column) *strategy.Window {
	w := &strategy.Window{Rows: len(rows), Want: 1, Seed: 1, Dictionary: []string{"llama", "mistral", "whisper"}}
	for _, c := range reads {
		var v strategy.Values
		for i := range rows {
			row := &rows[i]
			switch c.Property {
			case strategy.MetaString:
				v.Words = append(v.Words, row.model)
			case strategy.ContextString:
				v.Words = []uint32{warm}
			case strategy.MetaInt:
				v.Numbers, v.Present = append(v.Numbers, row.cost), append(v.Present, true)
			case strategy.Attempts:
				v.Counts = append(v.Counts, uint32(row.attempts))
			case strategy.Available:
				v.Counts = append(v.Counts, uint32(row.available))
			case strategy.InFlight:
				v.Counts = append(v.Counts, uint32(row.inflight))
			default:
				v.Numbers = append(v.Numbers, map[strategy.Property]int64{
					strategy.Priority: row.priority, strategy.Age: row.age, strategy.LimitOf: row.limit,
				}[c.Property])
			}
		}
		w.Columns = append(w.Columns, v)
	}
	return w
}

// contender is one way to compute the scores of the comparison.
type contender struct {
	name  string
	score func() error
	best  time.Duration // of a block
}

// candidates measures the cost of a candidate, from the engine's columns to the scores with the books kept. It takes turns with native Go
// in short blocks, and the fastest block counts. Other programs on the machine only make blocks slower, so the fastest is the nearest to
// the cost of the work.
func (m *pluginRun) candidates(ctx context.Context) error {
	const windows = 32
	rnd := rand.New(rand.NewPCG(1, 2))
	rows := make([]comparedRow, strategy.DefaultWindow)
	for i := range rows {
		rows[i] = comparedRow{
			priority: rnd.Int64N(10), age: rnd.Int64N(1e7), attempts: rnd.Int64N(3), available: 1 + rnd.Int64N(50), inflight: rnd.Int64N(9),
			cost: rnd.Int64N(1000), limit: rnd.Int64N(12) - 1, model: 1 + rnd.Uint32N(3),
		}
	}
	const warm = 2 // mistral
	want, scores := make([]float64, len(rows)), make([]float64, len(rows))
	comparedNatively(rows, warm, want)
	all := []*contender{{name: "native_ns", score: func() error { comparedNatively(rows, warm, scores); return nil }}}
	blocks, err := m.contenders(ctx)
	if err != nil {
		return err
	}
	for name, block := range blocks {
		scorer, ready := m.held.Scorer(block)
		if !ready {
			return fmt.Errorf("nothing scores for %s", name)
		}
		w := comparedWindow(rows, warm, scorer.Reads())
		all = append(all, &contender{name: "ns_per_candidate/" + name, score: func() error { return scorer.Score(ctx, w, scores) }})
	}
	slices.SortFunc(all[1:], func(a, b *contender) int { return len(a.name) - len(b.name) })
	for range m.scale.blocks {
		for _, c := range all {
			began := time.Now()
			for range windows {
				if err := c.score(); err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
			}
			if took := time.Since(began); c.best == 0 || took < c.best {
				c.best = took
			}
			if !slices.Equal(scores, want) {
				return fmt.Errorf("%s gives other scores than native Go", c.name)
			}
			clear(scores)
		}
	}
	for _, c := range all {
		m.add(c.name, float64(c.best.Nanoseconds())/windows/float64(len(rows)), "ns")
		if c != all[0] {
			m.over("native_ns")
		}
	}
	return nil
}

// contenders are those that can be had here.
func (m *pluginRun) contenders(ctx context.Context) (map[string]*strategy.Scored, error) {
	x, err := strategy.ParseExpression(comparedFormula)
	if err != nil {
		return nil, err
	}
	blocks := map[string]*strategy.Scored{"score": {Expression: x}}
	if m.scale.guests == 0 {
		return blocks, nil
	}
	for _, language := range []struct {
		name, tool string
		build      func(context.Context) ([]byte, error)
	}{
		{"go", "go", func(ctx context.Context) ([]byte, error) { return m.guests.golang(ctx, "compare/go") }},
		{"c", "clang", m.guests.c},
	} {
		if why := m.guests.missing(language.tool); why != "" {
			m.progress("without the plugin in " + language.name + ": " + why)
			continue
		}
		m.progress("the plugin in " + language.name)
		module, err := language.build(ctx)
		name, err := m.use(ctx, module, err)
		if err != nil {
			return nil, err
		}
		blocks[language.name] = &strategy.Scored{Plugin: name}
	}
	return blocks, nil
}

// Eight columns, of which four change from reserve to reserve.
const eightColumns = `priority*10 - attempts*5 + min(age_s/60, 30) - inflight("company")*2 + meta("tier", 0) + available/total - skipped`

// reserves is reserve(1) through a small plugin and through the same formula as a Score, beside the strategy inside alone.
func (m *pluginRun) reserves(ctx context.Context) error {
	m.progress(fmt.Sprintf("%d submissions of %d chunks each", m.scale.submissions, m.scale.chunks))
	if err := m.load(ctx, m.scale.submissions, m.scale.chunks); err != nil {
		return err
	}
	module, err := formula("eight", "1.0.0", eightColumns)
	if _, err := m.use(ctx, module, err); err != nil {
		return err
	}
	for _, c := range []reserveCase{
		{name: "reserve_inner_p50", strategy: `OldestFirst`},
		{name: "reserve_through_plugin_p50", strategy: `Plugin("eight", window=256, OldestFirst)`},
		{name: "reserve_through_score_p50", strategy: `Score(` + eightColumns + `, OldestFirst)`},
	} {
		got, err := m.time(ctx, m.scale.timing, c)
		if err != nil {
			return err
		}
		m.add(c.name, micro(quantile(got.sorted, 0.5)), "us")
		if c.name != "reserve_inner_p50" {
			m.over("reserve_inner_p50")
		}
	}
	stats, err := m.held.Observations.Stats("eight")
	if err == nil && stats.Fallbacks > 0 {
		err = fmt.Errorf("%d reserves fell through the plugin, and none should", stats.Fallbacks)
	}
	return err
}

// hostiles is a whole reserve(1) through each plugin that never ends, which the strategy behind it answers.
func (m *pluginRun) hostiles(ctx context.Context) error {
	m.progress("hostile plugins")
	idle, err := m.time(ctx, m.scale.beside, oldestFirst)
	if err != nil {
		return err
	}
	worst := time.Duration(0)
	var all, beside []time.Duration
	for name, bad := range hostiles() {
		module, err := hostile(name, bad)
		if _, err := m.use(ctx, module, err); err != nil {
			return err
		}
		if _, err := m.held.Rollout.PutSettings(name, api.PluginSettings{Hold: plugins.HoldClosed}, plugins.Change{}); err != nil {
			return err
		}
		got, err := m.time(ctx, timing{samples: m.scale.hostile, hold: 1},
			reserveCase{name: name, strategy: `OrElse(Plugin("` + name + `", OldestFirst), OldestFirst)`})
		if err != nil {
			return err
		}
		all = append(all, got.sorted...)
		m.progress(fmt.Sprintf("%s: median %v, worst %v", name, quantile(got.sorted, 0.5), got.sorted[len(got.sorted)-1]))
		worst = max(worst, got.sorted[len(got.sorted)-1])
		stats, err := m.held.Observations.Stats(name)
		if err != nil {
			return err
		}
		if faults := sum(stats.Faults); faults != uint64(m.scale.hostile) {
			return fmt.Errorf("%s failed in %d of %d batches: %v", name, faults, m.scale.hostile, stats.Faults)
		}
		if beside, err = m.beside(ctx, name, beside); err != nil {
			return err
		}
		if _, err := m.held.Rollout.Deactivate(name, plugins.Change{}); err != nil {
			return err
		}
	}
	slices.Sort(all)
	slices.Sort(beside)
	m.add("hostile_batch_p50", milli(quantile(all, 0.5)), "ms")
	m.add("hostile_batch_max", milli(worst), "ms")
	m.add("reserve_idle_p99", micro(quantile(idle.sorted, 0.99)), "us")
	m.add("reserve_beside_hostile_p99", micro(quantile(beside, 0.99)), "us")
	m.over("reserve_idle_p99")
	return nil
}

var oldestFirst = reserveCase{name: "oldest_first", strategy: `OldestFirst`}

// beside adds what reserves without a plugin take while another consumer asks the hostile one all the time.
func (m *pluginRun) beside(ctx context.Context, name string, all []time.Duration) ([]time.Duration, error) {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		var err error
		for asking.Err() == nil && err == nil {
			_, err = m.time(ctx, timing{samples: 1, hold: 1},
				reserveCase{name: name, strategy: `OrElse(Plugin("` + name + `", OldestFirst), OldestFirst)`})
		}
		ended <- err
	}()
	got, err := m.time(ctx, m.scale.beside, oldestFirst)
	stop()
	return append(all, got.sorted...), errors.Join(err, <-ended)
}

func sum(counts map[string]uint64) (total uint64) {
	for _, n := range counts {
		total += n
	}
	return total
}

// activations goes back and forth between two versions; each change is durable when it returns.
func (m *pluginRun) activations(ctx context.Context) error {
	m.progress("activating and rolling back")
	for _, version := range []string{"1.0.0", "2.0.0"} {
		module, err := formula("switched", version, "priority*"+version[:1])
		if _, err := m.use(ctx, module, err); err != nil {
			return err
		}
	}
	times := make([]time.Duration, 0, m.scale.activations)
	for i := range m.scale.activations {
		began := time.Now()
		var err error
		if i%2 == 0 {
			_, err = m.held.Rollout.Rollback(ctx, "switched", plugins.Change{})
		} else {
			_, err = m.held.Rollout.Activate(ctx, "switched", api.PluginSelection{Version: "2.0.0"}, plugins.Change{})
		}
		times = append(times, time.Since(began))
		if err != nil {
			return err
		}
	}
	slices.Sort(times)
	m.add("activate_p99", milli(quantile(times, 0.99)), "ms")
	return nil
}

// restart measures how much ten small plugins and two in Go add to a start from the cache: reading them, and opening them until each
// could score.
func (m *pluginRun) restart(ctx context.Context) error {
	if err := m.close(); err != nil {
		return err
	}
	b, err := m.openScoring(ctx, "restart")
	if err != nil {
		return err
	}
	m.scoringBed = b
	names := []string{}
	for i := range 10 {
		module, err := formula(fmt.Sprintf("small-%d", i), "1.0.0", fmt.Sprintf("%s + %d", eightColumns, i))
		name, err := m.use(ctx, module, err)
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	for _, source := range []string{"compare/go", "deadline-first"}[:m.scale.guests] {
		if why := m.guests.missing("go"); why != "" {
			m.progress("without a restart with plugins in Go: " + why)
			return nil
		}
		m.progress("another plugin in Go")
		module, err := m.guests.golang(ctx, source)
		name, err := m.use(ctx, module, err)
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	var times []time.Duration
	for range m.scale.restarts {
		if err := m.close(); err != nil {
			return err
		}
		if b, err = m.openScoring(ctx, "restart"); err != nil {
			return err
		}
		m.scoringBed = b
		times = append(times, b.took)
		for _, name := range names {
			if p, err := b.held.Plugins.Get(name); err != nil || p.State != "active" {
				return errors.Join(err, fmt.Errorf("after a restart %s is %s", name, p.State))
			}
		}
	}
	slices.Sort(times)
	m.add("restart_12_plugins", quantile(times, 0.5).Seconds(), "s")
	return nil
}
