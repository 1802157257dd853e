package simtest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// compare reads everything and compares it with the disk.
func (o *overlap) compare(b *box) {
	ctx := o.t.Context()
	list, _, err := b.shard.Submissions.List(ctx, everything, 0, 1000)
	o.must("list", err)
	ids := map[queue.SubmissionID]bool{}
	for i := range list {
		ids[list[i].ID] = true
	}
	for id := range o.disk.byID {
		if !ids[id] {
			o.fail("submission %s is on the disk, and not in the list", id)
		}
	}
	if len(ids) != len(o.disk.byID) {
		o.fail("%d submissions are in the list, %d on the disk", len(ids), len(o.disk.byID))
	}
	for i := range list {
		o.compareSub(b, &list[i], o.disk.byID[list[i].ID])
	}
	var rules []queue.RuleID
	for _, r := range b.shard.Rules.List() {
		rules = append(rules, r.ID)
	}
	slices.Sort(rules)
	if want := slices.Sorted(maps.Keys(o.disk.rules)); !slices.Equal(rules, want) {
		o.fail("rules %v stand, on the disk %v", rules, want)
	}
	for id, state := range o.disk.bulks {
		if got, there := b.shard.Bulks.Get(id); !there || got.State != state {
			o.fail("bulk operation %s is %s (%v), on the disk %s", id, got.State, there, state)
		}
	}
}

func (o *overlap) must(what string, err error) {
	if err != nil {
		o.fail("%s: %v", what, err)
	}
}

func (o *overlap) compareSub(b *box, got *queue.Submission, x *diskSub) {
	want := queue.Submission{
		State: x.state, Priority: x.priorities[len(x.priorities)-1], Chunks: x.Chunks, Done: x.count(queue.ChunkDone),
		Dead: x.count(queue.ChunkDead), Skipped: x.count(queue.ChunkSkipped),
	}
	if x.state != queue.Open {
		want.Skipped = want.Chunks - want.Done - want.Dead
	}
	is := queue.Submission{State: got.State, Priority: got.Priority, Chunks: got.Chunks, Done: got.Done, Dead: got.Dead, Skipped: got.Skipped}
	if is.State != want.State || is.Priority != want.Priority || is.Chunks != want.Chunks || is.Done != want.Done || is.Dead != want.Dead || is.Skipped != want.Skipped {
		o.fail("submission %s is %s; on the disk it is %s", got.ID, brief(&is), brief(&want))
	}
	chunks, _, err := b.shard.Submissions.Chunks(o.t.Context(), got.ID, nil, 0, 100)
	o.must("chunks", err)
	if len(chunks) != len(x.chunks) {
		o.fail("submission %s lists %d chunks of %d", got.ID, len(chunks), len(x.chunks))
	}
	for i := range chunks {
		o.compareChunk(x, &chunks[i], &x.chunks[i])
	}
}

func brief(s *queue.Submission) string {
	return fmt.Sprintf("%s, priority %d, %d chunks: %d done, %d dead, %d skipped", s.State, s.Priority, s.Chunks, s.Done, s.Dead, s.Skipped)
}

func (o *overlap) compareChunk(x *diskSub, got *queue.Chunk, c *diskChunk) {
	state := got.State
	switch {
	case state == queue.ChunkWaiting || state == queue.ChunkReserved:
		state = queue.ChunkReady
	case state == queue.ChunkSkipped && c.state == queue.ChunkReady && x.state != queue.Open:
		state = queue.ChunkReady
	}
	if state != c.state {
		o.fail("chunk %s/%d is %s, on the disk it is %s", x.ID, got.Index, got.State, c.state)
	}
	if c.state != queue.ChunkDone {
		if len(got.Output) > 0 {
			o.fail("chunk %s/%d is %s and has the output %q", x.ID, got.Index, got.State, got.Output)
		}
		return
	}
	t := o.byKey[c.by]
	if t == nil {
		o.fail("chunk %s/%d was completed under %v, which was never handed out", x.ID, got.Index, c.by)
	}
	switch {
	case t.acceptedOnce && t.accepted == nil:
		if got.Output != nil {
			o.fail("chunk %s/%d was completed without an output, and has %q", x.ID, got.Index, got.Output)
		}
	case t.acceptedOnce:
		if string(got.Output) != *t.accepted {
			o.fail("chunk %s/%d was completed with %q, and has %q", x.ID, got.Index, *t.accepted, got.Output)
		}
	case got.Output != nil && !slices.Contains(t.outputs, string(got.Output)):
		o.fail("chunk %s/%d has the output %q, which no one gave who completed it", x.ID, got.Index, got.Output)
	}
}

// compareContents reserves all chunks of a shard that is not needed any more, to see their contents.
func (o *overlap) compareContents(b *box) {
	for _, r := range b.shard.Rules.List() {
		_, _, err := b.shard.Rules.Lift(r.ID, "")
		o.must("lift", err)
	}
	for {
		got, err := b.shard.Reserve(o.t.Context(), machine.Request{Plan: plan(o.t, "OldestFirst"), Max: 1000, Timeout: time.Hour}, nil)
		o.must("reserve", err)
		for i := range got.Reservations {
			o.checkContent(&got.Reservations[i])
		}
		if len(got.Reservations) == 0 {
			return
		}
	}
}
