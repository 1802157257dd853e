package web

// Plugins over HTTP: their list, the versions in use, and what these do. Plugins belong to the server and not to a
// queue, so a token that is bound to queues or to a value cannot call any of these.
//
//	upload (plugin_upload.go) ─► version ─┬─ dry-run    tries it, no effect
//	                                      ├─ shadow     scores beside the active one, decides nothing
//	                                      ├─ canary     scores a share of the reservations
//	                                      └─ activate   scores all; rollback takes the one before
//
// Each change takes the ETag of the plugin's revision, not of a version: two operators who roll out different
// versions at once must not overwrite each other unseen.

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	selectAbout = "With If-Match, the server changes the plugin only at this revision (`etag`), else the " +
		"answer is 412. The change takes effect as a whole, with the next reservation."
	releaseAbout = "Name a version by its version text (the newest with that text) or by the first 8 or more " +
		"digits of its sha256."
	dryRunAbout = "Reserves nothing. It always scores synthetic candidates. With `queue` it also scores the " +
		"present candidates of a strategy: `picks` has the chunks that would be taken, and `gained` and `lost` the " +
		"difference to the order without it. `recording` scores a recorded batch again and compares the scores bit " +
		"for bit. A recording is on one node of a cluster: name it with `node`. " + releaseAbout
	nodesSaw = "In a cluster the answer is about all nodes, unless `node` names one; `missing` names those that did " +
		"not answer."
	nodesBreak = "Each node of a cluster has a breaker of its own. The state is that of the breaker that needs " +
		"attention most, and `breaker.node` names its node. A plugin is `active` when it scores on all nodes."
	scoresAbout = "One entry per open version and configuration, those in use first: its batches and " +
		"failures, and for a sample the distribution of the last 4,096 scores and the share that gave a chunk. The " +
		"sample has whole batches, one in 64 and at most four more per second, so reserves stay fast. The numbers " +
		"start at zero when the server opens a version: at a start, and after five minutes out of use. " + nodeSaw
	nodeSaw = "In a cluster each node has its own; without `node` they are those of the node that answers."
)

// PluginPath names a plugin. It is exported because huma only looks into exported fields.
type PluginPath struct {
	Name string `path:"name" maxLength:"64" doc:"Name of the plugin"`
}

// PluginSeen names a plugin as one node sees it at work. Exported like PluginPath.
type PluginSeen struct {
	PluginPath
	Node string `query:"node" maxLength:"64" doc:"Name of the node to ask"`
}

// PluginVersionPath names a version of a plugin.
type PluginVersionPath struct {
	PluginPath
	Version string `path:"version" maxLength:"80" doc:"Version text, or 8 or more digits of the sha256"`
}

// Revision is the condition of a change of a plugin.
type Revision struct {
	IfMatch string `header:"If-Match" doc:"The etag of the plugin's revision; *: any"`
}

// change reads the condition and the actor. A plugin that does not exist has no ETag; then any If-Match but `*` is a
// precondition that failed. Unchanged is set for revision 0, so that `"r0"` means "never changed" and not "any". The
// actor is recorded with the revision, so that a list of plugins shows the author of the last change without the audit
// log.
func (r *Revision) change(ctx context.Context) (plugins.Change, error) {
	by := access.Of(ctx).Who("")
	if r.IfMatch == "" || strings.TrimSpace(r.IfMatch) == "*" {
		return plugins.Change{By: by}, nil
	}
	text, ok := strings.CutPrefix(strings.TrimSuffix(strings.TrimSpace(r.IfMatch), `"`), `"r`)
	revision, err := strconv.ParseUint(text, 10, 63)
	if !ok || err != nil {
		return plugins.Change{}, newProblem(codePrecondition,
			"If-Match does not name a revision of a plugin; send its etag.")
	}
	return plugins.Change{Revision: revision, Unchanged: revision == 0, By: by}, nil
}

// pluginHandlers are the handlers of plugins, which belong to the server and not to a queue.
type pluginHandlers struct {
	catalogue *plugins.Catalogue // nil: this server has none
	bodies    *bodies
	nodes     *forwarding
}

