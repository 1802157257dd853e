package store

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/blobs/blobtest"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// A store is a medium of blobs.
func TestBlobs(t *testing.T) {
	t.Parallel()
	blobtest.Exercise(t, blobtest.Medium{
		Open: func(t *testing.T, dir string) (blobs.Blobs, func() error) {
			s, err := Open(ctx, filepath.Join(dir, "store.db"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			return &s.Blobs, s.Close
		},
		Damage: func(t *testing.T, dir, key string) {
			db, err := sqlitedb.SQL(filepath.Join(dir, "store.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			done, err := db.Exec("UPDATE blob_page SET bytes = CAST(bytes || x'fe' AS BLOB) "+
				"WHERE k >> 32 = (SELECT n FROM blob WHERE key = ?)", key)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := done.RowsAffected(); n == 0 || err != nil {
				t.Fatalf("%d rows of %s were changed, %v", n, key, err)
			}
		},
	})
}

// Chunks are read out of blobs as they went in, from memory and from the file, one by one and many at once, up to so many bytes; and all
// chunks of a submission are in its blobs.
func TestChunksInBlobs(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	var chunks [][]byte
	for range 30_000 {
		chunk := make([]byte, rnd.IntN(300))
		if rnd.IntN(1000) == 0 {
			chunk = make([]byte, rnd.IntN(200_000))
		}
		for i := range chunk {
			chunk[i] = byte(rnd.IntN(5) * rnd.IntN(60))
		}
		chunks = append(chunks, chunk)
	}
	s := fresh(t)
	for number, rest := 0, chunks; len(rest) > 0; number++ {
		b, n := PackBlob(nil, rest)
		kept, put := blobs.Key(1, 2, 3, number), blobs.Key(1, 3, 3, number)
		s.Memtable.KeepBlob(kept, b)
		must(t, s.Blobs.Put(ctx, put, b))
		readsChunks(t, s, kept, rest[:n], rnd)
		readsChunks(t, s, put, rest[:n], rnd)
		if all, err := s.Blobs.ReadAll(ctx, kept); err != nil || !bytes.Equal(all, b) {
			t.Fatalf("part %d has %d bytes in memory, %v; want %d", number, len(all), err, len(b))
		}
		must(t, s.Memtable.Flush(ctx))
		readsChunks(t, s, kept, rest[:n], rnd)
		if size, there, err := s.Blobs.Has(ctx, kept); size != int64(len(b)) || !there || err != nil {
			t.Fatalf("Has = %d, %v, %v; want %d", size, there, err, len(b))
		}
		if _, err := s.Blobs.ReadChunks(ctx, put, []uint32{uint32(n)}, 1); !errors.Is(err, ErrMissing) {
			t.Fatalf("a chunk behind the last one: %v, want ErrMissing", err)
		}
		rest = rest[n:]
	}
	if got := s.Memtable.Bytes(); got != 0 {
		t.Errorf("%d bytes are in memory after a flush", got)
	}
	if n := rowsIn(t, s, "blob"); n < 4 {
		t.Errorf("there are %d blobs: the chunks fit into one part, so this test shows nothing", n)
	}
	_, err := s.History.Forget(ctx, []Outlived{{Seq: 3}})
	must(t, err)
	for _, table := range []string{"blob", "blob_page"} {
		if n := rowsIn(t, s, table); n != 0 {
			t.Errorf("%d rows are left in %s of a submission that was forgotten", n, table)
		}
	}
}

func readsChunks(t *testing.T, s *Store, key string, want [][]byte, rnd *rand.Rand) {
	t.Helper()
	for range 20 {
		var indexes []uint32
		for first := rnd.IntN(len(want)); len(indexes) < 1+rnd.IntN(20); first = (first + rnd.IntN(2) + rnd.IntN(100)/99*5000) % len(want) {
			indexes = append(indexes, uint32(first))
		}
		most := rnd.IntN(2000)
		got, err := s.Blobs.ReadChunks(ctx, key, indexes, most)
		if err != nil || len(got) == 0 {
			t.Fatalf("ReadChunks(%v) = %d chunks, %v", indexes, len(got), err)
		}
		for i := range got {
			if most -= len(got[i]); !bytes.Equal(got[i], want[indexes[i]]) || most < 0 && i > 0 {
				t.Fatalf("chunk %d of %s has %d bytes, want %d; %d bytes of room are left", indexes[i], key, len(got[i]), len(want[indexes[i]]), most)
			}
		}
		if len(got) < len(indexes) && most >= len(want[indexes[len(got)]]) {
			t.Fatalf("ReadChunks left out a chunk of %d bytes with room for %d", len(want[indexes[len(got)]]), most)
		}
	}
}
