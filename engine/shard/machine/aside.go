package machine

import (
	"encoding/binary"
	"fmt"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
)

// This file checkpoints what is beside the submissions: the outbox, the inbox and the bulk operations. Rows are written before the
// position that they have to be true for, so they may be ahead of it; all ops about them tell totals, and what is ahead is met again
// without an effect.

// The kinds of rows. They are numbers in files: never used again for something else.
const (
	asideOutbox uint8 = 1 // by number
	asideLast   uint8 = 2 // key 0: the last number given out
	asideInbox  uint8 = 3 // by source
	AsideBulk   uint8 = 4 // by id
	asideStuck  uint8 = 5 // by number: an entry of the outbox that is stuck
	AsideSeq    uint8 = 6 // key 0: the largest seq given out, also to what the history has lost: numbers are not given out twice
	AsideRecent uint8 = 7 // by part: which tokens completed chunks lately
)

// stuckVersion is all that a row of a stuck entry holds.
const stuckVersion = 1

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

// Row is what the row has to hold now; nil: nothing.
func (p *asides) Row(a Aside) []byte {
	m := p.m
	if rows := m.Joined.Rows[a.Kind]; rows != nil {
		return rows.Row(a.Key)
	}
	switch a.Kind {
	case asideOutbox:
		if o := m.Forwarding.Outbox.Find(a.Key); o != nil {
			row := binary.AppendUvarint(nil, uint64(o.Chunk.Submission))
			return append(binary.AppendUvarint(row, uint64(o.Chunk.Index)), o.Queue...)
		}
	case asideLast:
		return binary.AppendUvarint(nil, m.Forwarding.Outbox.Last)
	case AsideSeq:
		return binary.AppendUvarint(nil, uint64(m.NextSeq))
	case asideInbox:
		return binary.AppendUvarint(nil, m.Forwarding.Inbox[a.Key])
	case AsideRecent:
		return m.Recent.row(a.Key)
	case asideStuck:
		if o := m.Forwarding.Outbox.Find(a.Key); o != nil && o.Stuck {
			return []byte{stuckVersion}
		}
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
	case asideOutbox:
		o := queue.Outgoing{Number: row.Key, Chunk: queue.ChunkID{Submission: queue.SubmissionID(d.uint()), Index: uint32(d.uint())}}
		o.Queue = string(d.b)
		m.Forwarding.Outbox.Add(o)
	case asideLast:
		m.Forwarding.Outbox.Last = max(m.Forwarding.Outbox.Last, d.uint())
	case AsideSeq:
		m.NextSeq = max(m.NextSeq, uint32(d.uint()))
	case asideInbox:
		m.Forwarding.Inbox[row.Key] = d.uint()
	case AsideRecent:
		d.bad = !m.Recent.load(row.Key, row.Bytes)
	case asideStuck: // those of the outbox came before
		if d.bad = d.uint() != stuckVersion; d.bad {
			break
		}
		if o := m.Forwarding.Outbox.Find(row.Key); o != nil {
			o.Stuck = true
		}
	default:
		d.bad = true
	}
	if d.bad {
		return fmt.Errorf("store: a row of kind %d beside the submissions is damaged or of a newer version", row.Kind)
	}
	return nil
}
