package shard

// The last act of an orderly stop: the shard writes all reservations to the journal, behind everything else. The next
// start restores them, and consumers notice nothing.
//
// The last op says that the list is complete. A stop that is killed in between leaves some reservations without that
// op, and the next start then restores none of them: with only some of them, limits would count too little and seem to
// hold.

import (
	"context"

	"github.com/quern-queue/quern/engine/journal"
)

// heldBatch is the approximate number of bytes of reservations in one batch.
const heldBatch = 8 << 20

// leaveHeld writes the reservations as the last batches of an orderly stop. If it fails, the next start knows as much
// as after a kill.
func (s *Shard) leaveHeld() {
	m := s.m
	if s.broken != nil || s.lost != nil || s.retired || (m.Holds.Len() == 0 && m.Settings.RestartGrace == 0) {
		return
	}
	var (
		enc journal.Encoder
		err error
		now = s.now()
		end = m.AppliedAt
	)
	ctx, giveUp := context.WithTimeout(context.Background(), s.options.Owner.Patience)
	defer giveUp()
	flush := func() {
		if err == nil {
			end, err = s.writer.journal.Append(ctx, end, enc.Packed())
		}
		enc.Reset(m.Epoch, now)
	}
	enc.Reset(m.Epoch, now)
	s.parts.stops.EachHeld(func(op *journal.Held) {
		if enc.Held(op); len(enc.Bytes()) > heldBatch {
			flush()
		}
	})
	enc.Held(&journal.Held{}) // the list is complete
	flush()
	if err != nil {
		s.options.Logger.Warn("what consumers hold could not be written: the next start offers it again, after the "+
			"restart grace "+
			"where there is one", "queue", s.options.Queue, "held", m.Holds.Len(), "error", err)
	}
}
