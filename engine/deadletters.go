package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// DeadRequest says which dead letters of a queue to list.
type DeadRequest struct {
	Filter queue.BulkFilter
	Cursor string // Next of the page before; "" for the first
	Limit  int    // 1 to queue.MaxListLimit; 0: 100
}

// List lists dead chunks that can be redriven: those of the newest submission first, and of one submission by index. A page may be
// short, or empty, before the end: go on while Next is not empty.
func (p DeadLetters) List(ctx context.Context, r DeadRequest) (page Page[queue.DeadChunk], err error) {
	limit, err := validLimit(r.Limit)
	if err != nil {
		return page, err
	}
	from, err := readCursorOf("d", r.Cursor, 63, 32)
	if err != nil {
		return page, err
	}
	after := queue.ChunkID{Submission: queue.SubmissionID(from[0]), Index: uint32(from[1])}
	page.Items, after, err = p.q.shard.DeadLetters.Page(ctx, r.Filter, after, limit)
	if after != (queue.ChunkID{}) {
		page.Next = cursor("d", uint64(after.Submission), uint64(after.Index))
	}
	return page, err
}

// Get tells about one dead chunk of the queue. CodeUnknownDeadLetter: it is not dead, or not in this queue.
func (p DeadLetters) Get(ctx context.Context, id queue.ChunkID) (queue.DeadChunk, error) {
	if err := p.in(id); err != nil {
		return queue.DeadChunk{}, err
	}
	after := queue.ChunkID{}
	if id.Index > 0 {
		after = queue.ChunkID{Submission: id.Submission, Index: id.Index - 1}
	}
	list, err := p.q.shard.DeadLetters.List(ctx, queue.BulkFilter{Dead: queue.DeadFilter{Submission: id.Submission}}, after, 1)
	if err != nil {
		return queue.DeadChunk{}, err
	}
	if len(list) == 0 || list[0].Chunk != id {
		return queue.DeadChunk{}, queue.UnknownDeadLetter(id)
	}
	return list[0], nil
}

// Redrive offers one dead chunk again, with no try counted; its submission is open afterwards. It is durable when Redrive
// returns. CodeUnknownDeadLetter: the chunk is not dead.
func (p DeadLetters) Redrive(ctx context.Context, id queue.ChunkID) error {
	return p.one(ctx, id, "dead_letter.redrive", p.q.shard.DeadLetters.Redrive)
}

// Delete gives one dead chunk up for good: it counts as skipped. It is durable when Delete returns.
func (p DeadLetters) Delete(ctx context.Context, id queue.ChunkID) error {
	return p.one(ctx, id, "dead_letter.delete", p.q.shard.DeadLetters.Delete)
}

// Forward has one dead chunk go on to another queue, durably: here it counts as skipped, there it arrives exactly once.
// CodeUnknownDeadLetter: the chunk is not dead. Invalid at /to: there is no such queue, or it is the chunk's own.
func (p DeadLetters) Forward(ctx context.Context, id queue.ChunkID, to string) error {
	return p.one(ctx, id, "dead_letter.forward", func(ctx context.Context, of queue.SubmissionID, indexes []uint32,
		acts ...queue.Act) (int, error) {
		p.q.e.forwards.doors.RLock() // the other queue cannot be deleted meanwhile
		defer p.q.e.forwards.doors.RUnlock()
		if err := p.q.validForward(to); err != nil {
			return 0, err
		}
		return p.q.shard.DeadLetters.Forward(ctx, of, indexes, to, acts...)
	})
}

// SetContent gives one dead chunk another inline content, durably, for when it is redriven or forwarded. CodeConflict: its content is not
// inline. The chunk stays dead. allow is asked with the content that it replaces, and no other change comes between; nil: always.
func (p DeadLetters) SetContent(ctx context.Context, id queue.ChunkID, content []byte,
	allow func(before []byte) error) error {
	if content == nil {
		return queue.Invalid("", "is null: give the content as text or base64")
	}
	if len(content) > queue.MaxReplacedContent {
		return queue.Invalid("", "has %d bytes; at most %d are allowed here: insert the work again", len(content), queue.MaxReplacedContent)
	}
	if err := p.in(id); err != nil {
		return err
	}
	return p.q.shard.DeadLetters.Replace(ctx, id, content, allow, p.q.act(ctx, "", "dead_letter.change", chunkTarget(id)))
}

// Content is the inline content of one dead chunk; nil: it is not inline.
func (p DeadLetters) Content(ctx context.Context, id queue.ChunkID) ([]byte, error) {
	return p.q.shard.DeadLetters.Content(ctx, id)
}

// one applies an action to one dead chunk of the queue.
func (p DeadLetters) one(ctx context.Context, id queue.ChunkID, action string,
	do func(context.Context, queue.SubmissionID, []uint32, ...queue.Act) (int, error)) error {
	if err := p.in(id); err != nil {
		return err
	}
	n, err := do(ctx, id.Submission, []uint32{id.Index}, p.q.act(ctx, "", action, chunkTarget(id)))
	if err == nil && n == 0 {
		err = queue.UnknownDeadLetter(id)
	}
	return err
}

// chunkTarget is a chunk as the audit log names it.
func chunkTarget(id queue.ChunkID) string {
	return fmt.Sprintf("submission %s chunk %d", id.Submission, id.Index)
}

// validForward checks where dead letters of a queue are to go.
func (q *Queue) validForward(to string) error {
	if to == q.name {
		return queue.Invalid("/to", "is the queue that the dead letters are in: name another one")
	}
	if _, err := q.e.Queue(to); err != nil {
		return queue.Invalid("/to", "names the queue %q, which does not exist: create it first", clip(to, queue.MaxQueueNameBytes))
	}
	return nil
}

// in makes sure that the submission is one of the queue.
func (p DeadLetters) in(id queue.ChunkID) error {
	if of, err := p.q.e.QueueOf(id.Submission); err != nil || of != p.q {
		return queue.UnknownDeadLetter(id)
	}
	return nil
}

// Groups counts the dead letters that the filter means by the fingerprint of their errors, the largest group first.
func (p DeadLetters) Groups(ctx context.Context, f queue.BulkFilter) (api.DeadGroups, error) {
	list, err := p.q.shard.DeadLetters.Groups(ctx, f)
	slices.SortFunc(list.Items, func(a, b api.DeadGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Fingerprint, b.Fingerprint))
	})
	return list, err
}
