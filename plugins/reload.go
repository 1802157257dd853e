package plugins

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
)

// Reload takes over what another node of the cluster has changed in the store: plugins and versions that came or went, and what is in use
// of them. Start opens what is new in use; what is not in use any more stops being used at once.
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
			c.scorers.swap(p)
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
