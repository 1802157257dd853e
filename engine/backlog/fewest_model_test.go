package backlog

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/strategy"
)

// fewestBranches prefer the values with the fewest chunks in flight: in each order, filtered, under limits and rates of the same
// key, of another one and of all chunks.
func fewestBranches() []strategy.Branch {
	by := func(key string, br strategy.Branch) strategy.Branch {
		br.Fewest = key
		return br
	}
	limit := func(key string, max uint32) strategy.Limit { return strategy.Limit{Key: key, Max: max} }
	slow, all := rateOf("a", 2, time.Second, 1), rateOf("", 5, time.Second, 2)
	narrow := limited(strategy.Random, limit("c", 2))
	narrow.Filters = []strategy.Filter{equals("b", 1)}
	one := func(br strategy.Branch) strategy.Branch {
		br.FewestOne = true
		return br
	}
	return []strategy.Branch{
		one(by("a", filtered(strategy.Random))), one(by("a", filtered(strategy.OldestFirst))), one(by("b", limited(strategy.NewestFirst, limit("a", 3)))),
		one(by("a", limited(strategy.OldestFirst, limit("a", 3), limit("a!", 2)))),
		by("a", filtered(strategy.Random)), by("a", filtered(strategy.OldestFirst)), by("b", filtered(strategy.CustomPriority)),
		by("c", filtered(strategy.NewestFirst)), by("z", filtered(strategy.Random)), by("a", filtered(strategy.OldestFirst, equals("a", 1))),
		by("a", filtered(strategy.Random, equals("b", 2))), by("a", narrow), by("a", limited(strategy.Random, limit("a", 2))),
		by("a", limited(strategy.OldestFirst, limit("a", 3))), by("b", limited(strategy.CustomPriority, limit("a", 2))),
		by("a", limited(strategy.OldestFirst, limit("a", 3), limit("b", 2))), by("c", limited(strategy.CustomPriority, limit("a", 2), limit("b", 1))),
		by("a", limited(strategy.Random, slow)), by("b", limited(strategy.OldestFirst, slow)), by("a", limited(strategy.NewestFirst, all, slow)),
		by("a", limited(strategy.Random, all)), filtered(strategy.Random), filtered(strategy.OldestFirst),
	}
}

// flight is the count by which a branch ranks a submission before its order: how many chunks of its value are in
// flight.
func (m *model) flight(br *strategy.Branch, x *modelSub) uint32 {
	if v, has := x.spec.Meta.Find(br.Fewest); has && br.Fewest != "" {
		return m.inFlight(br.Fewest, v)
	} else if !has && br.FewestOne {
		return m.inFlight(br.Fewest+"!", v)
	}
	return 0
}

// passedOver is a submission that the branch has to take from before it takes from x, as less of its value is in flight.
func (m *model) passedOver(br *strategy.Branch, x *modelSub) *modelSub {
	for _, y := range m.subs {
		if m.flight(br, y) < m.flight(br, x) && m.admitted(br, y) {
			return y
		}
	}
	return nil
}

// auditFewest checks that exactly the groups that offer something are ranked, by the chunks in flight of their values.
func (m *model) auditFewest(v *View) {
	w := v.fewest
	if w == nil || v.state == dropped {
		return
	}
	ranked, offering := len(w.heap), 0
	for _, l := range w.least {
		for bk := range m.bucketsOf(v, &l.sampler) {
			ranked += len(bk.entries)
		}
		if w.levels[l.flight] != l || l.count() == 0 || w.least[l.place] != l {
			m.fatalf("view %s: the level of %d in flight is lost or empty", v.key, l.flight)
		}
	}
	for number := range v.groups {
		x, offers := &w.turns[number], v.groups[number].offered > 0
		if offers {
			offering++
		}
		if x.term != nil && (x.flight != x.term.inFlight() || w.groupOf[x.term.number] != uint32(number)) {
			m.fatalf("view %s group %d: ranked by %d in flight, want %d", v.key, number, x.flight, x.term.inFlight())
		}
		if offers != (x.place != none) {
			m.fatalf("view %s group %d: offers %v, but has the place %d", v.key, number, offers, x.place)
		}
		switch {
		case !offers:
		case v.order != strategy.Random:
			if w.heap[x.place] != uint32(number) || x.place > 0 && (byFewest{w}).before(uint32(number), w.heap[(x.place-1)/2]) {
				m.fatalf("view %s group %d is lost in the heap", v.key, number)
			}
		default:
			l := w.levels[x.flight]
			if x.exp != exponent(v.weight(uint32(number))) || l.nth(l.search(x.exp)).entries[x.place].of != uint32(number) {
				m.fatalf("view %s group %d is lost in its level", v.key, number)
			}
		}
	}
	if ranked != offering || len(w.levels) != len(w.least) {
		m.fatalf("view %s ranks %d groups in %d levels, want %d in %d", v.key, ranked, len(w.least), offering, len(w.levels))
	}
}

