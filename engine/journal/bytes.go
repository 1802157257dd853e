package journal

import (
	"math"
	"slices"
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

// NoBlobSum is in place of a sum where the store itself was given the blobs: each row of it
// has a checksum. They are copies later, when a backup is restored into a cluster; each copy
// then has a SHA-256 of its own.
var NoBlobSum [32]byte

// maxBlobs bounds the parts of a submission: it has no more inline bytes than fill some twenty.
const maxBlobs = 256

func (x *Blobs) fields(c *coder) {
	unsigned(c, &x.Epoch)
	many(c, &x.Firsts, maxBlobs, func(first *uint32) { unsigned(c, first) })
	c.must(len(x.Firsts) == 0 || x.Firsts[0] == 0 && slices.IsSorted(x.Firsts))
	unsigned(c, &x.Size)
	c.raw(x.Sum[:])
}

// Output is the op that carries what a consumer returned for a chunk. It stands before the
// op of the chunk's completion, in the same batch.
type Output struct {
	Seq, Index uint32
	Bytes      []byte // may be empty: an empty output is an output
}

// The bytes of both lie in the batch that they are read from.
func (p *Contents) fields(c *coder) {
	unsigned(c, &p.Seq)
	many(c, &p.Pages, math.MaxUint32, func(page *Page) {
		unsigned(c, &page.First)
		c.bytes(&page.Bytes)
	})
	attached := p.Attachment != nil
	if c.yes(&attached); attached {
		c.bytes(&p.Attachment)
	}
}

func (o *Output) fields(c *coder) {
	unsigned(c, &o.Seq)
	unsigned(c, &o.Index)
	c.bytes(&o.Bytes)
}
