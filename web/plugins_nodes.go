package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/api"
)

// A plugin runs on each node that serves a queue whose strategy names it, and each node keeps its own numbers and logs.
// A call that names no node gets those of all nodes.
//
// Each node numbers its own lines. So a reader of several logs has a place in each, and its cursor holds all of them:
//
//	a:12,b:3   node a was read up to line 12, node b up to line 3, the others not yet
//	:12        a server that is alone

// seen are the parts of the nodes that answered, and the names of those that did not. done: the call has its answer,
// because this node refused its part or because it names the node that is to answer.
func seen[T any](f *forwarding, c echo.Context) (parts []T, missing []string, done bool, err error) {
	if c.QueryParam("node") != "" {
		return nil, nil, true, nil
	}
	all := f.everywhere(c)
	if refused := f.askAll(c, all); refused != nil {
		return nil, nil, true, refused.relay(c)
	}
	for _, p := range all {
		var one T
		if p.err == nil && p.status == http.StatusOK {
			if err := json.Unmarshal(p.text, &one); err != nil {
				return nil, nil, true, fmt.Errorf("web: what %s saw of a plugin: %w", p.name(), err)
			}
			parts = append(parts, one)
			continue
		}
		if p.at.Node == "" {
			return nil, nil, true, p.failure(f, c)
		}
		missing = append(missing, p.at.Node)
	}
	return parts, missing, false, nil
}

// getOfAll is a plugin as all nodes see it.
func (x pluginHandlers) getOfAll(c echo.Context) (bool, error) {
	parts, missing, done, err := seen[api.Plugin](x.nodes, c)
	if done {
		return c.Response().Committed, err
	}
	all := seenPlugin(parts)
	all.Missing = missing
	c.Response().Header().Set("ETag", all.ETag)
	return true, c.JSON(http.StatusOK, all)
}

// listOfAll is a page of the plugins that this node knows, each as all nodes see it.
func (x pluginHandlers) listOfAll(c echo.Context) (bool, error) {
	pages, missing, done, err := seen[api.Page[api.Plugin]](x.nodes, c)
	if done {
		return c.Response().Committed, err
	}
	all, err := joinPlugins(pages, missing)
	if err != nil {
		return true, err
	}
	return true, c.JSON(http.StatusOK, all)
}

// joinPlugins makes one page of those of nodes. It ends where the first of them ends, because not all nodes have
// reported on the plugins after that. It may end sooner: with `missing`, its plugins have more bytes than before.
func joinPlugins(pages []api.Page[api.Plugin], missing []string) (all api.Page[api.Plugin], err error) {
	all = pages[0]
	for _, page := range pages[1:] {
		if page.Next != "" && (all.Next == "" || page.Next < all.Next) {
			all.Next = page.Next
		}
	}
	var joined []api.Plugin
	for _, p := range all.Items {
		if all.Next != "" && p.Name > all.Next {
			break
		}
		var parts []api.Plugin
		for _, page := range pages {
			if at := slices.IndexFunc(page.Items, func(one api.Plugin) bool { return one.Name == p.Name }); at >= 0 {
				parts = append(parts, page.Items[at])
			}
		}
		p = seenPlugin(parts)
		p.Missing = missing
		joined = append(joined, p)
	}
	all.Items, all.Next, err = pageOf(joined, all.Next, func(p *api.Plugin) string { return p.Name }, asIs)
	return all, err
}

// breakerStates begin with the one that an operator needs to see least.
var breakerStates = []string{api.BreakerClosed, api.BreakerStarting, api.BreakerHalfOpen, api.BreakerThrottled,
	api.BreakerOpen, api.BreakerHeld, api.BreakerQuarantined}

// seenPlugin makes one plugin of the answers of the nodes. Each node has a breaker of its own, as the sandbox fails
// where its queue is served. The plugin has the state of the breaker that needs attention most. So a plugin is active
// only when it scores on all nodes. A node that has not heard of the last change yet counts as starting.
func seenPlugin(parts []api.Plugin) api.Plugin {
	all := slices.MaxFunc(parts, func(a, b api.Plugin) int { return cmp.Compare(a.Revision, b.Revision) })
	if all.Active == nil {
		return all
	}
	for i := range parts {
		b := parts[i].Breaker
		if parts[i].Revision < all.Revision {
			b = api.PluginBreaker{State: api.BreakerStarting, Node: b.Node,
				Reason: "the node follows the last change soon"}
		}
		if slices.Index(breakerStates, b.State) > slices.Index(breakerStates, all.Breaker.State) {
			all.Breaker, all.State = b, b.State
		}
	}
	return all
}

// onNode says whose breaker it is, in a cluster.
func (x pluginHandlers) onNode(p *api.Plugin) api.Plugin {
	p.Breaker.Node = x.nodes.name()
	return *p
}

