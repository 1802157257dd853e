package plugins_test

import (
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// Calls about a plugin that others delete and upload at the same moment are answered, or refused for a reason that a caller can act on.
func TestDeleteBesideOtherCalls(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	module, declared := wasmtest.Scorer(), declare("brief", "1.0.0", two, "")
	by := plugins.Change{By: queue.Who{Actor: "test"}}
	upload := func() error {
		_, _, err := w.Versions.Upload(t.Context(), plugins.Upload{Module: module, Manifest: declared, By: by.By})
		return err
	}
	calls := map[string]func() error{
		"upload":         upload,
		"delete version": func() error { return w.Versions.Delete("brief", "1.0.0", by) },
		"delete again":   func() error { return w.Versions.Delete("brief", "1.0.0", by) },
		"delete plugin":  func() error { return w.Plugins.Delete("brief", by) },
		"dry run": func() error {
			_, err := w.Versions.Try(t.Context(), "brief", "1.0.0", plugins.DryRun{})
			return err
		},
		"module": func() error {
			_, _, err := w.Versions.Module("brief", "1.0.0")
			return err
		},
	}
	for range 6 {
		if err := upload(); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for what, call := range calls {
			all.Go(func() {
				if err := call(); err != nil && queue.CodeOf(err) == "" {
					t.Errorf("%s: %v", what, err)
				}
			})
		}
		all.Wait()
	}
}
