package store

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// Versions with their modules, and the records of those in use, come back as they were over restarts, and go when they
// are deleted.
func TestCataloguePlugins(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "quern.db")
	c := openCatalogue(t, path)
	version := func(n byte, name string) queue.PluginVersion {
		return queue.PluginVersion{
			SHA256: queue.SHA256{n}, Name: name, Version: "1.0.0", State: "ready", Size: 3, Manifest: []byte(`{"a":1}`), Report: []byte(`{}`), Created: 7, Actor: "me",
		}
	}
	all := []queue.PluginVersion{version(9, "b"), version(1, "a"), version(2, "a")}
	for _, v := range all {
		must(t, c.PutPluginVersion(v, []byte{v.SHA256[0], 0, 0}))
	}
	if err := c.PutPluginVersion(all[0], nil); err == nil {
		t.Error("a version was stored twice")
	}
	must(t, c.SetPluginState(all[1].SHA256, "quarantined", "it failed"))
	all[1].State, all[1].Reason = "quarantined", "it failed"
	if err := c.SetPluginState(queue.SHA256{77}, "ready", ""); err == nil {
		t.Error("the state of a version that is not there was set")
	}
	record := queue.PluginRecord{
		Name: "a", Revision: 1, Active: queue.PluginUse{SHA256: queue.SHA256{1}, Config: []byte(`{}`)}, Settings: []byte(`{}`), Changed: 8, Actor: "me",
	}
	must(t, c.PutPluginRecord(record))
	record.Revision, record.Percent = 2, 100
	record.Active, record.Previous = queue.PluginUse{SHA256: queue.SHA256{2}, Config: []byte(`{"x":1}`)}, record.Active
	record.Canary = record.Previous
	must(t, c.PutPluginRecord(record))
	for range 2 {
		if got, err := c.PluginVersions(); err != nil || !reflect.DeepEqual(got, all) {
			t.Errorf("PluginVersions = %+v, %v; want %+v", got, err, all)
		}
		if got, err := c.PluginRecords(); err != nil || !reflect.DeepEqual(got, []queue.PluginRecord{record}) {
			t.Errorf("PluginRecords = %+v, %v; want %+v", got, err, record)
		}
		for _, v := range all {
			if got, found, err := c.PluginModule(v.SHA256); err != nil || !found || len(got) != 3 || got[0] != v.SHA256[0] {
				t.Errorf("PluginModule(%x) = %x, %v, %v", v.SHA256[0], got, found, err)
			}
		}
		must(t, c.Close())
		c = openCatalogue(t, path)
	}
	record.Revision, record.Canary = 3, queue.PluginUse{}
	must(t, c.PutPluginRecord(record))
	must(t, c.DeletePluginVersion(all[1].SHA256, "a", 3))
	must(t, c.DeletePluginVersion(all[1].SHA256, "a", 3))
	if _, found, err := c.PluginModule(all[1].SHA256); found || err != nil {
		t.Errorf("a deleted module is still there: %v, %v", found, err)
	}
	must(t, c.DeletePlugin("a", 3))
	if got, err := c.PluginVersions(); err != nil || !reflect.DeepEqual(got, all[:1]) {
		t.Errorf("after the deletion: %+v, %v; want only b", got, err)
	}
	if got, err := c.PluginRecords(); err != nil || len(got) != 0 {
		t.Errorf("after the deletion: records %+v, %v", got, err)
	}
	must(t, c.PutPluginRecord(queue.PluginRecord{Name: "b", Revision: 1, Active: queue.PluginUse{SHA256: all[0].SHA256}, Settings: []byte(`{}`)}))
	must(t, c.conn.Exec("UPDATE plugin SET active = x'00'"))
	if _, err := c.PluginRecords(); !isFormat(err) {
		t.Errorf("a sum of one byte: got %v, want a *queue.FormatError", err)
	}
	must(t, c.conn.Exec("UPDATE plugin_version SET sha256 = x'00'"))
	if _, err := c.PluginVersions(); !isFormat(err) {
		t.Errorf("a sum of one byte: got %v, want a *queue.FormatError", err)
	}
	must(t, c.Close())
}
