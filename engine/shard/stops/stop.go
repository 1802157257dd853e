package stops

import (
	"maps"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// This file makes a planned restart invisible to consumers: a shard that is closed in order writes its reservations at
// the end of its journal, and the next start restores each with the time that it had left. The epoch that the start
// then writes makes the list invalid: if that life is killed, no one knows its reservations, and the restart grace
// applies.

// Part has the reservations of the last orderly stop, while the shard starts.
type Part struct {
	m       *machine.Machine
	InOrder bool // the life before ended in order, and held is complete
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

// Intended has nothing to count: the part has no intents.
func (p *Part) Intended(func(what string, n int)) {}

// Began forgets the reservations of the life before: the life that began has restored them, or they are lost.
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

// EachHeld gives `tell` the chunks that each consumer holds, in ops that are valid only during the call. No op is on
// its way to the disk any more: chunks of committed ops are not held, and the others are held as before.
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
