package shard

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// This file checkpoints what is beside the submissions: the outbox, the inbox and the bulk operations. Rows are written before the
// position that they have to be true for, so they may be ahead of it; all ops about them tell totals, and what is ahead is met again
// without an effect.

// The kinds of rows. They are numbers in files: never used again for something else.
const (
	asideOutbox uint8 = 1 // by number
	asideLast   uint8 = 2 // key 0: the last number given out
	asideInbox  uint8 = 3 // by source
	asideBulk   uint8 = 4 // by id
	asideStuck  uint8 = 5 // by number: an entry of the outbox that is stuck
	asideSeq    uint8 = 6 // key 0: the largest seq given out, also to what the history has lost: numbers are not given out twice
	asideRecent uint8 = 7 // by part: which tokens completed chunks lately
)

// stuckVersion is all that a row of a stuck entry holds.
const stuckVersion = 1

// aside names a row.
type aside struct {
	kind uint8
	key  uint64
}

// asides is the part of the machine that knows which rows beside the submissions changed.
type asides struct {
	m    *machine
	rows map[aside]struct{} // that changed since the last checkpoint
}

// changed notes that a row is to be written again.
func (p *asides) changed(kind uint8, key uint64) { p.rows[aside{kind, key}] = struct{}{} }

// row is what the row has to hold now; nil: nothing.
func (p *asides) row(a aside) []byte {
	m := p.m
	switch a.kind {
	case asideOutbox:
		if o := m.forwarding.outbox.find(a.key); o != nil {
			row := binary.AppendUvarint(nil, uint64(o.Chunk.Submission))
			return append(binary.AppendUvarint(row, uint64(o.Chunk.Index)), o.Queue...)
		}
	case asideLast:
		return binary.AppendUvarint(nil, m.forwarding.outbox.last)
	case asideSeq:
		return binary.AppendUvarint(nil, uint64(m.nextSeq))
	case asideInbox:
		return binary.AppendUvarint(nil, m.forwarding.inbox[a.key])
	case asideBulk:
		if b := m.bulks.find(queue.BulkID(a.key)); b != nil {
			return b.row()
		}
	case asideRecent:
		return m.recent.row(a.key)
	case asideStuck:
		if o := m.forwarding.outbox.find(a.key); o != nil && o.Stuck {
			return []byte{stuckVersion}
		}
	}
	return nil
}

// load reads a row.
func (p *asides) load(row store.Aside) error {
	m := p.m
	d := fields{b: row.Bytes}
	switch row.Kind {
	case asideOutbox:
		o := queue.Outgoing{Number: row.Key, Chunk: queue.ChunkID{Submission: queue.SubmissionID(d.uint()), Index: uint32(d.uint())}}
		o.Queue = string(d.b)
		m.forwarding.outbox.add(o)
	case asideLast:
		m.forwarding.outbox.last = max(m.forwarding.outbox.last, d.uint())
	case asideSeq:
		m.nextSeq = max(m.nextSeq, uint32(d.uint()))
	case asideInbox:
		m.forwarding.inbox[row.Key] = d.uint()
	case asideBulk:
		return m.bulks.load(row.Bytes)
	case asideRecent:
		d.bad = !m.recent.load(row.Key, row.Bytes)
	case asideStuck: // those of the outbox came before
		if d.bad = d.uint() != stuckVersion; d.bad {
			break
		}
		if o := m.forwarding.outbox.find(row.Key); o != nil {
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

// asides writes the rows that changed. They are taken in slices: a later one may be further ahead, which does no harm.
func (p *checkpointer) asides(ctx context.Context, m *machine) error {
	s := p.s
	s.mu.Lock()
	for part, changed := range m.recent.changed {
		if changed {
			m.asides.changed(asideRecent, uint64(part))
		}
	}
	m.recent.changed = [recentParts]bool{}
	taken := m.asides.rows
	m.asides.rows = map[aside]struct{}{}
	s.mu.Unlock()
	keys := slices.Collect(maps.Keys(taken))
	for start := 0; start < len(keys); start += checkpointMost {
		part := keys[start:min(start+checkpointMost, len(keys))]
		rows := make([]store.Aside, 0, len(part))
		s.mu.Lock()
		for _, a := range part {
			rows = append(rows, store.Aside{Kind: a.kind, Key: a.key, Bytes: m.asides.row(a)})
		}
		s.mu.Unlock()
		if err := s.disk.write(func() error { return s.store.PutAside(ctx, rows) }); err != nil {
			p.putBackAsides(m, keys[start:])
			return err
		}
	}
	return nil
}

// putBackAsides leaves rows that were not written to the next checkpoint.
func (p *checkpointer) putBackAsides(m *machine, keys []aside) {
	for part := range slices.Chunk(keys, checkpointMost) {
		p.s.mu.Lock()
		for _, a := range part {
			m.asides.changed(a.kind, a.key)
		}
		p.s.mu.Unlock()
	}
}
