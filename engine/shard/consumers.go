package shard

import (
	"context"
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// HeldAfter is where a page of a consumer's reservations begins: behind the last one of the page before. The zero value is the
// beginning.
type HeldAfter = reserver.Place

func unknownConsumer(name string) error {
	return &queue.Error{Code: queue.CodeUnknownConsumer, Message: fmt.Sprintf("There is no consumer %q: it is not "+
		"attached, and it neither holds nor waits for anything.", clip(name, queue.MaxConsumerBytes))}
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
	err = s.Inspect.slices(ctx, func(from int) (next int, n looks) {
		now := s.now()
		for ; from < len(names); from++ {
			if n >= lookMost {
				return from, n
			}
			if c, looked := s.m.describe(names[from], now); known(&c) { // else it left a moment ago
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
	err = s.Inspect.slices(ctx, func(from int) (next int, n looks) {
		return s.m.holds.Consumers(from, lookMost, func(h reserver.Holding) { add(h.Name) }), lookMost
	})
	if err != nil {
		return nil, err
	}
	return names, s.Inspect.slices(ctx, func(from int) (next int, n looks) {
		list := s.roster.list
		end := min(from+lookMost, len(list))
		for _, c := range list[min(from, end):end] {
			add(c.name)
		}
		if end == len(list) {
			return 0, lookMost
		}
		return end, lookMost
	})
}

// Get tells about one consumer, and lists what it holds, the oldest reservation first, at most limit of them from a place
// on. last is the place of the last one; more says that there are others behind it.
func (p *Consumers) Get(name string, after HeldAfter, limit int) (c queue.Consumer, held []queue.HeldChunk,
	last HeldAfter, more bool, err error) {
	s := p.s
	now := s.now()
	err = s.Inspect.look(func() (looks, error) {
		if !p.knows(name) {
			return 0, unknownConsumer(name)
		}
		var n looks
		c, n = s.m.describe(name, now)
		last = after
		s.m.holds.HeldBy(name, after, func(at reserver.Place, h *reserver.Hold) bool {
			r := s.m.liveSeq(h.Seq)
			if r == nil {
				return true // its submission ended
			}
			if more = len(held) == limit; more {
				return false
			}
			held = append(held, heldChunk(s.m, r, h, now))
			last = at
			return true
		})
		return n + looks(len(held)), nil
	})
	return c, held, last, more, err
}

// describe gathers what is known of a consumer, and says what it cost.
func (m *machine) describe(name string, now queue.Time) (c queue.Consumer, n looks) {
	c.Name = name
	if in := m.roster.byName[name]; in != nil {
		c.Attached, c.Since, c.Away, c.Seen, c.Order = len(in.streams) > 0, in.since, in.away, in.seen, in.order
	}
	if h, holds := m.holds.Holding(name); holds {
		c.Reserved, c.Oldest, c.Seen = uint64(h.Held), h.Oldest, max(c.Seen, h.Seen)
		m.holds.HeldBy(name, reserver.Place{}, func(_ reserver.Place, h *reserver.Hold) bool {
			if !overdue(m, h, now) || c.Overdue == queue.MaxOverdue {
				return false
			}
			c.Overdue++
			n++
			return true
		})
	}
	if c.Away != 0 {
		c.LostAt = max(c.Away, c.Seen).Add(m.settings.ConsumerGrace)
	}
	return c, n
}

// known says that there is something to know of a consumer.
func known(c *queue.Consumer) bool {
	return c.Attached || c.Away != 0 || c.Order != queue.NoOrder || c.Reserved > 0
}
