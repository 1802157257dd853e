package backlog

import (
	"math/rand/v2"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// modelRecount is a recount beside the steps of the model, some steps of it between any two.
type modelRecount struct {
	r         *rand.Rand
	walking   bool
	comparing bool
	at        int
	rounds    int
	met       map[queue.SubmissionID]bool
}

// recount goes on with a recount by a few steps. It may find no difference, for all calls meanwhile: nothing is wrong.
func (m *model) recount() {
	c := &m.recounts
	if c.r == nil {
		c.r = rand.New(rand.NewPCG(m.seed, 22))
	}
	switch {
	case c.comparing:
		c.at, _ = m.b.Recount.Values(c.at, 1+c.r.IntN(9), func(entry queue.MetaEntry, d ValueSums) {
			m.fatalf("round %d: a recount finds %s=%s to be %+v beside what is kept, but nothing is wrong", c.rounds, entry.Key, entry.Value, d)
		})
		c.comparing = c.at > 0
	case c.walking:
		if _, more := m.b.Recount.Next(1 + c.r.IntN(9)); more {
			return
		}
		if d := m.b.Recount.End(); d != (Sums{}) {
			m.fatalf("round %d: a recount finds the totals to be %+v beside what is kept, but nothing is wrong", c.rounds, d)
		}
		if m.b.Recount.mixed {
			m.fatalf("round %d: a sum is of two values", c.rounds)
		}
		c.walking, c.comparing, c.rounds = false, true, c.rounds+1
	default:
		c.walking, c.met = true, map[queue.SubmissionID]bool{}
		m.b.Recount.Begin(func(s *Submission) {
			if c.met[s.ID()] {
				m.fatalf("round %d: submission %v is met twice", c.rounds, s.ID())
			}
			c.met[s.ID()] = true
		})
	}
}

// A total or a value's counter that is wrong by so much is found to be, by exactly that, and nothing else is, although everything changes
// during the walk; when the difference is added all is well.
func TestRecountFindsDifferences(t *testing.T) {
	t.Parallel()
	b := New()
	r := rand.New(rand.NewPCG(3, 3))
	v := b.Views.Of(&strategy.Branch{Order: strategy.Random})
	for !v.Build(100) {
	}
	var subs []*Submission
	insert := func(n int) {
		for range n {
			seq := uint32(len(subs) + 1)
			key := OrderKey(40, uint64(seq))
			meta := queue.Meta{{Key: "a", Value: queue.IntValue(int64(seq % 3))}, {Key: "b", Value: queue.IntValue(int64(seq % 50))}}
			s := b.Insert(Spec{Seq: seq, ID: queue.SubmissionID(seq), Chunks: 40, Meta: meta, Key: key})
			b.Show(s)
			subs = append(subs, s)
		}
	}
	insert(300)
	entry := queue.MetaEntry{Key: "a", Value: queue.IntValue(1)}
	b.Rules.SetValue(queue.MetaEntry{Key: "a", Value: queue.IntValue(2)}, queue.PausedByRule)
	for round, damage := range []struct {
		all Sums
		one ValueSums
	}{
		{},
		{all: Sums{Available: 7}},
		{all: Sums{Chunks: [2][3]int64{{0, -3, 0}, {2, 0, 9}}}},
		{one: ValueSums{Available: -9}},
		{one: ValueSums{InFlight: 3}},
		{one: ValueSums{Submissions: 1}},
		{one: ValueSums{Covered: [2][2]int64{{1, 0}, {0, 5}}}},
	} {
		b.Recount.CorrectTotals(damage.all)
		b.Recount.CorrectValue(entry, damage.one)
		b.Recount.Begin(func(*Submission) {})
		for more := true; more; _, more = b.Recount.Next(7) {
			for range 3 {
				if s, _, ok := b.Take(v, r); ok {
					b.Land(s)
				}
			}
			if n := r.IntN(len(subs)); r.IntN(3) == 0 {
				b.Remove(subs[n])
				insert(1)
			}
		}
		all, one := b.Recount.End(), ValueSums{}
		for at, begun := 0, false; at > 0 || !begun; begun = true {
			at, _ = b.Recount.Values(at, 5, func(of queue.MetaEntry, d ValueSums) {
				if of != entry {
					t.Errorf("round %d: %s=%s is found to be %+v beside what is kept", round, of.Key, of.Value, d)
				}
				one = d
			})
		}
		if all != negated(damage.all) {
			t.Errorf("round %d: totals: found %+v, damaged by %+v", round, all, damage.all)
		}
		if want := (ValueSums{Available: -damage.one.Available, InFlight: -damage.one.InFlight, Submissions: -damage.one.Submissions, Covered: [2][2]int64{
			{-damage.one.Covered[0][0], -damage.one.Covered[0][1]}, {-damage.one.Covered[1][0], -damage.one.Covered[1][1]},
		}}); one != want {
			t.Errorf("round %d: %s=%s: found %+v, damaged by %+v", round, entry.Key, entry.Value, one, damage.one)
		}
		b.Recount.CorrectTotals(all)
		b.Recount.CorrectValue(entry, one)
	}
}

func negated(d Sums) (out Sums) {
	out.Available = -d.Available
	for book := range d.Chunks {
		for i, by := range d.Chunks[book] {
			out.Chunks[book][i] = -by
		}
	}
	return out
}

// A number of available chunks that was changed behind the back of the views, also across the bounds by which Random sorts, is corrected: the
// submission is then in every view as if nothing had been.
func TestSetAvailable(t *testing.T) {
	t.Parallel()
	for _, wrong := range []uint32{0, 1, 39, 41, 300, 1<<32 - 2} {
		b := New()
		views := []*View{b.Views.Of(&strategy.Branch{Order: strategy.Random}), b.Views.Of(&strategy.Branch{Order: strategy.OldestFirst})}
		for _, v := range views {
			for !v.Build(100) {
			}
		}
		var subs []*Submission
		for seq := uint32(1); seq <= 9; seq++ {
			key := OrderKey(40, uint64(seq))
			s := b.Insert(Spec{Seq: seq, ID: queue.SubmissionID(seq), Chunks: 40, Key: key})
			b.Show(s)
			subs = append(subs, s)
		}
		s := subs[4]
		s.available = wrong
		if got := s.Recounted(); got != 40 {
			t.Errorf("Recounted() = %d, want 40", got)
		}
		if !b.SetAvailable(s, s.Recounted()) {
			t.Fatalf("%d instead of 40: it is not corrected", wrong)
		}
		r := rand.New(rand.NewPCG(1, 1))
		taken := 0
		for i := 0; ; i++ {
			if _, _, ok := b.Take(views[i%2], r); !ok {
				break
			}
			taken++
		}
		if taken != 9*40 {
			t.Errorf("%d instead of 40, corrected: %d chunks are taken, want %d", wrong, taken, 9*40)
		}
		if b.Available() != 0 || len(b.oldest.heap) != 0 || !views[0].Empty() || views[1].size != 0 {
			t.Errorf("%d instead of 40, corrected, all taken: %d available, %d in the heap of the oldest", wrong, b.Available(), len(b.oldest.heap))
		}
	}
}
