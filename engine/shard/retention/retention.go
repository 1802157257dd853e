// Package retention is the part of a shard that removes ended submissions and dead letters
// when their retention is over. Both belong to the worker's kind KindRetention. After a
// failure the worker pauses, finds the one that it cannot remove, parks it, and removes the
// others.
package retention

import (
	"context"
	"errors"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/trouble"
	"github.com/quern-queue/quern/engine/store"
)

// Retention removes submissions and letters whose time is over. It outlives a reload.
//
// History is taken for writing while rows of the history go, and for reading by a redrive that
// opens an ended submission again. Without it, a redrive could open a submission whose row
// retention deletes at that moment, with contents that are gone.
type Retention struct {
	shell.Door[Kept]
	Options
	kept    queue.Time // History guards it: in the history, all submissions that ended before have dead letters
	stretch stretch

	// Since when the oldest overdue ended submission and the oldest overdue dead letter should be gone, 0 for none. The
	// shard's mutex guards both.
	endedSince, letterSince queue.Time
}

// Options are the functions of the rest of a shard that retention needs.
type Options struct {
	// History is held for writing while the history loses or changes rows, for reading
	// while a submission of it is opened again.
	History *locks.RWMutex[shell.InHistory]
	Letters Letters
	Book    *trouble.Book
	// Checkpoint brings all durable state into the store.
	Checkpoint func() error
	// Ahead says that rows of the store may be younger than the position that a replay begins at.
	Ahead func() bool
}

// Kept are the dead letters that keep ended submissions from being removed, as another
// part of the machine knows them.
type Kept interface {
	// Holders has the number of letters of each ended submission that has some. The caller only reads the map, and does
	// not keep it.
	Holders() map[queue.SubmissionID]uint32
	// Pinned are submissions that others still need. known: there are not too many to list.
	Pinned() (ids map[queue.SubmissionID]bool, known bool)
	// Keep notes how many letters an ended submission has.
	Keep(id queue.SubmissionID, letters uint32)
	// Forget drops the state of a submission that left the history.
	Forget(id queue.SubmissionID)
}

// Letters are the dead letters of the shard, wherever they are.
type Letters interface {
	// List lists up to `limit` dead letters behind `after` that the filter means.
	List(ctx context.Context, f queue.BulkFilter, after queue.ChunkID, limit int) ([]queue.DeadChunk, error)
	// GiveUp skips dead chunks of a submission for good, and says how many; the caller
	// waits for the commit, and holds History until then.
	GiveUp(ctx context.Context, id queue.SubmissionID, indexes []uint32) (n int, c *commit.Commit, err error)
}

// New is the retention of a shard.
func New(door shell.Door[Kept], o Options) *Retention { return &Retention{Door: door, Options: o} }

// Since is since when the oldest overdue item should be gone. The mutex is held.
func (r *Retention) Since() (at queue.Time, any bool) {
	if r.endedSince == 0 || r.letterSince != 0 && r.letterSince < r.endedSince {
		return r.letterSince, r.letterSince != 0
	}
	return r.endedSince, true
}

// Pending is how many ended submissions and dead letters wait for their retention to be
// over. The mutex is held.
func (r *Retention) Pending(m *machine.Machine) (n uint64) {
	if m.Settings.Retention > 0 {
		n = uint64(max(r.Store().History.Len()+len(m.Endings.ByID)-len(r.Part().Holders()), 0))
	}
	if m.Settings.DeadRetention > 0 {
		n += m.Stats.Dead + m.Stats.EndedLetters
	}
	return n
}

// slice is a number of ended submissions that are removed together.
type slice struct {
	before queue.Time // they finished before
	most   int
	due    bool // a checkpoint comes first
	kept   queue.Time
	stays  map[queue.SubmissionID]bool
}

