package shard

import (
	"context"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// letterHolder is where the dead letters of one submission are: in one that is open, or in one that has ended, in memory or in the history.
type letterHolder struct {
	m    *machine
	r    *record      // its tries are true
	open bool         // otherwise it has ended
	row  *store.Ended // the history row, unless the submission is in memory
}

// moving is a submission with ops on their way to the disk about what is dead in it. It is known until they are applied, whatever
// becomes of the submission meanwhile.
type moving struct {
	id    queue.SubmissionID
	taken map[uint32]bool // the chunks of those ops
	ops   int
	row   *store.Ended // when the submission has ended and is not in memory
}

// at calls act with the dead letters of a submission, once, under the mutex, and returns what the caller has to wait for. act
// encodes. The caller holds aging for reading until the commit. CodeUnknownSubmission: there is no such submission.
func (p *DeadLetters) at(ctx context.Context, id queue.SubmissionID,
	act func(g *letterHolder, now queue.Time) error) (waits commits, err error) {
	s := p.s
	var ended *record
	var row *store.Ended
	var rows uint64 // how many history rows had been written when this one was read
	for {
		now := s.now()
		s.mu.Lock()
		if err := s.usable(); err != nil {
			s.mu.Unlock()
			return waits, err
		}
		if rows != s.m.rows {
			row = nil
		}
		if g := s.m.letters.holder(id, ended, row); g != nil {
			err := act(g, now)
			waits.add(s.writer.pending())
			s.mu.Unlock()
			return waits, err
		}
		rows = s.m.rows
		s.mu.Unlock()
		read, found, err := s.store.History.Ended(ctx, id)
		if err == nil && !found {
			err = unknownSubmission(id)
		}
		if err != nil {
			return waits, err
		}
		if ended, _, err = endedRecord(&read); err != nil {
			return waits, err
		}
		row = &read
	}
}

// holder finds the dead letters of a submission; nil: its history row has to be read first. ended is what the row tells.
func (p *deadLetters) holder(id queue.SubmissionID, ended *record, row *store.Ended) *letterHolder {
	m := p.m
	if r := m.live(id); r != nil {
		return &letterHolder{m: m, r: r, open: true}
	}
	if r := m.ended[id]; r != nil {
		return &letterHolder{m: m, r: r}
	}
	if row == nil {
		return nil
	}
	return &letterHolder{m: m, r: ended, row: row}
}

// refusal is why nothing can become of the dead letters; "" when something can.
func (g *letterHolder) refusal(action queue.BulkAction, now queue.Time) string {
	switch at := g.r.details().deadDeadline; {
	case g.open && g.r.ending:
		return "is about to end"
	case g.open:
		return ""
	case action != queue.BulkRedrive: // of another end nothing is a dead letter
		return ""
	case g.r.state != queue.CompletedWithDead:
		return "is " + g.r.state.String()
	case at != 0 && at <= now:
		return "has a dead_deadline that passed"
	}
	return ""
}

// free says that a chunk is a dead letter that nothing on its way to the disk is for.
func (g *letterHolder) free(index uint32) bool {
	t, v := g.r.tries[index], g.m.letters.moving[g.r.seq]
	return t != nil && t.reason == journal.Dead && (g.open || g.r.state == queue.CompletedWithDead) && (v == nil || !v.taken[index])
}

// take are those of the indexes that are dead letters, for decide.
func (g *letterHolder) take(indexes []uint32) (taken []uint32) {
	for _, index := range indexes {
		if g.free(index) {
			taken = append(taken, index)
		}
	}
	return taken
}

// moves notes that the op that was encoded last is about these dead letters: nothing else may be decided about them until it is applied.
func (p *deadLetters) moves(r *record, row *store.Ended, indexes []uint32) {
	v := p.moving[r.seq]
	if v == nil {
		v = &moving{id: r.id, taken: map[uint32]bool{}, row: row}
		p.moving[r.seq] = v
	}
	for _, index := range indexes {
		v.taken[index] = true
	}
	v.ops++
	p.m.intend(&move{r.seq, indexes})
}

// move is an op about dead letters of one submission.
type move struct {
	seq     uint32
	indexes []uint32
}

func (x *move) Applied(m *machine) {
	v := m.letters.moving[x.seq]
	for _, index := range x.indexes {
		delete(v.taken, index)
	}
	if v.ops--; v.ops == 0 {
		delete(m.letters.moving, x.seq)
	}
}

func (x *move) Undo(m *machine) { x.Applied(m) }

// decide encodes what becomes of dead letters that were taken.
func (g *letterHolder) decide(fate fate, indexes []uint32, now queue.Time) {
	switch m, r := g.m, g.r; fate.action {
	case queue.BulkRedrive:
		m.encode(now).Redrive(journal.Redrive{Seq: r.seq, Indexes: indexes})
	case queue.BulkDelete:
		m.encode(now).Move(journal.Move{Kind: journal.MoveDiscard, Seq: r.seq, ID: r.id, Indexes: indexes})
	case queue.BulkForward:
		m.forwarding.send(r, indexes, fate.to, now)
	}
	g.m.letters.moves(g.r, g.row, indexes)
}

// fate is what becomes of dead letters: queue.BulkRedrive, BulkDelete, or BulkForward to another queue.
type fate struct {
	action queue.BulkAction
	to     string
}

// settle does one thing with dead letters of a submission, and says with how many: those of the indexes that are not dead
// stay as they are. It returns after the commit. The indexes ascend; there are at most journal.MaxRedrive.
func (p *DeadLetters) settle(ctx context.Context, id queue.SubmissionID, indexes []uint32, f fate, acts ...queue.Act) (n int, err error) {
	s := p.s
	s.aging.RLock()
	defer s.aging.RUnlock()
	waits, err := p.at(ctx, id, func(g *letterHolder, now queue.Time) error {
		if why := g.refusal(f.action, now); why != "" {
			return refusedLetters(id, why)
		}
		taken := g.take(indexes)
		if n = len(taken); n > 0 {
			g.decide(f, taken, now)
			g.m.actLog.tell(now, acts, nil, nil)
		}
		return nil
	})
	if err == nil && n > 0 {
		err = s.writer.wait(waits)
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}

func refusedLetters(id queue.SubmissionID, why string) error {
	return &queue.Error{Code: queue.CodeConflict, Message: "Submission " + id.String() + " " + why +
		": nothing can become of its dead chunks. Insert the work again."}
}

// Redrive offers dead chunks of a submission again, with no try counted, and says how many: those of the indexes that are
// not dead stay as they are. A submission that completed with dead chunks is open again. It returns after the commit. The
// indexes ascend; there are at most journal.MaxRedrive.
func (p *DeadLetters) Redrive(ctx context.Context, id queue.SubmissionID, indexes []uint32, acts ...queue.Act) (n int, err error) {
	return p.settle(ctx, id, indexes, fate{action: queue.BulkRedrive}, acts...)
}

// Delete gives dead chunks of a submission up for good: they count as skipped from then on. Otherwise it is as Redrive.
func (p *DeadLetters) Delete(ctx context.Context, id queue.SubmissionID, indexes []uint32, acts ...queue.Act) (n int, err error) {
	return p.settle(ctx, id, indexes, fate{action: queue.BulkDelete}, acts...)
}

// Forward has dead chunks of a submission leave for another queue: they count as skipped from then on. Otherwise it is as Redrive.
func (p *DeadLetters) Forward(ctx context.Context, id queue.SubmissionID, indexes []uint32, to string,
	acts ...queue.Act) (n int, err error) {
	return p.settle(ctx, id, indexes, fate{queue.BulkForward, to}, acts...)
}
