package engine

// One reserve over several shards, of this node and of others (sharded_reserve.go). It compares the heads of a branch, package merge says
// whose turn it is, and it takes from that shard.

import (
	"cmp"
	"context"
	"fmt"
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
	"github.com/quern-queue/quern/engine/together"
)

// merging is one reserve over several shards.
type merging struct {
	ctx    context.Context
	of     *Sharded
	asked  *ReserveRequest
	shards []source
	plans  []*strategy.Plan // one per branch
	rnd    *rand.Rand

	from  int // of got: those before it are from before this merge
	got   []queue.Reservation
	bytes int // that the answer has: more than none, if it has reservations
	err   error

	heads [][]backlog.Head // of each branch, those of the shards
	mute  []bool           // a shard failed, or gave nothing although it was its turn
	turns []merge.Turn

	cross together.Crossing // what the shards count together for this call
	grace queue.Time        // until then a shard may not know all that consumers hold; 0: all do

	pause time.Duration   // before the next try, after one that got none of the chunks that were there
	more  <-chan struct{} // ends the wait: the groups that the plan names may be in other shards
	grown <-chan struct{} // ends the wait: the queue has more shards
}

func newMerging(ctx context.Context, s *Sharded, all []source, r *ReserveRequest, dst []queue.Reservation) *merging {
	m := &merging{ctx: ctx, of: s, asked: r, shards: all, from: len(dst), got: dst, mute: make([]bool, len(all)),
		rnd: rand.New(rand.NewPCG(s.e.options.Seed(), s.e.options.Seed()))}
	for i := range r.Plan.Branches {
		m.plans = append(m.plans, branchOf(r.Plan, i))
		m.heads = append(m.heads, make([]backlog.Head, len(all)))
	}
	return m
}

// branchOf is one branch of a plan as a plan.
func branchOf(plan *strategy.Plan, i int) *strategy.Plan {
	if len(plan.Branches) == 1 {
		return plan
	}
	return &strategy.Plan{Branches: plan.Branches[i : i+1]}
}

// take takes the chunks that there are. It fails if no shard serves.
func (m *merging) take() {
	if m.randomly() && m.draw() {
		return
	}
	m.err = nil
	clear(m.mute)
	m.lookAtAll()
	m.followAll()
}

// counting calls fn. If the plan limits values that several shards have, the shards count together meanwhile. It does not call fn if that
// is impossible (m.err), or if a shard may not know all reservations yet (m.grace).
func (m *merging) counting(fn func()) (did bool) {
	if !m.cross.Any() {
		fn()
		return true
	}
	var err error
	m.grace, err = m.of.counts.During(m.ctx, &m.cross, m.compared(), func() { fn(); did = true })
	if err != nil {
		m.err = err
	}
	return did
}

// compared is the plan of the call, if the shards are compared by their next chunks.
func (m *merging) compared() *strategy.Plan {
	if m.randomly() || m.fairly() {
		return nil
	}
	return m.asked.Plan
}

// fairly says that a ledger decides by all branches which shard is asked.
func (m *merging) fairly() bool {
	return !slices.ContainsFunc(m.plans, func(plan *strategy.Plan) bool { return plan.Branches[0].Fair == "" })
}

// randomly says that weights are all that the call needs to know of the shards.
func (m *merging) randomly() bool {
	branch := &m.asked.Plan.Branches[0]
	return branch.Order == strategy.Random && branch.Fewest == "" && branch.Fair == ""
}

// followAll takes from the branches, one after the other, by the heads that were looked at.
func (m *merging) followAll() {
	if m.randomly() && !slices.Contains(m.mute, true) {
		m.of.heads.note(m.asked.Plan, &looked{at: m.of.e.options.Now(), shards: slices.Clone(m.shards), heads: slices.Clone(m.heads[0])})
	}
	for b := range m.plans {
		if m.plans[b].Branches[0].Fair != "" {
			m.followFair(b)
		} else {
			m.follow(b)
		}
	}
	if m.err != nil && !m.silent() {
		m.err = nil // the others serve
	}
}

