package backlog

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// modelTogether has the chunks in flight of other backlogs for the values of some keys, and this one's reports.
type modelTogether struct {
	others map[queue.MetaEntry]uint32
	said   map[queue.MetaEntry]uint32
	rates  []strategy.Limit           // that are kept together with the other backlogs
	taken  map[queue.MetaEntry]uint32 // here, that has not been said; nil: none is kept
}

// together has two keys counted together with other backlogs, whose counts change at random.
func (m *model) together() {
	x := &m.beside
	if m.r.IntN(8) == 0 || x.taken == nil {
		m.rate()
	}
	m.rateElsewhere()
	m.shareTogether()
	fresh, _, err := m.b.Values.CountTogether(7, Together{[]queue.MetaKey{"a", "b"}, x.rates})
	if err != nil {
		m.fatalf("counting together: %v", err)
	}
	if fresh {
		x.others, x.said = map[queue.MetaEntry]uint32{}, map[queue.MetaEntry]uint32{}
	}
	if x.others == nil {
		m.fatalf("counts are known before anyone said them")
	}
	entry := queue.MetaEntry{Key: []string{"a", "b"}[m.r.IntN(2)], Value: queue.IntValue(int64(m.r.IntN(5)))}
	x.others[entry] = uint32(m.r.IntN(4))
	m.b.Values.CountOthers(OwnCount{entry, x.others[entry]})
	if m.r.IntN(3) > 0 {
		return
	}
	for _, n := range m.b.Values.OwnCounts(nil) {
		x.said[n.MetaEntry] = n.InFlight
	}
	for _, key := range []string{"a", "b"} {
		for value := range int64(5) {
			entry := queue.MetaEntry{Key: key, Value: queue.IntValue(value)}
			if want := m.inFlight(key, entry.Value) - x.others[entry]; x.said[entry] != want {
				m.fatalf("%s=%v is said to have %d in flight here, want %d", key, entry.Value, x.said[entry], want)
			}
		}
	}
}

// alone ends the counting together.
func (m *model) alone() {
	if m.b.Values.together != nil {
		m.b.Values.countAlone()
	}
	m.beside = modelTogether{}
}

// shareTogether compares the news of fair views for another ledger with the states of their tenants.
func (m *model) shareTogether() {
	if m.news == nil {
		m.news = map[*View]map[TenantName]TenantNews{}
	}
	for i := range m.branches {
		v := m.b.Views.byKey[m.branches[i].Key()]
		if v == nil || v.fair == nil || v.fair.root.nests || !v.Built() {
			continue
		}
		if v.ShareTogether(7, m.r.IntN(10) == 0) {
			m.news[v] = map[TenantName]TenantNews{}
		}
		for _, t := range v.News(nil) {
			if t.Settled, t.Held, t.Ended = 0, 0, 0; t.Offers || t.Gated {
				m.news[v][t.TenantName] = t
			} else {
				delete(m.news[v], t.TenantName)
			}
		}
		known, x := map[TenantName]TenantNews{}, v.fair.root.shares[0]
		for number := range x.tenants {
			if state := x.tenants[number].state(); state != gone {
				name := x.nameOf(uint32(number))
				known[name] = TenantNews{TenantName: name, Offers: state == offering, Gated: state == gated, Weight: x.Info(uint32(number)).Weight}
			}
		}
		if !maps.Equal(known, m.news[v]) {
			m.fatalf("%s told %v, and its tenants are %v", v.key, m.news[v], known)
		}
	}
}

// rate has more rates kept together. None is let go: the caller does that only when it owes nothing any more.
func (m *model) rate() {
	m.b.Values.Rates.Advance(m.rates.now)
	x := &m.beside
	m.sayTaken()
	x.taken = map[queue.MetaEntry]uint32{}
	for _, l := range []strategy.Limit{rateOf("a", 1, time.Second, 1), rateOf("b", 2, time.Second, 2), rateOf("", 5, time.Second, 2)} {
		if m.r.IntN(2) == 0 && !slices.Contains(x.rates, l) {
			x.rates = append(x.rates, l)
		}
	}
	fresh, began, err := m.b.Values.CountTogether(7, Together{[]queue.MetaKey{"a", "b"}, x.rates})
	if fresh {
		x.others, x.said = map[queue.MetaEntry]uint32{}, map[queue.MetaEntry]uint32{}
	}
	if err != nil {
		m.fatalf("counting together: %v", err)
	}
	for _, l := range began {
		unknown, list := m.r.IntN(2) == 0, []Owed(nil)
		for value := range int64(3) {
			list = append(list, Owed{queue.IntValue(value), m.rates.now + m.r.Int64N(int64(time.Second)) - int64(time.Second)/2})
		}
		m.owe(l, list, unknown)
		m.b.Values.Owes(l, list, unknown)
	}
}

// owe gives the model the debts of a rate that other backlogs report.
func (m *model) owe(l strategy.Limit, list []Owed, unknown bool) {
	if m.rates.of[l] == nil {
		m.rates.of[l] = map[queue.MetaValue]int64{}
	}
	values := m.rates.of[l]
	if unknown {
		r := m.b.Values.Rates.find(l)
		for p := range r.paces.each {
			values[p.term.value] = m.at(l, p.term.value)
		}
		m.rates.since[r] = m.rates.now
		for value, at := range values {
			apart, slack, _ := m.pace(l, value)
			values[value] = max(at, m.rates.now+apart+slack)
		}
	}
	for _, x := range list {
		if x.At > m.rates.now {
			values[x.Value] = max(m.at(l, x.Value), x.At)
		}
	}
}

