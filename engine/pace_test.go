package engine

import (
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// The rate is that of the last minute, and of no more than is known.
func TestPace(t *testing.T) {
	t.Parallel()
	const start = queue.Time(1_700_000_000_000)
	at := func(seconds int) queue.Time { return start.Add(time.Duration(seconds) * time.Second) }
	check := func(p *pace, what string, now queue.Time, reserved uint64, want float64) {
		t.Helper()
		if got := p.perSecond(now, reserved); got != want {
			t.Errorf("%s: got %v a second, want %v", what, got, want)
		}
	}
	var p pace
	check(&p, "nothing known", at(0), 100, 0)
	p.note(at(0), 100)
	check(&p, "no time has passed", at(0), 200, 0)
	check(&p, "two seconds", at(2), 120, 10)
	for second := 1; second <= 200; second++ {
		p.note(at(second), 100+uint64(max(0, second-150))*7) // idle at first, then 7 a second
	}
	check(&p, "50 of the last 60 seconds", at(200), 100+50*7, 50.0*7/60)
	check(&p, "held up", at(200+30), 100+50*7, 30.0*7/60)
	check(&p, "held up for long", at(200+61), 900, 0)
	p.note(at(201), 5)
	p.note(at(203), 9)
	check(&p, "the total started over", at(203), 9, 2)
	p.note(at(100), 9)
	check(&p, "the clock was set back", at(101), 12, 3)
}
