package deadletters

import (
	"bytes"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/deadletters/lettergroups"
	"github.com/quern-queue/quern/engine/shard/deadletters/outbox"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Part knows the dead letters of a shard, those on their way to other queues, and the last ones that arrived from other
// queues.
type Part struct {
	m       *machine.Machine
	Index   *machine.Ordered              // the submissions that have some, open or not yet in the history, by id
	OfEnded map[queue.SubmissionID]uint32 // how many the ended ones have
	Groups  *lettergroups.Groups          // all, by their errors; empty during a replay
	// by seq: the submissions with ops about their dead letters on the way to the disk
	moving map[uint32]*moving

	Outbox   outbox.Outbox     // dead letters on their way to another queue
	sending  int               // chunks that enter the outbox with an op on its way to the disk
	posted   bool              // the outbox got something since someone looked
	inbox    map[uint64]uint64 // by source: the last number that arrived from its outbox
	arriving map[uint64]uint64 // the same, with letters whose inserts are on their way to the disk
	replaced replaced
}

// New is the part of a machine without dead letters.
func New(m *machine.Machine) *Part {
	return &Part{
		m: m, Index: &machine.Ordered{}, OfEnded: map[queue.SubmissionID]uint32{},
		Groups: lettergroups.New(lettergroups.Max),
		moving: map[uint32]*moving{}, inbox: map[uint64]uint64{}, arriving: map[uint64]uint64{},
	}
}

// Apply offers dead letters again, gives them up, or has them leave for another queue.
func (p *Part) Apply(op journal.PartOp) (mine bool, err error) {
	switch op := op.(type) {
	case journal.Move:
		return true, p.move(op)
	case journal.Redrive:
		return true, p.redrive(op)
	case *journal.Replacement:
		key := queue.ChunkKey(op.Seq, op.Index)
		p.replace(key, op.ID, bytes.Clone(op.Bytes))
		p.m.Asides.Changed(machine.AsideReplaced, key)
		return true, nil
	}
	return false, nil
}

// Intended counts the marks of intents.
func (p *Part) Intended(count func(what string, n int)) {
	count("submissions with moving dead letters", len(p.moving))
	count("dead letters about to leave", p.sending)
	count("dead letters about to arrive", len(p.arriving))
}

// Of is how many dead letters a submission has, wherever it is.
func (p *Part) Of(id queue.SubmissionID) uint32 {
	if r := p.m.Live(id); r != nil {
		return r.Dead
	}
	return p.OfEnded[id]
}

// group adds the dead chunks of a submission to groups.
func group(g *lettergroups.Groups, r *machine.Record) {
	for _, t := range r.Tries {
		if t.Reason == journal.Dead {
			g.Add(r.ID, queue.Fingerprint(t.Err), t.Err, t.Died())
		}
	}
}

// Died notes that a chunk of an open submission is dead, or (delta -1) no longer. During a replay it notes nothing:
// Replayed lists the letters at its end.
func (p *Part) Died(r *machine.Record, index uint32, delta int) {
	switch t := r.Tries[index]; {
	case p.m.Replay:
	case delta < 0:
		if r.Dead == 0 {
			p.Index.Remove(r)
		}
		p.Groups.Remove(r.ID, queue.Fingerprint(t.Err), t.Died())
	default:
		if r.Dead == 1 {
			p.Index.Add(r)
		}
		p.Groups.Add(r.ID, queue.Fingerprint(t.Err), t.Err, t.Died())
	}
}

// Ended keeps the dead chunks of a submission that completed, the only ones that can be redriven.
func (p *Part) Ended(r *machine.Record) {
	if r.State == queue.CompletedWithDead {
		p.Keep(r.ID, r.Dead)
		return
	}
	p.Index.Remove(r)
	if r.Dead > 0 && !p.m.Replay {
		p.Groups.Drop(r.ID, r.Dead)
	}
}

// Holders has the number of dead letters of each ended submission that has some. The caller holds the mutex while it
// reads the map.
func (p *Part) Holders() map[queue.SubmissionID]uint32 { return p.OfEnded }

// Keep notes how many dead letters an ended submission has.
func (p *Part) Keep(id queue.SubmissionID, letters uint32) {
	p.m.Stats.EndedLetters += uint64(letters) - uint64(p.OfEnded[id])
	if letters == 0 {
		delete(p.OfEnded, id)
		return
	}
	p.OfEnded[id] = letters
}

// Written notes that the history has the row of an ended submission, which is not in
// memory any more: ops about it need the row.
func (p *Part) Written(r *machine.Record) {
	if v := p.moving[r.Seq]; v != nil {
		v.row = new(r.EndedRow())
	}
}

// Recounted lists an open submission if it has dead chunks, after they were counted again.
func (p *Part) Recounted(r *machine.Record) {
	if p.Index.Remove(r); r.Dead > 0 {
		p.Index.Add(r)
	}
}

// Replayed ends a replay: it lists and groups the dead letters in memory.
func (p *Part) Replayed() {
	m := p.m
	p.forgetUnreachable()
	p.Index = &machine.Ordered{}
	list := func(r *machine.Record) {
		p.Index.Add(r)
		group(p.Groups, r)
	}
	for _, r := range m.Endings.InOrder {
		if m.Endings.ByID[r.ID] == r && p.OfEnded[r.ID] > 0 {
			list(r)
		}
	}
	for _, n := range p.OfEnded {
		m.Stats.EndedLetters += uint64(n)
	}
	m.Backlog.Each(func(sub *backlog.Submission) bool {
		if r := sub.Data.(*machine.Record); r.Dead > 0 {
			list(r)
		}
		return true
	})
}
