package machine

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// Parking is an action that is left alone.
type Parking struct {
	Err   error
	Since queue.Time
}

// LookAgain has an action looked at by the next pass, if what it is about is still there.
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
