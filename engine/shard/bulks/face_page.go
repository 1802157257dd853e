package bulks

// One page of a bulk operation: find the next things that the filter means, do something with them,
// and note both in one batch.
//
//	survey (slices of the mutex, reads of the store) ─► list
//	for each submission of it, one hold:  act + note ─► batch
//	                                      └ After, counts and Step: a crash continues exactly behind this
//
// `step` fences the page. If an operator cancels the operation, or a reload makes the state again,
// the step is not the one that the page knows: it is overtaken, and encodes nothing more. Otherwise
// the work of two pages could both count.

import (
	"context"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/survey"
)

// page is a page of a bulk operation in hand.
type page struct {
	*Bulks
	id        queue.BulkID
	step      uint64 // of the operation, as far as this page got
	after     queue.ChunkID
	request   queue.BulkRequest
	filter    queue.BulkFilter
	most      int
	waits     commit.Set
	seen      survey.Survey
	noted     uint64 // how much of `seen` is noted
	unread    bool   // of a purge: there are submissions that it has not looked at
	overtaken bool   // someone else changed the operation, or the state was made again: the page ends here
}

// started is the moment from which on the page ignores deaths: a letter that it redrives, and that dies again, is not
// met twice.
func (p *page) started() queue.Time { return p.id.Created() + 1 }

// change calls fn with the mutex held. The page waits for the commit of the ops.
func (p *page) change(fn func(m *machine.Machine, now queue.Time)) error {
	c, err := p.Begin(func(m *machine.Machine, now queue.Time) error {
		fn(m, now)
		return nil
	})
	p.waits.Add(c)
	return err
}

// note calls act, and encodes the results of n chunks or submissions in the same batch; it does nothing if the page is
// overtaken. The mutex is held. seen is how many items the page has looked at by then.
func (p *page) note(now queue.Time, n int, last queue.ChunkID, seen uint64, act func() (done, refused int)) {
	part := p.Part()
	b := part.at(p.id, p.step)
	if b == nil {
		p.overtaken = true
		return
	}
	done, refused := act()
	part.step(b, now, func(next *journal.Bulk) {
		next.After = last
		next.Counts.Matched += uint64(n)
		next.Counts.Done += uint64(done)
		next.Counts.Refused += uint64(refused)
		next.Counts.Unchanged += uint64(n - done - refused)
		part.walked(&next.Walk, seen-p.noted, &b.Request)
	})
	p.noted = seen
	p.step = b.Plan.Step
}

// nothing is the act for items that a page only walks over.
func nothing() (done, refused int) { return 0, 0 }

// bySubmission calls fn for the chunks of each submission of a list, with how many items the page had examined by the
// last of them. It relies on the order of the list: chunks of one submission are neighbours.
func (p *page) bySubmission(list []queue.DeadChunk,
	fn func(id queue.SubmissionID, indexes []uint32, seen uint64) error) (err error) {
	for start := 0; start < len(list) && err == nil && !p.overtaken; {
		id := list[start].Chunk.Submission
		var indexes []uint32
		for ; start < len(list) && list[start].Chunk.Submission == id; start++ {
			indexes = append(indexes, list[start].Chunk.Index)
		}
		err = fn(id, indexes, p.seen.Marks[start-1])
	}
	return err
}

// deadLetters redrives, deletes or forwards the next ones.
func (p *page) deadLetters(ctx context.Context) (n int, err error) {
	if before := p.started(); p.filter.Dead.DiedBefore == 0 || p.filter.Dead.DiedBefore > before {
		p.filter.Dead.DiedBefore = before
	}
	if p.after.Submission == 0 { // later submissions have no earlier deaths
		p.after = queue.ChunkID{Submission: queue.SubmissionID(p.id)}
	}
	list, err := p.letters.Survey(ctx, &p.filter, p.after, p.most, &p.seen)
	if err != nil {
		return len(list), err
	}
	return len(list), p.bySubmission(list, func(id queue.SubmissionID, indexes []uint32, seen uint64) error {
		last := queue.ChunkID{Submission: id, Index: indexes[len(indexes)-1]}
		c, err := p.letters.ActOn(ctx, id, indexes, &p.request, func(now queue.Time, act func() (done, refused int)) {
			p.note(now, len(indexes), last, seen, act)
		})
		p.waits.Add(c)
		if queue.CodeOf(err) != queue.CodeUnknownSubmission {
			return err
		}
		return p.change(func(_ *machine.Machine, now queue.Time) { // its retention was over a moment ago
			p.note(now, len(indexes), last, seen, nothing)
		})
	})
}

