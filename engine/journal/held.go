package journal

import "github.com/quern-queue/quern/engine/queue"

// Held is the op that tells what a consumer held when its shard was closed in order. The next start takes it up again. One
// without a consumer and without chunks stands behind the others, and says that they are all there is.
type Held struct {
	Consumer string
	Attached bool       // the consumer kept a stream, and is missed from the start on
	Seen     queue.Time // it was heard of last
	Chunks   []HeldChunk
}

// HeldChunk is one reservation of a Held, under which token. The batch's time is when the shard was closed, so Deadline minus it is the
// time that was left.
type HeldChunk struct {
	Seq, Index         uint32
	Epoch              uint32
	Sequence           uint64
	Reserved, Deadline queue.Time
}

// MaxHeld bounds the chunks of one Held, so that applying one op never takes long.
const MaxHeld = 256

// Held records what a consumer holds.
func (e *Encoder) Held(h *Held) {
	e.op(opHeld)
	e.text(h.Consumer)
	attached := byte(0)
	if h.Attached {
		attached = 1
	}
	e.buf = append(e.buf, attached)
	e.int(int64(h.Seen))
	e.uint(uint64(len(h.Chunks)))
	for i := range h.Chunks {
		c := &h.Chunks[i]
		e.uint(uint64(c.Seq))
		e.uint(uint64(c.Index))
		e.epochOf(c.Epoch)
		e.token(c.Sequence)
		e.int(int64(c.Reserved))
		e.int(int64(c.Deadline))
	}
}

func (d *decoder) held() *Held {
	h := &Held{Consumer: d.text()}
	attached := d.byte()
	h.Attached, h.Seen = attached == 1, queue.Time(d.int())
	if attached > 1 {
		d.fail()
	}
	for n := d.within(MaxHeld); n > 0 && !d.bad; n-- {
		h.Chunks = append(h.Chunks, HeldChunk{Seq: d.uint32(), Index: d.uint32(), Epoch: d.epochOf(), Sequence: d.token(),
			Reserved: queue.Time(d.int()), Deadline: queue.Time(d.int())})
	}
	return h
}
