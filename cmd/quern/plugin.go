package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
	"github.com/quern-queue/quern/wasm/compile"
)

// pluginCommand is the parent of the commands on plugins.
func pluginCommand(a *app) *cobra.Command {
	return parent(&cobra.Command{
		Use: "plugin", Short: "Write, test, upload and activate plugins that decide the order of work",
		Long: "Write, test, upload and activate plugins that decide the order of work. From nothing to an active plugin:\n\n" +
			"  quern plugin new deadline-first --lang go\n" +
			"  quern plugin build deadline-first\n" +
			"  quern plugin push deadline-first/deadline-first.wasm --activate\n\n" +
			"VERSION is a version text, or 8 or more digits of a sha256.",
	}, append(pluginResources(a), pluginNewCommand(a), pluginBuildCommand(a), pluginPackCommand(), pluginCheckCommand(a),
		pluginRunCommand(a), pluginBenchCommand(a), pluginPushCommand(a), pluginDryRunCommand(a), pluginLogsCommand(a),
		pluginSettingsCommand(a), pluginStatsCommand(a), pluginRecordingsCommand(a), pluginReplayCommand(a), pluginScoresCommand(a),
		pluginDownloadCommand(a))...)
}

// pluginResources are the commands on plugins and their versions that servers have.
func pluginResources(a *app) []*cobra.Command {
	var ifMatch string
	var force bool
	plugins := resource[api.Plugin]{
		parent: "plugin", word: "NAME", fields: pluginFields, offer: func(p api.Plugin) (string, string) { return p.Name, p.State },
		header: []string{"NAME", "STATE", "ACTIVE", "SHADOW", "CANARY", "VERSIONS"},
		row: func(p api.Plugin) []string {
			canary := useText(p.Canary)
			if p.Canary != nil {
				canary += " " + strconv.Itoa(p.CanaryPercent) + "%"
			}
			return []string{p.Name, p.State, useText(p.Active), useText(p.Shadow), canary, strconv.Itoa(p.Versions)}
		},
		list: does("list [NAME]", "List the plugins, or the versions of one", func(ctx context.Context, c call) (all[api.Plugin], error) {
			return c.Plugins(ctx), nil
		}),
		one: []action[*api.Plugin]{
			does("get NAME [VERSION]", "Show a plugin, or one version of it", func(ctx context.Context, c call) (*api.Plugin, error) {
				return c.Plugin(ctx, c.args[0])
			}),
			selecting("activate NAME VERSION", "Activate a version, from the next reservation on", (*client.Client).ActivatePlugin),
			selecting("shadow NAME [VERSION]", "Let a version score beside the active one, without any effect; without VERSION, stop this",
				(*client.Client).ShadowPlugin),
			selecting("canary NAME VERSION PERCENT", "Use a version for a percentage of the reservations; 0 stops this",
				(*client.Client).CanaryPlugin),
			changing("deactivate NAME", "Take a plugin out of use", (*client.Client).DeactivatePlugin),
			changing("rollback NAME", "Activate the previously active version", (*client.Client).RollbackPlugin),
			changing("reset NAME", "Close a plugin's breakers and forget its faults", (*client.Client).ResetPlugin),
		},
		remove: does("delete NAME [VERSION]", "Delete a plugin that is not active, or one version that is not in use",
			func(ctx context.Context, c call) (none, error) {
				return none{}, c.DeletePlugin(ctx, c.args[0], force, client.Condition{ETag: ifMatch})
			}).with(func(c *cobra.Command) {
			c.Flags().StringVar(&ifMatch, "if-match", "", "delete only if the plugin has this ETag")
			c.Flags().BoolVar(&force, "force", false,
				"delete it even if stored strategies name it; they then use their next branch")
		}),
	}
	versions := resource[api.PluginVersion]{
		parent: "plugin", word: "VERSION", fields: versionFields,
		offer:  func(v api.PluginVersion) (string, string) { return v.Version, v.State },
		header: []string{"VERSION", "SHA256", "STATE", "USES", "NS/CANDIDATE", "CREATED"},
		row: func(v api.PluginVersion) []string {
			return []string{v.Version, shortSum(v.SHA256), v.State, fmt.Sprint(v.Uses),
				fmt.Sprintf("%.1f", v.Report.NsPerCandidate), v.CreatedAt.String()}
		},
		list: does("list NAME", "", func(ctx context.Context, c call) (all[api.PluginVersion], error) {
			return c.PluginVersions(ctx, c.args[0]), nil
		}),
		one: []action[*api.PluginVersion]{does("get NAME VERSION", "", func(ctx context.Context, c call) (*api.PluginVersion, error) {
			return c.PluginVersion(ctx, c.args[0], c.args[1])
		})},
		remove: does("delete NAME VERSION", "", func(ctx context.Context, c call) (none, error) {
			return none{}, c.DeletePluginVersion(ctx, c.args[0], c.args[1], force, client.Condition{ETag: ifMatch})
		}),
	}
	list := plugins.commands(a)
	extend(list, versions.commands(a))
	return list
}

