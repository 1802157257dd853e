package shard

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/store"
)

// This file ends submissions bit by bit. The end itself is the same work for one chunk and for 10^6: the submission leaves the
// backlog with all its chunks as they are. What depends on how much of it was held or tried follows in slices: its
// reservations leave their table, and what the history says of its chunks is put together outside of the mutex, as nothing of
// it changes any more.

// ending is how a submission ended, kept until its history row is written.
type ending struct {
	at       queue.Time
	position journal.Position // of the batch that ended it
	reopened bool             // the history may have an earlier end of it
	meta     queue.Meta
	reason   string
	failed   *uint32 // the chunk that failed it; nil: none did, or it is not known of an old row
	spec     []byte  // the unchanging part

	left *backlog.Remains
	held [][]uint32 // chunks that were held, a page for each slice of the sweep; whole when the record has no reservation left
	once sync.Once  // guards making final
	// final is the changing part as it was at the end; nil: not made yet.
	final []byte
}

// endedRow is the history row of an ended submission. Its changing part is why it ended and its last snapshot. The mutex is not
// needed, and should not be held; but the submission's reservations have to be swept (see drain).
func (r *record) endedRow() *store.Ended {
	e := r.ended
	e.once.Do(func() {
		if e.final == nil {
			e.final = r.appendSnapshot(nil, slices.Concat(e.held...), e.left)
		}
		e.held, e.left = nil, nil
	})
	final := binary.AppendUvarint(make([]byte, 0, len(e.final)+len(e.reason)+binary.MaxVarintLen32), uint64(len(e.reason)))
	final = append(final, e.reason...)
	return &store.Ended{Seq: r.seq, ID: r.id, State: r.state, Finished: e.at, Keyed: r.details().key != "",
		Position: e.position, Reopened: e.reopened, Spec: e.spec, Final: append(final, e.final...)}
}

// orphans are ended submissions whose reservations are still in the table.
type orphans struct {
	m    *machine
	list []*record
}

// add lets go of the reservations of a submission that ends: of the first ones at once, of the others in later slices.
func (p *orphans) add(r *record) {
	if r.holds.Len() == 0 {
		return
	}
	p.m.stats.orphaned += uint64(r.holds.Len())
	p.list = append(p.list, r)
	p.shed(r, orphanMost)
}

// orphanMost is how many reservations of a submission go in the moment of its end.
const orphanMost = 256

// sweep removes reservations of ended submissions, at most `most`, and says how many.
func (p *orphans) sweep(most int) (n int) {
	for n < most && len(p.list) > 0 {
		r := p.list[len(p.list)-1]
		n += p.shed(r, most-n)
		p.drop()
	}
	return n
}

// drop forgets the ended submissions at the end of the list that have no reservation left.
func (p *orphans) drop() {
	for last := len(p.list) - 1; last >= 0 && p.list[last].holds.Len() == 0; last-- {
		p.list[last] = nil
		p.list = p.list[:last]
	}
}

// shed removes at most `most` reservations of an ended submission, says how many, and notes for the history what they were for.
func (p *orphans) shed(r *record, most int) int {
	m := p.m
	page := make([]uint32, 0, min(most, int(r.holds.Len())))
	m.holds.Each(&r.holds, func(slot uint32, h *reserver.Hold) bool {
		if len(page) == most {
			return false
		}
		page = append(page, h.Index)
		m.revoked(r.id, slot, queue.RevokedEnded)
		m.holds.Remove(&r.holds, slot)
		return true
	})
	m.stats.orphaned -= uint64(len(page))
	if len(page) > 0 {
		r.ended.held = append(r.ended.held, page)
	}
	p.drop()
	return len(page)
}

// drain removes what reservations an ended submission has left, in slices, so that its history row can be made.
func (s *Shard) drain(m *machine, r *record) {
	for more := true; more; {
		s.mu.Lock()
		m.orphans.shed(r, tickMost)
		more = r.holds.Len() > 0
		s.mu.Unlock()
	}
}
