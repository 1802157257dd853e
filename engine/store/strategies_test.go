package store

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"testing"
	"testing/fstest"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Versions are kept up to the number asked for, over restarts; names and queues do not touch each other, and a queue
// takes its strategies with it.
func TestCatalogueStrategies(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "quern.db")
	c := openCatalogue(t, path)
	must(t, c.PutQueue(QueueRow{Name: "default", Shard: 0, Settings: queue.DefaultSettings(), Created: 1}))
	must(t, c.PutQueue(QueueRow{Name: "other", Shard: 7, Settings: queue.DefaultSettings(), Created: 1}))
	row := func(shard queue.ShardID, name string, version uint32) StrategyRow {
		return StrategyRow{Shard: shard, Name: name, Version: version, Text: fmt.Sprintf("text %d %s %d", shard, name, version), Created: queue.Time(version)}
	}
	for version := uint32(1); version <= 12; version++ {
		must(t, c.PutStrategy(row(0, "nightly", version), 3))
	}
	must(t, c.PutStrategy(row(0, "b", 1), 3))
	must(t, c.PutStrategy(row(7, "nightly", 1), 3))
	must(t, c.PutStrategy(row(7, "nightly", 2), 3))
	if err := c.PutStrategy(row(7, "nightly", 2), 3); err == nil {
		t.Error("a version was stored twice")
	}
	want := []StrategyRow{row(0, "b", 1), row(0, "nightly", 12), row(7, "nightly", 2)}
	for range 2 {
		if got, err := c.Strategies(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Strategies = %v, %v; want %v", got, err, want)
		}
		for version, kept := range map[uint32]bool{0: false, 9: false, 10: true, 12: true, 13: false} {
			got, found, err := c.Strategy(0, "nightly", version)
			if err != nil || found != kept || found && got != row(0, "nightly", version) {
				t.Errorf("Strategy(0, nightly, %d) = %v, %v, %v; want found = %v", version, got, found, err, kept)
			}
		}
		must(t, c.Close())
		c = openCatalogue(t, path)
	}
	must(t, c.DeleteStrategy(0, "nightly"))
	must(t, c.DeleteStrategy(0, "never was"))
	must(t, c.DeleteQueue("other"))
	if got, err := c.Strategies(); err != nil || !reflect.DeepEqual(got, want[:1]) {
		t.Errorf("after the deletions: Strategies = %v, %v; want %v", got, err, want[:1])
	}
	if _, found, err := c.Strategy(0, "nightly", 11); found || err != nil {
		t.Errorf("an old version outlived its name: %v, %v", found, err)
	}
	must(t, c.conn.Exec("UPDATE strategy SET version = -1"))
	if _, err := c.Strategies(); !isFormat(err) {
		t.Errorf("Strategies with a broken version = %v; want a *journal.FormatError", err)
	}
	must(t, c.Close())
}

// A catalogue from before there were named strategies keeps what it has and learns of them.
func TestCatalogueFromVersionOne(t *testing.T) {
	t.Parallel()
	first, err := fs.ReadFile(migrations, "migrations/catalogue/0001_tables.sql")
	must(t, err)
	path := filepath.Join(t.TempDir(), "quern.db")
	old := catalogueKind
	old.Version = 1
	must(t, ensure(ctx, path, old, sqlitedb.Owner{}, fstest.MapFS{"0001_tables.sql": {Data: first}}))
	conn, err := sqlitedb.Open(path, old, sqlitedb.Options{})
	must(t, err)
	must(t, conn.Exec("INSERT INTO secret (name, bytes) VALUES ('token', x'00112233445566778899aabbccddeeff')"))
	must(t, conn.Close())
	c := openCatalogue(t, path)
	if key, err := c.Secret("token", 16, nil); err != nil || key[15] != 0xff {
		t.Errorf("Secret = %x, %v; want what was there before", key, err)
	}
	must(t, c.PutStrategy(StrategyRow{0, "a", 1, "Random", 1}, 100))
	if got, err := c.Strategies(); err != nil || len(got) != 1 {
		t.Errorf("Strategies = %v, %v; want the one", got, err)
	}
	must(t, c.Close())
}