// held is the catalogue, if this server has one.
// The routes are the same in every server, so that the document is, too.
func (x pluginHandlers) held() (*plugins.Catalogue, error) {
	if x.catalogue == nil {
		return nil, &queue.Error{Code: queue.CodeUnavailable, Message: "This server has no plugins."}
	}
	return x.catalogue, nil
}

// registerPlugin adds an operation about plugins, and gives the catalogue to the handler. Without a catalogue every
// call ends here, with one text.
func registerPlugin[I, O any](r *router, x pluginHandlers, op operation,
	handler func(context.Context, *plugins.Catalogue, *I) (*O, error)) {
	register(r, op, func(ctx context.Context, in *I) (*O, error) {
		c, err := x.held()
		if err != nil {
			return nil, err
		}
		return handler(ctx, c, in)
	})
}

// Names are the order and the cursor: a plugin that is uploaded between two pages is in the second or in none, and no
// other one comes twice.
func (x pluginHandlers) list(_ context.Context, c *plugins.Catalogue, in *Paging) (*output[api.Page[api.Plugin]],
	error) {
	list, more := c.Plugins.List(in.Cursor, in.Limit)
	items, next, err := pageOf(list, more, func(p *api.Plugin) string { return p.Name }, x.onNode)
	return answered(api.Page[api.Plugin]{Items: items, Next: next}, err, asIs)
}

// pluginOutput is the answer of each change, with the ETag for the next one. So a script can make several changes,
// and fails if another operator comes between.
type pluginOutput = tagged[api.Plugin]

func pluginAnswer(p api.Plugin, err error) (*pluginOutput, error) {
	return answeredTagged(p, p.ETag, err)
}

func (x pluginHandlers) get(_ context.Context, c *plugins.Catalogue, in *PluginPath) (*pluginOutput, error) {
	p, err := c.Plugins.Get(in.Name)
	return pluginAnswer(x.onNode(&p), err)
}

func (pluginHandlers) versions(_ context.Context, c *plugins.Catalogue,
	in *PluginPath) (*output[api.Page[api.PluginVersion]], error) {
	list, err := c.Versions.Of(in.Name)
	return answeredShort(list, err, asIs)
}

func (pluginHandlers) version(_ context.Context, c *plugins.Catalogue,
	in *PluginVersionPath) (*output[api.PluginVersion], error) {
	v, err := c.Versions.Get(in.Name, in.Version)
	return answered(v, err, asIs)
}

type selectInput struct {
	PluginPath
	Revision
	Body decoded[api.PluginSelection]
}

