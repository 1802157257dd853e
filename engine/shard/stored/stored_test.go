package stored

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
	"github.com/quern-queue/quern/engine/store"
)

const (
	shard = queue.ShardID(3)
	epoch = 7
)

// contents are those of n chunks, each named by its index. The second one is longer than the others.
func contents(n int) (all [][]byte) {
	for i := range n {
		all = append(all, fmt.Appendf(nil, "chunk %d", i))
	}
	all[1] = append(all[1], " with more to read"...)
	return all
}

// inBlobs is a submission of 9 chunks whose bytes are in three blobs of 4, 4 and 1 chunks, and one with its attachment. Those that are
// lost are not put.
func inBlobs(t *testing.T, lost ...int) (Bytes, *machine.Record) {
	x := Bytes{ID: shard, Store: shelltest.New(t).Store()}
	b := &journal.Blobs{Epoch: epoch, Firsts: []uint32{0, 4, 8}}
	parts := [][]byte{nil, nil, nil, []byte("attached")}
	all := contents(9)
	for i, n := range []int{4, 4, 1} {
		parts[i], _ = store.PackBlob(nil, all[b.Firsts[i]:][:n])
	}
	keys := Keys(shard, 5, b, true)
	for i, part := range parts {
		b.Size += uint64(len(part))
		if len(lost) == 0 || lost[0] != i {
			if err := x.Store.Blobs.Put(t.Context(), keys[i], part); err != nil {
				t.Fatal(err)
			}
		}
	}
	return x, machine.NewRecord(&journal.Insert{Seq: 5, ID: 9, Chunks: 9, Inline: true, Attachment: true, Blobs: b})
}

// inRows is the same submission, with its bytes in rows of its own.
func inRows(t *testing.T) (Bytes, *machine.Record) {
	x := Bytes{ID: shard, Store: shelltest.New(t).Store()}
	x.Store.Memtable.KeepContents(&journal.Contents{Seq: 5, Pages: store.PackContent(contents(9)), Attachment: []byte("attached")})
	return x, machine.NewRecord(&journal.Insert{Seq: 5, ID: 9, Chunks: 9, Inline: true, Attachment: true})
}

// However the bytes of a submission are stored, reads are alike: in the requested order, up to a number of bytes, and
// at least one content.
func TestBytesReadAlike(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(*testing.T) (Bytes, *machine.Record){
		"rows":  inRows,
		"blobs": func(t *testing.T) (Bytes, *machine.Record) { return inBlobs(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, r := make(t)
			all := contents(9)
			for _, c := range []struct {
				indexes []uint32
				most    int
				want    int
			}{
				{indexes: []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8}, most: 1000, want: 9},
				{indexes: []uint32{3, 4, 8}, most: 1000, want: 3},
				{indexes: []uint32{8, 1}, most: 1000, want: 2},
				{indexes: []uint32{3, 4, 8}, most: 3 * len("chunk 0"), want: 3},
				{indexes: []uint32{3, 4, 8}, most: 2*len("chunk 0") + 1, want: 2},
				{indexes: []uint32{0, 1, 4}, most: len("chunk 0"), want: 1},
				{indexes: []uint32{0, 1, 4}, most: 2 * len("chunk 0"), want: 1}, // there is room for the third one, which comes later
				{indexes: []uint32{4, 8}, most: 0, want: 1},
				{indexes: nil, most: 9},
			} {
				got, err := x.Chunks(t.Context(), r, c.indexes, c.most)
				if err != nil || len(got) != c.want {
					t.Errorf("chunks %v in %d bytes: %d, %v; want %d", c.indexes, c.most, len(got), err, c.want)
				}
				for i := range got {
					if !bytes.Equal(got[i], all[c.indexes[i]]) {
						t.Errorf("chunk %d reads %q", c.indexes[i], got[i])
					}
				}
			}
			if got, err := x.Attachment(t.Context(), r); err != nil || string(got) != "attached" {
				t.Errorf("the attachment reads %q, %v", got, err)
			}
		})
	}
}

// A submission whose blobs are not all there, or not as long as its insert says, is damaged, for reads of any part of
// it.
func TestBlobsThatAreLost(t *testing.T) {
	t.Parallel()
	check := func(name string, x Bytes, r *machine.Record, want string) {
		t.Helper()
		_, chunks := x.Chunks(t.Context(), r, []uint32{0}, 1000)
		_, attachment := x.Attachment(t.Context(), r)
		for _, err := range []error{x.Intact(t.Context(), r), chunks, attachment} {
			if damage, is := errors.AsType[*queue.FormatError](err); !is || !strings.Contains(damage.Reason, want) {
				t.Errorf("%s: %v, want damage that names %q", name, err, want)
			}
		}
	}
	for part := range 4 {
		x, r := inBlobs(t, part)
		check(fmt.Sprintf("part %d is lost", part), x, r, blobs.Key(shard, epoch, 5, part))
	}
	x, r := inBlobs(t)
	r.Details().Blobs.Size++
	check("of another size", x, r, "whose blobs have others")
	r.Details().Blobs.Intact = true // it was seen before: the store is not asked again
	if _, err := x.Chunks(t.Context(), r, []uint32{0}, 1000); err != nil {
		t.Errorf("known to be intact: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if r.Details().Blobs.Intact = false; !errors.Is(x.Intact(ctx, r), context.Canceled) {
		t.Error("a call that was given up is said to find damage")
	}
}

// The keys of a submission are those of its parts, and behind them that of its attachment.
func TestKeys(t *testing.T) {
	t.Parallel()
	b := &journal.Blobs{Epoch: epoch, Firsts: []uint32{0, 6}}
	for attached, want := range map[bool]int{false: 2, true: 3} {
		keys := Keys(shard, 5, b, attached)
		if len(keys) != want {
			t.Fatalf("attached %t: %v, want %d", attached, keys, want)
		}
		for i, key := range keys {
			if e, seq, part, is := blobs.ParseKey(key); !is || e != epoch || seq != 5 || part != i {
				t.Errorf("key %d is %s", i, key)
			}
		}
	}
}