// walk visits the open submissions, newest first from the cursor on, until fn, which is told
// whether the filter means it, returns false. Those that were inserted after the operation
// was started are not visited. The mutex is held during fn, and given up between slices.
func (p *page) walk(fn func(r *machine.Record, meant bool) bool) {
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
		stopped := false
		p.Look(func(m *machine.Machine) {
			before = m.Order.Before(before, machine.ListSlice, func(r *machine.Record) bool {
				if id := p.filter.Dead.Submission; r.State == queue.Open && (id == 0 || id == r.ID) {
					stopped = !fn(r, p.filter.Matches(r.ID, r.State, r.Meta()))
				}
				return !stopped && (p.filter.Dead.Submission == 0 || r.ID > p.filter.Dead.Submission)
			})
		})
		if stopped || p.filter.Dead.Submission != 0 && before <= p.filter.Dead.Submission {
			return
		}
	}
}

// submissions cancels the next ones, or gives them another priority. The ids are collected in slices, and changed in
// one hold behind them; a submission that ended in between counts as unchanged.
func (p *page) submissions() (n int, err error) {
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
	return len(ids), p.change(func(m *machine.Machine, now queue.Time) {
		last := len(ids) - 1
		p.note(now, len(ids), queue.ChunkID{Submission: ids[last]}, p.seen.Marks[last], func() (done, refused int) {
			for _, id := range ids {
				if r := m.Live(id); r != nil && !r.Ending && p.changeOne(m, r, now) {
					done++
				}
			}
			return done, 0
		})
	})
}

// changeOne does it with one submission, and says whether there was something to do.
func (p *page) changeOne(m *machine.Machine, r *machine.Record, now queue.Time) bool {
	if p.request.Action == queue.BulkCancel {
		if !p.request.DryRun {
			m.EndSubmission(r, queue.Cancelled, "", now)
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

// retries offers the next chunks that wait for a retry, or gives them up.
func (p *page) retries() (n int, err error) {
	list := p.waiting()
	return len(list), p.bySubmission(list, func(id queue.SubmissionID, indexes []uint32, seen uint64) error {
		return p.change(func(m *machine.Machine, now queue.Time) {
			last := queue.ChunkID{Submission: id, Index: indexes[len(indexes)-1]}
			p.note(now, len(indexes), last, seen, func() (done, refused int) {
				if p.request.Action == queue.BulkGiveUp {
					return m.Tries.GiveUp(id, indexes, p.request.DryRun, now), 0
				}
				return p.Part().tries.Hasten(id, indexes, p.request.DryRun, now), 0
			})
		})
	})
}

// waiting is the next page of chunks that wait for a retry and that the filter means. Chunks that failed after the
// operation was started are left out: one that it hastened, and that fails again at once, is not met twice.
func (p *page) waiting() (list []queue.DeadChunk) {
	f := p.filter
	f.Dead.DiedBefore = p.seen.Started
	if before := p.filter.Dead.DiedBefore; before != 0 {
		f.Dead.DiedBefore = min(before, p.seen.Started)
	}
	first, from := p.after.Submission, uint64(p.after.Index)+1
	for more := true; more && len(list) < p.most && !p.seen.Spent(); {
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
				for _, index := range r.Delays.From(start, shell.SliceItems-len(slice), nil) {
					slice = append(slice, survey.Letter(r, index))
				}
			case start == 0 && r.Delays.Len() > 0:
				others = append(others, passedOver{len(slice), r.ID, uint64(r.Delays.Len())})
			}
			more = len(slice) == shell.SliceItems || len(others) == shell.SliceItems
			return !more
		})
		list = p.appendWaiting(list, slice, others, &f)
		if more {
			first, from = p.seen.Last.Submission, uint64(p.seen.Last.Index)+1
			p.after = p.seen.Last
		}
	}
	return list
}

// passedOver is a submission that the filter does not mean.
type passedOver struct {
	at int // how much of the slice was there before it
	id queue.SubmissionID
	n  uint64 // chunks of it that wait
}

// appendWaiting appends the chunks of a slice that the filter means, and counts all that were walked over, in the order
// of the walk.
func (p *page) appendWaiting(list, slice []queue.DeadChunk, others []passedOver,
	f *queue.BulkFilter) []queue.DeadChunk {
	w := survey.Walk{Filter: f, Seen: &p.seen, Visit: func(d *queue.DeadChunk) bool {
		list = append(list, *d)
		return len(list) < p.most
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
	return list
}

// complete ends the operation once everything is walked over, unless someone else changed it since the page was begun.
func (p *page) complete() error {
	return p.change(func(_ *machine.Machine, now queue.Time) {
		if b := p.Part().at(p.id, p.step); b != nil {
			p.Part().step(b, now, func(next *journal.Bulk) {
				next.State, next.Ended = queue.BulkCompleted, now
				w := &next.Walk
				w.Examined = min(w.Examined+p.seen.Examined-p.noted, w.ToExamine)
				w.ToExamine = w.Examined
			})
		}
	})
}

// pause notes how far a page got that broke off before it found as much as it may take.
func (p *page) pause() error {
	return p.change(func(_ *machine.Machine, now queue.Time) { p.note(now, 0, p.seen.Last, p.seen.Examined, nothing) })
}
