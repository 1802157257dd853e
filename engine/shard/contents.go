package shard

import (
	"context"
	"sync"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
)

// This file brings inline chunks, attachments and outputs to the disk. They travel in the batch of the op that they belong to: one append
// makes both durable, the store keeps them in memory, and the next checkpoint writes them. Large contents would make everyone wait who
// shares the append, so they are written to the store first, and the op follows when they are there; where snapshots are kept, they go to
// the journal first, in a batch of their own.

// contents are the bytes of chunks and attachments in the store.
type contents struct {
	s         *Shard
	relieving sync.Mutex // held by the caller that makes room for all
}

// keptTimes bounds what waits in memory for a checkpoint, in times of Options.CheckpointBytes.
const keptTimes = 4

// most is how many bytes may wait.
func (c *contents) most() int64 { return keptTimes * c.s.options.CheckpointBytes }

func (c *contents) over() bool { return c.s.store.Memtable.Bytes() > c.most() }

// room has a caller that brings so many bytes wait for a checkpoint while too much waits for one. Its error is that of the checkpoint: a
// disk that takes nothing has to be noticed by those who bring more.
func (c *contents) room(bytes int) error {
	if bytes == 0 || !c.over() {
		return nil
	}
	c.relieving.Lock()
	defer c.relieving.Unlock()
	if !c.over() { // another caller made room meanwhile
		return nil
	}
	return storeError(c.s.checkpoints.now())
}

// beside says that so many bytes of one insert are too many for its op.
func (c *contents) beside(bytes int) bool {
	if c.s.snapshots.kept {
		return bytes > fullBatch
	}
	return bytes > c.s.options.OpBytes || c.over()
}

// itemCost stands for what a chunk or an output takes in an op beside its bytes.
const itemCost = 8

// pack makes the op that carries the bytes of as many submissions as `times` says, which have the same ones and go into one batch; nil if
// they have none. beside: they are too many, and have to be written before the submissions are published.
func (c *contents) pack(n *queue.NewSubmission, times int) (op *journal.Contents, beside bool) {
	if times == 0 || len(n.Attachment) == 0 && len(n.Chunks.Inline) == 0 {
		return nil, false
	}
	bytes := len(n.Attachment)
	for _, chunk := range n.Chunks.Inline {
		bytes += len(chunk) + itemCost
	}
	if c.beside(bytes) || bytes*times > fullBatch {
		return nil, true
	}
	op = &journal.Contents{Pages: store.PackContent(n.Chunks.Inline)}
	if len(n.Attachment) > 0 {
		op.Attachment = n.Attachment
	}
	return op, false
}

// write puts the inline bytes and the attachment of a submission on disk before its insert is published.
func (c *contents) write(ctx context.Context, seq uint32, n *queue.NewSubmission) error {
	return c.writeAll(ctx, []store.Content{{Seq: seq, Chunks: n.Chunks.Inline, Attachment: n.Attachment}})
}

// writeAll is write for several. What a crash leaves of them is swept away at the next start.
func (c *contents) writeAll(ctx context.Context, list []store.Content) error {
	if len(list) == 0 {
		return nil
	}
	if c.s.snapshots.kept {
		return c.journal(list)
	}
	return storeError(c.s.disk.wrote(c.s.store.WriteContents(ctx, list)))
}

// journal makes the bytes durable in batches of their own, each with those of one submission: the store alone does not have what cannot be
// made again.
func (c *contents) journal(list []store.Content) error {
	for i := range list {
		op := &journal.Contents{Seq: list[i].Seq, Pages: store.PackContent(list[i].Chunks)}
		if len(list[i].Attachment) > 0 {
			op.Attachment = list[i].Attachment
		}
		err := c.s.writer.change(func(m *machine.Machine, now queue.Time) (*commit.Commit, error) {
			m.Encode(now).Contents(op)
			batch := m.Batch.Commit
			c.s.writer.sealFull()
			return batch, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// read reads inline bytes and attachments, in one query for each run of chunks of one submission. n is how many of the picks, from the
// first on, fit into the answer: at least one.
func (c *contents) read(ctx context.Context, picks []machine.Pick, dst []queue.Reservation) (n int, err error) {
	answer, meta := access.Gather(ctx), 0
	for n < len(picks) {
		read, err := c.readRun(ctx, picks[n:], dst[n:], answer.Left())
		if err != nil {
			return n, err
		}
		for range read {
			if n == 0 || picks[n].R != picks[n-1].R {
				meta = dst[n].Meta.Bytes()
			}
			if !answer.Fits(meta+len(dst[n].Content.Bytes)+len(dst[n].Attachment)) && n > 0 {
				return n, nil
			}
			n++
		}
	}
	return n, nil
}

// readRun reads for the first run of picks: for as many of it as there is room for in `left` bytes, and for one in any case.
func (c *contents) readRun(ctx context.Context, picks []machine.Pick, dst []queue.Reservation, left int) (read int, err error) {
	if n := firstOnly(picks); n > 1 {
		return c.readFirst(ctx, picks[:n], dst[:n], left)
	}
	r, run := picks[0].R, 1
	for run < len(picks) && picks[run].R == r {
		run++
	}
	if r.Attached {
		b, err := c.s.store.ReadAttachment(ctx, r.Seq)
		if err != nil {
			return 0, err
		}
		for i := range run {
			dst[i].Attachment = b
		}
	}
	if !r.Inline {
		return run, nil
	}
	return c.readInline(ctx, picks[:run], dst[:run], left)
}

// firstOnly is how many picks, from the first on, are the first inline chunk of their submission, which has no attachment.
func firstOnly(picks []machine.Pick) (n int) {
	for n < len(picks) && picks[n].R.Inline && !picks[n].R.Attached && picks[n].Token.Index == 0 {
		n++
	}
	return n
}

// readFirst reads the first chunks of several submissions.
func (c *contents) readFirst(ctx context.Context, picks []machine.Pick, dst []queue.Reservation, left int) (int, error) {
	seqs := make([]uint32, len(picks))
	for i := range picks {
		seqs[i] = picks[i].R.Seq
	}
	return c.s.store.Singles.ReadFirst(ctx, seqs, left, func(i int, content []byte) { dst[i].Content.Bytes = content })
}

// readInline reads the inline bytes of chunks of one submission.
func (c *contents) readInline(ctx context.Context, picks []machine.Pick, dst []queue.Reservation, left int) (int, error) {
	indexes := make([]uint32, len(picks))
	for i := range picks {
		indexes[i] = picks[i].Token.Index
	}
	contents, err := c.s.store.ReadContents(ctx, picks[0].R.Seq, indexes, left)
	for i := range contents {
		dst[i].Content.Bytes = contents[i]
	}
	return len(contents), err
}
