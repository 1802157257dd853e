package simtest

import (
	"github.com/quern-queue/quern/engine/queue"
)

// Which suspects are lent when depends on how many slots are live, which the model does not follow. It takes over from the shard
// whether a due chunk that was tried without success is offered or shelved, and checks the shard's promises about them.

// adopt takes over which chunks are shelved.
func (s *sim) adopt() {
	for _, x := range s.m.subs {
		if x.state != queue.Open {
			continue
		}
		for i, c := range x.chunks {
			due := c.state == queue.ChunkReady || c.state == queue.ChunkWaiting && (c.shelved || c.notBefore <= s.now)
			if !due || c.attempts == 0 || x.parked {
				continue
			}
			got, err := s.shard.Submissions.Chunk(ctx, x.id, uint32(i))
			s.must("chunk", err)
			switch {
			case got.State == queue.ChunkReady:
				c.state, c.notBefore, c.shelved = queue.ChunkReady, 0, false
			case got.State == queue.ChunkWaiting && got.NotBefore <= s.now:
				if !c.shelved {
					s.tally.add("suspect shelved", 1)
				}
				c.state, c.notBefore, c.shelved = queue.ChunkWaiting, got.NotBefore, true
			default:
				s.fail("chunk %s/%d, due after a try without success: %+v; want it ready, or shelved", x.id, i, got)
			}
		}
	}
}

// borrowed offers a chunk that a reserve took from the shelf.
func (s *sim) borrowed(t queue.Token) {
	if x := s.m.sub(t.Submission); x != nil && t.Index < x.asked.Chunks.Count {
		if c := x.chunks[t.Index]; c.state == queue.ChunkWaiting && c.shelved {
			c.state, c.notBefore, c.shelved = queue.ChunkReady, 0, false
			s.tally.add("reserve of what was shelved", 1)
		}
	}
}

// checkSuspects: beside other work no more suspects are out than the quota, unless they are held; without other work none is held
// back; and under the strict rule one is held back only behind something that is ready.
func (s *sim) checkSuspects() {
	w := s.shard.Work().Suspects
	ready := uint64(0)
	for _, x := range s.m.subs {
		if x.offered() {
			ready += uint64(x.count(queue.ChunkReady))
		}
	}
	strict := s.settings.Requeue == queue.Tail || s.settings.SuspectShare == 0
	switch {
	case ready < w.Ready:
		s.fail("%d chunks are ready, of them %d suspects", ready, w.Ready)
	case strict:
		if w.Shelved > 0 && ready == 0 {
			s.fail("nothing is ready, and %d suspects are held back", w.Shelved)
		}
	case s.settings.SuspectShare == 1 || ready == w.Ready:
		if w.Shelved > 0 {
			s.fail("%d suspects are held back, and nothing else is ready", w.Shelved)
		}
	case w.Lent > w.Quota && w.Ready > 0:
		s.fail("beside other work %d suspects are out, of them %d not held; the quota is %d of %g slots", w.Lent, w.Ready, w.Quota, w.Slots)
	case w.Lent < w.Quota && w.Shelved > 0:
		s.fail("%d suspects are held back, and only %d out; the quota is %d of %g slots", w.Shelved, w.Lent, w.Quota, w.Slots)
	}
}
