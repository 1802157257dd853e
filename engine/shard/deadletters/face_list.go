package deadletters

// Two sources have dead letters: open submissions in memory, and ended ones in memory or in the history. Both are
// listed by submission, the newest first, and merged:
//
//	memory:   90  70  40 ...          page of 200 ids each; ids below the shorter page's end wait for the
//	history:  85  60 │                next round, because the other source may have more of them there
//	merged:   90  85  70  60

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/deadletters/lettergroups"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/survey"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/sdk/api"
)

// List returns up to `limit` dead letters behind `after` (zero: from the start) that the
// filter means: those of the newest submission first, and of one submission by index.
func (l *Letters) List(ctx context.Context, f queue.BulkFilter, after queue.ChunkID,
	limit int) (list []queue.DeadChunk, err error) {
	return l.Survey(ctx, &f, after, limit, nil)
}

// Page is a list that looks at a bounded number of dead letters, and has as many as fit into an answer: it may have
// fewer than `limit`, or none, before the end. next is where the following page goes on: behind the last letter that
// was looked at, shown or not; zero: there is none.
func (l *Letters) Page(ctx context.Context, f queue.BulkFilter, after queue.ChunkID, limit int) (list []queue.DeadChunk,
	next queue.ChunkID, err error) {
	var seen survey.Survey
	answer := access.Gather(ctx)
	w := survey.Walk{Filter: &f, Seen: &seen, Visit: func(d *queue.DeadChunk) bool {
		list = append(list, *d)
		return answer.Fits(d.Bytes()) && len(list) < limit
	}}
	if err = l.walk(ctx, after, &w); w.Over() {
		next = seen.Last
	}
	return list, next, err
}

// Survey counts in `seen` the letters that it looks at, and breaks off when these are enough.
func (l *Letters) Survey(ctx context.Context, f *queue.BulkFilter, after queue.ChunkID, limit int,
	seen *survey.Survey) (list []queue.DeadChunk, err error) {
	if limit <= 0 {
		return nil, nil
	}
	w := survey.Walk{Filter: f, Seen: seen, Visit: func(d *queue.DeadChunk) bool {
		list = append(list, *d)
		return len(list) < limit
	}}
	err = l.walk(ctx, after, &w)
	return list, err
}

