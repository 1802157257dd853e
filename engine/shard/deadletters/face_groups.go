package deadletters

import (
	"context"
	"math"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/deadletters/lettergroups"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/survey"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/sdk/api"
)

// Groups are the dead letters that the filter means by the fingerprint of their errors, in
// no order. There are at most lettergroups.Max groups. The answer comes from counters, and
// costs what there are groups, with two exceptions: after letters went that were the first
// or the last of their kind in a submission, those of that submission are looked at, once;
// and all letters are looked at when the filter asks for more than the counters know: a
// time of death, anything of a submission but its id, or one of very many kinds.
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

// lookAgain looks at the letters of those submissions of which the counters know no exact times any more.
// A counter can be taken down when a letter goes, but not the time of the first one: which letter is the first now,
// only the letters know. So the part notes which submissions became inexact, and the question that needs them reads
// their letters. Exactly clears the note, unless letters of the submission came or went meanwhile.
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
				continue // opened again, or what is in memory is younger
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
