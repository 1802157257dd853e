package plugins

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/scan"
)

// Change is who changes what is in use of a plugin, and under which condition.
type Change struct {
	Revision  uint64    // the plugin must be at; 0: any
	Unchanged bool      // it must be at revision 0: nothing of it was ever changed
	By        queue.Who // who changes it
	Force     bool      // of a deletion: also what stored strategies name, which then go on without it
}

// holds says whether the condition is met by a plugin at this revision.
func (c *Change) holds(revision uint64) bool {
	return c.Revision == revision || c.Revision == 0 && !c.Unchanged
}

// Selection is a version with a configuration.
type Selection struct {
	Version string // its version text, or 8 or more digits of its sha256
	Config  []byte // JSON; nil: {} with the defaults of the version
	Force   bool   // also one that is quarantined, which ends its quarantine
}

// Activate makes a version the one that scores, from the next request on, in the place of the one that did; a canary and a shadow of
// this version go. A version that cannot be opened, or whose configuration it refuses, changes nothing.
func (c *Catalogue) Activate(ctx context.Context, name string, s Selection, change Change) (Plugin, error) {
	return c.change("plugin.activate", name, change, func(p *plugin, r *queue.PluginRecord) error {
		use, err := c.selected(ctx, p, &s)
		if err != nil {
			return err
		}
		if !sameUse(r.Active, use) && r.Active.SHA256 != (queue.SHA256{}) {
			r.Previous = r.Active
		}
		r.Active = use
		if r.Canary.SHA256 == use.SHA256 {
			r.Canary, r.Percent = queue.PluginUse{}, 0
		}
		if sameUse(r.Shadow, use) {
			r.Shadow = queue.PluginUse{}
		}
		return nil
	})
}

// Deactivate takes a plugin out of use; strategies that name it go on with their next branch.
func (c *Catalogue) Deactivate(name string, change Change) (Plugin, error) {
	return c.change("plugin.deactivate", name, change, func(_ *plugin, r *queue.PluginRecord) error {
		if r.Active.SHA256 == (queue.SHA256{}) {
			return &queue.Error{Code: queue.CodeConflict, Message: "The plugin is not active."}
		}
		r.Previous, r.Active = r.Active, queue.PluginUse{}
		r.Canary, r.Shadow, r.Percent = queue.PluginUse{}, queue.PluginUse{}, 0
		return nil
	})
}

// Rollback activates what was active before.
func (c *Catalogue) Rollback(ctx context.Context, name string, change Change) (Plugin, error) {
	return c.change("plugin.rollback", name, change, func(p *plugin, r *queue.PluginRecord) error {
		if r.Previous.SHA256 == (queue.SHA256{}) {
			return &queue.Error{Code: queue.CodeConflict,
				Message: "There is no version before the active one. Activate a version by its name."}
		}
		use, err := c.selected(ctx, p, &Selection{Version: hexOf(r.Previous.SHA256), Config: r.Previous.Config})
		if err != nil {
			return err
		}
		r.Active, r.Previous = use, r.Active
		r.Canary, r.Percent = queue.PluginUse{}, 0
		return nil
	})
}

// Shadow lets a version score beside the active one without deciding anything; with an empty version there is none any more.
func (c *Catalogue) Shadow(ctx context.Context, name string, s Selection, change Change) (Plugin, error) {
	return c.change("plugin.shadow", name, change, func(p *plugin, r *queue.PluginRecord) (err error) {
		r.Shadow, err = c.beside(ctx, p, &s)
		return err
	})
}

// Canary lets a version score for so many per cent of the requests; 0 per cent, or an empty version, ends that.
func (c *Catalogue) Canary(ctx context.Context, name string, s Selection, percent int, change Change) (Plugin, error) {
	return c.change("plugin.canary", name, change, func(p *plugin, r *queue.PluginRecord) (err error) {
		if percent < 0 || percent > 100 {
			return queue.Invalid("/percent", "is %d; 0 to 100 are allowed", percent)
		}
		if percent == 0 {
			s.Version = ""
		}
		r.Canary, err = c.beside(ctx, p, &s)
		r.Percent = percent
		if r.Canary.SHA256 == (queue.SHA256{}) {
			r.Percent = 0
		}
		return err
	})
}