// Each pick of one call raises the count of its value: a hundred picks at once go to all values in turn, and so do a hundred calls.
func TestFewestTakesTurns(t *testing.T) {
	t.Parallel()
	for _, order := range []strategy.Order{strategy.Random, strategy.OldestFirst, strategy.NewestFirst, strategy.CustomPriority} {
		b, rnd := New(), rand.New(rand.NewPCG(1, uint64(order)))
		for company := range int64(10) {
			b.add(uint32(100*(1+company)), company, is("company", company))
		}
		br := filtered(order)
		br.Fewest = "company"
		v := finished(b, br)
		foreseen := b.Preview([]*View{v}, 100, rand.New(rand.NewPCG(2, 2)), nil, nil)
		var rounds [10][]int64
		for i, p := range foreseen {
			rounds[i/10] = append(rounds[i/10], p.Submission.Priority())
		}
		for i, round := range rounds {
			slices.Sort(round)
			if !slices.Equal(round, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
				t.Errorf("%v: round %d of a preview goes to the companies %v, want each once", order, i, round)
			}
		}
		for i := range 100 {
			s, _, ok := b.Take(v, rnd)
			if want := uint32(i/10 + 1); !ok || s.InFlight() != want {
				t.Fatalf("%v: pick %d: company %d has %d in flight now, want %d", order, i, s.Priority(), s.InFlight(), want)
			}
		}
	}
}

// A pick, a landing and the taking of a value to its end look at few submissions, however many values there are.
func TestFewestLooksAtFew(t *testing.T) {
	t.Parallel()
	for _, order := range []strategy.Order{strategy.Random, strategy.OldestFirst} {
		b, rnd := New(), rand.New(rand.NewPCG(3, 3))
		for company := range int64(20_000) {
			b.add(5, 0, is("company", company))
		}
		br := filtered(order)
		br.Fewest = "company"
		v := finished(b, br)
		before := b.Examined()
		const picks = 50_000
		for range picks {
			if _, _, ok := b.Take(v, rnd); !ok {
				t.Fatal("found nothing")
			}
		}
		if looked := b.Examined() - before; looked > 2*picks {
			t.Errorf("%v: %d picks looked at %d submissions, want at most 2 each", order, picks, looked)
		}
	}
}

// Where one of two limits holds back the first submission of a value, the value ranks by its first submission that can
// be given.
func TestFewestRanksByWhatMayBeTaken(t *testing.T) {
	t.Parallel()
	b := New()
	b.add(1, 0, is("a", 1), is("b", 1)) // the oldest, held back by b
	want := b.add(1, 0, is("a", 2), is("b", 2))
	b.add(1, 0, is("a", 1), is("b", 3)) // the submission that its value can give
	full := b.add(2, 0, is("a", 9), is("b", 1))
	for kind := range int64(3) { // so that the limit of a is the scarcer one
		b.add(1, 0, is("a", 9), is("b", 10+kind))
	}
	one := func(key string) strategy.Limit { return strategy.Limit{Key: key, Max: 1} }
	v := finished(b, byFewestOf("a", limited(strategy.OldestFirst, one("a"), one("b"))))
	b.TakeChunk(full, 0)
	if s, _, ok := b.Take(v, nil); !ok || s != want {
		t.Fatalf("took from %v, want %v", s.ID(), want.ID())
	}
}
