// Package consumers is the part of a shard with its consumers: which are attached or away, operators'
// orders to them, and the chunks that each holds. Its state is a roster, which the machine has too.
package consumers

import (
	"context"
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/consumers/roster"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

//	name ─► roster: streams, order, seen        news for it, and since when it is away
//	     └► Holds:  its reservations            in the machine, gone with a reload that does not find them
//
// Consumers are those that hold chunks or are attached. They outlive a reload.
type Consumers struct {
	*shell.Questions
	waiting Waiting
	ordered func() // called when orders may have changed, with the mutex held

	// The shard's mutex guards the rest.
	roster *roster.Roster
	closed bool
}

// Waiting are the reserve calls that wait for work. The mutex is held.
type Waiting interface {
	Waits(consumer string) bool // whether a call of this consumer does
	Recall(consumer string)     // has the calls of a consumer ask again
}

// New are the consumers of a shard. ordered is called when orders may have changed, with the mutex held.
func New(q *shell.Questions, r *roster.Roster, waiting Waiting, ordered func()) *Consumers {
	return &Consumers{Questions: q, roster: r, waiting: waiting, ordered: ordered}
}

// Close ends all streams, each when it next reads its notices. The mutex is held.
func (c *Consumers) Close() { c.closed = true }

// Stir lets all streams read their notices. The mutex is held.
func (c *Consumers) Stir() {
	for _, of := range c.roster.List {
		for _, a := range of.Streams {
			a.Stir()
		}
	}
}

// Tidy forgets orders for consumers that are long gone. An order for a name that never comes back
// would stay for ever, so it ends an hour after the last call under this name.
func (c *Consumers) Tidy() {
	now := c.Now()
	c.Look(func(m *machine.Machine) {
		if c.closed {
			return
		}
		c.roster.SweepOrders(now, func(name string) queue.Time {
			h, _ := m.Holds.Holding(name)
			return h.Seen
		})
		c.ordered()
	})
}

func unknown(name string) error {
	return &queue.Error{Code: queue.CodeUnknownConsumer, Message: fmt.Sprintf("There is no consumer %q: it is not "+
		"attached, and it neither holds nor waits for anything.", machine.Clip(name, queue.MaxConsumerBytes))}
}

// knows says whether there is a consumer of this name. The mutex is held.
func (c *Consumers) knows(m *machine.Machine, name string) bool {
	_, holds := m.Holds.Holding(name)
	return holds || c.roster.ByName[name] != nil || c.waiting.Waits(name)
}

// Attends says whether a consumer is attached, or was a moment ago and is waited for.
func (c *Consumers) Attends(name string) (attends bool) {
	c.Look(func(*machine.Machine) {
		of := c.roster.ByName[name]
		attends = of != nil && (len(of.Streams) > 0 || of.Away != 0)
	})
	return attends
}

// List lists consumers by name, at most limit, from the first whose name is not before
// `from`: those that are attached or were a moment ago, hold something or have an order.
// next is where to go on, "" when there are no more.
// Names are collected first and sorted without the lock; then each is described, and left out if it left in
// between.
func (c *Consumers) List(ctx context.Context, from string, limit int) (list []queue.Consumer, next string, err error) {
	names, err := c.names(ctx, from)
	if err != nil {
		return nil, "", err
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > limit {
		names, next = names[:limit], names[limit-1]+"\x00" // the least text that is greater
	}
	err = c.Slices(ctx, func(m *machine.Machine, from int) (next int, n machine.Looks) {
		now := c.Now()
		for ; from < len(names); from++ {
			if n >= machine.LookMost {
				return from, n
			}
			if one, looked := c.describe(m, names[from], now); known(&one) { // else it left a moment ago
				list = append(list, one)
				n += looked
			}
			n++
		}
		return 0, n
	})
	return list, next, err
}

// names are the names that are not before the given one, some twice, in no order.
func (c *Consumers) names(ctx context.Context, from string) (names []string, err error) {
	add := func(name string) {
		if name >= from {
			names = append(names, name)
		}
	}
	err = c.Slices(ctx, func(m *machine.Machine, from int) (next int, n machine.Looks) {
		return m.Holds.Consumers(from, machine.LookMost, func(h reserver.Holding) { add(h.Name) }), machine.LookMost
	})
	if err != nil {
		return nil, err
	}
	return names, c.Slices(ctx, func(_ *machine.Machine, from int) (next int, n machine.Looks) {
		list := c.roster.List
		end := min(from+machine.LookMost, len(list))
		for _, of := range list[min(from, end):end] {
			add(of.Name)
		}
		if end == len(list) {
			return 0, machine.LookMost
		}
		return end, machine.LookMost
	})
}

// Get tells about one consumer, and lists its reservations behind a place, the oldest first, at most limit, and as many
// as an answer has room for; the zero place is the beginning. last is the place of the last one listed; more says that
// others follow.
func (c *Consumers) Get(name string, after reserver.Place, limit int) (info queue.Consumer, held []queue.HeldChunk,
	last reserver.Place, more bool, err error) {
	now := c.Now()
	err = c.Ask(func(m *machine.Machine) (machine.Looks, error) {
		if !c.knows(m, name) {
			return 0, unknown(name)
		}
		var n machine.Looks
		info, n = c.describe(m, name, now)
		last = after
		bytes := 0
		m.Holds.HeldBy(name, after, func(at reserver.Place, h *reserver.Hold) bool {
			r := m.LiveSeq(h.Seq)
			if r == nil {
				return true // its submission ended
			}
			if more = len(held) == limit || bytes >= queue.MaxAnswerBytes; more {
				return false
			}
			held = append(held, machine.HeldChunk(m, r, h, now))
			bytes += held[len(held)-1].Bytes()
			last = at
			return true
		})
		return n + machine.Looks(len(held)), nil
	})
	return info, held, last, more, err
}

// known says that a consumer is attached, away, or has an order or reservations.
func known(c *queue.Consumer) bool {
	return c.Attached || c.Away != 0 || c.Order != queue.NoOrder || c.Reserved > 0
}

// Order gives a consumer an operator's order; NoOrder takes back the earlier one. An unknown consumer is an error. The
// order itself is only in memory; the act in the audit log is durable before it counts.
func (c *Consumers) Order(name string, order queue.ConsumerOrder, acts ...queue.Act) (info queue.Consumer, err error) {
	now := queue.Time(0)
	err = shell.Change(c, func(m *machine.Machine, at queue.Time) error {
		if now = at; !c.knows(m, name) {
			return unknown(name)
		}
		if len(acts) > 0 {
			m.ActLog.Tell(at, acts, nil, nil)
		}
		return nil
	})
	if err != nil {
		return queue.Consumer{}, err
	}
	c.Look(func(m *machine.Machine) {
		of := c.roster.Enter(name)
		of.Seen = max(of.Seen, now)
		c.roster.SetOrder(of, order)
		c.ordered()
		if order != queue.NoOrder {
			c.waiting.Recall(name)
		}
		info, _ = c.describe(m, name, now)
	})
	return info, nil
}

// Release takes a consumer's reservations from it, with no try counted, and notifies the consumer if it is attached.
// The consumer may reserve others. released is how many chunks that were.
func (c *Consumers) Release(name string) (released int, err error) {
	return c.giveBack(name, func(m *machine.Machine, id queue.SubmissionID, slot uint32) {
		m.Revoked(id, slot, queue.RevokedOperator)
	})
}

// giveBack offers the chunks of a consumer again, slice by slice, and calls tell before each. It leaves reservations
// alone that are finishing or expiring: a completion may be on its way to the disk, and would count.
func (c *Consumers) giveBack(name string, tell func(m *machine.Machine, id queue.SubmissionID,
	slot uint32)) (released int, err error) {
	var slots []uint32
	for more := true; more && err == nil; {
		err = c.Locked(func(m *machine.Machine, now queue.Time) error {
			slots, _ = heldNow(m, name, reserver.Place{}, slots[:0], shell.SliceItems)
			for _, slot := range slots {
				r := m.LiveSeq(m.Holds.At(slot).Seq)
				tell(m, r.ID, slot)
				m.Unhold(r, slot)
				m.Stats.Released++
			}
			released += len(slots)
			more = len(slots) == shell.SliceItems
			c.Wake(now)
			return nil
		})
	}
	return released, err
}

// Lose ends the reservations of consumers that are away for longer than the queue's grace. It looks at no more than
// `most` consumers, counts about as many tries, and says whether more is due now. A consumer that made a call about its
// reservations meanwhile gets the grace again. The mutex is held. The list is in the order in which consumers went
// away, so the first one that is not due ends the look.
func (c *Consumers) Lose(m *machine.Machine, now queue.Time, most int) (more bool) {
	r, grace := c.roster, m.Settings.ConsumerGrace
	stay, i := 0, 0 // away[:stay] are looked at and stay, and so do those from i on
	var heard []roster.Absence
	for ; i < len(r.Away) && r.Away[i].At.Add(grace) <= now && most > 0; i++ {
		most--
		x := r.Away[i]
		if x.Of.Away == 0 || x.Of.Breaks != x.Breaks {
			continue // it came back, or left
		}
		held, holds := m.Holds.Holding(x.Of.Name)
		switch seen := max(x.Of.Seen, held.Seen); {
		case seen > x.At:
			x.At = seen
			heard = append(heard, x)
		case !holds:
			r.Forget(x.Of)
			c.ordered()
		default: // it stays until all it holds is gone: a commit may fail
			most -= lose(m, x.Of, max(most, 1), now)
			r.Away[stay] = x
			stay++
		}
	}
	r.Away = slices.Delete(r.Away, stay, i)
	for _, x := range heard {
		r.Await(x)
		more = more || x.At.Add(grace) <= now
	}
	return more || most <= 0
}
