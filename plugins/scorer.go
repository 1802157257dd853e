package plugins

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/manifest"
)

// Check says why a block cannot be used: a name, a version or a configuration that does not exist or does not fit. Pointers are
// relative to the block. Otherwise it says what keeps the block from being scored now. It opens what the block asks for, so that the
// first request finds it ready.
func (c *Catalogue) Check(b *strategy.Scored) (*strategy.Unavailable, error) {
	if b.Expression != nil {
		return c.expressions.check(c, b)
	}
	p := c.named(b.Plugin)
	if p == nil {
		return nil, queue.Invalid("/name", "names no plugin of this server: %q", clip(b.Plugin))
	}
	var v *version
	if b.Version != "" {
		found, err := c.find(b.Plugin, b.Version)
		if err != nil {
			return nil, queue.Invalid("/version", "names no version of the plugin: %s", messageOf(err))
		}
		v = found
	} else if v = c.current(p); v == nil {
		return resting(b, inactive), nil // another version that is activated may take another configuration
	}
	if v.manifest == nil {
		return resting(b, quarantined), nil
	}
	if b.Window > v.manifest.WindowMax {
		return nil, queue.Invalid("/window", "is %d; the plugin takes at most %d candidates at once", b.Window, v.manifest.WindowMax)
	}
	config, err := c.configFor(p, v, b)
	if err != nil {
		return nil, err
	}
	if c.stateOf(v).name != Ready {
		return resting(b, quarantined), nil
	}
	if u := c.uses.find(useKey{v.SHA256, string(config)}); u != nil {
		u.asked.Store(c.options.Now().UnixNano())
		return p.resting(b, u, c.options.Now), nil
	}
	if record, _ := p.state(); sameUse(record.Active, queue.PluginUse{SHA256: v.SHA256, Config: config}) {
		return resting(b, starting), nil // by the catalogue
	}
	if err := c.openAsked(p, v, config); err != nil {
		return resting(b, starting), c.cannotOpen(p, v, err)
	}
	return nil, nil
}

// cannotOpen reads why a block's version and configuration cannot be opened. Only what is the block's mistake is an error.
func (c *Catalogue) cannotOpen(p *plugin, v *version, err error) error {
	var fault *host.Fault
	switch {
	case err == nil || errors.Is(err, errStarting):
		return nil
	case errors.Is(err, host.ErrMemory):
		c.starved(p, err)
		return nil
	case errors.As(err, &fault):
		return queue.Invalid("/config", "is refused by the plugin: %s", fault.Error())
	}
	c.log.Error("a plugin's version cannot be opened", "plugin", p.name, "version", v.Version, "error", err)
	return nil
}

// current is the active version, whatever its state, or nil.
func (c *Catalogue) current(p *plugin) *version {
	record, _ := p.state()
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.versions[record.Active.SHA256]
}

