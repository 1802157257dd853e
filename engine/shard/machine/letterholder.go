package machine

import (
	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// LetterHolder is where the dead letters of one submission are: in one that is open, or in one that has ended, in memory or in the history.
type LetterHolder struct {
	M    *Machine
	r    *Record           // its tries are true
	open bool              // otherwise it has ended
	row  *checkpoint.Ended // the history row, unless the submission is in memory
}

// moving is a submission with ops on their way to the disk about what is dead in it. It is known until they are applied, whatever
// becomes of the submission meanwhile.
type moving struct {
	id    queue.SubmissionID
	Taken map[uint32]bool // the chunks of those ops
	ops   int
	Row   *checkpoint.Ended // when the submission has ended and is not in memory
}

// Holder finds the dead letters of a submission; nil: its history row has to be read first. ended is what the row tells.
func (p *deadLetters) Holder(id queue.SubmissionID, ended *Record, row *checkpoint.Ended) *LetterHolder {
	m := p.m
	if r := m.Live(id); r != nil {
		return &LetterHolder{M: m, r: r, open: true}
	}
	if r := m.Ended[id]; r != nil {
		return &LetterHolder{M: m, r: r}
	}
	if row == nil {
		return nil
	}
	return &LetterHolder{M: m, r: ended, row: row}
}

// Refusal is why nothing can become of the dead letters; "" when something can.
func (g *LetterHolder) Refusal(action queue.BulkAction, now queue.Time) string {
	switch at := g.r.Details().deadDeadline; {
	case g.open && g.r.Ending:
		return "is about to end"
	case g.open:
		return ""
	case action != queue.BulkRedrive: // of another end nothing is a dead letter
		return ""
	case g.r.State != queue.CompletedWithDead:
		return "is " + g.r.State.String()
	case at != 0 && at <= now:
		return "has a dead_deadline that passed"
	}
	return ""
}

// Free says that a chunk is a dead letter that nothing on its way to the disk is for.
func (g *LetterHolder) Free(index uint32) bool {
	t, v := g.r.Tries[index], g.M.Letters.Moving[g.r.Seq]
	return t != nil && t.Reason == journal.Dead && (g.open || g.r.State == queue.CompletedWithDead) && (v == nil || !v.Taken[index])
}

// Take are those of the indexes that are dead letters, for decide.
func (g *LetterHolder) Take(indexes []uint32) (taken []uint32) {
	for _, index := range indexes {
		if g.Free(index) {
			taken = append(taken, index)
		}
	}
	return taken
}

// Moves notes that the op that was encoded last is about these dead letters: nothing else may be decided about them until it is applied.
func (p *deadLetters) Moves(r *Record, row *checkpoint.Ended, indexes []uint32) {
	v := p.Moving[r.Seq]
	if v == nil {
		v = &moving{id: r.ID, Taken: map[uint32]bool{}, Row: row}
		p.Moving[r.Seq] = v
	}
	for _, index := range indexes {
		v.Taken[index] = true
	}
	v.ops++
	p.m.Intend(&move{r.Seq, indexes})
}

// move is an op about dead letters of one submission.
type move struct {
	seq     uint32
	indexes []uint32
}

func (x *move) Applied(m *Machine) {
	v := m.Letters.Moving[x.seq]
	for _, index := range x.indexes {
		delete(v.Taken, index)
	}
	if v.ops--; v.ops == 0 {
		delete(m.Letters.Moving, x.seq)
	}
}

func (x *move) Undo(m *Machine) { x.Applied(m) }

// Decide encodes what becomes of dead letters that were taken.
func (g *LetterHolder) Decide(fate Fate, indexes []uint32, now queue.Time) {
	switch m, r := g.M, g.r; fate.Action {
	case queue.BulkRedrive:
		m.Encode(now).Redrive(journal.Redrive{Seq: r.Seq, Indexes: indexes})
	case queue.BulkDelete:
		m.Encode(now).Move(journal.Move{Kind: journal.MoveDiscard, Seq: r.Seq, ID: r.ID, Indexes: indexes})
	case queue.BulkForward:
		m.Forwarding.send(r, indexes, fate.To, now)
	}
	g.M.Letters.Moves(g.r, g.row, indexes)
}

// Fate is what becomes of dead letters: queue.BulkRedrive, BulkDelete, or BulkForward to another queue.
type Fate struct {
	Action queue.BulkAction
	To     string
}
