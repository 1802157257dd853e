package engine

import (
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// bulkMeter measures what an operation gets on with: from a moment that is one to two spans of it ago, or since the server runs it. So a
// restart, or a disk that was full for an hour, does not spoil what is foreseen for long.
type bulkMeter struct{ from, middle bulkMark }

type bulkMark struct {
	at       time.Time // with its reading of the monotonic clock
	examined uint64
}

const (
	bulkSpan    = 30 * time.Second
	bulkSettled = time.Second               // a pace that was measured for less says nothing
	bulkFarOff  = 10 * 365 * 24 * time.Hour // what takes longer is not foreseen
)

// meter notes how far an operation is before its turn.
func (p *bulkRunner) meter(b *queue.Bulk) {
	now := bulkMark{p.e.options.Now(), b.Walk.Examined}
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.met[b.ID]
	switch {
	case m == nil:
		if p.met == nil {
			p.met = map[queue.BulkID]*bulkMeter{}
		}
		p.met[b.ID] = &bulkMeter{now, now}
	case now.at.Sub(m.middle.at) >= bulkSpan:
		m.from, m.middle = m.middle, now
	}
}

// foresee sets how long an operation that runs still takes, if that is known: at the pace that was measured, or else at its rate.
func (p *bulkRunner) foresee(b *queue.Bulk) {
	left := b.Walk.Left()
	if b.State != queue.BulkRunning || left == 0 {
		return
	}
	pace := 0.0
	if !b.DryRun {
		pace = float64(b.Rate)
	}
	now := p.e.options.Now()
	p.mu.Lock()
	if m := p.met[b.ID]; m != nil {
		if elapsed := now.Sub(m.from.at); elapsed >= bulkSettled {
			pace = float64(b.Walk.Examined-min(m.from.examined, b.Walk.Examined)) / elapsed.Seconds()
		}
	}
	p.mu.Unlock()
	if seconds := float64(left) / pace; pace > 0 && seconds < bulkFarOff.Seconds() {
		b.Remaining = max(time.Duration(seconds*float64(time.Second)), time.Millisecond)
	}
}
