package plugins

import (
	"context"

	"github.com/quern-queue/quern/engine/strategy"
)

// Dry is what would score for a block now, for a question about a strategy.
func (c *Catalogue) Dry(b *strategy.Scored) (strategy.Scorer, error) {
	why, err := c.Check(b)
	if err != nil {
		return nil, err
	}
	if why != nil {
		return nil, why
	}
	var s *scorer
	if b.Expression != nil {
		s, err = c.expressions.find(c, b)
	} else {
		s, _ = c.scorerOf(c.named(b.Plugin), b)
	}
	if err != nil {
		return nil, err
	}
	if s == nil { // closed since the check
		return nil, resting(b, starting)
	}
	return dryScorer{s}, nil
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
