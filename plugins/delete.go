package plugins

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/wasm/compile"
)

// Delete removes a version that is not in use, with its compiled code.
func (x *Versions) Delete(name, text string, change Change) error {
	x.known.changes.Lock()
	defer x.known.changes.Unlock()
	x.open.opening.Lock() // nothing of it is opened meanwhile
	defer x.open.opening.Unlock()
	v, err := x.known.find(name, text)
	if err != nil {
		return err
	}
	p := x.known.named(name)
	record, _ := p.state()
	if !change.holds(record.Revision) {
		return stale(record.Revision)
	}
	if roles := rolesOf(&record, v); len(roles) > 0 && !slices.Equal(roles, []string{"previous"}) {
		return &queue.Error{Code: queue.CodeConflict,
			Message: fmt.Sprintf("The version is in use (%s). Take it out of use first.", roles[0])}
	}
	if err := x.known.unnamed(&change, name, "version", func(u *queue.PluginUser) bool { return x.needs(p, v, u) }); err != nil {
		return err
	}
	if record.Previous.SHA256 == v.SHA256 {
		record.Previous = queue.PluginUse{}
		record.Revision++
		if err := x.known.store.PutPluginRecord(record); err != nil {
			return fmt.Errorf("plugins: delete a version: %w", err)
		}
		_, settings := p.state()
		p.adopt(record, settings)
	}
	code, err := x.open.codeKey(v)
	if err != nil {
		x.log.Warn("the module of a version that is deleted cannot be read; its compiled code stays", "plugin", name, "error", err)
	}
	act := x.act("plugin.delete_version", name, change.By)
	act.Change(versionState(&v.PluginVersion), nil)
	if err := x.known.store.DeletePluginVersion(v.SHA256, name, record.Revision, act); err != nil {
		return fmt.Errorf("plugins: delete a version: %w", err)
	}
	x.known.mu.Lock()
	p.versions = slices.DeleteFunc(p.versions, func(one *version) bool { return one == v })
	x.known.forget(v)
	x.known.mu.Unlock()
	return x.open.discard(v, code)
}

// Delete removes a plugin with all its versions. It must not be active.
func (x Plugins) Delete(name string, change Change) error {
	x.known.changes.Lock()
	defer x.known.changes.Unlock()
	x.open.opening.Lock()
	defer x.open.opening.Unlock()
	p := x.known.named(name)
	if p == nil {
		return unknownPlugin(name)
	}
	record, _ := p.state()
	if !change.holds(record.Revision) {
		return stale(record.Revision)
	}
	if !record.Active.None() {
		return &queue.Error{Code: queue.CodeConflict, Message: "The plugin is active. Deactivate it first."}
	}
	if err := x.known.unnamed(&change, name, "plugin", func(u *queue.PluginUser) bool { return u.Strategy != "" }); err != nil {
		return err
	}
	versions := x.known.versionsOf(p)
	for _, v := range versions { // one after the other: together they may be as large as all that may be stored
		code, err := x.open.codeKey(v)
		if err == nil {
			err = x.open.discard(v, code)
		}
		if err != nil {
			x.log.Warn("the compiled code of a version that is deleted stays", "plugin", name, "error", err)
		}
	}
	act := x.act("plugin.delete", name, change.By)
	act.Change(recordState(&record), nil)
	if err := x.known.store.DeletePlugin(name, record.Revision, act); err != nil {
		return fmt.Errorf("plugins: delete: %w", err)
	}
	x.known.mu.Lock()
	delete(x.known.plugins, name)
	for _, v := range versions {
		x.known.forget(v)
	}
	x.known.mu.Unlock()
	return nil
}

// needs says whether a block cannot do without a version: it pins it, or sends a configuration that no other version takes.
func (x *Versions) needs(p *plugin, v *version, u *queue.PluginUser) bool {
	if u.Version != "" {
		pinned, err := x.known.find(p.name, u.Version)
		return err == nil && pinned == v
	}
	if u.Config == "" && u.Window == 0 {
		return false // any version takes it
	}
	b := blockOf(p, u)
	takes := x.scorers.thatTake(p, b)
	return len(takes) == 1 && takes[0] == v
}

