package shard

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

// outcome is where the chunks of one submission stand, also when it ends meanwhile.
type outcome struct {
	shard *Shard
	id    queue.SubmissionID
	seq   uint32
	live  *machine.Record // while it is open
	ended *machine.Record
	sub   *backlog.Submission // of an ended one
}

func (p *Submissions) outcome(ctx context.Context, id queue.SubmissionID) (*outcome, error) {
	s := p.s
	o := &outcome{shard: s, id: id}
	s.mu.Lock()
	if o.live = s.m.Live(id); o.live != nil {
		o.seq = o.live.Seq
	}
	s.mu.Unlock()
	if o.live != nil {
		return o, nil
	}
	return o, o.end(ctx)
}

// end goes over to what the history says.
func (o *outcome) end(ctx context.Context) error {
	row, err := o.shard.Submissions.endedRow(ctx, o.id)
	if err != nil {
		return err
	}
	o.live, o.seq = nil, row.Seq
	o.ended, o.sub, err = machine.EndedRecord(row)
	return err
}

// isDone says whether a chunk is done.
func (o *outcome) isDone(ctx context.Context, index uint32) (bool, error) {
	s := o.shard
	if o.live != nil {
		s.mu.Lock()
		if o.live.Sub != nil {
			defer s.mu.Unlock()
			return s.m.Chunk(o.live, index).State == queue.ChunkDone, nil
		}
		s.mu.Unlock()
		if err := o.end(ctx); err != nil {
			return false, err
		}
	}
	return index < o.ended.Chunks && !o.sub.IsAvailable(index) && o.ended.Tries[index] == nil, nil
}

// outputs is how many chunks are done, and what was counted of their outputs.
func (o *outcome) outputs() (done uint32, counted machine.OutputCount) {
	o.shard.mu.Lock()
	defer o.shard.mu.Unlock()
	r := o.live
	if r == nil {
		r = o.ended
	}
	return r.Done, r.Outputs
}

// Outputs calls fn for every output of done chunks in index order. When the journal tells of outputs that are not there, it says so at the
// end.
func (p *Submissions) Outputs(ctx context.Context, id queue.SubmissionID, fn func(index uint32, output []byte) error) error {
	o, err := p.outcome(ctx, id)
	if err != nil {
		return err
	}
	return o.each(ctx, fn)
}

func (o *outcome) each(ctx context.Context, fn func(index uint32, output []byte) error) error {
	missing, err := o.read(ctx, fn)
	if err != nil {
		return err
	}
	return o.missed(ctx, missing.what)
}

// missingOutputs are outputs that the journal tells of, and that are not there.
type missingOutputs struct {
	what   string // names them; "": none is missing
	number uint32
	sum    uint32 // of their indexes, modulo 2^32
}

// read calls fn for every output of done chunks in index order, and says what is missing.
func (o *outcome) read(ctx context.Context, fn func(index uint32, output []byte) error) (m missingOutputs, err error) {
	_, counted := o.outputs() // what is done meanwhile may have been passed already
	var found machine.OutputCount
	err = o.shard.store.Outputs(ctx, o.seq, 0, func(index uint32, output []byte) error {
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
	return missingOutputs{counted.Missing(found, o.id, now == counted), counted.Chunks - found.Chunks, counted.Sum - found.Sum}, nil
}

// missed is the error of what is missing. Before, it looks whether the submission is still there: retention removes outputs first.
func (o *outcome) missed(ctx context.Context, what string) error {
	if what == "" {
		return nil
	}
	o.shard.aging.RLock()
	defer o.shard.aging.RUnlock()
	if _, err := o.shard.Submissions.Get(ctx, o.id); err != nil {
		return err
	}
	err := o.shard.store.Lacks(what)
	// an internal failure, without a code
	return &queue.Error{Message: fmt.Sprintf("store.db does not have %s, which was stored before the completion was "+
		"committed: it is lost. Restore the data directory from a backup.", what), Err: err}
}

// addOutputs reads the outputs of the done chunks of a page, which ends before the one that does not fit into an answer.
func (p *Submissions) addOutputs(ctx context.Context, id queue.SubmissionID, seq uint32, list []queue.Chunk,
	next uint32) ([]queue.Chunk, uint32, error) {
	none := func(c queue.Chunk) bool { return c.State == queue.ChunkDone && c.Output == nil }
	answer := access.Gather(ctx)
	for i := range list {
		if none(list[i]) {
			output, found, err := p.s.store.Output(ctx, seq, list[i].Index)
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
		if err := p.hasNone(ctx, id, list[at].Index); err != nil {
			return nil, 0, err
		}
	}
	return list, next, nil
}

// hasNone checks that it is right that a done chunk has no output. That is known at once where no chunk of the submission has one, or all
// have. Else all of its outputs have to be counted, once in the life of the shard: what this life wrote is there.
func (p *Submissions) hasNone(ctx context.Context, id queue.SubmissionID, index uint32) error {
	o, err := p.outcome(ctx, id)
	if err != nil {
		return err
	}
	switch done, counted := o.outputs(); {
	case counted.Chunks == 0:
		return nil
	case counted.Chunks == done:
		return o.missed(ctx, machine.OutputOf(id, index))
	}
	if p.s.counted.has(id) {
		return nil
	}
	err = o.each(ctx, func(uint32, []byte) error { return nil })
	if err == nil {
		p.s.counted.add(id)
	}
	return err
}

// counted are submissions whose outputs were all found in this life.
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
