package journal

import (
	"github.com/quern-queue/quern/engine/coding"
	"github.com/quern-queue/quern/engine/queue"
)

// Held lists the chunks that a consumer held when its shard stopped in order. The next start restores
// these reservations. A Held without consumer and chunks follows the others, and marks the end of the
// list.
type Held struct {
	Consumer string
	Attached bool // the consumer kept a stream, and is missed from the start on
	// Incarnation is of the process whose stream that was; "": it did not say. Only where Attached.
	Incarnation string
	Seen        queue.Time // it was heard of last
	Chunks      []HeldChunk
}

// HeldChunk is one reservation of a Held, under which token. The batch's time is when the
// shard was closed, so Deadline minus it is the time that was left.
type HeldChunk struct {
	Seq, Index         uint32
	Epoch              uint32
	Sequence           uint64
	Reserved, Deadline queue.Time
}

// MaxHeld bounds the chunks of one Held, so that applying one op never takes long.
const MaxHeld = 256

func (h *Held) fields(c *coder) {
	c.Text(&h.Consumer)
	c.streamOf(h)
	coding.Signed(&c.Coder, &h.Seen)
	coding.Many(&c.Coder, &h.Chunks, MaxHeld, func(x *HeldChunk) {
		coding.Unsigned(&c.Coder, &x.Seq)
		coding.Unsigned(&c.Coder, &x.Index)
		c.epochOf(&x.Epoch)
		c.token(&x.Sequence)
		coding.Signed(&c.Coder, &x.Reserved)
		coding.Signed(&c.Coder, &x.Deadline)
	})
}

// streamOf is a number: 0 the consumer kept no stream, 1 it kept one, 2 the incarnation of its process follows.
func (c *coder) streamOf(h *Held) {
	form := uint64(0)
	switch {
	case h.Attached && h.Incarnation != "":
		form = 2
	case h.Attached:
		form = 1
	}
	if read := c.Number(form, 2); c.Reading {
		form, h.Attached = read, read > 0
	}
	if form == 2 {
		c.Text(&h.Incarnation)
		c.Must(h.Incarnation != "") // one form for each value
	}
}
