package plugins

import (
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Settings are what an operator may set for a plugin.
type Settings struct {
	// Hold overrides the breaker: "" leaves it to itself, HoldOpen takes the plugin out of use, HoldClosed uses it whatever happens.
	Hold        string  `json:"hold,omitempty"`
	CPUShare    float64 `json:"cpu_share,omitempty"`    // of one core; 0: the server's
	RecordEvery int     `json:"record_every,omitempty"` // one of so many batches is recorded; 0: the server's
	LogLevel    int     `json:"log_level,omitempty"`    // lines below it are dropped: 0 debug to 3 error
}

// The overrides of a breaker.
const (
	HoldOpen   = "open"
	HoldClosed = "closed"
)

func parseSettings(raw []byte) (s Settings, err error) {
	if len(raw) == 0 {
		return s, nil
	}
	err = json.Unmarshal(raw, &s)
	return s, err
}

func (s *Settings) check() error {
	var wrong []queue.Problem
	add := func(pointer, detail string) { wrong = append(wrong, queue.Problem{Pointer: pointer, Detail: detail}) }
	if s.Hold != "" && s.Hold != HoldOpen && s.Hold != HoldClosed {
		add("/hold", "must be open, closed or empty")
	}
	if !(s.CPUShare >= 0 && s.CPUShare <= 64) {
		add("/cpu_share", "must be from 0 to 64 cores; 0 is the server's default")
	}
	if s.RecordEvery < 0 || s.RecordEvery > 1<<30 {
		add("/record_every", "must be from 0 to 1073741824; 0 is the server's default")
	}
	if s.LogLevel < 0 || s.LogLevel > 3 {
		add("/log_level", "must be from 0 (debug) to 3 (error)")
	}
	if len(wrong) > 0 {
		return &queue.Error{Code: queue.CodeInvalid, Message: "The settings are not valid.", Problems: wrong}
	}
	return nil
}

// plugin is all of one name.
type plugin struct {
	name     string
	rank     int    // how many plugins there were before it
	shown    string // its name in metrics
	seconds  prometheus.Observer
	fuel     prometheus.Observer
	versions []*version // in the order in which they came; guarded by Catalogue.mu
	now      atomic.Pointer[activation]
	settings atomic.Pointer[Settings]

	mu     sync.Mutex
	record queue.PluginRecord

	swaps sync.Mutex // one swap at a time, so that the last one sees what is last

	share       *share // of what decides
	shadowShare *share
	openings    *share       // of starting what consumers ask for
	starved     atomic.Int64 // when it was last logged that there is no memory for it, in nanoseconds of the clock
	totals      totals
	logs        *logs
	recordings  *recordings
	agreement   agreement
}

func newPlugin(name string, l *Limits) *plugin {
	p := &plugin{name: name, share: newShare(l.CPUWindow), shadowShare: newShare(l.CPUWindow),
		openings: newShare(l.CPUWindow), logs: newLogs(l), recordings: newRecordings(l)}
	p.record.Name = name
	p.settings.Store(&Settings{})
	return p
}

// state is a copy of what is in use, and the settings.
func (p *plugin) state() (queue.PluginRecord, Settings) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.record, *p.settings.Load()
}

func (p *plugin) adopt(r queue.PluginRecord, s Settings) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record = r
	p.settings.Store(&s)
}

// activation is what of a plugin is in use: never changed, only replaced.
type activation struct {
	scorer *scorer // its route is the active version's
	config []byte
}

// swap makes what the record says the thing that is used, all of it at once. What is not open is left out; the active version must
// be open and in order, or the plugin is not used at all.
func (p *plugin) swap(c *Catalogue) {
	p.swaps.Lock()
	defer p.swaps.Unlock()
	record, _ := p.state()
	usable := func(asked *queue.PluginUse) *use {
		if asked.SHA256 == (queue.SHA256{}) {
			return nil
		}
		u := c.uses.find(useKey{asked.SHA256, string(asked.Config)})
		if u == nil || c.stateOf(u.version).name != Ready {
			return nil
		}
		return u
	}
	active := usable(&record.Active)
	if active == nil {
		p.now.Store(nil)
		return
	}
	s := newScorer(c, p, active)
	if canary := usable(&record.Canary); canary != nil && record.Percent > 0 {
		s.canary = s.add(canary)
		s.percent = uint64(record.Percent)
	}
	if shadow := usable(&record.Shadow); shadow != nil {
		s.shadow = s.add(shadow)
	}
	p.now.Store(&activation{scorer: s, config: record.Active.Config})
}

// route is a version in use, and where its columns are in the windows of a scorer.
type route struct {
	use *use
	at  []int
}

// scorer is who scores: a version, with a canary and a shadow or without.
type scorer struct {
	catalogue *Catalogue
	plugin    *plugin
	reads     []strategy.Column
	active    *route
	canary    *route
	percent   uint64
	shadow    *route
}

func newScorer(c *Catalogue, p *plugin, active *use) *scorer {
	s := &scorer{catalogue: c, plugin: p}
	s.active = s.add(active)
	return s
}

// add makes room for the columns of a version.
func (s *scorer) add(u *use) *route {
	r := &route{use: u}
	s.reads, r.at = u.version.route.join(s.reads)
	return r
}
