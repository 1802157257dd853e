package engine

// A reserve over several shards. For each branch of the plan, one after the other, the shards' heads are merged
// (package merge) until there are enough chunks. A reserve by Random goes by weights that an earlier one found, if they are
// fresh (sharded_heads.go). A plan that admits one group only goes to the shard of that group as it is. When no shard has
// anything the call waits in all of them.
//
// A shard that does not serve gives nothing, and stalls nothing. The call fails only if no shard serves.

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/merge"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// Reserve hands chunks of all shards to a consumer. The reservations are appended to dst.
func (s *Sharded) Reserve(ctx context.Context, r ReserveRequest, dst []queue.Reservation) (ReserveResult, error) {
	one, err := s.one()
	if err == nil {
		err = validReserve(&r, one.config.Load())
	}
	if err != nil {
		return ReserveResult{Reservations: dst}, err
	}
	return s.reserve(ctx, &r, dst)
}

func (s *Sharded) reserve(ctx context.Context, r *ReserveRequest, dst []queue.Reservation) (ReserveResult, error) {
	all, whole, refused := s.serving(r.Plan)
	if len(all) == 0 {
		return ReserveResult{Reservations: dst}, refused
	}
	if whole {
		return all[0].Reserve(ctx, *r, dst)
	}
	if err := mergeable(r.Plan); err != nil {
		return ReserveResult{Reservations: dst}, err
	}
	m := newMerging(ctx, s, all, r, dst)
	var over <-chan time.Time
	for {
		m.take()
		if m.err != nil || len(m.got) > m.from || r.Wait == 0 {
			return m.result()
		}
		if over == nil {
			timer := time.NewTimer(r.Wait)
			defer timer.Stop()
			over = timer.C
		}
		if !m.wait(over) {
			return m.result()
		}
	}
}

// serving are the shards that a plan can get something from and that serve. If that is none, refused says why. whole says
// that the plan can get nothing from any other shard, whether it serves or not.
func (s *Sharded) serving(plan *strategy.Plan) (list []*Queue, whole bool, refused error) {
	all, refused := s.shards()
	numbers, few := s.asked(plan)
	for i, q := range all {
		if !few || slices.Contains(numbers, i+1) {
			if q != nil {
				list = append(list, q)
			}
		}
	}
	if few && len(list) == 0 { // no submission has named these groups yet, or their shards do not serve
		for _, number := range numbers {
			if _, err := s.shard(number); err != nil {
				return nil, false, err
			}
		}
		if q, err := s.one(); err == nil {
			return []*Queue{q}, true, nil
		}
	}
	return list, few && len(numbers) == 1 && len(list) == 1, refused
}

// asked are the shards of the groups that a plan names; few: it admits no others.
func (s *Sharded) asked(plan *strategy.Plan) (numbers []int, few bool) {
	few = len(plan.Branches) > 0
	for i := range plan.Branches {
		plan.Branches[i].Leaves(func(leaf *strategy.Branch) bool {
			at := slices.IndexFunc(leaf.Filters, func(f strategy.Filter) bool { return f.Key == queue.GroupKey && f.Index() != nil })
			if few = few && at >= 0; few {
				for _, value := range leaf.Filters[at].Index() {
					if n := s.groups.of(value.String()); n > 0 && !slices.Contains(numbers, n) {
						numbers = append(numbers, n)
					}
				}
			}
			return few
		})
	}
	return numbers, few
}

// mergeable refuses what several shards cannot do exactly: limits and shares by another key than the group, and scores.
func mergeable(plan *strategy.Plan) error {
	for i := range plan.Branches {
		switch br := &plan.Branches[i]; {
		case br.Scored != nil:
			return notMerged("%s ranks candidates of one shard only", br.Scored.String())
		case br.Fair != "":
			return notMerged("Fair(%q, ...) shares out the chunks of one shard only", br.Fair)
		}
	}
	return countsInOne(plan)
}

// countsInOne refuses a plan with limits that one shard cannot keep, as others have chunks of the same values, too.
func countsInOne(plan *strategy.Plan) (err error) {
	for i := range plan.Branches {
		plan.Branches[i].Leaves(func(leaf *strategy.Branch) bool {
			for _, l := range leaf.Limits {
				if l.Percent > 0 {
					err = queue.Invalid("/strategy", "has a limit of %s, a share of the chunks in flight in a queue that "+
						"has several shards, which count apart; give a number", l.String())
				} else if l.Key != queue.GroupKey {
					err = notMerged("%s counts chunks that several shards have", l.String())
				}
			}
			if leaf.Fewest != "" && leaf.Fewest != queue.GroupKey {
				err = notMerged("PreferDistinct(%q, ...) counts chunks that several shards have", leaf.Fewest)
			}
			return err == nil
		})
	}
	return err
}

