package pg

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/journal"
)

func putBlob(b *Backend, key, content string) error {
	return b.Blobs().Put(ctx, key, []byte(content))
}

// Batches up to the largest are read as they were appended, among small ones, although no page of a Read has a large one whole.
func TestLargeBatches(t *testing.T) {
	t.Parallel()
	b := begin(t, Options{})
	l := openLog(t, b, "j")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	noise := make([]byte, journal.MaxBatchBytes)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(noise)
	sizes := []int{3, partBytes, partBytes + 1, 0, 3*partBytes - 1, 3 * partBytes, len(noise), 5}
	total := int64(0)
	for i, n := range sizes {
		appendTo(t, l, journal.Position(i), string(noise[:n]))
		total += int64(n)
	}
	for _, reader := range []*log{l, openLog(t, b, "j")} {
		for after := range sizes {
			if after > 0 && after < len(sizes)-2 {
				continue // from the start, and from either side of the largest
			}
			next := after
			err := reader.Read(ctx, journal.Position(after), func(at journal.Position, batch []byte) error {
				if int(at) != next+1 || !bytes.Equal(batch, noise[:sizes[next]]) {
					return fmt.Errorf("got batch %d of %d bytes, want %d of %d", at, len(batch), next+1, sizes[next])
				}
				next++
				return nil
			})
			if err != nil || next != len(sizes) {
				t.Fatalf("Read(after %d) ended before batch %d: %v", after, next+1, err)
			}
		}
		if reader.Size() != total {
			t.Errorf("Size = %d, want %d", reader.Size(), total)
		}
	}
}

// A part of a batch that is lost or changed in the database is damage, never another batch.
func TestDamagedBatches(t *testing.T) {
	t.Parallel()
	for _, damage := range []string{
		"DELETE FROM batch WHERE n = 2 AND part = 1", "DELETE FROM batch WHERE n = 2 AND part = 0", "DELETE FROM batch WHERE n = 2",
		"UPDATE batch SET bytes = set_byte(bytes, 7, 1) WHERE n = 2 AND part = 1", "UPDATE batch SET rest = 0 WHERE n = 2 AND part = 1",
		"UPDATE batch SET sum = set_byte(sum, 3, get_byte(sum, 3) # 1) WHERE n = 2", "UPDATE batch SET sum = '' WHERE n = 2 AND part = 2",
	} {
		b := begin(t, Options{})
		l := openLog(t, b, "j")
		reader := openLog(t, b, "j")
		appendTo(t, l, 0, "one")
		appendTo(t, l, 1, string(make([]byte, 3*partBytes)))
		appendTo(t, l, 2, "three")
		server.Exec(t, "SET search_path TO "+b.o.Schema+"; "+damage)
		err := reader.Read(ctx, 0, func(at journal.Position, _ []byte) error {
			if at > 1 {
				return fmt.Errorf("read batch %d", at)
			}
			return nil
		})
		if _, is := asFormatError(err); !is {
			t.Errorf("%s: Read = %v; want a FormatError", damage, err)
		}
	}
}

// A writer that was overtaken and does not know it deletes nothing.
func TestOvertakenWriterTrimsNothing(t *testing.T) {
	t.Parallel()
	b := begin(t, Options{})
	old := openLog(t, b, "j")
	for i := range 5 {
		appendTo(t, old, journal.Position(i), fmt.Sprint(i))
	}
	appendTo(t, openLog(t, b, "j"), 5, "5")
	if err := old.Trim(ctx, 5); err != nil {
		t.Fatal(err)
	}
	if err := old.Reclaim(ctx); err != nil {
		t.Fatal(err)
	}
	wantBatches(t, b, "j", "0", "1", "2", "3", "4", "5")
}

// A notification wakes the waiting node; without one it looks by itself.
func TestNotifications(t *testing.T) {
	t.Parallel()
	schema := schemaOf(t.TempDir())
	b, other := begin(t, Options{Schema: schema}), begin(t, Options{Schema: schema})
	l, watching := openLog(t, b, "j"), openLog(t, other, "j")
	other.listen()
	server.Until(t, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query = 'LISTEN "+b.channel()+"' AND state = 'idle')")
	grown := other.hub.next(watching.id)
	appendTo(t, l, 0, "one")
	<-grown // no one looks: it is the notification
	server.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN "+b.channel()+"'")
	waited := make(chan error, 1)
	go func() { waited <- watching.Wait(ctx, 1) }()
	appendTo(t, l, 1, "two")
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
}

// Servers with different schemas share nothing. If several start on a new schema, one of them makes it.
func TestSchemas(t *testing.T) {
	t.Parallel()
	schema := schemaOf(t.TempDir())
	opened := make(chan error, 6)
	for range cap(opened) {
		go func() {
			b, err := Open(ctx, Options{URL: server.URL(), Schema: schema, AcceptAsync: true})
			if err == nil {
				err = b.Close()
			}
			opened <- err
		}()
	}
	for range cap(opened) {
		if err := <-opened; err != nil {
			t.Error(err)
		}
	}
	one, two := begin(t, Options{Schema: schema}), begin(t, Options{})
	appendTo(t, openLog(t, one, "j"), 0, "one")
	appendTo(t, openLog(t, two, "j"), 0, "two")
	if err := putBlob(one, "k", "one"); err != nil {
		t.Fatal(err)
	}
	if err := putBlob(two, "k", "two"); err != nil {
		t.Fatal(err)
	}
	if err := one.Leases().Beat(ctx, cluster.Node{Name: "a", URL: "http://a"}); err != nil {
		t.Fatal(err)
	}
	if nodes, err := two.Leases().Nodes(ctx); err != nil || len(nodes) != 0 {
		t.Errorf("Nodes = %v, %v; want none of the other schema", nodes, err)
	}
	wantBatches(t, one, "j", "one")
	wantBatches(t, two, "j", "two")
}

// A node that has not beaten for an hour is forgotten, and makes room.
func TestForgottenNodes(t *testing.T) {
	t.Parallel()
	b := begin(t, Options{})
	for i := range cluster.MaxNodes {
		if err := b.Leases().Beat(ctx, cluster.Node{Name: fmt.Sprint("n", i), URL: "http://h"}); err != nil {
			t.Fatal(err)
		}
	}
	server.Exec(t, "UPDATE "+b.o.Schema+".node SET seen = now() - interval '61 minutes' WHERE name <> 'n3'")
	if err := b.Leases().Beat(ctx, cluster.Node{Name: "new", URL: "http://h"}); err != nil {
		t.Fatal(err)
	}
	nodes, err := b.Leases().Nodes(ctx)
	if err != nil || len(nodes) != 2 || nodes[0].Name != "n3" || nodes[1].Name != "new" {
		t.Errorf("Nodes = %v, %v; want n3 and new", nodes, err)
	}
}

// A beat does not wait for appends that have all connections.
func TestBeatsAreApart(t *testing.T) {
	t.Parallel()
	b := begin(t, Options{Conns: 1})
	l := openLog(t, b, "j")
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	appended := make(chan error, 1)
	over, cancel := context.WithCancel(ctx)
	go func() {
		_, err := l.Append(over, 0, []byte("x"))
		appended <- err
	}()
	if err := b.Leases().Beat(ctx, cluster.Node{Name: "a", URL: "http://a"}); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-appended; err == nil {
		t.Error("an append found a connection")
	}
	conn.Release()
	appendTo(t, l, 0, "x")
}
