package shard

import (
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/consumers"
)

// lose ends what consumers hold that are away for longer than the queue's grace, with at most `most` consumers looked at and about as
// many tries counted, and says whether more is due now. One that was heard of meanwhile, by a call about what it holds, gets the
// grace again.
func (w *Worker) lose(now queue.Time, most int) (more bool) {
	s := w.s
	r, grace := s.roster, s.m.Settings.ConsumerGrace
	stay, i := 0, 0 // away[:stay] are looked at and stay; so does what follows from i on
	var heard []consumers.Absence
	for ; i < len(r.Away) && r.Away[i].At.Add(grace) <= now && most > 0; i++ {
		most--
		x := r.Away[i]
		if x.Of.Away == 0 || x.Of.Breaks != x.Breaks {
			continue // it came back, or left
		}
		held, holds := s.m.Holds.Holding(x.Of.Name)
		switch seen := max(x.Of.Seen, held.Seen); {
		case seen > x.At:
			x.At = seen
			heard = append(heard, x)
		case !holds:
			r.Forget(x.Of)
			s.noteSpecial()
		default: // it stays until all it holds is gone: a commit may fail
			most -= s.m.Holders.Lose(x.Of, max(most, 1), now)
			r.Away[stay] = x
			stay++
		}
	}
	r.Away = slices.Delete(r.Away, stay, i)
	for _, x := range heard {
		r.Await(x)
		more = more || x.At.Add(grace) <= now
	}
	return more || most <= 0
}
