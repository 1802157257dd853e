package plugins

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
	route    *columns // the columns that it reads, in the engine's words
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

// messageOf is the text of an error for people.
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

// Versions are those of the plugins, each with its module.
type Versions struct {
	*environment
	known   *registry
	open    *sandboxes
	scorers *scorers
	turns   *turns
	refused *rejections
}

// Of lists the versions of a plugin, the newest first.
func (x *Versions) Of(name string) ([]api.PluginVersion, error) {
	p := x.known.named(name)
	if p == nil {
		return nil, unknownPlugin(name)
	}
	list := x.known.versionsOf(p)
	out := make([]api.PluginVersion, 0, len(list))
	for _, v := range slices.Backward(list) {
		out = append(out, x.known.show(v))
	}
	return out, nil
}

// Get is one version: by its version text, or by 8 or more digits of its sha256.
func (x *Versions) Get(name, text string) (api.PluginVersion, error) {
	v, err := x.known.find(name, text)
	if err != nil {
		return api.PluginVersion{}, err
	}
	return x.known.show(v), nil
}

// Module gives the bytes of a version as they were uploaded, with the manifest in them.
func (x *Versions) Module(name, text string) ([]byte, api.PluginVersion, error) {
	v, err := x.known.find(name, text)
	if err != nil {
		return nil, api.PluginVersion{}, err
	}
	module, found, err := x.known.store.PluginModule(v.SHA256)
	if err == nil && !found {
		err = unknownPlugin(name)
	}
	if err != nil {
		return nil, api.PluginVersion{}, fmt.Errorf("plugins: module: %w", err)
	}
	return module, x.known.show(v), nil
}

// show is a version as callers see it.
func (r *registry) show(v *version) api.PluginVersion {
	now := v.state.Load()
	out := api.PluginVersion{
		Name: v.Name, SHA256: hexOf(v.SHA256), Version: v.Version, State: now.name, Reason: now.reason, Size: v.Size,
		CreatedAt: timeOf(v.Created), CreatedBy: v.Actor, Uses: []string{},
		Manifest: jsonOrEmpty(v.PluginVersion.Manifest), Report: v.report,
	}
	if p := r.named(v.Name); p != nil {
		record, _ := p.state()
		out.Uses = append(out.Uses, rolesOf(&record, v)...)
	}
	return out
}
