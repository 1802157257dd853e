package shard

import (
	"context"
	"time"

	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/queue"
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
// had deleted them. It looks at some thousand of them, gives up `most` at most, and goes on from there when it is
// called again. As Retain it is of the kind KindRetention: a submission that nothing can be done with is parked, and
// the others go.
func (p *DeadLetters) Age(ctx context.Context, keep time.Duration, most int) error {
	s := p.s
	a := &p.ageing
	a.mu.Lock()
	defer a.mu.Unlock()
	now := s.now()
	s.mu.Lock()
	none := s.m.Stats.Dead+s.m.Stats.EndedLetters == 0
	may := s.Worker.kinds[machine.KindRetention].may(now)
	s.mu.Unlock()
	if keep != a.keep || a.next > now.Add(keep) { // the clock may have been set back
		a.keep, a.after, a.next = keep, queue.ChunkID{}, 0
	}
	if none || !may || now < a.next {
		return nil
	}
	if a.after == (queue.ChunkID{}) {
		a.began, a.first = now, now
	}
	page, err := p.List(ctx, queue.BulkFilter{}, a.after, ageLook)
	if err != nil {
		return p.unaged(ctx, 0, err, now)
	}
	if n, err := p.agePage(ctx, page, now, most); err != nil || n >= most {
		return err
	}
	if len(page) == ageLook {
		a.after = page[ageLook-1].Chunk
		return nil
	}
	a.after = queue.ChunkID{}
	a.next = max(a.first.Add(keep), now.Add(min(keep/64, agePause)))
	return nil
}

// agePage gives up those of a page that are too old, `most` at most and a submission at a time, and says how many.
func (p *DeadLetters) agePage(ctx context.Context, page []queue.DeadChunk, now queue.Time, most int) (n int, err error) {
	for len(page) > 0 && n < most {
		id := page[0].Chunk.Submission
		var old []uint32
		of := 0
		for ; of < len(page) && page[of].Chunk.Submission == id; of++ {
			switch died := page[of].Died; {
			case died == 0: // of a time that did not note it
			case died.Add(p.ageing.keep) > now:
				p.ageing.first = min(p.ageing.first, died)
			case len(old) < most-n:
				old = append(old, page[of].Chunk.Index)
			default:
				p.ageing.first = min(p.ageing.first, died)
			}
		}
		page = page[of:]
		if len(old) == 0 || p.parkedAge(id) {
			continue
		}
		gone, err := p.Delete(ctx, id, old)
		if err != nil && queue.CodeOf(err) != queue.CodeUnknownSubmission {
			return n, p.unaged(ctx, id, err, now)
		}
		p.aged(gone, now)
		n += gone
	}
	return n, nil
}

// aged counts what was given up.
func (p *DeadLetters) aged(n int, now queue.Time) {
	s := p.s
	if n == 0 {
		return
	}
	p.ageing.tries = 0
	s.mu.Lock()
	defer s.mu.Unlock()
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
