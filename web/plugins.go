package web

import (
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
	selectAbout = "With If-Match only the plugin at this revision is changed (`etag`), else 412. The change is one " +
		"swap: it holds from the next reservation on, and no reservation sees half of it."
	releaseAbout = "A version is named by its version text (the newest of that text), or by the first 8 or more digits of its sha256."
	dryRunAbout  = "Nothing is reserved. Synthetic candidates are always scored; with `queue` also those that a " +
		"strategy has now, and `picks` says what would be taken, `gained` and `lost` how that differs. `recording` " +
		"scores a recorded batch again and compares the scores bit for bit. " + releaseAbout
)

// PluginPath names a plugin. It is exported because huma only looks into exported fields.
type PluginPath struct {
	Name string `path:"name" maxLength:"64" doc:"Name of the plugin"`
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

// change reads the condition, and who asks.
func (s *Server) change(ctx context.Context, r *Revision) (plugins.Change, error) {
	by := access.Of(ctx).Who("")
	if r.IfMatch == "" || strings.TrimSpace(r.IfMatch) == "*" {
		return plugins.Change{By: by}, nil
	}
	text, ok := strings.CutPrefix(strings.TrimSuffix(strings.TrimSpace(r.IfMatch), `"`), `"r`)
	revision, err := strconv.ParseUint(text, 10, 63)
	if !ok || err != nil {
		return plugins.Change{}, newProblem(codePrecondition, "If-Match does not name a revision of a plugin; send its etag.")
	}
	return plugins.Change{Revision: revision, Unchanged: revision == 0, By: by}, nil
}

// catalogue is who holds the plugins, if this server has any.
func (s *Server) catalogue() (*plugins.Catalogue, error) {
	if s.plugins == nil {
		return nil, &queue.Error{Code: queue.CodeUnavailable, Message: "This server has no plugins."}
	}
	return s.plugins, nil
}

type listPluginsInput struct {
	Cursor string `query:"cursor" maxLength:"64" doc:"The next of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most items"`
}

func (s *Server) listPlugins(_ context.Context, in *listPluginsInput) (*output[api.Page[api.Plugin]], error) {
	c, err := s.catalogue()
	if err != nil {
		return nil, err
	}
	list, next := c.List(in.Cursor, in.Limit)
	out := &output[api.Page[api.Plugin]]{Body: api.Page[api.Plugin]{Items: make([]api.Plugin, len(list)), Next: next}}
	for i := range list {
		out.Body.Items[i] = apiPlugin(&list[i])
	}
	return out, nil
}

type pluginOutput struct {
	ETag string `header:"ETag" doc:"Names the revision"`
	Body api.Plugin
}

func pluginAnswer(p plugins.Plugin, err error) (*pluginOutput, error) {
	if err != nil {
		return nil, err
	}
	out := &pluginOutput{Body: apiPlugin(&p)}
	out.ETag = out.Body.ETag
	return out, nil
}

func (s *Server) getPlugin(_ context.Context, in *PluginPath) (*pluginOutput, error) {
	c, err := s.catalogue()
	if err != nil {
		return nil, err
	}
	return pluginAnswer(c.Get(in.Name))
}

func (s *Server) listPluginVersions(_ context.Context, in *PluginPath) (*output[api.Page[api.PluginVersion]], error) {
	c, err := s.catalogue()
	if err != nil {
		return nil, err
	}
	list, err := c.VersionsOf(in.Name)
	return answeredList(list, err, apiPluginVersion)
}

func (s *Server) getPluginVersion(_ context.Context, in *PluginVersionPath) (*output[api.PluginVersion], error) {
	c, err := s.catalogue()
	if err != nil {
		return nil, err
	}
	v, err := c.VersionOf(in.Name, in.Version)
	return answered(v, err, apiPluginVersion)
}

type selectInput struct {
	PluginPath
	Revision
	Body decoded[api.PluginSelection]
}

// selected reads the body and the condition of an operation that puts a version to use.
func (s *Server) selected(ctx context.Context, in *selectInput) (c *plugins.Catalogue,
	chosen plugins.Selection, change plugins.Change, err error) {
	if c, err = s.catalogue(); err != nil {
		return
	}
	chosen = plugins.Selection{Version: in.Body.value.Version, Config: configOf(in.Body.value.Config), Force: in.Body.value.Force}
	change, err = s.change(ctx, &in.Revision)
	return c, chosen, change, err
}

// configOf is a configuration, where null is none.
func configOf(raw json.RawMessage) []byte {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

func (s *Server) activatePlugin(ctx context.Context, in *selectInput) (*pluginOutput, error) {
	c, chosen, change, err := s.selected(ctx, in)
	if err != nil {
		return nil, err
	}
	if chosen.Version == "" {
		return nil, queue.Invalid("/version", "is missing: which version is to be activated?")
	}
	return pluginAnswer(c.Activate(ctx, in.Name, chosen, change))
}

func (s *Server) shadowPlugin(ctx context.Context, in *selectInput) (*pluginOutput, error) {
	c, chosen, change, err := s.selected(ctx, in)
	if err != nil {
		return nil, err
	}
	return pluginAnswer(c.Shadow(ctx, in.Name, chosen, change))
}

func (s *Server) canaryPlugin(ctx context.Context, in *selectInput) (*pluginOutput, error) {
	c, chosen, change, err := s.selected(ctx, in)
	if err != nil {
		return nil, err
	}
	return pluginAnswer(c.Canary(ctx, in.Name, chosen, in.Body.value.Percent, change))
}

type changePluginInput struct {
	PluginPath
	Revision
}

func (s *Server) changePlugin(ctx context.Context, in *changePluginInput,
	do func(*plugins.Catalogue, plugins.Change) (plugins.Plugin, error)) (*pluginOutput, error) {
	c, err := s.catalogue()
	if err != nil {
		return nil, err
	}
	change, err := s.change(ctx, &in.Revision)
	if err != nil {
		return nil, err
	}
	return pluginAnswer(do(c, change))
}

func (s *Server) deactivatePlugin(ctx context.Context, in *changePluginInput) (*pluginOutput, error) {
	return s.changePlugin(ctx, in, func(c *plugins.Catalogue, change plugins.Change) (plugins.Plugin, error) {
		return c.Deactivate(in.Name, change)
	})
}

func (s *Server) rollbackPlugin(ctx context.Context, in *changePluginInput) (*pluginOutput, error) {
	return s.changePlugin(ctx, in, func(c *plugins.Catalogue, change plugins.Change) (plugins.Plugin, error) {
		return c.Rollback(ctx, in.Name, change)
	})
}

func (s *Server) resetPlugin(ctx context.Context, in *changePluginInput) (*pluginOutput, error) {
	return s.changePlugin(ctx, in, func(c *plugins.Catalogue, change plugins.Change) (plugins.Plugin, error) {
		return c.Reset(in.Name, change)
	})
}

// Forced is the wish to delete what stored strategies name.
type Forced struct {
	Force bool `query:"force" doc:"Delete it although stored strategies name it; they then go on with their next branch"`
}

type deletePluginInput struct {
	PluginPath
	Revision
	Forced
}

func (s *Server) deletePlugin(ctx context.Context, in *deletePluginInput) (*struct{}, error) {
	c, err := s.catalogue()
	if err != nil {
		return nil, err
	}
	change, err := s.change(ctx, &in.Revision)
	if err != nil {
		return nil, err
	}
	change.Force = in.Force
	return nil, c.Delete(in.Name, change)
}

type deleteVersionInput struct {
	PluginVersionPath
	Revision
	Forced
}

func (s *Server) deletePluginVersion(ctx context.Context, in *deleteVersionInput) (*struct{}, error) {
	c, err := s.catalogue()
	if err != nil {
		return nil, err
	}
	change, err := s.change(ctx, &in.Revision)
	if err != nil {
		return nil, err
	}
	change.Force = in.Force
	return nil, c.DeleteVersion(in.Name, in.Version, change)
}

type settingsInput struct {
	PluginPath
	Revision
	Body decoded[api.PluginSettings]
}

func (s *Server) putPluginSettings(ctx context.Context, in *settingsInput) (*pluginOutput, error) {
	set := in.Body.value
	return s.changePlugin(ctx, &changePluginInput{in.PluginPath, in.Revision},
		func(c *plugins.Catalogue, change plugins.Change) (plugins.Plugin, error) {
			return c.PutSettings(in.Name, plugins.Settings{Hold: set.Hold, CPUShare: set.CPUShare,
				RecordEvery: set.RecordEvery, LogLevel: set.LogLevel}, change)
		})
}

type dryRunInput struct {
	PluginVersionPath
	Body decoded[api.PluginDryRun]
}

func (s *Server) dryRunPlugin(ctx context.Context, in *dryRunInput) (*output[api.PluginTried], error) {
	c, err := s.catalogue()
	if err != nil {
		return nil, err
	}
	asked := &in.Body.value
	about, err := contextOf(asked.Context)
	if err != nil {
		return nil, err
	}
	d := plugins.DryRun{Context: about, Config: configOf(asked.Config), Queue: asked.Queue, Strategy: asked.Strategy,
		Rows: asked.Rows, Want: asked.Want, Recording: asked.Recording}
	if d.Strategy == "" {
		d.Strategy = "OldestFirst"
	}
	tried, err := c.Try(ctx, in.Name, in.Version, d)
	return answered(tried, err, apiTried)
}

func (s *Server) getPluginStats(_ context.Context, in *PluginPath) (*output[api.PluginStats], error) {
	c, err := s.catalogue()
	if err != nil {
		return nil, err
	}
	stats, err := c.StatsOf(in.Name)
	return answered(stats, err, apiPluginStats)
}

type pluginLogsInput struct {
	PluginPath
	After uint64 `query:"after" doc:"Only lines behind this number"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"1000" doc:"Most lines"`
}

func (s *Server) getPluginLogs(_ context.Context, in *pluginLogsInput) (*output[api.PluginLogs], error) {
	c, err := s.catalogue()
	if err != nil {
		return nil, err
	}
	lines, dropped, err := c.LogsOf(in.Name, in.After, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &output[api.PluginLogs]{Body: api.PluginLogs{Lines: make([]api.PluginLogLine, len(lines)), Dropped: dropped, Next: in.After}}
	for i, line := range lines {
		out.Body.Lines[i] = api.PluginLogLine{
			Number: line.Number, Time: apiTime(line.Time), Version: line.Version, SHA256: line.SHA256,
			Level: [...]string{"debug", "info", "warn", "error"}[line.Level&3], Text: line.Text,
		}
		out.Body.Next = line.Number
	}
	return out, nil
}

func (s *Server) listPluginRecordings(_ context.Context, in *PluginPath) (*output[api.Page[api.PluginRecording]], error) {
	c, err := s.catalogue()
	if err != nil {
		return nil, err
	}
	list, err := c.RecordingsOf(in.Name)
	if err != nil {
		return nil, err
	}
	out := &output[api.Page[api.PluginRecording]]{Body: api.Page[api.PluginRecording]{Items: make([]api.PluginRecording, len(list))}}
	for i, r := range list {
		out.Body.Items[i] = api.PluginRecording{ID: r.ID, Time: apiTime(r.Time), Version: r.Version, SHA256: r.SHA256,
			Rows: r.Rows, Size: r.Size, Fault: r.Fault}
	}
	return out, nil
}
