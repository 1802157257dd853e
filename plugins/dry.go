package plugins

import (
	"context"

	"github.com/quern-queue/quern/engine/strategy"
)

// Dry is what would score for a block now, for a question about a strategy.
func (c *Catalogue) Dry(b *strategy.Scored) (strategy.Scorer, error) {
	if b.Expression != nil {
		s, err := c.expressions.find(c, b)
		if err != nil {
			return nil, err
		}
		return dryOf(s, fellBreaker, b)
	}
	if err := c.Check(b); err != nil {
		return nil, err
	}
	if err := c.Inactive(b); err != nil {
		return nil, err
	}
	s, why := c.scorerOf(c.named(b.Plugin), b)
	return dryOf(s, why, b)
}

func dryOf(s *scorer, why fallback, b *strategy.Scored) (strategy.Scorer, error) {
	if s == nil || !s.ready() {
		return nil, unavailable(b, why)
	}
	return dryScorer{s}, nil
}

// unavailable says what keeps a block's plugin from being asked.
func unavailable(b *strategy.Scored, why fallback) error {
	reason := map[fallback]string{
		fellBreaker:  "its breaker is open, or an operator holds it",
		fellInactive: "it is quarantined, or not ready",
		fellStarting: "its sandbox is not ready yet",
	}[why]
	return &strategy.Unavailable{Detail: b.String() + ": " + reason}
}

// dryScorer scores as the scorer would, and keeps no books.
type dryScorer struct{ *scorer }

// Score waits for the questions before it: one at a time takes a sandbox from those who reserve.
func (s dryScorer) Score(ctx context.Context, w *strategy.Window, scores []float64) error {
	s.catalogue.uses.asking.Lock()
	defer s.catalogue.uses.asking.Unlock()
	found, err := dryScores(ctx, s.routeOf(w), w)
	if err != nil {
		return &strategy.Unavailable{Detail: s.plugin.name + " failed on these candidates: " + err.Error()}
	}
	copy(scores, found)
	return nil
}