func notMerged(what string, args ...any) error {
	return queue.Invalid("/strategy", "cannot be kept exactly, because the queue has several shards: "+what+". Use the key %q, "+
		"or select one group, as in SelectOnly(%q, \"NAME\", ...)", append(args, queue.GroupKey, queue.GroupKey)...)
}

// merging is one reserve over several shards.
type merging struct {
	ctx    context.Context
	of     *Sharded
	asked  *ReserveRequest
	shards []*Queue
	plans  []*strategy.Plan // one per branch
	rnd    *rand.Rand

	from int // of got: what the caller had before
	got  []queue.Reservation
	err  error

	heads [][]backlog.Head // of each branch, those of the shards
	mute  []bool           // a shard failed, or gave nothing although it was its turn
	turns []merge.Turn

	pause time.Duration // before the next try after one that got nothing of what there was
}

func newMerging(ctx context.Context, s *Sharded, all []*Queue, r *ReserveRequest, dst []queue.Reservation) *merging {
	m := &merging{ctx: ctx, of: s, asked: r, shards: all, from: len(dst), got: dst, mute: make([]bool, len(all)),
		rnd: rand.New(rand.NewPCG(s.e.options.Seed(), s.e.options.Seed()))}
	for i := range r.Plan.Branches {
		plan := r.Plan
		if len(r.Plan.Branches) > 1 {
			plan = &strategy.Plan{Branches: r.Plan.Branches[i : i+1]}
		}
		m.plans = append(m.plans, plan)
		m.heads = append(m.heads, make([]backlog.Head, len(all)))
	}
	return m
}

// take takes what there is. It fails if no shard serves.
func (m *merging) take() {
	branch := &m.asked.Plan.Branches[0]
	randomly := branch.Order == strategy.Random && branch.Fewest == ""
	if randomly && m.draw(branch) {
		return
	}
	m.err = nil
	clear(m.mute)
	for i := range m.shards {
		m.look(i)
	}
	if randomly && !slices.Contains(m.mute, true) {
		m.of.heads.note(m.asked.Plan, &looked{at: m.of.e.options.Now(), shards: m.shards, heads: slices.Clone(m.heads[0])})
	}
	for b := range m.plans {
		m.follow(b)
	}
	if m.err != nil && !m.silent() {
		m.err = nil // the others serve
	}
}

// drawsMost is how often a call draws by numbers that are remembered, before it looks at the shards.
const drawsMost = 3

// draw takes from a Random branch by what an earlier call knows of the shards. It says whether that was enough.
func (m *merging) draw(branch *strategy.Branch) bool {
	heads := m.of.heads.recall(m.asked.Plan, m.shards, m.of.e.options.Now())
	for range drawsMost {
		if heads == nil || m.err != nil {
			return false
		}
		m.turns = merge.Next(branch, heads, m.room(), m.rnd, m.turns[:0])
		for i := range m.turns {
			m.ask(0, &m.turns[i])
		}
		if len(m.turns) == 0 || m.room() == 0 {
			return m.room() == 0
		}
	}
	return false
}

// silent says that all shards have failed.
func (m *merging) silent() bool { return !slices.Contains(m.mute, false) }

// look asks a shard for the heads of all branches.
func (m *merging) look(i int) {
	heads, err := m.shards[i].shard.Heads(m.ctx, m.asked.Plan, nil)
	if err != nil {
		m.mute[i], m.err = true, err
	}
	for b := range m.heads {
		if m.heads[b][i] = (backlog.Head{}); err == nil {
			m.heads[b][i] = heads[b]
		}
	}
}

// emptyDraws is after how many rounds of draws without a chunk a branch counts as empty. A draw falls on nothing one time
// in five at most, so this means that other callers took everything.
const emptyDraws = 64

// follow takes from one branch until there are enough chunks or no shard has any.
func (m *merging) follow(b int) {
	branch, failed := &m.plans[b].Branches[0], 0
	for m.room() > 0 && failed < emptyDraws {
		m.turns = merge.Next(branch, m.heads[b], m.room(), m.rnd, m.turns[:0])
		if len(m.turns) == 0 {
			return
		}
		before := len(m.got)
		for i := range m.turns {
			m.turn(b, &m.turns[i])
		}
		if failed++; len(m.got) > before {
			failed = 0
		}
	}
}

// room is how many more chunks the call may have.
func (m *merging) room() int { return m.asked.Max - (len(m.got) - m.from) }