// beside is a version that is to be used beside the active one.
func (c *Catalogue) beside(ctx context.Context, p *plugin, s *Selection) (queue.PluginUse, error) {
	if s.Version == "" {
		return queue.PluginUse{}, nil
	}
	if record, _ := p.state(); record.Active.SHA256 == (queue.SHA256{}) {
		return queue.PluginUse{}, &queue.Error{Code: queue.CodeConflict,
			Message: "No version of the plugin is active, so there is nothing to compare with. Activate one first."}
	}
	return c.selected(ctx, p, s)
}

// PutSettings replaces the settings of a plugin. Holding a breaker closed also closes it now.
func (c *Catalogue) PutSettings(name string, s Settings, change Change) (Plugin, error) {
	if err := s.check(); err != nil {
		return Plugin{}, err
	}
	return c.change("plugin.settings", name, change, func(p *plugin, r *queue.PluginRecord) error {
		r.Settings = marshal(s)
		if s.Hold == HoldClosed {
			c.resetBreakers(p)
		}
		return nil
	})
}

// Reset closes the breakers of a plugin and forgets its faults and its processor time. A quarantine ends only by activating with force.
func (c *Catalogue) Reset(name string, change Change) (Plugin, error) {
	return c.change("plugin.reset", name, change, func(p *plugin, _ *queue.PluginRecord) error {
		c.resetBreakers(p)
		return nil
	})
}

func (c *Catalogue) resetBreakers(p *plugin) {
	for _, u := range c.uses.all(p.name) {
		u.breaker.reset()
	}
	p.share.reset()
	p.shadowShare.reset()
}

// selected opens what a selection asks for.
func (c *Catalogue) selected(ctx context.Context, p *plugin, s *Selection) (queue.PluginUse, error) {
	v, err := c.find(p.name, s.Version)
	if err != nil {
		return queue.PluginUse{}, queue.Invalid("/version", "names no version: %s", messageOf(err))
	}
	if v.manifest == nil {
		return queue.PluginUse{}, &queue.Error{Code: queue.CodeConflict,
			Message: "The version cannot be used by this server: " + c.stateOf(v).reason}
	}
	config, err := validConfig(v.manifest, s.Config, "/config")
	if err != nil {
		return queue.PluginUse{}, err
	}
	if now := c.stateOf(v); now.name == Quarantined && !s.Force {
		return queue.PluginUse{}, &queue.Error{Code: queue.CodeConflict, Message: "The version is quarantined: " +
			now.reason + ". Activate another one, or this one with force."}
	}
	u, err := c.openUse(ctx, v.SHA256, config)
	var fault *host.Fault
	if errors.As(err, &fault) {
		return queue.PluginUse{}, queue.Invalid("/config", "is refused by the plugin: %s", fault.Error())
	}
	if err != nil {
		return queue.PluginUse{}, fmt.Errorf("plugins: open a version: %w", err)
	}
	if s.Force {
		u.breaker.reset()
		if c.stateOf(v).name != Ready {
			if err := c.setState(v, state{name: Ready}); err != nil {
				return queue.PluginUse{}, fmt.Errorf("plugins: end a quarantine: %w", err)
			}
		}
	}
	return queue.PluginUse{SHA256: v.SHA256, Config: config}, nil
}

