package store

import (
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// leftAt makes a catalogue as version 10 left it, with two queues, and runs statements on it.
func leftAt(t *testing.T, statements ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "quern.db")
	c := openCatalogue(t, path)
	for shard, name := range map[queue.ShardID]string{0: "default", 7: "other"} {
		must(t, c.PutQueue(QueueRow{Name: name, Shard: shard, Settings: queue.DefaultSettings(), Created: 1}))
	}
	for _, sql := range statements {
		must(t, c.conn.Exec(sql))
	}
	must(t, c.Close())
	return path
}

const (
	insertValue    = "INSERT INTO meta_value (shard, key, value, most, weight, version, changed) VALUES "
	insertStrategy = "INSERT INTO strategy (shard, name, version, text, created) VALUES "
)

// What versions before 11 kept of a queue is listed for it alone, every field and both kinds of values, until the queue has taken it over.
func TestAdoptable(t *testing.T) {
	t.Parallel()
	path := leftAt(t,
		insertValue+"(0, 'k', -9223372036854775808, 0, NULL, 1, 1), (0, 'k', 7, NULL, 1000000, 4294967295, 2), (0, 'k', '', 2147483647, 1, 2, 3), (0, 'k', '7', 5, NULL, 3, 4)",
		insertValue+"(7, 'k', '7', 9, NULL, 1, 5)",
		insertStrategy+"(0, 'nightly', 11, 'Random', 6), (0, 'nightly', 10, 'OldestFirst', 5), (0, 'b', 1, 'NewestFirst', 7), (7, 'nightly', 1, 'Random', 8)")
	value := func(value queue.MetaValue, limit, weight, version uint32, at queue.Time) journal.Set {
		return journal.Set{Kind: journal.SetValue, Entry: queue.MetaEntry{Key: "k", Value: value}, Demand: queue.ValueSettings{Limit: limit, Weight: weight}, Version: version, Changed: at}
	}
	strategy := func(name string, version uint32, text string, at queue.Time) journal.Set {
		return journal.Set{Kind: journal.SetStrategy, Name: name, Version: version, Text: text, Changed: at}
	}
	want := map[queue.ShardID][]journal.Set{
		0: {
			value(queue.IntValue(-1<<63), 0, 0, 1, 1), value(queue.IntValue(7), queue.NoLimit, queue.MaxWeight, 1<<32-1, 2),
			value(queue.StringValue(""), queue.MaxValueLimit, 1, 2, 3), value(queue.StringValue("7"), 5, 0, 3, 4),
			strategy("b", 1, "NewestFirst", 7), strategy("nightly", 10, "OldestFirst", 5), strategy("nightly", 11, "Random", 6),
		},
		7: {value(queue.StringValue("7"), 9, 0, 1, 5), strategy("nightly", 1, "Random", 8)},
	}
	c := openCatalogue(t, path)
	check := func() {
		t.Helper()
		for shard, list := range want {
			if got, err := c.Adoptable(shard); err != nil || !reflect.DeepEqual(got, list) {
				t.Errorf("Adoptable(%d) = %v, %v; want %v", shard, got, err, list)
			}
		}
	}
	check()
	must(t, c.Adopted("default"))
	want[0] = nil
	check()
	must(t, c.Close())
	c = openCatalogue(t, path)
	check()
	must(t, c.DeleteQueue("other"))
	want[7] = nil
	check()
	must(t, c.Close())
}

// Rows that no version wrote are refused, and the error names the key or the strategy.
func TestAdoptableBroken(t *testing.T) {
	t.Parallel()
	c := openCatalogue(t, leftAt(t, insertValue+"(0, 'k', '', 1, 1, 1, 1)", insertStrategy+"(0, 'nightly', 1, 'Random', 1)"))
	for _, broken := range []string{"most = -1", "most = 2147483648", "weight = 1000001", "version = 0", "version = 4294967296", "value = x'00'"} {
		must(t, c.conn.Exec("SAVEPOINT s; UPDATE meta_value SET "+broken))
		if _, err := c.Adoptable(0); !isFormat(err) || !strings.Contains(err.Error(), `"k"`) {
			t.Errorf("with %s: %v; want a *queue.FormatError that names the key", broken, err)
		}
		must(t, c.conn.Exec("ROLLBACK TO s; RELEASE s"))
	}
	must(t, c.conn.Exec("UPDATE strategy SET version = -1"))
	if _, err := c.Adoptable(0); !isFormat(err) || !strings.Contains(err.Error(), `"nightly"`) {
		t.Errorf("with a broken version: %v; want a *queue.FormatError that names the strategy", err)
	}
	must(t, c.Close())
}

// A catalogue of the first versions keeps what it has.
func TestCatalogueFromFirstVersions(t *testing.T) {
	t.Parallel()
	names := []string{"0001_tables.sql", "0002_strategies.sql"}
	for version := 1; version <= len(names); version++ {
		steps := fstest.MapFS{}
		for _, name := range names[:version] {
			text, err := fs.ReadFile(migrations, "migrations/catalogue/"+name)
			must(t, err)
			steps[name] = &fstest.MapFile{Data: text}
		}
		path := filepath.Join(t.TempDir(), "quern.db")
		old := catalogueKind
		old.Version = uint32(version)
		must(t, ensure(ctx, path, old, sqlitedb.Owner{}, steps))
		conn, err := sqlitedb.Open(path, old, sqlitedb.Options{})
		must(t, err)
		must(t, conn.Exec("INSERT INTO secret (name, bytes) VALUES ('token', x'00112233445566778899aabbccddeeff')"))
		if version > 1 {
			must(t, conn.Exec(insertStrategy+"(0, 'a', 1, 'Random', 1)"))
		}
		must(t, conn.Close())
		c := openCatalogue(t, path)
		if key, err := c.Secret("token", 16, nil); err != nil || key[15] != 0xff {
			t.Errorf("version %d: Secret = %x, %v; want what was there before", version, key, err)
		}
		if got, err := c.Adoptable(0); err != nil || len(got) != version-1 {
			t.Errorf("version %d: Adoptable = %v, %v; want what was there before", version, got, err)
		}
		must(t, c.Close())
	}
}
