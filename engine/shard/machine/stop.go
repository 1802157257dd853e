package machine

import (
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// This file is what makes a planned restart invisible to consumers: a shard that is closed in order writes what is held at the end of
// its journal, and the next start takes it up again, each reservation with the time that was left to it. The epoch that the start then
// writes ends it: should that life be killed, what it handed out is known to no one, and the restart grace is there for it.

// stops is the part of the machine that has what was held when the shard was closed, while it starts.
type stops struct {
	m       *Machine
	InOrder bool // the life before ended so, and held is all of it
	at      queue.Time
	held    []*journal.Held
}

func (p *stops) apply(op *journal.Held) error {
	if len(op.Chunks) == 0 {
		p.InOrder = true
		return nil
	}
	p.at, p.held = p.m.Now, append(p.held, op)
	return nil
}

// began is for a new life.
func (p *stops) began() { *p = stops{m: p.m} }

// Resume holds again what was held. It is called when the replay is through, before anything is offered.
func (p *stops) Resume(now queue.Time) {
	m := p.m
	var missed []string
	for _, op := range p.held {
		for i := range op.Chunks {
			c := &op.Chunks[i]
			r := m.LiveSeq(c.Seq)
			if r == nil || c.Index >= r.Chunks {
				continue
			}
			p.retake(r, reserver.Hold{
				Sequence: c.Sequence, Epoch: c.Epoch, Seq: c.Seq, Index: c.Index, Attempt: r.attempt(c.Index), Counted: true,
				Reserved: c.Reserved, Deadline: now.Add(c.Deadline.Sub(p.at)),
			}, op.Consumer, op.Seen)
		}
		if op.Attached {
			missed = append(missed, op.Consumer)
		}
	}
	slices.Sort(missed)
	for _, name := range missed {
		m.Roster.miss(name, now)
	}
}

// retake has a chunk be held as it was before the machine was made, unless it is done.
func (p *stops) retake(r *Record, h reserver.Hold, consumer string, seen queue.Time) {
	m := p.m
	t := r.Tries[h.Index]
	if t != nil && t.Waiting { // promotions are not in the journal
		m.undelay(r, h.Index, t)
		m.Backlog.PutBack(r.Sub, h.Index)
	}
	if !m.Backlog.Retake(r.Sub, h.Index) {
		return
	}
	if t != nil && m.Suspects.suspicious(t.Reason) {
		m.Suspects.lends(r, t, h.Reserved)
	}
	m.Holds.Saw(m.Holds.At(m.Holds.Add(&r.Holds, h, consumer)), seen)
}

// EachHeld tells what each consumer holds, in ops that are good during the call only. What was on its way to the disk is not any more: what
// of it came through holds nothing, and the rest is held as before.
func (p *stops) EachHeld(tell func(*journal.Held)) {
	m := p.m
	for from, more := 0, true; more; more = from != 0 {
		from = m.Holds.Consumers(from, LookMost, func(of reserver.Holding) {
			op := &journal.Held{Consumer: of.Name, Attached: m.Roster.keepsStream(of.Name), Seen: of.Seen}
			m.Holds.HeldBy(of.Name, reserver.Place{}, func(_ reserver.Place, h *reserver.Hold) bool {
				if !h.Counted || m.LiveSeq(h.Seq) == nil {
					return true
				}
				if len(op.Chunks) == journal.MaxHeld {
					tell(op)
					op.Chunks = op.Chunks[:0]
				}
				op.Chunks = append(op.Chunks, journal.HeldChunk{Seq: h.Seq, Index: h.Index, Epoch: h.Epoch,
					Sequence: h.Sequence, Reserved: h.Reserved, Deadline: h.Deadline})
				return true
			})
			if len(op.Chunks) > 0 {
				tell(op)
			}
		})
	}
}
