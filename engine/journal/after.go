package journal

import (
	"github.com/quern-queue/quern/engine/coding"
	"github.com/quern-queue/quern/engine/queue"
)

// Awaited says that a submission no longer waits for another one, which has ended as required. Another end needs no op
// of its own: the submission that waited ends, and that op says why. So a replay does not look up how the other one
// ended. The op changes nothing if it is applied twice, or if the submission that waited has ended.
type Awaited struct {
	Seq uint32 // of the one that waits
	ID  queue.SubmissionID
}

func (a *Awaited) fields(c *coder) {
	coding.Unsigned(&c.Coder, &a.Seq)
	coding.Unsigned(&c.Coder, &a.ID)
}

// The bits that say what a submission waits for.
const (
	afterEnded = 1 << iota
	afterRun
	afterDeadLetter
)

// after are the submissions in the order in which the insert named them, which is also the order in which they are
// shown.
func after(c *coder, a *queue.After) {
	how := byte(0)
	if a.Ended {
		how |= afterEnded
	}
	if a.Run {
		how |= afterRun
	}
	if a.DeadLetter {
		how |= afterDeadLetter
	}
	coding.Octet(&c.Coder, &how, afterEnded|afterRun|afterDeadLetter)
	a.Ended, a.Run, a.DeadLetter = how&afterEnded != 0, how&afterRun != 0, how&afterDeadLetter != 0
	c.Must(!a.Run || !a.DeadLetter)
	coding.Many(&c.Coder, &a.IDs, queue.MaxAfter, func(id *queue.SubmissionID) { coding.Unsigned(&c.Coder, id) })
	c.Must(len(a.IDs) > 0)
}
