package store

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// A store whose contents are gone gives their room back, and the remaining ones read as before, also when it is opened
// again.
//
//quern:sequential
func TestShrink(t *testing.T) {
	t.Parallel()
	for name, every := range map[string]int{ // so many-th submission stays, of a megabyte each
		"little stays":  40,
		"much stays":    4,
		"nothing stays": 1000,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "store.db")
			s := open(t, path, Options{})
			defer func() { must(t, s.Close()) }()
			const seqs = 80
			random := rand.NewChaCha8([32]byte{1})
			contents := make([][]byte, seqs)
			for i := range contents {
				contents[i] = make([]byte, 1<<20)
				_, _ = random.Read(contents[i])
				must(t, s.WriteContent(ctx, uint32(i), 0, [][]byte{contents[i]}))
			}
			stays := func(seq uint32) bool { return int(seq)%every == every-1 }
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
				if free, most := s.Space.Free(), int64(seqs/every+1)<<20+bound; free > bound || info.Size() > most {
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
