package client

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// uploadTime is how long an upload may take beyond an ordinary call: the server compiles what it gets.
const uploadTime = 2 * time.Minute

// Plugins returns the server's plugins by name.
func (c *Client) Plugins(ctx context.Context) iter.Seq2[api.Plugin, error] {
	return pages[api.Plugin](ctx, c, "plugins", "/v1/plugins", nil)
}

// Plugin reads a plugin: the versions in use, and the state of its breaker.
func (c *Client) Plugin(ctx context.Context, name string) (*api.Plugin, error) {
	return get[api.Plugin](ctx, c, "plugin", pluginPath(name, ""))
}

// PluginVersions returns a plugin's versions, the newest first.
func (c *Client) PluginVersions(ctx context.Context, name string) iter.Seq2[api.PluginVersion, error] {
	return pages[api.PluginVersion](ctx, c, "plugin versions", pluginPath(name, "/versions"), nil)
}

// PluginVersion reads a version, by its version text or by 8 or more digits of its sha256.
func (c *Client) PluginVersion(ctx context.Context, name, version string) (*api.PluginVersion, error) {
	return get[api.PluginVersion](ctx, c, "plugin version", versionPath(name, version, ""))
}

// PluginUpload is a module, with an optional manifest and configuration.
type PluginUpload struct {
	Module   []byte
	Manifest []byte // JSON; nil when the module has its own
	Config   []byte // JSON, for the dry run of a plugin that needs one; nil: the defaults
}

