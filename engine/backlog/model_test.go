package backlog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// model is the backlog as one would write it without any thought for speed: every chunk has a state, and every question
// is answered by looking at everything.
type model struct {
	t    *testing.T
	seed uint64
	step int
	r    *rand.Rand // of the test
	rnd  *rand.Rand // handed to Take

	b        *Backlog
	subs     []*modelSub // in order of insertion
	nextSeq  uint32
	nextID   queue.SubmissionID
	branches []strategy.Branch
	asleep   map[*View]bool // watched views whose last Take found nothing
	rules    map[queue.MetaEntry]queue.Ruling
	whole    queue.Ruling
	draft    *modelDraft
	recounts modelRecount
	rates    modelRates
	beside   modelTogether
	news     map[*View]map[TenantName]TenantNews // to a ledger of several backlogs, by the fair views that told it
}

type modelSub struct {
	spec  Spec
	s     *Submission
	state []chunkState
	by    map[uint32]Charge // by which ledger a held chunk was charged
	shown bool
	own   queue.Ruling
}

type chunkState uint8

const (
	free chunkState = iota
	held
	out // taken, not in flight
)

func (m *model) fatalf(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("seed %d step %d: %s", m.seed, m.step, fmt.Sprintf(format, args...))
}

func (x *modelSub) count(state chunkState) (n int) {
	for _, s := range x.state {
		if s == state {
			n++
		}
	}
	return n
}

func (x *modelSub) pick(r *rand.Rand, state chunkState) (uint32, bool) {
	n := x.count(state)
	if n == 0 {
		return 0, false
	}
	n = r.IntN(n)
	for i, s := range x.state {
		if s == state {
			if n == 0 {
				return uint32(i), true
			}
			n--
		}
	}
	return 0, false
}

func (m *model) inFlight(key string, value queue.MetaValue) (n uint32) {
	for _, x := range m.subs {
		if v, ok := x.find(key); ok && v == value {
			n += uint32(x.count(held))
		}
	}
	return n + m.beside.others[queue.MetaEntry{Key: key, Value: value}]
}

// find is the value of a key. A key with "!" behind it is the lack of it.
func (x *modelSub) find(key string) (value queue.MetaValue, has bool) {
	if of, lack := strings.CutSuffix(key, "!"); lack {
		_, has = x.spec.Meta.Find(of)
		return value, !has
	}
	return x.spec.Meta.Find(key)
}

// admitted says whether a branch may take from x right now.
func (m *model) admitted(br *strategy.Branch, x *modelSub) bool {
	if !x.shown || x.count(free) == 0 || max(m.ruling(x), m.whole) != queue.Unruled {
		return false
	}
	for _, e := range x.spec.Meta {
		if m.inFlight(e.Key, e.Value) >= m.b.Values.Settings(e.Key, e.Value).Limit {
			return false
		}
	}
	if br.Fair != "" {
		return !br.Leaves(func(leaf *strategy.Branch) bool { return !m.admitted(leaf, x) })
	}
	for _, f := range br.Filters {
		if v, ok := x.spec.Meta.Find(f.Key); (ok && slices.Contains(f.Values, v)) == f.Except || f.Has && !ok {
			return false
		}
	}
	for _, l := range br.Limits {
		v, ok := x.find(l.Key)
		if l.Of == strategy.Rate {
			if (ok || l.Key == "") && !m.admits(l, v) {
				return false
			}
		} else if ok && m.inFlight(l.Key, v) >= l.Max {
			return false
		}
	}
	return true
}

func (m *model) before(order strategy.Order, x, y *modelSub) bool {
	switch {
	case order == strategy.NewestFirst:
		return x.spec.ID > y.spec.ID
	case order == strategy.CustomPriority && x.spec.Priority != y.spec.Priority:
		return x.spec.Priority > y.spec.Priority
	}
	return x.spec.ID < y.spec.ID
}

// want is the first submission the branch may take from, nil if none.
func (m *model) want(br *strategy.Branch) (first *modelSub) {
	for _, x := range m.subs {
		if !m.admitted(br, x) {
			continue
		}
		if first == nil || m.flight(br, x) < m.flight(br, first) || m.flight(br, x) == m.flight(br, first) && m.before(br.Order, x, first) {
			first = x
		}
	}
	return first
}

func (m *model) of(s *Submission) *modelSub {
	i := slices.IndexFunc(m.subs, func(x *modelSub) bool { return x.s == s })
	if i < 0 {
		m.fatalf("submission %v was removed", s.ID())
	}
	return m.subs[i]
}

