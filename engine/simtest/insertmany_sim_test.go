package simtest

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// insertMany inserts several submissions with one call: some under keys, some under the key of the one before, and some that a rule refuses.
func (s *sim) insertMany() {
	drawn := make([]queue.NewSubmission, 2+s.r.IntN(5))
	for i := range drawn {
		if i > 0 && drawn[i-1].IdempotencyKey != "" && s.chance(40) {
			drawn[i] = drawn[i-1]
			continue
		}
		drawn[i] = s.draw()
		if s.chance(50) {
			s.keys++
			drawn[i].IdempotencyKey = fmt.Sprint("key", s.keys)
			binary.LittleEndian.PutUint64(drawn[i].Fingerprint[:], s.r.Uint64())
		}
	}
	atomic := s.chance(50)
	s.log.add("insert %d submissions in one call, atomic=%v", len(drawn), atomic)
	asked := slices.Clone(drawn)
	list := make([]queue.Insertion, len(drawn))
	for i := range list {
		list[i].New = &asked[i]
	}
	err := s.shard.InsertMany(ctx, list, atomic)
	wanted := s.wantedOfMany(drawn, atomic)
	inserts := slices.DeleteFunc(slices.Clone(wanted), func(w wantedInsert) bool { return w.code != "" || w.replays >= 0 })
	if len(inserts) > 0 {
		if failed, written := s.commitFailed("insert of many", err); failed {
			s.insertManyFailed(inserts, written)
			return
		}
	}
	s.must("insert of many", err)
	s.checkMany(drawn, list, wanted)
	s.tally.add("many inserted in one call", 1)
}

// wantedInsert is the required outcome of one submission of a call.
type wantedInsert struct {
	n       queue.NewSubmission
	code    queue.Code // why it is refused
	replays int        // the one of this call that it repeats, or -1
}

func (s *sim) wantedOfMany(drawn []queue.NewSubmission, atomic bool) []wantedInsert {
	wanted := make([]wantedInsert, len(drawn))
	refused := false
	for i, n := range drawn {
		wanted[i] = wantedInsert{n: n, replays: -1}
		switch same := func(o queue.NewSubmission) bool { return o.IdempotencyKey == n.IdempotencyKey }; {
		case s.m.refuses(n.Meta):
			wanted[i].code, refused = queue.CodeRefusedByRule, true
		case n.IdempotencyKey != "":
			if first := slices.IndexFunc(drawn, same); first < i {
				wanted[i].replays = first
			}
		}
	}
	for i := range wanted {
		if atomic && refused && wanted[i].code == "" {
			wanted[i].code = queue.CodeBatchRefused
			s.tally.add("all of a call refused", 1)
		}
	}
	return wanted
}

// checkMany compares the results of a call with the wanted ones, and adds the new submissions to the model.
func (s *sim) checkMany(drawn []queue.NewSubmission, list []queue.Insertion, wanted []wantedInsert) {
	for i, w := range wanted {
		got := &list[i]
		switch {
		case queue.CodeOf(got.Err) != w.code:
			s.fail("submission %d of a call: got %v, want %q", i, got.Err, w.code)
		case w.code != "":
		case w.replays >= 0:
			if !got.Replayed || got.Submission.ID != list[w.replays].Submission.ID {
				s.fail("submission %d of a call: got %s, replayed=%v; want a replay of %s", i, got.Submission.ID, got.Replayed,
					list[w.replays].Submission.ID)
			}
			s.tally.add("repeated in one call", 1)
		default:
			if count := len(s.m.subs); got.Replayed || count > 0 && s.m.subs[count-1].id >= got.Submission.ID {
				s.fail("submission %d of a call got the id %s, replayed=%v", i, got.Submission.ID, got.Replayed)
			}
			s.equal("answer of an insert of many", got.Submission, s.inserted(drawn[i], got.Submission.ID))
		}
	}
}

// insertManyFailed: if the call was written all the same, all of its submissions are there, in their order.
func (s *sim) insertManyFailed(inserts []wantedInsert, written bool) {
	s.takeEffect([]func(){func() {
		list, _, err := s.shard.Submissions.List(ctx, machine.Filter{}, 0, len(inserts))
		s.must("list", err)
		if len(list) != len(inserts) {
			s.fail("a call of %d inserts was written, and the list has %d", len(inserts), len(list))
		}
		slices.Reverse(list) // the newest came first
		for i, w := range inserts {
			if s.m.sub(list[i].ID) != nil {
				s.fail("a call of %d inserts was written, but not all are in the list", len(inserts))
			}
			s.inserted(w.n, list[i].ID)
		}
		s.tally.add("many inserted by a commit that failed", 1)
	}}, true, written)
}