// UploadPlugin uploads a version. The same bytes are the same version, so you can safely repeat the call. If the
// module has faults, the *Error has api.CodeInvalid and lists all of them.
func (c *Client) UploadPlugin(ctx context.Context, u PluginUpload) (*api.PluginVersion, error) {
	q := &request{method: http.MethodPost, path: "/v1/plugins", media: "application/wasm", wait: uploadTime, safe: true}
	if u.Manifest == nil && u.Config == nil {
		q.buffer = append(make([]byte, gap, gap+len(u.Module)), u.Module...)
		return fetch[api.PluginVersion](ctx, c, "upload plugin", q)
	}
	form := bytes.NewBuffer(make([]byte, gap, gap+len(u.Module)+1<<10))
	w := multipart.NewWriter(form)
	for _, part := range []struct {
		name    string
		content []byte
	}{{"manifest", u.Manifest}, {"config", u.Config}, {"module", u.Module}} {
		if part.content == nil {
			continue
		}
		field, err := w.CreateFormFile(part.name, part.name)
		if err == nil {
			_, err = field.Write(part.content)
		}
		if err != nil {
			return nil, fmt.Errorf("quern: upload plugin: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("quern: upload plugin: %w", err)
	}
	q.media, q.buffer = w.FormDataContentType(), form.Bytes()
	return fetch[api.PluginVersion](ctx, c, "upload plugin", q)
}

// PluginModule downloads a version's module with its manifest.
func (c *Client) PluginModule(ctx context.Context, name, version string) ([]byte, error) {
	return c.download(ctx, "plugin module", versionPath(name, version, "/wasm"))
}

// ActivatePlugin activates a version, from the next reservation on. With an ETag in when, it changes only that
// revision of the plugin.
func (c *Client) ActivatePlugin(ctx context.Context, name string, s api.PluginSelection, when Condition) (*api.Plugin, error) {
	return c.changePlugin(ctx, "activate plugin", name, "/activate", s, when)
}

// ShadowPlugin lets a version score beside the active one without any effect. An empty version stops this.
func (c *Client) ShadowPlugin(ctx context.Context, name string, s api.PluginSelection, when Condition) (*api.Plugin, error) {
	return c.changePlugin(ctx, "shadow plugin", name, "/shadow", s, when)
}

// CanaryPlugin uses a version for s.Percent of the reservations; 0 stops this.
func (c *Client) CanaryPlugin(ctx context.Context, name string, s api.PluginSelection, when Condition) (*api.Plugin, error) {
	return c.changePlugin(ctx, "canary plugin", name, "/canary", s, when)
}

// DeactivatePlugin takes a plugin out of use. Strategies that name it use their next branch.
func (c *Client) DeactivatePlugin(ctx context.Context, name string, when Condition) (*api.Plugin, error) {
	return c.changePlugin(ctx, "deactivate plugin", name, "/deactivate", nil, when)
}

// RollbackPlugin activates the previously active version.
func (c *Client) RollbackPlugin(ctx context.Context, name string, when Condition) (*api.Plugin, error) {
	return c.changePlugin(ctx, "roll back plugin", name, "/rollback", nil, when)
}

// ResetPlugin closes a plugin's breakers and forgets its faults.
func (c *Client) ResetPlugin(ctx context.Context, name string, when Condition) (*api.Plugin, error) {
	return c.changePlugin(ctx, "reset plugin", name, "/reset", nil, when)
}

// changePlugin makes a change once: after a lost answer a second try would change what the first one made.
func (c *Client) changePlugin(ctx context.Context, what, name, verb string, body any, when Condition) (*api.Plugin, error) {
	q := when.onto(&request{method: http.MethodPost, path: pluginPath(name, verb)})
	if body == nil {
		return fetch[api.Plugin](ctx, c, what, q)
	}
	return send[api.Plugin](ctx, c, what, q, body)
}

// PutPluginSettings replaces an operator's settings of a plugin.
func (c *Client) PutPluginSettings(ctx context.Context, name string, s api.PluginSettings, when Condition) (*api.Plugin, error) {
	q := &request{method: http.MethodPut, path: pluginPath(name, "/settings"), safe: when.none()}
	return send[api.Plugin](ctx, c, "put plugin settings", when.onto(q), s)
}

// DryRunPlugin tries a version without any effect.
func (c *Client) DryRunPlugin(ctx context.Context, name, version string, d api.PluginDryRun) (*api.PluginTried, error) {
	return ask[api.PluginTried](ctx, c, "dry run", versionPath(name, version, "/dry-run"), d)
}

// PluginStats reads a plugin's numbers since the start of the server. node is the node of a cluster to ask; "": all.
func (c *Client) PluginStats(ctx context.Context, name, node string) (*api.PluginStats, error) {
	return get[api.PluginStats](ctx, c, "plugin stats", queried(pluginPath(name, "/stats"), given("node", node)))
}

// PluginScores returns how the open versions of a plugin scored live traffic, those in use first.
func (c *Client) PluginScores(ctx context.Context, name string) iter.Seq2[api.PluginScores, error] {
	return pages[api.PluginScores](ctx, c, "plugin scores", pluginPath(name, "/scores"), nil)
}

// PluginLogs reads the lines that a plugin logged after those of the answer with this cursor; "": all that the server
// has. node is the node of a cluster to ask; "": all.
func (c *Client) PluginLogs(ctx context.Context, name, node, cursor string) (*api.PluginLogs, error) {
	path := queried(pluginPath(name, "/logs"), given("node", node, "cursor", cursor))
	return get[api.PluginLogs](ctx, c, "plugin logs", path)
}

// PluginRecordings returns the recorded batches of a plugin, the newest first.
func (c *Client) PluginRecordings(ctx context.Context, name string) iter.Seq2[api.PluginRecording, error] {
	return pages[api.PluginRecording](ctx, c, "plugin recordings", pluginPath(name, "/recordings"), nil)
}

// PluginRecording downloads a recorded batch, a .qbatch file.
func (c *Client) PluginRecording(ctx context.Context, name string, id uint64) ([]byte, error) {
	return c.download(ctx, "plugin recording", pluginPath(name, "/recordings/"+strconv.FormatUint(id, 10)))
}

// DeletePluginVersion deletes a version that is not in use. With force, it also deletes one that stored strategies
// name; they then use their next branch. It makes one attempt.
func (c *Client) DeletePluginVersion(ctx context.Context, name, version string, force bool, when Condition) error {
	return c.do(ctx, c.cold, "delete plugin version",
		when.onto(&request{method: http.MethodDelete, path: versionPath(name, version, forced(force))}), new(reply))
}

// DeletePlugin deletes a plugin that is not active, with all its versions. With force, it also deletes one that
// stored strategies name; they then use their next branch. It makes one attempt.
func (c *Client) DeletePlugin(ctx context.Context, name string, force bool, when Condition) error {
	return c.do(ctx, c.cold, "delete plugin",
		when.onto(&request{method: http.MethodDelete, path: pluginPath(name, forced(force))}), new(reply))
}

// forced is the query of a deletion.
func forced(force bool) string {
	if force {
		return "?force=true"
	}
	return ""
}

// download reads an answer that is a file.
func (c *Client) download(ctx context.Context, what, path string) ([]byte, error) {
	var r reply
	if err := c.do(ctx, c.cold, what, &request{method: http.MethodGet, path: path, safe: true}, &r); err != nil {
		return nil, err
	}
	return r.body, nil
}

func pluginPath(name, rest string) string { return "/v1/plugins/" + url.PathEscape(name) + rest }

func versionPath(name, version, rest string) string {
	return pluginPath(name, "/versions/"+url.PathEscape(version)+rest)
}
