package shard

import (
	"cmp"
	"context"
	"slices"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Explained is how a plan stands: its branches, and what it would hand out.
type Explained struct {
	Branches []BranchState
	Picks    []ExplainedPick
}

// BranchState is how the view of one branch stands. Gates are the values of limited keys: Open ones have something to
// give, Shut ones are at their limit, Empty ones have nothing available. Saturated are the shut ones with most in flight.
type BranchState struct {
	Built             bool // before it was asked for this
	Submissions       int  // with available chunks, those under a limit too
	Open, Shut, Empty int
	Saturated         []backlog.Gate
}

// ExplainedPick is a chunk that would be handed out, and what kept each branch before its own from it. The chunks before
// it in this preview count as in flight.
type ExplainedPick struct {
	Previewed
	Skipped []BranchWhy
}

// gateSlice is how many gates one hold of the mutex looks at, topGates how many saturated ones are told.
const (
	gateSlice = 1000
	topGates  = 10
)

// Explain tells how a plan stands, with a preview of up to `most` chunks (1 to MaxPreview) by this seed.
func (s *Shard) Explain(ctx context.Context, plan *strategy.Plan, most int, seed uint64) (Explained, error) {
	x := Explained{Branches: make([]BranchState, len(plan.Branches))}
	s.mu.Lock()
	for i := range plan.Branches {
		x.Branches[i].Built = s.m.backlog.View(&plan.Branches[i]).Built()
	}
	s.mu.Unlock()
	err := s.look(ctx, []*strategy.Plan{plan}, func(views [][]*backlog.View) {
		for i, v := range views[0] {
			x.Branches[i].Submissions = v.Submissions()
		}
		x.Picks = s.m.explainPicks(plan, s.m.preview(views[0], most, seed))
	})
	for i := range plan.Branches {
		if err == nil {
			err = s.countGates(ctx, &plan.Branches[i], &x.Branches[i])
		}
	}
	return x, err
}

func (m *machine) explainPicks(plan *strategy.Plan, picks []Previewed) []ExplainedPick {
	list := make([]ExplainedPick, len(picks))
	taken := map[queue.MetaEntry]uint32{}
	for i, p := range picks {
		list[i] = ExplainedPick{Previewed: p}
		for j := range plan.Branches[:p.Branch] {
			list[i].Skipped = append(list[i].Skipped, m.whyBranch(&plan.Branches[j], p.Meta, taken))
		}
		for _, entry := range p.Meta {
			taken[entry]++
		}
	}
	return list
}

// countGates looks at all gates of a branch's view, slice by slice.
func (s *Shard) countGates(ctx context.Context, br *strategy.Branch, state *BranchState) error {
	for from, more := 0, true; more; more = from != 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.mu.Lock()
		from = s.m.backlog.View(br).Gates(from, gateSlice, state.count)
		s.mu.Unlock()
		slices.SortFunc(state.Saturated, func(a, b backlog.Gate) int {
			return cmp.Or(-cmp.Compare(a.InFlight, b.InFlight), a.Value.Compare(b.Value))
		})
		state.Saturated = state.Saturated[:min(topGates, len(state.Saturated))]
	}
	return nil
}

func (s *BranchState) count(g backlog.Gate) {
	switch {
	case g.InFlight >= g.Max:
		s.Shut++
		s.Saturated = append(s.Saturated, g)
	case g.Empty:
		s.Empty++
	default:
		s.Open++
	}
}
