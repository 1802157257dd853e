package machine

// Why a reserve got nothing. The reason is for people, and for clients that decide when to come back. So it names the
// first thing that has to change: a rule, a limit (with values), a time, or nothing at all. It looks at a bounded
// number of timers and shelved chunks, so an answer is sometimes less precise than it could be, but never slow.

import (
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Empty is the answer with the reason why a plan yields nothing now. Reasons come in the order of an operator's
// choices. A rule was set by a person and explains everything below it; a limit or a rate can be raised; a time only
// has to pass:
//
//	paused ─► skipped by scores ─► restart grace ─► rate ─► limits ─► not yet due ─► nothing
//
// Only a pause of the whole queue comes first. A rule about one value is looked for after the limits, because limits
// may hold back other work.
func (m *Machine) Empty(q *Request, now queue.Time) Reserved {
	halted := m.Backlog.Rules.Halted()
	if halted && m.Joined.Rules.HoldsBack(q.Plan) {
		return Reserved{Reason: queue.Paused}
	}
	if Scores(q.Plan) {
		views, _ := m.Views(q.Plan, nil)
		if len(m.Backlog.Window(views, 1, nil, m.Rnd, nil)) > 0 {
			// there are candidates, but the scorer rejected all
			return Reserved{Reason: queue.AllSkipped, RetryAfter: RetryScored}
		}
	}
	if saturated, limited := m.limited(q.Plan, q.Limited); limited {
		if m.ValueLimits.Grace != nil {
			return Reserved{Reason: queue.RestartGrace,
				RetryAfter: max(m.ValueLimits.Grace.Until.Sub(now), time.Millisecond)}
		}
		views, _ := m.Views(q.Plan, nil)
		if at, behind := nextRate(views); behind {
			after := (at - m.Backlog.Values.Rates.Now() + int64(time.Millisecond) - 1) / int64(time.Millisecond)
			return Reserved{Reason: queue.RateLimited, RetryAfter: time.Duration(max(after, 1)) * time.Millisecond}
		}
		return Reserved{Reason: queue.AllLimited, Limited: saturated}
	}
	if !halted && m.Joined.Rules.HoldsBack(q.Plan) {
		return Reserved{Reason: queue.Paused}
	}
	// The timers are a heap: its first entries are roughly the earliest. A look at all of them would make an empty
	// answer cost more than a full one.
	const looked = 64
	next := queue.Time(0)
	for _, kind := range []Kind{KindRetry, KindRunAt} {
		timers := m.Lifecycle.Timers[kind]
		for _, d := range timers[:min(looked, len(timers))] {
			r := m.LiveSeq(d.Seq)
			if r != nil && d.holds(kind, r) && Matches(q.Plan, r.Meta()) && (next == 0 || d.At < next) {
				next = d.At
			}
		}
	}
	seen := 0
	for _, d := range m.Suspects.shelf[:min(16*looked, len(m.Suspects.shelf))] { // many may be moot
		r, t := m.Suspects.chunk(d)
		if t == nil {
			continue
		}
		if Matches(q.Plan, r.Meta()) {
			if again := now.Add(retryShelved); next == 0 || again < next {
				next = again
			}
			break
		}
		if seen++; seen == looked {
			break
		}
	}
	if next != 0 {
		return Reserved{Reason: queue.NotYetDue, RetryAfter: max(next.Sub(now), time.Millisecond)}
	}
	return Reserved{Reason: queue.Nothing}
}

// retryShelved is when a reserve may ask again for which there are shelved chunks.
const retryShelved = time.Second

// limited says whether some branch of a plan that yields nothing would yield chunks without limits, its own or an
// operator's, and names up to `most` values that are at their limits. A value that holds several branches or tenants
// back is named once, with the loosest limit, because that has to be raised. Later branches usually are the looser
// ones, so they go first; a limit that a later branch does not have is not in the way.
func (m *Machine) limited(plan *strategy.Plan, most int) (saturated []queue.Saturated, limited bool) {
	views, _ := m.Views(plan, nil)
	var branches []*strategy.Branch
	EachStanding(plan, func(br *strategy.Branch) { branches = append(branches, br) })
	for i, v := range slices.Backward(views) {
		if v == nil || !v.HeldByLimits() {
			continue
		}
		limited = true
		if len(saturated) == most {
			break
		}
		if slices.ContainsFunc(branches[i+1:], func(later *strategy.Branch) bool {
			return later.Fair == "" && branches[i].Fair == "" && later.Loosens(branches[i])
		}) {
			continue
		}
		if saturated == nil {
			saturated = make([]queue.Saturated, 0, most)
		}
		v.Saturated(func(s queue.Saturated) bool {
			at := slices.IndexFunc(saturated, func(known queue.Saturated) bool {
				return known.MetaEntry == s.MetaEntry
			})
			if at < 0 {
				saturated = append(saturated, s)
			} else {
				saturated[at].Limit = max(saturated[at].Limit, s.Limit)
			}
			return len(saturated) < most
		})
	}
	return saturated, limited
}

// nextRate is when the first rate of a plan's views lets a chunk be taken again, in nanoseconds; false: no rate holds
// chunks back.
func nextRate(views []*backlog.View) (next int64, behind bool) {
	for _, v := range views {
		if v == nil {
			continue
		}
		if at, held := v.NextRate(); held && (!behind || at < next) {
			next, behind = at, true
		}
	}
	return next, behind
}

// Matches says whether the filters of some branch let a submission with this meta through.
// Limits are left out: they are counters of this moment, and the question is about work that is ready later.
func Matches(plan *strategy.Plan, meta queue.Meta) bool {
	for i := range plan.Branches {
		none := plan.Branches[i].Leaves(func(leaf *strategy.Branch) bool {
			return slices.ContainsFunc(leaf.Filters, func(f strategy.Filter) bool {
				return !f.Admits(meta.Find(f.Key))
			})
		})
		if !none {
			return true
		}
	}
	return false
}

// RetryScored is how often a waiting reserve asks again that Rechecks.
const RetryScored = time.Second

// Scores says whether a branch of the plan ranks by scores.
func Scores(plan *strategy.Plan) bool {
	for i := range plan.Branches {
		if plan.Branches[i].Scored != nil {
			return true
		}
	}
	return false
}