func newModel(t *testing.T, seed uint64, branches []strategy.Branch) *model {
	m := &model{
		t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 10)), rnd: rand.New(rand.NewPCG(seed, 11)),
		b: New(), branches: branches, asleep: map[*View]bool{}, rates: modelRates{now: 1e18, began: never, of: map[strategy.Limit]map[queue.MetaValue]int64{}, since: map[*rate]int64{}},
	}
	m.b.Values.Rates.Advance(m.rates.now)
	return m
}

func equals(key string, value int64) strategy.Filter {
	return strategy.Select(key, queue.IntValue(value))
}

func limited(order strategy.Order, limits ...strategy.Limit) strategy.Branch {
	return strategy.Branch{Limits: limits, Order: order}
}

func filtered(order strategy.Order, filters ...strategy.Filter) strategy.Branch {
	return strategy.Branch{Filters: filters, Order: order}
}

// modelBranches are branches of every kind: each order, filters nested and contradicting and on values that no submission has yet,
// limits of several sizes over the same key, nested limits, both.
func modelBranches() []strategy.Branch {
	a, b, c := func(max uint32) strategy.Limit { return strategy.Limit{Key: "a", Max: max} },
		func(max uint32) strategy.Limit { return strategy.Limit{Key: "b", Max: max} },
		func(max uint32) strategy.Limit { return strategy.Limit{Key: "c", Max: max} }
	branches := []strategy.Branch{
		filtered(strategy.Random), filtered(strategy.OldestFirst), filtered(strategy.NewestFirst), filtered(strategy.CustomPriority),
		filtered(strategy.Random, equals("a", 1)), filtered(strategy.OldestFirst, equals("a", 2)),
		filtered(strategy.Random, equals("a", 1), equals("b", 2)), filtered(strategy.CustomPriority, equals("a", 0), equals("b", 1), equals("c", 2)),
		filtered(strategy.NewestFirst, equals("a", 1), equals("a", 2)), filtered(strategy.Random, equals("z", 1)),
		{Filters: []strategy.Filter{strategy.Select("c", queue.StringValue("1"))}, Order: strategy.OldestFirst},
		limited(strategy.Random, a(2)), limited(strategy.Random, a(3)), limited(strategy.OldestFirst, a(1)), limited(strategy.OldestFirst, b(3)),
		limited(strategy.Random, a(3), b(2)), limited(strategy.CustomPriority, a(3), b(2)), limited(strategy.NewestFirst, a(1), b(1)),
		limited(strategy.Random, a(1), b(1), c(1)), limited(strategy.OldestFirst, a(4), b(3), c(2)), limited(strategy.Random, a(1<<32-1)),
	}
	any, except := strategy.Select("a", queue.IntValue(1)), strategy.Select("b", queue.IntValue(2))
	any.Values = append(any.Values, queue.IntValue(2), queue.StringValue("1"))
	except.Except = true
	branches = append(branches, filtered(strategy.Random, any), filtered(strategy.OldestFirst, except), filtered(strategy.NewestFirst, any, except))
	aOne := []strategy.Limit{{Key: "a", Max: 2}, {Key: "a!", Max: 2}}
	branches = append(branches, limited(strategy.Random, aOne...), limited(strategy.OldestFirst, aOne...), limited(strategy.NewestFirst, aOne[1]),
		limited(strategy.CustomPriority, a(2), b(1), strategy.Limit{Key: "b!", Max: 3}), filtered(strategy.Random, strategy.With("b")),
		limited(strategy.Random, strategy.Limit{Key: "z!", Max: 3}))
	both := limited(strategy.Random, a(2), c(3))
	both.Filters = []strategy.Filter{equals("b", 1)}
	more := limited(strategy.CustomPriority, a(1))
	more.Filters = []strategy.Filter{equals("a", 3)}
	return append(branches, both, more)
}

