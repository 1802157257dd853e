package store

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// fullCatalogue makes a catalogue with rows in all of its tables, changed and deleted ones among them.
func fullCatalogue(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "quern.db")
	c := openCatalogue(t, path)
	id, err := c.Begin(rand.NewChaCha8([32]byte{1}))
	must(t, err)
	must(t, c.Begun(id))
	act := queue.Act{At: 5, Action: "queue.put", Target: "work", After: "{}"}
	for shard, name := range []string{"default", "work", "gone"} {
		must(t, c.Leave(queue.ShardID(shard)))
		must(t, c.PutQueue(QueueRow{Name: name, Shard: queue.ShardID(shard), Settings: queue.DefaultSettings(), Created: queue.Time(shard + 1)}, act))
	}
	must(t, c.DeleteQueue(QueueRow{Name: "gone", Shard: 2, Created: 3}))
	_, err = c.Secret("token", 16, rand.NewChaCha8([32]byte{2}))
	must(t, err)
	must(t, c.PutPluginVersion(queue.PluginVersion{SHA256: queue.SHA256{1}, Name: "p", Version: "1.0.0", State: "ready", Size: 3, Manifest: []byte(`{"a":1}`), Report: []byte(`{}`), Created: 7, Actor: "ana"}, []byte("module")))
	must(t, c.SetPluginState(queue.SHA256{1}, "quarantined", "it failed"))
	must(t, c.PutPluginRecord(queue.PluginRecord{Name: "p", Revision: 1, Active: queue.PluginUse{SHA256: queue.SHA256{1}, Config: []byte(`{}`)}, Settings: []byte(`{}`), Changed: 8, Actor: "ana"}))
	for i, token := range []string{"abcdefghabcd", "hgfedcbahgfe"} {
		must(t, c.PutToken(access.Token{ID: access.ID(token), Name: fmt.Sprint("ci", i), Scopes: access.Consume, Created: 3, Secret: access.Hash{byte(i + 1)}, Restriction: access.Restriction{Entry: queue.MetaEntry{Key: "customer", Value: queue.StringValue("acme")}}}))
	}
	must(t, c.UseTokens(map[access.ID]queue.Time{"abcdefghabcd": 11}))
	must(t, c.Close())
	must(t, openCatalogue(t, path).Close())
	return path
}

