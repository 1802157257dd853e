package compile

import (
	"runtime"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// runtimeConfig is the same for child and parent: what differs would make other code.
func runtimeConfig(pages uint32) wazero.RuntimeConfig {
	return wazero.NewRuntimeConfigCompiler().
		WithCoreFeatures(api.CoreFeaturesV2).
		WithDebugInfoEnabled(false).
		WithMemoryLimitPages(pages)
}

// Supported says whether there is a compiler for this processor and system. The interpreter is 40 times slower and is not used.
func Supported() bool {
	return slices.Contains([]string{"amd64", "arm64"}, runtime.GOARCH) &&
		slices.Contains([]string{"linux", "darwin", "freebsd", "netbsd", "dragonfly", "windows"}, runtime.GOOS)
}
