package web

// The paths name a plugin, and below it a version, by its text or by the first digits of its SHA-256. The digits
// never change their meaning; the text of a version means the newest upload that has it.
//
// Reading takes the scope read. Whatever makes a program run or gives it away takes plugins: also a download, as a
// module may be a trade secret, and a dry run, as it runs code with the contents of the request.
//
// What adds something to the disk has `brings`, so the server refuses it while the disk is full. Deactivating,
// rolling back and resetting have not: an operator must be able to get rid of a bad version then, too.

// routes are the part of the table about plugins.
func (x pluginHandlers) routes(r *router) {
	const base, one, version = "/v1/plugins", "/v1/plugins/{name}", "/v1/plugins/{name}/versions/{version}"
	path := map[string]string{"name": "Name of the plugin",
		"version": "Version text, or 8 or more digits of the sha256", "id": "Number of the recording"}

	registerPlugin(r, x, operation{id: "list-plugins", method: "GET", path: base, scope: scopeRead, tag: tagPlugins,
		compress: true, summary: "List the plugins by name"}, x.list)
	r.raw(operation{id: "upload-plugin", act: act{"plugin.upload", ""}, brings: true, method: "POST", path: base,
		scope: scopePlugins, tag: tagPlugins,
		summary: "Upload a version of a plugin", about: uploadAbout}, uploadShape, x.upload)
	registerPlugin(r, x, operation{id: "get-plugin", method: "GET", path: one, scope: scopeRead, tag: tagPlugins,
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
		about: "Refused if strategies in use pin it, or if it alone accepts one of their configurations; " +
			"`force=true` deletes it anyway. " +
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
	registerPlugin(r, x, operation{id: "activate-plugin", act: act{"plugin.activate", "plugin {name}"}, brings: true,
		method: "POST", path: one + "/activate", scope: scopePlugins, tag: tagPlugins,
		summary: "Activate a version", about: releaseAbout + " A quarantined version needs `force`. So does " +
			"a version that refuses configurations in use: stored ones, and those that consumers sent within the " +
			"last hour. " +
			"409 lists them. " + selectAbout}, x.activate)
	registerPlugin(r, x, operation{id: "deactivate-plugin", act: act{"plugin.deactivate", "plugin {name}"},
		method: "POST", path: one + "/deactivate", scope: scopePlugins, tag: tagPlugins,
		summary: "Deactivate a plugin", about: "Strategies that name it use their next branch. " +
			selectAbout}, x.deactivate)
	registerPlugin(r, x, operation{id: "rollback-plugin", act: act{"plugin.rollback", "plugin {name}"}, method: "POST",
		path: one + "/rollback", scope: scopePlugins, tag: tagPlugins,
		summary: "Activate the previous version", about: selectAbout}, x.rollback)
	registerPlugin(r, x, operation{id: "shadow-plugin", act: act{"plugin.shadow", "plugin {name}"}, brings: true,
		method: "POST", path: one + "/shadow", scope: scopePlugins, tag: tagPlugins,
		summary: "Let a version score in the shadow of the active one, without deciding",
		about: "The statistics show how far the two versions agree. An empty `version` ends the shadow. " +
			selectAbout}, x.shadow)
	registerPlugin(r, x, operation{id: "canary-plugin", act: act{"plugin.canary", "plugin {name}"}, brings: true,
		method: "POST", path: one + "/canary", scope: scopePlugins, tag: tagPlugins,
		summary: "Let a version score a share of the reservations", about: "This version scores `percent` of the " +
			"reservations, drawn by their seed; 0 ends it. " + selectAbout}, x.canary)
	registerPlugin(r, x, operation{id: "reset-plugin", act: act{"plugin.reset", "plugin {name}"}, method: "POST",
		path: one + "/reset", scope: scopePlugins, tag: tagPlugins,
		summary: "Close a plugin's breakers and forget its faults",
		about:   "This does not end a quarantine; activating with `force` does. " + selectAbout}, x.reset)
	registerPlugin(r, x, operation{id: "put-plugin-settings", act: act{"plugin.settings", "plugin {name}"},
		brings: true, method: "PUT", path: one + "/settings", scope: scopePlugins, tag: tagPlugins,
		summary: "Open or close a plugin's breaker by hand, and set its limits",
		about:   "All settings are replaced: one that is left out gets its default. " + selectAbout}, x.putSettings)

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