// statsOfAll adds the numbers of all nodes up. Means are weighted by the number of their values.
func (x pluginHandlers) statsOfAll(c echo.Context) (bool, error) {
	parts, missing, done, err := seen[api.PluginStats](x.nodes, c)
	if done {
		return c.Response().Committed, err
	}
	all := parts[0]
	for i := range parts[1:] {
		addStats(&all, &parts[1+i])
	}
	all.Missing = missing
	return true, c.JSON(http.StatusOK, all)
}

// addStats adds the numbers of one more node. A reader asks what the plugin costs the cluster, and whether it fails
// anywhere. So processor time and instances are added, because each node spends its own. Memory per instance is not:
// the largest instance says what one more will take.
func addStats(all, one *api.PluginStats) {
	all.NsPerCandidate = mean(all.NsPerCandidate, all.Candidates, one.NsPerCandidate, one.Candidates)
	all.FuelPerCandidate = mean(all.FuelPerCandidate, all.Candidates, one.FuelPerCandidate, one.Candidates)
	all.Batches += one.Batches
	all.Candidates += one.Candidates
	all.Skipped += one.Skipped
	all.Unwritten += one.Unwritten
	all.Fallbacks += one.Fallbacks
	addCounts(&all.FallbackReasons, one.FallbackReasons)
	addCounts(&all.Faults, one.Faults)
	addCounts(&all.Counters, one.Counters)
	all.LastFault = cmp.Or(all.LastFault, one.LastFault)
	all.CPUShare += one.CPUShare
	all.MemoryPages = max(all.MemoryPages, one.MemoryPages)
	all.Instances += one.Instances
	all.LogsDropped += one.LogsDropped
	if slices.Index(breakerStates, one.Breaker.State) > slices.Index(breakerStates, all.Breaker.State) {
		all.Breaker = one.Breaker
	}
	// Nodes may shadow different versions while a change is on its way to them. Their figures would mix
	// two programs, so only those of one version are added.
	switch a, b := all.Shadow, one.Shadow; {
	case a == nil:
		all.Shadow = b
	case b != nil && a.SHA256 == b.SHA256:
		a.Overlap, a.Tau = mean(a.Overlap, a.Batches, b.Overlap, b.Batches), mean(a.Tau, a.Batches, b.Tau, b.Batches)
		a.Batches += b.Batches
		a.Dropped += b.Dropped
		addCounts(&a.Faults, b.Faults)
	}
}

// mean is that of two means, each of this many values.
func mean(a float64, of uint64, b float64, ofB uint64) float64 {
	if of+ofB == 0 {
		return 0
	}
	return (a*float64(of) + b*float64(ofB)) / float64(of+ofB)
}

// addCounts adds counts by name. A name may be missing in a part: a fault that only one node saw is in its part alone.
func addCounts[N uint64 | float64](to *map[string]N, from map[string]N) {
	for name, n := range from {
		if *to == nil {
			*to = map[string]N{}
		}
		(*to)[name] += n
	}
}

// logsOfAll merges the lines of all nodes by their times. The lines of one node stay in their order, also if its clock
// was set back.
func (x pluginHandlers) logsOfAll(c echo.Context) (bool, error) {
	if after := c.QueryParam("after"); after != "" && after != "0" && c.QueryParam("node") == "" {
		return true, queue.Invalid("/query/after", "is the number of a line of one node: name the node, "+
			"or send `cursor` of the answer before")
	}
	parts, missing, done, err := seen[api.PluginLogs](x.nodes, c)
	if done {
		return c.Response().Committed, err
	}
	limit, err := strconv.Atoi(cmp.Or(c.QueryParam("limit"), "1000")) // each part had it too
	if err != nil {
		return true, err
	}
	out, err := joinLogs(parts, c.QueryParam("cursor"), limit)
	if err != nil {
		return true, err
	}
	out.Missing = missing
	return true, c.JSON(http.StatusOK, out)
}

// joinLogs makes one answer of those of nodes to a call with a cursor. The place of a node
// that did not answer stays, so that its lines are read once it is back. A line that did not fit into the
// answer stays unread as well: the place of its node ends before it.
func joinLogs(parts []api.PluginLogs, cursor string, limit int) (out api.PluginLogs, err error) {
	places, err := logPlaces(cursor)
	if err != nil {
		return out, err
	}
	for i := range parts {
		out.Dropped += parts[i].Dropped
		of, err := logPlaces(parts[i].Cursor)
		if err != nil {
			return out, err
		}
		maps.Copy(places, of)
		if lines := parts[i].Lines; len(lines) > 0 { // it is read as far as its lines are in the answer
			places[lines[0].Node] = lines[0].Number - 1
		}
	}
	out.Lines, _, err = pageOf(mergeLogs(parts, limit), "", func(*api.PluginLogLine) string { return "" }, asIs)
	for i := range out.Lines {
		places[out.Lines[i].Node] = out.Lines[i].Number
	}
	out.Cursor = logCursor(places)
	return out, err
}

