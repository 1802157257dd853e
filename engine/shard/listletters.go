package shard

import (
	"context"
	"slices"
	"sync"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// DeadLetters are the dead letters of a shard, as its callers see them.
type DeadLetters struct {
	s       *Shard
	ageing  aging
	regroup sync.Mutex // one look at letters for the sake of their groups at a time; before Shard.mu
	kept    queue.Time // Shard.aging guards it: of the history, all that ended before has dead letters
}

// List returns up to `limit` dead letters behind `after` (zero: from the start) that the filter means: those of the
// newest submission first, and of one submission by index.
func (p *DeadLetters) List(ctx context.Context, f queue.DeadFilter, after queue.ChunkID, limit int) (list []queue.DeadChunk, err error) {
	return p.list(ctx, &queue.BulkFilter{Dead: f}, after, limit, nil)
}

// list has what it looks at counted, and breaks off when that has been enough.
func (p *DeadLetters) list(ctx context.Context, f *queue.BulkFilter, after queue.ChunkID, limit int,
	seen *survey) (list []queue.DeadChunk, err error) {
	if limit <= 0 {
		return nil, nil
	}
	w := letterWalk{filter: f, seen: seen, visit: func(d *queue.DeadChunk) bool {
		list = append(list, *d)
		return len(list) < limit
	}}
	err = p.walk(ctx, after, &w)
	return list, err
}

// letterWalk goes over dead letters.
type letterWalk struct {
	filter *queue.BulkFilter
	visit  func(*queue.DeadChunk) (more bool) // called for what the filter means
	seen   *survey                            // nil: what it looks at is not counted
	full   bool                               // visit wants no more
}

func (w *letterWalk) over() bool { return w.full || w.seen.spent() }

// look works out the fingerprint, and visits the letter if the filter means it.
func (w *letterWalk) look(d *queue.DeadChunk) {
	d.Fingerprint = queue.Fingerprint(d.Error)
	fits := w.filter.Dead.Matches(d)
	if fits {
		w.full = !w.visit(d)
	}
	w.seen.saw(d, fits)
}

// walk goes over what is behind `after`.
func (p *DeadLetters) walk(ctx context.Context, after queue.ChunkID, w *letterWalk) (err error) {
	of := w.filter.Dead.Submission
	ids, more := []queue.SubmissionID{of}, false
	before := after.Submission
	first := before // whose chunks up to after.Index were shown
	for {
		if of == 0 {
			if before != 0 {
				before++ // the cursor's own is looked at again
			}
			if ids, more, err = p.submissions(ctx, before); err != nil {
				return err
			}
		}
		for _, id := range ids {
			from := uint64(0)
			if id == first {
				from = uint64(after.Index) + 1
			}
			if err = p.of(ctx, id, from, w); err != nil || w.over() {
				return err
			}
			before = id - 1
		}
		if !more || len(ids) == 0 {
			return nil
		}
	}
}

// deadPage is how many submissions are looked up at once.
const deadPage = 200

// submissions are ids of submissions below `before` (0: all) that have dead letters, the newest first.
func (p *DeadLetters) submissions(ctx context.Context, before queue.SubmissionID) (ids []queue.SubmissionID, more bool, err error) {
	s := p.s
	if before == 0 {
		before = 1<<63 - 1
	}
	s.mu.Lock()
	s.m.letters.index.before(before, 1<<31-1, func(r *record) bool {
		ids = append(ids, r.id)
		return len(ids) < deadPage
	})
	full := len(ids) == deadPage
	s.mu.Unlock()
	ended, err := s.store.History.EndedIn(ctx, before, queue.CompletedWithDead, deadPage)
	if err != nil {
		return nil, false, err
	}
	last := queue.SubmissionID(0) // both sources are known down to here
	if full {
		last = ids[len(ids)-1]
	}
	if len(ended) == deadPage {
		last = max(last, ended[len(ended)-1])
		full = true
	}
	ids = append(ids, ended...)
	slices.SortFunc(ids, func(a, b queue.SubmissionID) int { return compareIDs(b, a) })
	ids = slices.Compact(ids)
	return slices.DeleteFunc(ids, func(id queue.SubmissionID) bool { return id < last }), full, nil
}

// of goes over the dead letters of one submission from an index on, wherever it is.
func (p *DeadLetters) of(ctx context.Context, id queue.SubmissionID, from uint64, w *letterWalk) error {
	for open := true; open; {
		var slice []queue.DeadChunk
		slice, from, open = p.slice(id, w.filter, from, w.seen)
		for i := 0; i < len(slice) && !w.over(); i++ {
			w.look(&slice[i])
		}
		if open && len(slice) < sliceItems || w.over() {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	row, err := p.s.Submissions.endedRow(ctx, id)
	if queue.CodeOf(err) == queue.CodeUnknownSubmission {
		return nil // its retention was over a moment ago
	}
	if err != nil || row.State != queue.CompletedWithDead {
		return err
	}
	r, _, err := endedRecord(row)
	if err != nil {
		return err
	}
	if !w.filter.Matches(id, r.state, r.ended.meta) {
		if from == 0 {
			w.seen.passed(id, uint64(r.dead))
		}
		return nil
	}
	r.letters(from, w)
	return nil
}

// slice is the next of the dead letters of an open submission, at most sliceItems, without their fingerprints: those are worked
// out without the mutex. open: it is open.
func (p *DeadLetters) slice(id queue.SubmissionID, f *queue.BulkFilter, from uint64,
	seen *survey) (slice []queue.DeadChunk, next uint64, open bool) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.m.live(id)
	if r == nil {
		return nil, from, false
	}
	if !f.Matches(id, r.state, r.meta()) {
		if from == 0 {
			seen.passed(id, uint64(r.dead))
		}
		return nil, from, true
	}
	next = from
	for _, index := range r.deads.from(from, sliceItems, nil) {
		slice, next = append(slice, r.letter(index)), uint64(index)+1
	}
	return slice, next, true
}

// letters goes over those of an ended submission.
func (r *record) letters(from uint64, w *letterWalk) {
	var found []uint32
	for index, t := range r.tries {
		if t.reason == journal.Dead && uint64(index) >= from {
			found = append(found, index)
		}
	}
	slices.Sort(found)
	for i := 0; i < len(found) && !w.over(); i++ {
		d := r.letter(found[i])
		w.look(&d)
	}
}

// letter describes a dead chunk, but for its fingerprint.
func (r *record) letter(index uint32) queue.DeadChunk {
	t := r.tries[index]
	d := queue.DeadChunk{
		Chunk: queue.ChunkID{Submission: r.id, Index: index}, State: r.state, Attempts: t.attempts,
		Expiries: t.expiries, Redrives: t.redrives,
		Died: t.died(), Error: t.err, Past: slices.Clone(t.past),
	}
	if n := len(t.past); n > 0 {
		d.Consumer = t.past[n-1].Consumer
	}
	return d
}

// died is when the last try ended, which is when a dead chunk died; 0: not known.
func (t *try) died() queue.Time {
	if n := len(t.past); n > 0 {
		return t.past[n-1].Ended
	}
	return 0
}
