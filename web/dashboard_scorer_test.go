package web

import (
	"bytes"
	"os"
	"testing"

	"github.com/quern-queue/quern/wasm/wasmtest"
)

const dashboardScorer = "dashboard/test/scorer.module"

// The module that the browser tests drop onto the page of plugins is the good plugin of the other tests.
func TestScorerOfTheBrowserTestsIsGolden(t *testing.T) {
	t.Parallel()
	want := wasmtest.Scorer()
	if *rewrite {
		if err := os.WriteFile(dashboardScorer, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(dashboardScorer)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes that are not those of wasmtest.Scorer (%d bytes); go test ./web -run Golden -rewrite", dashboardScorer, len(got), len(want))
	}
}
