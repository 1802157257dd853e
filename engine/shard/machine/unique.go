package machine

// Unique keys: at most one submission holds a key. An insert with a held key is answered with the holder, or takes its
// place.
//
//	Claim   with the decision to insert: from then on others find the key held
//	applied with the op of the insert, live and at a replay
//	free    a key that is held while open goes with the end of its submission,
//	        one that is held for a time when that is over
//
// The keys of open submissions follow from the submissions, so they have no rows. A key that is held for a time
// outlives its submission, so it has a row.
//
// A redrive opens a submission again whose key another one may have taken meanwhile. Then both hold it: an insert is
// answered with the younger one, and the key is free when both have ended.

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
)

// uniques are the unique keys of a shard.
type uniques struct {
	asides   *asides
	Limit    int                       // keys that may be held for a time
	youngest map[queue.KeyHash]*Unique // the holder of a key
	windows  map[uint32]*Unique        // those that are held for a time, by seq
	over     dueHeap                   // of these, when their time is over
	held     int

	Kept, Replaced, Refused uint64 // inserts that found their key held, or no room for it; since the server's start
}

// Unique is a submission that holds a key.
type Unique struct {
	Fate
	hash  queue.KeyHash
	ID    queue.SubmissionID
	seq   uint32
	until queue.Time // 0: while it is open
	older *Unique    // that holds the same key
	gone  bool
}

// Find is the submission that holds the key of an insert; nil: none does.
func (p *uniques) Find(n *queue.NewSubmission, now queue.Time) *Unique {
	if n.Unique == nil {
		return nil
	}
	for u := p.youngest[n.Unique.Hash()]; u != nil; u = u.older {
		if u.until == 0 || u.until > now {
			return u
		}
	}
	return nil
}

// Len is how many keys are held.
func (p *uniques) Len(now queue.Time) int {
	p.expire(now)
	return p.held
}

// Room refuses a key that is to be held for a time if there are Limit of them already.
func (p *uniques) Room(n *queue.NewSubmission, now queue.Time) error {
	if n.Unique == nil || n.Unique.For == 0 {
		return nil
	}
	if p.expire(now); len(p.windows) < p.Limit {
		return nil
	}
	p.Refused++
	first, _ := p.over.first()
	return &queue.Error{Code: queue.CodeOverloaded, RetryAfter: max(first.At.Sub(now), time.Second),
		Message: fmt.Sprintf("The queue holds %d unique keys for a time, which is its limit. "+
			"Send this again when Retry-After is over, insert with a shorter time or with while \"open\", "+
			"or use several queues.", p.Limit)}
}

// Claim makes an insert hold its key from its decision on; nil: it has none.
func (p *uniques) Claim(op *journal.Insert) *Unique {
	if op.Unique == nil {
		return nil
	}
	u := p.add(op)
	u.Published = commit.New()
	return u
}

// add has a submission hold its key, beside those that held it before.
func (p *uniques) add(op *journal.Insert) *Unique {
	u := &Unique{hash: op.Unique.Hash(), ID: op.ID, seq: op.Seq}
	if op.Unique.For > 0 {
		u.until = op.ID.Time().Add(op.Unique.For)
	}
	return p.put(u)
}

// put keeps the holders of a key by age, the youngest first.
func (p *uniques) put(u *Unique) *Unique {
	if p.youngest == nil {
		p.youngest, p.windows = map[queue.KeyHash]*Unique{}, map[uint32]*Unique{}
	}
	p.held++
	if first := p.youngest[u.hash]; first == nil || first.ID < u.ID {
		u.older = first
		p.youngest[u.hash] = u
	} else {
		for first.older != nil && first.older.ID > u.ID {
			first = first.older
		}
		u.older, first.older = first.older, u
	}
	if u.until != 0 {
		p.windows[u.seq] = u
		p.over.push(Due{At: u.until, Seq: u.seq})
	}
	return u
}

// drop has a submission hold its key no longer.
func (p *uniques) drop(u *Unique) {
	first := p.youngest[u.hash]
	switch {
	case u.gone:
		return
	case first == u && u.older == nil:
		delete(p.youngest, u.hash)
	case first == u:
		p.youngest[u.hash] = u.older
	default:
		for first.older != u {
			first = first.older
		}
		first.older = u.older
	}
	u.gone = true
	p.held--
	if u.until != 0 {
		delete(p.windows, u.seq)
		p.asides.Changed(AsideUnique, uint64(u.seq))
	}
}

// of finds the entry of a submission that holds a key; nil: it does not.
func (p *uniques) of(unique *queue.Unique, id queue.SubmissionID) *Unique {
	u := p.youngest[unique.Hash()]
	for u != nil && u.ID != id {
		u = u.older
	}
	return u
}

// Forget frees the key of an insert that is not made.
func (p *uniques) Forget(u *Unique) {
	u.Forgotten = true
	p.drop(u)
}

// Release frees the key that a submission holds for a time.
func (p *uniques) Release(seq uint32) {
	if u := p.windows[seq]; u != nil {
		p.drop(u)
	}
}

// UnderWay says that the insert is not applied yet.
func (u *Unique) UnderWay() bool { return u.Published != nil }

// Publish lets other inserts with this key wait for the open batch, which now has the insert.
func (u *Unique) Publish(m *Machine) {
	u.Commit = m.Batch.Commit
	m.Batch.Intend(u)
}

