package engine

import (
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// paceSeconds is the time over which the rate of reservations is measured.
const paceSeconds = 60

// pace remembers how many chunks had been reserved at each of the last seconds. The housekeeping notes it, so that a reservation pays
// nothing for it.
type pace struct {
	mu    sync.Mutex
	marks [paceSeconds + 1]mark // a ring
	next  int
	count int
}

type mark struct {
	at       queue.Time
	reserved uint64
}

// note remembers the total at a time. A total that is smaller than before, and a clock that was set back, start it over.
func (p *pace) note(now queue.Time, reserved uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count > 0 {
		if last := p.marks[(p.next+len(p.marks)-1)%len(p.marks)]; reserved < last.reserved || now < last.at {
			p.count = 0
		}
	}
	p.marks[p.next] = mark{now, reserved}
	p.next = (p.next + 1) % len(p.marks)
	p.count = min(p.count+1, len(p.marks))
}

// perSecond is how many chunks were reserved a second over the last minute, or as much of it as is known; 0 if nothing is.
func (p *pace) perSecond(now queue.Time, reserved uint64) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := p.count; i > 0; i-- { // the oldest first
		m := p.marks[(p.next+len(p.marks)-i)%len(p.marks)]
		since := now.Sub(m.at)
		switch {
		case since > paceSeconds*time.Second || since <= 0: // the housekeeping was held up
		case reserved >= m.reserved:
			return float64(reserved-m.reserved) / since.Seconds()
		}
	}
	return 0
}
