package shard

import (
	"context"
	"math"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/deadletters"
	"github.com/quern-queue/quern/engine/shard/deadletters/lettergroups"
	"github.com/quern-queue/quern/sdk/api"
)

// Groups are the dead letters that the filter means by the fingerprint of their errors, in no order. There are at most lettergroups.Max
// groups. The answer comes from counters, and costs what there are groups, with two exceptions: after letters
// went that were the first or the last of their kind in a submission, those of that submission are looked at, once; and all letters are
// looked at when the filter asks for more than the counters know: a time of death, anything of a submission but its id, or one of very many
// kinds.
func (p *DeadLetters) Groups(ctx context.Context, f queue.BulkFilter) (list api.DeadGroups, err error) {
	known := false
	if !f.Dead.Timed() && f.AnySubmission() {
		if err := p.lookAgain(ctx, &f.Dead); err != nil {
			return list, err
		}
		list, known = p.listGroups(&f.Dead)
	}
	if !known {
		found, err := p.group(ctx, &f, lettergroups.Max)
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
func (p *DeadLetters) listGroups(f *queue.DeadFilter) (list api.DeadGroups, known bool) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts.letters.Groups.List(f, s.parts.letters.Of(f.Submission))
}

// group groups the letters that the filter means by looking at each.
func (p *DeadLetters) group(ctx context.Context, f *queue.BulkFilter, most int) (*lettergroups.Groups, error) {
	g := lettergroups.New(most)
	w := deadletters.Walk{Filter: f, Visit: func(d *queue.DeadChunk) bool {
		g.Add(d.Chunk.Submission, d.Fingerprint, d.Error, d.Died)
		return true
	}}
	return g, p.walk(ctx, queue.ChunkID{}, &w)
}

// lookAgain looks at the letters of those submissions of which the counters know no exact times any more.
func (p *DeadLetters) lookAgain(ctx context.Context, f *queue.DeadFilter) error {
	s := p.s
	p.regroup.Lock()
	defer p.regroup.Unlock()
	s.mu.Lock()
	g := s.parts.letters.Groups
	ids := g.Inexact(f)
	s.mu.Unlock()
	for _, id := range ids {
		s.mu.Lock()
		g.Look(id)
		s.mu.Unlock()
		found, err := p.group(ctx, &queue.BulkFilter{Dead: queue.DeadFilter{Submission: id}}, math.MaxInt)
		if err != nil {
			return err
		}
		s.mu.Lock()
		g.Exactly(id, found)
		s.mu.Unlock()
	}
	return nil
}
