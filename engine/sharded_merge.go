package engine

// One reserve over several shards, of this node and of others (sharded_reserve.go): the heads of a branch are compared,
// package merge says whose turn it is, and that shard is taken from.

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/merge"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// merging is one reserve over several shards.
type merging struct {
	ctx    context.Context
	of     *Sharded
	asked  *ReserveRequest
	shards []source
	plans  []*strategy.Plan // one per branch
	rnd    *rand.Rand

	from  int // of got: what the caller had before
	got   []queue.Reservation
	bytes int // that the answer has: more than none, if it has reservations
	err   error

	heads [][]backlog.Head // of each branch, those of the shards
	mute  []bool           // a shard failed, or gave nothing although it was its turn
	turns []merge.Turn

	pause time.Duration   // before the next try after one that got nothing of what there was
	more  <-chan struct{} // ends the wait: the groups that the plan names may be in other shards
}

func newMerging(ctx context.Context, s *Sharded, all []source, r *ReserveRequest, dst []queue.Reservation) *merging {
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
	m.lookAtAll()
	if randomly && !slices.Contains(m.mute, true) {
		m.of.heads.note(m.asked.Plan, &looked{at: m.of.e.options.Now(), shards: slices.Clone(m.shards), heads: slices.Clone(m.heads[0])})
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

// lookAtAll looks at all shards, at those of other nodes at once.
func (m *merging) lookAtAll() {
	type seen struct {
		heads []backlog.Head
		err   error
	}
	if !slices.ContainsFunc(m.shards, func(of source) bool { _, other := of.(farShard); return other }) {
		for i := range m.shards { // without memory for what is seen
			m.look(i)
		}
		return
	}
	var (
		far   sync.WaitGroup
		found = make([]seen, len(m.shards))
	)
	for i, of := range m.shards {
		look := func() { found[i].heads, found[i].err = m.headsOf(i) }
		if _, other := of.(farShard); other {
			far.Go(look)
		} else {
			look()
		}
	}
	far.Wait()
	for i := range found {
		m.note(i, found[i].heads, found[i].err)
	}
}

// look asks a shard for the heads of all branches.
func (m *merging) look(i int) {
	heads, err := m.headsOf(i)
	m.note(i, heads, err)
}

// headsOf asks a shard for its heads. If its node says that another one serves it by now, that one is asked.
func (m *merging) headsOf(i int) ([]backlog.Head, error) {
	heads, err := m.shards[i].heads(m.ctx, m.asked.Plan)
	if err == nil {
		return heads, nil
	}
	far, other := m.shards[i].(farShard)
	at, is := errors.AsType[*Elsewhere](err)
	if !other || !is || at.URL == "" || at.URL == far.url {
		return heads, err
	}
	far.url = at.URL
	m.shards[i] = far
	return far.heads(m.ctx, m.asked.Plan)
}

// note keeps what a look at a shard has found.
func (m *merging) note(i int, heads []backlog.Head, err error) {
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
	heads := m.ask(b, t)
	if m.room() == 0 {
		return
	}
	if len(heads) > 0 {
		m.heads[b][t.Shard] = heads[0]
	} else {
		m.look(t.Shard)
	}
	if m.mute[t.Shard] || len(m.got) == before && t.Weight == 0 {
		m.heads[b][t.Shard] = backlog.Head{}
	}
}

// ask takes from one shard as far as its turn goes.
func (m *merging) ask(b int, t *merge.Turn) (heads []backlog.Head) {
	request := m.request(m.plans[b], t.Most)
	request.Turn = &t.Turn
	_, heads = m.takeFrom(t.Shard, b, request)
	return heads
}

func (m *merging) request(plan *strategy.Plan, most int) machine.Request {
	r := m.asked
	return machine.Request{Plan: plan, Max: most, Consumer: r.Consumer, Context: r.Context, Timeout: r.Timeout,
		Limited: min(max(r.Limited, 0), queue.MaxLimited), Answered: m.bytes}
}

// takeFrom reserves in one shard.
func (m *merging) takeFrom(i, branch int, request machine.Request) (machine.Reserved, []backlog.Head) {
	got, heads, err := m.shards[i].take(m.ctx, m.asked, branch, request, m.got)
	if err != nil {
		m.mute[i], m.err = true, err
		return got, nil
	}
	for k := range got.Reservations[len(m.got):] {
		m.bytes += 1 + got.Reservations[len(m.got)+k].Bytes()
	}
	m.got = got.Reservations
	return got, heads
}

// wait waits until one of the shards may have something, and says whether to ask again.
func (m *merging) wait(over <-chan time.Time) (again bool) {
	listening := shard.Listening{Request: m.request(m.asked.Plan, m.asked.Max),
		Signs: make(chan []machine.Pick, 2*len(m.shards))}
	defer listening.Stop()
	for _, of := range m.shards {
		own, is := of.(ownShard)
		if !is {
			continue
		}
		heads, err := own.q.shard.Heads(m.ctx, m.asked.Plan, &listening)
		if err == nil && !nothing(heads) {
			return m.rest(over)
		}
	}
	ctx, stop := context.WithCancel(m.ctx)
	var far sync.WaitGroup
	defer func() { // the caller may use its context for something else as soon as it has its answer
		stop()
		far.Wait()
	}()
	atOnce := make(chan struct{}, len(m.shards))
	retry := time.NewTimer(m.listenFar(ctx, &far, listening.Signs, atOnce))
	defer retry.Stop()
	select {
	case <-atOnce:
		return m.rest(over)
	case <-listening.Signs:
		m.pause = 0
	case <-retry.C:
		m.pause = 0
	case <-m.more:
		return false
	case <-over:
		return false
	case <-m.ctx.Done():
		m.err = m.ctx.Err()
		return false
	}
	return true
}

// farRetry is how long a call waits in shards of other nodes before it asks them all again.
const farRetry = 5 * time.Second

// listenFar waits in the shards of other nodes, until ctx ends. Each node sends one sign at most, or says that it has
// something already. The result is after how long the call asks again without a sign.
func (m *merging) listenFar(ctx context.Context, far *sync.WaitGroup, signs chan<- []machine.Pick,
	atOnce chan<- struct{}) time.Duration {
	at := map[string][]int{}
	for _, of := range m.shards {
		if shard, other := of.(farShard); other {
			at[shard.url] = append(at[shard.url], shard.number)
		}
	}
	for url, numbers := range at {
		in := listenAsked{farPlan{m.asked.Plan.Text(), -1}, numbers, m.asked.Max, m.asked.Consumer, farRetry}
		far.Go(func() {
			switch heard, err := m.of.listen(ctx, url, &in); {
			case err != nil || heard.Over:
			case heard.AtOnce:
				atOnce <- struct{}{}
			default:
				signs <- nil
			}
		})
	}
	if len(at) > 0 {
		return farRetry
	}
	return machine.RetryScored
}

func nothing(heads []backlog.Head) bool {
	return !slices.ContainsFunc(heads, func(h backlog.Head) bool { return h != backlog.Head{} })
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
	for i, of := range m.shards {
		if m.mute[i] || len(m.got) > m.from {
			continue
		}
		why, _ := m.takeFrom(i, -1, m.request(m.asked.Plan, m.asked.Max))
		if own, is := of.(ownShard); is && why.Reason != queue.NotEmpty {
			own.q.empty.count(why.Reason)
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
