package plugins

import (
	"context"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/abi"
)

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
