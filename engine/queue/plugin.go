package queue

import (
	"fmt"
	"iter"
	"slices"

	"github.com/quern-queue/quern/sdk/api"
)

// SHA256 names the bytes of a plugin's module. The zero value names none.
type SHA256 [32]byte

// PluginVersion is one version of a plugin as it is stored, beside the bytes of its module.
type PluginVersion struct {
	SHA256   SHA256 // of the bytes with the manifest in them: the same bytes are the same version
	Name     string // of the plugin, from the manifest
	Version  string // from the manifest, for people; several versions may have the same
	State    string // by its name in package plugins
	Reason   string // of the state, for people; "" if there is none
	Size     int64  // bytes of the module
	Manifest []byte // JSON
	Report   []byte // JSON: the findings of its checks
	Created  Time
	Actor    string // who uploaded it, "" if that is not known
}

// PluginUse is a version with a configuration. The zero value is none.
type PluginUse struct {
	SHA256 SHA256
	Config []byte // canonical JSON
}

// None says that it names no version.
func (u *PluginUse) None() bool { return u.SHA256 == SHA256{} }

// PluginRecord has the versions of a plugin that are in use, as stored. Revision counts the changes from 1.
type PluginRecord struct {
	Name     string
	Revision uint64
	Active   PluginUse
	Previous PluginUse // the version that was active before: a rollback goes there
	Shadow   PluginUse
	Canary   PluginUse
	Percent  int    // of the requests that the canary scores, 0 to 100
	Settings []byte // JSON
	Changed  Time
	Actor    string
}

// Uses are the versions in use and the previous one, by role, the one that decides first.
func (r *PluginRecord) Uses() iter.Seq2[string, *PluginUse] {
	return func(yield func(string, *PluginUse) bool) {
		_ = yield("active", &r.Active) && yield("canary", &r.Canary) && yield("shadow", &r.Shadow) && yield("previous", &r.Previous)
	}
}

// PluginUser is a block of a queue's strategy that names a plugin.
type PluginUser struct {
	Queue    string
	Strategy string // its name; "" if consumers send it written out
	Version  string // that it pins; "" if it takes the active one
	Config   string // JSON; "" for that of the activation
	Window   int    // candidates at once; 0: as the plugin says
}

// String names the owner of the block, for people.
func (u *PluginUser) String() string {
	if u.Strategy == "" {
		return fmt.Sprintf("consumers of the queue %q", u.Queue)
	}
	return fmt.Sprintf("%q of the queue %q", u.Strategy, u.Queue)
}

// pluginSettings are the settings of a plugin. To add one: its field in package api, and its declaration here.
var pluginSettings = []*Field[api.PluginSettings]{
	{
		Name: "hold", Names: []string{"", "open", "closed"}, field: fieldOf(func(s *api.PluginSettings) *string { return &s.Hold }, ""),
		Sentence: "open: out of use; closed: its breaker never opens; empty: its faults decide",
	}, {
		Name: "cpu_share", Range: numbers(0, 64, "the server's 0.25"),
		field:    fieldOf(func(s *api.PluginSettings) *float64 { return &s.CPUShare }, 0),
		Sentence: "Share of one core, over 10 s, above which it is throttled",
	}, {
		Name: "record_every", Range: numbers(0, 1<<30, "the server's 10,000"),
		field:    fieldOf(func(s *api.PluginSettings) *int { return &s.RecordEvery }, 0),
		Sentence: "The plugin records one in this many batches",
	}, {
		Name: "log_level", Range: numbers(0, 3), field: fieldOf(func(s *api.PluginSettings) *int { return &s.LogLevel }, 0),
		Sentence: "Lines below it are dropped: 0 debug, 1 info, 2 warn, 3 error",
	},
}

// PluginSettings lists the settings of a plugin.
func PluginSettings() []*Field[api.PluginSettings] { return slices.Clone(pluginSettings) }
