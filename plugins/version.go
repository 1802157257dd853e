package plugins

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/wasm/manifest"
)

// The states of a version.
const (
	Ready       = "ready"       // it passed all checks and may be activated
	Quarantined = "quarantined" // it failed too often, or cannot be opened; it is activated only by force
)

// Version is one version of a plugin.
type Version struct {
	Name     string
	SHA256   string // hexadecimal
	Version  string
	State    string // Ready or Quarantined
	Reason   string // why it is quarantined
	Size     int64
	Created  queue.Time
	Actor    string
	Manifest json.RawMessage
	Report   Report
	Uses     []string // of active, canary, shadow and previous
}

// version is a version as the catalogue holds it. Everything but the state is fixed.
type version struct {
	queue.PluginVersion
	manifest *manifest.Manifest
	route    *columns // what it reads, in the engine's words
	report   Report
	state    state // guarded by Catalogue.mu
}

type state struct{ name, reason string }

// read makes a version of a stored one. One whose manifest this server does not understand is quarantined.
func (c *Catalogue) read(v *queue.PluginVersion) *version {
	out := &version{PluginVersion: *v, state: state{v.State, v.Reason}}
	if err := json.Unmarshal(v.Report, &out.report); err != nil {
		c.log.Error("a plugin's report cannot be read", "plugin", v.Name, "sha256", short(v.SHA256), "error", err)
	}
	m, violations := manifest.Parse(v.Manifest)
	if m == nil {
		out.state = state{Quarantined, "its manifest is not one that this server reads: " + violations[0].String()}
		return out
	}
	columns, wrong := columnsOf(m)
	if len(wrong) > 0 {
		out.state = state{Quarantined, "it wants what this server does not have: " + wrong[0].Pointer + " " + wrong[0].Detail}
		return out
	}
	out.manifest, out.route = m, columns
	return out
}

// enter adds a version to what is known. Catalogue.mu is held.
func (c *Catalogue) enter(v *version) *plugin {
	p := c.plugins[v.Name]
	if p == nil {
		p = newPlugin(v.Name, &c.limits)
		p.rank = c.ranks
		c.ranks++
		c.metrics.watch(p)
		c.plugins[v.Name] = p
	}
	c.versions[v.SHA256] = v
	p.versions = append(p.versions, v)
	c.bytes += v.Size
	return p
}

// find resolves a version of a plugin: its version text (the newest of that text), or 8 to 64 digits of its sha256.
func (c *Catalogue) find(name, text string) (*version, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	p := c.plugins[name]
	if p == nil {
		return nil, unknownPlugin(name)
	}
	var found []*version
	for i := len(p.versions) - 1; i >= 0; i-- {
		v := p.versions[i]
		if v.Version == text {
			return v, nil
		}
		if digits := strings.TrimPrefix(strings.ToLower(text), "sha256:"); len(digits) >= 8 &&
			strings.HasPrefix(hex.EncodeToString(v.SHA256[:]), digits) {
			found = append(found, v)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, &queue.Error{Code: queue.CodeUnknownPlugin, Message: "The plugin \"" + name +
			"\" has no version \"" + clip(text) +
			"\". A version is named by its version text, or by the first 8 or more digits of its sha256."}
	}
	return nil, &queue.Error{Code: queue.CodeUnknownPlugin, Message: "Several versions of the plugin \"" + name +
		"\" begin with " + clip(text) + ". Give more digits of the sha256."}
}

// stateOf is the state of a version now.
func (c *Catalogue) stateOf(v *version) state {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return v.state
}

// setState changes a version's state, durably.
func (c *Catalogue) setState(v *version, s state) error {
	c.mu.Lock()
	store := c.store
	v.state = s
	c.mu.Unlock()
	if store == nil {
		return errClosed
	}
	return store.SetPluginState(v.SHA256, s.name, s.reason)
}

// quarantine takes a version out of use until an operator forces it back. If that cannot be stored it is logged, and holds in memory.
func (c *Catalogue) quarantine(sum queue.SHA256, reason string) {
	c.mu.RLock()
	v := c.versions[sum]
	c.mu.RUnlock()
	if v == nil || c.stateOf(v).name == Quarantined {
		return
	}
	c.log.Warn("a plugin's version is quarantined", "plugin", v.Name, "version", v.Version, "sha256", short(sum), "reason", reason)
	if err := c.setState(v, state{Quarantined, reason}); err != nil {
		c.log.Error("that a plugin is quarantined could not be stored", "plugin", v.Name, "sha256", short(sum), "error", err)
	}
}

func unknownPlugin(name string) *queue.Error {
	return &queue.Error{Code: queue.CodeUnknownPlugin, Message: "There is no plugin of the name \"" + clip(name) + "\"."}
}

var errClosed = &queue.Error{Code: queue.CodeUnavailable, Message: "The plugins are not open yet."}

// short is the part of a sum that people read.
func short(sum queue.SHA256) string { return hex.EncodeToString(sum[:4]) }

// clip keeps names from outside short.
func clip(text string) string {
	if len(text) > 80 {
		return text[:80] + "..."
	}
	return text
}

// messageOf is what an error says to people.
func messageOf(err error) string {
	var known *queue.Error
	if !errors.As(err, &known) {
		return err.Error()
	}
	text := known.Message
	for _, p := range known.Problems {
		text += " " + p.Pointer + " " + p.Detail
	}
	return text
}

var _ strategy.Scorers = (*Catalogue)(nil)
