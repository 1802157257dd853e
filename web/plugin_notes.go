package web

import "github.com/quern-queue/quern/engine/queue"

func pluginNotes() map[string]note {
	out := map[string]note{
		"PagePlugin.items":          {text: "The plugins, by name"},
		"PagePlugin.next":           {text: "Cursor of the next page; absent on the last"},
		"PagePluginVersion.items":   {text: "The versions, the newest first"},
		"PagePluginVersion.next":    {text: "Never there: a plugin has at most 100 versions"},
		"PagePluginRecording.items": {text: "The recordings, the newest first"},
		"PagePluginRecording.next":  {text: "Never there: a plugin has at most 32 recordings"},

		"Plugin.name": {text: "Name: 1 to 64 lower-case letters, digits and '-', a letter first"},
		"Plugin.state": oneOf("Whether it scores, and why not", "active", "inactive", "starting", "open",
			"half_open", "throttled", "quarantined", "held"),
		"Plugin.revision":       {text: "Counts the changes; 0 before the first"},
		"Plugin.etag":           {text: "Names the revision; for If-Match"},
		"Plugin.active":         {text: "The version that scores", ref: "PluginUse"},
		"Plugin.previous":       {text: "The version that was active before: where a rollback goes", ref: "PluginUse"},
		"Plugin.shadow":         {text: "The version that scores beside it without deciding", ref: "PluginUse"},
		"Plugin.canary":         {text: "The version that scores for a share of the reservations", ref: "PluginUse"},
		"Plugin.canary_percent": between(0, 100, "That share"),
		"Plugin.settings":       {text: "What an operator set"},
		"Plugin.breaker":        {text: "Whether the active version is kept out of use after faults"},
		"Plugin.versions":       {text: "How many there are"},
		"Plugin.latest":         {text: "sha256 of the version that came last"},
		"Plugin.changed_at":     {text: "When what is in use was changed"},
		"Plugin.changed_by":     {text: "By whom, where that is known"},

		"PluginUse.sha256":  {text: "Of the module with its manifest"},
		"PluginUse.version": {text: "The version text of its manifest"},
		"PluginUse.config":  {text: "Its configuration, with the defaults filled in"},

		"PluginBreaker.state": oneOf("closed: it scores. starting: its sandbox is not ready yet, and requests go on "+
			"without it. half_open: one batch is tried", "closed", "starting", "open", "half_open", "throttled", "quarantined", "held"),
		"PluginBreaker.reason": {text: "Why it is not closed"},
		"PluginBreaker.until":  {text: "When one batch is tried"},

		"PluginVersion.name":       {text: "Name of the plugin"},
		"PluginVersion.version":    {text: "The version text of its manifest; several versions may have the same"},
		"PluginVersion.sha256":     {text: "Of the module with its manifest: the version's identity"},
		"PluginVersion.state":      oneOf("ready: it may be activated", "ready", "quarantined"),
		"PluginVersion.reason":     {text: "Why it is quarantined"},
		"PluginVersion.uses":       {text: "What it is used as: active, canary, shadow, previous"},
		"PluginVersion.size":       {text: "Bytes of the module"},
		"PluginVersion.created_at": {text: "When it was uploaded"},
		"PluginVersion.created_by": {text: "By whom, where that is known"},
		"PluginVersion.manifest":   {text: "As it stands in the module"},
		"PluginVersion.report":     {text: "What its dry run found"},

		"PluginSelection.version": {text: "Version text (the newest of that text), or 8 or more digits of the " +
			"sha256; empty where a use is to end"},
		"PluginSelection.config":  {text: "An object as the manifest's config_schema has it; left out: the defaults"},
		"PluginSelection.percent": between(0, 100, "Of a canary: its share of the reservations"),
		"PluginSelection.force":   {text: "Also a version that is quarantined, which ends its quarantine"},
	}
	for _, part := range []map[string]note{pluginReportNotes(), pluginTriedNotes(), pluginStatsNotes(), pluginScoresNotes()} {
		for name, n := range part {
			out[name] = n
		}
	}
	for _, schema := range []string{"PluginSettings"} {
		out[schema+".hold"] = oneOf("open: out of use; closed: its breaker never opens; empty: as its faults have it", "", "open", "closed")
		out[schema+".cpu_share"] = between(0, 64, "Of one core over 10 s, above which it is throttled; 0: the server's 0.25")
		out[schema+".record_every"] = between(0, 1<<30, "One of so many batches is recorded; 0: the server's 10,000")
		out[schema+".log_level"] = between(0, 3, "Lines below it are dropped: 0 debug, 1 info, 2 warn, 3 error")
	}
	return out
}

func pluginReportNotes() map[string]note {
	return map[string]note{
		"PluginReport.ns_per_candidate":   {text: "Of the fastest batch"},
		"PluginReport.ns_median":          {text: "Of the middle one"},
		"PluginReport.fuel_per_candidate": {text: "The same on every machine"},
		"PluginReport.rows":               {text: "Of the timed batches: the default window"},
		"PluginReport.memory_pages":       {text: "Of 64 KiB, afterwards"},
		"PluginReport.skip_share":         {text: "Synthetic candidates that were skipped or not written"},
		"PluginReport.nan_share":          {text: "Synthetic candidates that were skipped with NaN"},
		"PluginReport.deterministic":      {text: "The same batch twice gave the same bits"},
		"PluginReport.compile_ms":         {text: "Processor time of the compiling process"},
		"PluginReport.compile_peak_bytes": {text: "Memory of the compiling process"},
		"PluginReport.from_cache":         {text: "The code was there already"},
		"PluginReport.instructions":       {text: "Of the module"},
	}
}

