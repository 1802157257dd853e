package queue

import "github.com/quern-queue/quern/sdk/api"

// Obstacle is the reason why a branch does not hand a chunk out.
type Obstacle uint8

// The obstacles, in the order in which they are looked for. NoObstacle: a reserve that begins now may be given the chunk. From
// ObstacleHidden on, the branch admits the chunk and others come first, so that it has a place in line. With an earlier obstacle it has
// none.
const (
	NoObstacle Obstacle = iota
	ObstacleDone
	ObstacleDead
	ObstacleSkipped
	ObstacleForwarded   // to another queue
	ObstacleWaiting     // for another try
	ObstacleReserved    // someone holds it
	ObstacleNotDue      // the submission waits for its run_at
	ObstacleAfter       // the submission waits for others
	ObstaclePaused      // a pause covers the submission
	ObstacleBlocked     // a block does
	ObstacleFilter      // a filter does not match
	ObstacleGrace       // the restart grace keeps back chunks that a limit of the strategy or of an operator counts
	ObstacleLimit       // a value of the submission has as many chunks in flight as the strategy's limit allows
	ObstacleRate        // a value of the submission was reserved as often as the strategy's rate allows by now
	ObstacleValueLimit  // a value of the submission has as many chunks in flight as an operator allows, whatever the strategy
	ObstacleHidden      // an earlier branch has something to give
	ObstacleAlternative // under Fair: an earlier alternative has something to give to the same tenant
	ObstacleTurn        // under Fair: other tenants come before
	ObstacleScore       // the scores of the branch pass over it, or nothing scored
)

var obstacles = [...]string{api.ObstacleNone, api.ObstacleDone, api.ObstacleDead, api.ObstacleSkipped, api.ObstacleForwarded,
	api.ObstacleWaiting, api.ObstacleReserved, api.ObstacleNotDue, api.ObstacleAfter, api.ObstaclePaused, api.ObstacleBlocked,
	api.ObstacleFilter, api.ObstacleGrace, api.ObstacleLimit, api.ObstacleRate, api.ObstacleValueLimit, api.ObstacleHidden,
	api.ObstacleAlternative, api.ObstacleTurn, api.ObstacleScore}

// String is the obstacle as JSON carries it.
func (o Obstacle) String() string { return obstacles[o] }
