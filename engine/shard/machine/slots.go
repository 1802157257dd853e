package machine

import (
	"math"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// slots estimates how many chunks consumers can be expected to hold at once. It is the number of reservations held now.
// If that was larger a moment ago, the estimate falls from there with a half-life of slotsHalf, so that the moment
// between two chunks of a consumer does not count. A reservation whose deadline passed, or whose consumer was lost,
// removes its slot at once: a pool of dead workers has no slots.
type slots struct {
	n  float64
	at queue.Time
}

const (
	// slotsHalf is how long the estimate takes to fall half of the way to the number held now.
	slotsHalf = 10 * time.Second
	// slotsLeast is the difference below which the estimate is the number held now.
	slotsLeast = 0.01
)

// rose notes that the number held may be above the estimate, or equal to it: the fall begins now at the earliest.
func (s *slots) rose(held uint64, now queue.Time) {
	if n := float64(held); n >= s.n {
		s.n, s.at = n, now
	}
}

// gone notes that a slot went with its consumer: its reservation ended by itself.
func (s *slots) gone() { s.n = max(s.n-1, 0) }

// live is the estimate when this many chunks are held now.
func (s *slots) live(reserved uint64, now queue.Time) float64 {
	held := float64(reserved)
	if s.n > held+slotsLeast {
		since := max(now.Sub(s.at), 0)
		s.n = held + (s.n-held)*math.Exp2(-since.Seconds()/slotsHalf.Seconds())
	} else {
		s.n = held
	}
	s.at = now
	return s.n
}
