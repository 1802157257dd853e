package plugins

import (
	"encoding/json"

	"github.com/quern-queue/quern/engine/queue"
)

// Use is a version in use of a plugin.
type Use struct {
	SHA256  string
	Version string
	Config  json.RawMessage
}

// Breaker is the state of an active version's breaker.
type Breaker struct {
	State  string // closed, starting, open, half_open, throttled, quarantined or held
	Reason string // why it is not closed
	Until  queue.Time
}

// Plugin is a plugin with what is in use of it. Nil uses are none.
type Plugin struct {
	Name     string
	Revision uint64 // counts the changes; 0 before the first
	State    string // active, inactive, starting, open, half_open, throttled, quarantined or held
	Active   *Use
	Previous *Use
	Shadow   *Use
	Canary   *Use
	Percent  int
	Settings Settings
	Breaker  Breaker
	Versions int
	Latest   string // sha256 of the version that came last
	Changed  queue.Time
	Actor    string
}

// Plugins are those that there are, each with what is in use of it.
type Plugins struct {
	*environment
	known *registry
	open  *sandboxes
}

// List lists up to limit plugins by name, behind the name after; next is where to go on, "" at the end.
func (x Plugins) List(after string, limit int) (list []Plugin, next string) {
	for _, p := range x.known.all() {
		if p.name <= after {
			continue
		}
		if len(list) == limit {
			return list, list[limit-1].Name
		}
		list = append(list, x.show(p))
	}
	return list, ""
}

// Get is one plugin.
func (x Plugins) Get(name string) (Plugin, error) {
	p := x.known.named(name)
	if p == nil {
		return Plugin{}, unknownPlugin(name)
	}
	return x.show(p), nil
}

// breaker is the breaker of a plugin's active version.
func (x Plugins) breaker(p *plugin) Breaker {
	record, settings := p.state()
	if settings.Hold == HoldOpen {
		return Breaker{State: breakerHeld, Reason: "an operator took the plugin out of use"}
	}
	if v := x.known.of(record.Active.SHA256); v != nil {
		if now := v.state.Load(); now.name == Quarantined {
			return Breaker{State: breakerQuarantined, Reason: now.reason}
		}
	}
	u := x.open.uses.find(keyOf(&record.Active))
	switch {
	case u == nil && x.open.isStarting(&record.Active):
		return Breaker{State: breakerStarting, Reason: "its sandbox is not ready yet; until it is, requests go on without the plugin"}
	case u == nil:
		return Breaker{State: breakerClosed}
	}
	state, reason, until := u.breaker.show(x.now())
	b := Breaker{State: state, Reason: reason}
	if !until.IsZero() {
		b.Until = queue.At(until)
	}
	return b
}

func (x Plugins) show(p *plugin) Plugin {
	record, settings := p.state()
	out := Plugin{Name: p.name, Revision: record.Revision, Percent: record.Percent, Settings: settings,
		Breaker: x.breaker(p), Changed: record.Changed, Actor: record.Actor}
	x.known.mu.RLock()
	out.Versions = len(p.versions)
	if out.Versions > 0 {
		out.Latest = hexOf(p.versions[out.Versions-1].SHA256)
	}
	shown := map[string]**Use{"active": &out.Active, "canary": &out.Canary, "shadow": &out.Shadow, "previous": &out.Previous}
	for role, use := range record.Uses() {
		if v := x.known.versions[use.SHA256]; v != nil {
			*shown[role] = &Use{SHA256: hexOf(v.SHA256), Version: v.Version, Config: use.Config}
		}
	}
	x.known.mu.RUnlock()
	switch {
	case out.Active == nil:
		out.State = "inactive"
	case out.Breaker.State == breakerClosed:
		out.State = "active"
	default:
		out.State = out.Breaker.State
	}
	return out
}
