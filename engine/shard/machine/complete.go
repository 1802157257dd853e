package machine

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// Completes checks completions and marks their reservations Finishing in the open batch. What has to be
// journaled is appended to list. Outcomes that only the history knows are left as "unknown submission".
func (m *Machine) Completes(items []queue.CompleteItem, valid []bool, now queue.Time, dst []queue.Result,
	list []journal.Completed) ([]queue.Result, []journal.Completed) {
	for i := range items {
		t := &items[i].Token
		if h := m.held(t); h != nil && valid[i] {
			h.State = reserver.Finishing
			m.Holds.Saw(h, now)
			m.Batch.Mark(t.Slot, t.Sequence)
			list = append(list, journal.Completed{Seq: h.Seq, Index: t.Index, Epoch: t.Epoch, Sequence: t.Sequence,
				Output: items[i].Output != nil})
			dst = append(dst, queue.Result{})
			continue
		}
		r, slot, s := m.Tokens.Resolve(t)
		switch s {
		case Holder:
			m.Mark(slot)
			m.Holds.Saw(m.Holds.At(slot), now)
		case free, waiting, onShelf:
			var ok bool
			if slot, ok = m.Tokens.claim(r, t, s, now); !ok {
				dst = append(dst, tooManyLate)
				continue
			}
			m.Batch.Mark(slot, t.Sequence)
		default:
			dst = append(dst, Answer(s))
			continue
		}
		list = append(list, journal.Completed{Seq: r.Seq, Index: t.Index, Epoch: t.Epoch, Sequence: t.Sequence,
			Output: items[i].Output != nil})
		dst = append(dst, queue.Result{})
	}
	return dst, list
}