// selecting puts a version to use.
func selecting(use, short string,
	do func(*client.Client, context.Context, string, api.PluginSelection, client.Condition) (*api.Plugin, error)) action[*api.Plugin] {
	var f selectFlags
	x := does(use, short, func(ctx context.Context, c call) (*api.Plugin, error) {
		s, err := f.selection(c.args)
		if err != nil {
			return nil, err
		}
		return do(c.Client, ctx, c.args[0], s, client.Condition{ETag: f.ifMatch})
	}).with(f.add)
	x.options = []client.Option{client.WithCallTimeout(longTimeout)}
	return x
}

// changing changes what is in use of a plugin.
func changing(use, short string,
	do func(*client.Client, context.Context, string, client.Condition) (*api.Plugin, error)) action[*api.Plugin] {
	var ifMatch string
	return does(use, short, func(ctx context.Context, c call) (*api.Plugin, error) {
		return do(c.Client, ctx, c.args[0], client.Condition{ETag: ifMatch})
	}).with(func(c *cobra.Command) {
		c.Flags().StringVar(&ifMatch, "if-match", "", "change the plugin only if it has this ETag")
	})
}

// compileCommandName is how this program is started to compile for a server. People have no use for it.
const compileCommandName = "plugin-compile"

func compileChildCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: compileCommandName, Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := compile.Child(args, a.in, a.err); code != 0 {
				return endedError{code: code}
			}
			return nil
		},
	}
}

func pluginPushCommand(a *app) *cobra.Command {
	var manifestFile, configFile string
	var activate bool
	c := a.serverCommand(&cobra.Command{
		Use:   "push FILE.wasm",
		Short: "Upload a version; --activate uses it at once",
		Args:  cobra.ExactArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) (err error) {
			var u client.PluginUpload
			if u.Module, err = readAtMost(args[0], maxModuleFile); err != nil {
				return err
			}
			for name, to := range map[string]*[]byte{manifestFile: &u.Manifest, configFile: &u.Config} {
				if name != "" {
					if *to, err = readAtMost(name, 64<<10); err != nil {
						return err
					}
				}
			}
			if err := answers(ctx, c); err != nil {
				return err
			}
			v, err := c.UploadPlugin(ctx, u)
			if err != nil || !activate {
				return printAnswer(a, v, err, versionFields)
			}
			p, err := c.ActivatePlugin(ctx, v.Name, api.PluginSelection{Version: v.SHA256, Config: u.Config}, client.Condition{})
			return printAnswer(a, p, err, pluginFields)
		}, client.WithCallTimeout(longTimeout)),
	})
	c.Flags().StringVar(&manifestFile, "manifest", "", "file with the manifest, for a module without one")
	c.Flags().StringVar(&configFile, "config", "",
		"file with a configuration (JSON) for the server's dry run and, with --activate, for use")
	c.Flags().BoolVar(&activate, "activate", false, "activate it")
	return c
}

// selectFlags are those of the commands that put a version to use.
type selectFlags struct {
	config, ifMatch string
	force           bool
}

func (f *selectFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.config, "config", "", "configuration as JSON, or @FILE; left out: the defaults")
	c.Flags().StringVar(&f.ifMatch, "if-match", "", "change the plugin only if it has this ETag")
	c.Flags().BoolVar(&f.force, "force", false, "allow a version that is quarantined, or (activate) that refuses "+
		"configurations in use")
}

