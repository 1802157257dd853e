package web

// routes are the part of the table about plugins.
func (x pluginHandlers) routes(d *document) {
	const base, one, version = "/v1/plugins", "/v1/plugins/{name}", "/v1/plugins/{name}/versions/{version}"
	path := map[string]string{"name": "Name of the plugin",
		"version": "Version text, or 8 or more digits of the sha256", "id": "Number of the recording"}

	registerPlugin(d, operation{id: "list-plugins", method: "GET", path: base, scope: scopeRead, tag: tagPlugins, compress: true,
		summary: "List the plugins by name"}, x.list)
	x.raw(d, operation{id: "upload-plugin", act: act{"plugin.upload", ""}, brings: true, method: "POST", path: base,
		scope: scopePlugins, tag: tagPlugins,
		summary: "Upload a version of a plugin", about: uploadAbout}, uploadShape, x.upload)
	registerPlugin(d, operation{id: "get-plugin", method: "GET", path: one, scope: scopeRead, tag: tagPlugins,
		summary: "Read a plugin: what is in use of it, and the state of its breaker"}, x.get)
	registerPlugin(d, operation{id: "delete-plugin", act: act{"plugin.delete", "plugin {name}"}, method: "DELETE", path: one,
		scope: scopePlugins, tag: tagPlugins,
		summary: "Delete a plugin with all its versions", about: "Only one that is not active, and that no stored " +
			"strategy names: 409 lists those, and `force=true` deletes it all the same. They go on with their next " +
			"branch then; a strategy that is written out in a reservation and names it is refused."}, x.delete)
	registerPlugin(d, operation{id: "list-plugin-versions", method: "GET", path: one + "/versions", scope: scopeRead, tag: tagPlugins,
		compress: true,
		summary:  "List a plugin's versions, the newest first"}, x.versions)
	registerPlugin(d, operation{id: "get-plugin-version", method: "GET", path: version, scope: scopeRead, tag: tagPlugins,
		summary: "Read a version of a plugin: its manifest, and what its dry run found", about: releaseAbout}, x.version)
	registerPlugin(d, operation{id: "delete-plugin-version", act: act{"plugin.delete_version", "plugin {name}"}, method: "DELETE",
		path: version, scope: scopePlugins, tag: tagPlugins,
		summary: "Delete a version that is not in use",
		about: "Not one that strategies in use pin, or that alone takes a configuration that they send, unless with `force=true`. " +
			releaseAbout}, x.deleteVersion)
	x.raw(d, operation{id: "get-plugin-module", method: "GET", path: version + "/wasm", scope: scopePlugins, tag: tagPlugins,
		summary: "Download a version's module"}, fileShape(contentWasm, path, "name", "version"), x.module)
	registerPlugin(d, operation{id: "dry-run-plugin", method: "POST", path: version + "/dry-run", scope: scopePlugins, tag: tagPlugins,
		summary: "Try a version without any effect", about: dryRunAbout}, x.dryRun)
	x.useRoutes(d, one, path)
}

// useRoutes are the part of the table about which version of a plugin is in use, and what it does.
func (x pluginHandlers) useRoutes(d *document, one string, path map[string]string) {
	registerPlugin(d, operation{id: "activate-plugin", act: act{"plugin.activate", "plugin {name}"}, brings: true, method: "POST",
		path: one + "/activate", scope: scopePlugins, tag: tagPlugins,
		summary: "Let a version score", about: releaseAbout + " A version that is quarantined needs `force`, and so " +
			"does one that refuses what strategies in use send: configurations that are stored, or that " +
			"consumers sent within the last hour; " +
			"409 lists those. " + selectAbout}, x.activate)
	registerPlugin(d, operation{id: "deactivate-plugin", act: act{"plugin.deactivate", "plugin {name}"}, method: "POST",
		path: one + "/deactivate", scope: scopePlugins, tag: tagPlugins,
		summary: "Take a plugin out of use", about: "Strategies that name it go on with their next branch. " +
			selectAbout}, x.deactivate)
	registerPlugin(d, operation{id: "rollback-plugin", act: act{"plugin.rollback", "plugin {name}"}, method: "POST",
		path: one + "/rollback", scope: scopePlugins, tag: tagPlugins,
		summary: "Activate what was active before", about: selectAbout}, x.rollback)
	registerPlugin(d, operation{id: "shadow-plugin", act: act{"plugin.shadow", "plugin {name}"}, brings: true, method: "POST",
		path: one + "/shadow", scope: scopePlugins, tag: tagPlugins,
		summary: "Let a version score beside the active one without deciding",
		about:   "The statistics say how much both agree. An empty `version` ends it. " + selectAbout}, x.shadow)
	registerPlugin(d, operation{id: "canary-plugin", act: act{"plugin.canary", "plugin {name}"}, brings: true, method: "POST",
		path: one + "/canary", scope: scopePlugins, tag: tagPlugins,
		summary: "Let a version score for a share of the reservations", about: "`percent` of the reservations, drawn " +
			"by their seed, are scored by this version; 0 ends it. " + selectAbout}, x.canary)
	registerPlugin(d, operation{id: "reset-plugin", act: act{"plugin.reset", "plugin {name}"}, method: "POST", path: one + "/reset",
		scope: scopePlugins, tag: tagPlugins,
		summary: "Close a plugin's breakers and forget its faults",
		about:   "A quarantine ends by activating with force, and not by this. " + selectAbout}, x.reset)
	registerPlugin(d, operation{id: "put-plugin-settings", act: act{"plugin.settings", "plugin {name}"}, brings: true, method: "PUT",
		path: one + "/settings", scope: scopePlugins, tag: tagPlugins,
		summary: "Hold a plugin's breaker, and set its limits",
		about:   "All settings are replaced: one that is left out gets its default. " + selectAbout}, x.putSettings)

	registerPlugin(d, operation{id: "get-plugin-stats", method: "GET", path: one + "/stats", scope: scopeRead, tag: tagPlugins,
		summary: "Read a plugin's numbers since the start of the server"}, x.stats)
	registerPlugin(d, operation{id: "list-plugin-scores", method: "GET", path: one + "/scores", scope: scopeRead, tag: tagPlugins,
		compress: true,
		summary:  "Read how a plugin's versions score live traffic", about: scoresAbout}, x.scores)
	registerPlugin(d, operation{id: "get-plugin-logs", method: "GET", path: one + "/logs", scope: scopeRead,
		tag: tagPlugins, compress: true,
		summary: "Read what a plugin logged",
		about:   "The last 1,000 lines, the oldest first; ask again with `after` for what followed."}, x.logs)
	registerPlugin(d, operation{id: "list-plugin-recordings", method: "GET", path: one + "/recordings", scope: scopePlugins,
		tag: tagPlugins, summary: "List the batches that were recorded",
		about: "One of 10,000, and those that faulted; the last of each are kept in memory."}, x.recordings)
	x.raw(d, operation{id: "get-plugin-recording", method: "GET", path: one + "/recordings/{id}", scope: scopePlugins, tag: tagPlugins,
		summary: "Download a recorded batch", about: "A .qbatch file, which `quern plugin run` replays."},
		fileShape(contentBytes, path, "name", "id"), x.recording)
}