// turn asks one shard, and looks at its heads again. One that gave nothing although its head came first is left out: it is
// held back by something that heads do not show, such as the grace after a restart.
func (m *merging) turn(b int, t *merge.Turn) {
	before := len(m.got)
	m.ask(b, t)
	if m.room() == 0 {
		return
	}
	if m.look(t.Shard); m.mute[t.Shard] || len(m.got) == before && t.Weight == 0 {
		m.heads[b][t.Shard] = backlog.Head{}
	}
}

// ask takes from one shard as far as its turn goes.
func (m *merging) ask(b int, t *merge.Turn) {
	request := m.request(m.plans[b], t.Most)
	request.Turn = &t.Turn
	m.reserveFrom(m.shards[t.Shard], t.Shard, request)
}

func (m *merging) request(plan *strategy.Plan, most int) machine.Request {
	r := m.asked
	return machine.Request{Plan: plan, Max: most, Consumer: r.Consumer, Context: r.Context, Timeout: r.Timeout,
		Limited: min(max(r.Limited, 0), queue.MaxLimited), Answered: len(m.got) - m.from}
}

// reserveFrom reserves in one shard, and counts it there.
func (m *merging) reserveFrom(q *Queue, i int, request machine.Request) machine.Reserved {
	from, started := len(m.got), q.e.options.Now()
	got, err := q.shard.Reserve(m.ctx, request, m.got)
	if err != nil {
		m.mute[i], m.err = true, err
		return got
	}
	q.counts.reserve.Observe(q.e.options.Now().Sub(started).Seconds())
	m.got = got.Reservations
	q.counts.strategies.add(m.asked.Strategy, len(m.got)-from)
	q.inUse.add(m.asked.Plan, m.asked.Consumer, len(m.got)-from)
	return got
}

// wait waits until one of the shards may have something, and says whether to ask again.
func (m *merging) wait(over <-chan time.Time) (again bool) {
	listening := shard.Listening{Request: m.request(m.asked.Plan, m.asked.Max), Signs: make(chan []machine.Pick, len(m.shards))}
	defer listening.Stop()
	for _, q := range m.shards {
		heads, err := q.shard.Heads(m.ctx, m.asked.Plan, &listening)
		if err == nil && slices.ContainsFunc(heads, func(h backlog.Head) bool { return h != backlog.Head{} }) {
			return m.rest(over)
		}
	}
	m.pause = 0
	retry := time.NewTimer(machine.RetryScored)
	defer retry.Stop()
	select {
	case <-listening.Signs:
	case <-retry.C:
	case <-over:
		return false
	case <-m.ctx.Done():
		m.err = m.ctx.Err()
		return false
	}
	return true
}

// rest is the time until the next try when a shard has something that this call did not get. Most often it came this very
// moment, so the first rest is none. Orders of an operator or the grace after a restart may hold it back for longer.
func (m *merging) rest(over <-chan time.Time) (again bool) {
	timer := time.NewTimer(m.pause)
	defer timer.Stop()
	m.pause = min(max(2*m.pause, 5*time.Millisecond), machine.RetryScored)
	select {
	case <-timer.C:
		return true
	case <-over:
	case <-m.ctx.Done():
		m.err = m.ctx.Err()
	}
	return false
}

// result is the answer. Without chunks it has the reason of the shard that may have something first. Each shard is asked
// for its reason by a reserve, which may find what has just come.
func (m *merging) result() (ReserveResult, error) {
	out := ReserveResult{Reservations: m.got, Unusable: m.asked.Unusable}
	if m.err != nil && len(m.got) == m.from {
		return out, m.err
	}
	for i, q := range m.shards {
		if m.mute[i] || len(m.got) > m.from {
			continue
		}
		why := m.reserveFrom(q, i, m.request(m.asked.Plan, m.asked.Max))
		if why.Reason != queue.NotEmpty {
			q.empty.count(why.Reason)
		}
		if sooner(&why, &out) {
			out.Reason, out.RetryAfter = why.Reason, why.RetryAfter
		}
		if room := m.asked.Limited - len(out.Limited); room > 0 {
			out.Limited = append(out.Limited, why.Limited[:min(room, len(why.Limited))]...)
		}
	}
	if out.Reservations = m.got; len(m.got) > m.from {
		out.Reason, out.RetryAfter = queue.NotEmpty, 0
	}
	if out.Reason != queue.AllLimited {
		out.Limited = nil
	}
	return out, nil
}

// sooner says whether a shard may have something before those that were asked so far.
func sooner(why *machine.Reserved, than *ReserveResult) bool {
	switch {
	case than.Reason == queue.NotEmpty:
		return true
	case why.Reason == queue.Nothing || why.Reason == queue.NotEmpty:
		return false
	case than.Reason == queue.Nothing:
		return true
	case why.RetryAfter == 0 || than.RetryAfter == 0:
		return why.RetryAfter > 0
	}
	return why.RetryAfter < than.RetryAfter
}
