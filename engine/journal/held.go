package journal

import "github.com/quern-queue/quern/engine/queue"

// Held is the op that tells what a consumer held when its shard was closed in order. The
// next start takes it up again. One without a consumer and without chunks stands behind
// the others, and says that they are all there is.
type Held struct {
	Consumer string
	Attached bool       // the consumer kept a stream, and is missed from the start on
	Seen     queue.Time // it was heard of last
	Chunks   []HeldChunk
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
	c.text(&h.Consumer)
	c.yes(&h.Attached)
	signed(c, &h.Seen)
	many(c, &h.Chunks, MaxHeld, func(x *HeldChunk) {
		unsigned(c, &x.Seq)
		unsigned(c, &x.Index)
		c.epochOf(&x.Epoch)
		c.token(&x.Sequence)
		signed(c, &x.Reserved)
		signed(c, &x.Deadline)
	})
}
