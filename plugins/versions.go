package plugins

import (
	"fmt"
	"slices"

	"github.com/quern-queue/quern/sdk/api"
)

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
