package machine

import (
	"slices"
	"sync"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// This file ends submissions in steps. The end itself is the same work for one chunk and for 10^6: the submission
// leaves the backlog with all its chunks as they are. Work that grows with its reservations and tries follows in
// slices: the reservations leave their table, and the history row is put together outside of the mutex, as the
// submission no longer changes.

// ending is how a submission ended, kept until its history row is written.
type ending struct {
	At       queue.Time
	Position journal.Position // of the batch that ended it
	reopened bool             // the history may have an earlier end of it
	replaced bool             // it was opened again, as another record
	Meta     queue.Meta
	reason   string
	failed   *uint32 // the chunk that failed it; nil: none did, or an old row does not have it
	spec     []byte  // the unchanging part

	Left *backlog.Remains
	// chunks that were held, a page for each slice of the sweep; whole when the record has
	// no reservation left
	Held [][]uint32
	once sync.Once // guards making Final
	// Final is the changing part of the history row: why it ended, and the last snapshot;
	// nil: not made yet.
	Final []byte
}

// EndedRow is the history row of an ended submission. Its changing part is why it ended
// and its last snapshot. The mutex is not needed, and should not be held; but the submission's reservations have to be
// swept (see submissions.Drain).
func (r *Record) EndedRow() checkpoint.Ended {
	e := r.Ended
	e.once.Do(func() {
		if e.Final == nil {
			final := make([]byte, 0, finalRoom+len(e.reason))
			e.Final = r.appendSnapshot(appendText(final, e.reason), slices.Concat(e.Held...), e.Left)
		}
		e.Held, e.Left = nil, nil
	})
	return checkpoint.Ended{Seq: r.Seq, ID: r.ID, State: r.State, Finished: e.At, Position: e.Position,
		Reopened: e.reopened, Spec: e.spec, Final: e.Final}
}

// The sizes, in bytes, of the two parts of a row that are enough for most small submissions: then each is allocated
// once.
const (
	specRoom  = 48
	finalRoom = 32
)

// orphans are ended submissions whose reservations are still in the table.
type orphans struct{ List []*Record }

// OrphanMost is how many reservations of a submission its end itself removes.
const OrphanMost = 256

// drop forgets the ended submissions at the end of the list that have no reservation left.
func (p *orphans) drop() {
	for last := len(p.List) - 1; last >= 0 && p.List[last].Holds.Len() == 0; last-- {
		p.List[last] = nil
		p.List = p.List[:last]
	}
}

// Shed removes at most `most` reservations of an ended submission, says how many, and notes their chunks for the
// history.
func (m *Machine) Shed(r *Record, most int) int {
	page := make([]uint32, 0, min(most, int(r.Holds.Len())))
	m.Holds.Each(&r.Holds, func(slot uint32, h *reserver.Hold) bool {
		if len(page) == most {
			return false
		}
		page = append(page, h.Index)
		m.Revoked(r.ID, slot, queue.RevokedEnded)
		m.Holds.Remove(&r.Holds, slot)
		return true
	})
	m.Stats.Orphaned -= uint64(len(page))
	if len(page) > 0 {
		r.Ended.Held = append(r.Ended.Held, page)
	}
	m.Orphans.drop()
	return len(page)
}
