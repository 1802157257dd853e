package deadletters

import (
	"slices"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Holder is where the dead letters of one submission are: in one that is open, or in one
// that has ended, in memory or in the history.
type Holder struct {
	p    *Part
	r    *machine.Record   // its tries are true
	open bool              // false: it has ended
	row  *checkpoint.Ended // the history row, unless the submission is in memory
}

// Holder finds the dead letters of a submission; nil: its history row has to be read first. ended is the record that
// the row tells of.
func (p *Part) Holder(id queue.SubmissionID, ended *machine.Record, row *checkpoint.Ended) *Holder {
	m := p.m
	if r := m.Live(id); r != nil {
		return &Holder{p: p, r: r, open: true}
	}
	if r := m.Endings.ByID[id]; r != nil {
		return &Holder{p: p, r: r}
	}
	if row == nil {
		return nil
	}
	return &Holder{p: p, r: ended, row: row}
}

// Refusal says why the action cannot be done with the dead letters; "" when it can.
func (h *Holder) Refusal(action queue.BulkAction, now queue.Time) string {
	switch at := h.r.Details().DeadDeadline; {
	case h.open && h.r.Ending:
		return "is about to end"
	case h.open && action == queue.BulkRedrive && h.p.m.Tries.Overdue(h.r):
		return "has an end under way: all its chunks become dead letters now"
	case h.open:
		return ""
	case action != queue.BulkRedrive: // of another end nothing is a dead letter
		return ""
	case h.r.State != queue.CompletedWithDead:
		return "is " + h.r.State.String()
	case h.p.m.Quotas.Elsewhere(h.r.Meta().GroupOf()) != nil:
		return "is of a group that has moved to another shard; move the group back, then redrive them"
	case at != 0 && at <= now && h.p.m.Settings.OnDeadline == queue.SkipThem:
		return "has a dead_deadline that passed"
	}
	return ""
}

// Take returns those of the indexes that are dead letters, and about which no op is on its way to the disk. It is
// called in the same hold of the mutex as Decide, so nothing comes between the two.
func (h *Holder) Take(indexes []uint32) (taken []uint32) {
	if !h.open && h.r.State != queue.CompletedWithDead {
		return nil
	}
	for _, index := range indexes {
		if t := h.r.Tries[index]; t != nil && t.Reason == journal.Dead && !h.p.moves(h.r, index) {
			taken = append(taken, index)
		}
	}
	return taken
}

// Fate is an action on dead letters: queue.BulkRedrive, BulkDelete, or BulkForward to another queue.
type Fate struct {
	Action queue.BulkAction
	To     string
}

// Decide encodes the fate of dead letters that Take returned, in several ops if needed: a replay could not read one
// with more than journal.MaxRedrive chunks, and the shard would not start on its own journal.
func (h *Holder) Decide(fate Fate, indexes []uint32, now queue.Time) {
	for some := range slices.Chunk(indexes, journal.MaxRedrive) {
		h.decide(fate, some, now)
	}
}

// decide encodes one op.
func (h *Holder) decide(fate Fate, indexes []uint32, now queue.Time) {
	switch m, r := h.p.m, h.r; fate.Action {
	case queue.BulkRedrive:
		m.Encode(now).Redrive(journal.Redrive{Seq: r.Seq, Indexes: indexes})
	case queue.BulkDelete:
		m.Encode(now).Move(journal.Move{Kind: journal.MoveDiscard, Seq: r.Seq, ID: r.ID, Indexes: indexes})
	case queue.BulkForward:
		h.p.send(r, indexes, fate.To, now)
	}
	h.p.intend(h.r, h.row, indexes)
}

// moving is a submission with ops about its dead letters on their way to the disk. It is known until they are applied,
// whatever becomes of the submission meanwhile: the map of the part has it by seq, so it outlives a record that leaves
// the memory.
type moving struct {
	id    queue.SubmissionID
	taken map[uint32]bool // the chunks of those ops
	ops   int
	row   *checkpoint.Ended // when the submission has ended and is not in memory
}

// moves says that an op on its way to the disk is about a chunk.
func (p *Part) moves(r *machine.Record, index uint32) bool {
	v := p.moving[r.Seq]
	return v != nil && v.taken[index]
}

// Hasten encodes that waiting chunks of a submission are offered at once, and says how many. It offers chunks that a
// release delayed as well as those after a failure.
func (p *Part) Hasten(id queue.SubmissionID, indexes []uint32, dry bool, now queue.Time) int {
	r := p.m.Live(id)
	if r == nil || r.Ending {
		return 0
	}
	var taken []uint32
	for _, index := range indexes {
		if t := r.Tries[index]; t != nil && t.Waiting && !p.m.IsHeld(r, index) && !p.moves(r, index) {
			taken = append(taken, index)
		}
	}
	if dry {
		return len(taken)
	}
	for some := range slices.Chunk(taken, journal.MaxRedrive) {
		p.m.Encode(now).Move(journal.Move{Kind: journal.MoveOffer, Seq: r.Seq, ID: r.ID, Indexes: some})
		p.intend(r, nil, some)
	}
	return len(taken)
}

// intend notes that the op that was encoded last is about these chunks: nothing else may
// be decided about them until it is applied.
func (p *Part) intend(r *machine.Record, row *checkpoint.Ended, indexes []uint32) {
	v := p.moving[r.Seq]
	if v == nil {
		v = &moving{id: r.ID, taken: map[uint32]bool{}, row: row}
		p.moving[r.Seq] = v
	}
	for _, index := range indexes {
		v.taken[index] = true
	}
	v.ops++
	p.m.Batch.Intend(&move{p, r.Seq, indexes})
}

// move is an op about dead letters of one submission.
type move struct {
	p       *Part
	seq     uint32
	indexes []uint32
}

func (x *move) Applied(*machine.Machine) {
	v := x.p.moving[x.seq]
	for _, index := range x.indexes {
		delete(v.taken, index)
	}
	if v.ops--; v.ops == 0 {
		delete(x.p.moving, x.seq)
	}
}

// Undo forgets the intent as Applied does: its op did not happen, and a caller may ask for it again.
func (x *move) Undo(m *machine.Machine) { x.Applied(m) }