// drawsMost is how often a call draws by numbers that are remembered, before it looks at the shards.
const drawsMost = 3

// draw takes from a Random branch by the weights that an earlier call read. It says whether that was enough.
func (m *merging) draw() bool {
	for range drawsMost {
		if m.err != nil || !m.drawn() {
			return false
		}
		m.askAll(0)
		if len(m.turns) == 0 || m.room() == 0 {
			return m.room() == 0
		}
	}
	return false
}

// drawn makes turns by the weights that an earlier call read. It says whether there are any.
func (m *merging) drawn() bool {
	heads := m.of.heads.recall(m.asked.Plan, m.shards, m.of.e.options.Now())
	m.turns = m.turns[:0]
	if heads != nil {
		m.turns = merge.Next(&m.asked.Plan.Branches[0], heads, m.room(), m.rnd, m.turns)
	}
	return heads != nil
}

// silent says that all shards have failed.
func (m *merging) silent() bool { return !slices.Contains(m.mute, false) }

// lookAtAll looks at all shards, at those of other nodes at once.
func (m *merging) lookAtAll() {
	if m.fairly() {
		return // the ledger asks them for what it needs
	}
	if !slices.ContainsFunc(m.shards, isFar) {
		for i := range m.shards { // without memory for the results
			m.look(i)
		}
		return
	}
	w := m.errands()
	w.asked.looks = m.numbers()
	m.absorbLooks(w, w.do(m.ctx))
}

// numbers are the numbers of the shards.
func (m *merging) numbers() (list []int) {
	for _, of := range m.shards {
		list = append(list, numberOf(of))
	}
	return list
}

// errands are for what the call asks of several nodes at once.
func (m *merging) errands() *errands {
	w := &errands{s: m.of, asked: errandOf(m.asked)}
	w.asked.plan = m.asked.Plan
	return w
}

func (m *merging) absorbLooks(w *errands, err error) {
	for i := range w.done.looked {
		l := &w.done.looked[i]
		if err == nil && l.err == nil && len(l.heads) != len(m.plans) {
			l.err = fmt.Errorf("a shard has %d heads of %d branches", len(l.heads), len(m.plans))
		}
		m.note(i, l.heads, cmp.Or(err, l.err))
	}
}

// look asks a shard for the heads of all branches.
func (m *merging) look(i int) {
	var heads []backlog.Head
	var err error
	if own, is := m.shards[i].(ownShard); is && m.cross.Counts() {
		heads, err = m.of.counts.Look(m.ctx, own.number-1, own.q.shard, m.asked.Plan)
	} else {
		heads, err = m.shards[i].heads(m.ctx, m.asked.Plan)
	}
	m.note(i, heads, err)
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
		m.turnAll(b)
		if failed++; len(m.got) > before {
			failed = 0
		}
	}
}

// room is how many more chunks the call may have.
func (m *merging) room() int { return m.asked.Max - (len(m.got) - m.from) }

// turnAll has all shards take their turns, and looks at their heads again.
func (m *merging) turnAll(b int) {
	got, heads := m.askAll(b)
	for i := range m.turns {
		t := &m.turns[i]
		before := m.heads[b][t.Shard]
		switch {
		case m.room() == 0:
			return
		case len(heads[i]) > 0:
			m.heads[b][t.Shard] = heads[i][0]
		default:
			m.look(t.Shard)
		}
		// A shard that gave nothing although its head came first, and still does, is left out. Something that heads do not show holds it
		// back, such as the grace after a restart. If the head is another one now, the old one was taken by another call, or has reached a
		// limit that counts the other shards: then its turn comes with the new head.
		if m.mute[t.Shard] || got[i] == 0 && t.Weight == 0 && m.heads[b][t.Shard] == before {
			m.heads[b][t.Shard] = backlog.Head{}
		}
	}
}

