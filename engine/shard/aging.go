package shard

import (
	"cmp"
	"context"
	"time"

	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/deadletters"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// aging goes through the dead letters again and again for those that are older than the queue keeps them, a stretch at a time.
type aging struct {
	mu      locks.Mutex[inStretch] // one stretch at a time
	keep    time.Duration
	after   queue.ChunkID // where the round is
	began   queue.Time    // the round
	first   queue.Time    // in this round, when the oldest of those that stay died
	next    queue.Time    // no round before: nothing can be too old by then
	overdue queue.Time    // since when the oldest letter that this round has met should be gone; 0: it has met none
	failing queue.SubmissionID
	tries   int
}

// How many dead letters one pass looks at: many, because it reads all that the history has of a submission for any of its letters. And how
// soon a round follows the one before: later by up to agePause, or by a 64th of what letters are kept for, if that is less.
const (
	ageLook  = 5000
	agePause = time.Minute
)

// Age gives up dead letters whose last try ended longer than `keep` ago (more than 0): their chunks are skipped for good, as if someone
// had deleted them. It looks at some thousand of them, gives up `most` at most, and goes on from there when it is called again; more says
// that its round is not over. As Retain it is of the kind KindRetention: a submission that nothing can be done with is parked, and the
// others go.
func (p *DeadLetters) Age(ctx context.Context, keep time.Duration, most int) (more bool, err error) {
	s := p.s
	a := &p.ageing
	a.mu.Lock()
	defer a.mu.Unlock()
	now := s.now()
	s.mu.Lock()
	none := s.m.Stats.Dead+s.m.Stats.EndedLetters == 0
	may := s.Worker.kinds[machine.KindRetention].may(now)
	if none {
		s.Worker.overdue.letter = 0
	}
	s.mu.Unlock()
	if keep != a.keep || a.next > now.Add(keep) { // the clock may have been set back
		a.keep, a.after, a.next = keep, queue.ChunkID{}, 0
	}
	if none || !may || now < a.next {
		return false, nil
	}
	if a.after == (queue.ChunkID{}) {
		a.began, a.first, a.overdue = now, now, 0
	}
	page, err := p.List(ctx, queue.BulkFilter{}, a.after, ageLook)
	if err != nil {
		return false, p.unaged(ctx, 0, err, now)
	}
	if n, err := p.agePage(ctx, page, now, most); err != nil || n >= most {
		return err == nil, err
	}
	if len(page) == ageLook {
		a.after = page[ageLook-1].Chunk
		return true, nil
	}
	a.after = queue.ChunkID{}
	a.next = max(a.first.Add(keep), now.Add(min(keep/64, agePause)))
	s.mu.Lock()
	s.Worker.overdue.letter = 0
	s.mu.Unlock()
	return false, nil
}

// agePage gives up those of a page that are too old, `most` at most, and says how many. They share commits, unless the page before failed:
// then each submission has one of its own, so that the one to blame is found.
func (p *DeadLetters) agePage(ctx context.Context, page []queue.DeadChunk, now queue.Time, most int) (n int, err error) {
	s := p.s
	s.aging.RLock()
	defer s.aging.RUnlock()
	var waits commit.Set
	var failing queue.SubmissionID
	for alone := p.ageing.tries > 0; len(page) > 0 && n < most && err == nil; {
		id := page[0].Chunk.Submission
		var old []uint32
		of := 0
		for ; of < len(page) && page[of].Chunk.Submission == id; of++ {
			if p.tooOld(page[of].Died, now) && len(old) < most-n {
				old = append(old, page[of].Chunk.Index)
			}
		}
		page = page[of:]
		if len(old) == 0 || p.parkedAge(id) {
			continue
		}
		gone, own, begun := p.begin(ctx, id, old, deadletters.Fate{Action: queue.BulkDelete})
		if alone && begun == nil {
			begun = s.writer.wait(own)
		}
		switch {
		case begun == nil:
			n += gone
			waits.Join(&own)
		case queue.CodeOf(begun) != queue.CodeUnknownSubmission:
			failing, err = id, begun
		}
	}
	if waiting := s.writer.wait(waits); waiting != nil {
		n, err = 0, cmp.Or(err, waiting)
	}
	p.aged(n, now)
	if err != nil {
		return n, p.unaged(ctx, failing, err, now)
	}
	return n, nil
}

// tooOld says whether a letter that died then is to be given up, and notes when the next one will be, or since when this one should be.
func (p *DeadLetters) tooOld(died, now queue.Time) bool {
	a := &p.ageing
	switch due := died.Add(a.keep); {
	case died == 0: // of a time that did not note it
		return false
	case due > now:
		a.first = min(a.first, died)
		return false
	case a.overdue == 0 || due < a.overdue:
		a.overdue = due
	}
	return true
}

// aged counts what was given up.
func (p *DeadLetters) aged(n int, now queue.Time) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Worker.overdue.letter = p.ageing.overdue
	if n == 0 {
		return
	}
	p.ageing.tries = 0
	s.Worker.kinds[machine.KindRetention].pass(now, n)
	s.m.Stats.Acts[machine.KindRetention].Done += uint64(n)
	s.m.Stats.Aged += uint64(n)
}

// parkedAge says that the letters of a submission are left alone.
func (p *DeadLetters) parkedAge(id queue.SubmissionID) bool {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Worker.parked[machine.Action{Kind: machine.KindRetention, Submission: id}] != nil
}

// unaged notes a failure. A submission whose letters could not be given up too often in a row is parked.
func (p *DeadLetters) unaged(ctx context.Context, id queue.SubmissionID, err error, now queue.Time) error {
	s := p.s
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a := &p.ageing
	if id != a.failing {
		a.failing, a.tries = id, 0
	}
	a.tries++
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Worker.kinds[machine.KindRetention].fail(err, now, s.options.Seed())
	if id != 0 && a.tries > parkAfter && queue.CodeOf(err) != queue.CodeDiskFull {
		s.Worker.park(machine.Action{Kind: machine.KindRetention, Submission: id}, err, now)
	}
	return err
}