// change makes one change of what is in use: written down first, with its entry in the audit log, then swapped in at once.
func (c *Catalogue) change(action, name string, change Change, do func(p *plugin, r *queue.PluginRecord) error) (Plugin, error) {
	c.changes.Lock()
	defer c.changes.Unlock()
	c.mu.RLock()
	p, store := c.plugins[name], c.store
	c.mu.RUnlock()
	if store == nil {
		return Plugin{}, errClosed
	}
	if p == nil {
		return Plugin{}, unknownPlugin(name)
	}
	record, _ := p.state()
	if !change.holds(record.Revision) {
		return Plugin{}, stale(record.Revision)
	}
	act := c.act(action, name, change.By)
	before := recordState(&record)
	if err := do(p, &record); err != nil {
		return Plugin{}, err
	}
	if record.Revision == math.MaxInt64 {
		return Plugin{}, errors.New("plugins: the revisions are used up")
	}
	record.Revision++
	record.Changed, record.Actor = act.At, change.By.Actor
	if record.Settings == nil {
		record.Settings = marshal(Settings{})
	}
	settings, err := parseSettings(record.Settings)
	if err != nil {
		return Plugin{}, fmt.Errorf("plugins: settings: %w", err)
	}
	act.Change(before, recordState(&record))
	if err := store.PutPluginRecord(record, act); err != nil {
		return Plugin{}, fmt.Errorf("plugins: store a change: %w", err)
	}
	p.adopt(record, settings)
	p.swap(c)
	return c.showPlugin(p), nil
}

func stale(revision uint64) *queue.Error {
	return &queue.Error{Code: queue.CodePrecondition, Message: fmt.Sprintf("The plugin is at revision %d, which is "+
		"not the one that If-Match names. Read it again, then retry with its new ETag.", revision)}
}

// unnamed refuses to delete what stored strategies name, unless the change is forced. names says whether a strategy
// that pins this version is meant.
func (c *Catalogue) unnamed(change *Change, name, what string, names func(version string) bool) error {
	c.mu.RLock()
	queues := c.queues
	c.mu.RUnlock()
	if change.Force || queues == nil {
		return nil
	}
	var users []string
	for _, u := range queues.PluginUsers(name) {
		if names(u.Version) {
			users = append(users, fmt.Sprintf("\"%s\" of the queue \"%s\"", u.Strategy, u.Queue))
		}
	}
	if len(users) == 0 {
		return nil
	}
	more := ""
	if len(users) > maxUsersShown {
		more = fmt.Sprintf(" and %d more", len(users)-maxUsersShown)
		users = users[:maxUsersShown]
	}
	return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The %s is named by stored strategies: %s%s. "+
		"Change them first, or delete it with force: they then go on with their next branch.", what, strings.Join(users, ", "), more)}
}

const maxUsersShown = 20

// DeleteVersion removes a version that is not in use, with its compiled code.
func (c *Catalogue) DeleteVersion(name, text string, change Change) error {
	v, err := c.find(name, text)
	if err != nil {
		return err
	}
	c.changes.Lock()
	defer c.changes.Unlock()
	c.opening.Lock() // nothing of it is opened meanwhile
	defer c.opening.Unlock()
	p := c.named(name)
	record, _ := p.state()
	if !change.holds(record.Revision) {
		return stale(record.Revision)
	}
	if roles := rolesOf(&record, v.SHA256); len(roles) > 0 && !slices.Equal(roles, []string{"previous"}) {
		return &queue.Error{Code: queue.CodeConflict,
			Message: fmt.Sprintf("The version is in use (%s). Take it out of use first.", roles[0])}
	}
	if err := c.unnamed(&change, name, "version", func(version string) bool {
		pinned, err := c.find(name, version)
		return version != "" && err == nil && pinned == v
	}); err != nil {
		return err
	}
	if record.Previous.SHA256 == v.SHA256 {
		record.Previous = queue.PluginUse{}
		record.Revision++
		if err := c.store.PutPluginRecord(record); err != nil {
			return fmt.Errorf("plugins: delete a version: %w", err)
		}
		_, settings := p.state()
		p.adopt(record, settings)
	}
	module, _, err := c.store.PluginModule(v.SHA256)
	if err != nil {
		c.log.Warn("the module of a version that is deleted cannot be read; its compiled code stays", "plugin", name, "error", err)
	}
	act := c.act("plugin.delete_version", name, change.By)
	act.Change(versionState(&v.PluginVersion), nil)
	if err := c.store.DeletePluginVersion(v.SHA256, act); err != nil {
		return fmt.Errorf("plugins: delete a version: %w", err)
	}
	c.mu.Lock()
	p.versions = slices.DeleteFunc(p.versions, func(one *version) bool { return one == v })
	c.forget(v)
	c.mu.Unlock()
	return c.discard(v, module)
}

