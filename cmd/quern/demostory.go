package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/plugins/score"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// What the demo tells beside work that moves, so that the first screen shows what strategies, limits, rules, plugins and schedules do.
const (
	demoPaused = "fern"  // a company whose work is paused
	demoDying  = "gorse" // a company of whose chunks many fail for good
	demoPlugin = "fresh-first"

	demoRetention = 600 // seconds for which ended work is kept: an hour of all of it would fill a small disk

	demoPausedChunks = 20_000
	demoDyingChunks  = 600 // at the start
	demoDyingMore    = 40  // each minute, of which a quarter dies
)

// demoFormula is what the demo's plugin scores by: compiled here, uploaded as the module of any author is.
const demoFormula = "priority*10 - age_s"

// demoErrors are why chunks of demoDying fail.
func demoErrors() []string {
	return []string{"connection refused: 10.0.7.%d:5432", "row %d: \"name\" is not valid UTF-8", "the far side answered 503"}
}

// demoStory sets up what the work is told by: limits and weights, a pause, a plugin, a schedule, and work that fails.
func demoStory(ctx context.Context, c *client.Client) error {
	kept := api.QueueSettingsInput{RetentionSeconds: new(int64(demoRetention))}
	if _, err := c.ChangeQueue(ctx, "default", kept); err != nil {
		return err
	}
	for company, set := range map[string]api.ValueSettings{
		"acorn": {Limit: new(uint32(12))}, "birch": {Weight: new(3.0)}, "elm": {Weight: new(0.5)},
	} {
		if _, err := c.PutValue(ctx, "default", "company", api.Text(company), set, client.Condition{}); err != nil {
			return err
		}
	}
	if err := demoScores(ctx, c); err != nil {
		return err
	}
	rule := api.RuleRequest{Action: "pause", Match: api.RuleMatch{Meta: api.Meta{"company": api.Text(demoPaused)}}, Actor: "ann",
		Reason: "INC-204: their API answers 503", Until: api.Time{Time: time.Now().Add(26 * time.Hour)}}
	if _, err := c.SetRule(ctx, "default", &rule); err != nil {
		return err
	}
	for _, n := range []api.NewSubmission{
		{Meta: demoMeta(demoPaused), Chunks: api.Chunks{Count: demoPausedChunks, Template: "fern row {index}"}},
		{Meta: demoMeta(demoDying), Chunks: api.Chunks{Count: demoDyingChunks, Template: "gorse row {index}"},
			OnExhausted: "dead_letter", MaxAttempts: 2},
	} {
		if _, err := c.Insert(ctx, "default", &n); err != nil {
			return err
		}
	}
	for name, template := range map[string]api.ScheduleTemplate{
		"report": {Meta: demoMeta("elm"), Priority: 3,
			Chunks: api.Chunks{Count: 50, Template: "report {scheduled_at} page {index}"}},
		"ingest": {Meta: demoMeta(demoDying), OnExhausted: "dead_letter", MaxAttempts: 2,
			Chunks: api.Chunks{Count: demoDyingMore, Template: "gorse {scheduled_at} row {index}"}},
	} {
		_, err := c.PutSchedule(ctx, "default", name, &api.ScheduleDefinition{Spec: "* * * * *", Overlap: "skip", RunOnCreate: true,
			Template: template}, client.Condition{})
		if err != nil {
			return err
		}
	}
	return nil
}

func demoMeta(company string) api.Meta {
	return api.Meta{"company": api.Text(company), "mode": api.Text("full"), "zone": api.Int(1)}
}

// demoScores uploads the plugin and takes it into use.
func demoScores(ctx context.Context, c *client.Client) error {
	formula, err := strategy.ParseExpression(demoFormula)
	if err != nil {
		return err
	}
	module, columns := score.Compile(formula)
	names := make([]string, len(columns))
	for i, column := range columns {
		names[i] = column.Name
	}
	manifest, err := json.Marshal(map[string]any{"name": demoPlugin, "version": "1.0.0", "abi": 1, "columns": names,
		"window": map[string]int{"max": 1024}})
	if err != nil {
		return err
	}
	if _, err := c.UploadPlugin(ctx, client.PluginUpload{Module: module, Manifest: manifest}); err != nil {
		return err
	}
	_, err = c.ActivatePlugin(ctx, demoPlugin, api.PluginSelection{Version: "1.0.0"}, client.Condition{})
	return err
}
