package plugins

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/manifest"
)

// version is a version as the catalogue holds it. Everything but the state is fixed.
type version struct {
	queue.PluginVersion
	manifest *manifest.Manifest
	route    *columns // what it reads, in the engine's words
	report   api.PluginReport
	state    atomic.Pointer[state]
}

// state is one of those of api.PluginVersion, and why.
type state struct{ name, reason string }

// ready says whether it may be used.
func (v *version) ready() bool { return v.state.Load().name == api.PluginReady }

// readVersion makes a version of a stored one. One whose manifest this server does not understand is quarantined.
func readVersion(v *queue.PluginVersion, log *slog.Logger) *version {
	out := &version{PluginVersion: *v}
	out.state.Store(&state{v.State, v.Reason})
	if err := json.Unmarshal(v.Report, &out.report); err != nil {
		log.Error("a plugin's report cannot be read", "plugin", v.Name, "sha256", short(v.SHA256), "error", err)
	}
	m, violations := manifest.Parse(v.Manifest)
	if m == nil {
		out.state.Store(&state{api.PluginQuarantined, "its manifest is not one that this server reads: " + violations[0].String()})
		return out
	}
	columns, wrong := columnsOf(m)
	if len(wrong) > 0 {
		out.state.Store(&state{api.PluginQuarantined,
			"it wants what this server does not have: " + wrong[0].Pointer + " " + wrong[0].Detail})
		return out
	}
	out.manifest, out.route = m, columns
	return out
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
