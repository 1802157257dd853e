package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// development is the version of this source tree, unless a build from a tagged module knows better.
const development = "0.1.0-dev"

// release is the version that make release gives to the linker, which counts before all others.
var release string

// versionInfo says what this binary is.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the source; "+changes" when the tree was not clean
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisVersion() versionInfo {
	v := versionInfo{Version: development, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if build.Main.Version != "" && build.Main.Version != "(devel)" {
		v.Version = build.Main.Version
	}
	v.Version = cmp.Or(release, v.Version)
	changed := false
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	if v.Revision != "" && changed {
		v.Revision += "+changes"
	}
	return v
}

// webVersion is the version as the server shows it.
func webVersion() api.Version {
	v := thisVersion()
	return api.Version{Version: v.Version, Revision: v.Revision, Go: v.Go}
}

func versionCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return printOne(a, thisVersion(), func(v versionInfo) [][2]string {
				return [][2]string{{"version", v.Version}, {"revision", cmp.Or(v.Revision, "unknown")}, {"go", v.Go},
					{"platform", v.Platform}}
			})
		},
	}
	a.formatFlag(c)
	return c
}

// healthCommand asks whether a server is ready. A container with nothing but this binary has no other program for its health check.
func healthCommand(a *app) *cobra.Command {
	var (
		wait   time.Duration
		checks bool
	)
	c := &cobra.Command{
		Use: "health", Short: "Check whether a server is ready", Args: cobra.NoArgs,
		Long: "Check whether all parts of a server work. The exit code is 0 if they do, and 3 if one does not or no server " +
			"answers. The command\n" +
			"needs no token. It also works at the address of --metrics-listen, over plain HTTP even when the main address " +
			"uses TLS.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wait < 0 {
				return usageError{fmt.Errorf("--wait is %s; give 0 or more", wait)}
			}
			c, err := a.client(client.WithRetries(0), client.WithCallTimeout(healthTimeout))
			if err != nil {
				return err
			}
			got, err := becomesReady(cmd.Context(), c, checks, wait)
			if err != nil {
				return err
			}
			if a.format != formatTable {
				return printOne(a, *got, nil)
			}
			say(a.out, "ready\n")
			if !checks {
				return nil
			}
			return printList(a, got.Checks, []string{"PART", "STATE", "DETAIL"}, func(x api.Check) []string {
				state := "works"
				if !x.OK {
					state = "quarantined" // a part that did not work would have failed the answer
				}
				return []string{x.Name, state, x.Detail}
			})
		},
	}
	a.clientFlags(c)
	c.Flags().DurationVar(&wait, "wait", 0, "how long to wait until it is ready, such as 30s")
	c.Flags().BoolVar(&checks, "checks", false, "list every part by name; needs a token with the scope read if the "+
		"server requires tokens")
	a.formatFlag(c, formatTable, formatJSON)
	return c
}

const (
	healthTimeout = 5 * time.Second // of one question
	healthPause   = 200 * time.Millisecond
)

// becomesReady asks until the server is ready, or the time to wait is over.
func becomesReady(ctx context.Context, c *client.Client, checks bool, wait time.Duration) (*api.Readiness, error) {
	over := time.Now().Add(wait)
	for {
		got, err := client.Ready(ctx, c, checks)
		if err == nil || ctx.Err() != nil || !time.Now().Add(healthPause).Before(over) || !passing(err) {
			return got, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(healthPause):
		}
	}
}

// passing says whether it may help to ask again.
func passing(err error) bool {
	return client.CodeOf(err) == api.CodeNotReady || client.CodeOf(err) == "" && unreachable(err)
}
