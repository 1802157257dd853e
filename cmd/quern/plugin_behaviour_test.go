//go:build linux

package main

import (
	"errors"
	"testing"

	"github.com/quern-queue/quern/sdk/client"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// Bodies of nearly the largest size that are no module, or a module that is cut off, are refused. The memory of the server process grows
// by less than three times the body for any of them, and for all of them by the garbage that its collector has not freed yet.
func TestPluginBehaviour03DamagedModulesTakeNoMemory(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	const size = 4<<20 - 1024
	padded := wasmtest.Base()
	padded.Custom("pad", make([]byte, size-200))
	whole := padded.Bytes()
	bodies := map[string][]byte{
		"no module": append([]byte("no module"), make([]byte, size)...),
		"component": append([]byte("\x00asm\x0d\x00\x01\x00"), make([]byte, size)...),
		"cut off":   whole[:len(whole)-1],
	}
	refuse := func(body []byte) {
		t.Helper()
		_, err := b.UploadPlugin(t.Context(), client.PluginUpload{Module: body})
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Status != 422 || len(refused.Problem.Errors) == 0 || refused.Problem.Errors[0].Pointer == "" {
			t.Errorf("%d bytes: got %v, want 422 with a place", len(body), err)
		}
	}
	for range 10 {
		refuse([]byte("what a server needs for any refusal"))
	}
	first, most, sent := b.memory("VmHWM"), 0, 0
	for range 8 {
		for name, body := range bodies {
			before := b.memory("VmHWM")
			refuse(body)
			sent++
			grown := b.memory("VmHWM") - before
			most = max(most, grown)
			if grown >= 3*size>>10 {
				t.Errorf("%s: the server's memory grew by %d KiB, want less than three times the body's %d KiB", name, grown, size>>10)
			}
		}
	}
	grown := b.memory("VmHWM") - first
	t.Logf("%d bodies of %d KiB: the server's memory grew by %d KiB at most for one, by %d KiB for all", sent, size>>10, most, grown)
	if grown >= sent/2*size>>10 {
		t.Errorf("the server's memory grew by %d KiB for %d bodies of %d KiB: it keeps them", grown, sent, size>>10)
	}
}