// fairBranches are fair ones of every kind: by a key, by the pseudo key, filtered, under a limit of the same and of another
// key, under two.
func fairBranches() []strategy.Branch {
	limit := func(key string, max uint32) strategy.Limit { return strategy.Limit{Key: key, Max: max} }
	fairly := func(key string, inner ...strategy.Branch) strategy.Branch {
		return strategy.Branch{Fair: key, Inner: inner}
	}
	byTime := func(br strategy.Branch) strategy.Branch {
		br.Cost = strategy.ByTime
		return br
	}
	narrow := limited(strategy.Random, limit("c", 2))
	narrow.Filters = []strategy.Filter{equals("b", 1)}
	return []strategy.Branch{
		fairly("b", limited(strategy.OldestFirst, limit("a", 2), limit("a!", 1))), fairly("a", limited(strategy.Random, limit("a", 2), limit("a!", 2))),
		fairly("a", filtered(strategy.OldestFirst)), fairly("a", filtered(strategy.Random)), fairly("b", filtered(strategy.CustomPriority)),
		fairly("$submission", filtered(strategy.NewestFirst)), fairly("$submission", limited(strategy.Random, limit("a", 2))),
		fairly("a", filtered(strategy.OldestFirst, equals("b", 2))), fairly("a", filtered(strategy.Random, equals("a", 1), equals("a", 2))),
		fairly("a", limited(strategy.OldestFirst, limit("a", 2))), fairly("a", limited(strategy.Random, limit("b", 3))),
		fairly("b", limited(strategy.NewestFirst, limit("a", 3), limit("b", 2))), fairly("c", limited(strategy.Random, limit("a", 1), limit("b", 1))),
		fairly("a", narrow),
		fairly("a", limited(strategy.OldestFirst, limit("b", 1)), filtered(strategy.NewestFirst)),
		fairly("b", filtered(strategy.Random, equals("a", 1)), limited(strategy.CustomPriority, limit("b", 3), limit("c", 2)), filtered(strategy.Random)),
		byTime(fairly("a", filtered(strategy.OldestFirst))),
		fairly("a", fairly("b", filtered(strategy.OldestFirst))),
		fairly("a", byTime(fairly("$submission", limited(strategy.Random, limit("a", 3)))), filtered(strategy.NewestFirst)),
		fairly("c", limited(strategy.OldestFirst, limit("b", 2)), fairly("a", limited(strategy.Random, limit("a", 2), limit("b", 3)), fairly("$submission", filtered(strategy.OldestFirst)))),
	}
}

func (m *model) insert() {
	spec := Spec{Seq: m.nextSeq, ID: 1000 + m.nextID*3, Chunks: uint32(1 + m.r.IntN(12)), Priority: int64(m.r.IntN(4))}
	m.nextSeq++
	m.nextID += queue.SubmissionID(1 + m.r.IntN(3))
	if m.r.IntN(8) == 0 {
		spec.Chunks = uint32(1 + m.r.IntN(100))
	}
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		switch x := m.r.IntN(12); {
		case x < 9:
			spec.Meta = append(spec.Meta, queue.MetaEntry{Key: key, Value: queue.IntValue(int64(x % 4))})
		case x == 9:
			spec.Meta = append(spec.Meta, queue.MetaEntry{Key: key, Value: queue.StringValue("1")})
		}
	}
	spec.Key = OrderKey(spec.Chunks, m.r.Uint64())
	x := &modelSub{spec: spec, s: m.b.Insert(spec), state: make([]chunkState, spec.Chunks), by: map[uint32]Charge{}}
	m.subs = append(m.subs, x)
	if m.r.IntN(4) > 0 {
		m.show(x)
	}
}

func (m *model) show(x *modelSub) {
	m.b.Show(x.s)
	x.shown = true
}

func (m *model) remove(x *modelSub) {
	m.b.Remove(x.s)
	m.subs = slices.DeleteFunc(m.subs, func(y *modelSub) bool { return x == y })
	if m.b.ByID(x.spec.ID) != nil || m.b.BySeq(x.spec.Seq) != nil {
		m.fatalf("a removed submission is found")
	}
	m.b.Land(x.s)
	m.b.PutBack(x.s, 0)
	if m.b.TakeChunk(x.s, 0) || m.b.Withdraw(x.s, 0, true) != WasTaken || x.s.IsAvailable(0) || x.s.Available() != 0 || x.s.InFlight() != 0 || x.s.Meta() != nil {
		m.fatalf("a removed submission still acts")
	}
}

