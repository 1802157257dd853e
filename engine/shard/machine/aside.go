package machine

import (
	"encoding/binary"
	"fmt"

	"github.com/quern-queue/quern/engine/checkpoint"
)

// This file checkpoints what is beside the submissions: the outbox, the inbox and the bulk operations. Rows are written before the
// position that they have to be true for, so they may be ahead of it; all ops about them tell totals, and what is ahead is met again
// without an effect.

// The kinds of rows. They are numbers in files: never used again for something else.
const (
	AsideOutbox   uint8 = 1 // by number
	AsideLast     uint8 = 2 // key 0: the last number given out
	AsideInbox    uint8 = 3 // by source
	AsideBulk     uint8 = 4 // by id
	AsideStuck    uint8 = 5 // by number: an entry of the outbox that is stuck
	AsideSeq      uint8 = 6 // key 0: the largest seq given out, also to what the history has lost: numbers are not given out twice
	AsideRecent   uint8 = 7 // by part: which tokens completed chunks lately
	AsideSet      uint8 = 8 // by number: what an operator set
	AsideSnapshot uint8 = 9 // key 0: the newest copy of the store that is kept
)

// Aside names a row.
type Aside struct {
	Kind uint8
	Key  uint64
}

// asides is the part of the machine that knows which rows beside the submissions changed.
type asides struct {
	m    *Machine
	Rows map[Aside]struct{} // that changed since the last checkpoint
}

// Changed notes that a row is to be written again.
func (p *asides) Changed(kind uint8, key uint64) { p.Rows[Aside{kind, key}] = struct{}{} }

// Numbered notes at a start that a seq was given out, if the row of the largest one does not say so: what tells of it now may be gone at
// the next start.
func (m *Machine) Numbered(seq uint32) {
	if seq > m.NextSeq {
		m.NextSeq = seq
		m.Asides.Changed(AsideSeq, 0)
	}
}

// Row is what the row has to hold now; nil: nothing.
func (p *asides) Row(a Aside) []byte {
	m := p.m
	if rows := m.Joined.Rows[a.Kind]; rows != nil {
		return rows.Row(a.Key)
	}
	switch a.Kind {
	case AsideSeq:
		return binary.AppendUvarint(nil, uint64(m.NextSeq))
	case AsideRecent:
		return m.Tokens.Recent.row(a.Key)
	}
	return nil
}

// Load reads a row.
func (p *asides) Load(row checkpoint.Aside) error {
	m := p.m
	if rows := m.Joined.Rows[row.Kind]; rows != nil {
		return rows.Load(row.Key, row.Bytes)
	}
	d := fields{b: row.Bytes}
	switch row.Kind {
	case AsideSeq:
		m.NextSeq = max(m.NextSeq, uint32(d.uint()))
	case AsideRecent:
		d.bad = !m.Tokens.Recent.load(row.Key, row.Bytes)
	default:
		d.bad = true
	}
	if d.bad {
		return AsideError(row.Kind)
	}
	return nil
}

// AsideError is the error of a row that cannot be read.
func AsideError(kind uint8) error {
	return fmt.Errorf("store: a row of kind %d beside the submissions is damaged or of a newer version", kind)
}
