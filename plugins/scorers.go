package plugins

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/manifest"
)

// scorers choose the version that scores for a block, by the use of the plugins and the open versions, and keep the books of the scores.
type scorers struct {
	*environment
	known *registry
	open  *sandboxes

	formulas  *formulas
	shadows   *shadowWorker
	scratches sync.Pool  // *scratch
	asking    sync.Mutex // held while a window is scored for a question
}

func newScorers(env *environment, known *registry, open *sandboxes, m *metrics) *scorers {
	x := &scorers{environment: env, known: known, open: open, shadows: newShadowWorker(env)}
	x.formulas = &formulas{scorers: x, metrics: m}
	open.opened, open.started = x.swap, x.started
	return x
}

// Check says why a block cannot be used: a name, a version or a configuration that does not exist or does not fit. Pointers are
// relative to the block. Otherwise it says what keeps the block from being scored now. It begins to open what the block asks for, and
// waits for that as long as a batch waits for a sandbox.
func (x *scorers) Check(ctx context.Context, b *strategy.Scored) (*strategy.Unavailable, error) {
	if b.Expression != nil {
		return x.formulas.check(ctx, b)
	}
	p := x.known.named(b.Plugin)
	if p == nil {
		return nil, queue.Invalid("/name", "names no plugin of this server: %q", clip(b.Plugin))
	}
	var v *version
	if b.Version != "" {
		found, err := x.known.find(b.Plugin, b.Version)
		if err != nil {
			return nil, queue.Invalid("/version", "names no version of the plugin: %s", messageOf(err))
		}
		v = found
	} else if v = x.known.current(p); v == nil {
		return resting(b, inactive), nil // another version that is activated may take another configuration
	}
	if v.manifest == nil {
		return resting(b, quarantined), nil
	}
	config, err := x.fit(p, v, b)
	if err != nil {
		if b.Version == "" && len(x.thatTake(p, b)) > 0 { // an operator activated a version that does not take it
			return resting(b, "its version "+v.Version+" refuses the configuration or the window"), nil
		}
		return nil, err
	}
	if !v.ready() {
		return resting(b, quarantined), nil
	}
	key := useKey{v.SHA256, string(config)}
	if u := x.open.uses.find(key); u != nil {
		u.asked.Store(x.now().UnixNano())
		return p.resting(b, u, x.now), nil
	}
	if record, _ := p.state(); keyOf(&record.Active) == key { // the catalogue opens it
		if now := p.now.Load(); now != nil && b.Version == "" && b.Config == nil { // the former active version still scores (Reload)
			return p.resting(b, now.scorer.active.use, x.now), nil
		}
		return resting(b, starting), nil
	}
	if err := x.open.openAsked(ctx, p, v, config); err != nil {
		return resting(b, whyNotOpen(v, err)), nil
	}
	return nil, nil
}

// fit is the configuration of a block for a version, or why the version does not take the block.
func (x *scorers) fit(p *plugin, v *version, b *strategy.Scored) ([]byte, error) {
	if b.Window > v.manifest.WindowMax {
		return nil, queue.Invalid("/window", "is %d; the plugin takes at most %d candidates at once", b.Window, v.manifest.WindowMax)
	}
	return x.configFor(p, v, b)
}

// thatTake are the versions of a plugin that take a block, by their schemas and largest windows.
func (x *scorers) thatTake(p *plugin, b *strategy.Scored) []*version {
	return slices.DeleteFunc(x.known.versionsOf(p), func(v *version) bool {
		if v.manifest == nil {
			return true
		}
		_, err := x.fit(p, v, b)
		return err != nil
	})
}

// Scorer returns the scorer of a block now.
func (x *scorers) Scorer(b *strategy.Scored) (strategy.Scorer, bool) {
	if b.Expression != nil {
		return x.formulas.scorer(b)
	}
	p := x.known.named(b.Plugin)
	if p == nil {
		return nil, false
	}
	s, why := x.scorerOf(p, b)
	if s != nil && s.ready() {
		return s, true
	}
	p.totals.fallbacks.add(why)
	return nil, false
}