// selection is the choice by the arguments NAME, VERSION and PERCENT and the flags. The last two arguments may be
// missing.
func (f *selectFlags) selection(args []string) (s api.PluginSelection, err error) {
	s = api.PluginSelection{Version: append(args, "")[1], Force: f.force}
	if len(args) > 2 {
		if s.Percent, err = strconv.Atoi(args[2]); err != nil {
			return s, usageError{fmt.Errorf("PERCENT is %q; it must be a number from 0 to 100", args[2])}
		}
	}
	text := []byte(f.config)
	if len(text) > 0 && text[0] == '@' {
		if text, err = readAtMost(f.config[1:], 64<<10); err != nil {
			return s, err
		}
	}
	if len(text) == 0 {
		return s, nil
	}
	if !json.Valid(text) {
		return s, usageError{errors.New("--config is not JSON")}
	}
	s.Config = text
	return s, nil
}

func pluginLogsCommand(a *app) *cobra.Command {
	var follow bool
	var node string
	c := &cobra.Command{
		Use: "logs NAME", Short: "Show the log of a plugin", Args: cobra.ExactArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			for cursor, missing := "", ""; ; {
				logs, err := c.PluginLogs(ctx, args[0], node, cursor)
				if follow && ctx.Err() != nil {
					return nil // being interrupted is how following ends
				}
				if err != nil {
					return err
				}
				for _, line := range logs.Lines {
					if a.format == formatJSONL {
						if err := printJSON(a.out, line, ""); err != nil {
							return err
						}
						continue
					}
					say(a.out, "%s %-5s %s %s%s\n", line.Time.Format(time.RFC3339), line.Level, line.Version, ofNode(line.Node), line.Text)
				}
				if now := strings.Join(logs.Missing, ", "); now != missing {
					if missing = now; now != "" {
						say(a.err, "These nodes do not answer, so their lines are missing: %s\n", now)
					}
				}
				cursor = logs.Cursor
				if len(logs.Lines) > 0 {
					continue
				}
				if !follow {
					return nil
				}
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(time.Second):
				}
			}
		}),
	}
	a.clientFlags(c)
	a.formatFlag(c, formatTable, formatJSONL)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing new lines")
	c.Flags().StringVar(&node, "node", "", "only of this node of the cluster (default: of all)")
	return c
}

// ofNode begins the text of a line of a node; nothing if the server is alone.
func ofNode(name string) string {
	if name == "" {
		return ""
	}
	return name + ": "
}

func useText(u *api.PluginUse) string {
	if u == nil {
		return "-"
	}
	return u.Version + "@" + shortSum(u.SHA256)
}

// shortSum is the beginning of a sum, by which people know a version.
func shortSum(sum string) string { return sum[:min(len(sum), 8)] }

func pluginFields(p api.Plugin) [][2]string {
	fields := [][2]string{{"name", p.Name}, {"state", p.State}, {"active", useText(p.Active)}}
	if p.Active != nil {
		fields = append(fields, [2]string{"config", string(p.Active.Config)})
	}
	fields = append(fields, [2]string{"previous", useText(p.Previous)}, [2]string{"shadow", useText(p.Shadow)},
		[2]string{"canary", useText(p.Canary)})
	if p.Breaker.Reason != "" {
		fields = append(fields, [2]string{"reason", p.Breaker.Reason})
	}
	return append(fields, [2]string{"versions", strconv.Itoa(p.Versions)}, [2]string{"etag", p.ETag})
}

func versionFields(v api.PluginVersion) [][2]string {
	return [][2]string{
		{"name", v.Name}, {"version", v.Version}, {"sha256", v.SHA256}, {"state", cmp.Or(v.Reason, v.State)},
		{"bytes", strconv.FormatInt(v.Size, 10)},
		{"ns/candidate", fmt.Sprintf("%.1f", v.Report.NsPerCandidate)}, {"fuel/candidate", fmt.Sprintf("%.0f", v.Report.FuelPerCandidate)},
		{"memory pages", strconv.Itoa(int(v.Report.MemoryPages))}, {"skipped", fmt.Sprintf("%.1f %%", 100*v.Report.SkipShare)},
		{"deterministic", strconv.FormatBool(v.Report.Deterministic)},
	}
}

// maxModuleFile is the largest module that is read: the most that a server can be configured to accept.
const maxModuleFile = 16 << 20

// writeNew writes a file that is not there yet.
func writeNew(name string, content []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}
