package main

import (
	"bytes"
	"testing"

	"github.com/quern-queue/quern/wasm/wasmtest"
)

// The module of the demo's plugin is the good plugin of all tests.
func TestDemoModule(t *testing.T) {
	t.Parallel()
	if !bytes.Equal(demoModule, wasmtest.Scorer()) {
		t.Error("demo.module is not what wasmtest.Scorer makes: copy web/dashboard/test/scorer.module to it")
	}
}
