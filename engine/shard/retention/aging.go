package retention

import (
	"context"
	"time"

	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/trouble"
)

// stretch is the place of the retention of dead letters, which goes through all letters again and again, a stretch at a
// time, and looks for those that are too old. There is no index of letters by age, because most queues have few and
// many never set a limit. A round reads all letters in the order of their chunks instead, and remembers the oldest that
// stays. No letter can be due before that one, so the next round waits for it:
//
//	round 1: ──letters──►          oldest that stays died at 10:00, keep = 1h
//	                     wait ...  until 11:00 (or a little later, see agePause)
//	round 2: ──letters──►
type stretch struct {
	mu      locks.Mutex[shell.InStretch] // one stretch at a time
	keep    time.Duration
	after   queue.ChunkID // where the round is
	first   queue.Time    // when the oldest letter that stays, of this round, died
	next    queue.Time    // no round before this time: no letter can be too old by then
	overdue queue.Time    // since when the oldest letter that is due, of this round, should be gone; 0: none is due
	failing queue.SubmissionID
	tries   int
}

// How many dead letters one pass looks at: many, because for any letter of a submission it reads the whole history row.
// And the least pause between two rounds: agePause, or a 64th of the time for which letters are kept, if that is less.
const (
	ageLook  = 5000
	agePause = time.Minute
)

// Age gives up dead letters whose last try ended longer than `keep` ago (more than 0): their chunks are
// skipped for good, as if someone had deleted them. It looks at some thousand of them, gives up `most`
// at most, and goes on from there when it is called again; more says that its round is not over.
func (r *Retention) Age(ctx context.Context, keep time.Duration, most int) (more bool, err error) {
	a := &r.stretch
	a.mu.Lock()
	defer a.mu.Unlock()
	now := r.Now()
	var none, may bool
	r.Look(func(m *machine.Machine) {
		none = m.Stats.Dead+m.Stats.EndedLetters == 0
		may = r.Book.Kinds[machine.KindRetention].May(now)
		if none {
			r.letterSince = 0
		}
	})
	// A shorter limit makes letters due that the last round passed over, so a change begins a round at once.
	if keep != a.keep || a.next > now.Add(keep) { // the clock may have been set back
		a.keep, a.after, a.next = keep, queue.ChunkID{}, 0
	}
	if none || !may || now < a.next {
		return false, nil
	}
	if a.after == (queue.ChunkID{}) {
		a.first, a.overdue = now, 0
	}
	page, err := r.Letters.List(ctx, queue.BulkFilter{}, a.after, ageLook)
	if err != nil {
		return false, r.unaged(ctx, 0, err, now)
	}
	if n, err := r.agePage(ctx, page, now, most); err != nil || n >= most {
		return err == nil, err
	}
	if len(page) == ageLook {
		a.after = page[ageLook-1].Chunk
		return true, nil
	}
	a.after = queue.ChunkID{}
	a.next = max(a.first.Add(keep), now.Add(min(keep/64, agePause)))
	r.Look(func(*machine.Machine) { r.letterSince = 0 })
	return false, nil
}

// agePage gives up those of a page that are too old, `most` at most, and says how many. They share commits, unless the
// page before failed: then each submission has a commit of its own, so that the failing one is found. History is held
// for reading: the retention of submissions must not delete the submissions of this page.
func (r *Retention) agePage(ctx context.Context, page []queue.DeadChunk, now queue.Time, most int) (n int, err error) {
	r.History.RLock()
	defer r.History.RUnlock()
	var waits commit.Set
	var failing queue.SubmissionID
	for alone := r.stretch.tries > 0; len(page) > 0 && n < most && err == nil; {
		id := page[0].Chunk.Submission
		var old []uint32
		of := 0
		for ; of < len(page) && page[of].Chunk.Submission == id; of++ {
			if r.stretch.tooOld(page[of].Died, now) && len(old) < most-n {
				old = append(old, page[of].Chunk.Index)
			}
		}
		page = page[of:]
		if len(old) == 0 || r.parked(id) {
			continue
		}
		gone, own, begun := r.Letters.GiveUp(ctx, id, old)
		if alone && begun == nil {
			begun = r.Wait(commit.Set{First: own})
		}
		switch {
		case begun == nil:
			n += gone
			waits.Add(own)
		case queue.CodeOf(begun) != queue.CodeUnknownSubmission:
			failing, err = id, begun
		}
	}
	if waiting := r.Wait(waits); waiting != nil {
		n, err, failing = 0, waiting, 0 // later ops may have failed because of this failure
	}
	r.Look(func(m *machine.Machine) { r.aged(m, n, now) })
	if err != nil {
		return n, r.unaged(ctx, failing, err, now)
	}
	return n, nil
}

// tooOld says whether a letter that died then is to be given up. It notes when the next letter will be too old, or
// since when this one is. Letters of an early version have no time of death. They stay: to delete them would be a guess
// about someone's data.
func (a *stretch) tooOld(died, now queue.Time) bool {
	switch due := died.Add(a.keep); {
	case died == 0: // from a version that did not note it
		return false
	case due > now:
		a.first = min(a.first, died)
		return false
	case a.overdue == 0 || due < a.overdue:
		a.overdue = due
	}
	return true
}

// aged counts the letters that were given up. The mutex is held.
func (r *Retention) aged(m *machine.Machine, n int, now queue.Time) {
	r.letterSince = r.stretch.overdue
	if n > 0 {
		r.stretch.tries = 0
		r.Book.Done(m, machine.KindRetention, now, n)
		m.Stats.Aged += uint64(n)
	}
}

// parked says that the letters of a submission are left alone.
func (r *Retention) parked(id queue.SubmissionID) (is bool) {
	r.Look(func(*machine.Machine) {
		is = r.Book.Parked[machine.Action{Kind: machine.KindRetention, Submission: id}] != nil
	})
	return is
}

// unaged notes a failure. A submission whose letters could not be given up too often in a row is parked.
// A full disk parks nothing: it is the server's trouble and not the submission's, and ends by itself.
func (r *Retention) unaged(ctx context.Context, id queue.SubmissionID, err error, now queue.Time) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a := &r.stretch
	if id != a.failing {
		a.failing, a.tries = id, 0
	}
	a.tries++
	r.Look(func(*machine.Machine) {
		r.Book.Fail(machine.KindRetention, err, now)
		if id != 0 && a.tries > trouble.ParkAfter && queue.CodeOf(err) != queue.CodeDiskFull {
			r.Book.Park(machine.Action{Kind: machine.KindRetention, Submission: id}, err, now)
		}
	})
	return err
}