// rateElsewhere has other backlogs reserve, now or a moment ago. The backlog hears of it before it looks at the clock.
func (m *model) rateElsewhere() {
	list, sums := []Takes(nil), map[queue.MetaEntry]Takes{}
	m.rates.now += m.r.Int64N(int64(time.Second)) * int64(m.r.IntN(2))
	for range 1 + m.r.IntN(3) {
		x := Takes{queue.MetaEntry{Key: []string{"a", "b", ""}[m.r.IntN(3)]}, 1 + uint32(m.r.IntN(3)),
			m.rates.now + m.r.Int64N(int64(time.Second)) - int64(time.Second)*9/10}
		if x.Key != "" {
			x.Value = queue.IntValue(int64(m.r.IntN(5)))
		}
		sum, at := sums[x.MetaEntry], min(max(x.At, m.b.Values.Rates.now), m.rates.now)
		sums[x.MetaEntry] = Takes{x.MetaEntry, sum.Count + x.Count, max(sum.At, at)}
		list = append(list, x)
	}
	for entry, x := range sums {
		for _, l := range m.beside.rates {
			if l.Key != entry.Key {
				continue
			}
			if m.rates.of[l] == nil {
				m.rates.of[l] = map[queue.MetaValue]int64{}
			}
			for range x.Count {
				before := m.at(l, entry.Value)
				apart, _, most := m.pace(l, entry.Value)
				m.rates.of[l][entry.Value] = min(max(before, x.At)+apart, max(before, x.At+most))
			}
		}
	}
	m.b.Values.TakenElsewhere(list, m.rates.now)
	m.b.Values.Rates.Advance(m.rates.now)
	m.sayTaken()
}

// sayTaken compares the reservations here with those that this backlog reports.
func (m *model) sayTaken() {
	list, lost := m.b.Values.OwnTaken(nil)
	said := map[queue.MetaEntry]uint32{}
	for _, x := range list {
		said[x.MetaEntry] += x.Count
	}
	if lost || !maps.Equal(said, m.beside.taken) {
		m.fatalf("reserved here is said to be %v, want %v", said, m.beside.taken)
	}
	if m.beside.taken != nil {
		clear(m.beside.taken)
	}
}

// reservedHere counts a reservation that other backlogs have to learn of.
func (x *modelTogether) reservedHere(sub *modelSub) {
	counted := map[string]bool{}
	for _, l := range x.rates {
		value, has := sub.find(l.Key)
		if counted[l.Key] || !has && l.Key != "" {
			continue
		}
		counted[l.Key] = true
		x.taken[queue.MetaEntry{Key: l.Key, Value: value}]++
	}
}

// All counts are said again, if there were more changes than are remembered, or a backlog of another whole asks.
func TestCountsAreSaidAgain(t *testing.T) {
	t.Parallel()
	b := New()
	together := func(id uint64) (fresh bool) {
		fresh, _, err := b.Values.CountTogether(id, Together{Keys: []queue.MetaKey{"k"}})
		return fresh && err == nil
	}
	if !together(1) || together(1) {
		t.Fatal("the first call is to begin it, and the second is not")
	}
	for i := range changedMost + 2 {
		s := b.Insert(Spec{ID: queue.SubmissionID(i + 1), Seq: uint32(i + 1), Chunks: 1,
			Meta: queue.Meta{{Key: "k", Value: queue.IntValue(int64(i))}}})
		if !b.TakeChunk(s, 0) {
			t.Fatal("the chunk is not there")
		}
	}
	if n := len(b.Values.OwnCounts(nil)); n != 0 {
		t.Errorf("%d counts are said, although more changed than are remembered", n)
	}
	if !together(1) {
		t.Error("it does not begin again after too many changes")
	}
	if n := len(b.Values.OwnCounts(nil)); n != changedMost+2 {
		t.Errorf("%d counts are said, want all", n)
	}
	b.Values.CountOthers(OwnCount{queue.MetaEntry{Key: "k", Value: queue.IntValue(1)}, 5})
	if !together(2) {
		t.Error("another whole does not begin again")
	}
	if n := b.Values.Counts("k", queue.IntValue(1))[strategy.Simultaneous]; n != 1 {
		t.Errorf("%d chunks are counted as in flight after another whole began, want 1", n)
	}
}

// If there are too many rates, none of a call is kept, and the refusal is counted.
func TestNoRoomForRatesKeptTogether(t *testing.T) {
	t.Parallel()
	b := New()
	var limits []strategy.Limit
	for i := range MostRates + 1 {
		limits = append(limits, rateOf("a", uint32(i+1), time.Second, 1))
	}
	if _, began, err := b.Values.CountTogether(1, Together{Rates: limits}); err == nil || len(began) > 0 || b.Values.Rates.Stats().Refused != 1 {
		t.Errorf("%d rates of %d began, %v", len(began), len(limits), err)
	}
	if _, began, err := b.Values.CountTogether(1, Together{Rates: limits[1:]}); err != nil || len(began) != MostRates {
		t.Errorf("%d rates of %d began, %v", len(began), MostRates, err)
	}
}
