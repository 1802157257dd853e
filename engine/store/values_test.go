package store

import (
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// What is set for values is kept over restarts, every field and both kinds of values; queues do not touch each other, and a
// queue takes its settings with it.
func TestCatalogueValues(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "quern.db")
	c := openCatalogue(t, path)
	must(t, c.PutQueue(QueueRow{Name: "default", Shard: 0, Settings: queue.DefaultSettings(), Created: 1}))
	must(t, c.PutQueue(QueueRow{Name: "other", Shard: 7, Settings: queue.DefaultSettings(), Created: 1}))
	row := func(shard queue.ShardID, value queue.MetaValue, limit, weight, version uint32) ValueRow {
		return ValueRow{shard, queue.MetaEntry{Key: "k", Value: value}, queue.ValueSettings{Limit: limit, Weight: weight}, version, queue.Time(version)}
	}
	want := []ValueRow{
		row(0, queue.IntValue(-1<<63), 0, 0, 1),
		row(0, queue.IntValue(7), queue.NoLimit, queue.MaxWeight, 1<<32-1),
		row(0, queue.StringValue(""), queue.MaxValueLimit, 1, 2),
		row(0, queue.StringValue("7"), 5, 0, 3),
		row(0, queue.StringValue("7\x00€"), 6, 2500, 4),
		row(7, queue.StringValue("7"), 9, 0, 1),
	}
	for _, v := range want {
		must(t, c.PutValue(row(v.Shard, v.Entry.Value, 77, 77, 1)))
		must(t, c.PutValue(v))
	}
	must(t, c.PutValue(row(0, queue.StringValue("gone"), 1, 1, 1)))
	must(t, c.DeleteValue(0, queue.MetaEntry{Key: "k", Value: queue.StringValue("gone")}))
	must(t, c.DeleteValue(0, queue.MetaEntry{Key: "k", Value: queue.StringValue("never was")}))
	for range 2 {
		if got, err := c.Values(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Values = %v, %v; want %v", got, err, want)
		}
		must(t, c.Close())
		c = openCatalogue(t, path)
	}
	must(t, c.DeleteValue(0, queue.MetaEntry{Key: "k", Value: queue.IntValue(7)}))
	must(t, c.DeleteQueue("other"))
	want = append(want[:1:1], want[2:5]...)
	if got, err := c.Values(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("after the deletions: Values = %v, %v; want %v", got, err, want)
	}
	for _, broken := range []string{"most = -1", "most = 2147483648", "weight = 1000001", "version = 0", "version = 4294967296", "value = x'00'"} {
		must(t, c.conn.Exec("SAVEPOINT s; UPDATE meta_value SET "+broken+" WHERE value = ''"))
		if _, err := c.Values(); !isFormat(err) || !strings.Contains(err.Error(), `"k"`) {
			t.Errorf("Values with %s = %v; want a *journal.FormatError that names the key", broken, err)
		}
		must(t, c.conn.Exec("ROLLBACK TO s; RELEASE s"))
	}
	must(t, c.Close())
}

// A catalogue from before values had settings keeps what it has and learns of them.
func TestCatalogueFromVersionTwo(t *testing.T) {
	t.Parallel()
	steps := fstest.MapFS{}
	for _, name := range []string{"0001_tables.sql", "0002_strategies.sql"} {
		text, err := fs.ReadFile(migrations, "migrations/catalogue/"+name)
		must(t, err)
		steps[name] = &fstest.MapFile{Data: text}
	}
	path := filepath.Join(t.TempDir(), "quern.db")
	old := catalogueKind
	old.Version = 2
	must(t, ensure(ctx, path, old, sqlitedb.Owner{}, steps))
	conn, err := sqlitedb.Open(path, old, sqlitedb.Options{})
	must(t, err)
	must(t, conn.Exec("INSERT INTO strategy (shard, name, version, text, created) VALUES (0, 'a', 1, 'Random', 1)"))
	must(t, conn.Close())
	c := openCatalogue(t, path)
	if got, err := c.Strategies(); err != nil || len(got) != 1 || got[0].Text != "Random" {
		t.Errorf("Strategies = %v, %v; want what was there before", got, err)
	}
	v := ValueRow{0, queue.MetaEntry{Key: "k", Value: queue.IntValue(1)}, queue.ValueSettings{Limit: 1}, 1, 1}
	must(t, c.PutValue(v))
	if got, err := c.Values(); err != nil || !reflect.DeepEqual(got, []ValueRow{v}) {
		t.Errorf("Values = %v, %v; want %v", got, err, v)
	}
	must(t, c.Close())
}
