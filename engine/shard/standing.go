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
	earlier  uint64 // available chunks that an earlier branch admits
	same     uint64 // of those that this branch is the first to admit: under an order before it, under Random all
	others   uint64 // Fair: the same, of other tenants
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
	p := place{branches: plan.Branches[:branch+1], index: index}
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
	return p.standing(list[branch].Tenant, met >= shown), nil
}

func (p *place) standing(tenant *backlog.Tenant, whole bool) *Standing {
	last := len(p.branches) - 1
	at := &Standing{Branch: last, Ahead: p.same, Whole: whole}
	if p.branches[last].Order == strategy.Random {
		at.Among = max(p.same, 1)
		at.Ahead = (at.Among - 1) / 2
	}
	if tenant != nil && tenant.Share > 0 {
		// Next is what all get until the tenant's next chunk is done with; each further one takes 1/share.
		turn := math.Max(0, math.Round(tenant.Next-1)) + math.Round(float64(at.Ahead)/tenant.Share)
		at.Ahead = min(uint64(turn), at.Ahead+p.others)
	}
	at.Ahead += p.earlier
	return at
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
		case !sameTenant(br.Fair, x, sub):
			p.others += uint64(x.Available())
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

func sameTenant(key queue.MetaKey, x, y *backlog.Submission) bool {
	switch key {
	case "":
		return true
	case strategy.SubmissionKey:
		return x == y
	}
	mine, _, has := x.Find(key)
	other, _, hasToo := y.Find(key)
	return has == hasToo && mine == other
}
