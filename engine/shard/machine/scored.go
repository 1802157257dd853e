package machine

import (
	"time"

	"github.com/quern-queue/quern/engine/strategy"
)

// RetryScored is how often a waiting reserve asks again, as scores change with the time alone.
const RetryScored = time.Second

// Scores says whether a branch of the plan ranks by scores.
func Scores(plan *strategy.Plan) bool {
	for i := range plan.Branches {
		if plan.Branches[i].Scored != nil {
			return true
		}
	}
	return false
}
