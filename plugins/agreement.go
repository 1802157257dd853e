package plugins

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/abi"
)

// agreement is how much a shadow agrees with the active version: means over its last batches, where each new one counts a
// hundredth.
type agreement struct {
	totals totals // of the shadow's batches

	mu           sync.Mutex
	of           useKey
	batches      uint64
	dropped      uint64
	overlap, tau float64
}

const agreementWeight = 0.01

func (a *agreement) add(of useKey, overlap, tau float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of != of {
		a.of, a.batches = of, 0
	}
	a.batches++
	weight := max(agreementWeight, 1/float64(a.batches)) // the first ones are a plain mean
	a.overlap += (overlap - a.overlap) * weight
	a.tau += (tau - a.tau) * weight
}

func (a *agreement) drop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dropped++
}

func (a *agreement) show() (of useKey, batches, dropped uint64, overlap, tau float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of, a.batches, a.dropped, a.overlap, a.tau
}

// overlapOf is the share of the first `want` rows of two rankings that both have, 1 when neither has any.
func overlapOf(a, b []float64, want int) float64 {
	want = max(want, 1)
	first, second := top(a, want), top(b, want)
	most := max(len(first), len(second))
	if most == 0 {
		return 1
	}
	common := 0
	for _, row := range first {
		if slices.Contains(second, row) {
			common++
		}
	}
	return float64(common) / float64(most)
}

// top are the rows that would be taken first, at most this many.
func top(scores []float64, want int) (rows []int) {
	var r strategy.Ranking
	r.Reset(scores)
	for len(rows) < want {
		row, ok := r.Next()
		if !ok {
			break
		}
		rows = append(rows, row)
	}
	return rows
}

const tauRows = 256 // pairs grow with the square: of larger windows every so manyth row is compared

// tauOf is Kendall's tau-b of two lists of scores, over rows that neither skips: 1 for the same order, -1 for the reverse, 0 where there is
// nothing to compare. (M. G. Kendall, The treatment of ties in ranking problems, Biometrika 33, 1945.)
func tauOf(a, b []float64) float64 {
	var x, y []float64
	step := (len(a) + tauRows - 1) / tauRows
	for i := 0; i < len(a); i += max(step, 1) {
		if !math.IsNaN(a[i]) && !math.IsNaN(b[i]) {
			x, y = append(x, a[i]), append(y, b[i])
		}
	}
	var agree, disagree, onlyX, onlyY float64
	for i := range x {
		for j := range i {
			switch dx, dy := sign(x[i], x[j]), sign(y[i], y[j]); {
			case dx*dy > 0:
				agree++
			case dx*dy < 0:
				disagree++
			case dx != 0:
				onlyX++
			case dy != 0:
				onlyY++
			}
		}
	}
	untied := math.Sqrt((agree + disagree + onlyX) * (agree + disagree + onlyY))
	if untied == 0 {
		if onlyX == 0 && onlyY == 0 && len(x) > 0 {
			return 1 // both say that all are equal
		}
		return 0
	}
	return (agree - disagree) / untied
}

func sign(a, b float64) int {
	switch {
	case a > b:
		return 1
	case a < b:
		return -1
	}
	return 0
}

// shadowWorker scores copies of windows with shadows, one after the other, beside what serves. When it cannot follow, windows are
// dropped: a shadow never makes a request wait.
type shadowWorker struct {
	now   func() time.Time
	queue chan shadowed
	done  context.Context
	end   context.CancelFunc
}

// shadowed is a window with the scores that decided.
type shadowed struct {
	scorer *scorer
	window *strategy.Window
	scores []float64
}

func newShadowWorker(env *environment) *shadowWorker {
	w := &shadowWorker{now: env.now, queue: make(chan shadowed, env.limits.ShadowQueue)}
	w.done, w.end = context.WithCancel(context.Background())
	return w
}

// offer hands a window over, or drops it.
func (w *shadowWorker) offer(s *scorer, from *strategy.Window, scores []float64) {
	if !s.shadow.use.breaker.ready(w.now) {
		s.plugin.agreement.drop()
		return
	}
	if len(w.queue) == cap(w.queue) {
		s.plugin.agreement.drop() // before anything is copied; the second look is below
		return
	}
	select {
	case w.queue <- shadowed{s, copyWindow(from, s.shadow.at), slices.Clone(scores)}:
	default:
		s.plugin.agreement.drop()
	}
}

// copyWindow copies the columns that a shadow reads.
func copyWindow(from *strategy.Window, at []int) *strategy.Window {
	out := *from
	out.Sampler = nil // it is about what the active version scored
	out.Columns = make([]strategy.Values, len(from.Columns))
	for _, k := range at {
		if k < len(from.Columns) {
			v := &from.Columns[k]
			out.Columns[k] = strategy.Values{Numbers: slices.Clone(v.Numbers), Counts: slices.Clone(v.Counts),
				Words: slices.Clone(v.Words), Present: slices.Clone(v.Present)}
		}
	}
	out.Dictionary = slices.Clone(from.Dictionary)
	return &out
}

// run works until ctx ends.
func (w *shadowWorker) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.done.Done():
			return
		case one := <-w.queue:
			w.score(ctx, one)
		}
	}
}

func (w *shadowWorker) score(ctx context.Context, one shadowed) {
	s := one.scorer
	theirs := make([]float64, one.window.Rows)
	if err := s.run(ctx, s.shadow, one.window, theirs, abi.FlagShadow); err != nil {
		return // it is in the shadow's books
	}
	if one.window.Sampler != nil {
		one.window.Sampler.Taken(theirs, nil) // it decides nothing
	}
	s.plugin.agreement.add(s.shadow.use.key, overlapOf(one.scores, theirs, one.window.Want), tauOf(one.scores, theirs))
}

func (w *shadowWorker) close() { w.end() }
