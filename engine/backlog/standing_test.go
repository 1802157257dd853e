package backlog

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// stand is how many chunks an ordered view of one filter takes before this one, as a walk counts them.
func stand(b *Backlog, order strategy.Order, f strategy.Filter, s *Submission, index uint32) (before uint64) {
	for from, more := -1, true; more; more = from != 0 {
		from = b.Walk(from, 3, func(x *Submission) {
			switch value, has := x.Find(f.Key); {
			case !f.Admits(value, has):
			case x == s:
				before += uint64(s.AvailableBefore(index))
			case x.Before(s, order):
				before += uint64(x.Available())
			}
		})
	}
	return before
}

// Where a chunk is said to stand is how many chunks are taken before it.
func TestStanding(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 8))
		b := New()
		for i := range 8 {
			b.add(1+rnd.Uint32N(30), int64(rnd.IntN(3)), is("company", int64(i%3)))
		}
		order, wanted := strategy.OldestFirst+strategy.Order(seed%3), equals("company", 1)
		ordered, random := finished(b, filtered(order, wanted)), finished(b, filtered(strategy.Random))
		for range rnd.IntN(60) {
			v := random
			if rnd.IntN(2) == 0 && !ordered.Empty() {
				v = ordered
			}
			if s, index, ok := b.Take(v, rnd); ok && rnd.IntN(2) == 0 {
				b.PutBack(s, index)
				b.Land(s)
			} else if ok {
				b.Withdraw(s, rnd.Uint32N(s.Chunks()), true)
			}
		}
		for place, pick := range b.Preview([]*View{ordered}, 1000, rnd, nil, nil) {
			if got := stand(b, order, wanted, pick.Submission, pick.Index); got != uint64(place) {
				t.Fatalf("seed %d: chunk %d of %v stands at %d, want %d", seed, pick.Index, pick.Submission.ID(), got, place)
			}
		}
	}
}

// Of a large pile the place is inferred, and not far off.
func TestStandingIsInferred(t *testing.T) {
	t.Parallel()
	const chunks = 20 * sampled
	b, rnd := New(), rand.New(rand.NewPCG(1, 1))
	s := b.add(chunks, 0)
	v := finished(b, filtered(strategy.Random))
	for range chunks {
		b.Take(v, rnd)
	}
	for _, index := range rnd.Perm(chunks) {
		b.PutBack(s, uint32(index))
		b.Land(s)
	}
	for _, index := range []uint32{0, chunks / 4, chunks / 2, chunks - 1} {
		if got := int(s.AvailableBefore(index)); got < int(index)-chunks/10 || got > int(index)+chunks/10 {
			t.Errorf("chunk %d of %d stands at %d", index, chunks, got)
		}
	}
}