// Delete removes a plugin with all its versions. It must not be active.
func (c *Catalogue) Delete(name string, change Change) error {
	c.changes.Lock()
	defer c.changes.Unlock()
	c.opening.Lock()
	defer c.opening.Unlock()
	p := c.named(name)
	if p == nil {
		return unknownPlugin(name)
	}
	record, _ := p.state()
	if !change.holds(record.Revision) {
		return stale(record.Revision)
	}
	if record.Active.SHA256 != (queue.SHA256{}) {
		return &queue.Error{Code: queue.CodeConflict, Message: "The plugin is active. Deactivate it first."}
	}
	if err := c.unnamed(&change, name, "plugin", func(string) bool { return true }); err != nil {
		return err
	}
	c.mu.RLock()
	versions := slices.Clone(p.versions)
	c.mu.RUnlock()
	for _, v := range versions { // one after the other: together they may be as large as all that may be stored
		module, _, err := c.store.PluginModule(v.SHA256)
		if err == nil {
			err = c.discard(v, module)
		}
		if err != nil {
			c.log.Warn("the compiled code of a version that is deleted stays", "plugin", name, "error", err)
		}
	}
	act := c.act("plugin.delete", name, change.By)
	act.Change(recordState(&record), nil)
	if err := c.store.DeletePlugin(name, act); err != nil {
		return fmt.Errorf("plugins: delete: %w", err)
	}
	c.mu.Lock()
	delete(c.plugins, name)
	for _, v := range versions {
		c.forget(v)
	}
	c.mu.Unlock()
	return nil
}

// forget takes a version out of what is known. Catalogue.mu is held.
func (c *Catalogue) forget(v *version) {
	delete(c.versions, v.SHA256)
	c.bytes -= v.Size
}

// discard closes what is open of a version and removes its compiled code. module may be nil, where the store had none.
// Modules that differ in nothing but their manifests have the same code: it is compiled again for the other one when that is opened next.
func (c *Catalogue) discard(v *version, module []byte) error {
	var errs []error
	for _, u := range c.uses.remove(v.SHA256) {
		errs = append(errs, u.host.Close())
	}
	if module == nil || v.manifest == nil {
		return errors.Join(errs...)
	}
	report, violations := scan.Scan(module, scan.Ceilings())
	if len(violations) > 0 {
		return errors.Join(errs...)
	}
	rewritten, err := instrument.Instrument(module, report, c.limits.rewriting(v.manifest))
	if err == nil {
		err = c.compiler.Forget(rewritten.Bytes)
	}
	return errors.Join(append(errs, err)...)
}

// rolesOf lists what a version is used as.
func rolesOf(r *queue.PluginRecord, sum queue.SHA256) (roles []string) {
	for _, part := range []struct {
		role string
		use  *queue.PluginUse
	}{{"active", &r.Active}, {"canary", &r.Canary}, {"shadow", &r.Shadow}, {"previous", &r.Previous}} {
		if part.use.SHA256 == sum {
			roles = append(roles, part.role)
		}
	}
	return roles
}

func sameUse(a, b queue.PluginUse) bool {
	return a.SHA256 == b.SHA256 && string(a.Config) == string(b.Config)
}
