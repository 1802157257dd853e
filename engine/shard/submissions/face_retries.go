package submissions

// Chunks that failed and wait for their next attempt: they show failures before any chunk is dead. There is no index of
// them by error, because they come and go with every failure. So each question walks over submissions that have waiting
// chunks, within the bounds below, and says how many it looked at.

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

// Bounds of one question about failed tries.
const (
	MostRetries = 100_000 // chunks that wait for their next try
	MostKinds   = 1000    // kinds of errors; chunks of others are counted
	mostTries   = 10      // numbers of tries that a kind counts apart; the last one is for that many and more
)

// failing is a chunk that waits for its next try.
type failing struct {
	chunk  queue.ChunkID
	meta   queue.Meta
	err    string
	tries  uint16
	failed queue.Time // the last try
	next   queue.Time
}

// kinds counts failing chunks by error.
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

// Example, submission and index are of the first chunk that was met, which is of the newest submission: operators can
// still find it in their logs.
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
	if f.chunk.Submission != x.last { // the chunks of a submission come one after the other
		x.last = f.chunk.Submission
		x.Submissions++
	}
}

// list lists the kinds, the largest first.
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

// Failing groups the chunks that failed and wait for their next try by the kind of their last error, the largest group
// first. It looks at no more than MostWeighed of the newest submissions and MostRetries chunks, in slices, and says how
// many chunks it looked at.
func (s *Submissions) Failing(ctx context.Context, f machine.Filter) (out api.RetryGroups, err error) {
	found := kinds{of: map[string]*kind{}}
	_, err = s.eachFailing(ctx, &f, queue.ChunkID{}, func(x *failing) bool {
		found.add(x)
		out.Examined++
		return true
	})
	out.Items, out.Others = found.list(), found.others
	return out, err
}

// Retries lists up to limit failing chunks whose last error has the fingerprint ("": any), from a chunk on (zero: the
// first): those of the newest submission first, and of one submission by index. next is where the next page begins,
// zero if there is none. A page may be short.
func (s *Submissions) Retries(ctx context.Context, f machine.Filter, fingerprint string, from queue.ChunkID,
	limit int) (list []api.Retry, next queue.ChunkID, err error) {
	bytes := 0
	next, err = s.eachFailing(ctx, &f, from, func(x *failing) bool {
		kind := queue.Fingerprint(x.err)
		if fingerprint != "" && fingerprint != kind {
			return true
		}
		if len(list) == limit || bytes > queue.MaxAnswerBytes {
			return false
		}
		bytes += len(x.err) + x.meta.Bytes()
		list = append(list, api.Retry{Submission: x.chunk.Submission.String(), Index: x.chunk.Index,
			Meta: x.meta.Object(), Attempts: uint32(x.tries), Error: x.err, Fingerprint: kind,
			FailedAt: x.failed.API(), NextAt: x.next.API()})
		return true
	})
	return list, next, err
}

// eachFailing visits the chunks that failed and wait for their next try, from one on, in slices, until visit returns
// false or it has looked at MostWeighed submissions or MostRetries chunks. next is the chunk to go on with; zero: it
// has visited all. Ids are collected under the lock, and each submission is looked up again later, as it may have ended
// in between.
func (s *Submissions) eachFailing(ctx context.Context, f *machine.Filter, from queue.ChunkID,
	visit func(*failing) bool) (next queue.ChunkID, err error) {
	before := queue.SubmissionID(math.MaxInt64)
	if from.Submission != 0 {
		before = from.Submission + 1
	}
	var ids []queue.SubmissionID
	collect := func(r *machine.Record) bool {
		if r.Sub != nil && r.Waiting > 0 && f.Matches(r) {
			ids = append(ids, r.ID)
		}
		return true
	}
	left := MostRetries
	for looked := 0; before != 0; looked += machine.ListSlice {
		if err := ctx.Err(); err != nil || looked >= MostWeighed {
			return queue.ChunkID{Submission: before - 1}, err
		}
		s.Look(func(m *machine.Machine) { before = m.Order.Before(before, machine.ListSlice, collect) })
		for _, id := range ids {
			at := queue.ChunkID{Submission: id}
			if id == from.Submission {
				at = from
			}
			if stopped := s.failingOf(at, &left, visit); stopped.Submission != 0 {
				return stopped, nil
			}
		}
		ids = ids[:0]
	}
	return queue.ChunkID{}, nil
}

// failingOf visits the failing chunks of one submission, from one on, in slices. stopped is the chunk at which it
// stopped; zero: it did not. A waiting chunk without attempts was snoozed or waits for its run_at: it did not fail.
func (s *Submissions) failingOf(at queue.ChunkID, left *int, visit func(*failing) bool) (stopped queue.ChunkID) {
	var list []failing
	for from, more := uint64(at.Index), true; more; {
		list = list[:0]
		s.Look(func(m *machine.Machine) {
			r := m.Live(at.Submission)
			if more = r != nil && r.Waiting > 0; !more {
				return
			}
			indexes := r.Delays.From(from, machine.LookMost, nil)
			more = len(indexes) == machine.LookMost
			for _, index := range indexes {
				from = uint64(index) + 1
				if t := r.Tries[index]; t != nil && t.Attempts > 0 {
					chunk := queue.ChunkID{Submission: r.ID, Index: index}
					list = append(list, failing{chunk, r.Meta(), t.Err, t.Attempts, t.Died(), t.NotBefore})
				}
			}
		})
		for i := range list { // without the mutex
			if *left--; *left < 0 || !visit(&list[i]) {
				return list[i].chunk
			}
		}
	}
	return stopped
}