// A walk meets every shown submission once when nothing changes, and no more at once than it may.
func TestWalk(t *testing.T) {
	t.Parallel()
	b := New()
	var want []uint32
	for range 10 {
		want = append(want, b.add(1, 0).Seq())
	}
	b.Hide(b.BySeq(want[4]))
	want = slices.Delete(want, 4, 5)
	for most := 1; most < 12; most++ {
		var got []uint32
		calls := 0
		for from, more := -1, true; more; more = from != 0 {
			before := len(got)
			from = b.Walk(from, most, func(s *Submission) { got = append(got, s.Seq()) })
			if calls++; len(got)-before > most {
				t.Errorf("a walk met %d submissions at once, want at most %d", len(got)-before, most)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) || calls != (len(want)+most-1)/most || b.ShownLen() != len(want) {
			t.Errorf("%d at once: met %v in %d calls, want %v", most, got, calls, want)
		}
	}
	if next := New().Walk(-1, 5, func(*Submission) { t.Error("met something in an empty backlog") }); next != 0 {
		t.Errorf("a walk over nothing goes on from %d", next)
	}
}

// seatedAt is the tenants of a submission on the way to a leaf.
func seatedAt(v *View, s *Submission, leaf int) (list []Tenant) {
	for _, seat := range v.Seats(s, leaf) {
		list = append(list, seat.Tenant())
	}
	return list
}

// Questions about tenants answer what the ledgers have: Take serves the tenant that is said to be next, at every level,
// and the totals are the counts of the tenants that a walk meets.
func TestTenants(t *testing.T) {
	t.Parallel()
	b, rnd := New(), rand.New(rand.NewPCG(3, 3))
	for i := range 14 {
		b.add(5, 0, is("company", int64(i%7)), is("user", int64(i/7)))
	}
	b.add(3, 0)
	keys := []string{"company", "user"}
	br := strategy.Branch{Fair: keys[0], Inner: []strategy.Branch{fairly(keys[1], strategy.OldestFirst, strategy.Limit{Key: "company", Max: 2})}}
	v := finished(b, br)
	for range 12 {
		shares := v.NextShares(0)
		var next []Tenant
		for _, x := range shares {
			if tenant, ok := x.Next(); ok {
				next = append(next, tenant)
			}
		}
		s, _, taken := b.Take(v, rnd)
		if len(next) != 2 || !taken {
			t.Fatalf("next are %+v, taken: %v", next, taken)
		}
		own := seatedAt(v, s, 0)
		for level, key := range keys {
			value, has := s.Find(key)
			if next[level].Value != value || next[level].HasValue != has {
				t.Fatalf("next at level %d is %v, taken was %v", level, next[level].Value, value)
			}
			if len(own) != 2 || own[level].Value != value || own[level].HasValue != has || own[level].Lag > 0 || own[level].Each != 1 {
				t.Fatalf("the tenants of %v are %+v, which were just served", s.Meta(), own)
			}
		}
	}
	for level := range keys {
		met, met2 := map[fair.State]int{}, Totals{}
		for from, more := 0, true; more; more = from != 0 {
			from = v.Totals(0, level, from, 3, &met2)
		}
		shares := v.fair.root.shares
		if level == 1 {
			shares = v.fair.root.arms[0].inner.shares
		}
		for _, x := range shares {
			for from, more := 0, true; more; more = from != 0 {
				from = Share{x}.Tenants(from, 3, func(x Tenant) { met[x.State]++ })
			}
		}
		want := Totals{len(shares), met[fair.Active], met[fair.Owing], met[fair.Blocked]}
		if met2 != want || want.Blocked == 0 || want.Active == 0 || level == 1 && want.Shares != 8 {
			t.Errorf("level %d: the totals are %+v, met were %+v; want the same, with some of both blocked and active", level, met2, want)
		}
	}
	plain := finished(b, filtered(strategy.OldestFirst))
	if len(plain.NextShares(0)) != 0 || len(plain.Seats(b.BySeq(b.subs.list[b.subs.first].Seq()), 0)) != 0 || plain.Totals(0, 0, 0, 10, &Totals{}) != 0 {
		t.Error("a view that is not fair has tenants")
	}
	by := finished(b, fairly(strategy.SubmissionKey, strategy.OldestFirst))
	first := b.BySeq(b.subs.list[b.subs.first].Seq())
	if own := seatedAt(by, first, 0); len(own) != 1 || own[0].Value.Text() != first.ID().String() {
		t.Errorf("under the pseudo key the tenant is %+v, want the submission %s", own, first.ID())
	}
}

// Inside of a tenant an earlier alternative that has something comes first, at whatever level, and asking changes no lag.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	b, rnd := New(), rand.New(rand.NewPCG(4, 4))
	tight := []strategy.Limit{{Key: "site", Max: 1}, {Key: "user", Max: 1}}
	v := finished(b, strategy.Branch{Fair: "company", Inner: []strategy.Branch{
		fairly("user", strategy.OldestFirst, tight...), // leaf 0
		{Fair: "user", Inner: []strategy.Branch{{Order: strategy.OldestFirst, Limits: tight[:1]}, {Order: strategy.NewestFirst}}}, // leaves 1 and 2
	}})
	one := b.add(4, 0, is("company", 1), is("site", 1), is("user", 1))
	two := b.add(4, 0, is("company", 1), is("site", 1), is("user", 2))
	far := b.add(4, 0, is("company", 2), is("site", 2), is("user", 3))
	ask := func(when string, s *Submission, leaf, want int) {
		t.Helper()
		before := [3][]Tenant{seatedAt(v, one, 2), seatedAt(v, two, 2), seatedAt(v, far, 2)}
		by, ok := b.Overtaken(v, s, leaf)
		if !ok {
			by = -1
		}
		if by != want {
			t.Errorf("%s: leaf %d of %v is overtaken by %d, want %d (-1: by none)", when, leaf, s.Meta(), by, want)
		}
		if after := [3][]Tenant{seatedAt(v, one, 2), seatedAt(v, two, 2), seatedAt(v, far, 2)}; !slices.EqualFunc(before[:], after[:], slices.Equal[[]Tenant]) {
			t.Errorf("%s: the tenants were %+v and are %+v", when, before, after)
		}
	}
	ask("at first", one, 0, -1)
	ask("at first", one, 1, 0)
	ask("at first", two, 2, 0)
	for range 2 { // one of each company
		b.Take(v, rnd)
	}
	// The site of the first company is full now: only the last alternative has something for its users.
	ask("with full sites", one, 0, -1)
	ask("with full sites", one, 1, -1)
	ask("with full sites", two, 2, -1)
	for _, s := range []*Submission{one, two} {
		for index := range s.Chunks() {
			if s.inFlight > 0 {
				b.PutBack(s, index)
				b.Land(s)
			}
		}
	}
	ask("with the first site free", two, 2, 0)
	ask("with the first site free", far, 2, -1)
	if leaf, ok := b.Gives(v); !ok || leaf != 0 {
		t.Errorf("leaf %d (%v) gives, want leaf 0", leaf, ok)
	}
}

// Withheld names the value that an operator's limit withholds, with its numbers.
func TestWithheld(t *testing.T) {
	t.Parallel()
	b, rnd := New(), rand.New(rand.NewPCG(5, 5))
	s := b.add(4, 0, is("company", 1), is("user", 2))
	user := queue.MetaEntry{Key: "user", Value: queue.IntValue(2)}
	b.Values.Set(user.Key, user.Value, queue.ValueSettings{Limit: 2})
	v := finished(b, filtered(strategy.Random))
	for i := range uint32(3) {
		at, withheld := s.Withheld()
		if want := (queue.Saturated{MetaEntry: user, InFlight: 2, Limit: 2}); withheld != (i == 2) || withheld && at != want {
			t.Errorf("with %d in flight: withheld is %+v (%v), want it from 2 on: %+v", i, at, withheld, want)
		}
		b.Take(v, rnd)
	}
	b.Values.Set(user.Key, user.Value, queue.NoSettings())
	if at, withheld := s.Withheld(); withheld {
		t.Errorf("without a setting: withheld by %+v", at)
	}
}
