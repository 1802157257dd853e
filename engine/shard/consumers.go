package shard

import (
	"context"
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// HeldAfter is where a page of a consumer's reservations begins: behind the last one of the page before. The zero value is the
// beginning.
type HeldAfter = reserver.Place

func unknownConsumer(name string) error {
	return &queue.Error{Code: queue.CodeUnknownConsumer, Message: fmt.Sprintf("There is no consumer %q: it is not "+
		"attached, and it neither holds nor waits for anything.", machine.Clip(name, queue.MaxConsumerBytes))}
}

// Consumers are those that hold chunks or are attached.
type Consumers struct{ s *Shard }

// List lists consumers by name, at most limit, from the first whose name is not before `from`: those that are attached or
// were a moment ago, hold something or have an order. next is where to go on, "" when there are no more.
func (p *Consumers) List(ctx context.Context, from string, limit int) (list []queue.Consumer, next string, err error) {
	s := p.s
	names, err := p.names(ctx, from)
	if err != nil {
		return nil, "", err
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > limit {
		names, next = names[:limit], names[limit-1]+"\x00" // the least text that is greater
	}
	err = s.Inspect.Slices(ctx, func(m *machine.Machine, from int) (next int, n machine.Looks) {
		now := s.now()
		for ; from < len(names); from++ {
			if n >= machine.LookMost {
				return from, n
			}
			if c, looked := m.Holders.Describe(names[from], now); known(&c) { // else it left a moment ago
				list = append(list, c)
				n += looked
			}
			n++
		}
		return 0, n
	})
	return list, next, err
}

// names are the names that are not before the given one, some twice, in no order.
func (p *Consumers) names(ctx context.Context, from string) (names []string, err error) {
	s := p.s
	add := func(name string) {
		if name >= from {
			names = append(names, name)
		}
	}
	err = s.Inspect.Slices(ctx, func(m *machine.Machine, from int) (next int, n machine.Looks) {
		return m.Holds.Consumers(from, machine.LookMost, func(h reserver.Holding) { add(h.Name) }), machine.LookMost
	})
	if err != nil {
		return nil, err
	}
	return names, s.Inspect.Slices(ctx, func(m *machine.Machine, from int) (next int, n machine.Looks) {
		list := s.roster.List
		end := min(from+machine.LookMost, len(list))
		for _, c := range list[min(from, end):end] {
			add(c.Name)
		}
		if end == len(list) {
			return 0, machine.LookMost
		}
		return end, machine.LookMost
	})
}

// Get tells about one consumer, and lists what it holds, the oldest reservation first, at most limit of them, and as many as
// an answer has room for, from a place on. last is the place of the last one; more says that there are others behind it.
func (p *Consumers) Get(name string, after HeldAfter, limit int) (c queue.Consumer, held []queue.HeldChunk,
	last HeldAfter, more bool, err error) {
	s := p.s
	now := s.now()
	err = s.Inspect.Look(func(m *machine.Machine) (machine.Looks, error) {
		if !p.knows(name) {
			return 0, unknownConsumer(name)
		}
		var n machine.Looks
		c, n = m.Holders.Describe(name, now)
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
	return c, held, last, more, err
}

// known says that there is something to know of a consumer.
func known(c *queue.Consumer) bool {
	return c.Attached || c.Away != 0 || c.Order != queue.NoOrder || c.Reserved > 0
}
