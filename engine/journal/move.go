package journal

import (
	"github.com/quern-queue/quern/engine/coding"
	"github.com/quern-queue/quern/engine/queue"
)

// MoveKind is the effect of a Move on chunks that no consumer holds.
type MoveKind uint8

// The kinds. A chunk that is not in the state that the kind changes stays as it is, so that
// applying a Move twice is applying it once.
const (
	MoveForward   MoveKind = iota // dead letters leave for another queue: they are put into the outbox
	MoveDelivered                 // the other queue has them: they leave the outbox
	MoveDiscard                   // dead letters are given up for good
	MoveOffer                     // chunks that wait for a retry are offered at once
	// entries of the outbox that cannot be read, and did not arrive: later ones overtake them
	MoveStuck
	// a stuck entry can be read again: it gets a new number, behind those that overtook it
	MoveRenumber
	endOfMoves
)

// ofEntries says that a kind is about entries of the outbox by their numbers only.
func (k MoveKind) ofEntries() bool { return k == MoveDelivered || k == MoveStuck }

// enters says that a kind puts chunks into the outbox.
func (k MoveKind) enters() bool { return k == MoveForward || k == MoveRenumber }

// Move changes some chunks of one submission without a try (Forward, Discard, Offer), or
// entries of the outbox (Delivered, Stuck, Renumber).
//
//	dead letter ── Forward ──► outbox, number n ── Delivered ──► gone
//	                              │ cannot be read: Stuck, later numbers overtake it
//	                              └ can be read again: Renumber, behind those
type Move struct {
	Kind MoveKind
	Seq  uint32             // of the submission; 0 of a Delivered or Stuck
	ID   queue.SubmissionID // the same submission
	// of a Forward: in the outbox, of the first chunk; the others have the next ones. Of a
	// Renumber: the new one. Of a Delivered or Stuck: the first
	Number uint64
	Queue  string // of a Forward or Renumber: where to
	// ascending, 1 to MaxRedrive (a Renumber: 1); of a Delivered or Stuck: the distances
	// of their numbers to Number
	Indexes []uint32
	Was     uint64 // of a Renumber: the number that it had
}

func (m *Move) fields(c *coder) {
	coding.Octet(&c.Coder, &m.Kind, endOfMoves-1)
	if !m.Kind.ofEntries() {
		coding.Unsigned(&c.Coder, &m.Seq)
		coding.Unsigned(&c.Coder, &m.ID)
	}
	if m.Kind.enters() {
		c.Text(&m.Queue)
	}
	if m.Kind.enters() || m.Kind.ofEntries() {
		coding.Unsigned(&c.Coder, &m.Number)
	}
	if m.Kind == MoveRenumber {
		coding.Unsigned(&c.Coder, &m.Was)
	}
	c.ascending(&m.Indexes)
}