// unnamed refuses to delete what strategies need, unless the change is forced. names says whether a block is one that needs it.
func (r *registry) unnamed(change *Change, name, what string, names func(*queue.PluginUser) bool) error {
	if change.Force {
		return nil
	}
	var users []string
	for _, u := range append(r.usersOf(name), change.Users...) {
		if names(&u) {
			users = append(users, u.String())
		}
	}
	if len(users) == 0 {
		return nil
	}
	return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The %s is named by strategies: %s. Change them first, or "+
		"delete it with force: stored ones then go on with their next branch, and consumers that send it are refused.", what,
		someOf(slices.Compact(users)))}
}

// usersOf are the blocks that name a plugin.
func (r *registry) usersOf(name string) []queue.PluginUser {
	r.mu.RLock()
	queues := r.queues
	r.mu.RUnlock()
	if queues == nil {
		return nil
	}
	return queues.PluginUsers(name)
}

const maxUsersShown = 20

// someOf names the first of a list, and how many more there are.
func someOf(list []string) string {
	more := ""
	if len(list) > maxUsersShown {
		more = fmt.Sprintf(" and %d more", len(list)-maxUsersShown)
		list = list[:maxUsersShown]
	}
	return strings.Join(list, ", ") + more
}

// forget takes a version out of the registry. registry.mu is held.
func (r *registry) forget(v *version) {
	delete(r.versions, v.SHA256)
	r.bytes -= v.Size
}

// discard closes a version, if it is open, and removes its compiled code, if it has any. Modules that differ in nothing but their
// manifests have the same code: it is compiled again for the other one when that is opened next.
func (b *sandboxes) discard(v *version, code string) error {
	var errs []error
	for _, u := range b.uses.remove(v.SHA256) {
		errs = append(errs, u.host.Close())
	}
	if code != "" {
		errs = append(errs, b.compiler.Forget(code))
	}
	return errors.Join(errs...)
}

// Sweep removes the compiled code that no version has any more: of versions that were deleted while their module could not be read, of
// modules that this release rewrites otherwise than the one before, and of another version of the engine. It leaves code that was loaded
// since New, and the code of every version of the catalogue. It reads and rewrites the modules of versions that are not open, with a
// pause after each, until everything in the cache has found its owner. It returns how many entries it removed and how many bytes they
// had.
func (c *Catalogue) Sweep(ctx context.Context) (removed int, bytes int64, err error) {
	if _, err := c.known.opened(); err != nil { // no plugin is known yet
		return 0, 0, err
	}
	entries, err := c.open.compiler.Unclaimed()
	if err != nil || len(entries) == 0 {
		return 0, 0, err
	}
	ownerless := map[string]compile.Entry{}
	for _, e := range entries {
		ownerless[e.Key] = e
	}
	for _, v := range c.known.withCode() {
		if allUseless(ownerless) {
			break
		}
		began := c.clock()
		key, err := c.open.codeKey(v)
		if err != nil {
			return 0, 0, err // the owners of the rest are not known: all of it stays
		}
		if ownerless[key].Usable {
			delete(ownerless, key)
		}
		if !pause(ctx, c.clock()-began) {
			return 0, 0, ctx.Err()
		}
	}
	for key := range ownerless {
		gone, freed, err := c.open.compiler.Remove(key)
		if err != nil {
			return removed, bytes, err
		}
		if gone {
			removed, bytes = removed+1, bytes+freed
		}
	}
	return removed, bytes, nil
}

// allUseless says that no owner needs to be looked for.
func allUseless(entries map[string]compile.Entry) bool {
	for _, e := range entries {
		if e.Usable {
			return false
		}
	}
	return true
}

// pause waits for as long as the last step took, so that looking for owners takes half a core at most. It ends with ctx.
func pause(ctx context.Context, took time.Duration) bool {
	timer := time.NewTimer(took)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err() == nil
}

// sweep is Sweep in the background, once.
func (c *Catalogue) sweep(ctx context.Context) {
	removed, bytes, err := c.Sweep(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		c.log.Warn("the cache of compiled plugins could not be swept; the server tries again at the next start", "error", err)
	case removed > 0:
		c.log.Info("compiled code that belongs to no plugin was removed", "entries", removed, "bytes", bytes)
	}
}