// take asks a random branch's view, as far as it is built, and checks the answer against the model.
func (m *model) take() {
	br := &m.branches[m.r.IntN(len(m.branches))]
	v := m.b.Views.Of(br)
	switch m.r.IntN(4) {
	case 0:
		v.Build(m.r.IntN(4))
	case 1, 2:
		for !v.Build(3) {
		}
	}
	if m.r.IntN(6) == 0 {
		v.Watch = !v.Watch
		delete(m.asleep, v)
	}
	want := m.want(br)
	var before [][]uint32 // put-back chunks, which an ordered branch takes first
	for _, x := range m.subs {
		before = append(before, slices.Clone(putBackOf(x.s)))
	}
	leaf := br
	var whose []*modelSub
	if br.Fair != "" && v.Built() {
		leaf, whose = m.whose(br, v.fair.root.shares[0], m.subs)
	}
	s, index, ok := m.b.Take(v, m.rnd)
	if !ok {
		if want != nil && v.Built() {
			m.fatalf("%s found nothing, want one of submission %v", br.Key(), want.spec.ID)
		}
		if !v.Empty() && m.whole == queue.Unruled {
			m.fatalf("%s found nothing but does not say it is empty", br.Key())
		}
		if v.Watch {
			m.asleep[v] = true
		}
		return
	}
	x := m.of(s)
	if !m.admitted(br, x) {
		m.fatalf("%s took from %v (%v), which it may not", br.Key(), s.ID(), x.spec.Meta)
	}
	if y := m.passedOver(br, x); y != nil && v.Built() {
		m.fatalf("%s took from %v (%v), but less is in flight of %v (%v)", br.Key(), s.ID(), x.spec.Meta, y.spec.ID, y.spec.Meta)
	}
	order := br.Order
	if br.Fair != "" {
		from := v.fair.leaves[v.Charged().Leaf]
		if order, want = from.order, nil; v.Built() && !slices.Contains(whose, x) {
			m.fatalf("%s took from %v (%v), but it is the turn of others", br.Key(), s.ID(), x.spec.Meta)
		}
		for _, y := range whose {
			if want == nil || m.before(leaf.Order, y, want) {
				want = y
			}
		}
	}
	if order != strategy.Random {
		if v.Built() && x != want {
			m.fatalf("%s took from %v, want %v", br.Key(), s.ID(), want.spec.ID)
		}
		first := uint32(slices.Index(x.state, free))
		if back := before[slices.Index(m.subs, x)]; len(back) > 0 {
			first = slices.Min(back)
		}
		if index != first {
			m.fatalf("%s took chunk %d of %v, want %d", br.Key(), index, s.ID(), first)
		}
	}
	if int(index) >= len(x.state) || x.state[index] != free {
		m.fatalf("%s took chunk %d of %v, which is not available", br.Key(), index, s.ID())
	}
	x.state[index] = held
	x.by[index] = v.Charged()
	m.taken(x)
}

func putBackOf(s *Submission) []uint32 {
	if s.back == nil {
		return nil
	}
	return s.back.heap
}

// act does one thing to one submission.
func (m *model) act() {
	if len(m.subs) == 0 {
		return
	}
	x := m.subs[m.r.IntN(len(m.subs))]
	index := m.r.Uint32N(uint32(len(x.state)))
	switch m.r.IntN(13) {
	case 0, 1, 2, 3, 4: // finish or give back a held one
		index, ok := x.pick(m.r, held)
		if !ok {
			return
		}
		back := m.r.IntN(2) == 0
		x.state[index] = out
		if back {
			x.state[index] = free
		}
		if first := m.r.IntN(2) == 0; back && first {
			m.b.PutBack(x.s, index)
			m.b.Land(x.s)
		} else {
			m.b.Land(x.s)
			if back {
				m.b.PutBack(x.s, index)
			}
		}
		if back && m.r.IntN(2) == 0 {
			m.b.Ledgers.Refund(x.s, x.by[index])
		} else {
			m.end(x, index)
		}
		delete(x.by, index)
	case 5, 6: // a waiting one comes back
		if index, ok := x.pick(m.r, out); ok {
			x.state[index] = free
			m.b.PutBack(x.s, index)
		}
	case 7:
		if got, want := m.b.TakeChunk(x.s, index), x.state[index] == free; got != want {
			m.fatalf("TakeChunk(%v, %d) = %v, want %v", x.spec.ID, index, got, want)
		} else if got {
			x.state[index] = held
		}
	case 8:
		got, want := m.b.Withdraw(x.s, index, m.r.IntN(2) == 0), WasTaken
		if x.state[index] == free {
			x.state[index], want = out, Taken
		}
		if got != want {
			m.fatalf("Withdraw(%v, %d) = %v, want %v", x.spec.ID, index, got, want)
		}
	case 9:
		if x.shown {
			m.b.Hide(x.s)
			x.shown = false
		} else {
			m.show(x)
		}
	case 10:
		if m.r.IntN(3) == 0 || x.count(out) == len(x.state) {
			m.remove(x)
		}
	case 11:
		m.b.ShrinkSkips(x.s)
	case 12:
		m.again(x, m.b)
	}
}

