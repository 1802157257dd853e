package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"pgregory.net/rapid"
)

// contents is a batch of so many inserts with inline contents.
func contents(n int, content func(i int) []byte) *Encoder {
	var e Encoder
	e.Reset(3, 1_760_000_000_123)
	for i := range n {
		page := append(binary.AppendUvarint([]byte{1}, uint64(len(content(i)))), content(i)...)
		e.Contents(&Contents{Seq: uint32(i + 1), Pages: []Page{{Bytes: page}}})
	}
	return &e
}

func alike(int) []byte {
	return []byte(`{"image":"s3://bucket/in/0001.png","width":1920,"height":1080}`)
}

// A packed batch is read as it was written. A small batch, or one that has nothing to compress, is kept as it is.
func TestPacked(t *testing.T) {
	t.Parallel()
	random := rand.NewChaCha8([32]byte{1})
	for name, c := range map[string]struct {
		e      *Encoder
		packed bool
	}{
		"many alike": {contents(100, alike), true},
		"few":        {contents(2, alike), false},
		"random bytes": {contents(100, func(int) []byte {
			b := make([]byte, 100)
			random.Read(b)
			return b
		}), false},
	} {
		plain := bytes.Clone(c.e.Bytes())
		kept := c.e.Packed()
		if got := len(kept) < len(plain)*7/8; got != c.packed {
			t.Errorf("%s: %d of %d bytes are kept; want packed %t", name, len(kept), len(plain), c.packed)
		}
		at, ops, err := decode(kept)
		wantAt, want, _ := decode(plain)
		if err != nil || at != wantAt || !sameOps(ops, want) {
			t.Errorf("%s: kept as%s %v\nwant%s", name, describe(ops), err, describe(want))
		}
		if !bytes.Equal(c.e.Bytes(), plain) {
			t.Errorf("%s: packing changed the batch", name)
		}
	}
}

// A batch that could not be read again is not made small enough to be appended.
func TestPackedIsNotTooLarge(t *testing.T) {
	t.Parallel()
	large := make([]byte, MaxBatchBytes+1)
	e := contents(1, func(int) []byte { return large })
	if got, plain := len(e.Packed()), len(e.Bytes()); got != plain {
		t.Errorf("a batch of %d bytes is kept in %d; it must be refused", plain, got)
	}
}

// The encoder's memory is used again: no batch is kept with the bytes of one before it.
func TestPackedAgain(t *testing.T) {
	t.Parallel()
	var e Encoder
	rapid.Check(t, func(t *rapid.T) {
		epoch, ops := anyEpoch(t), anyOps(t)
		for len(ops) > 0 && len(ops) < 200 && rapid.Bool().Draw(t, "more of the same") {
			ops = append(ops, ops...)
		}
		e.Reset(epoch, 1)
		encodeInto(&e, ops)
		plain := e.Bytes()
		_, want, wantErr := decode(bytes.Clone(plain))
		_, got, err := decode(e.Packed())
		if (err == nil) != (wantErr == nil) || !sameOps(got, want) {
			t.Fatalf("kept as%s %v\nwant%s %v", describe(got), err, describe(want), wantErr)
		}
	})
}

// A packed batch of version 1 is read for ever, even if later versions of the library write other bytes.
func TestPackedGolden(t *testing.T) {
	t.Parallel()
	name := filepath.Join("testdata", "batch-1-packed.hex")
	e := contents(100, alike)
	if *update {
		golden(t, "batch-1-packed.hex", e.Packed())
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := decode(e.Bytes())
	if _, got, err := decode(batch); err != nil || !sameOps(got, want) || batch[0] != 1|packedBit {
		t.Errorf("%s has%s %v\nwant%s", name, describe(got), err, describe(want))
	}
}

// Damage of a packed batch is an error, or, where the checksum of the journal's file would find it, another batch;
// never more.
func TestPackedDamage(t *testing.T) {
	t.Parallel()
	batch := bytes.Clone(contents(100, alike).Packed())
	for cut := range len(batch) {
		if _, _, err := decode(batch[:cut]); err == nil {
			t.Errorf("%d of %d bytes are taken for a batch", cut, len(batch))
		}
	}
	for i := range batch {
		flipped := bytes.Clone(batch)
		flipped[i] ^= 1 << (i % 8)
		_, _, _ = decode(flipped)
	}
	huge := binary.AppendUvarint([]byte{Version | packedBit}, MaxBatchBytes+1)
	for name, b := range map[string][]byte{
		"no block":           {Version | packedBit},
		"an empty batch":     append([]byte{Version | packedBit}, s2.Encode(nil, nil)...),
		"more than is taken": huge,
		"version 0":          append([]byte{packedBit}, batch[1:]...),
		"a version to come":  append([]byte{Version + 1 | packedBit}, batch[1:]...),
	} {
		if _, ops, err := decode(b); err == nil {
			t.Errorf("%s: decodes to%s", name, describe(ops))
		}
	}
}
