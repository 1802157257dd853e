package plugins

import (
	"encoding/json"
	"fmt"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// Plugins has the calls about plugins, each with its versions in use.
type Plugins struct {
	*environment
	known *registry
	open  *sandboxes
}

// List lists up to limit plugins by name, behind the name after; next is where to go on, "" at the end.
func (x Plugins) List(after string, limit int) (list []api.Plugin, next string) {
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
func (x Plugins) Get(name string) (api.Plugin, error) {
	p := x.known.named(name)
	if p == nil {
		return api.Plugin{}, unknownPlugin(name)
	}
	return x.show(p), nil
}

// breaker is the breaker of a plugin's active version.
func (x Plugins) breaker(p *plugin) api.PluginBreaker {
	record, settings := p.state()
	if settings.Hold == HoldOpen {
		return api.PluginBreaker{State: breakerHeld, Reason: "an operator took the plugin out of use"}
	}
	if v := x.known.of(record.Active.SHA256); v != nil {
		if now := v.state.Load(); now.name == api.PluginQuarantined {
			return api.PluginBreaker{State: breakerQuarantined, Reason: now.reason}
		}
	}
	u := x.open.uses.find(keyOf(&record.Active))
	switch {
	case u == nil && x.open.isStarting(&record.Active):
		return api.PluginBreaker{State: breakerStarting,
			Reason: "its sandbox is not ready yet; until it is, requests go on without the plugin"}
	case u == nil:
		return api.PluginBreaker{State: breakerClosed}
	}
	state, reason, until := u.breaker.show(x.now())
	b := api.PluginBreaker{State: state, Reason: reason}
	if !until.IsZero() {
		b.Until = api.At(until)
	}
	return b
}

func (x Plugins) show(p *plugin) api.Plugin {
	record, settings := p.state()
	out := api.Plugin{
		Name: p.name, Revision: record.Revision, ETag: etagOf(record.Revision), CanaryPercent: record.Percent, Settings: settings,
		Breaker: x.breaker(p), ChangedAt: timeOf(record.Changed), ChangedBy: record.Actor,
	}
	x.known.mu.RLock()
	out.Versions = len(p.versions)
	if out.Versions > 0 {
		out.Latest = hexOf(p.versions[out.Versions-1].SHA256)
	}
	shown := map[string]**api.PluginUse{"active": &out.Active, "canary": &out.Canary, "shadow": &out.Shadow, "previous": &out.Previous}
	for role, use := range record.Uses() {
		if v := x.known.versions[use.SHA256]; v != nil {
			*shown[role] = &api.PluginUse{SHA256: hexOf(v.SHA256), Version: v.Version, Config: jsonOrEmpty(use.Config)}
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

// etagOf names a revision, for If-Match.
func etagOf(revision uint64) string { return fmt.Sprintf(`"r%d"`, revision) }

func timeOf(t queue.Time) api.Time { return api.At(t.Std()) }

// jsonOrEmpty is JSON that a stranger wrote and that was stored, or {} when it is none.
func jsonOrEmpty(raw []byte) json.RawMessage {
	if json.Valid(raw) {
		return raw
	}
	return json.RawMessage("{}")
}
