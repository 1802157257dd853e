package plugins

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// plugin is all of one name.
type plugin struct {
	name     string
	rank     int    // how many plugins there were before it
	shown    string // its name in metrics
	seconds  prometheus.Observer
	fuel     prometheus.Observer
	versions []*version // in the order in which they came; guarded by registry.mu
	now      atomic.Pointer[activation]
	settings atomic.Pointer[api.PluginSettings]

	mu     sync.Mutex
	record queue.PluginRecord

	swaps sync.Mutex // one swap at a time, so that the last one sees what is last

	share       *share // of versions that decide
	shadowShare *share
	openings    *share       // of starting configurations of consumers
	starved     atomic.Int64 // when the lack of memory for it was last logged, in nanoseconds of the clock
	totals      totals
	logs        *logs
	recordings  *recordings
	agreement   agreement
}

func newPlugin(name string, l *Limits) *plugin {
	p := &plugin{name: name, share: newShare(l.CPUWindow), shadowShare: newShare(l.CPUWindow),
		openings: newShare(l.CPUWindow), logs: newLogs(l), recordings: newRecordings(l)}
	p.record.Name = name
	p.settings.Store(&api.PluginSettings{})
	return p
}

// state returns a copy of the record, and the settings.
func (p *plugin) state() (queue.PluginRecord, api.PluginSettings) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.record, *p.settings.Load()
}

func (p *plugin) adopt(r queue.PluginRecord, s api.PluginSettings) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record = r
	p.settings.Store(&s)
}

// activation is the part of a plugin that is in use: never changed, only replaced.
type activation struct {
	scorer *scorer // its route is the active version's
	config []byte
}

// mostCPU is how much of a core a plugin may use.
func (p *plugin) mostCPU(l *Limits) float64 {
	if own := p.settings.Load().CPUShare; own > 0 {
		return own
	}
	return l.CPUShare
}

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

// act is the audit log's entry of a change of a plugin.
func (e *environment) act(action, name string, by queue.Who) queue.Act {
	return queue.Act{At: queue.At(e.now()), Who: by, Action: action, Target: "plugin " + name, Outcome: queue.ActOK}
}

// recordState is the versions of a plugin in use, as the audit log has them; nil if the plugin was never
// changed.
func recordState(r *queue.PluginRecord) any {
	if r.Revision == 0 {
		return nil
	}
	state := map[string]any{}
	for role, use := range r.Uses() {
		if !use.None() {
			state[role] = map[string]any{"sha256": hexOf(use.SHA256), "config": json.RawMessage(orEmpty(use.Config))}
		}
	}
	if r.Percent != 0 {
		state["percent"] = r.Percent
	}
	if r.Settings != nil {
		state["settings"] = json.RawMessage(r.Settings)
	}
	return state
}

func orEmpty(config []byte) []byte {
	if len(config) == 0 {
		return []byte("{}")
	}
	return config
}

// versionState is a version in the audit log.
func versionState(v *queue.PluginVersion) any {
	return map[string]any{"version": v.Version, "sha256": hexOf(v.SHA256), "size": v.Size}
}
