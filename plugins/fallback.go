package plugins

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/wasm/host"
)

// fallback is why a request goes on without a plugin.
type fallback int

const (
	fellFault    fallback = iota // it failed
	fellBreaker                  // its breaker is open, or an operator holds it
	fellInactive                 // no version is active, or it is quarantined
	fellStarting                 // its sandbox is not ready yet
	fellMemory                   // all plugins together have the memory that they may have
	fellBusy                     // too many batches wait for it
	fallbackKinds
)

// String is how metrics and the API call it.
func (f fallback) String() string {
	return [fallbackKinds]string{"fault", "breaker", "inactive", "starting", "memory", "busy"}[f]
}

// fallbackOf says what an error of a batch was.
func fallbackOf(err error) fallback {
	var fault *host.Fault
	switch {
	case errors.Is(err, errNotReady):
		return fellBreaker
	case errors.Is(err, host.ErrStarting), errors.Is(err, host.ErrClosed):
		return fellStarting
	case errors.Is(err, host.ErrMemory):
		return fellMemory
	case errors.As(err, &fault) && fault.Kind == host.Stopped, !errors.As(err, &fault):
		return fellBusy
	}
	return fellFault
}

// fallbacks count requests that went on without a plugin.
type fallbacks [fallbackKinds]atomic.Uint64

func (f *fallbacks) add(why fallback) { f[why].Add(1) }

func (f *fallbacks) total() (n uint64) {
	for k := range f {
		n += f[k].Load()
	}
	return n
}

// byReason are those that there were.
func (f *fallbacks) byReason() map[string]uint64 {
	out := map[string]uint64{}
	for k := range f {
		if n := f[k].Load(); n > 0 {
			out[fallback(k).String()] = n
		}
	}
	return out
}

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
