package machine

import (
	"github.com/quern-queue/quern/engine/backlog"
)

// Amount is a number of submissions and of their available chunks.
type Amount struct {
	Submissions int
	Chunks      uint64
}

// Add counts what a submission has available.
func (a *Amount) Add(x *backlog.Submission) {
	a.Submissions++
	a.Chunks += uint64(x.Available())
}

// TopMost is how many values and tenants are named, mostValues how many values of one block are told apart.
const (
	TopMost    = 10
	MostValues = 10_000
)
