package journal

import "slices"

// Contents is the op that carries the inline chunks and the attachment of a submission. It stands before the op of its insert, in the same
// batch, so that both are durable or neither is.
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

// Clone copies what the op holds, which is memory of its batch, into memory of its own.
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

// Output is the op that carries what a consumer returned for a chunk. It stands before the op of the chunk's completion, in the same batch.
type Output struct {
	Seq, Index uint32
	Bytes      []byte // may be empty: an empty output is an output
}

// Contents records the bytes of the submission whose insert comes next.
func (e *Encoder) Contents(c *Contents) {
	e.op(opContents)
	e.uint(uint64(c.Seq))
	e.uint(uint64(len(c.Pages)))
	for i := range c.Pages {
		e.uint(uint64(c.Pages[i].First))
		e.bytes(c.Pages[i].Bytes)
	}
	if c.Attachment == nil {
		e.buf = append(e.buf, 0)
		return
	}
	e.buf = append(e.buf, 1)
	e.bytes(c.Attachment)
}

// Output records the output of a chunk whose completion follows.
func (e *Encoder) Output(o *Output) {
	e.op(opOutput)
	e.uint(uint64(o.Seq))
	e.uint(uint64(o.Index))
	e.bytes(o.Bytes)
}

func (e *Encoder) bytes(b []byte) {
	e.uint(uint64(len(b)))
	e.buf = append(e.buf, b...)
}

// contents reads what Contents wrote. The bytes lie in the batch.
func (d *decoder) contents() *Contents {
	c := &Contents{Seq: d.uint32()}
	for n := d.within(uint64(len(d.b))); n > 0 && !d.bad; n-- {
		c.Pages = append(c.Pages, Page{First: d.uint32(), Bytes: d.take(d.uint())})
	}
	switch d.byte() {
	case 0:
	case 1:
		c.Attachment = d.take(d.uint())
	default:
		d.fail()
	}
	return c
}
