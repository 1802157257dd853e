package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/host"
)

// toStart is a version with a configuration that is in use and not open yet.
type toStart struct {
	plugin  *plugin
	key     useKey
	as      int    // 0 active, 1 canary, 2 shadow
	missed  uint64 // requests that went on without it
	changed queue.Time
}

// Start opens what is in use of the plugins and not open, one after the other, until all is or ctx ends. Meanwhile
// requests go on without. What requests ask for comes first, what is active before canaries and shadows, what was
// changed last before the rest. A version that cannot be opened is quarantined and logged; one for which there is no
// memory or no turn now is left for the next call.
func (c *Catalogue) Start(ctx context.Context) {
	left := map[useKey]bool{}
	for ctx.Err() == nil {
		waiting := slices.DeleteFunc(c.unstarted(), func(s toStart) bool { return left[s.key] })
		if len(waiting) == 0 {
			return
		}
		next := slices.MinFunc(waiting, func(a, b toStart) int {
			return cmp.Or(-cmp.Compare(a.missed, b.missed), cmp.Compare(a.as, b.as), -cmp.Compare(a.changed, b.changed),
				cmp.Compare(a.plugin.rank, b.plugin.rank))
		})
		_, err := c.openUse(ctx, next.key.sum, []byte(next.key.config))
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return
		case errors.Is(err, host.ErrMemory), errors.Is(err, compile.ErrBusy):
			left[next.key] = true
			c.starved(next.plugin, err)
			continue
		default:
			c.log.Error("a plugin cannot be opened and is quarantined", "plugin", next.plugin.name, "as",
				roleNames[next.as], "sha256", short(next.key.sum), "error", err)
			c.quarantine(next.key.sum, "it could not be opened at the start: "+messageOf(err))
		}
		next.plugin.swap(c)
	}
}

var roleNames = [...]string{"active", "canary", "shadow"}

// unstarted lists what is in use, may be opened and is not.
func (c *Catalogue) unstarted() (list []toStart) {
	for _, p := range c.all() {
		record, _ := p.state()
		for as, use := range []*queue.PluginUse{&record.Active, &record.Canary, &record.Shadow} {
			if c.isStarting(use) {
				missed := uint64(0)
				if as == 0 {
					missed = p.totals.fallbacks[fellStarting].Load()
				}
				list = append(list, toStart{p, useKey{use.SHA256, string(use.Config)}, as, missed, record.Changed})
			}
		}
	}
	return list
}

// isStarting says whether something that is in use may be opened and is not open.
func (c *Catalogue) isStarting(use *queue.PluginUse) bool {
	c.mu.RLock()
	v := c.versions[use.SHA256]
	c.mu.RUnlock()
	return v != nil && v.manifest != nil && c.stateOf(v).name == Ready && c.uses.find(useKey{use.SHA256, string(use.Config)}) == nil
}

// Starting lists the plugins whose active version is not open yet, by name, and says how many are active.
func (c *Catalogue) Starting() (names []string, active int) {
	for _, p := range c.all() {
		record, _ := p.state()
		if record.Active.SHA256 == (queue.SHA256{}) {
			continue
		}
		active++
		if c.isStarting(&record.Active) {
			names = append(names, p.name)
		}
	}
	return names, active
}

// maxOpeners is how many requests wait at once until their blocks' configurations are started; further ones go on without.
const maxOpeners = 8

// openAsked opens what a consumer's block asks for, within the plugin's share of the processor: configurations cost
// nothing to make up. What took it is counted apart from what the plugin uses for scoring, so that a consumer does not
// take the operator's version out of use. errStarting says that it is not its turn.
func (c *Catalogue) openAsked(p *plugin, v *version, config []byte) error {
	if c.openers.Add(1) > maxOpeners {
		c.openers.Add(-1)
		return errStarting
	}
	defer c.openers.Add(-1)
	c.opening.Lock()
	defer c.opening.Unlock()
	if p.openings.of(c.clock()) > c.shareOf(p) {
		return errStarting
	}
	began := c.clock()
	_, err := c.openInTurn(context.Background(), v.SHA256, config)
	ended := c.clock()
	p.openings.add(ended, ended-began)
	return err
}

var errStarting = errors.New("plugins: the configuration is not started yet")

// shareOf is how much of a core a plugin may use.
func (c *Catalogue) shareOf(p *plugin) float64 {
	if own := p.settings.Load().CPUShare; own > 0 {
		return own
	}
	return c.limits.CPUShare
}

// started puts the start of a sandbox into the books of its plugin, as a batch is.
func (c *Catalogue) started(u *use, s host.Start) {
	p := c.named(u.version.Name)
	if p == nil { // it is being uploaded, or is a formula, which has nothing to start
		return
	}
	now := c.began.Add(s.Ended)
	var fault *host.Fault
	if errors.As(s.Err, &fault) && !s.Reported && fault.Kind != host.Stopped {
		p.totals.fault(u.version.manifest.Version, fault)
		if opened, quarantined := u.breaker.failed(now, fault.Error()); quarantined {
			c.fail(p, u, fault.Error())
		} else if opened {
			c.log.Warn("a plugin's breaker opened", "plugin", p.name, "version", u.version.Version, "reason", fault.Error())
		}
	}
	c.bill(p, u, now, s.Duration, c.isShadow(p, u))
}

// isShadow says whether a version and configuration is in use as a shadow only.
func (c *Catalogue) isShadow(p *plugin, u *use) bool {
	record, _ := p.state()
	is := func(use *queue.PluginUse) bool { return use.SHA256 == u.key.sum && string(use.Config) == u.key.config }
	return is(&record.Shadow) && !is(&record.Active) && !is(&record.Canary)
}

// bill counts processor time of a plugin, and throttles it when it used more than its share.
func (c *Catalogue) bill(p *plugin, u *use, now time.Time, took time.Duration, shadow bool) {
	mine, most := p.share, c.shareOf(p)
	if shadow {
		mine = p.shadowShare
	}
	if used := mine.add(now.Sub(c.began), took); used > most && p.settings.Load().Hold != HoldClosed {
		u.breaker.throttle(now, fmt.Sprintf("it used %.0f %% of a core over %v, and %.0f %% are allowed", used*100,
			c.limits.CPUWindow, most*100))
		mine.reset()
	}
}

// starvedEvery is how often it is logged that a plugin has no memory.
const starvedEvery = time.Minute

// starved logs that a plugin goes without a sandbox for no fault of its own.
func (c *Catalogue) starved(p *plugin, why error) {
	now := c.options.Now().UnixNano()
	last := p.starved.Load()
	if last != 0 && now-last < int64(starvedEvery) || !p.starved.CompareAndSwap(last, now) {
		return
	}
	used, most, _ := c.memory.Use()
	c.log.Warn("a plugin has no sandbox, and requests go on without it", "plugin", p.name, "reason", why,
		"memory_bytes", used, "memory_limit_bytes", most)
}
