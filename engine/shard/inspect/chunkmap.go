package inspect

import (
	"context"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/sdk/api"
)

// MaxMapped is how many chunks one map looks at.
const MaxMapped = 1 << 20

// Map counts the chunks from index `from` up to `to` (not included; both are within the submission) by their state, in
// cells of `each` (1 or more). Of more than MaxMapped chunks it looks at a sample, so that a picture of any submission
// costs the same. It covers several moments, because others work between any two slices.
func (ins *Inspector) Map(ctx context.Context, id queue.SubmissionID, from, to,
	each uint32) (out api.ChunkMap, err error) {
	cells := func() []uint32 { return make([]uint32, (to-from-1)/each+1) }
	every := (to-from-1)/MaxMapped + 1
	out = api.ChunkMap{From: from, To: to, Each: each, Every: every,
		Ready: cells(), Waiting: cells(), Reserved: cells(), Done: cells(), Dead: cells(), Skipped: cells()}
	of := [...][]uint32{queue.ChunkReady: out.Ready, queue.ChunkWaiting: out.Waiting, queue.ChunkReserved: out.Reserved,
		queue.ChunkDone: out.Done, queue.ChunkDead: out.Dead, queue.ChunkSkipped: out.Skipped,
		queue.ChunkForwarded: out.Skipped}
	count := func(index uint32, state queue.ChunkState) { of[state][(index-from)/each]++ }
	looks := (to-from-1)/every + 1
	at := func(look uint32) uint32 {
		first := from + look*every
		return first + min(to-1-first, scattered(look)%every)
	}
	for next := uint32(0); next < looks; {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		stop := min(looks, next+machine.ChunkSlice)
		if ins.mapSlice(id, next, stop, at, count) {
			next = stop
			continue
		}
		// It ended, and no longer changes; the chunks before `next` were counted at an earlier moment.
		row, err := ins.submissions.EndedRow(ctx, id)
		if err != nil {
			return out, err
		}
		r, sub, err := machine.EndedRecord(row)
		if err != nil {
			return out, err
		}
		for ; next < looks; next++ {
			count(at(next), machine.EndedChunk(r, sub, at(next)).State)
		}
	}
	return out, nil
}

// scattered is a number that looks random and is the same each time: a map that is read again looks at the same
// chunks, and a pattern of the contents, such as every tenth row, is not taken for the whole.
func scattered(n uint32) uint32 {
	const golden = 0x9e3779b97f4a7c15
	return uint32(uint64(n) * golden >> 32)
}

// mapSlice tells the states of the chunks of some looks, in one hold of the mutex; false if the submission is not open.
func (ins *Inspector) mapSlice(id queue.SubmissionID, from, to uint32, at func(look uint32) uint32,
	fn func(uint32, queue.ChunkState)) (open bool) {
	ins.Look(func(m *machine.Machine) {
		r := m.Live(id)
		if open = r != nil; !open {
			return
		}
		for ; from < to; from++ {
			fn(at(from), m.Chunk(r, at(from)).State)
		}
	})
	return open
}

// Attempts are the last ended tries of a chunk, at most queue.MaxAttemptsKept, oldest first. They are forgotten when
// the chunk is done.
func (ins *Inspector) Attempts(ctx context.Context, id queue.SubmissionID,
	index uint32) (list []queue.Attempt, err error) {
	open := false
	ins.Look(func(m *machine.Machine) {
		if r := m.Live(id); r != nil {
			open = true
			list, err = r.PastOf(index)
		}
	})
	if open {
		return list, err
	}
	row, err := ins.submissions.EndedRow(ctx, id)
	if err != nil {
		return nil, err
	}
	r, _, err := machine.EndedRecord(row)
	if err != nil {
		return nil, err
	}
	return r.PastOf(index)
}