// askAll takes from the shards whose turns it is. It returns how many chunks each gave, and its next ones, if it reports them. Shards of
// several nodes are asked at once.
func (m *merging) askAll(b int) (got []int, heads [][]backlog.Head) {
	got, heads = make([]int, len(m.turns)), make([][]backlog.Head, len(m.turns))
	if len(m.turns) > 1 && slices.ContainsFunc(m.turns, func(t merge.Turn) bool { return isFar(m.shards[t.Shard]) }) {
		w := m.errands()
		m.addTakes(w, b)
		return m.absorbTakes(w, w.do(m.ctx))
	}
	for i := range m.turns {
		t, before := &m.turns[i], len(m.got)
		if m.cross.Draws && m.comesLater(b, t.Shard) {
			continue
		}
		request := m.request(m.plans[b], t.Most)
		request.Turn = &t.Turn
		_, heads[i] = m.takeFrom(t.Shard, b, request)
		got[i] = len(m.got) - before
	}
	return got, heads
}

// comesLater says that a shard's next chunk has become worse since it was compared: another shard has taken chunks of its
// value meanwhile. Then another shard may come first, and the draw is void.
func (m *merging) comesLater(b, shard int) bool {
	before := m.heads[b][shard].Flight
	_ = m.know(shard, m.compared()) // the next line finds the same error
	m.look(shard)
	return m.heads[b][shard].Flight > before
}

// addTakes adds the turns to errands. They share the room of the answer.
func (m *merging) addTakes(w *errands, b int) {
	n := len(m.turns)
	used := m.bytes + max(0, queue.MaxAnswerBytes-m.bytes)/max(n, 1)*(n-1)
	for i := range m.turns {
		t := &m.turns[i]
		w.asked.takes = append(w.asked.takes, taking{shard: numberOf(m.shards[t.Shard]), branch: b, most: t.Most,
			answered: used, Turn: t.Turn})
	}
}

// absorbTakes keeps what the errands of the turns took.
func (m *merging) absorbTakes(w *errands, err error) (got []int, heads [][]backlog.Head) {
	for i := range w.done.took {
		t, k := &w.done.took[i], m.turns[i].Shard
		if why := cmp.Or(t.err, err); why != nil {
			m.mute[k], m.err = true, why
		}
		m.keep(append(m.got, t.Reservations...))
		got, heads = append(got, len(t.Reservations)), append(heads, t.heads)
	}
	return got, heads
}

// takeLooked takes by the looks of errands that were sent for something else. It says whether there are chunks.
func (m *merging) takeLooked(w *errands) (some bool) {
	m.absorbLooks(w, nil)
	m.followAll()
	return len(m.got) > m.from
}

// keep has the answer have these reservations.
func (m *merging) keep(all []queue.Reservation) {
	for i := range all[len(m.got):] {
		m.bytes += 1 + all[len(m.got)+i].Bytes()
	}
	m.got = all
}

func (m *merging) request(plan *strategy.Plan, most int) machine.Request {
	r := m.asked
	return machine.Request{Plan: plan, Max: most, Consumer: r.Consumer, Context: r.Context, Timeout: r.Timeout,
		Limited: min(max(r.Limited, 0), queue.MaxLimited), Answered: m.bytes}
}

// takeFrom reserves in one shard.
func (m *merging) takeFrom(i, branch int, request machine.Request) (got machine.Reserved, heads []backlog.Head) {
	err := m.know(i, nil)
	if err == nil {
		got, heads, err = m.shards[i].take(m.ctx, m.asked, branch, request, m.got)
	}
	if err != nil {
		m.mute[i], m.err = true, err
		return got, nil
	}
	some := len(got.Reservations) > len(m.got)
	if m.keep(got.Reservations); some {
		_ = m.know(i, m.compared()) // the others are to know before their turn
	}
	return got, heads
}

