package submissions

import (
	"context"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// SetPriority changes the priority of an open submission, from the next reservation on. For one that has ended it is a
// conflict. allow may refuse to replace the present priority; nil: any may be replaced.
func (s *Submissions) SetPriority(ctx context.Context, id queue.SubmissionID, priority int64,
	allow func(now int64) error, acts ...queue.Act) (queue.Submission, error) {
	var r *machine.Record
	err := shell.Change(s, func(m *machine.Machine, now queue.Time) error {
		if r = m.Live(id); r == nil {
			return nil
		}
		if !r.Ending {
			if allow != nil {
				if err := allow(r.Priority); err != nil {
					return err
				}
			}
			m.Encode(now).Priority(journal.Priority{Seq: r.Seq, Priority: priority})
			m.ActLog.Tell(now, acts, map[string]int64{"priority": r.Priority}, map[string]int64{"priority": priority})
		}
		return nil
	})
	if err != nil {
		return queue.Submission{}, err
	}
	sub, err := s.Get(ctx, id)
	if err == nil && sub.State != queue.Open && (r == nil || sub.Priority != priority) {
		// it may have ended before the op was applied
		return queue.Submission{}, &queue.Error{Code: queue.CodeConflict, Message: "The submission is " +
			sub.State.String() + ": only an open one can be changed."}
	}
	return sub, err
}

// Cancel ends a submission. A consumer that holds one of its chunks learns of this with its next call.
func (s *Submissions) Cancel(ctx context.Context, id queue.SubmissionID, acts ...queue.Act) (queue.Submission, error) {
	err := shell.Change(s, func(m *machine.Machine, now queue.Time) error {
		r := m.Live(id)
		if r == nil {
			return nil
		}
		if !r.Ending {
			m.ActLog.Tell(now, acts, map[string]uint32{"available": uint32(r.Sub.Available()), "done": r.Done}, nil)
		}
		m.EndSubmission(r, queue.Cancelled, "", now)
		return nil
	})
	if err != nil {
		return queue.Submission{}, err
	}
	return s.Get(ctx, id)
}

// CancelChunk gives up a chunk of an open submission, which counts as skipped. A consumer that holds it learns of this
// with its next call. A chunk that is done, dead or skipped, or of a submission that has ended, stays as it is. The
// answer is the chunk as it is then.
func (s *Submissions) CancelChunk(ctx context.Context, id queue.SubmissionID, index uint32,
	acts ...queue.Act) (queue.Chunk, error) {
	before, err := s.Chunk(ctx, id, index)
	if err != nil {
		return queue.Chunk{}, err
	}
	for again := true; again; {
		err := shell.Change(s, func(m *machine.Machine, now queue.Time) error {
			cancelled := false
			if r := m.Live(id); r != nil && !r.Ending {
				cancelled, again = m.Tries.CancelChunk(r, index, now)
			} else {
				again = false
			}
			if cancelled {
				m.ActLog.Tell(now, acts, map[string]string{"state": before.State.String()}, nil)
			}
			return ctx.Err()
		})
		if err != nil {
			return queue.Chunk{}, err
		}
	}
	return s.Chunk(ctx, id, index)
}