// editing runs a statement on a file as another program would, which knows nothing of checksums.
func editing(t *testing.T, path, sql string) {
	t.Helper()
	db, err := sqlitedb.SQL(path)
	must(t, err)
	if _, err := db.Exec(sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	must(t, db.Close())
}

func copied(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	to := filepath.Join(t.TempDir(), "quern.db")
	must(t, os.WriteFile(to, b, 0o600))
	return to
}

// If a row of the catalogue differs from the written one, although it makes sense, the open is refused, and the error
// names the table and the row. So does one that is gone, or that no one wrote.
func TestCatalogueRowsAreChecked(t *testing.T) {
	t.Parallel()
	path := fullCatalogue(t)
	for table, changes := range map[string][]string{
		"queue":          {"UPDATE queue SET created = created + 1", "UPDATE queue SET quarantined = 5", `UPDATE queue SET settings = replace(settings, '"max_attempts":10', '"max_attempts":11')`, "DELETE FROM queue WHERE name = 'work'"},
		"leftover":       {"UPDATE leftover SET shard = 3", "DELETE FROM leftover", "INSERT INTO leftover VALUES (1)"},
		"secret":         {"UPDATE secret SET bytes = x'00112233445566778899aabbccddeeff'", "UPDATE secret SET name = 'tokem'"},
		"plugin_version": {"UPDATE plugin_version SET state = 'ready'", `UPDATE plugin_version SET manifest = x'7b7d'`},
		"plugin":         {"UPDATE plugin SET percent = 1", "UPDATE plugin SET canary = active", "DELETE FROM plugin"},
		"token":          {"UPDATE token SET scopes = 'admin'", "UPDATE token SET meta_value = 'acmf'", "UPDATE token SET meta_key = NULL", "UPDATE token SET used = 1"},
		"access":         {"UPDATE access SET required = 0", "DELETE FROM access"},
	} {
		for _, sql := range changes {
			t.Run(sql, func(t *testing.T) {
				t.Parallel()
				file := copied(t, path)
				editing(t, file, sql)
				c, err := OpenCatalogue(ctx, file)
				if err == nil {
					c.Close()
					t.Fatal("it was opened")
				}
				for _, want := range []string{file, "row ", "table " + table, "restore"} {
					if !isFormat(err) || !strings.Contains(err.Error(), want) {
						t.Errorf("error %q: want a *queue.FormatError with %q", err, want)
					}
				}
			})
		}
	}
}

// A flipped bit anywhere in the catalogue is refused, or changes no answer of the catalogue.
func TestCatalogueBitFlips(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	path := fullCatalogue(t)
	sound, err := os.ReadFile(path)
	must(t, err)
	want, err := describe(path)
	must(t, err)
	var used []int // bytes that hold something: elsewhere a flip is harmless
	for at, b := range sound {
		if b != 0 {
			used = append(used, at)
		}
	}
	dir := t.TempDir()
	for i := range 300 {
		at, bit := used[rnd.IntN(len(used))], rnd.IntN(8)
		b := append([]byte(nil), sound...)
		b[at] ^= 1 << bit
		file := filepath.Join(dir, fmt.Sprint(i), "quern.db")
		must(t, os.Mkdir(filepath.Dir(file), 0o700))
		must(t, os.WriteFile(file, b, 0o600))
		if got, err := describe(file); err == nil && got != want {
			t.Errorf("seed %d: bit %d of byte %d flipped: %s", seed, bit, at, firstDifference(want, got))
		}
	}
}

// describe is everything that a catalogue holds, in one text.
func describe(path string) (text string, err error) {
	c, err := OpenCatalogue(ctx, path)
	if err != nil {
		return "", err
	}
	defer c.Close()
	var b strings.Builder
	tell := func(what any, e error) {
		fmt.Fprintf(&b, "%+v\n", what)
		if err == nil {
			err = e
		}
	}
	queues, e := c.Queues()
	tell(len(queues), e)
	for i := range queues {
		tell(fmt.Sprintf("%+v", queues[i]), nil)
	}
	leftovers, e := c.Leftovers()
	tell(leftovers, e)
	secret, e := c.Secret("token", 16, rand.NewChaCha8([32]byte{9}))
	tell(secret, e)
	versions, e := c.PluginVersions()
	tell(versions, e)
	records, e := c.PluginRecords()
	tell(records, e)
	tokens, required, e := c.Tokens()
	for i := range tokens {
		tokens[i].Use = nil
	}
	tell(fmt.Sprint(tokens, required), e)
	e = c.Acts(ActPlace{At: 1 << 40}, func(a *ActRow) bool { tell(*a, nil); return true })
	tell("acts", e)
	return b.String(), err
}

// firstDifference is the first line in which two texts differ.
func firstDifference(want, got string) string {
	wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(wants), len(gots)) {
		if wants[i] != gots[i] {
			return fmt.Sprintf("it tells\n%s\nwant\n%s", gots[i], wants[i])
		}
	}
	return fmt.Sprintf("it tells %d lines, want %d", len(gots), len(wants))
}

// A column that a later version adds to a table changes no checksum, until a row has a value in it.
func TestAddedColumn(t *testing.T) {
	t.Parallel()
	path := fullCatalogue(t)
	editing(t, path, "ALTER TABLE queue ADD COLUMN more INTEGER")
	must(t, openCatalogue(t, path).Close())
	editing(t, path, "UPDATE queue SET more = 1 WHERE name = 'work'")
	if _, err := OpenCatalogue(ctx, path); !isFormat(err) {
		t.Errorf("OpenCatalogue after a change of a row = %v; want a *queue.FormatError", err)
	}
}
