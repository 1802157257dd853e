package machine

import (
	"github.com/quern-queue/quern/engine/queue"
)

// pinMost is how many dead letters on their way the retention looks at; as long as there are more it waits.
const pinMost = 1000

// Pinned are the submissions of which the outbox still has something: the other queue needs their content. known: there are not too
// many to tell.
func (m *Machine) Pinned() (ids map[queue.SubmissionID]bool, known bool) {
	ids = map[queue.SubmissionID]bool{}
	if m.Forwarding.Outbox.Len() > pinMost {
		return ids, false
	}
	for i := range m.Forwarding.Outbox.List {
		if o := &m.Forwarding.Outbox.List[i]; o.Queue != "" {
			ids[o.Chunk.Submission] = true
		}
	}
	return ids, true
}
