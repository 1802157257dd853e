package journal

import (
	"math"

	"github.com/quern-queue/quern/engine/queue"
)

// MoveKind says what a Move does with chunks that nobody holds.
type MoveKind uint8

// The kinds. A chunk that is not what the kind is about stays as it is, so that applying a Move twice is applying it once.
const (
	MoveForward   MoveKind = iota // dead letters leave for another queue: they are put into the outbox
	MoveDelivered                 // the other queue has them: they leave the outbox
	MoveDiscard                   // dead letters are given up for good
	MoveOffer                     // chunks that wait for a retry are offered at once
	endOfMoves
)

// Move is what becomes of some chunks of one submission without a try (Forward, Discard, Offer), or of entries of the outbox
// (Delivered).
type Move struct {
	Kind    MoveKind
	Seq     uint32             // of the submission; 0 of a Delivered
	ID      queue.SubmissionID // the same submission
	Number  uint64             // of a Forward: in the outbox, of the first chunk; the others have the next ones. Of a Delivered: the first
	Queue   string             // of a Forward: where to
	Indexes []uint32           // ascending, 1 to MaxRedrive; of a Delivered: the distances of its numbers to Number
}

// Move records it.
func (e *Encoder) Move(m Move) {
	e.op(opMove)
	e.buf = append(e.buf, byte(m.Kind))
	if m.Kind != MoveDelivered {
		e.uint(uint64(m.Seq))
		e.uint(uint64(m.ID))
	}
	if m.Kind == MoveForward {
		e.text(m.Queue)
	}
	if m.Kind <= MoveDelivered {
		e.uint(m.Number)
	}
	e.ascending(m.Indexes)
}

// ascending writes a list of ascending numbers: how many there are, the first, and each next as its distance to the one before.
func (e *Encoder) ascending(list []uint32) {
	e.uint(uint64(len(list)))
	last := uint32(0)
	for _, n := range list {
		e.uint(uint64(n - last))
		last = n
	}
}

func (d *decoder) ascending() (list []uint32) {
	n := d.within(MaxRedrive)
	at := uint64(0)
	for ; n > 0 && !d.bad; n-- {
		if at += d.within(math.MaxUint32); at > math.MaxUint32 {
			d.fail()
		}
		list = append(list, uint32(at))
	}
	return list
}

func (d *decoder) move() (m Move) {
	if m.Kind = MoveKind(d.byte()); m.Kind >= endOfMoves {
		d.fail()
	}
	if m.Kind != MoveDelivered {
		m.Seq, m.ID = d.uint32(), queue.SubmissionID(d.uint())
	}
	if m.Kind == MoveForward {
		m.Queue = d.text()
	}
	if m.Kind <= MoveDelivered {
		m.Number = d.uint()
	}
	m.Indexes = d.ascending()
	return m
}
