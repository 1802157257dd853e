package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// countedChunks is a queue as one list of its submissions, each with one chunk, in the order of their ids.
type countedChunks struct {
	ids    []queue.SubmissionID
	users  map[queue.SubmissionID]string
	flying map[string]int
	taken  map[queue.SubmissionID]bool
}

// best are the submissions that a strategy may give next: of the users below a limit, those with the fewest chunks in flight if that is
// asked for.
func (c *countedChunks) best(limit int, fewest bool) (list []queue.SubmissionID) {
	least := limit
	for _, id := range c.ids {
		switch n := c.flying[c.users[id]]; {
		case c.taken[id] || n >= limit || fewest && n > least:
			continue
		case fewest && n < least:
			least, list = n, nil
		}
		list = append(list, id)
	}
	return list
}

func (c *countedChunks) take(id queue.SubmissionID) {
	c.taken[id] = true
	c.flying[c.users[id]]++
}

// With a limit that shards count together, chunks come in the order of one list of all chunks, also while other calls take and finish
// chunks.
func TestOrderByCountsOfAllShards(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		strategy string
		limit    int
		fewest   bool
		place    func(list []queue.SubmissionID) queue.SubmissionID // nil: any
	}{
		{`MaxSimultaneous("user", 1, OldestFirst)`, 1, false, slices.Min[[]queue.SubmissionID]},
		{`MaxSimultaneous("user", 2, NewestFirst)`, 2, false, slices.Max[[]queue.SubmissionID]},
		{`MaxSimultaneous("user", 2, Random)`, 2, false, nil},
		{`PreferDistinct("user", OldestFirst)`, 1000, true, slices.Min[[]queue.SubmissionID]},
		{`PreferDistinct("user", Random)`, 1000, true, nil},
	} {
		t.Run(test.strategy, func(t *testing.T) {
			t.Parallel()
			e, w := openSharded(t, t.TempDir(), 4)
			defer closed(t, e)
			seed := rand.Uint64()
			t.Logf("seed of the steps %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 1))
			c := &countedChunks{users: map[queue.SubmissionID]string{}, flying: map[string]int{}, taken: map[queue.SubmissionID]bool{}}
			for range 240 { // a user has work in few groups, so shards differ in who has work there
				user := rnd.IntN(6)
				s := put1(t, w, queue.NewSubmission{Group: fmt.Sprint("g", (user+rnd.IntN(3))%8), Meta: queue.Meta{
					{Key: "user", Value: queue.StringValue(fmt.Sprint("u", user))}}})
				c.ids, c.users[s.ID] = append(c.ids, s.ID), fmt.Sprint("u", user)
			}
			slices.Sort(c.ids)
			var held []queue.Reservation
			for step := range 400 {
				switch n := rnd.IntN(4); {
				case n == 0 && len(held) > 0:
					at := rnd.IntN(len(held))
					if _, err := w.Complete(t.Context(), completes(held[at:at+1]), nil); err != nil {
						t.Fatal(err)
					}
					c.flying[userOf(&held[at])]--
					held = slices.Delete(held, at, at+1)
				case n == 1:
					for _, r := range takenBy(t, w, `SelectOnly("user", "u0", Random)`, 1) {
						held = append(held, r)
						c.take(r.Token.Submission)
					}
				default:
					most := 1 + rnd.IntN(3)
					got := takenBy(t, w, test.strategy, most)
					for i := range got {
						id, best := got[i].Token.Submission, c.best(test.limit, test.fewest)
						if !slices.Contains(best, id) || test.place != nil && test.place(best) != id {
							t.Fatalf("step %d: the chunk number %d of %d was of %s, with %v in flight; it was to be one of %v, and is %v",
								step, i, most, userOf(&got[i]), c.flying, best, id)
						}
						c.take(id)
					}
					if held = append(held, got...); len(got) < most && len(c.best(test.limit, test.fewest)) > 0 {
						t.Fatalf("step %d: %d chunks of %d were taken, with %v in flight, though there is %v", step, len(got), most,
							c.flying, c.best(test.limit, test.fewest))
					}
				}
			}
		})
	}
}
