package backlog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// composition is a strategy as text, and its meaning by the manual: which submissions it may take from next, out of
// those that can be given at all. It knows neither plans nor views.
type composition struct {
	text string
	next func(m *model, among []*modelSub) []offer
}

// offer is a submission that may be next, and by which order.
type offer struct {
	of    *modelSub
	order strategy.Order
}

// ordersOf are the compositions of depth 1.
func ordersOf() (list []composition) {
	for order := strategy.Random; order <= strategy.CustomPriority; order++ {
		list = append(list, composition{order.String(), func(m *model, among []*modelSub) (offers []offer) {
			for _, x := range among {
				if order == strategy.Random || !slices.ContainsFunc(among, func(y *modelSub) bool { return m.before(order, y, x) }) {
					offers = append(offers, offer{x, order})
				}
			}
			return offers
		}})
	}
	return list
}

func having(among []*modelSub, key string, fits func(value queue.MetaValue, has bool) bool) (some []*modelSub) {
	for _, x := range among {
		if fits(x.spec.Meta.Find(key)) {
			some = append(some, x)
		}
	}
	return some
}

func under(m *model, among []*modelSub, key string, limit uint32) []*modelSub {
	return having(among, key, func(v queue.MetaValue, has bool) bool { return !has || m.inFlight(key, v) < limit })
}

// around puts each block that has one underlying around u.
func around(u composition) []composition {
	selects := func(key string) composition {
		return composition{fmt.Sprintf("SelectOnly(%q, 1, %s)", key, u.text), func(m *model, among []*modelSub) []offer {
			return u.next(m, having(among, key, func(v queue.MetaValue, has bool) bool { return has && v == queue.IntValue(1) }))
		}}
	}
	most := func(key string, limit uint32) composition {
		return composition{fmt.Sprintf("MaxSimultaneous(%q, %d, %s)", key, limit, u.text), func(m *model, among []*modelSub) []offer {
			return u.next(m, under(m, among, key, limit))
		}}
	}
	prefers := func(key string, limit uint32) composition {
		return composition{fmt.Sprintf("PreferDistinct(%q, %d, %s)", key, limit, u.text), func(m *model, among []*modelSub) []offer {
			if offers := u.next(m, under(m, among, key, limit)); len(offers) > 0 {
				return offers
			}
			return u.next(m, among)
		}}
	}
	rated := func(key string, l strategy.Limit) composition {
		return composition{fmt.Sprintf("MaxRate(%s%d, %q, burst=%d, %s)", key, l.Max, l.Per.String(), l.Burst, u.text), func(m *model, among []*modelSub) []offer {
			return u.next(m, having(among, l.Key, func(v queue.MetaValue, has bool) bool { return !has && l.Key != "" || m.admits(l, v) }))
		}}
	}
	// Every tenant may be next: whose turn it is, the ledger says, and played asks it.
	fairly := func(key queue.MetaKey) composition {
		return composition{fmt.Sprintf("Fair(%q, %s)", key, u.text), func(m *model, among []*modelSub) (offers []offer) {
			tenants := map[string][]*modelSub{}
			for _, x := range among {
				name := tenantOf(key, &x.spec)
				tenants[name] = append(tenants[name], x)
			}
			for _, mine := range tenants {
				offers = append(offers, u.next(m, mine)...)
			}
			return offers
		}}
	}
	// the same as PreferDistinct with 1, around that with 2, and so on
	inTurn := func(key string) composition {
		return composition{fmt.Sprintf("PreferDistinct(%q, %s)", key, u.text), func(m *model, among []*modelSub) (offers []offer) {
			for limit := uint32(1); limit < 20 && len(offers) == 0; limit++ {
				offers = u.next(m, under(m, among, key, limit))
			}
			return offers
		}}
	}
	return []composition{
		inTurn("a"), inTurn("b"), selects("a"), selects("b"), most("a", 1), most("b", 2), prefers("a", 2), prefers("b", 1), fairly("a"), fairly(strategy.SubmissionKey),
		rated(`"a", `, rateOf("a", 3, time.Second, 2)), rated("", rateOf("", 5, time.Second, 3)),
	}
}

func orElse(x, y composition) composition {
	return composition{fmt.Sprintf("OrElse(%s, %s)", x.text, y.text), func(m *model, among []*modelSub) []offer {
		if offers := x.next(m, among); len(offers) > 0 {
			return offers
		}
		return y.next(m, among)
	}}
}

// compositionsOf are all of at most the given depth.
func compositionsOf(depth int) []composition {
	list := ordersOf()
	if depth == 1 {
		return list
	}
	inner := compositionsOf(depth - 1)
	for _, x := range inner {
		list = append(list, around(x)...)
		for _, y := range inner {
			if x.text != y.text {
				list = append(list, orElse(x, y))
			}
		}
	}
	return list
}

// situation is a small backlog to play on: six submissions with and without the keys a and b.
type situation struct {
	name   string
	limits map[int64]uint32 // of values of a, as an operator sets them
	ruled  queue.MetaEntry  // paused
	held   bool             // a chunk of the first and the last is in flight already
}

var situations = []situation{
	{name: "all is ready"},
	{name: "some is in flight, some was put back", held: true},
	{
		name: "a value is limited, and another paused", limits: map[int64]uint32{2: 1},
		ruled: queue.MetaEntry{Key: "b", Value: queue.IntValue(2)}, held: true,
	},
}

