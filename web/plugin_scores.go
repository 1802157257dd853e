package web

import (
	"context"

	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/api"
)

const scoresAbout = "One entry for each version and configuration that is open, those in use first: how many batches " +
	"it scored and which failed, and of a sample of them how the scores of the last 4,096 candidates " +
	"are spread, and of how many of these something was taken. Whole batches are sampled, one in 64 and at most four " +
	"a second beside, so that it costs those who reserve next to nothing. " +
	"It starts from zero when a version is opened: at a start of the server, and after five minutes out of use."

func (pluginHandlers) scores(_ context.Context, c *plugins.Catalogue, in *PluginPath) (*output[api.Page[api.PluginScores]], error) {
	list, err := c.Observations.Scores(in.Name)
	return answeredList(list, err, apiPluginScores)
}

func apiPluginScores(in *plugins.Scores) api.PluginScores {
	out := api.PluginScores{
		SHA256: in.SHA256, Version: in.Version, Config: jsonOr(in.Config, "{}"), Uses: in.Uses, Batches: in.Batches,
		Faults: in.Faults, LastFault: in.LastFault,
		Windows: in.Windows, SinceAt: apiTime(in.First), LastAt: apiTime(in.Last), Rows: in.Rows, Skipped: in.Skipped, Taken: in.Taken,
		Distribution: make([]api.PluginTakenBin, len(in.Distribution)),
	}
	if out.Uses == nil {
		out.Uses = []string{}
	}
	for i, bin := range in.Distribution {
		out.Distribution[i] = api.PluginTakenBin{From: bin.From, To: bin.To, Count: bin.Count, Taken: bin.Taken}
	}
	return out
}

func pluginScoresNotes() map[string]note {
	return map[string]note{
		"PagePluginScores.items": {text: "What is open of the plugin, what is in use first"},
		"PagePluginScores.next":  {text: "Never there: only what is open is listed"},
		"PluginScores.sha256":    {text: "Of the version"},
		"PluginScores.version":   {text: "The version text of its manifest"},
		"PluginScores.config": {text: "The configuration that it scored with; another one is another entry, as " +
			"its scores may have nothing in common"},
		"PluginScores.uses":       {text: "active, canary, shadow, previous; none of what a consumer asked for by itself"},
		"PluginScores.batches":    {text: "That were scored"},
		"PluginScores.faults":     {text: "Batches that failed, by kind"},
		"PluginScores.last_fault": {text: "In words"},
		"PluginScores.windows":    {text: "Batches that were sampled"},
		"PluginScores.since_at":   {text: "When the first of them was scored"},
		"PluginScores.last_at":    {text: "When the last of them was scored"},
		"PluginScores.rows":       {text: "Candidates that are kept of them"},
		"PluginScores.skipped":    {text: "Of those, how many were skipped with NaN"},
		"PluginScores.taken":      {text: "Of those, of how many something was taken; 0 of a shadow, which decides nothing"},
		"PluginScores.distribution": {text: "Of their scores: ranges that lie side by side. Where few scores lie far " +
			"outside, the first and the last range are as wide as it takes", items: 20},
		"PluginTakenBin.from":  {text: "Scores from here on"},
		"PluginTakenBin.to":    {text: "And below this; of the last range also this"},
		"PluginTakenBin.count": {text: "How many candidates"},
		"PluginTakenBin.taken": {text: "Of how many of them something was taken"},
	}
}
