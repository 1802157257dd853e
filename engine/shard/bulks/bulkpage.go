package bulks

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// Hasten encodes that waiting chunks of a submission are offered at once, and says how many.
func (bs *Part) Hasten(id queue.SubmissionID, indexes []uint32, dry bool, now queue.Time) int {
	m := bs.m
	r := m.Live(id)
	if r == nil || r.Ending {
		return 0
	}
	v := m.Letters.Moving[r.Seq]
	var taken []uint32
	for _, index := range indexes {
		if t := r.Tries[index]; t != nil && t.Waiting && !m.IsHeld(r, index) && (v == nil || !v.Taken[index]) {
			taken = append(taken, index)
		}
	}
	if len(taken) > 0 && !dry {
		m.Encode(now).Move(journal.Move{Kind: journal.MoveOffer, Seq: r.Seq, ID: r.ID, Indexes: taken})
		m.Letters.Moves(r, nil, taken)
	}
	return len(taken)
}
