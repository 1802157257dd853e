package engine

import (
	"cmp"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// PluginStore is where the plugins are kept: the server's catalogue. It lives until Close.
func (e *Engine) PluginStore() *store.Catalogue { return e.catalogue }

// PluginUsers lists the stored strategies of all queues, as they stand now, that name a plugin, by queue and name.
func (e *Engine) PluginUsers(plugin string) (users []queue.PluginUser) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, q := range e.queues {
		for _, n := range q.named.all() {
			plan, wrong := n.compiled()
			if wrong != nil {
				continue
			}
			for i := range plan.Branches {
				if scored := plan.Branches[i].Scored; scored != nil && scored.Expression == nil && scored.Plugin == plugin {
					users = append(users, queue.PluginUser{Queue: q.name, Strategy: n.Name, Version: scored.Version})
				}
			}
		}
	}
	slices.SortFunc(users, func(a, b queue.PluginUser) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Strategy, b.Strategy), cmp.Compare(a.Version, b.Version))
	})
	return slices.Compact(users)
}