// configFor is the configuration of a block, in canonical form: its own, that of the activation for the active version, or the defaults.
func (c *Catalogue) configFor(p *plugin, v *version, b *strategy.Scored) ([]byte, error) {
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

// Scorer is who scores for a block now.
func (c *Catalogue) Scorer(b *strategy.Scored) (strategy.Scorer, bool) {
	if b.Expression != nil {
		return c.expressions.scorer(c, b)
	}
	p := c.named(b.Plugin)
	if p == nil {
		return nil, false
	}
	s, why := c.scorerOf(p, b)
	if s != nil && s.ready() {
		return s, true
	}
	p.totals.fallbacks.add(why)
	return nil, false
}

// scorerOf is who scores for a block; why is the reason if it is not used.
func (c *Catalogue) scorerOf(p *plugin, b *strategy.Scored) (s *scorer, why fallback) {
	now := p.now.Load()
	if b.Version == "" && b.Config == nil {
		if now != nil {
			return now.scorer, fellBreaker
		}
		if record, _ := p.state(); c.isStarting(&record.Active) {
			return nil, fellStarting
		}
		return nil, fellInactive
	}
	v := c.current(p)
	if b.Version != "" {
		v, _ = c.find(b.Plugin, b.Version)
	}
	if v == nil || v.manifest == nil || c.stateOf(v).name != Ready {
		return nil, fellInactive
	}
	config, err := c.configFor(p, v, b)
	if err != nil {
		return nil, fellInactive
	}
	u := c.uses.find(useKey{v.SHA256, string(config)})
	if u == nil {
		c.reopen(p, v, config)
		return nil, fellStarting
	}
	u.asked.Store(c.options.Now().UnixNano())
	return newScorer(c, p, u), fellBreaker
}

// reopen opens in the background what was closed because no strategy asked for it. One at a time: who comes meanwhile falls through.
func (c *Catalogue) reopen(p *plugin, v *version, config []byte) {
	if !c.reopening.TryLock() {
		return
	}
	go func() {
		defer c.reopening.Unlock()
		if err := c.cannotOpen(p, v, c.openAsked(p, v, config)); err != nil {
			c.log.Error("a plugin's version cannot be opened", "plugin", v.Name, "version", v.Version, "error", err)
		}
	}()
}

// ready says whether a batch would be scored now.
func (s *scorer) ready() bool { return s.plugin.ready(s.active.use, s.catalogue.options.Now) }

// ready says whether a batch would be scored now with a version and configuration. It leaves no trace.
func (p *plugin) ready(u *use, now func() time.Time) bool {
	switch p.settings.Load().Hold {
	case HoldOpen:
		return false
	case HoldClosed:
		return true
	}
	return u.breaker.ready(now)
}

// Reads are the columns of the active version, then those that only the canary or the shadow reads.
func (s *scorer) Reads() []strategy.Column { return s.reads }

// Rows is what the active version's manifest says.
func (s *scorer) Rows() (normal, most int) {
	most = s.active.use.version.manifest.WindowMax
	for _, r := range []*route{s.canary, s.shadow} {
		if r != nil {
			most = min(most, r.use.version.manifest.WindowMax)
		}
	}
	return min(s.active.use.version.manifest.WindowDefault, most), most
}

// Spread is what the active version's manifest says.
func (s *scorer) Spread() bool { return s.active.use.version.manifest.Take == manifest.Spread }

// Score scores a window with the active version, or with the canary for its share of the requests, by the window's seed.
func (s *scorer) Score(ctx context.Context, w *strategy.Window, scores []float64) error {
	if len(scores) != w.Rows {
		return fmt.Errorf("plugins: score: %d rows and room for %d scores", w.Rows, len(scores))
	}
	r := s.routeOf(w)
	err := s.run(ctx, r, w, scores, flagsOf(w))
	if err != nil {
		s.plugin.totals.fallbacks.add(fallbackOf(err))
		return err
	}
	if s.shadow != nil && !w.Dry && r == s.active {
		s.catalogue.shadow.offer(s, w, scores)
	}
	return nil
}

// routeOf is which version scores a window.
func (s *scorer) routeOf(w *strategy.Window) *route {
	if s.canary != nil && scramble(w.Seed)%100 < s.percent && s.canary.use.breaker.ready(s.catalogue.options.Now) {
		return s.canary
	}
	return s.active
}

func flagsOf(w *strategy.Window) (flags uint32) {
	if w.Dry {
		flags |= abi.FlagDryRun
	}
	if w.Shadow {
		flags |= abi.FlagShadow
	}
	return flags
}

var errNotReady = errors.New("plugins: the breaker is open")

// run scores a window with one version and keeps the books.
func (s *scorer) run(ctx context.Context, r *route, w *strategy.Window, scores []float64, flags uint32) error {
	c, u := s.catalogue, r.use
	held := s.plugin.settings.Load().Hold
	trial, ok := u.breaker.enter(c.options.Now)
	if !ok && held != HoldClosed || held == HoldOpen {
		if ok {
			u.breaker.leave(c.options.Now(), trial, unknown, "")
		}
		return errNotReady
	}
	// Those that wait for a sandbox are few: a plugin that is slow on all of them must not collect the requests of the server.
	if int(u.running.Add(1)) > 16*c.limits.Instances {
		u.running.Add(-1)
		u.breaker.leave(c.options.Now(), trial, unknown, "")
		return errors.New("plugins: too many batches wait for the plugin")
	}
	memory := c.lend()
	defer func() {
		memory.forget()
		c.scratches.Put(memory)
	}()
	batch, err := u.version.route.fill(memory, w, r.at, flags)
	if err != nil {
		u.running.Add(-1)
		u.breaker.leave(c.options.Now(), trial, unknown, "")
		return err
	}
	report, err := u.host.Score(ctx, batch, scores)
	u.running.Add(-1)
	now := c.began.Add(report.Ended)
	if report.Ended == 0 {
		now = c.options.Now()
	}
	opened, quarantined := u.breaker.leave(now, trial, verdictOf(err), reasonOf(err))
	s.plugin.account(c, u, batch, scores, &report, err, now)
	if s.plugin.name != scoreName { // formulas have no statistics of their own
		u.samples.offer(w, now, err)
	}
	switch {
	case errors.Is(err, host.ErrMemory):
		c.starved(s.plugin, err)
	case quarantined:
		c.fail(s.plugin, u, reasonOf(err))
	case opened:
		c.log.Warn("a plugin's breaker opened", "plugin", s.plugin.name, "version", u.version.Version, "reason", reasonOf(err))
	}
	return err
}

// fail quarantines the version when the configuration is one of an operator; a consumer's own configuration only takes itself out.
func (c *Catalogue) fail(p *plugin, u *use, reason string) {
	record, _ := p.state()
	for _, inUse := range []*queue.PluginUse{&record.Active, &record.Canary, &record.Shadow} {
		if inUse.SHA256 == u.key.sum && string(inUse.Config) == u.key.config {
			c.quarantine(u.key.sum, fmt.Sprintf("%d times within %v it failed too often; the last time: %s",
				c.limits.Quarantine, c.limits.QuarantineTime, reason))
			p.swap(c)
			return
		}
	}
}

// verdictOf says what an error of a batch means for the breaker.
func verdictOf(err error) verdict {
	var fault *host.Fault
	switch {
	case err == nil:
		return wentWell
	case errors.As(err, &fault) && fault.Kind != host.Stopped:
		return faulted
	}
	return unknown
}

func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// scramble spreads the bits of a seed (the finaliser of splitmix64).
func scramble(seed uint64) uint64 {
	seed = (seed ^ seed>>30) * 0xbf58476d1ce4e5b9
	seed = (seed ^ seed>>27) * 0x94d049bb133111eb
	return seed ^ seed>>31
}

// lend gives the memory of a batch; it goes back with c.scratches.Put after forget.
func (c *Catalogue) lend() *scratch {
	if s, ok := c.scratches.Get().(*scratch); ok {
		return s
	}
	return new(scratch)
}

// account adds a batch to the plugin's books: counters, processor time, log lines, recordings.
func (p *plugin) account(c *Catalogue, u *use, b *abi.Batch, scores []float64, r *host.Report, err error, now time.Time) {
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
	p.recordings.consider(c, u, b, scores, err, now, settings.RecordEvery)
	c.bill(p, u, now, r.Duration, shadow)
}
