package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/s2"
	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
)

// noise is bytes that cannot be compressed, the same for the same seed.
func noise(seed uint64, size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(b)
	return b
}

// A packed page is read as the page that it was; small pages, large ones and those with nothing to compress are kept as
// they are.
func TestPackPage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		page   []byte
		packed bool
	}{
		"texts": {appendContentPage(nil, [][]byte{bytes.Repeat([]byte("abc"), 100), bytes.Repeat([]byte("abd"), 100)}), true},
		"small": {appendContentPage(nil, [][]byte{[]byte("one"), []byte("two")}), false},
		"noise": {appendContentPage(nil, [][]byte{noise(1, 1000), noise(2, 1000)}), false},
		"large": {appendContentPage(nil, [][]byte{make([]byte, packMost)}), false},
	} {
		kept := packPage(c.page)
		if packed := len(kept) < len(c.page); packed != c.packed {
			t.Errorf("%s: %d bytes are kept in %d; want packed %t", name, len(c.page), len(kept), c.packed)
		}
		if got, err := unpackPage(kept); err != nil || !bytes.Equal(got, c.page) {
			t.Errorf("%s: got %d bytes, %v", name, len(got), err)
		}
	}
}

// No bytes make unpacking give more than a page may hold, and bytes that are not a block are an error.
func TestUnpackDamage(t *testing.T) {
	t.Parallel()
	kept := packPage(appendContentPage(nil, [][]byte{bytes.Repeat([]byte("abc"), 1000)}))
	for cut := 1; cut < len(kept); cut++ {
		if page, err := unpackPage(kept[:cut]); err == nil {
			t.Errorf("%d of %d bytes are taken for a page of %d", cut, len(kept), len(page))
		}
	}
	for name, b := range map[string][]byte{
		"too much":              binary.AppendUvarint([]byte{0}, packMost+1),
		"nothing":               append([]byte{0}, s2.Encode(nil, nil)...),
		"packed once too often": append([]byte{0}, s2.Encode(nil, kept)...),
	} {
		if _, err := unpackPage(b); !errors.Is(err, errPage) {
			t.Errorf("%s: %v, want %v", name, err, errPage)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		b := append([]byte{0}, rapid.SliceOf(rapid.Byte()).Draw(t, "block")...)
		if page, err := unpackPage(b); err == nil && (len(page) > packMost || len(page) == 0) {
			t.Fatalf("%x unpacks to %d bytes", b, len(page))
		}
	})
}

// Every kind of page that is packed takes a third of the room, or less, when clients bring texts that resemble each other.
func TestPackedRows(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	text := func(i int) []byte {
		return fmt.Appendf(nil, `{"image":"s3://bucket/in/%04d.png","width":1920,"height":1080,"mode":"live"}`, i)
	}
	const n = 300
	plain := int64(n * len(text(0)))
	var chunks [][]byte
	var outs []Output
	var ended []checkpoint.Ended
	for i := range uint32(n) {
		keepContent(s, 1000+i, nil, text(int(i)))
		chunks = append(chunks, text(int(i)))
		outs = append(outs, Output{2, i, text(int(i))})
		ended = append(ended, checkpoint.Ended{Seq: 3000 + i, ID: 1<<40 + queue.SubmissionID(i), Spec: text(int(i))})
	}
	must(t, s.WriteContent(ctx, 1, 0, chunks))
	must(t, s.AppendOutputs(ctx, outs))
	must(t, s.compact(ctx))
	must(t, s.Memtable.Flush(ctx))
	must(t, s.Checkpoint(ctx, nil, ended))
	for _, table := range []string{"content", "content_page", "output", "history_page"} {
		size, err := s.write.conn.Int("SELECT sum(length(bytes)) FROM " + table)
		if err != nil || size == 0 || size > plain/3 {
			t.Errorf("%s has %d bytes, %v; want a third of %d or less", table, size, err, plain)
		}
	}
}
