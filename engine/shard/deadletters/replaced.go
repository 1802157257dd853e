package deadletters

import (
	"bytes"
	"encoding/binary"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// replaced are the contents that dead chunks were given in place of those of their insert. They stay
// until their submission leaves the history: until then a chunk may be tried again, or forwarded.
// The store has the content of the insert, which is written once. A changed content is kept beside it, in memory and
// as a row of the part, and readers ask here first (Storage.Replaced):
//
//	insert's content in the store ─┐
//	                               ├─► what a reserve, a forward or a reader of the letter gets
//	replaced, by seq and index ────┘   if there is one
//
// of has all of them, byID finds those of a submission when it leaves, and bytes is what counts towards the limit.
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

// forgetUnreachable drops, after a replay, contents of submissions that the history lost before: an op
// in the journal was older than that.
func (p *Part) forgetUnreachable() {
	pinned, known := p.Pinned()
	for id := range p.replaced.byID {
		if p.m.Live(id) == nil && p.OfEnded[id] == 0 && known && !pinned[id] {
			p.Forget(id)
		}
	}
}

// room says why a content cannot be kept; "" when it can.
// It is asked before the change is encoded. A replay does not ask: what is in the journal was admitted once, and
// refusing it now would leave another state than before.
func (x *replaced) room(key uint64, size int) string {
	old, there := x.of[key]
	switch {
	case !there && len(x.of) >= queue.MaxReplaced:
		return "so many chunks of this queue have a changed content already"
	case x.bytes-len(old.content)+size > queue.MaxReplacedBytes:
		return "the changed contents of this queue have so many bytes already"
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