func pluginTriedNotes() map[string]note {
	return map[string]note{
		"PluginDryRun.config": {text: "Left out: that of the activation, or the defaults"},
		"PluginDryRun.queue": {text: "Whose live candidates are scored; left out: synthetic ones only",
			length: queue.MaxQueueNameBytes},
		"PluginDryRun.context":      {text: "Of the reservation that would be made: what the plugin may read of it"},
		"PluginDryRun.strategy":     {text: "In whose order they come, in text form; left out: OldestFirst"},
		"PluginDryRun.rows":         between(0, 4096, "Candidates; 0: the version's default window"),
		"PluginDryRun.want":         between(0, 1000, "How many would be taken; 0: 10"),
		"PluginDryRun.recording":    {text: "Number of a recording to score again; 0: none"},
		"PluginTried.report":        {text: "Of synthetic candidates"},
		"PluginTried.live":          {text: "Of live ones, where a queue was named", ref: "PluginLive"},
		"PluginTried.replay":        {text: "Of a recording, where one was named", ref: "PluginReplay"},
		"PluginLive.rows":           {text: "Candidates; a row is a place in the order without the plugin, from 0"},
		"PluginLive.submissions":    {text: "By row: the submission whose next chunk is the candidate"},
		"PluginLive.skipped":        {text: "Candidates that it would skip"},
		"PluginLive.histogram":      {text: "Of the scores"},
		"PluginLive.picks":          {text: "What would be taken, in order", items: 1000},
		"PluginLive.gained":         {text: "Rows that would be taken and would not without the plugin"},
		"PluginLive.lost":           {text: "The reverse"},
		"PluginLive.active_gained":  {text: "Rows that would be taken and would not with the active version"},
		"PluginLive.active_lost":    {text: "The reverse"},
		"PluginLive.active_overlap": {text: "Share of what would be taken that both agree on"},
		"PluginLive.active_tau":     {text: "Kendall's tau-b of the two orders"},
		"PluginBin.from":            {text: "Scores from here on"},
		"PluginBin.to":              {text: "And below this"},
		"PluginBin.count":           {text: "How many"},
		"PluginPick.row":            {text: "Its place in the order without the plugin, from 0"},
		"PluginPick.score":          {text: "Null when infinite", nullable: true},
		"PluginReplay.rows":         {text: "Of the recorded batch"},
		"PluginReplay.scored":       {text: "The recording has scores; that of a fault has none"},
		"PluginReplay.identical":    {text: "They are the same bits"},
		"PluginReplay.different":    {text: "Rows that are not"},
	}
}

func pluginStatsNotes() map[string]note {
	return map[string]note{
		"PluginStats.batches":    {text: "That were scored"},
		"PluginStats.candidates": {text: "In them"},
		"PluginStats.skipped":    {text: "Candidates skipped with NaN"},
		"PluginStats.unwritten":  {text: "Candidates without a score"},
		"PluginStats.fallbacks":  {text: "Reservations that went on without the plugin"},
		"PluginStats.fallback_reasons": {text: "Of these, by reason: fault, breaker, inactive, starting (its " +
			"sandbox is not ready), memory (all plugins together have what they may have), busy"},
		"PluginStats.ns_per_candidate":   {text: "Mean"},
		"PluginStats.fuel_per_candidate": {text: "Mean"},
		"PluginStats.faults":             {text: "Batches that failed, by kind"},
		"PluginStats.last_fault":         {text: "In words"},
		"PluginStats.counters":           {text: "The plugin's own"},
		"PluginStats.cpu_share":          {text: "Of one core, over the last 10 s"},
		"PluginStats.memory_pages":       {text: "Of 64 KiB, of the largest sandbox"},
		"PluginStats.instances":          {text: "Sandboxes that are open"},
		"PluginStats.logs_dropped":       {text: "Lines over the limits"},
		"PluginStats.breaker":            {text: "Of the active version"},
		"PluginStats.shadow":             {text: "How the shadow compares", ref: "PluginShadow"},
		"PluginShadow.sha256":            {text: "The version"},
		"PluginShadow.batches":           {text: "That both scored"},
		"PluginShadow.dropped":           {text: "That the shadow did not score, because it was behind or failing"},
		"PluginShadow.faults":            {text: "Of the shadow, by kind"},
		"PluginShadow.overlap":           {text: "Share of what would be taken that both agree on; a mean"},
		"PluginShadow.tau":               {text: "Kendall's tau-b of the two orders; a mean"},
		"PluginLogs.lines":               {text: "The oldest first"},
		"PluginLogs.dropped":             {text: "Lines over the limits, in all"},
		"PluginLogs.next":                {text: "For `after`: the number of the last line"},
		"PluginLogLine.number":           {text: "Rises by one from line to line"},
		"PluginLogLine.time":             {text: "When"},
		"PluginLogLine.version":          {text: "Of the version that logged it"},
		"PluginLogLine.sha256":           {text: "The first 8 digits of it"},
		"PluginLogLine.level":            oneOf("How much it matters", "debug", "info", "warn", "error"),
		"PluginLogLine.text":             {text: "What it says"},
		"PluginRecording.id":             {text: "Its number"},
		"PluginRecording.time":           {text: "When it was scored"},
		"PluginRecording.version":        {text: "Of the version that scored it"},
		"PluginRecording.sha256":         {text: "Of the version that scored it"},
		"PluginRecording.rows":           {text: "Candidates"},
		"PluginRecording.size":           {text: "Bytes"},
		"PluginRecording.fault":          {text: "Why it was kept; a sample has none"},
	}
}
