package machine

import (
	"time"

	"github.com/quern-queue/quern/engine/durations"
	"github.com/quern-queue/quern/engine/measure"
	"github.com/quern-queue/quern/engine/queue"
)

// Runs measures how long consumers held the chunks whose results they reported. Chunks that came in one answer and are
// reported in one call were held equally long. They are measured together, because measuring each one took a sixteenth
// of the time of a busy queue.
type Runs struct {
	Ever   *measure.Histogram // Options.Seconds.Run
	Lately *durations.Kept    // Options.Seconds.Lately

	// Reservations that ended one after the other and are not measured yet.
	of   *Record
	meta queue.Meta // of the record, which may be gone when they are measured
	took time.Duration
	n    uint64
}

// timed notes how long the consumer that now reports the result held the reservation. A replay notes nothing:
// measurements begin with the server.
func (m *Machine) timed(r *Record, slot uint32) {
	h := m.Holds.At(slot)
	if !h.Counted || m.Replay {
		return
	}
	took, x := m.Now.Sub(h.Reserved), &m.Runs
	if x.n == 0 || x.of != r || x.took != took {
		x.Measure(m.Now)
		x.of, x.meta, x.took = r, r.Meta(), took
	}
	x.n++
}

// Measure measures the noted reservations. It is called before the mutex is given up, so that readers find complete
// numbers.
func (x *Runs) Measure(now queue.Time) {
	if x.n > 0 {
		x.Ever.Observe(x.took.Seconds(), x.n)
		x.Lately.Run(x.meta, x.took, x.n, now)
		x.of, x.meta, x.n = nil, nil, 0
	}
}
