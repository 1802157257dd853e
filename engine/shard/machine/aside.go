package machine

import (
	"encoding/binary"
	"fmt"

	"github.com/quern-queue/quern/engine/checkpoint"
)

// This file checkpoints the state beside the submissions. Its rows are written before the position of the checkpoint,
// so they may be ahead of it. Most ops about them carry totals, so a replay applies them again without effect; the
// other rows say up to which position they are true.

// The kinds of rows. They are numbers in files: never used again for something else.
const (
	AsideOutbox uint8 = 1 // by number
	AsideLast   uint8 = 2 // key 0: the last number given out
	AsideInbox  uint8 = 3 // by source
	AsideBulk   uint8 = 4 // by id
	AsideStuck  uint8 = 5 // by number: an entry of the outbox that is stuck
	// key 0: the largest seq given out, also to submissions that left the history: no number is given out twice
	AsideSeq      uint8 = 6
	AsideRecent   uint8 = 7  // by part: which tokens completed chunks lately
	AsideSet      uint8 = 8  // by number: an operator's setting
	AsideSnapshot uint8 = 9  // key 0: the newest copy of the store that is kept
	AsideRules    uint8 = 10 // key 0: an operator's rules, and the last that have ended. A checkpoint writes it first
	AsideSchedule uint8 = 11 // by number: a schedule
	AsideReplaced uint8 = 12 // by seq and index: the content that a dead chunk was given
	AsideUnique   uint8 = 13 // by seq: a unique key that is held for a time
	AsideDeletion uint8 = 14 // by id: a submission that is to leave the history
	AsideAfter    uint8 = 15 // by seq: the submissions that an open one still waits for
	AsideEpoch    uint8 = 16 // by epoch: its first batch
)

// Aside names a row.
type Aside struct {
	Kind uint8
	Key  uint64
}

// asides knows which rows beside the submissions changed, and the part that keeps each kind.
type asides struct {
	changed map[Aside]struct{} // since the last checkpoint
	joined  *Joined
	recent  *recent
	seq     *lastSeq
	uniques *uniques
	afters  *afters
}

// Changed notes that a row is to be written again.
func (p *asides) Changed(kind uint8, key uint64) { p.changed[Aside{kind, key}] = struct{}{} }

// Take returns the rows that changed, of one kind or (0) of all, and forgets that they did.
func (p *asides) Take(kind uint8) (taken []Aside) {
	if kind == 0 {
		for part, changed := range p.recent.changed {
			if changed {
				p.Changed(AsideRecent, uint64(part))
			}
		}
		p.recent.changed = [RecentParts]bool{}
	}
	for a := range p.changed {
		if kind == 0 || kind == a.Kind {
			taken = append(taken, a)
			delete(p.changed, a)
		}
	}
	return taken
}

// Of returns the part that owns the rows of a kind; nil: none does.
func (p *asides) Of(kind uint8) Rows {
	switch kind {
	case AsideSeq:
		return p.seq
	case AsideRecent:
		return p.recent
	case AsideUnique:
		return p.uniques
	case AsideAfter:
		return p.afters
	}
	return p.joined.Rows[kind]
}

// Load reads a row.
func (p *asides) Load(row checkpoint.Aside) error {
	if rows := p.Of(row.Kind); rows != nil {
		return rows.Load(row.Key, row.Bytes)
	}
	return AsideError(row.Kind)
}

// lastSeq is the largest number that was given to a submission, as a row.
type lastSeq uint32

// Row is Rows'.
func (n *lastSeq) Row(uint64) []byte { return binary.AppendUvarint(nil, uint64(*n)) }

// Load is Rows'.
func (n *lastSeq) Load(_ uint64, row []byte) error {
	d := fields{b: row}
	if *n = max(*n, lastSeq(d.uint())); d.bad {
		return AsideError(AsideSeq)
	}
	return nil
}

// Numbered notes at a start that a seq was given out, if the row of the largest one does not say so: the next start may
// not find this number anywhere else.
func (m *Machine) Numbered(seq uint32) {
	if seq > m.NextSeq {
		m.NextSeq = seq
		m.Asides.Changed(AsideSeq, 0)
	}
}

// AsideError is the error of a row that cannot be read.
func AsideError(kind uint8) error {
	return fmt.Errorf("store: a row of kind %d beside the submissions is damaged or of a newer version", kind)
}