// configOf is a configuration, where null is none.
// JSON has two ways to say "none": absent and null. The catalogue knows only nil.
func configOf(raw json.RawMessage) []byte {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// Activating, shadowing and a canary take the same body: a version, and for a canary a percentage.
func (in *selectInput) selected() api.PluginSelection {
	chosen := in.Body.value
	chosen.Config = configOf(chosen.Config)
	return chosen
}

// chosen puts a version to a use. With force it also ends the quarantine of the version, and closes the breakers of the
// plugin on all nodes.
func (x pluginHandlers) chosen(ctx context.Context,
	use func(context.Context, string, api.PluginSelection, plugins.Change) (api.Plugin, error),
	in *selectInput, change plugins.Change) (api.Plugin, error) {
	p, err := use(ctx, in.Name, in.selected(), change)
	if in.Body.value.Force {
		return x.closed(ctx, p, err)
	}
	return p, err
}

// registerChange adds an operation that changes a plugin. It gives the condition to the handler, which answers with the
// changed plugin.
func registerChange[I any, P interface {
	*I
	change(context.Context) (plugins.Change, error)
}](r *router, x pluginHandlers, op operation,
	handler func(context.Context, *plugins.Catalogue, *I, plugins.Change) (api.Plugin, error)) {
	registerPlugin(r, x, op, func(ctx context.Context, c *plugins.Catalogue, in *I) (*pluginOutput, error) {
		change, err := P(in).change(ctx)
		if err != nil {
			return nil, err
		}
		return pluginAnswer(handler(ctx, c, in, change))
	})
}

// activate answers when the version scores. Before that, the server tries it with the configurations in use, so the
// call may take a while. A rollback does not try them: that version has worked with them.
func (x pluginHandlers) activate(ctx context.Context, c *plugins.Catalogue, in *selectInput,
	change plugins.Change) (api.Plugin, error) {
	// Only here: an empty version ends a shadow or a canary, and a plugin is deactivated by a call of its own.
	if in.Body.value.Version == "" {
		return api.Plugin{}, queue.Invalid("/version", "is missing: which version is to be activated?")
	}
	change, err := x.withUsers(ctx, change, in.Name, in.Body.value.Force)
	if err != nil {
		return api.Plugin{}, err
	}
	return x.chosen(ctx, c.Rollout.Activate, in, change)
}

func (x pluginHandlers) shadow(ctx context.Context, c *plugins.Catalogue, in *selectInput,
	change plugins.Change) (api.Plugin, error) {
	return x.chosen(ctx, c.Rollout.Shadow, in, change)
}

// The share is drawn by the seed of each reserve, so a recorded call with its seed gets the same version again.
func (x pluginHandlers) canary(ctx context.Context, c *plugins.Catalogue, in *selectInput,
	change plugins.Change) (api.Plugin, error) {
	return x.chosen(ctx, c.Rollout.Canary, in, change)
}

type changePluginInput struct {
	PluginPath
	Revision
}

func (pluginHandlers) deactivate(_ context.Context, c *plugins.Catalogue, in *changePluginInput,
	change plugins.Change) (api.Plugin, error) {
	return c.Rollout.Deactivate(in.Name, change)
}

func (pluginHandlers) rollback(ctx context.Context, c *plugins.Catalogue, in *changePluginInput,
	change plugins.Change) (api.Plugin, error) {
	return c.Rollout.Rollback(ctx, in.Name, change)
}

func (x pluginHandlers) reset(ctx context.Context, c *plugins.Catalogue, in *changePluginInput,
	change plugins.Change) (api.Plugin, error) {
	p, err := c.Rollout.Reset(in.Name, change)
	return x.closed(ctx, p, err)
}

// Forced is the wish to delete a plugin that stored strategies name.
type Forced struct {
	Force bool `query:"force" doc:"Delete it even if stored strategies name it; they then use their next branch"`
}

// deletePluginInput has the condition of all changes, and force.
type deletePluginInput struct {
	PluginPath
	Revision
	Forced
}

// withUsers is the change with the strategies that need the plugin. In a cluster only the node that serves a queue
// knows its strategies, so the others are asked. With `force` no node is asked: the answers do not matter then, and one
// of the nodes may be away.
func (x pluginHandlers) withUsers(ctx context.Context, change plugins.Change, name string, force bool) (plugins.Change,
	error) {
	if force {
		return change, nil
	}
	var err error
	change.Users, err = x.nodes.pluginUsers(ctx, name)
	return change, err
}

// deletion is the change of a call that deletes.
func (x pluginHandlers) deletion(ctx context.Context, name string, when *Revision, force bool) (plugins.Change, error) {
	change, err := when.change(ctx)
	if err != nil {
		return change, err
	}
	change.Force = force
	return x.withUsers(ctx, change, name, force)
}

func (x pluginHandlers) delete(ctx context.Context, c *plugins.Catalogue, in *deletePluginInput) (*struct{}, error) {
	change, err := x.deletion(ctx, in.Name, &in.Revision, in.Force)
	if err != nil {
		return nil, err
	}
	return nil, c.Plugins.Delete(in.Name, change)
}

type deleteVersionInput struct {
	PluginVersionPath
	Revision
	Forced
}

func (x pluginHandlers) deleteVersion(ctx context.Context, c *plugins.Catalogue,
	in *deleteVersionInput) (*struct{}, error) {
	change, err := x.deletion(ctx, in.Name, &in.Revision, in.Force)
	if err != nil {
		return nil, err
	}
	return nil, c.Versions.Delete(in.Name, in.Version, change)
}

type settingsInput struct {
	PluginPath
	Revision
	Body decoded[api.PluginSettings]
}

func (pluginHandlers) putSettings(_ context.Context, c *plugins.Catalogue, in *settingsInput,
	change plugins.Change) (api.Plugin, error) {
	return c.Rollout.PutSettings(in.Name, in.Body.value, change)
}

type dryRunInput struct {
	PluginVersionPath
	Node string `query:"node" maxLength:"64" doc:"Name of the node whose recording to score"`
	Body decoded[api.PluginDryRun]
}

// The strategy is needed for the candidates only. OldestFirst is the inner order that most scored strategies have.
func (pluginHandlers) dryRun(ctx context.Context, c *plugins.Catalogue,
	in *dryRunInput) (*output[api.PluginTried], error) {
	asked := &in.Body.value
	about, err := contextOf(asked.Context)
	if err != nil {
		return nil, err
	}
	d := plugins.DryRun{Context: about, Config: configOf(asked.Config), Queue: asked.Queue, Strategy: asked.Strategy,
		Rows: asked.Rows, Want: asked.Want, Recording: asked.Recording}
	d.Strategy = cmp.Or(d.Strategy, "OldestFirst")
	tried, err := c.Versions.Try(ctx, in.Name, in.Version, d)
	return answered(tried, err, asIs)
}

// Numbers are of this node. In a cluster, statsOfAll adds those of all nodes (plugins_nodes.go).
func (pluginHandlers) stats(_ context.Context, c *plugins.Catalogue, in *PluginSeen) (*output[api.PluginStats], error) {
	stats, err := c.Observations.Stats(in.Name)
	return answered(stats, err, asIs)
}

type pluginLogsInput struct {
	PluginSeen
	After  uint64 `query:"after" doc:"Only lines after this number, of one node"`
	Cursor string `query:"cursor" maxLength:"6000" doc:"Only lines after those of the answer that had this cursor"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"1000" doc:"Most lines"`
}

func (x pluginHandlers) logs(_ context.Context, c *plugins.Catalogue,
	in *pluginLogsInput) (*output[api.PluginLogs], error) {
	// A cursor of a cluster has a place for each node. This node reads its own, and leaves the others to their nodes.
	places, err := logPlaces(in.Cursor)
	if err != nil {
		return nil, err
	}
	node := x.nodes.name()
	in.After = max(in.After, places[node])
	lines, dropped, err := c.Observations.Logs(in.Name, in.After, in.Limit)
	if err != nil {
		return nil, err
	}
	// A page of logs ends at the size of an answer. Next is then its last line, or the same as before if it has none: a
	// client that follows the log asks again with its old place.
	number := func(l *api.PluginLogLine) string { return strconv.FormatUint(l.Number, 10) }
	out := api.PluginLogs{Dropped: dropped, Next: in.After}
	for i := range lines {
		lines[i].Node = node
	}
	out.Lines, _, err = pageOf(lines, "", number, asIs)
	if n := len(out.Lines); n > 0 {
		out.Next = out.Lines[n-1].Number
	}
	out.Cursor = logCursor(map[string]uint64{node: out.Next})
	return answered(out, err, asIs)
}

// A list of recordings has no pages: the server keeps 16 of each kind.
func (pluginHandlers) recordings(_ context.Context, c *plugins.Catalogue,
	in *PluginSeen) (*output[api.Page[api.PluginRecording]], error) {
	list, err := c.Observations.Recordings(in.Name)
	return answeredShort(list, err, asIs)
}

func (pluginHandlers) scores(_ context.Context, c *plugins.Catalogue,
	in *PluginSeen) (*output[api.Page[api.PluginScores]], error) {
	list, err := c.Observations.Scores(in.Name)
	return answeredShort(list, err, asIs)
}

// The paths name a plugin, and below it a version, by its text or by the first digits of its SHA-256. The digits
// never change their meaning; the text of a version means the newest upload that has it.
//
// Reading takes the scope read. All operations that run a program or give it away take plugins: also a download, as a
// module may be a trade secret, and a dry run, as it runs code with the contents of the request.
//
// Operations that add something to the disk have `brings`, so the server refuses them while the disk is full.
// Deactivating, rolling back and resetting have not: an operator must be able to get rid of a bad version then, too.

// routes are the part of the table about plugins.
func (x pluginHandlers) routes(r *router) {
	const base, one, version = "/v1/plugins", "/v1/plugins/{name}", "/v1/plugins/{name}/versions/{version}"
	path := map[string]string{"name": "Name of the plugin",
		"version": "Version text, or 8 or more digits of the sha256", "id": "Number of the recording"}

	registerPlugin(r, x, operation{id: "list-plugins", method: "GET", path: base, scope: scopeRead, tag: tagPlugins,
		compress: true, spread: x.listOfAll, summary: "List the plugins by name", about: nodesBreak}, x.list)
	r.raw(operation{id: "upload-plugin", act: act{"plugin.upload", ""}, brings: true, method: "POST", path: base,
		scope: scopePlugins, tag: tagPlugins,
		summary: "Upload a version of a plugin", about: uploadAbout}, uploadShape, x.upload)
	registerPlugin(r, x, operation{id: "get-plugin", method: "GET", path: one, scope: scopeRead, tag: tagPlugins,
		spread: x.getOfAll, about: nodesBreak,
		summary: "Read a plugin, with its versions in use and the state of its breaker"}, x.get)
	// Deleting takes two steps, to deactivate and to delete, so that one slip does not change what consumers get.
	registerPlugin(r, x, operation{id: "delete-plugin", act: act{"plugin.delete", "plugin {name}"}, method: "DELETE",
		path: one, scope: scopePlugins, tag: tagPlugins,
		summary: "Delete a plugin with all its versions", about: "The plugin must be inactive. If a " +
			"stored strategy names it, 409 lists those strategies. `force=true` deletes it anyway: they then " +
			"use their next " +
			"branch, and the server refuses a reserve whose own strategy names it."}, x.delete)
	registerPlugin(r, x, operation{id: "list-plugin-versions", method: "GET", path: one + "/versions", scope: scopeRead,
		tag: tagPlugins, compress: true,
		summary: "List a plugin's versions, the newest first"}, x.versions)
	registerPlugin(r, x, operation{id: "get-plugin-version", method: "GET", path: version, scope: scopeRead,
		tag:     tagPlugins,
		summary: "Read a version of a plugin, with its manifest and dry run", about: releaseAbout}, x.version)
	registerPlugin(r, x, operation{id: "delete-plugin-version", act: act{"plugin.delete_version", "plugin {name}"},
		method: "DELETE", path: version, scope: scopePlugins, tag: tagPlugins,
		summary: "Delete a version that is not in use",
		about: "The answer is 409 if strategies in use name this version, or if it alone accepts one of their " +
			"configurations; `force=true` deletes it anyway. " +
			releaseAbout}, x.deleteVersion)
	r.raw(operation{id: "get-plugin-module", method: "GET", path: version + "/wasm", scope: scopePlugins,
		tag:     tagPlugins,
		summary: "Download a version's module"}, fileShape(contentWasm, path, "name", "version"), x.module)
	registerPlugin(r, x, operation{id: "dry-run-plugin", method: "POST", path: version + "/dry-run",
		scope: scopePlugins, tag: tagPlugins,
		summary: "Try a version without any effect", about: dryRunAbout}, x.dryRun)
	x.useRoutes(r, one, path)
}

// useRoutes are the part of the table about which version of a plugin is in use, and what it does.
// Numbers and logs take the scope read. A recording takes plugins, because its rows are the meta of real candidates,
// perhaps of several tenants.
func (x pluginHandlers) useRoutes(r *router, one string, path map[string]string) {
	registerChange(r, x, operation{id: "activate-plugin", act: act{"plugin.activate", "plugin {name}"}, brings: true,
		method: "POST", path: one + "/activate", scope: scopePlugins, tag: tagPlugins,
		summary: "Activate a version", about: releaseAbout + " A quarantined version needs `force`. So does " +
			"a version that refuses configurations in use: stored ones, and those that consumers sent within the " +
			"last hour. " +
			"409 lists them. " + selectAbout}, x.activate)
	registerChange(r, x, operation{id: "deactivate-plugin", act: act{"plugin.deactivate", "plugin {name}"},
		method: "POST", path: one + "/deactivate", scope: scopePlugins, tag: tagPlugins,
		summary: "Deactivate a plugin", about: "Strategies that name it use their next branch. " +
			selectAbout}, x.deactivate)
	registerChange(r, x, operation{id: "rollback-plugin", act: act{"plugin.rollback", "plugin {name}"}, method: "POST",
		path: one + "/rollback", scope: scopePlugins, tag: tagPlugins,
		summary: "Activate the previous version", about: selectAbout}, x.rollback)
	registerChange(r, x, operation{id: "shadow-plugin", act: act{"plugin.shadow", "plugin {name}"}, brings: true,
		method: "POST", path: one + "/shadow", scope: scopePlugins, tag: tagPlugins,
		summary: "Let a version score in the shadow of the active one, without deciding",
		about: "The statistics show how far the two versions agree. An empty `version` ends the shadow. " +
			selectAbout}, x.shadow)
	registerChange(r, x, operation{id: "canary-plugin", act: act{"plugin.canary", "plugin {name}"}, brings: true,
		method: "POST", path: one + "/canary", scope: scopePlugins, tag: tagPlugins,
		summary: "Let a version score a share of the reservations", about: "This version scores `percent` of the " +
			"reservations, drawn by their seed; 0 ends it. " + selectAbout}, x.canary)
	registerChange(r, x, operation{id: "reset-plugin", act: act{"plugin.reset", "plugin {name}"}, method: "POST",
		path: one + "/reset", scope: scopePlugins, tag: tagPlugins,
		summary: "Close a plugin's breakers and forget its faults",
		about:   "This does not end a quarantine; activating with `force` does. " + selectAbout}, x.reset)
	registerChange(r, x, operation{id: "put-plugin-settings", act: act{"plugin.settings", "plugin {name}"},
		brings: true, method: "PUT", path: one + "/settings", scope: scopePlugins, tag: tagPlugins,
		summary: "Open or close a plugin's breaker by hand, and set its limits",
		about:   "Replaces all settings: one that you leave out gets its default. " + selectAbout}, x.putSettings)

	registerPlugin(r, x, operation{id: "get-plugin-stats", method: "GET", path: one + "/stats", scope: scopeRead,
		tag: tagPlugins, spread: x.statsOfAll, summary: "Read a plugin's numbers since the start of the server",
		about: nodesSaw}, x.stats)
	registerPlugin(r, x, operation{id: "list-plugin-scores", method: "GET", path: one + "/scores", scope: scopeRead,
		tag: tagPlugins, compress: true,
		summary: "Read how a plugin's versions score live traffic", about: scoresAbout}, x.scores)
	registerPlugin(r, x, operation{id: "get-plugin-logs", method: "GET", path: one + "/logs", scope: scopeRead,
		tag: tagPlugins, compress: true, spread: x.logsOfAll,
		summary: "Read the log of a plugin",
		about: "The last 1,000 lines of each node, the oldest first. For later lines, send `cursor` of this answer, " +
			"or, of a single node, `next` as `after`. " + nodesSaw}, x.logs)
	registerPlugin(r, x, operation{id: "list-plugin-recordings", method: "GET", path: one + "/recordings",
		scope: scopePlugins, tag: tagPlugins, summary: "List the recorded batches",
		about: "The server records one batch in 10,000, and every batch that faulted. It keeps the latest of both " +
			"in memory. " + nodeSaw}, x.recordings)
	r.raw(operation{id: "get-plugin-recording", method: "GET", path: one + "/recordings/{id}", scope: scopePlugins,
		tag:     tagPlugins,
		summary: "Download a recorded batch", about: "A .qbatch file, which `quern plugin run` replays."},
		fileShape(contentBytes, path, "name", "id"), x.recording)
}