// mergeLogs takes the earliest line of all parts, again and again. It compares only the first line of each part, so
// the lines of a node whose clock was set back stay in their order.
func mergeLogs(parts []api.PluginLogs, limit int) (merged []api.PluginLogLine) {
	for len(merged) < limit {
		var next *api.PluginLogs
		for i := range parts {
			if p := &parts[i]; len(p.Lines) > 0 && (next == nil || p.Lines[0].Time.Before(next.Lines[0].Time.Time)) {
				next = p
			}
		}
		if next == nil {
			break
		}
		merged, next.Lines = append(merged, next.Lines[0]), next.Lines[1:]
	}
	return merged
}

// logPlaces are how far the log of each node was read, as a cursor has it.
func logPlaces(cursor string) (map[string]uint64, error) {
	places := map[string]uint64{}
	if cursor == "" {
		return places, nil
	}
	for entry := range strings.SplitSeq(cursor, ",") {
		node, text, _ := strings.Cut(entry, ":")
		number, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, queue.Invalid("/query/cursor", "is not the `cursor` of an answer")
		}
		places[node] = number
	}
	return places, nil
}

// logCursor writes places in the order of the names, so that equal places give equal cursors, and a client that
// compares two sees that nothing is new.
func logCursor(places map[string]uint64) string {
	var entries []string
	for node, number := range places {
		entries = append(entries, node+":"+strconv.FormatUint(number, 10))
	}
	slices.Sort(entries)
	return strings.Join(entries, ",")
}

// Before a node deletes a plugin or a version of one, or activates a version, it asks the others which strategies of
// their queues name the plugin.
// Only nodes can ask: a call needs a sealed hop. The path is no part of the API.
const pluginUsersPath = "/cluster/plugin-users/"

// pluginUsers is the answer of a node.
type pluginUsers struct {
	Served []string // queues that were looked at
	Users  []queue.PluginUser
}

// pluginUsersRoute answers for the queues of this node.
func pluginUsersRoute(e *echo.Echo, core *engine.Engine, sealed *hops) {
	e.GET(pluginUsersPath+":name", func(c echo.Context) error {
		if sealed.of(c.Request()) == nil {
			return newProblem(codeForbidden, "Only nodes of this cluster ask this.")
		}
		served := core.Nodes().Served() // before: a queue that comes meanwhile is not counted as looked at
		return c.JSON(http.StatusOK, pluginUsers{Served: served, Users: core.PluginUsers(c.Param("name"))})
	})
}

// pluginUsers are the blocks that name a plugin in queues of other nodes. It fails unless all queues were looked at.
func (f *forwarding) pluginUsers(ctx context.Context, name string) (users []queue.PluginUser, err error) {
	if f.nodes == nil {
		return nil, nil
	}
	looked := map[string]bool{}
	for _, own := range f.nodes.Served() {
		looked[own] = true
	}
	others, _ := askOthers[pluginUsers](ctx, f, http.MethodGet, pluginUsersPath+url.PathEscape(name))
	for _, one := range others {
		users = append(users, one.Users...)
		for _, name := range one.Served {
			looked[name] = true
		}
	}
	// A queue that no node reported may have a strategy that names the plugin. Without this check, a node that is
	// away would make the deletion look safe.
	for _, at := range f.nodes.Places() {
		if !looked[at.Queue] {
			return nil, &queue.Error{Code: queue.CodeMoving, Message: fmt.Sprintf("Whether strategies of the queue "+
				"%q name the plugin cannot be seen now: its node does not answer. Send this again in a moment, or "+
				"with force.", at.Queue)}
		}
	}
	return users, nil
}

// A change that closes breakers tells the other nodes, as breakers are not in the catalogue. Only nodes call this
// path. It is no part of the API.
const pluginBreakersPath = "/cluster/plugin-breakers/"

// pluginBreakersRoute closes the breakers of a plugin on this node. A plugin that it does not know yet has none.
func pluginBreakersRoute(e *echo.Echo, known *plugins.Catalogue, sealed *hops) {
	e.POST(pluginBreakersPath+":name", func(c echo.Context) error {
		if sealed.of(c.Request()) == nil {
			return newProblem(codeForbidden, "Only nodes of this cluster ask this.")
		}
		if known != nil {
			known.Rollout.CloseBreakers(c.Param("name"))
		}
		return c.JSON(http.StatusOK, struct{}{})
	})
}

// closed lets the other nodes close the breakers of a plugin, after this node did.
func (x pluginHandlers) closed(ctx context.Context, p api.Plugin, err error) (api.Plugin, error) {
	if err != nil || x.nodes.nodes == nil {
		return p, err
	}
	_, silent := askOthers[struct{}](ctx, x.nodes, http.MethodPost, pluginBreakersPath+url.PathEscape(p.Name))
	if len(silent) > 0 {
		return p, &queue.Error{Code: queue.CodeMoving, Message: fmt.Sprintf("The plugin was changed, but its breakers "+
			"may still be open on %s, which did not answer. Send this again in a moment.", strings.Join(silent, ", "))}
	}
	return p, nil
}
