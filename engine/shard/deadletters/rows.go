package deadletters

import (
	"encoding/binary"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Rows are the rows of the part, by kind, beside those of submissions. A checkpoint writes only
// the rows that changed (Asides.Changed). It removes a row that is nil.
func (p *Part) Rows() map[uint8]machine.Rows {
	return map[uint8]machine.Rows{
		machine.AsideOutbox: outboxRows{p}, machine.AsideLast: lastRow{p},
		machine.AsideInbox: inboxRows{p}, machine.AsideStuck: stuckRows{p},
		machine.AsideReplaced: replacedRows{p},
	}
}

// Each entry has a row of its own, so a checkpoint after one letter writes one small row. A single row for the part
// would grow with the outbox, and every checkpoint would write it whole:
//
//	checkpoint ─► Asides.Changed ─► Row(key) ─► table aside (kind, key, bytes);  nil removes the row
//	start      ◄─ Load(key, bytes), in the order of the kinds ◄─┘
type (
	outboxRows struct{ *Part } // by number
	lastRow    struct{ *Part } // the greatest number that was given out
	inboxRows  struct{ *Part } // by source
	stuckRows  struct{ *Part } // by number: it is stuck
	// by seq and index: the content that a dead chunk was given
	replacedRows struct{ *Part }
)

// The outbox has only the id of a letter's chunk and the queue that it goes to. The content stays in its place until
// the letter is sent, so a full outbox costs little memory.
func (p outboxRows) Row(number uint64) []byte {
	o := p.Outbox.Find(number)
	if o == nil {
		return nil
	}
	row := binary.AppendUvarint(nil, uint64(o.Chunk.Submission))
	return append(binary.AppendUvarint(row, uint64(o.Chunk.Index)), o.Queue...)
}

func (p outboxRows) Load(number uint64, row []byte) error {
	submission, n := binary.Uvarint(row)
	index, size := binary.Uvarint(row[max(n, 0):])
	if n <= 0 || size <= 0 {
		return machine.AsideError(machine.AsideOutbox)
	}
	p.Outbox.Add(queue.Outgoing{
		Number: number, Chunk: queue.ChunkID{Submission: queue.SubmissionID(submission), Index: uint32(index)},
		Queue: string(row[n+size:]),
	})
	return nil
}

// The number outlives the entries: no number may be given out twice, as the inbox of the other queue would take the new
// letter for one that it has.
func (p lastRow) Row(uint64) []byte { return binary.AppendUvarint(nil, p.Outbox.Last) }

func (p lastRow) Load(_ uint64, row []byte) error {
	last, n := binary.Uvarint(row)
	if n <= 0 {
		return machine.AsideError(machine.AsideLast)
	}
	p.Outbox.Last = max(p.Outbox.Last, last)
	return nil
}

// The greatest number that came from a source: by it a letter that comes again is recognised.
func (p inboxRows) Row(source uint64) []byte { return binary.AppendUvarint(nil, p.inbox[source]) }

func (p inboxRows) Load(source uint64, row []byte) error {
	number, n := binary.Uvarint(row)
	if n <= 0 {
		return machine.AsideError(machine.AsideInbox)
	}
	p.inbox[source] = number
	return nil
}

// stuckVersion is the only content of a row of a stuck entry.
const stuckVersion = 1

func (p stuckRows) Row(number uint64) []byte {
	if o := p.Outbox.Find(number); o != nil && o.Stuck {
		return []byte{stuckVersion}
	}
	return nil
}

// Load reads a row; those of the outbox came before.
func (p stuckRows) Load(number uint64, row []byte) error {
	if version, n := binary.Uvarint(row); n <= 0 || version != stuckVersion {
		return machine.AsideError(machine.AsideStuck)
	}
	if o := p.Outbox.Find(number); o != nil {
		o.Stuck = true
	}
	return nil
}
