package machine

// Timers of the machine: one heap per kind of action. Entries are never removed from the middle. A
// chunk that was completed leaves its entry behind; the worker pops it when it is due, sees that it
// holds no more, and drops it. Removing it at once would need an index of every timer.

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// Due is one thing that waits for a time, of the kind in whose heap it is. Entries are not removed when they become
// moot: the code that pops one checks whether it still holds.
type Due struct {
	At    queue.Time
	Seq   uint32
	index uint32 // of the chunk, where it is about one
}

// before is the order in which due things are done: by time, and of one time by when the
// submission was inserted.
func (d *Due) before(e *Due) bool {
	switch {
	case d.At != e.At:
		return d.At < e.At
	case d.Seq != e.Seq:
		return d.Seq < e.Seq
	}
	return d.index < e.index
}

// holds says that an entry still counts: for a delay of a chunk, or for the run_at of its submission.
func (d *Due) holds(kind Kind, r *Record) bool {
	if kind == KindRunAt {
		return r.Parked && !r.Details().Waits.Some()
	}
	t := r.Tries[d.index]
	return t != nil && t.delayed(d.At)
}

// dueHeap is a 4-ary heap in that order: shallower than a binary one and a cache line per level.
type dueHeap []Due

func (h dueHeap) first() (Due, bool) {
	if len(h) == 0 {
		return Due{}, false
	}
	return h[0], true
}

func (h *dueHeap) push(d Due) {
	*h = append(*h, d)
	s := *h
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !s[i].before(&s[parent]) {
			return
		}
		s[parent], s[i] = s[i], s[parent]
		i = parent
	}
}

func (h *dueHeap) pop() {
	s := *h
	last := len(s) - 1
	s[0] = s[last]
	*h = s[:last]
	s = *h
	for i := 0; ; {
		least := i
		for child := 4*i + 1; child <= 4*i+4 && child < len(s); child++ {
			if s[child].before(&s[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}

// The life-cycle worker runs the timed work. It first looks in memory for due actions, and then gives commands like any
// other caller: they are decided under the mutex, go through the group commit, and are looked at again when they are
// applied. It works in slices of at most TickMost actions, and waits for each to be on the disk before it makes the
// next, so that callers are never held up for longer than one slice takes. A wrong idea of the next due time does no
// harm: the engine starts a pass many times a second, and every pass looks again.

// TickMost bounds how many actions of a kind one slice has, and so how long one hold of the mutex takes.
const TickMost = 500

// Parking is an action that is left alone.
type Parking struct {
	Err   error
	Since queue.Time
}

// LookAgain lets the next pass examine an action again, if its object still exists.
func (m *Machine) LookAgain(a Action) {
	for _, retried := range m.Joined.Retried {
		if retried(a) {
			return
		}
	}
	r := m.Live(a.Submission)
	if r == nil {
		return
	}
	d := Due{Seq: r.Seq, index: a.Index}
	switch a.Kind {
	case KindExpiry:
		if slot, held := m.Holds.Find(r.Seq, a.Index); held && m.Holds.At(slot).State == reserver.Expiring {
			m.Holds.At(slot).State = reserver.Held
			m.Holds.Extend(slot, m.Holds.At(slot).Deadline)
		}
	case KindRetry:
		if t := r.Tries[a.Index]; t != nil {
			d.At = t.NotBefore
			m.Lifecycle.Schedule(a.Kind, d)
		}
	case KindRunAt:
		d.At = r.Details().RunAt
		m.Lifecycle.Schedule(a.Kind, d)
	case KindDeadDeadline:
		m.expires(r)
	}
}
