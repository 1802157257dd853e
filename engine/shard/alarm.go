package shard

import (
	"time"

	"github.com/quern-queue/quern/engine/shard/machine"
)

// alarm gives the time to the rates of the backlog, and serves waiters when a rate lets the next chunk be taken. All
// other work becomes available by a call or by the life-cycle worker, which serve waiters themselves. The mutex is held
// in all its methods, but not in ring.
type alarm struct {
	machine func() *machine.Machine
	now     func() time.Time
	waiting func() bool // someone waits
	ring    func()      // takes the mutex, and serves

	timer *time.Timer // nil: there never was one
	at    int64       // when it rings, in nanoseconds since the epoch; 0: it does not
}

// advance reads the clock and says whether a gate opened.
func (a *alarm) advance() (opened bool) {
	return a.machine().Backlog.Values.Rates.Any() && a.advanceFrom(a.now())
}

// advanceFrom is advance for a caller that read the clock a moment ago, before it had the mutex. If others came first,
// it reads the clock again: an old reading must not look like a clock that was set back. Readings are in nanoseconds,
// as milliseconds are too coarse at 10,000 chunks a second.
func (a *alarm) advanceFrom(moment time.Time) (opened bool) {
	rates := &a.machine().Backlog.Values.Rates
	if rates.Any() && moment.UnixNano() < rates.Now() {
		moment = a.now()
	}
	return rates.Any() && rates.Advance(moment.UnixNano())
}

// arm sets the alarm for when the next gate may open, if a call waits.
func (a *alarm) arm() {
	rates := &a.machine().Backlog.Values.Rates
	if !rates.Any() || !a.waiting() {
		return
	}
	at, there := rates.Next()
	if !there || a.at != 0 && a.at <= at {
		return
	}
	in := time.Duration(max(at-a.now().UnixNano(), 0))
	if a.at = at; a.timer == nil {
		a.timer = time.AfterFunc(in, a.ring)
		return
	}
	a.timer.Reset(in)
}

// silence ends the alarm.
func (a *alarm) silence() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
