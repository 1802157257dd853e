//go:build linux

package main

import (
	"encoding/json"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// quern plugin logs -f prints the plugin's log so far, goes on with new lines, and ends well when it is interrupted.
func TestPluginLogsFollow(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	b.submit(1000, "x")
	for _, h := range wasmtest.Corpus() {
		if h.Name == "log_10000" { // of which 32 lines are kept in each batch
			b.use(h.Build(), "loud")
		}
	}
	b.one(`Plugin("loud", window=16, OldestFirst)`)
	p := launch(t, t.TempDir(), quernCopy(t), "plugin", "logs", "loud", "--follow", "--server", b.server.url, "-o", "jsonl")
	next := uint64(1)
	read := func(n uint64) {
		t.Helper()
		for range n {
			var line api.PluginLogLine
			if err := json.Unmarshal([]byte(p.line()), &line); err != nil {
				t.Fatal(err)
			}
			if line.Number != next || line.Text != "the same line again" || line.Version != "1.0.0" {
				t.Errorf("got %+v, want line %d", line, next)
			}
			next++
		}
	}
	read(32)
	stats, err := b.PluginStats(t.Context(), "loud", "")
	if err != nil {
		t.Fatal(err)
	}
	for before := stats.Batches; stats.Batches == before; { // the rest of a window is used up first
		b.one(`Plugin("loud", window=16, NewestFirst)`)
		if stats, err = b.PluginStats(t.Context(), "loud", ""); err != nil {
			t.Fatal(err)
		}
	}
	read(32)
	p.tell(syscall.SIGINT)
	p.ends(exitOK)
}
