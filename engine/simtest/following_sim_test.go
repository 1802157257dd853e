package simtest

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// drawFollowing makes up the submissions that a completion brings: some under keys, some under the key of
// the one before.
func (s *sim) drawFollowing() []queue.Insertion {
	list := make([]queue.Insertion, 1+s.lists.IntN(3))
	for i := range list {
		n := s.draw()
		switch {
		case i > 0 && list[i-1].New.IdempotencyKey != "" && s.lists.IntN(2) == 0:
			n = *list[i-1].New
		case s.lists.IntN(2) == 0:
			s.keys++
			n.IdempotencyKey = fmt.Sprint("key", s.keys)
			binary.LittleEndian.PutUint64(n.Fingerprint[:], s.lists.Uint64())
		}
		list[i].New = &n
	}
	return list
}

// followingOf are the submissions that the completions of a call bring, as requested.
func followingOf(call []queue.CompleteItem) [][]queue.NewSubmission {
	all := make([][]queue.NewSubmission, len(call))
	for i := range call {
		for _, in := range call[i].Insert {
			all[i] = append(all[i], *in.New)
		}
	}
	return all
}

// refusesSome says that a rule refuses one of these.
func (s *sim) refusesSome(list []queue.NewSubmission) bool {
	return slices.ContainsFunc(list, func(n queue.NewSubmission) bool { return s.m.refuses(n.Meta) })
}

// following are the submissions that the completions of a call should have inserted.
type following struct {
	*sim
	failed bool // the commit failed: no caller knows the ids
	asked  []queue.NewSubmission
	there  []queue.Submission
}

// add takes the submissions of an accepted completion, and checks those that repeat a key.
func (f *following) add(asked []queue.NewSubmission, list []queue.Insertion) {
	for i, n := range asked {
		if i > 0 && n.IdempotencyKey != "" && asked[i-1].IdempotencyKey == n.IdempotencyKey {
			if !f.failed && (!list[i].Replayed || list[i].Submission.ID != list[i-1].Submission.ID) {
				f.fail("submission %d of a completion: got %s, replayed=%v; want a replay of %s", i, list[i].Submission.ID, list[i].Replayed,
					list[i-1].Submission.ID)
			}
			continue
		}
		f.asked, f.there = append(f.asked, n), append(f.there, list[i].Submission)
	}
}

// takeEffect adds them to the model.
func (f *following) takeEffect() {
	if f.failed {
		list, _, err := f.shard.Submissions.List(ctx, machine.Filter{}, 0, len(f.asked)+1)
		f.must("list", err)
		slices.Reverse(list) // the newest came first
		f.there = list[max(len(list)-len(f.asked), 0):]
	}
	if len(f.there) != len(f.asked) {
		f.fail("completions brought %d submissions, and %d are there", len(f.asked), len(f.there))
	}
	for i, n := range f.asked {
		if count := len(f.m.subs); count > 0 && f.m.subs[count-1].id >= f.there[i].ID {
			f.fail("a submission of a completion got the id %s after %s", f.there[i].ID, f.m.subs[count-1].id)
		}
		first := f.inserted(n, f.there[i].ID)
		if !f.failed {
			f.equal("answer of an insert by a completion", f.there[i], first)
		}
		f.tally.add("inserted by a completion", 1)
	}
}
