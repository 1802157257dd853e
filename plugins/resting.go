package plugins

import (
	"time"

	"github.com/quern-queue/quern/engine/strategy"
)

// What keeps a block from being scored although there is what it names, as warnings say it.
const (
	inactive    = "no version is active"
	quarantined = "it is quarantined"
	starting    = "its sandbox is not ready yet"
	held        = "an operator holds it"
	open        = "its breaker is open"
)

func resting(b *strategy.Scored, why string) *strategy.Unavailable {
	return &strategy.Unavailable{Detail: b.String() + ": " + why, Inactive: why == inactive}
}

// resting is what keeps a version and configuration from scoring for a block now; nil: nothing does.
func (p *plugin) resting(b *strategy.Scored, u *use, now func() time.Time) *strategy.Unavailable {
	if p.ready(u, now) {
		return nil
	}
	if p.settings.Load().Hold == HoldOpen {
		return resting(b, held)
	}
	if state, _, _ := u.breaker.show(now()); state == breakerQuarantined {
		return resting(b, quarantined)
	}
	return resting(b, open)
}
