package stops

import (
	"maps"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// This file is what makes a planned restart invisible to consumers: a shard that is closed in order
// writes what is held at the end of its journal, and the next start takes it up again, each
// reservation with the time that was left to it. The epoch that the start then writes ends it: should
// that life be killed, what it handed out is known to no one, and the restart grace is there for it.

// Part has the reservations of the last orderly stop, while the shard starts.
type Part struct {
	m       *machine.Machine
	InOrder bool // the life before ended so, and held is all of it
	at      queue.Time
	held    []*journal.Held
}

// New is the part of a machine that starts.
func New(m *machine.Machine) *Part { return &Part{m: m} }

// Apply notes the chunks that a consumer held, or the end of the list.
func (p *Part) Apply(op journal.PartOp) (mine bool, err error) {
	held, mine := op.(*journal.Held)
	switch {
	case !mine:
	case len(held.Chunks) == 0:
		p.InOrder = true
	default:
		p.at, p.held = p.m.Now, append(p.held, held)
	}
	return mine, nil
}

// Intended: it intends nothing.
func (p *Part) Intended(func(what string, n int)) {}

// Began forgets what the life before has left: what it held is held by the one that began, or lost.
func (p *Part) Began() { *p = Part{m: p.m} }

// Resume restores the reservations of the last stop. The shard calls it after the replay, before it
// hands out anything.
func (p *Part) Resume(now queue.Time) {
	m := p.m
	missed := map[string]string{}
	for _, op := range p.held {
		for i := range op.Chunks {
			c := &op.Chunks[i]
			r := m.LiveSeq(c.Seq)
			if r == nil || c.Index >= r.Chunks {
				continue
			}
			machine.Retake(m, r, reserver.Hold{
				Sequence: c.Sequence, Epoch: c.Epoch, Seq: c.Seq, Index: c.Index, Attempt: r.Attempt(c.Index),
				Counted:  true,
				Reserved: c.Reserved, Deadline: now.Add(c.Deadline.Sub(p.at)),
			}, op.Consumer, op.Seen)
		}
		if op.Attached {
			missed[op.Consumer] = op.Incarnation
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missed)) {
		m.Roster.Miss(name, now)
		m.Roster.Enter(name).Incarnation = missed[name]
	}
}

// EachHeld tells what each consumer holds, in ops that are good during the call only. What
// was on its way to the disk is not any more: what of it came through holds nothing, and
// the rest is held as before.
func (p *Part) EachHeld(tell func(*journal.Held)) {
	m := p.m
	for from, more := 0, true; more; more = from != 0 {
		from = m.Holds.Consumers(from, machine.LookMost, func(of reserver.Holding) {
			op := &journal.Held{Consumer: of.Name, Seen: of.Seen}
			op.Incarnation, op.Attached = m.Roster.KeepsStream(of.Name)
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