// Retain removes ended submissions that finished before the given time from the history, at most `most`, with all their
// data. It keeps those that have dead letters: no letter may be lost in this way (see Age). more says that there may be
// more of them.
func (r *Retention) Retain(ctx context.Context, finishedBefore queue.Time, most int) (more bool, err error) {
	r.History.Lock()
	defer r.History.Unlock()
	now := r.Now()
	x, may := slice{before: finishedBefore, most: most}, false
	r.Look(func(m *machine.Machine) { may = r.begin(m, &x, now) })
	if !may {
		return false, nil
	}
	if x.due {
		if err := r.Checkpoint(); err != nil {
			return false, err
		}
	}
	found, err := r.outlived(ctx, &x)
	if err == nil && len(found) > 0 && r.Ahead() {
		err = r.Checkpoint() // else a replay would insert them again, as the history lacks them
	}
	removed := 0
	if err == nil {
		removed, err = r.Store().History.Forget(ctx, found)
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	r.Look(func(m *machine.Machine) { more = r.conclude(m, &x, found, removed, err, now) })
	return more, err
}

// begin says whether a slice may be made now, and prepares it. The mutex is held.
func (r *Retention) begin(m *machine.Machine, x *slice, now queue.Time) (may bool) {
	kind := &r.Book.Kinds[machine.KindRetention]
	if !kind.May(now) {
		return false
	}
	if kind.Limit > 0 {
		x.most = min(x.most, kind.Limit)
	}
	// The history still has rows of submissions that are open again, or lacks some that
	// are past their time. While it has others to remove, those can wait: a checkpoint for
	// every slice would take longer than the slice.
	gone := m.Endings.InOrder
	x.due = m.Endings.Opened > 0 || r.endedSince == 0 && len(gone) > 0 && gone[0].Ended.At < x.before
	if freed := &m.Endings.Freed; *freed != 0 {
		r.kept = min(r.kept, *freed)
		*freed = 0
	}
	x.kept = r.kept
	if x.stays, may = r.Part().Pinned(); may {
		// else too many letters are on their way to tell which submissions have to stay for them
		for a := range r.Book.Parked {
			if a.Kind == machine.KindRetention {
				x.stays[a.Submission] = true
			}
		}
	}
	return may
}

// outlived finds submissions whose time is over, without those that stay or have dead letters. It notes the time up to
// which all others have dead letters.
func (r *Retention) outlived(ctx context.Context, x *slice) ([]store.Outlived, error) {
	kept, onlyLetters := x.kept, true // up to here
	found, err := r.Store().History.Outlived(ctx, x.kept, x.before, x.most,
		func(id queue.SubmissionID, finished queue.Time) bool {
			var letters bool
			r.Look(func(*machine.Machine) { letters = r.Part().Holders()[id] > 0 })
			if onlyLetters = onlyLetters && letters; onlyLetters {
				kept = finished
			}
			return letters || x.stays[id]
		})
	if err == nil {
		r.kept = kept
	}
	return found, err
}

// conclude records the result of a slice. The mutex is held.
func (r *Retention) conclude(m *machine.Machine, x *slice, found []store.Outlived, removed int, err error,
	now queue.Time) (more bool) {
	for _, gone := range found[:removed] {
		r.Part().Keep(gone.ID, 0)
		r.Part().Forget(gone.ID)
	}
	m.Stats.Acts[machine.KindRetention].Done += uint64(removed)
	kind := &r.Book.Kinds[machine.KindRetention]
	late := now.Sub(x.before)
	if err == nil {
		if more = len(found) == x.most; more && len(found) > 0 { // later rows ended no earlier
			r.endedSince = found[len(found)-1].Finished.Add(late)
		} else {
			r.endedSince = 0
		}
		kind.Pass(now, removed)
		return more
	}
	if len(found) > 0 {
		r.endedSince = found[0].Finished.Add(late)
	}
	r.Book.Fail(machine.KindRetention, err, now)
	if left := found[removed:]; len(left) > 0 && !errors.Is(err, journal.ErrFull) && kind.Narrow(len(left)) {
		r.Book.Park(machine.Action{Kind: machine.KindRetention, Submission: left[0].ID}, err, now)
	}
	return false
}