// walk goes over the letters behind `after`. The submission of the cursor is looked at again from the chunk behind it:
// it may have been reopened or have ended since.
func (l *Letters) walk(ctx context.Context, after queue.ChunkID, w *survey.Walk) (err error) {
	of := w.Filter.Dead.Submission
	ids, more := []queue.SubmissionID{of}, false
	before := after.Submission
	first := before // whose chunks up to after.Index were shown
	for {
		if of == 0 {
			if before != 0 {
				before++ // the cursor's own is looked at again
			}
			if ids, more, err = l.submissions(ctx, before); err != nil {
				return err
			}
		}
		for _, id := range ids {
			from := uint64(0)
			if id == first {
				from = uint64(after.Index) + 1
			}
			if err = l.of(ctx, id, from, w); err != nil || w.Over() {
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

// submissions lists ids of submissions below `before` (0: all) that have dead letters, the newest first. It lists ids,
// not letters: a submission may have millions of letters, and most filters already decide by the submission.
func (l *Letters) submissions(ctx context.Context,
	before queue.SubmissionID) (ids []queue.SubmissionID, more bool, err error) {
	before = cmp.Or(before, 1<<63-1)
	l.Look(func(*machine.Machine) {
		l.Part().Index.Before(before, 1<<31-1, func(r *machine.Record) bool {
			ids = append(ids, r.ID)
			return len(ids) < deadPage
		})
	})
	full := len(ids) == deadPage
	ended, err := l.Store().History.EndedIn(ctx, before, queue.CompletedWithDead, deadPage)
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
	slices.SortFunc(ids, func(a, b queue.SubmissionID) int { return cmp.Compare(b, a) })
	ids = slices.Compact(ids)
	return slices.DeleteFunc(ids, func(id queue.SubmissionID) bool { return id < last }), full, nil
}

// of goes over the dead letters of one submission from an index on, wherever it is.
// The loop reads from memory while the submission is open. When it ends in between, the rest comes from its row,
// from the same index on.
func (l *Letters) of(ctx context.Context, id queue.SubmissionID, from uint64, w *survey.Walk) error {
	for open := true; open; {
		var slice []queue.DeadChunk
		slice, from, open = l.slice(id, w.Filter, from, w.Seen)
		for i := 0; i < len(slice) && !w.Over(); i++ {
			w.Look(&slice[i])
		}
		if open && len(slice) < shell.SliceItems || w.Over() {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	row, err := l.endings.EndedRow(ctx, id)
	if queue.CodeOf(err) == queue.CodeUnknownSubmission {
		return nil // its retention was over a moment ago
	}
	if err != nil || row.State != queue.CompletedWithDead {
		return err
	}
	r, _, err := machine.EndedRecord(row)
	if err != nil {
		return err
	}
	if !w.Filter.Matches(id, r.State, r.Ended.Meta) {
		if from == 0 {
			w.Seen.Passed(id, uint64(r.Dead))
		}
		return nil
	}
	w.Of(r, from)
	return nil
}

// slice is the next dead letters of an open submission, at most shell.SliceItems; open says that it is open. They have
// no fingerprints: each costs a hash, so the caller works them out without the mutex.
func (l *Letters) slice(id queue.SubmissionID, f *queue.BulkFilter, from uint64,
	seen *survey.Survey) (slice []queue.DeadChunk, next uint64, open bool) {
	next = from
	l.Look(func(m *machine.Machine) {
		r := m.Live(id)
		if open = r != nil; !open {
			return
		}
		if !f.Matches(id, r.State, r.Meta()) {
			if from == 0 {
				seen.Passed(id, uint64(r.Dead))
			}
			return
		}
		for _, index := range r.Deads.From(from, shell.SliceItems, nil) {
			slice, next = append(slice, survey.Letter(r, index)), uint64(index)+1
		}
	})
	return slice, next, open
}

// Groups groups the dead letters that the filter means by the fingerprint of their errors, in no order. There are at
// most lettergroups.Max groups. The answer comes from counters, with two exceptions. If the first or the last letter of
// a kind in a submission has gone, the letters of that submission are read once. If the filter asks for more than the
// counters know, all letters are read: a time of death, anything of a submission but its id, or one of very many kinds.
func (l *Letters) Groups(ctx context.Context, f queue.BulkFilter) (list api.DeadGroups, err error) {
	known := false
	if !f.Dead.Timed() && f.AnySubmission() {
		if err := l.lookAgain(ctx, &f.Dead); err != nil {
			return list, err
		}
		list, known = l.listGroups(&f.Dead)
	}
	if !known {
		found, err := l.group(ctx, &f, lettergroups.Max)
		if err != nil {
			return list, err
		}
		list, _ = found.List(&queue.DeadFilter{}, 0)
	}
	for i := range list.Items { // without the mutex
		list.Items[i].Pattern = queue.Pattern(list.Items[i].Example)
	}
	return list, nil
}

// listGroups asks the counters.
func (l *Letters) listGroups(f *queue.DeadFilter) (list api.DeadGroups, known bool) {
	l.Look(func(*machine.Machine) { list, known = l.Part().Groups.List(f, l.Part().Of(f.Submission)) })
	return list, known
}

// group groups the letters that the filter means by looking at each.
func (l *Letters) group(ctx context.Context, f *queue.BulkFilter, most int) (*lettergroups.Groups, error) {
	g := lettergroups.New(most)
	w := survey.Walk{Filter: f, Visit: func(d *queue.DeadChunk) bool {
		g.Add(d.Chunk.Submission, d.Fingerprint, d.Error, d.Died)
		return true
	}}
	return g, l.walk(ctx, queue.ChunkID{}, &w)
}

// lookAgain looks at the letters of submissions for which the counters no longer know exact times. When a letter goes,
// its counter can be reduced, but only the other letters tell which of them is the first now. So the part notes which
// submissions became inexact, and the question that needs their times reads their letters. Exactly clears the note,
// unless letters of the submission came or went meanwhile.
func (l *Letters) lookAgain(ctx context.Context, f *queue.DeadFilter) error {
	l.regroup.Lock()
	defer l.regroup.Unlock()
	var g *lettergroups.Groups
	var ids []queue.SubmissionID
	l.Look(func(*machine.Machine) {
		g = l.Part().Groups
		ids = g.Inexact(f)
	})
	for _, id := range ids {
		l.Look(func(*machine.Machine) { g.Look(id) })
		found, err := l.group(ctx, &queue.BulkFilter{Dead: queue.DeadFilter{Submission: id}}, math.MaxInt)
		if err != nil {
			return err
		}
		l.Look(func(*machine.Machine) { g.Exactly(id, found) })
	}
	return nil
}

// Recall counts and groups the dead letters of the history, when the shard starts.
// Letters of ended submissions are in no memory but these counters, so a start has to read their rows: only those that
// ended with dead chunks, a slice at a time.
func Recall(ctx context.Context, from *store.Store, p *Part) error {
	for before, more := queue.SubmissionID(0), true; more; {
		rows, err := from.History.ListEnded(ctx, before, []queue.SubmissionState{queue.CompletedWithDead},
			machine.ListSlice)
		if err != nil {
			return err
		}
		for i := range rows {
			before = rows[i].ID
			if p.m.Record(before) != nil {
				continue // opened again, or the record in memory is younger
			}
			r, _, err := machine.EndedRecord(&rows[i])
			if err != nil {
				return err
			}
			if r.Dead > 0 {
				p.OfEnded[r.ID] = r.Dead
				group(p.Groups, r)
			}
		}
		more = len(rows) == machine.ListSlice
	}
	return nil
}
