package backlog

import (
	"math/big"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// modelRates are the rates of the model: of each value the theoretical arrival time, as the algorithm's definition has it, and
// without gates and heaps.
type modelRates struct {
	now, began int64
	since      map[*rate]int64 // of rates about which something is unknown: since then it counts
	of         map[strategy.Limit]map[queue.MetaValue]int64
}

func rateOf(key string, max uint32, per time.Duration, burst uint32) strategy.Limit {
	return strategy.Limit{Key: key, Max: max, Of: strategy.Rate, Per: per, Burst: burst}
}

// rateBranches have rates of one key and of all chunks, beside limits and each other.
func rateBranches() []strategy.Branch {
	a := func(max uint32) strategy.Limit { return strategy.Limit{Key: "a", Max: max} }
	slow, fast := rateOf("a", 1, time.Second, 1), rateOf("a", 4, time.Second, 3)
	of, all := rateOf("b", 2, time.Second, 2), rateOf("", 5, time.Second, 2)
	fairly := func(key string, inner ...strategy.Branch) strategy.Branch {
		return strategy.Branch{Fair: key, Inner: inner}
	}
	both := limited(strategy.OldestFirst, slow)
	both.Filters = []strategy.Filter{equals("b", 1)}
	return []strategy.Branch{
		limited(strategy.Random, slow, rateOf("a!", 1, time.Second, 1)), limited(strategy.OldestFirst, rateOf("b!", 4, time.Second, 3)),
		limited(strategy.Random, slow), limited(strategy.OldestFirst, slow), limited(strategy.CustomPriority, fast), both,
		limited(strategy.Random, all), limited(strategy.NewestFirst, all), limited(strategy.Random, slow, of), limited(strategy.OldestFirst, all, fast),
		limited(strategy.Random, a(3), slow), limited(strategy.OldestFirst, a(2), of), limited(strategy.NewestFirst, slow, fast, of),
		limited(strategy.Random, a(2)), filtered(strategy.OldestFirst),
		fairly("a", limited(strategy.OldestFirst, slow)), fairly("b", limited(strategy.Random, fast), limited(strategy.OldestFirst, all)),
		fairly("$submission", limited(strategy.NewestFirst, of)),
	}
}

// pace is that of a rate for a value: an operator's number over the same time takes the place of the strategy's.
func (m *model) pace(l strategy.Limit, value queue.MetaValue) (apart, slack, most int64) {
	own, is := m.b.Values.settings[queue.MetaEntry{Key: l.Key, Value: value}]
	if !is || own.Rate.Max == 0 {
		own = m.b.Values.defaults[l.Key]
	}
	if own.Rate.Max > 0 && own.Rate.Per == l.Per {
		l.Max = own.Rate.Max
		l.Burst = min(l.Burst, l.Max)
	}
	a, s := l.Pace()
	return int64(a), int64(s), int64(l.Max)*int64(a) + int64(s)
}

// at is the theoretical arrival time of a value.
func (m *model) at(l strategy.Limit, value queue.MetaValue) int64 {
	if at, known := m.rates.of[l][value]; known {
		return at
	}
	since, known := m.rates.since[m.b.Values.Rates.find(l)]
	if !known {
		since = m.rates.began
	}
	if since == never {
		return never
	}
	apart, slack, _ := m.pace(l, value)
	return since + apart + slack
}

// admits says whether a rate lets a value be taken now.
func (m *model) admits(l strategy.Limit, value queue.MetaValue) bool {
	at := m.at(l, value)
	_, slack, _ := m.pace(l, value)
	return at == never || at-slack <= m.rates.now
}

// retempo runs a change of an operator's settings, and has values owe as many reservations as before.
func (m *model) retempo(change func()) {
	type owing struct {
		l     strategy.Limit
		value queue.MetaValue
		at    int64
		apart int64
	}
	var list []owing
	for _, r := range m.b.Values.Rates.list {
		if r == nil {
			continue
		}
		for p := range r.paces.each {
			t := p.term
			apart, _, _ := m.pace(r.limit, t.value)
			list = append(list, owing{r.limit, t.value, m.at(r.limit, t.value), apart})
		}
	}
	m.rates.of = map[strategy.Limit]map[queue.MetaValue]int64{} // values without debt and without users are forgotten
	change()
	for _, x := range list {
		apart, _, most := m.pace(x.l, x.value)
		if x.at > m.rates.now && apart != x.apart {
			owed := new(big.Int).Mul(big.NewInt(x.at-m.rates.now), big.NewInt(apart))
			owed.Add(owed, big.NewInt(x.apart-1))
			owed.Div(owed, big.NewInt(x.apart))
			x.at = m.rates.now + min(owed.Int64(), most)
		}
		if m.rates.of[x.l] == nil {
			m.rates.of[x.l] = map[queue.MetaValue]int64{}
		}
		m.rates.of[x.l][x.value] = x.at
	}
}

// taken counts a reservation by all rates that the backlog knows.
func (m *model) taken(x *modelSub) {
	m.beside.reservedHere(x)
	for _, r := range m.b.Values.Rates.list {
		if r == nil {
			continue
		}
		l := r.limit
		value, has := x.find(l.Key)
		if !has && l.Key != "" {
			continue
		}
		if m.rates.of[l] == nil {
			m.rates.of[l] = map[queue.MetaValue]int64{}
		}
		before := m.at(l, value)
		apart, _, most := m.pace(l, value)
		m.rates.of[l][value] = min(max(before, m.rates.now)+apart, max(before, m.rates.now+most))
	}
}

// pass lets time go by; at times it goes back a little or a lot.
func (m *model) pass() {
	by := m.r.Int64N(int64(300 * time.Millisecond))
	switch m.r.IntN(40) {
	case 0:
		by = int64(time.Duration(m.r.IntN(3000)) * time.Millisecond)
	case 1: // two clocks that differ: nothing changes
		m.b.Values.Rates.Advance(m.rates.now - 1000)
		return
	case 2:
		m.back(leap + m.r.Int64N(int64(time.Hour)))
		return
	}
	m.rates.now += by
	m.b.Values.Rates.Advance(m.rates.now)
	m.forgotten()
}

// back sets the clock back: a value owes what it owed.
func (m *model) back(by int64) {
	for _, values := range m.rates.of {
		for value, at := range values {
			if values[value] = never; at > m.rates.now {
				values[value] = at - by
			}
		}
	}
	if m.rates.began != never {
		m.rates.began -= by
	}
	for r := range m.rates.since {
		m.rates.since[r] -= by
	}
	m.rates.now -= by
	m.b.Values.Rates.Advance(m.rates.now)
}

// forgotten checks that a rate that the backlog forgot owed nothing.
func (m *model) forgotten() {
	for l, values := range m.rates.of {
		if m.b.Values.Rates.find(l) != nil {
			continue
		}
		for value, at := range values {
			if at > m.rates.now {
				m.fatalf("the rate %s is forgotten, but %v owes %v", l, value, time.Duration(at-m.rates.now))
			}
		}
		delete(m.rates.of, l)
	}
}

// auditRates compares the paces of rates with the model, and with the heap.
func (m *model) auditRates() {
	rs := &m.b.Values.Rates
	awake := 0
	for _, r := range rs.list {
		if r == nil {
			continue
		}
		if !slices.Contains(r.key.rates, r) || r.uses == 0 && r.paces.known == 0 {
			m.fatalf("the rate %s of slot %d has %d uses and %d values", r.limit, r.slot, r.uses, r.paces.known)
		}
		known := 0
		for p := range r.paces.each {
			t := p.term
			if known++; r.paces.of(t) != p {
				m.fatalf("the pace of %s of %v is not at the place %d of its term", r.limit, t.value, t.place)
			}
			if want := m.at(r.limit, t.value); p.at != want && max(p.at, want) > m.rates.now {
				m.fatalf("%s of %v is at %d, want %d; it is %d", r.limit, t.value, p.at, want, m.rates.now)
			}
			if p.place != asleep {
				awake++
				if rs.due[p.place] != p {
					m.fatalf("%s of %v is not where it says that it is", r.limit, t.value)
				}
			}
			if p.waits(rs.now) != (p.count == 1) || p.place == asleep && (p.count > 0 || len(p.gates) == 0) || m.b.Values.list[t.number] != t {
				m.fatalf("%s of %v counts %d, has %d gates and the place %d", r.limit, t.value, p.count, len(p.gates), p.place)
			}
			m.auditTally(tally{t, r.slot})
		}
		if known != r.paces.known || len(r.paces.list) > len(r.key.terms) {
			m.fatalf("%s has %d of %d paces in a list of %d for %d values", r.limit, known, r.paces.known, len(r.paces.list), len(r.key.terms))
		}
	}
	if awake != len(rs.due) {
		m.fatalf("%d values wait or owe something, and %d are in the heap", awake, len(rs.due))
	}
}
