package shard

import (
	"context"
	"math"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// turns finds out for the fair branches that could hand the chunk out how many tenants come before its own.
func (s *Shard) turns(ctx context.Context, plan *strategy.Plan, list []BranchWhy) error {
	for i := range list {
		w := &list[i]
		if w.Obstacle != NoObstacle || w.Tenant == nil {
			continue
		}
		err := s.eachTenant(ctx, &plan.Branches[i], func(t backlog.Tenant) {
			if t.Info.Tenant != w.Tenant.Info.Tenant && t.Competes() && t.Next < w.Tenant.Next {
				w.Before++
			}
		})
		if err != nil {
			return err
		}
		if w.Before > 0 {
			w.Obstacle = NotItsTurn
		}
	}
	return nil
}

// place counts what comes before a chunk, submission by submission.
type place struct {
	branches []strategy.Branch // of the plan, up to the first that admits the chunk
	index    uint32
	earlier  uint64              // available chunks that an earlier branch admits
	same     uint64              // of those that this branch is the first to admit: under an order before it, under Random all
	others   map[tenantID]uint64 // Fair: what this branch is the first to admit, of other tenants
}

// tenantID names a tenant of a fair branch.
type tenantID struct {
	value queue.MetaValue
	has   bool
}

// standing tells about where the chunk stands with the first branch that admits it. Limits that would be reached on the way
// are not foreseen, nor that what they hold back now may come before it.
func (s *Shard) standing(ctx context.Context, id queue.SubmissionID, index uint32, plan *strategy.Plan, list []BranchWhy) (*Standing, error) {
	branch := 0
	for ; branch < len(list); branch++ {
		if o := list[branch].Obstacle; o == NoObstacle || o == IsHidden || o == NotItsTurn {
			break
		}
	}
	if branch == len(list) {
		return nil, nil
	}
	p := place{branches: plan.Branches[:branch+1], index: index, others: map[tenantID]uint64{}}
	gone := false
	met, shown, err := s.walk(ctx, branch+1, func(x *backlog.Submission) {
		sub := s.m.backlog.ByID(id)
		if gone = gone || sub == nil || !sub.IsAvailable(index); !gone {
			p.count(x, sub)
		}
	})
	if err != nil || gone {
		return nil, err
	}
	at := &Standing{Branch: branch, Ahead: p.same, Whole: met >= shown}
	if p.branches[branch].Order == strategy.Random {
		at.Among = max(p.same, 1)
		at.Ahead = (at.Among - 1) / 2
	}
	if own := list[branch].Tenant; own != nil {
		// By the time that its own tenant is due so many chunks and half of this one, each has got what it is due, or all it has.
		due := (float64(at.Ahead) + 0.5 - own.Lag) / float64(own.Weight)
		got := 0.0
		err = s.eachTenant(ctx, &plan.Branches[branch], func(t backlog.Tenant) {
			if has := p.others[tenantID{t.Value, t.HasValue}]; has > 0 {
				got += min(float64(has), max(0, due*float64(t.Weight)+t.Lag))
			}
		})
		at.Ahead += uint64(math.Round(got))
	}
	at.Ahead += p.earlier
	return at, err
}

// count adds what x has before the chunk of sub.
func (p *place) count(x, sub *backlog.Submission) {
	if x.Available() == 0 {
		return
	}
	for i := range p.branches {
		br := &p.branches[i]
		switch last := i == len(p.branches)-1; {
		case !admits(br, x):
		case !last:
			p.earlier += uint64(x.Available())
			return
		case br.Fair != "" && tenantOf(br.Fair, x) != tenantOf(br.Fair, sub):
			p.others[tenantOf(br.Fair, x)] += uint64(x.Available())
		case br.Order == strategy.Random || x.Before(sub, br.Order):
			p.same += uint64(x.Available())
		case x == sub:
			p.same += uint64(x.AvailableBefore(p.index))
		}
	}
}

// admits says whether the branch's filters and limits let the submission through now.
func admits(br *strategy.Branch, x *backlog.Submission) bool {
	for _, f := range br.Filters {
		if value, _, has := x.Find(f.Key); !has || value != f.Value {
			return false
		}
	}
	for _, l := range br.Limits {
		if _, inFlight, has := x.Find(l.Key); has && inFlight >= l.Max {
			return false
		}
	}
	return true
}

// tenantOf names the submission's tenant as backlog.Tenant does.
func tenantOf(key queue.MetaKey, x *backlog.Submission) tenantID {
	if key == strategy.SubmissionKey {
		return tenantID{queue.StringValue(x.ID().String()), true}
	}
	value, _, has := x.Find(key)
	return tenantID{value, has}
}
