package host_test

import (
	"math"
	"testing"

	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/host"
)

// openRaw opens a module as it is, without scan and rewriting.
func openRaw(t testing.TB, module []byte, o host.Options) (*host.Version, error) {
	t.Helper()
	compiled, err := compile.InProcess(t.Context(), module, 256)
	if err != nil {
		t.Fatal(err)
	}
	v, err := host.Open(t.Context(), compiled, o)
	if err == nil {
		t.Cleanup(func() {
			if err := v.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return v, err
}

func bitsOf(score float64) uint64 { return math.Float64bits(score) }
