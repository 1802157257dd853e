package plugins_test

import (
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// rival is a store in which another node puts a version just before this one does.
type rival struct{ plugins.Store }

func (r rival) PutPluginVersion(v queue.PluginVersion, module []byte, acts ...queue.Act) error {
	other := v
	other.Actor = "another node"
	if err := r.Store.PutPluginVersion(other, module); err != nil {
		return err
	}
	return r.Store.PutPluginVersion(v, module, acts...)
}

// A module that another node stores while this one checks it is a version that is there, whether or not this node has heard of it by then.
func TestUploadBesideAnotherNode(t *testing.T) {
	t.Parallel()
	again := func() {}
	w := open(t, func(o *plugins.Options) {
		now := o.Now
		o.Now = func() time.Time {
			again()
			return now()
		}
	})
	upload := plugins.Upload{Module: wasmtest.Scorer(), Manifest: declare("both", "1.0.0", two, ""), By: queue.Who{Actor: "test"}}
	made := w.send(upload.Module, upload.Manifest)
	stored, err := w.store.PluginVersions()
	if err != nil {
		t.Fatal(err)
	}
	module, _, err := w.Versions.Module("both", "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	by := plugins.Change{By: upload.By}
	if err := w.Versions.Delete("both", "1.0.0", by); err != nil {
		t.Fatal(err)
	}
	again = func() { // this node hears of the other's version
		again = func() {}
		if err := w.store.PutPluginVersion(stored[0], module); err != nil {
			t.Error(err)
		}
		if err := w.Reload(); err != nil {
			t.Error(err)
		}
	}
	if v, created, err := w.Versions.Upload(t.Context(), upload); err != nil || created || v.SHA256 != made.SHA256 {
		t.Errorf("the version of another node: %+v, %t, %v; want it as it is", v, created, err)
	}
	w.end()
	w.over = func(c *store.Catalogue) plugins.Store { return rival{c} }
	w.start()
	if err := w.Versions.Delete("both", "1.0.0", by); err != nil {
		t.Fatal(err)
	}
	if v, _, err := w.Versions.Upload(t.Context(), upload); err != nil || v.SHA256 != made.SHA256 {
		t.Errorf("a version that this node has not heard of: %+v, %v", v, err)
	}
	if err := w.Reload(); err != nil {
		t.Fatal(err)
	}
	if list, err := w.Versions.Of("both"); err != nil || len(list) != 1 {
		t.Errorf("versions %+v, %v; want one", list, err)
	}
}
