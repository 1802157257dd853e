package main

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
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

// webVersion is the version as the server tells it.
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
