package store

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/quern-queue/quern/engine/sqlitedb"
)

// A store whose contents are gone gives their room back, and what stays reads as before, also when it is opened again. A file of a version
// whose files could not shrink does so once it holds little.
func TestShrink(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old  bool
		stay int // every so many-th submission, of a megabyte each
	}{
		"little stays":               {false, 40},
		"much stays":                 {false, 4},
		"an old file, little stays":  {true, 40},
		"an old file, nothing stays": {true, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "store.db")
			s := open(t, path, Options{})
			defer func() { must(t, s.Close()) }()
			if c.old {
				must(t, s.Close())
				conn, err := sqlitedb.OpenUnfinished(path)
				must(t, err)
				must(t, errors.Join(conn.Exec("PRAGMA auto_vacuum = NONE; VACUUM"), conn.Close()))
				s = open(t, path, Options{})
			}
			const seqs = 80
			random := rand.NewChaCha8([32]byte{1})
			contents := make([][]byte, seqs)
			for i := range contents {
				contents[i] = make([]byte, 1<<20)
				_, _ = random.Read(contents[i])
				must(t, s.WriteContent(ctx, uint32(i), 0, [][]byte{contents[i]}))
			}
			stays := func(seq uint32) bool { return int(seq)%c.stay == c.stay-1 }
			_, err := s.SweepOrphans(ctx, stays)
			must(t, err)
			for _, tight := range []bool{false, true} {
				for more := true; more; {
					more, err = s.Space.Shrink(ctx, tight, 4<<20)
					must(t, err)
				}
				bound := int64(freeBytes)
				if tight {
					bound = freeBytesTight
				}
				info, err := os.Stat(path)
				must(t, err)
				if free, most := s.Space.Free(), int64(seqs/c.stay+1)<<20+bound; free > bound || info.Size() > most {
					t.Errorf("tight %v: the file has %d bytes, %d of them free; want %d at most, %d of them free", tight, info.Size(), free, most,
						bound)
				}
			}
			reopen(t, s)
			for seq := range uint32(seqs) {
				if got, err := s.ReadContent(ctx, seq, 0); stays(seq) && (err != nil || !bytes.Equal(got, contents[seq])) {
					t.Errorf("content %d is %d bytes, %v; want those that were written", seq, len(got), err)
				}
			}
		})
	}
}
