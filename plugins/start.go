package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/host"
)

// toStart is a version with a configuration that is in use and not open yet.
type toStart struct {
	plugin  *plugin
	key     useKey
	as      int    // 0 active, 1 canary, 2 shadow
	missed  uint64 // requests that went on without it
	changed queue.Time
}

// Start opens the versions in use that are not open, one after the other, until all are or ctx ends. Meanwhile requests go on without
// them. Versions that requests ask for come first, then active ones before canaries and shadows, then those that were changed last. A
// version that cannot be opened is quarantined and logged. One for which there is no memory or no turn now is left for the next call.
func (c *Catalogue) Start(ctx context.Context) {
	left := map[useKey]bool{}
	for ctx.Err() == nil {
		waiting := slices.DeleteFunc(c.open.unstarted(), func(s toStart) bool { return left[s.key] })
		if len(waiting) == 0 {
			return
		}
		next := slices.MinFunc(waiting, func(a, b toStart) int {
			return cmp.Or(-cmp.Compare(a.missed, b.missed), cmp.Compare(a.as, b.as), -cmp.Compare(a.changed, b.changed),
				cmp.Compare(a.plugin.rank, b.plugin.rank))
		})
		_, err := c.open.use(ctx, next.key.sum, []byte(next.key.config))
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return
		case later(err):
			left[next.key] = true
			c.open.starved(next.plugin, err)
			c.scorers.swap(next.plugin) // what was active before makes room
			continue
		default:
			c.log.Error("a plugin cannot be opened and is quarantined", "plugin", next.plugin.name, "as",
				roleNames[next.as], "sha256", short(next.key.sum), "error", err)
			c.known.quarantine(next.key.sum, "it could not be opened at the start: "+messageOf(err))
		}
		c.scorers.swap(next.plugin)
	}
}

// later says whether what cannot be opened now can be when others are closed or compiled.
func later(err error) bool { return errors.Is(err, host.ErrMemory) || errors.Is(err, compile.ErrBusy) }

var roleNames = [...]string{"active", "canary", "shadow"}

// Starting lists the plugins whose active version is not open yet, by name, and says how many are active.
func (c *Catalogue) Starting() (names []string, active int) {
	for _, p := range c.known.all() {
		record, _ := p.state()
		if record.Active.None() {
			continue
		}
		active++
		if c.open.isStarting(&record.Active) {
			names = append(names, p.name)
		}
	}
	return names, active
}

// maxNamesShown is how many plugins Started names.
const maxNamesShown = 10

// Started says which plugins are not open yet. The server serves without them meanwhile, so it is no failure.
func (c *Catalogue) Started() api.Check {
	names, active := c.Starting()
	check := api.Check{Name: "plugins", OK: true, Detail: fmt.Sprintf("%d active", active)}
	if len(names) > 0 {
		shown, more := names, ""
		if len(names) > maxNamesShown {
			shown, more = names[:maxNamesShown], ", ..."
		}
		check.Detail = fmt.Sprintf("%d of %d active plugins are starting, and requests go on without them: %s%s",
			len(names), active, strings.Join(shown, ", "), more)
	}
	return check
}

// Reload takes over the changes that another node of the cluster has made in the store: plugins and versions that came or went, and those
// that are in use. Start opens the new ones in use. Until then the version that was active goes on scoring, so that a change is as smooth
// on this node as on the one that made it.
func (c *Catalogue) Reload() error {
	c.known.changes.Lock()
	defer c.known.changes.Unlock()
	store, err := c.known.opened()
	if err != nil {
		return nil // Open reads everything
	}
	versions, err := store.PluginVersions()
	records, err2 := store.PluginRecords()
	if err := errors.Join(err, err2); err != nil {
		return fmt.Errorf("plugins: reload: %w", err)
	}
	for _, v := range c.known.take(versions) {
		c.open.opening.Lock()
		err = errors.Join(err, c.open.discard(v, ""))
		c.open.opening.Unlock()
	}
	for i := range records {
		if p := c.known.named(records[i].Name); p != nil {
			if now, _ := p.state(); now.Revision == records[i].Revision {
				continue
			}
			c.known.restore(&records[i])
			if !c.open.isStarting(&records[i].Active) {
				c.scorers.swap(p)
			}
		}
	}
	return err
}

// take makes the index what the store has, and gives the versions that are gone.
func (r *registry) take(stored []queue.PluginVersion) (gone []*version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	there := make(map[queue.SHA256]bool, len(stored))
	for i := range stored {
		there[stored[i].SHA256] = true
		fresh := readVersion(&stored[i], r.log)
		if v := r.versions[stored[i].SHA256]; v != nil {
			v.state.Store(fresh.state.Load())
		} else {
			r.enter(fresh)
		}
	}
	for sum, v := range r.versions {
		if there[sum] {
			continue
		}
		gone = append(gone, v)
		r.forget(v)
		p := r.plugins[v.Name]
		p.versions = slices.DeleteFunc(p.versions, func(one *version) bool { return one == v })
		if len(p.versions) == 0 {
			p.now.Store(nil)
			delete(r.plugins, v.Name)
		}
	}
	return gone
}
