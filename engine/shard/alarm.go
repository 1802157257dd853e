package shard

import (
	"time"

	"github.com/quern-queue/quern/engine/shard/machine"
)

// alarm tells the rates of the backlog what time it is, and has those who wait served at the moment at
// which a rate lets the next chunk be taken. Everything else that makes work available is a call or the
// life-cycle worker, and they serve by themselves. The mutex is held wherever it is used, but for ring.
type alarm struct {
	machine func() *machine.Machine
	now     func() time.Time
	waiting func() bool // someone waits
	ring    func()      // takes the mutex, and serves

	timer *time.Timer // nil: there never was one
	at    int64       // when it rings, in nanoseconds since the epoch; 0: it does not
}

// advance reads the clock and says whether something may be taken again.
func (a *alarm) advance() (opened bool) {
	return a.machine().Backlog.Values.Rates.Any() && a.advanceFrom(a.now())
}

// advanceFrom is advance for a caller that read the clock a moment ago, before it had the mutex. If others came first,
// the clock is read again: an old reading must not look like a clock that was set back. It is one to the nanosecond, as
// milliseconds are too coarse at 10,000 chunks a second.
func (a *alarm) advanceFrom(moment time.Time) (opened bool) {
	rates := &a.machine().Backlog.Values.Rates
	if rates.Any() && moment.UnixNano() < rates.Now() {
		moment = a.now()
	}
	return rates.Any() && rates.Advance(moment.UnixNano())
}

// arm has the alarm ring when the next gate may open, if someone waits.
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
