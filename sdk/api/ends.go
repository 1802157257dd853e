package api

// Names of the events of a stream of ends.
const (
	EventEnd     = "end"     // its data is a Submission
	EventGap     = "gap"     // its data is an EndsGap
	EventProblem = "problem" // its data is a Problem, and it is the last
)

// EndsGap says that ends between two places are missing: the queue's retention has removed them, or the server was restored from an older
// backup.
type EndsGap struct {
	After string `json:"after"` // The client's place: it has all ends up to there
	Until string `json:"until"` // Place up to which ends are missing
}
