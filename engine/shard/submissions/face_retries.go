package submissions

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/sdk/api"
)

// What one question about failed tries looks at and keeps.
const (
	MostRetries = 100_000 // chunks that wait for their next try
	MostKinds   = 1000    // kinds of errors; chunks of others are counted
	mostTries   = 10      // numbers of tries that a kind tells apart; the last one is that and more
)

// failing is a chunk that waits for its next try.
type failing struct {
	chunk queue.ChunkID
	err   string
	tries uint32
	next  queue.Time
}

// kinds counts them by error.
type kinds struct {
	of     map[string]*kind
	others uint64
}

type kind struct {
	api.RetryGroup
	last  queue.SubmissionID
	tries [mostTries + 1]uint64
	next  queue.Time
}

func (k *kinds) add(f *failing) {
	fingerprint := queue.Fingerprint(f.err)
	x := k.of[fingerprint]
	if x == nil {
		if len(k.of) >= MostKinds {
			k.others++
			return
		}
		x = &kind{next: f.next}
		x.Fingerprint, x.Example = fingerprint, f.err
		x.Submission, x.Index = f.chunk.Submission.String(), f.chunk.Index
		k.of[fingerprint] = x
	}
	x.Count++
	x.tries[min(f.tries, mostTries)]++
	x.next = min(x.next, f.next)
	if f.chunk.Submission != x.last { // those of a submission come one after the other
		x.last = f.chunk.Submission
		x.Submissions++
	}
}

// list is the largest first.
func (k *kinds) list() []api.RetryGroup {
	items := make([]api.RetryGroup, 0, len(k.of))
	for x := range maps.Values(k.of) {
		x.Pattern, x.NextAt = queue.Pattern(x.Example), x.next.API()
		for tries, n := range x.tries {
			if n > 0 {
				x.Tries = append(x.Tries, api.RetryTries{Tries: uint32(tries), Count: n})
			}
		}
		items = append(items, x.RetryGroup)
	}
	slices.SortFunc(items, func(a, b api.RetryGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	return items
}

// Failing groups the chunks that failed and wait for their next try by the kind of their last error,
// the largest group first. It looks at so many of the newest submissions and chunks, in slices, and
// says how many chunks these were.
func (s *Submissions) Failing(ctx context.Context, f machine.Filter) (out api.RetryGroups, err error) {
	found := kinds{of: map[string]*kind{}}
	before := queue.SubmissionID(math.MaxInt64)
	var ids []queue.SubmissionID
	visit := func(r *machine.Record) bool {
		if r.Sub != nil && r.Waiting > 0 && f.Matches(r) {
			ids = append(ids, r.ID)
		}
		return true
	}
	for looked := 0; before != 0 && looked < MostWeighed && out.Examined < MostRetries; looked += machine.ListSlice {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		s.Look(func(m *machine.Machine) { before = m.Order.Before(before, machine.ListSlice, visit) })
		for _, id := range ids {
			out.Examined += s.failingOf(id, &found, MostRetries-out.Examined)
		}
		ids = ids[:0]
	}
	out.Items, out.Others = found.list(), found.others
	return out, nil
}

// failingOf adds the chunks of one submission, in slices.
func (s *Submissions) failingOf(id queue.SubmissionID, found *kinds, most uint64) (n uint64) {
	var list []failing
	for from, more := uint64(0), true; more && n < most; {
		list = list[:0]
		s.Look(func(m *machine.Machine) {
			r := m.Live(id)
			if more = r != nil && r.Waiting > 0; !more {
				return
			}
			indexes := r.Delays.From(from, machine.LookMost, nil)
			more = len(indexes) == machine.LookMost
			for _, index := range indexes {
				from = uint64(index) + 1
				if t := r.Tries[index]; t != nil && t.Attempts+uint16(t.Expiries) > 0 {
					chunk := queue.ChunkID{Submission: id, Index: index}
					list = append(list, failing{chunk, t.Err, uint32(t.Attempts), t.NotBefore})
				}
			}
		})
		for i := range list { // without the mutex
			if n < most {
				found.add(&list[i])
				n++
			}
		}
	}
	return n
}