// Dry returns the scorer that a block would have now, for a question about a strategy.
func (x *scorers) Dry(b *strategy.Scored) (strategy.Scorer, error) {
	why, err := x.Check(context.Background(), b) // the caller has paid when the strategy of the question was read
	if err != nil {
		return nil, err
	}
	if why != nil {
		return nil, why
	}
	var s *scorer
	if b.Expression != nil {
		s, err = x.formulas.get(context.Background(), b, &x.formulas.again)
	} else {
		s, _ = x.scorerOf(x.known.named(b.Plugin), b)
	}
	if err != nil {
		return nil, err
	}
	if s == nil { // closed since the check
		return nil, resting(b, starting)
	}
	return dryScorer{s}, nil
}

// scorerOf returns the scorer of a block; why is the reason if it is not used.
func (x *scorers) scorerOf(p *plugin, b *strategy.Scored) (s *scorer, why fallback) {
	now := p.now.Load()
	if b.Version == "" && b.Config == nil {
		if now != nil {
			return now.scorer, fellBreaker
		}
		if record, _ := p.state(); x.open.isStarting(&record.Active) {
			return nil, fellStarting
		}
		return nil, fellInactive
	}
	v := x.known.current(p)
	if b.Version != "" {
		v, _ = x.known.find(b.Plugin, b.Version)
	}
	if v == nil || v.manifest == nil || !v.ready() {
		return nil, fellInactive
	}
	config, err := x.configFor(p, v, b)
	if err != nil {
		return nil, fellInactive
	}
	u := x.open.uses.find(useKey{v.SHA256, string(config)})
	if u == nil {
		x.open.openBeside(p, v, config)
		return nil, fellStarting
	}
	u.asked.Store(x.now().UnixNano())
	return newScorer(x, p, u), fellBreaker
}

// configFor is the configuration of a block, in canonical form: its own, that of the activation for the active version, or the defaults.
func (x *scorers) configFor(p *plugin, v *version, b *strategy.Scored) ([]byte, error) {
	if b.Config == nil {
		if record, _ := p.state(); record.Active.SHA256 == v.SHA256 {
			return record.Active.Config, nil
		}
	}
	return validConfig(v.manifest, b.Config, "/config")
}

// validConfig checks a configuration against a manifest and gives its canonical form.
func validConfig(m *manifest.Manifest, raw []byte, pointer string) ([]byte, error) {
	canonical, violations := manifest.ValidateConfig(m.Schema, raw)
	if len(violations) == 0 {
		return canonical, nil
	}
	refused := &queue.Error{Code: queue.CodeInvalid, Message: "The configuration is not one that the plugin accepts."}
	for _, v := range violations {
		refused.Problems = append(refused.Problems, queue.Problem{Pointer: pointer + v.Pointer, Detail: v.Detail})
	}
	return nil, refused
}

// swap puts the record's versions into use, all at once. A version that is not open is left out. The active version must be open and in
// order, or the plugin is not used at all.
func (x *scorers) swap(p *plugin) {
	p.swaps.Lock()
	defer p.swaps.Unlock()
	if old := p.now.Load(); old != nil { // a request that has it gets time to end
		now := x.now().UnixNano()
		for _, r := range []*route{old.scorer.active, old.scorer.canary, old.scorer.shadow} {
			if r != nil {
				r.use.asked.Store(now)
			}
		}
	}
	record, _ := p.state()
	usable := func(asked *queue.PluginUse) *use {
		if u := x.open.uses.find(keyOf(asked)); u != nil && u.version.ready() {
			return u
		}
		return nil
	}
	active := usable(&record.Active)
	if active == nil {
		p.now.Store(nil)
		return
	}
	s := newScorer(x, p, active)
	if canary := usable(&record.Canary); canary != nil && record.Percent > 0 {
		s.canary = s.add(canary)
		s.percent = uint64(record.Percent)
	}
	if shadow := usable(&record.Shadow); shadow != nil {
		s.shadow = s.add(shadow)
	}
	p.now.Store(&activation{scorer: s, config: record.Active.Config})
}

// lend gives the memory of a batch; it goes back with scratches.Put after forget.
func (x *scorers) lend() *scratch {
	if s, ok := x.scratches.Get().(*scratch); ok {
		return s
	}
	return new(scratch)
}

func (x *scorers) resetBreakers(p *plugin) {
	for _, u := range x.open.uses.all(p.name) {
		u.breaker.reset()
	}
	p.share.reset()
	p.shadowShare.reset()
}

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
