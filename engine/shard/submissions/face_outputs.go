package submissions

// Outputs and states of a submission that may end while they are read. An open submission is read from memory, an ended
// one from the history. If it ends between two looks, outcome goes over to the history, and its user does not notice.

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// outcome has the states of the chunks of one submission, also when it ends meanwhile.
type outcome struct {
	of    *Submissions
	id    queue.SubmissionID
	seq   uint32
	live  *machine.Record // while it is open
	ended *machine.Record
	sub   *backlog.Submission // of an ended one
}

func (s *Submissions) outcome(ctx context.Context, id queue.SubmissionID) (*outcome, error) {
	o := &outcome{of: s, id: id}
	s.Look(func(m *machine.Machine) {
		if o.live = m.Live(id); o.live != nil {
			o.seq = o.live.Seq
		}
	})
	if o.live != nil {
		return o, nil
	}
	return o, o.end(ctx)
}

// end goes over to the history.
func (o *outcome) end(ctx context.Context) error {
	row, err := o.of.EndedRow(ctx, o.id)
	if err != nil {
		return err
	}
	o.live, o.seq = nil, row.Seq
	o.ended, o.sub, err = machine.EndedRecord(row)
	return err
}

// record is the record in use: the live one, or the one from the history.
func (o *outcome) record() *machine.Record {
	if o.live != nil {
		return o.live
	}
	return o.ended
}

// isDone says whether a chunk is done.
// No try and not available means done: a chunk is available, has a try, or is finished.
func (o *outcome) isDone(ctx context.Context, index uint32) (bool, error) {
	if o.live != nil {
		open, is := false, false
		o.of.Look(func(m *machine.Machine) {
			if open = o.live.Sub != nil; open {
				is = m.Chunk(o.live, index).State == queue.ChunkDone
			}
		})
		if open {
			return is, nil
		}
		if err := o.end(ctx); err != nil {
			return false, err
		}
	}
	return index < o.ended.Chunks && !o.sub.IsAvailable(index) && o.ended.Tries[index] == nil, nil
}

// outputs is how many chunks are done, and the count of their outputs.
func (o *outcome) outputs() (done uint32, counted machine.OutputCount) {
	o.of.Look(func(*machine.Machine) { done, counted = o.record().Done, o.record().Outputs })
	return done, counted
}

// missingOutputs are outputs that the journal counted, and that are missing.
type missingOutputs struct {
	what   string // names them; "": none is missing
	number uint32
	sum    uint32 // of their indexes, modulo 2^32
}

// read calls fn for every output of done chunks in index order, and returns the missing ones. It takes the counts
// before and after. If they are equal, no chunk was completed meanwhile, and any difference from the outputs found is a
// loss. If not, only a smaller number of outputs shows a loss.
func (o *outcome) read(ctx context.Context, fn func(index uint32, output []byte) error) (m missingOutputs, err error) {
	_, counted := o.outputs() // the read may have passed chunks that are completed meanwhile
	var found machine.OutputCount
	err = o.of.Store().Outputs(ctx, o.seq, 0, func(index uint32, output []byte) error {
		done, err := o.isDone(ctx, index)
		if err != nil || !done {
			return err // written, but its completion is not committed
		}
		found.Add(index)
		return fn(index, output)
	})
	if err != nil {
		return m, err
	}
	_, now := o.outputs()
	return missingOutputs{counted.Missing(found, o.id, now == counted), counted.Chunks - found.Chunks,
		counted.Sum - found.Sum}, nil
}

// missed is the error about missing outputs. It first looks whether the submission is still there, because retention
// removes outputs first. It holds the lock of the history, so that retention cannot remove the submission between the
// look and the answer.
func (o *outcome) missed(ctx context.Context, what string) error {
	if what == "" {
		return nil
	}
	o.of.history.RLock()
	defer o.of.history.RUnlock()
	if _, err := o.of.Get(ctx, o.id); err != nil {
		return err
	}
	err := o.of.Store().Lacks(what)
	// an internal failure, without a code
	return &queue.Error{Message: fmt.Sprintf("store.db does not have %s, which was stored before the completion was "+
		"committed: it is lost. Restore the data directory from a backup.", what), Err: err}
}

// addOutputs reads the outputs of the done chunks of a page. The page ends before the first output that does not fit
// into an answer.
func (s *Submissions) addOutputs(ctx context.Context, id queue.SubmissionID, seq uint32, list []queue.Chunk,
	next uint32) ([]queue.Chunk, uint32, error) {
	none := func(c queue.Chunk) bool { return c.State == queue.ChunkDone && c.Output == nil }
	answer := access.Gather(ctx)
	for i := range list {
		if none(list[i]) {
			output, found, err := s.Store().Output(ctx, seq, list[i].Index)
			if err != nil {
				return nil, 0, err
			}
			if found {
				list[i].Output = output
			}
		}
		if !answer.Fits(list[i].Bytes()) && i > 0 {
			next, list = list[i].Index, list[:i]
			break
		}
	}
	if at := slices.IndexFunc(list, none); at >= 0 {
		if err := s.hasNone(ctx, id, list[at].Index); err != nil {
			return nil, 0, err
		}
	}
	return list, next, nil
}

// hasNone checks that a done chunk without an output never had one. If no chunk of the submission has one, or all have,
// the answer is known at once. Else all outputs of the submission have to be counted. Once in the life of the shard is
// enough, as this life loses no output that it wrote.
func (s *Submissions) hasNone(ctx context.Context, id queue.SubmissionID, index uint32) error {
	o, err := s.outcome(ctx, id)
	if err != nil {
		return err
	}
	switch done, counted := o.outputs(); {
	case counted.Chunks == 0:
		return nil
	case counted.Chunks == done:
		return o.missed(ctx, machine.OutputOf(id, index))
	}
	if s.counted.has(id) {
		return nil
	}
	err = s.Outputs(ctx, id, func(uint32, []byte) error { return nil })
	if err == nil {
		s.counted.add(id)
	}
	return err
}

// counted are submissions whose outputs were all found in this life. At countedMost it forgets all: choosing which to
// keep is not worth it, as another count costs one walk over the outputs.
type counted struct {
	mu  sync.Mutex
	ids map[queue.SubmissionID]struct{}
}

const countedMost = 4096

func (c *counted) has(id queue.SubmissionID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, in := c.ids[id]
	return in
}

func (c *counted) add(id queue.SubmissionID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == nil || len(c.ids) >= countedMost {
		c.ids = map[queue.SubmissionID]struct{}{}
	}
	c.ids[id] = struct{}{}
}
