package machine

import (
	"github.com/quern-queue/quern/engine/queue"
)

// Of is how many dead letters a submission has, wherever it is.
func (p *deadLetters) Of(id queue.SubmissionID) uint32 {
	if r := p.m.Live(id); r != nil {
		return r.Dead
	}
	return p.OfEnded[id]
}
