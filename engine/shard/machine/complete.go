package machine

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/commit"
)

// Completes checks completions and marks their reservations Finishing in the batch `in`. What has to be journaled is
// appended to list; rests gets what an "already" rests on. Outcomes that only the history knows are left as "unknown
// submission".
func (m *Machine) Completes(items []queue.CompleteItem, valid []bool, now queue.Time, dst []queue.Result,
	list []journal.Completed, in *Batch, rests *commit.Set) ([]queue.Result, []journal.Completed) {
	for i := range items {
		t := &items[i].Token
		if h := m.held(t); h != nil && valid[i] {
			h.State = reserver.Finishing
			m.Holds.Saw(h, now)
			in.Mark(t.Slot, t.Sequence)
			list = append(list, journal.Completed{Seq: h.Seq, Index: t.Index, Epoch: t.Epoch, Sequence: t.Sequence,
				Output: items[i].Output != nil})
			dst = append(dst, queue.Result{})
			continue
		}
		r, slot, s := m.Tokens.Resolve(t)
		switch s {
		case Holder:
			m.Mark(slot, in)
			m.Holds.Saw(m.Holds.At(slot), now)
		case free, waiting, onShelf:
			var ok bool
			if slot, ok = m.Tokens.claim(r, t, s, now); !ok {
				dst = append(dst, tooManyLate)
				continue
			}
			in.Mark(slot, t.Sequence)
		default:
			rests.Add(m.Writing[slot])
			dst = append(dst, Answer(s))
			continue
		}
		list = append(list, journal.Completed{Seq: r.Seq, Index: t.Index, Epoch: t.Epoch, Sequence: t.Sequence,
			Output: items[i].Output != nil})
		dst = append(dst, queue.Result{})
	}
	return dst, list
}