func (s *situation) set(t *testing.T, seed uint64, branches []strategy.Branch) *model {
	m := newModel(t, seed, branches)
	for i, values := range [][2]int64{{1, 1}, {2, 1}, {1, 2}, {0, 1}, {1, 0}, {2, 2}} {
		spec := Spec{Seq: uint32(i), ID: queue.SubmissionID(10 + i), Chunks: uint32(1 + i%2), Priority: int64(i * 2 % 5)}
		for at, key := range []string{"a", "b"} {
			if values[at] != 0 {
				spec.Meta = append(spec.Meta, queue.MetaEntry{Key: key, Value: queue.IntValue(values[at])})
			}
		}
		spec.Key = OrderKey(spec.Chunks, uint64(i))
		x := &modelSub{spec: spec, s: m.b.Insert(spec), state: make([]chunkState, spec.Chunks), by: map[uint32]Charge{}}
		m.subs = append(m.subs, x)
		if i != 3 || !s.held {
			m.show(x)
		}
	}
	if s.held {
		first, last := m.subs[0], m.subs[5]
		m.b.TakeChunk(first.s, 0)
		m.b.TakeChunk(last.s, 0)
		m.b.TakeChunk(last.s, 1)
		m.b.Land(last.s)
		m.b.PutBack(last.s, 1)
		first.state[0], last.state[0] = held, held
	}
	for value, limit := range s.limits {
		settings := queue.NoSettings()
		settings.Limit = limit
		m.b.Values.Set("a", queue.IntValue(value), settings)
	}
	if s.ruled.Key != "" {
		m.set(s.ruled, queue.PausedByRule)
	}
	return m
}

// played takes once by the plan, as a reserve does, and says whether there was a chunk. The composition must allow the
// chunk that it took.
func (m *model) played(c *composition, at *situation) bool {
	var can []*modelSub
	anything := strategy.Branch{}
	for _, x := range m.subs {
		if m.admitted(&anything, x) {
			can = append(can, x)
		}
	}
	offers := c.next(m, can)
	for i := range m.branches {
		br := &m.branches[i]
		v := m.b.Views.Of(br)
		for !v.Build(100) {
		}
		var turn []*modelSub
		if br.Fair != "" {
			_, turn = m.whose(br, v.fair.root.shares[0], m.subs)
		}
		var before [][]uint32
		for _, x := range m.subs {
			before = append(before, slices.Clone(putBackOf(x.s)))
		}
		s, index, ok := m.b.Take(v, m.rnd)
		if !ok {
			continue
		}
		x := m.of(s)
		if br.Fair != "" && !slices.Contains(turn, x) {
			m.fatalf("%s, %s: took from %v, but it is the turn of others", at.name, c.text, s.ID())
		}
		fits := slices.ContainsFunc(offers, func(o offer) bool {
			first := uint32(slices.Index(x.state, free))
			if back := before[slices.Index(m.subs, x)]; len(back) > 0 {
				first = slices.Min(back)
			}
			return o.of == x && (o.order == strategy.Random || index == first)
		})
		if !fits || x.state[index] != free {
			m.fatalf("%s, %s: took chunk %d of %v, want one of %v", at.name, c.text, index, s.ID(), idsOf(offers))
		}
		x.state[index], x.by[index] = held, v.Charged()
		m.taken(x)
		return true
	}
	if len(offers) > 0 {
		m.fatalf("%s, %s: found nothing, want one of %v", at.name, c.text, idsOf(offers))
	}
	return false
}

func idsOf(offers []offer) (ids []queue.SubmissionID) {
	for _, o := range offers {
		ids = append(ids, o.of.spec.ID)
	}
	return ids
}

// giveUp ends the chunks in flight: every second chunk is put back.
func (m *model) giveUp() {
	for i, x := range m.subs {
		for index, state := range x.state {
			if state != held {
				continue
			}
			m.b.Land(x.s)
			if x.state[index] = out; (i+index)%2 == 0 {
				x.state[index] = free
				m.b.PutBack(x.s, uint32(index))
			}
			delete(x.by, uint32(index))
		}
	}
}

// Every strategy that can be composed of the blocks up to depth 3, over two keys and few numbers, gives what its text means, chunk after
// chunk until there is nothing left; then the chunks in flight end, half of them come back, and it goes on. (A scored
// block orders a window that another strategy gives: TestWindows.)
func TestEveryComposition(t *testing.T) {
	t.Parallel()
	all := compositionsOf(3)
	if testing.Short() {
		all = compositionsOf(2)
	}
	picks, refused := 0, 0
	for number := range all {
		c := &all[number]
		parsed, err := strategy.Parse(c.text)
		if err != nil && strings.Contains(err.Error(), "PreferDistinct without a number") {
			refused++
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		for i := range situations {
			m := situations[i].set(t, uint64(number), parsed.Plan().Branches)
			for range 3 {
				for m.played(c, &situations[i]) {
					picks, m.step = picks+1, m.step+1
				}
				m.giveUp()
				m.rates.now += int64(400 * time.Millisecond)
				m.b.Values.Rates.Advance(m.rates.now)
			}
			if number%16 == 0 {
				m.audit()
			}
		}
	}
	if refused > len(all)/3 {
		t.Errorf("%d of %d strategies are refused", refused, len(all))
	}
	t.Logf("%d strategies, %d of them refused, on %d backlogs: %d picks", len(all), refused, len(situations), picks)
}
