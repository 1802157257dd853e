package shard

import (
	"context"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/deadletters"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// bulkPage is a page of a bulk operation in hand.
type bulkPage struct {
	s         *Shard
	id        queue.BulkID
	step      uint64 // of the operation, as far as this page got
	after     queue.ChunkID
	request   queue.BulkRequest
	filter    queue.BulkFilter
	most      int
	waits     commit.Set
	seen      deadletters.Survey
	noted     uint64 // of what was seen, how much is noted
	overtaken bool   // someone else did something to the operation, or the state was made again: the page ends here
}

// started is the moment after which nothing that happens is meant: what is redriven and dies again is not met again.
func (p *bulkPage) started() queue.Time { return p.id.Created() + 1 }

// note encodes what came of some chunks or submissions, in the batch of what was done with them; false: the page ends here. The mutex is
// held, and act encodes that. seen is what the page has looked at by then.
func (p *bulkPage) note(now queue.Time, n int, last queue.ChunkID, seen uint64, act func(m *machine.Machine) (done, refused int)) bool {
	m := p.s.m
	b := p.s.parts.bulks.At(p.id, p.step)
	if b == nil {
		p.overtaken = true
		return false
	}
	done, refused := act(m)
	p.s.parts.bulks.Step(b, now, func(next *journal.Bulk) {
		next.After = last
		next.Counts.Matched += uint64(n)
		next.Counts.Done += uint64(done)
		next.Counts.Refused += uint64(refused)
		next.Counts.Unchanged += uint64(n - done - refused)
		p.s.parts.bulks.Walked(&next.Walk, seen-p.noted, &b.Request)
	})
	p.noted = seen
	p.step = b.Plan.Step
	p.waits.Add(m.Batch.Commit)
	return true
}

// letters redrives, deletes or forwards the next dead letters.
func (p *bulkPage) letters(ctx context.Context) (n int, err error) {
	if before := p.started(); p.filter.Dead.DiedBefore == 0 || p.filter.Dead.DiedBefore > before {
		p.filter.Dead.DiedBefore = before
	}
	if p.after.Submission == 0 { // what was inserted later has nothing that died before
		p.after = queue.ChunkID{Submission: queue.SubmissionID(p.id)}
	}
	page, err := p.s.DeadLetters.list(ctx, &p.filter, p.after, p.most, &p.seen)
	for start := 0; start < len(page) && err == nil && !p.overtaken; {
		id := page[start].Chunk.Submission
		var indexes []uint32
		for ; start < len(page) && page[start].Chunk.Submission == id; start++ {
			indexes = append(indexes, page[start].Chunk.Index)
		}
		err = p.lettersOf(ctx, id, indexes, p.seen.Marks[start-1])
	}
	return len(page), err
}

func (p *bulkPage) lettersOf(ctx context.Context, id queue.SubmissionID, indexes []uint32, seen uint64) error {
	last := queue.ChunkID{Submission: id, Index: indexes[len(indexes)-1]}
	_, err := p.s.DeadLetters.at(ctx, id, func(g *deadletters.Holder, now queue.Time) error {
		p.note(now, len(indexes), last, seen, func(*machine.Machine) (done, refused int) {
			if g.Refusal(p.request.Action, now) != "" {
				return 0, len(indexes)
			}
			if p.request.DryRun {
				return len(g.Take(indexes)), 0
			}
			taken := g.Take(indexes)
			if len(taken) > 0 {
				g.Decide(deadletters.Fate{Action: p.request.Action, To: p.request.To}, taken, now)
			}
			return len(taken), 0
		})
		return nil
	})
	if queue.CodeOf(err) != queue.CodeUnknownSubmission {
		return err
	}
	return p.locked(func(now queue.Time) { // its retention was over a moment ago
		p.note(now, len(indexes), last, seen, func(*machine.Machine) (done, refused int) { return 0, 0 })
	})
}

func (p *bulkPage) locked(fn func(now queue.Time)) error {
	now := p.s.now()
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if err := p.s.usable(); err != nil {
		return err
	}
	fn(now)
	return nil
}

// walk visits the open submissions, newest first from the cursor on, until fn, which is told whether the filter means it, returns false.
// Those that were inserted after the operation was started are not visited. The mutex is held during fn, and given up between slices.
func (p *bulkPage) walk(fn func(r *machine.Record, meant bool) bool) {
	before := queue.SubmissionID(p.id)
	if p.after.Submission != 0 {
		before = p.after.Submission
		if p.request.Action.OnChunks() {
			before++ // the cursor's own may have more
		}
	}
	if id := p.filter.Dead.Submission; id != 0 {
		if id >= before {
			return
		}
		before = id + 1
	}
	for before != 0 {
		p.s.mu.Lock()
		stopped := false
		before = p.s.m.Order.Before(before, machine.ListSlice, func(r *machine.Record) bool {
			if id := p.filter.Dead.Submission; r.State == queue.Open && (id == 0 || id == r.ID) {
				stopped = !fn(r, p.filter.Matches(r.ID, r.State, r.Meta()))
			}
			return !stopped && (p.filter.Dead.Submission == 0 || r.ID > p.filter.Dead.Submission)
		})
		p.s.mu.Unlock()
		if stopped || p.filter.Dead.Submission != 0 && before <= p.filter.Dead.Submission {
			return
		}
	}
}

// submissions cancels the next ones, or gives them another priority.
func (p *bulkPage) submissions() (n int, err error) {
	var ids []queue.SubmissionID
	p.walk(func(r *machine.Record, meant bool) bool {
		if p.seen.SawSubmission(r.ID, meant); meant {
			ids = append(ids, r.ID)
		}
		return len(ids) < p.most && !p.seen.Spent()
	})
	if len(ids) == 0 {
		return 0, nil
	}
	return len(ids), p.locked(func(now queue.Time) {
		last := len(ids) - 1
		p.note(now, len(ids), queue.ChunkID{Submission: ids[last]}, p.seen.Marks[last], func(m *machine.Machine) (done, refused int) {
			for _, id := range ids {
				if r := m.Live(id); r != nil && !r.Ending && p.change(m, r, now) {
					done++
				}
			}
			return done, 0
		})
	})
}

// change does it with one submission, and says whether there was something to do.
func (p *bulkPage) change(m *machine.Machine, r *machine.Record, now queue.Time) bool {
	if p.request.Action == queue.BulkCancel {
		if !p.request.DryRun {
			m.Endings.Close(r, queue.Cancelled, "", now)
		}
		return true
	}
	if r.Priority == p.request.Priority {
		return false
	}
	if !p.request.DryRun {
		m.Encode(now).Priority(journal.Priority{Seq: r.Seq, Priority: p.request.Priority})
	}
	return true
}

// retries offers the next chunks that wait for a retry.
func (p *bulkPage) retries() (n int, err error) {
	page := p.waiting()
	for start := 0; start < len(page) && err == nil && !p.overtaken; {
		id := page[start].Chunk.Submission
		var indexes []uint32
		for ; start < len(page) && page[start].Chunk.Submission == id; start++ {
			indexes = append(indexes, page[start].Chunk.Index)
		}
		err = p.locked(func(now queue.Time) {
			p.note(now, len(indexes), queue.ChunkID{Submission: id, Index: indexes[len(indexes)-1]},
				p.seen.Marks[start-1], func(m *machine.Machine) (done, refused int) {
					return p.s.parts.letters.Hasten(id, indexes, p.request.DryRun, now), 0
				})
		})
	}
	return len(page), err
}

// waiting is the next page of chunks that wait for a retry and that the filter means.
func (p *bulkPage) waiting() (page []queue.DeadChunk) {
	f := p.filter
	f.Dead.DiedBefore = p.seen.Started
	if before := p.filter.Dead.DiedBefore; before != 0 {
		f.Dead.DiedBefore = min(before, p.seen.Started)
	}
	first, from := p.after.Submission, uint64(p.after.Index)+1
	for more := true; more && len(page) < p.most && !p.seen.Spent(); {
		var slice []queue.DeadChunk
		var others []passedOver
		more = false
		p.walk(func(r *machine.Record, meant bool) bool {
			start := uint64(0)
			if r.ID == first {
				start = from
			}
			switch {
			case meant:
				for _, index := range r.Delays.From(start, sliceItems-len(slice), nil) {
					slice = append(slice, deadletters.Letter(r, index))
				}
			case start == 0 && r.Delays.Len() > 0:
				others = append(others, passedOver{len(slice), r.ID, uint64(r.Delays.Len())})
			}
			more = len(slice) == sliceItems || len(others) == sliceItems
			return !more
		})
		page = p.appendWaiting(page, slice, others, &f)
		if more {
			first, from = p.seen.Last.Submission, uint64(p.seen.Last.Index)+1
			p.after = p.seen.Last
		}
	}
	return page
}

// passedOver is a submission that the filter does not mean.
type passedOver struct {
	at int // how much of the slice was there before it
	id queue.SubmissionID
	n  uint64 // chunks of it that wait
}

// appendWaiting appends what the filter means of a slice, and counts what was walked over, in the order of the walk.
func (p *bulkPage) appendWaiting(page, slice []queue.DeadChunk, others []passedOver, f *queue.BulkFilter) []queue.DeadChunk {
	w := deadletters.Walk{Filter: f, Seen: &p.seen, Visit: func(d *queue.DeadChunk) bool {
		page = append(page, *d)
		return len(page) < p.most
	}}
	done := 0
	for _, x := range append(others, passedOver{at: len(slice)}) {
		for ; done < x.at && !w.Over(); done++ {
			w.Look(&slice[done])
		}
		if w.Over() {
			break
		}
		if x.id != 0 {
			p.seen.Passed(x.id, x.n)
		}
	}
	return page
}
