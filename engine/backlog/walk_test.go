package backlog

import (
	"math/rand/v2"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// Although values come and go between its steps, a walk over values meets every value that was there all the time; one
// that it meets twice it owns up to, and no step looks at more than it was asked to.
func TestWalkValuesMeetsWhatStays(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for round := range 300 {
		b := New()
		var seq uint32
		there := map[int64]*Submission{}
		enter := func(value int64) {
			seq++
			meta := queue.Meta{{Key: "a", Value: queue.IntValue(value)}}
			there[value] = b.Insert(Spec{ID: queue.SubmissionID(seq), Seq: seq, Chunks: 1, Meta: meta})
			b.Show(there[value])
		}
		n := 1 + rnd.Int64N(60)
		for value := range n {
			enter(value)
		}
		stays := map[int64]bool{}
		for value := range n {
			stays[value] = rnd.IntN(3) > 0
		}
		met := map[int64]int{}
		var walk ValueWalk
		for more := true; more; {
			most, looked := 1+rnd.IntN(8), 0
			more = b.Values.Walk("a", &walk, most, func(v ValueCount) {
				looked++
				met[v.Value.Int()]++
			})
			if looked > most {
				t.Fatalf("seed %d, round %d: a step met %d values, asked for %d at most", seed, round, looked, most)
			}
			for value := range n {
				if !stays[value] && there[value] != nil && rnd.IntN(4) == 0 {
					b.Remove(there[value])
					delete(there, value)
				}
			}
			if rnd.IntN(3) == 0 {
				enter(n + int64(seq))
			}
		}
		for value, times := range met {
			if times > 1 && !walk.Twice {
				t.Fatalf("seed %d, round %d: %d was met %d times, and the walk does not say so", seed, round, value, times)
			}
		}
		for value, stayed := range stays {
			if stayed && met[value] == 0 {
				t.Fatalf("seed %d, round %d: of %d values %d stayed, and was not met", seed, round, n, value)
			}
		}
	}
}
