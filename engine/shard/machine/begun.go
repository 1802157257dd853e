package machine

import (
	"math"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// Begun is when the first chunk of a submission was reserved: so many steps after its
// insert, the first one being 1. It is in memory only, as reservations are: of a
// submission that was read from the disk it is not known.
type Begun uint32

const (
	notBegun    Begun = 0
	begunBefore Begun = math.MaxUint32

	begunStep = 100 * time.Millisecond // 13 years fit
)

// begin notes the first reservation.
func (b *Begun) begin(inserted, now queue.Time) {
	if *b == notBegun {
		*b = Begun(min(max(now.Sub(inserted)/begunStep, 0)+1, time.Duration(begunBefore)))
	}
}

// Since is the moment; 0: there was none, or it is not known.
func (b Begun) Since(inserted queue.Time) queue.Time {
	if b == notBegun || b == begunBefore {
		return 0
	}
	return inserted.Add(time.Duration(b-1) * begunStep)
}
