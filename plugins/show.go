package plugins

import (
	"encoding/json"
	"fmt"
	"slices"

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

// List lists up to limit plugins by name, behind the name after; next is where to go on, "" at the end.
func (c *Catalogue) List(after string, limit int) (list []Plugin, next string) {
	for _, p := range c.all() {
		if p.name <= after {
			continue
		}
		if len(list) == limit {
			return list, list[limit-1].Name
		}
		list = append(list, c.showPlugin(p))
	}
	return list, ""
}

// Get is one plugin.
func (c *Catalogue) Get(name string) (Plugin, error) {
	p := c.named(name)
	if p == nil {
		return Plugin{}, unknownPlugin(name)
	}
	return c.showPlugin(p), nil
}

// VersionsOf lists the versions of a plugin, the newest first.
func (c *Catalogue) VersionsOf(name string) ([]Version, error) {
	c.mu.RLock()
	p := c.plugins[name]
	var list []*version
	if p != nil {
		list = slices.Clone(p.versions)
	}
	c.mu.RUnlock()
	if p == nil {
		return nil, unknownPlugin(name)
	}
	out := make([]Version, 0, len(list))
	for _, v := range slices.Backward(list) {
		out = append(out, c.show(v))
	}
	return out, nil
}

// VersionOf is one version: by its version text, or by 8 or more digits of its sha256.
func (c *Catalogue) VersionOf(name, text string) (Version, error) {
	v, err := c.find(name, text)
	if err != nil {
		return Version{}, err
	}
	return c.show(v), nil
}

// Module gives the bytes of a version as they were uploaded, with the manifest in them.
func (c *Catalogue) Module(name, text string) ([]byte, Version, error) {
	v, err := c.find(name, text)
	if err != nil {
		return nil, Version{}, err
	}
	module, found, err := c.store.PluginModule(v.SHA256)
	if err == nil && !found {
		err = unknownPlugin(name)
	}
	if err != nil {
		return nil, Version{}, fmt.Errorf("plugins: module: %w", err)
	}
	return module, c.show(v), nil
}

// Stats are a plugin's numbers since the start of the server.
type Stats struct {
	Batches, Candidates, Skipped, Unwritten, Fallbacks uint64

	FallbackReasons map[string]uint64 // fault, breaker, inactive, starting, memory, busy: those that there were

	NsPerCandidate   float64 // of all batches that were scored
	FuelPerCandidate float64
	Faults           map[string]uint64
	LastFault        string
	Counters         map[string]float64
	CPUShare         float64 // of a core, in the last seconds
	MemoryPages      uint32
	Instances        int
	LogsDropped      uint64
	Breaker          Breaker
	Shadow           *ShadowStats // nil without a shadow
}

// ShadowStats say how a shadow compares with the active version. Overlap and Tau are means, the last hundred batches count most.
type ShadowStats struct {
	SHA256  string
	Batches uint64
	Dropped uint64
	Faults  map[string]uint64
	Overlap float64 // share of what would be taken that both agree on
	Tau     float64 // Kendall's tau-b of the two orders
}

// StatsOf gives a plugin's numbers.
func (c *Catalogue) StatsOf(name string) (Stats, error) {
	p := c.named(name)
	if p == nil {
		return Stats{}, unknownPlugin(name)
	}
	t := &p.totals
	s := Stats{
		Batches: t.batches.Load(), Candidates: t.candidates.Load(), Skipped: t.skipped.Load(),
		Unwritten: t.unwritten.Load(), Fallbacks: t.fallbacks.total(), FallbackReasons: t.fallbacks.byReason(),
		CPUShare: p.share.of(c.clock()), Breaker: c.breakerOf(p),
	}
	s.Faults, s.Counters, s.LastFault = t.maps()
	if s.Candidates > 0 {
		s.NsPerCandidate = float64(t.nanoseconds.Load()) / float64(s.Candidates)
		s.FuelPerCandidate = float64(t.fuel.Load()) / float64(s.Candidates)
	}
	for _, u := range c.uses.all(name) {
		s.Instances += u.host.Instances()
		s.MemoryPages = max(s.MemoryPages, u.pages.Load())
	}
	_, s.LogsDropped = p.logs.after(0, 0)
	if record, _ := p.state(); record.Shadow.SHA256 != (queue.SHA256{}) {
		s.Shadow = &ShadowStats{SHA256: hexOf(record.Shadow.SHA256)}
		of, batches, dropped, overlap, tau := p.agreement.show()
		s.Shadow.Dropped = dropped
		if of.sum == record.Shadow.SHA256 {
			s.Shadow.Batches, s.Shadow.Overlap, s.Shadow.Tau = batches, overlap, tau
		}
		s.Shadow.Faults, _, _ = p.agreement.totals.maps()
	}
	return s, nil
}

// LogsOf lists up to limit lines that a plugin logged, behind a number, the oldest first.
func (c *Catalogue) LogsOf(name string, after uint64, limit int) (lines []LogLine, dropped uint64, err error) {
	p := c.named(name)
	if p == nil {
		return nil, 0, unknownPlugin(name)
	}
	lines, dropped = p.logs.after(after, limit)
	return lines, dropped, nil
}

// RecordingsOf lists the batches that are kept of a plugin, the newest first.
func (c *Catalogue) RecordingsOf(name string) ([]Recording, error) {
	p := c.named(name)
	if p == nil {
		return nil, unknownPlugin(name)
	}
	return p.recordings.list(), nil
}

// RecordingOf gives the bytes of a recording: a .qbatch file as sdk/abi has it.
func (c *Catalogue) RecordingOf(name string, id uint64) ([]byte, error) {
	p := c.named(name)
	if p == nil {
		return nil, unknownPlugin(name)
	}
	file, ok := p.recordings.find(id)
	if !ok {
		return nil, &queue.Error{Code: queue.CodeUnknownPlugin,
			Message: "The plugin has no recording of that number; old ones make room for new ones."}
	}
	return file, nil
}

// breakerOf is the breaker of a plugin's active version.
func (c *Catalogue) breakerOf(p *plugin) Breaker {
	record, settings := p.state()
	if settings.Hold == HoldOpen {
		return Breaker{State: breakerHeld, Reason: "an operator took the plugin out of use"}
	}
	c.mu.RLock()
	v := c.versions[record.Active.SHA256]
	c.mu.RUnlock()
	if v != nil {
		if now := c.stateOf(v); now.name == Quarantined {
			return Breaker{State: breakerQuarantined, Reason: now.reason}
		}
	}
	u := c.uses.find(useKey{record.Active.SHA256, string(record.Active.Config)})
	switch {
	case u == nil && c.isStarting(&record.Active):
		return Breaker{State: breakerStarting, Reason: "its sandbox is not ready yet; until it is, requests go on without the plugin"}
	case u == nil:
		return Breaker{State: breakerClosed}
	}
	state, reason, until := u.breaker.show(c.options.Now())
	b := Breaker{State: state, Reason: reason}
	if !until.IsZero() {
		b.Until = queue.At(until)
	}
	return b
}

func (c *Catalogue) showPlugin(p *plugin) Plugin {
	record, settings := p.state()
	out := Plugin{Name: p.name, Revision: record.Revision, Percent: record.Percent, Settings: settings,
		Breaker: c.breakerOf(p), Changed: record.Changed, Actor: record.Actor}
	c.mu.RLock()
	out.Versions = len(p.versions)
	if out.Versions > 0 {
		out.Latest = hexOf(p.versions[out.Versions-1].SHA256)
	}
	for _, part := range []struct {
		from *queue.PluginUse
		to   **Use
	}{{&record.Active, &out.Active}, {&record.Previous, &out.Previous}, {&record.Shadow, &out.Shadow}, {&record.Canary, &out.Canary}} {
		if v := c.versions[part.from.SHA256]; v != nil {
			*part.to = &Use{SHA256: hexOf(v.SHA256), Version: v.Version, Config: part.from.Config}
		}
	}
	c.mu.RUnlock()
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

func (c *Catalogue) show(v *version) Version {
	now := c.stateOf(v)
	out := Version{
		Name: v.Name, SHA256: hexOf(v.SHA256), Version: v.Version, State: now.name, Reason: now.reason, Size: v.Size,
		Created: v.Created, Actor: v.Actor,
		Manifest: v.PluginVersion.Manifest, Report: v.report,
	}
	if p := c.named(v.Name); p != nil {
		record, _ := p.state()
		out.Uses = rolesOf(&record, v.SHA256)
	}
	return out
}

// marshal writes what cannot fail.
func marshal(s Settings) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		return []byte("{}")
	}
	return text
}
