package plugins

import (
	"errors"
	"fmt"
	"time"

	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/host"
)

// account adds a batch to the plugin's books: counters, processor time, log lines, recordings.
func (x *scorers) account(p *plugin, u *use, b *abi.Batch, scores []float64, r *host.Report, err error, now time.Time) {
	u.pages.Store(r.Pages)
	u.fuel.Store(r.Fuel)
	shadow := b.Flags&abi.FlagShadow != 0
	t := &p.totals
	if shadow {
		t = &p.agreement.totals
	}
	t.add(u.version.manifest.Version, b, r, err)
	if !shadow {
		p.seconds.Observe(r.Duration.Seconds())
		p.fuel.Observe(float64(r.Fuel))
	}
	t.count(u.version.manifest.Counters, r.Counters)
	settings := p.settings.Load()
	p.logs.add(now, u.version, r, settings.LogLevel)
	p.recordings.consider(x.log, u, b, scores, err, now, settings.RecordEvery)
	x.bill(p, u, now, r.Duration, shadow)
}

// started puts the start of a sandbox into the books of its plugin, as a batch is.
func (x *scorers) started(u *use, s host.Start) {
	p := x.known.named(u.version.Name)
	if p == nil { // it is being uploaded, or is a formula, which has nothing to start
		return
	}
	now := x.began.Add(s.Ended)
	var fault *host.Fault
	if errors.As(s.Err, &fault) && !s.Reported && fault.Kind != host.Stopped {
		p.totals.fault(u.version.manifest.Version, fault)
		if opened, quarantined := u.breaker.failed(now, fault.Error()); quarantined {
			x.fail(p, u, fault.Error())
		} else if opened {
			x.log.Warn("a plugin's breaker opened", "plugin", p.name, "version", u.version.Version, "reason", fault.Error())
		}
	}
	x.bill(p, u, now, s.Duration, x.isShadow(p, u))
}

// bill counts processor time of a plugin, and throttles it when it used more than its share.
func (x *scorers) bill(p *plugin, u *use, now time.Time, took time.Duration, shadow bool) {
	mine, most := p.share, p.mostCPU(&x.limits)
	if shadow {
		mine = p.shadowShare
	}
	if used := mine.add(now.Sub(x.began), took); used > most && p.settings.Load().Hold != HoldClosed {
		u.breaker.throttle(now, fmt.Sprintf("it used %.0f %% of a core over %v, and %.0f %% are allowed", used*100,
			x.limits.CPUWindow, most*100))
		mine.reset()
	}
}

// isShadow says whether a version and configuration is in use as a shadow only.
func (x *scorers) isShadow(p *plugin, u *use) bool {
	record, _ := p.state()
	return u.is(&record.Shadow) && !u.is(&record.Active) && !u.is(&record.Canary)
}

// fail quarantines the version when the configuration is one of an operator; a consumer's own configuration only takes itself out.
func (x *scorers) fail(p *plugin, u *use, reason string) {
	record, _ := p.state()
	if u.is(&record.Active) || u.is(&record.Canary) || u.is(&record.Shadow) {
		x.known.quarantine(u.key.sum, fmt.Sprintf("%d times within %v it failed too often; the last time: %s",
			x.limits.Quarantine, x.limits.QuarantineTime, reason))
		x.swap(p)
	}
}