// Applied makes the hold final: the insert is on the disk.
func (u *Unique) Applied(*Machine) { u.Commit, u.Published = nil, nil }

// Undo frees the key: the insert failed.
func (u *Unique) Undo(m *Machine) { m.Uniques.Forget(u) }

// expire forgets keys whose time is over.
func (p *uniques) expire(now queue.Time) {
	for d, due := p.over.first(); due && d.At <= now; d, due = p.over.first() {
		p.over.pop()
		if u := p.windows[d.Seq]; u != nil && u.until <= now {
			p.drop(u)
		}
	}
}

// inserted notes that an insert is applied. Its key was free then, so nothing older holds it for a time. At a replay,
// keys of open submissions follow from the submissions that are open at its end.
func (p *uniques) inserted(op *journal.Insert, replay bool) {
	if op.Unique == nil {
		return
	}
	first := p.youngest[op.Unique.Hash()]
	for u := first; u != nil; u = u.older {
		if u.ID < op.ID && u.until != 0 {
			p.drop(u)
		}
	}
	if op.Unique.For == 0 {
		return
	}
	if replay && p.of(op.Unique, op.ID) == nil {
		if first != nil && first.ID > op.ID {
			return // a younger submission has taken the key: its row is ahead of this op
		}
		p.add(op)
	}
	p.asides.Changed(AsideUnique, uint64(op.Seq))
}

// opened makes a submission hold its key that is open again, or was open when the shard closed.
func (p *uniques) opened(r *Record) {
	if u := r.Details().Unique; u != nil && u.For == 0 {
		p.put(&Unique{hash: u.Hash(), ID: r.ID, seq: r.Seq})
	}
}

// ended frees the key that a submission held while it was open.
func (p *uniques) ended(r *Record) {
	if unique := r.Details().Unique; unique != nil && unique.For == 0 {
		if u := p.of(unique, r.ID); u != nil {
			p.drop(u)
		}
	}
}

// Row and Load are Rows': keys that are held for a time, by seq.
func (p *uniques) Row(seq uint64) []byte {
	u := p.windows[uint32(seq)]
	if u == nil {
		return nil
	}
	row := append([]byte{uniqueRowVersion}, u.hash[:]...)
	return binary.AppendUvarint(binary.AppendUvarint(row, uint64(u.ID)), uint64(u.until))
}

// Load is Rows'.
func (p *uniques) Load(seq uint64, row []byte) error {
	u := &Unique{seq: uint32(seq)}
	if len(row) < 1+len(u.hash) || row[0] != uniqueRowVersion {
		return AsideError(AsideUnique)
	}
	copy(u.hash[:], row[1:])
	d := fields{b: row[1+len(u.hash):]}
	if u.ID, u.until = queue.SubmissionID(d.uint()), queue.Time(d.uint()); d.bad || u.until == 0 || len(d.b) > 0 {
		return AsideError(AsideUnique)
	}
	p.put(u)
	return nil
}

// uniqueRowVersion is the first byte of a row.
const uniqueRowVersion = 1

// Replaceable finds the submission that another one with the same key may replace: it is open, and none of its chunks
// is reserved or finished; nil: it has to stay.
func (u *Unique) Replaceable(m *Machine) *Record {
	r := m.Live(u.ID)
	if r == nil || r.Ending || r.Holds.Len() > 0 || r.Done+r.Dead+r.Skips+r.Dying > 0 {
		return nil
	}
	return r
}

// Ends says that a submission, which holds a key while it is open, has one unfinished chunk left, and so ends with
// that.
func (u *Unique) Ends(m *Machine) bool {
	r := m.Live(u.ID)
	return u.until == 0 && r != nil && !r.Ending && r.Done+r.Dead+r.Skips+1 == r.Chunks
}

// Replace ends a submission in favour of another one, whose insert follows in the same batch. From now on none of its
// chunks is handed out: the caller of the insert is promised that it never began.
func Replace(m *Machine, r *Record, by queue.SubmissionID, now queue.Time) {
	m.Uniques.Replaced++
	reason := fmt.Sprintf("replaced by submission %s, which has the same unique key", by)
	m.EndSubmission(r, queue.Cancelled, reason, now)
	if !r.Parked {
		park(m, r)
		m.Batch.Intend((*parked)(r))
	}
}

// park hides a submission. Its chunks wait.
func park(m *Machine, r *Record) {
	m.Counting.Changing(r)
	operations := uint64(r.Sub.Available()) * uint64(r.Details().Operations)
	m.Stats.Operations -= operations
	m.Stats.cover(r, -operations)
	m.Backlog.Hide(r.Sub)
	r.Parked = true
	countParked(m, r, int(r.Sub.Available()))
}

// unpark shows a hidden submission again.
func unpark(m *Machine, r *Record) {
	m.Counting.Changing(r)
	r.Parked = false
	countParked(m, r, -int(r.Sub.Available()))
	m.show(r)
}

// parked is a submission that is hidden because it is about to be replaced.
type parked Record

// Applied is intent's: it has ended.
func (*parked) Applied(*Machine) {}

// Undo shows the submission again.
func (r *parked) Undo(m *Machine) { unpark(m, (*Record)(r)) }
