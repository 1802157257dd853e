package simtest

import (
	"github.com/quern-queue/quern/engine/shard/recount"
)

// recount goes on with the recount of counters by a few tiny slices, as the worker does between calls, and fails if it ever finds a
// difference: nothing is damaged here, so each would be a false alarm.
func (s *sim) recount() {
	if s.recounts == nil {
		s.recounts = newRand(s.seed, 22)
	}
	for range s.recounts.IntN(6) {
		if _, err := s.shard.Recounts.Step(1 + s.recounts.IntN(9)); err != nil {
			return // it is reloading
		}
	}
	s.noDrift()
}

func (s *sim) noDrift() {
	if w := s.shard.Work().Recount; w.Suspected > 0 || w.Drifted() > 0 || w.Stopped {
		s.fail("a recount found what no one damaged: %d suspected, drifts %v, newest %+v, stopped %v", w.Suspected, drifts(&w), w.Newest, w.Stopped)
	} else {
		s.rounds = max(s.rounds, w.Rounds)
	}
}

// wholeRound recounts everything.
func (s *sim) wholeRound() {
	for over := false; !over; {
		var err error
		over, err = s.shard.Recounts.Step(1 + s.recounts.IntN(20))
		s.must("recount", err)
	}
	s.noDrift()
}

// drifts names the counters that drifted.
func drifts(w *recount.State) map[string]uint64 {
	found := map[string]uint64{}
	for c := range recount.Counters {
		if n := w.Drifts[c]; n > 0 {
			found[c.Scope().String()+" "+c.String()] = n
		}
	}
	return found
}

// recount goes on with a recount beside the crowd; nothing is damaged, so it may find nothing.
func (c *crowd) recount() {
	if _, err := c.shard.Recounts.Step(13); err != nil {
		c.t.Error(err)
	}
	if w := c.shard.Work().Recount; w.Suspected > 0 || w.Drifted() > 0 || w.Stopped {
		c.t.Errorf("a recount found what no one damaged: %d suspected, drifts %v, newest %+v, stopped %v", w.Suspected, drifts(&w), w.Newest, w.Stopped)
	}
}
