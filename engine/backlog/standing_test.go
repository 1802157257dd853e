package backlog

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/strategy"
)

// stand is how many chunks an ordered view of one filter takes before this one, by what a walk sees.
func stand(b *Backlog, order strategy.Order, f strategy.Filter, s *Submission, index uint32) (before uint64) {
	for from, more := -1, true; more; more = from != 0 {
		from = b.Walk(from, 3, func(x *Submission) {
			switch value, _, has := x.Find(f.Key); {
			case !has || value != f.Value:
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
		order, wanted := strategy.OldestFirst+strategy.Order(seed%3), filter("company", 1)
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
		for place, pick := range b.Preview([]*View{ordered}, 1000, rnd, nil) {
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

// Tenants are told as the ledger has them: who is next is who is taken from.
func TestTenants(t *testing.T) {
	t.Parallel()
	b, rnd := New(), rand.New(rand.NewPCG(3, 3))
	for i := range 7 {
		b.add(5, 0, is("company", int64(i)))
	}
	b.add(3, 0)
	br := fairly("company", strategy.OldestFirst, strategy.Limit{Key: "company", Max: 2})
	v := finished(b, br)
	for range 12 {
		shares, ok := v.Shares()
		s, _, taken := b.Take(v, rnd)
		if !ok || shares.HasNext != taken {
			t.Fatalf("next is %+v (%v), taken: %v", shares, ok, taken)
		}
		value, _, has := s.Find("company")
		if shares.Next.Value != value || shares.Next.HasValue != has {
			t.Fatalf("next is %v, taken was %v", shares.Next, value)
		}
		if own, ok := v.TenantOf(s); !ok || own.Value != value || own.HasValue != has || own.Lag > 0 {
			t.Fatalf("the tenant of %v is %+v, which was just served", value, own)
		}
	}
	met := map[fair.State]int{}
	for from, more := 0, true; more; more = from != 0 {
		from = v.Tenants(from, 3, func(x Tenant) { met[x.State]++ })
	}
	if shares, _ := v.Shares(); shares.Active != met[fair.Active] || shares.Owing != met[fair.Owing] || shares.Blocked != met[fair.Blocked] || met[fair.Blocked] == 0 || met[fair.Active] == 0 {
		t.Errorf("shares are %+v, met were %v; want the same, with some of both blocked and active", shares, met)
	}
	plain := finished(b, filtered(strategy.OldestFirst))
	if _, ok := plain.Shares(); ok || plain.Tenants(0, 10, func(Tenant) {}) != 0 {
		t.Error("a view that is not fair has tenants")
	}
	by := finished(b, fairly(strategy.SubmissionKey, strategy.OldestFirst))
	first := b.BySeq(b.subs[b.first].Seq())
	if own, ok := by.TenantOf(first); !ok || own.Value.Text() != first.ID().String() {
		t.Errorf("under the pseudo key the tenant is %+v, want the submission %s", own, first.ID())
	}
}