// again removes a submission and restores it from its snapshot; the held come back, and some of those that were out.
func (m *model) again(x *modelSub, into *Backlog) {
	var back []uint32
	for i, state := range x.state {
		if state == held || state == out && m.r.IntN(3) == 0 {
			back = append(back, uint32(i))
			x.state[i] = free
		}
	}
	m.r.Shuffle(len(back), func(i, j int) { back[i], back[j] = back[j], back[i] })
	snapshot := x.s.AppendSnapshot(nil, back)
	m.b.Remove(x.s)
	s, err := into.Restore(x.spec, snapshot)
	if err != nil {
		m.fatalf("restore of %v from %x: %v", x.spec.ID, snapshot, err)
	}
	x.s, x.shown = s, false
	own := func() { into.Rules.SetSubmission(s, x.own) }
	if m.r.IntN(2) == 0 {
		own()
	}
	defer own()
	if m.b == into { // it is the last in order of insertion now
		m.subs = append(slices.DeleteFunc(m.subs, func(y *modelSub) bool { return x == y }), x)
	}
	if m.r.IntN(3) > 0 {
		into.Show(s)
		x.shown = true
	}
}

func (m *model) restart() {
	into := New()
	m.rates.began, m.rates.of = m.rates.now, map[strategy.Limit]map[queue.MetaValue]int64{}
	clear(m.rates.since)
	m.alone()
	into.Values.Rates.Begin(m.rates.now)
	for _, x := range m.subs {
		m.again(x, into)
	}
	if m.b.Len() != 0 || len(m.b.Values.keys) != 0 && len(m.b.Views.byKey)+len(m.b.Views.dropped)+m.b.Values.Rates.count == 0 {
		m.fatalf("an empty backlog holds %d submissions and %d keys", m.b.Len(), len(m.b.Values.keys))
	}
	for entry, s := range m.b.Values.settings {
		into.Values.Set(entry.Key, entry.Value, s)
	}
	for key, s := range m.b.Values.defaults {
		into.Values.SetDefault(key, s)
	}
	for entry, ruling := range m.rules {
		into.Rules.SetValue(entry, ruling)
	}
	into.Rules.SetAll(m.whole)
	m.b, m.draft = into, nil
	m.recounts.walking, m.recounts.comparing = false, false
	m.beside = modelTogether{}
	clear(m.asleep)
	for _, x := range m.subs {
		clear(x.by)
	}
}

// wake checks that no watched view sleeps over something it could take.
func (m *model) wake() {
	for _, v := range m.b.Views.Stirred() {
		if v.Empty() || !v.Watch {
			m.fatalf("%s is told to have something, but is empty or not watched", v.key)
		}
		delete(m.asleep, v)
	}
	for i := range m.branches {
		v := m.b.Views.byKey[m.branches[i].Key()]
		if v == nil || !m.asleep[v] || !v.Built() {
			continue
		}
		if x := m.want(&m.branches[i]); x != nil {
			m.fatalf("%s was not told of submission %v", v.key, x.spec.ID)
		}
	}
}

// live does steps of all kinds: the seed says of which.
func (m *model) live(steps, most int, seed uint64) {
	for m.step = 0; m.step < steps; m.step++ {
		switch x := m.r.IntN(100); {
		case x < 10:
			if len(m.subs) < most {
				m.insert()
			}
		case x < 50:
			m.take()
		case x < 97:
			m.act()
		case x < 99:
			m.b.Views.Drop(m.r.IntN(len(m.branches)))
			m.b.Views.Sweep(m.r.IntN(10))
		case m.r.IntN(6) == 0:
			m.restart()
		default:
			m.preview()
		}
		if seed%4 == 3 && m.r.IntN(20) == 0 {
			m.operate()
		}
		if seed%4 >= 2 && m.r.IntN(6) == 0 {
			m.rule()
		}
		if seed%3 == 1 && m.r.IntN(4) == 0 {
			m.pass()
		}
		if seed%7 >= 4 && m.r.IntN(4) == 0 {
			m.together()
		}
		m.wake()
		m.recount()
		if m.step%20 == 0 {
			m.audit()
		}
	}
}

// The backlog acts as the model does, for any calls in any order.
func TestModel(t *testing.T) {
	t.Parallel()
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			t.Parallel()
			branches := modelBranches()
			switch seed % 5 {
			case 1:
				branches = fairBranches()
			case 2:
				branches = append(branches, fairBranches()...)
			case 3:
				branches = nestedBranches()
			case 4:
				branches = append(branches, nestedBranches()...)
			}
			if seed%3 == 1 {
				branches = append(branches[:len(branches)/2], rateBranches()...)
			}
			if seed%4 == 1 {
				branches = append(branches[:len(branches)/2], fewestBranches()...)
			}
			m := newModel(t, seed, branches)
			most := 6 + int(seed%4)*8
			m.live(2000, most, seed)
			m.leaveNothing()
		})
	}
}
