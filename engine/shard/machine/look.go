package machine

// Questions about strategies change nothing and must not slow down those who work: each is
// answered in holds of the mutex of bounded length, between which everybody else has a
// turn. So an answer about much is about several moments.

// LookMost is how much one hold of the mutex looks at for a question: submissions, times the
// blocks or branches that each is held against, tenants, and chunks picked or given back.
const LookMost = 1000

// Looks are how much one hold of the mutex has looked at.
type Looks int

// TopMost is how many values and tenants are named, mostValues how many values of one block are told apart.
const (
	TopMost    = 10
	MostValues = 10_000
)
