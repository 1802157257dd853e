package shard

import (
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// empty is the answer when a plan yields nothing now: why.
func (m *machine) empty(q *Request, now queue.Time) Reserved {
	if saturated, limited := m.limited(q.Plan, q.Limited); limited {
		return Reserved{Reason: queue.AllLimited, Limited: saturated}
	}
	const looked = 64
	next := queue.Time(0)
	for i, d := range m.due {
		if i == looked {
			break
		}
		r := m.liveSeq(d.seq)
		if r == nil || !(d.whole && r.parked || !d.whole && r.tries[d.index] != nil && r.tries[d.index].waiting) {
			continue
		}
		if matches(q.Plan, r.meta()) && (next == 0 || d.at < next) {
			next = d.at
		}
	}
	if next != 0 {
		return Reserved{Reason: queue.NotYetDue, RetryAfter: max(next.Sub(now), time.Millisecond)}
	}
	return Reserved{Reason: queue.Nothing}
}

// limited says whether some branch would yield if there were no limits, and names up to `most` values that are at theirs.
func (m *machine) limited(plan *strategy.Plan, most int) (saturated []queue.Saturated, limited bool) {
	for i := range plan.Branches {
		v := m.backlog.View(&plan.Branches[i])
		if v == nil || !v.Gated() {
			continue
		}
		limited = true
		if most == 0 {
			return nil, true
		}
		if saturated == nil {
			saturated = make([]queue.Saturated, 0, most)
		}
		v.Saturated(func(s queue.Saturated) bool {
			// A value that several branches or tenants are held back by is named once, with the tightest limit.
			at := slices.IndexFunc(saturated, func(known queue.Saturated) bool { return known.MetaEntry == s.MetaEntry })
			switch {
			case at >= 0:
				saturated[at].Limit = min(saturated[at].Limit, s.Limit)
			case len(saturated) < most:
				saturated = append(saturated, s)
			}
			return len(saturated) < most
		})
	}
	return saturated, limited
}

func matches(plan *strategy.Plan, meta queue.Meta) bool {
	for i := range plan.Branches {
		none := plan.Branches[i].Leaves(func(leaf *strategy.Branch) bool {
			for _, f := range leaf.Filters {
				if value, there := meta.Find(f.Key); !there || value != f.Value {
					return true
				}
			}
			return false
		})
		if !none {
			return true
		}
	}
	return false
}
