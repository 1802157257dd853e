package backlog

import (
	"math/rand/v2"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// The head of an ordered view is the submission that Take gives next, in every state of its limits, and nothing when
// Take gives nothing.
func TestHeadIsWhatIsTakenNext(t *testing.T) {
	t.Parallel()
	for _, br := range []strategy.Branch{
		limited(strategy.OldestFirst),
		limited(strategy.NewestFirst),
		limited(strategy.CustomPriority),
		filtered(strategy.OldestFirst, equals("a", 3)),
		limited(strategy.CustomPriority, strategy.Limit{Key: "a", Max: 2}),
		limited(strategy.OldestFirst, strategy.Limit{Key: "a", Max: 2}, strategy.Limit{Key: "b", Max: 3}),
		byFewestOf("a", limited(strategy.CustomPriority)),
	} {
		t.Run(br.Key(), func(t *testing.T) {
			t.Parallel()
			b, rnd := New(), rand.New(rand.NewPCG(3, 4))
			for i := range int64(60) {
				b.add(uint32(1+i%4), i%9, is("a", i%7), is("b", i%5))
			}
			v := finished(b, br)
			var held []*Submission
			for range 400 {
				head, has := b.Head(v, rnd)
				s, _, ok := b.Take(v, rnd)
				if has != ok {
					t.Fatalf("there is a head: %v, and something to take: %v", has, ok)
				}
				if ok {
					if head.ID != s.ID() || head.Priority != s.priority {
						t.Fatalf("the head is %+v, and %d was taken", head, s.ID())
					}
					held = append(held, s)
				}
				if len(held) > 0 && (!ok || rnd.IntN(3) == 0) {
					at := rnd.IntN(len(held))
					b.Land(held[at])
					held[at] = held[len(held)-1]
					held = held[:len(held)-1]
				}
			}
		})
	}
}

// A pick within a bound never passes over it, and passes up nothing that comes before it.
func TestTakeWithinABound(t *testing.T) {
	t.Parallel()
	b, rnd := New(), rand.New(rand.NewPCG(5, 6))
	for range 9 {
		b.add(1, 0)
	}
	v, bound := finished(b, limited(strategy.OldestFirst)), Head{ID: 45}
	for id := queue.SubmissionID(10); id <= 40; id += 10 {
		if s, _, ok := b.TakeWithin(v, &bound, rnd); !ok || s.ID() != id {
			t.Fatalf("got %v, want %d", s, id)
		}
	}
	if s, _, ok := b.TakeWithin(v, &bound, rnd); ok {
		t.Errorf("%d was taken, which comes after the bound", s.ID())
	}
}

// Draws over two backlogs by their weights give every chunk of both the same chance, however full they are.
func TestDrawsOverSeveralBacklogs(t *testing.T) {
	t.Parallel()
	const draws = 60_000
	for _, br := range []strategy.Branch{
		limited(strategy.Random),
		limited(strategy.Random, strategy.Limit{Key: "a", Max: 50}),
		limited(strategy.Random, strategy.Limit{Key: "a", Max: 50}, strategy.Limit{Key: "b", Max: 50}),
		byFewestOf("c", limited(strategy.Random)),
	} {
		t.Run(br.Key(), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(7, 8))
			backlogs := []*Backlog{New(), New()}
			var subs []*Submission
			for i := range int64(40) { // 8 has a bound of 8, and 21 one of 24: an eighth of its draws fails
				of, chunks := backlogs[0], uint32(8)
				if i%4 == 0 {
					of, chunks = backlogs[1], 21
				}
				subs = append(subs, of.add(chunks, 0, is("a", i%7), is("b", i%5)))
			}
			views := []*View{finished(backlogs[0], br), finished(backlogs[1], br)}
			got, want := make([]float64, len(subs)), make([]float64, len(subs))
			total := 0.0
			for i, s := range subs {
				want[i] = float64(s.Available())
				total += want[i]
			}
			for range draws {
				for done := false; !done; {
					var heads [2]Head
					for i := range heads {
						heads[i], _ = backlogs[i].Head(views[i], rnd)
					}
					at := 0
					if rnd.Uint64N(heads[0].Weight+heads[1].Weight) >= heads[0].Weight {
						at = 1
					}
					s, index, ok := backlogs[at].TakeOnce(views[at], heads[at].Weight, rnd)
					if done = ok; ok {
						for i := range subs {
							if subs[i] == s {
								got[i]++
							}
						}
						backlogs[at].Land(s)
						backlogs[at].PutBack(s, index)
					}
				}
			}
			for i := range want {
				want[i] *= draws / total
			}
			chiSquare(t, br.Key(), got, want)
		})
	}
}
