// The tests of this package start PostgreSQL servers.
//
//quern:tests processes
package pg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/cluster/clustertest"
	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/journaltest"
)

// server is shared by all tests that do not change it.
var server *pgtest.Server

func TestMain(m *testing.M) {
	var err error
	if server, err = pgtest.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

var ctx = context.Background()

// schemaOf is the schema for a dir. No two dirs share one.
func schemaOf(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return "t" + hex.EncodeToString(sum[:8])
}

// begin opens a backend with its own schema. It ends with the test.
func begin(t testing.TB, o Options) *Backend {
	t.Helper()
	if o.URL == "" {
		o.URL = server.URL()
	}
	if o.Schema == "" {
		o.Schema = schemaOf(t.TempDir())
	}
	o.AcceptAsync = true
	b, err := Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// openLog opens a handle of a journal, which is closed with the test.
func openLog(t testing.TB, b *Backend, name string) *log {
	t.Helper()
	err := b.MakeJournal(ctx, name, 0)
	if err != nil {
		t.Fatal(err)
	}
	j, err := b.Journal(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j.(*log)
}

func appendTo(t testing.TB, l *log, expect journal.Position, batch string) {
	t.Helper()
	if at, err := l.Append(ctx, expect, []byte(batch)); err != nil || at != expect+1 {
		t.Fatalf("Append(expect %d) = %d, %v", expect, at, err)
	}
}

// A schema of a real PostgreSQL does all that a backend must.
func TestBackend(t *testing.T) {
	t.Parallel()
	var proxies sync.Map // *Backend -> *pgtest.Proxy
	clustertest.Exercise(t, clustertest.Medium{
		Open: func(t *testing.T, dir string) (cluster.Backend, func() error) {
			proxy := server.Front(t)
			b, err := Open(ctx, Options{URL: proxy.URL(), Schema: schemaOf(dir), AcceptAsync: true})
			if err != nil {
				t.Fatal(err)
			}
			proxies.Store(b, proxy)
			return b, func() error { return errors.Join(b.Close(), proxy.Close()) }
		},
		Rewind: func(t *testing.T, dir string, to journal.Position) {
			server.Exec(t, fmt.Sprintf(`SET search_path TO %s; DELETE FROM batch WHERE n > %d;
				UPDATE journal SET tail = %[2]d, sum = (SELECT sum FROM batch WHERE n = %[2]d AND part = 0)`, schemaOf(dir), to))
		},
		Fail: func(j journal.Journal, o journaltest.Outcome, tries int, made func()) {
			proxy, _ := proxies.Load(j.(*log).b)
			proxy.(*pgtest.Proxy).Fail(o, tries, made)
		},
		Damage: func(t *testing.T, dir, key string) {
			server.Exec(t, fmt.Sprintf("UPDATE %s.blob SET bytes = set_byte(bytes, 0, get_byte(bytes, 0) # 1) WHERE key = '%s'", schemaOf(dir), key))
		},
	})
}
