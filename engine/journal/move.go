package journal

import (
	"math"

	"github.com/quern-queue/quern/engine/queue"
)

// MoveKind says what a Move does with chunks that no consumer holds.
type MoveKind uint8

// The kinds. A chunk that is not what the kind is about stays as it is, so that applying a Move twice is applying it once.
const (
	MoveForward   MoveKind = iota // dead letters leave for another queue: they are put into the outbox
	MoveDelivered                 // the other queue has them: they leave the outbox
	MoveDiscard                   // dead letters are given up for good
	MoveOffer                     // chunks that wait for a retry are offered at once
	MoveStuck                     // entries of the outbox that cannot be read, and did not arrive: later ones overtake them
	MoveRenumber                  // a stuck entry can be read again: it gets a new number, behind those that overtook it
	endOfMoves
)

// ofEntries says that a kind is about entries of the outbox by their numbers only.
func (k MoveKind) ofEntries() bool { return k == MoveDelivered || k == MoveStuck }

// enters says that a kind puts chunks into the outbox.
func (k MoveKind) enters() bool { return k == MoveForward || k == MoveRenumber }

// Move is what becomes of some chunks of one submission without a try (Forward, Discard, Offer), or of entries of the outbox
// (Delivered, Stuck, Renumber).
type Move struct {
	Kind MoveKind
	Seq  uint32             // of the submission; 0 of a Delivered or Stuck
	ID   queue.SubmissionID // the same submission
	// of a Forward: in the outbox, of the first chunk; the others have the next ones. Of a Renumber: the new one. Of a
	// Delivered or Stuck: the first
	Number uint64
	Queue  string // of a Forward or Renumber: where to
	// ascending, 1 to MaxRedrive (a Renumber: 1); of a Delivered or Stuck: the distances of their numbers to Number
	Indexes []uint32
	Was     uint64 // of a Renumber: the number that it had
}

// Move records it.
func (e *Encoder) Move(m Move) {
	e.op(opMove)
	e.buf = append(e.buf, byte(m.Kind))
	if !m.Kind.ofEntries() {
		e.uint(uint64(m.Seq))
		e.uint(uint64(m.ID))
	}
	if m.Kind.enters() {
		e.text(m.Queue)
	}
	if m.Kind.enters() || m.Kind.ofEntries() {
		e.uint(m.Number)
	}
	if m.Kind == MoveRenumber {
		e.uint(m.Was)
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
	if !m.Kind.ofEntries() {
		m.Seq, m.ID = d.uint32(), queue.SubmissionID(d.uint())
	}
	if m.Kind.enters() {
		m.Queue = d.text()
	}
	if m.Kind.enters() || m.Kind.ofEntries() {
		m.Number = d.uint()
	}
	if m.Kind == MoveRenumber {
		m.Was = d.uint()
	}
	m.Indexes = d.ascending()
	return m
}
