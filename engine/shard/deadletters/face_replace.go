package deadletters

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
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

// dead finds the submission of a dead chunk, and copies the fields that are needed. The caller holds the history. An
// unknown submission and a chunk that is not dead get the same answer: for the caller, there is no such letter.
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
	l.replacing.Lock() // so the audit log's content before is the one that is replaced
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

// replaced are the contents that dead chunks were given in place of those of their insert. They stay
// until their submission leaves the history: until then a chunk may be tried again, or forwarded.
// The store has the content of the insert, which is written once. A changed content is kept beside it, in memory and
// as a row of the part, and readers ask here first (Storage.Replaced):
//
//	insert's content in the store ─┐
//	                               ├─► the content for a reserve, a forward or a reader of the letter
//	replaced, by seq and index ────┘   if there is one
//
// of has all of them, byID finds those of a submission when it leaves, and bytes is their size, for the limit.
type replaced struct {
	of    map[uint64]replacement
	byID  map[queue.SubmissionID][]uint64
	bytes int
}

type replacement struct {
	id      queue.SubmissionID
	content []byte // not nil
}

// replace keeps another content of a chunk. It may be kept already, as rows may be younger than an op.
func (p *Part) replace(key uint64, id queue.SubmissionID, content []byte) {
	if content == nil {
		content = []byte{}
	}
	x := &p.replaced
	if x.of == nil {
		x.of, x.byID = map[uint64]replacement{}, map[queue.SubmissionID][]uint64{}
	}
	if _, there := x.of[key]; !there {
		x.byID[id] = append(x.byID[id], key)
	}
	x.bytes += len(content) - len(x.of[key].content)
	x.of[key] = replacement{id, content}
	p.m.Storage.Replaced(key, content)
}

// Forget drops the contents of a submission that left the history.
// Each row that goes is marked as changed: the next checkpoint then removes it from the disk.
func (p *Part) Forget(id queue.SubmissionID) {
	x := &p.replaced
	for _, key := range x.byID[id] {
		x.bytes -= len(x.of[key].content)
		delete(x.of, key)
		p.m.Storage.Replaced(key, nil)
		p.m.Asides.Changed(machine.AsideReplaced, key)
	}
	delete(x.byID, id)
}

// forgetUnreachable drops, after a replay, contents of submissions that had already left the history: the journal may
// still have the op of an older change.
func (p *Part) forgetUnreachable() {
	pinned, known := p.Pinned()
	for id := range p.replaced.byID {
		if p.m.Live(id) == nil && p.OfEnded[id] == 0 && known && !pinned[id] {
			p.Forget(id)
		}
	}
}

// room says why a content cannot be kept; "" when it can. It is asked before the change is encoded. A replay does not
// ask: a change in the journal was admitted once, and refusing it now would leave another state than before.
func (x *replaced) room(key uint64, size int) string {
	old, there := x.of[key]
	switch {
	case !there && len(x.of) >= queue.MaxReplaced:
		return "this many chunks of this queue have a changed content already"
	case x.bytes-len(old.content)+size > queue.MaxReplacedBytes:
		return "the changed contents of this queue have this many bytes already"
	}
	return ""
}

func (p replacedRows) Row(key uint64) []byte {
	x, there := p.replaced.of[key]
	if !there {
		return nil
	}
	return append(binary.AppendUvarint(nil, uint64(x.id)), x.content...)
}

func (p replacedRows) Load(key uint64, row []byte) error {
	id, n := binary.Uvarint(row)
	if n <= 0 {
		return machine.AsideError(machine.AsideReplaced)
	}
	p.replace(key, queue.SubmissionID(id), bytes.Clone(row[n:]))
	return nil
}
