package engine

import (
	"cmp"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// InUse lists the strategies that consumers of a queue reserved by in the last hour, those that handed out most first.
func (p Strategies) InUse() api.StrategiesInUse {
	list, since := p.q.inUse.List(queue.At(p.q.e.options.Now()))
	out := api.StrategiesInUse{Items: make([]api.StrategyUse, len(list)), Since: since.API()}
	for i := range list {
		out.Items[i] = list[i].StrategyUse
	}
	return out
}

// PluginStore is where the plugins are kept: the server's catalogue. It lives until Close.
func (e *Engine) PluginStore() *store.Catalogue { return e.catalogue }

// PluginUsers lists the blocks that name a plugin, by queue and name: of the stored strategies of all queues, as they stand now, and of
// those that consumers reserved by within usage.Kept.
func (e *Engine) PluginUsers(plugin string) (users []queue.PluginUser) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, q := range e.queues {
		stored := map[*strategy.Plan]bool{}
		for _, n := range q.named.all() {
			if plan, wrong := n.compiled(); wrong == nil {
				stored[plan] = true
				users = appendUsers(users, plan, plugin, queue.PluginUser{Queue: q.name, Strategy: n.Name})
			}
		}
		for _, plan := range q.inUse.Plans() {
			if !stored[plan] {
				users = appendUsers(users, plan, plugin, queue.PluginUser{Queue: q.name})
			}
		}
	}
	slices.SortFunc(users, func(a, b queue.PluginUser) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Strategy, b.Strategy), cmp.Compare(a.Version, b.Version),
			cmp.Compare(a.Config, b.Config), cmp.Compare(a.Window, b.Window))
	})
	return slices.Compact(users)
}

// appendUsers appends the blocks of a plan that name a plugin; by says whose they are.
func appendUsers(users []queue.PluginUser, plan *strategy.Plan, plugin string, by queue.PluginUser) []queue.PluginUser {
	for i := range plan.Branches {
		if scored := plan.Branches[i].Scored; scored != nil && scored.Expression == nil && scored.Plugin == plugin {
			by.Version, by.Config, by.Window = scored.Version, string(scored.Config), scored.Window
			users = append(users, by)
		}
	}
	return users
}
