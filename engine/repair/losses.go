package repair

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/check"
	"github.com/quern-queue/quern/engine/store"
)

// mostRounds is how often the copy is looked at. What is found is noted, and a queue that does not open is emptied, so the second look
// finds nothing, but for what an emptied queue of the others kept from being looked at.
const mostRounds = 3

// losses looks at the copy, notes in its stores what of submissions is lost, and empties queues that do not open although they were
// repaired. What it cannot do anything about the last check names.
func (r *repairing) losses(ctx context.Context) error {
	if !slices.ContainsFunc(r.files, func(q *queueFiles) bool { return q.changed }) && len(r.report.Files) == 0 {
		found, _, err := r.look(ctx)
		if err != nil || len(found) == 0 {
			return err
		}
	}
	for range mostRounds {
		found, report, err := r.look(ctx)
		if err != nil {
			return err
		}
		emptied, err := r.emptyClosed(ctx, report)
		if err != nil {
			return err
		}
		for _, q := range r.files {
			if err := r.note(ctx, q, found[q.name]); err != nil {
				return fmt.Errorf("queue %s: %w", q.name, err)
			}
		}
		if !emptied && len(found) == 0 {
			return nil
		}
	}
	return nil
}

// look checks the copy, and has what is lost by queue.
func (r *repairing) look(ctx context.Context) (found map[string][]engine.Fault, report *check.Report, err error) {
	found = map[string][]engine.Fault{}
	o := r.o
	o.Opened, o.Fault = nil, func(f engine.Fault) {
		if f.Loss.Kind != 0 {
			found[f.Queue] = append(found[f.Queue], f)
		}
	}
	report, err = check.Dir(ctx, r.dir, o)
	return found, report, err
}

// emptyClosed empties the queues that were repaired and that a server cannot open all the same.
func (r *repairing) emptyClosed(ctx context.Context, report *check.Report) (some bool, err error) {
	for _, q := range r.files {
		at := slices.IndexFunc(report.Queues, func(of check.Queue) bool { return of.Name == q.name })
		closed := len(report.Queues) == 0 || at >= 0 && report.Queues[at].Quarantined
		if !closed || !q.changed {
			continue
		}
		reason := "it does not open"
		for i := range report.Findings {
			if f := &report.Findings[i]; f.Queue == q.name || f.Queue == "" && f.File == "" {
				reason = f.Detail
			}
		}
		if err := r.empty(ctx, q, reason); err != nil {
			return some, fmt.Errorf("queue %s: %w", q.name, err)
		}
		some = true
	}
	return some, nil
}

// note stores what is lost of submissions of a queue, so that later checks know it, and so that it is in the report.
func (r *repairing) note(ctx context.Context, q *queueFiles, found []engine.Fault) (err error) {
	if len(found) == 0 {
		return nil
	}
	s, err := store.Open(ctx, filepath.Join(q.folder, "store.db"), store.Options{Identity: q.id})
	if err != nil {
		return ctx.Err() // it is named by the check
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	list, err := store.Losses(ctx, s)
	if err != nil {
		return err
	}
	q.changed = true
	for i := range found {
		f := &found[i]
		r.lost = append(r.lost, lostOf(f)...)
		if n := len(list); n > 0 && joins(&list[n-1], &f.Loss) {
			list[n-1].Count++
			continue
		}
		list = slices.DeleteFunc(list, func(l store.Loss) bool { // counted again, with more
			return l.Kind == store.LostOutputs && f.Loss.Kind == l.Kind && l.Seq == f.Loss.Seq
		})
		list = append(list, f.Loss)
	}
	r.report.Noted += len(found)
	return store.PutLosses(ctx, s, list)
}

// joins says whether a lost content comes right behind others that are lost.
func joins(last, next *store.Loss) bool {
	return last.Kind == store.LostContent && next.Kind == last.Kind && next.Seq == last.Seq && next.First == last.First+last.Count
}

// lostOf is a fault as a loss of the report; of outputs it is one for each that is known.
func lostOf(f *engine.Fault) []Lost {
	l := Lost{Queue: f.Queue, Submission: f.Submission.String()}
	switch f.Loss.Kind {
	case store.LostContent:
		l.Op, l.Chunk = "content", &f.Loss.First
	case store.LostAttachment:
		l.Op = "attachment"
	case store.LostOutputs:
		l.Op = "output"
		if len(f.Chunks) == 0 {
			l.Fields = map[string]any{"outputs": f.Loss.Count}
			break
		}
		var all []Lost
		for i := range f.Chunks {
			one := l
			one.Chunk = &f.Chunks[i]
			all = append(all, one)
		}
		return all
	}
	return []Lost{l}
}
