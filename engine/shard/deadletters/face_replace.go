package deadletters

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Content is the inline content of a dead chunk; nil: it has none, as it is the key of an object or
// from a template. CodeUnknownDeadLetter: the chunk is not dead.
func (l *Letters) Content(ctx context.Context, chunk queue.ChunkID) (content []byte, err error) {
	l.history.Lock()
	defer l.history.Unlock()
	r, err := l.dead(ctx, chunk)
	if err != nil || !r.Inline {
		return nil, err
	}
	all, err := l.Bytes.Chunks(ctx, r, []uint32{chunk.Index}, math.MaxInt)
	if err != nil {
		return nil, err
	}
	return append([]byte{}, all[0]...), nil // not nil
}

// dead finds the submission of a dead chunk: a copy of what is needed of it. The caller holds the history.
// An unknown submission and a chunk that is not dead get the same answer: for the caller, there is no such letter.
func (l *Letters) dead(ctx context.Context, chunk queue.ChunkID) (found *machine.Record, err error) {
	_, err = l.at(ctx, chunk.Submission, func(_ *machine.Machine, h *Holder, _ queue.Time) error {
		if len(h.Take([]uint32{chunk.Index})) == 0 {
			return queue.UnknownDeadLetter(chunk)
		}
		c := *h.r
		found = &c
		return nil
	})
	if queue.CodeOf(err) == queue.CodeUnknownSubmission {
		err = queue.UnknownDeadLetter(chunk)
	}
	return found, err
}

// Replace gives a dead chunk another inline content. The audit log has both. It returns after the commit. The chunk
// is checked twice: Content reads the disk, which must not happen under the mutex, and the chunk may be redriven
// meanwhile.
func (l *Letters) Replace(ctx context.Context, chunk queue.ChunkID, content []byte,
	allow func(before []byte) error, acts ...queue.Act) error {
	l.replacing.Lock() // what the log has as the content before is that
	defer l.replacing.Unlock()
	before, err := l.Content(ctx, chunk)
	if err != nil {
		return err
	}
	if before == nil {
		return &queue.Error{Code: queue.CodeConflict, Message: "The content of chunk " + chunk.String() + " is not " +
			"inline: it is the key of an object, or from a template. Change the object, or insert the work again."}
	}
	if allow != nil {
		if err := allow(before); err != nil {
			return err
		}
	}
	l.history.Lock()
	defer l.history.Unlock()
	c, err := l.at(ctx, chunk.Submission, func(m *machine.Machine, h *Holder, now queue.Time) error {
		taken := h.Take([]uint32{chunk.Index})
		if len(taken) == 0 {
			return queue.UnknownDeadLetter(chunk)
		}
		if why := l.Part().replaced.room(queue.ChunkKey(h.r.Seq, chunk.Index), len(content)); why != "" {
			return &queue.Error{Code: queue.CodeOverloaded, Message: fmt.Sprintf("The content cannot be changed: %s "+
				"(at most %d, of %d bytes in all). They are kept until their submissions leave the history: discard "+
				"dead letters, or insert the work again.", why, queue.MaxReplaced, queue.MaxReplacedBytes)}
		}
		m.Encode(now).Replacement(&journal.Replacement{
			Seq: h.r.Seq, Index: chunk.Index, ID: chunk.Submission, Bytes: content,
		})
		h.p.intend(h.r, h.row, taken)
		m.ActLog.Tell(now, acts, digest(before), digest(content))
		return nil
	})
	if err == nil {
		err = l.Wait(commit.Set{First: c})
	}
	return err
}

// mostLogged is how much of a content the audit log has, if it is text.
// An entry of the log must stay small enough to be in the batch of the change that it describes.
const mostLogged = 1000

// digest is a content in the audit log. The sum tells later whether a content is the one of the entry, also where the
// entry has only its beginning.
func digest(content []byte) json.RawMessage {
	sum := sha256.Sum256(content)
	x := map[string]any{"bytes": len(content), "sha256": hex.EncodeToString(sum[:])}
	if utf8.Valid(content) {
		x["text"] = machine.Clip(string(content), mostLogged)
	}
	text, _ := json.Marshal(x) // of numbers and texts
	return text
}