// know has a shard learn the counts of the others, and learns its counts, if the call counts so.
func (m *merging) know(i int, plan *strategy.Plan) error {
	own, is := m.shards[i].(ownShard)
	if !is || !m.cross.Counts() {
		return nil
	}
	return m.of.counts.Know(m.ctx, own.number-1, own.q.shard, plan, true)
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
	case <-m.grown:
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
		in := listenAsked{m.asked.Plan.Text(), numbers, m.asked.Max, m.asked.Consumer, farRetry}
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

// rest waits until the next try, after a shard had chunks that this call did not get. Most often they came this very moment, so the first
// rest is none. Orders of an operator or the grace after a restart may hold it back for longer.
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

// result is the answer. Without chunks it has the reason of the shard that may have some first. A reserve asks each shard for its reason,
// and may find chunks that have just come.
func (m *merging) result() (out ReserveResult, err error) {
	out = ReserveResult{Reservations: m.got, Unusable: m.asked.Unusable}
	if len(m.got) > m.from || m.err != nil {
		return out, m.errIfNone()
	}
	if !m.counting(func() { out = m.reason(out) }) {
		if m.grace == 0 {
			return out, m.err
		}
		out.Reason, out.RetryAfter = queue.RestartGrace, m.grace.Sub(queue.At(m.of.e.options.Now()))
	}
	return out, nil
}

// errIfNone is the error of a shard, if there are no chunks. With chunks the failure of a shard does not matter.
func (m *merging) errIfNone() error {
	if len(m.got) > m.from {
		return nil
	}
	return m.err
}

// farReasons asks the shards of other nodes, all at once, why there is nothing. They give no chunks: together these could be more than the
// call may have.
func (m *merging) farReasons() map[int]machine.Reserved {
	w, at, whys := m.errands(), []int(nil), map[int]machine.Reserved{}
	for i, of := range m.shards {
		if isFar(of) && !m.mute[i] {
			w.asked.takes, at = append(w.asked.takes, taking{shard: numberOf(of), branch: -1}), append(at, i)
		}
	}
	if len(at) < 2 || machine.Scores(m.asked.Plan) { // scores decide only when a chunk is taken
		return nil
	}
	err := w.do(m.ctx)
	for k, i := range at {
		if why := cmp.Or(w.done.took[k].err, err); why != nil {
			m.mute[i], m.err = true, why
			continue
		}
		whys[i] = w.done.took[k].Reserved
	}
	return whys
}

// reason asks the shards why there is nothing. They may give chunks that have just come.
func (m *merging) reason(out ReserveResult) ReserveResult {
	whys := m.farReasons()
	for i, of := range m.shards {
		if m.mute[i] || len(m.got) > m.from { // an earlier one has given chunks that have just come
			continue
		}
		why := whys[i]
		if why.Reason == queue.NotEmpty { // it was not asked yet, or has something
			request := m.request(m.asked.Plan, m.asked.Max)
			if m.cross.Fair { // only the ledger of all shards says which tenant may have chunks that have just come
				request.Turn = &machine.Turn{Why: true}
			}
			why, _ = m.takeFrom(i, -1, request)
		}
		if own, is := of.(ownShard); is && why.Reason != queue.NotEmpty {
			own.q.empty.count(why.Reason)
		}
		if sooner(&why, &out) {
			out.Reason, out.RetryAfter = why.Reason, why.RetryAfter
		}
		for _, value := range why.Limited { // shards that count together name the same ones
			if len(out.Limited) < m.asked.Limited && !slices.Contains(out.Limited, value) {
				out.Limited = append(out.Limited, value)
			}
		}
	}
	if out.Reservations = m.got; len(m.got) > m.from {
		out.Reason, out.RetryAfter = queue.NotEmpty, 0
	}
	if out.Reason != queue.AllLimited {
		out.Limited = nil
	}
	return out
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
