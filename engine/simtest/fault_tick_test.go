package simtest

import (
	"slices"

	"github.com/quern-queue/quern/engine/queue"
)

// After a failed commit the life-cycle worker takes each kind of action in slices of its own, so that deadlines, lost consumers and
// dead_deadlines may come in any order, and the first of them that ends a submission keeps the others from being counted. Then the model
// takes over the shard's order, and checks everything else.

// overtake ends, in the order that the shard took, the reservations whose deadline passed, and those of lost consumers.
func (s *sim) overtake(lost []string) {
	gone := map[*modelChunk]bool{}
	for _, name := range lost {
		held, _ := s.m.heldBy(name)
		s.log.add("%s, which holds %d chunks, is lost", name, len(held))
		for _, c := range held {
			gone[c] = true
		}
	}
	for _, x := range s.m.subs {
		if x.state == queue.Open {
			s.overtakeIn(x, gone)
		}
	}
	for _, name := range lost {
		s.m.leave(name)
	}
}

func (s *sim) overtakeIn(x *modelSub, gone map[*modelChunk]bool) {
	sub, err := s.shard.Submissions.Get(ctx, x.id)
	s.must("submission", err)
	var died []uint32
	var failure string
	for i, c := range x.chunks {
		late := c.state == queue.ChunkReserved && c.hold.deadline <= s.now
		if !late && !gone[c] {
			continue
		}
		got, err := s.shard.Submissions.Chunk(ctx, x.id, uint32(i))
		s.must("chunk", err)
		switch {
		case got.State == queue.ChunkSkipped && got.Attempts == c.attempts && sub.State != queue.Open:
			s.tally.add("the end came before a try was counted", 1)
			continue
		case got.Attempts != c.attempts+1, got.Error != errorLate && got.Error != errorLost, got.Error == errorLate && !late, got.Error == errorLost && !gone[c]:
			s.fail("chunk %s/%d, late %v, of a lost consumer %v: got %+v, it had %d attempts", x.id, i, late, gone[c], got, c.attempts)
		}
		if sub.FailedChunk != nil && *sub.FailedChunk == uint32(i) {
			failure = got.Error
		}
		if s.tried(x, c, uint32(i), &got) {
			died = append(died, uint32(i))
		}
	}
	s.endOvertaken(x, &sub, died, failure)
}

const errorLate = "the reservation's deadline passed"

// tried counts a try that ended, and says whether it was the last one.
func (s *sim) tried(x *modelSub, c *modelChunk, index uint32, got *queue.Chunk) (last bool) {
	late := got.Error == errorLate
	last = c.attempts+1 >= s.m.maxAttempts(x) || late && s.lastExpiry(x, c)
	tries := int(c.attempts) + 1
	if late {
		tries = int(c.expiries) + 1
	}
	c.try(c.hold.token, late, got.Error, s.now)
	if !last {
		s.putBack(x, c, s.backedOff(x, index, s.settings.ExpiryBackoff, tries))
		return false
	}
	if c.state = s.m.gone(x); got.State == queue.ChunkForwarded {
		s.m.forward(x, c, s.settings.DeadLetterQueue)
	}
	return true
}

// endOvertaken ends the submission if the shard says that one of the chunks that died failed it, or if it is over.
func (s *sim) endOvertaken(x *modelSub, sub *queue.Submission, died []uint32, failure string) {
	switch {
	case sub.State == queue.Failed && sub.FailedChunk != nil && slices.Contains(died, *sub.FailedChunk):
		s.m.fail(x, *sub.FailedChunk, failure, s.now)
	case sub.State == queue.Failed:
		s.fail("%s says that chunk %v failed it, want one of %d", x.id, sub.FailedChunk, died)
	case len(died) > 0:
		s.m.endIfOver(x, s.now)
	}
}
