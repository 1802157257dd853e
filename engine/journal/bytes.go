package journal

import (
	"math"
	"slices"

	"github.com/klauspost/compress/s2"

	"github.com/quern-queue/quern/engine/coding"
)

// Contents is the op that carries the inline chunks and the attachment of a submission. It
// stands before the op of its insert, in the same batch, so that both are durable or
// neither is. Bytes that are too many for a batch are in Blobs.
type Contents struct {
	Seq        uint32
	Pages      []Page
	Attachment []byte // nil: none
}

// Page is consecutive chunks in the form in which the store keeps them.
type Page struct {
	First uint32 // index of the first chunk
	Bytes []byte
}

// Clone copies the op's bytes, which belong to its batch, into memory of their own.
func (c *Contents) Clone() *Contents {
	size := len(c.Attachment)
	for i := range c.Pages {
		size += len(c.Pages[i].Bytes)
	}
	own := make([]byte, 0, size)
	keep := func(b []byte) []byte {
		own = append(own, b...)
		return own[len(own)-len(b) : len(own) : len(own)]
	}
	clone := &Contents{Seq: c.Seq, Pages: slices.Clone(c.Pages)}
	for i := range clone.Pages {
		clone.Pages[i].Bytes = keep(clone.Pages[i].Bytes)
	}
	if c.Attachment != nil {
		clone.Attachment = keep(c.Attachment)
	}
	return clone
}

// Blobs names the bytes of a submission that are too many for its batch. They were durable
// before its insert: blobs, one for each part, whose keys have the epoch, the seq and the
// number of the part (package blobs). The attachment is a part of its own, the last one.
type Blobs struct {
	Epoch  uint32   // of the shard when they were put
	Firsts []uint32 // of each part with chunks, the index of its first chunk
	Size   uint64   // bytes of all parts
	Sum    [32]byte // SHA-256 over them, or NoBlobSum
}

// NoBlobSum is in place of a sum where the blobs were put into the store itself, whose rows
// have checksums. When a backup is restored into a cluster later, the blobs are copied, and
// each copy has a SHA-256 of its own.
var NoBlobSum [32]byte

// maxBlobs bounds the parts of a submission: it has no more inline bytes than fill some twenty.
const maxBlobs = 256

func (x *Blobs) fields(c *coder) {
	coding.Unsigned(&c.Coder, &x.Epoch)
	coding.Many(&c.Coder, &x.Firsts, maxBlobs, func(first *uint32) { coding.Unsigned(&c.Coder, first) })
	c.Must(len(x.Firsts) == 0 || x.Firsts[0] == 0 && slices.IsSorted(x.Firsts))
	coding.Unsigned(&c.Coder, &x.Size)
	c.Raw(x.Sum[:])
}

// Output is the op that carries the output that a consumer returned for a chunk. It stands
// before the op of the chunk's completion, in the same batch.
type Output struct {
	Seq, Index uint32
	Bytes      []byte // may be empty: an empty output is an output
}

// The bytes of both lie in the batch that they are read from.
func (p *Contents) fields(c *coder) {
	coding.Unsigned(&c.Coder, &p.Seq)
	coding.Many(&c.Coder, &p.Pages, math.MaxUint32, func(page *Page) {
		coding.Unsigned(&c.Coder, &page.First)
		c.Bytes(&page.Bytes)
	})
	attached := p.Attachment != nil
	if c.Yes(&attached); attached {
		c.Bytes(&p.Attachment)
	}
}

func (o *Output) fields(c *coder) {
	coding.Unsigned(&c.Coder, &o.Seq)
	coding.Unsigned(&c.Coder, &o.Index)
	c.Bytes(&o.Bytes)
}

// A batch that brings bytes of clients is mostly texts that resemble each other.
// Compression saves pages of the log to write, to sum and to copy back, which cost more
// processor time than the compression. S2 is the fastest compression in Go that keeps up with a
// disk (https://github.com/klauspost/compress/tree/master/s2).
const (
	packedBit = 0x80    // of the version byte: the rest of the batch is an S2 block
	packFrom  = 1 << 10 // bytes: less fits into one page of the log anyway
)

// Packed is the batch so far as the journal keeps it: compressed if that makes it smaller by
// an eighth. It is good until the next Reset. A batch of more than MaxBatchBytes stays as it
// is, so that Append refuses it: packed it might be taken, and no start could read it.
func (e *Encoder) Packed() []byte {
	batch := e.c.B
	if len(batch) < packFrom || len(batch) > MaxBatchBytes {
		return batch
	}
	if most := 1 + s2.MaxEncodedLen(len(batch)-1); len(e.packed) < most {
		e.packed = make([]byte, most)
	}
	e.packed[0] = batch[0] | packedBit
	size := 1 + len(s2.Encode(e.packed[1:], batch[1:]))
	if size > len(batch)-len(batch)/8 {
		return batch
	}
	return e.packed[:size]
}

// Unpack is the batch before Packed, or the batch itself if it is not packed. It is an error if
// the batch is damaged, or over MaxBatchBytes.
func Unpack(batch []byte) ([]byte, error) {
	if len(batch) == 0 || batch[0]&packedBit == 0 {
		return batch, nil
	}
	block := batch[1:]
	size, err := s2.DecodedLen(block)
	if err != nil || size >= MaxBatchBytes {
		return nil, errDamaged
	}
	plain := make([]byte, 1+size)
	plain[0] = batch[0] &^ packedBit
	if _, err := s2.Decode(plain[1:], block); err != nil {
		return nil, errDamaged
	}
	return plain, nil
}
