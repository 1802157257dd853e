package simtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/consumers"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// errorLost is the history's error of a try whose consumer was lost.
const (
	errorLost      = "the consumer was lost: its connection ended and did not come back"
	errorSucceeded = "the consumer was lost: another process attached under its name"
)

func lostBy(text string) bool { return text == errorLost || text == errorSucceeded }

// modelRoster has the consumers that are attached or away, and the orders of operators for them.
type modelRoster struct {
	byName map[string]*modelConsumer
	away   []*modelAbsence
	ended  map[string]string     // whose last stream the server ended, with the incarnation of its process
	heard  map[string]queue.Time // of consumers that hold something: their last sign of life
	made   int
}

type modelConsumer struct {
	streams []*consumers.Attached
	away    *modelAbsence // nil: it is not
	heard   queue.Time
	order   queue.ConsumerOrder

	incarnation string   // of the process that attached last and said it
	succeeded   []string // those before it
}

type modelAbsence struct {
	name string
	at   queue.Time
}

// was is the process whose stream was a consumer's last, and whether there was one.
func (r *modelRoster) was(name string) (incarnation string, is bool) {
	if c := r.byName[name]; c != nil && (len(c.streams) > 0 || c.away != nil) {
		return c.incarnation, true
	}
	incarnation, is = r.ended[name]
	return incarnation, is
}

func (r *modelRoster) next() int { r.made++; return r.made }

func (r *modelRoster) of(name string) *modelConsumer {
	if r.byName == nil {
		r.byName = map[string]*modelConsumer{}
	}
	if r.byName[name] == nil {
		r.byName[name] = &modelConsumer{}
	}
	return r.byName[name]
}

func (r *modelRoster) hear(name string, now queue.Time) {
	if r.heard == nil {
		r.heard = map[string]queue.Time{}
	}
	r.heard[name] = now
}

// anyAttached is the first of the attached ones by name; nil: none is.
func (r *modelRoster) anyAttached() (string, *modelConsumer) {
	for _, name := range slices.Sorted(maps.Keys(r.byName)) {
		if c := r.byName[name]; len(c.streams) > 0 {
			return name, c
		}
	}
	return "", nil
}

func (r *modelRoster) attached() (n uint64) {
	for _, c := range r.byName {
		if len(c.streams) > 0 {
			n++
		}
	}
	return n
}

// await adds an absence, behind those that began earlier or at the same moment.
func (r *modelRoster) await(x *modelAbsence) {
	r.away = append(r.away, x)
	slices.SortStableFunc(r.away, func(a, b *modelAbsence) int { return cmp.Compare(a.at, b.at) })
}

// heldBy are the reservations of a consumer, the oldest first.
func (m *model) heldBy(name string) (held []*modelChunk, of map[*modelChunk]queue.ChunkID) {
	of = map[*modelChunk]queue.ChunkID{}
	for _, x := range m.subs {
		for i, c := range x.chunks {
			if x.state == queue.Open && c.state == queue.ChunkReserved && c.hold.consumer == name {
				held = append(held, c)
				of[c] = queue.ChunkID{Submission: x.id, Index: uint32(i)}
			}
		}
	}
	slices.SortFunc(held, func(a, b *modelChunk) int { return cmp.Compare(a.hold.made, b.hold.made) })
	return held, of
}

// hush forgets the signs of life of consumers without reservations.
func (m *model) hush() {
	maps.DeleteFunc(m.roster.heard, func(name string, _ queue.Time) bool {
		held, _ := m.heldBy(name)
		return len(held) == 0
	})
}

func (s *sim) drawConsumer() string { return fmt.Sprint("consumer-", s.r.IntN(4)) }

// heardOf notes that the holder of an item's chunk called.
func (s *sim) heardOf(it *item) {
	if it.standing == holds {
		s.m.roster.hear(it.c.hold.consumer, s.now)
	}
}

// obeys checks a reserve against an operator's orders for its consumer; true: there are none, and the answer has to be checked.
func (s *sim) obeys(q *machine.Request, got *machine.Reserved) bool {
	reason := queue.NotEmpty
	if c := s.m.roster.byName[q.Consumer]; c != nil {
		reason = map[queue.ConsumerOrder]queue.EmptyReason{queue.Quiet: queue.ConsumerQuiet, queue.Drain: queue.ConsumerDraining}[c.order]
	}
	if reason == queue.NotEmpty {
		return true
	}
	if len(got.Reservations) > 0 || got.Reason != reason {
		s.fail("%s, which is told %s, gets %d chunks and the reason %s", q.Consumer, reason, len(got.Reservations), got.Reason)
	}
	s.tally.add("reserve refused to a quiet or draining consumer", 1)
	return false
}

// absent returns the consumers that are lost by now, in the order in which the worker finds them, and forgets those that hold
// nothing. A consumer that was heard of since is in later: the worker looks at it again behind everything else that is due, and a
// submission may have ended by then.
func (s *sim) absent() (lost, later []string) {
	again := map[string]bool{}
	for _, name := range s.absentNow(again) {
		if again[name] {
			later = append(later, name)
		} else {
			lost = append(lost, name)
		}
	}
	return lost, later
}

func (s *sim) absentNow(heardOf map[string]bool) (lost []string) {
	r := &s.m.roster
	s.m.hush()
	for again := true; again; {
		again = false
		for _, x := range slices.Clone(r.away) {
			if x.at.Add(s.settings.ConsumerGrace) > s.now || again {
				break
			}
			c := r.byName[x.name]
			drop := func() { r.away = slices.DeleteFunc(r.away, func(y *modelAbsence) bool { return y == x }) }
			if c == nil {
				drop() // it left
				continue
			}
			heard := max(c.heard, r.heard[x.name])
			held, _ := s.m.heldBy(x.name)
			switch {
			case c.away != x:
				drop()
			case heard > x.at:
				drop()
				x.at = heard
				r.await(x)
				again, lost, heardOf[x.name] = true, nil, true
			case len(held) == 0:
				drop()
				delete(r.byName, x.name)
			default:
				lost = append(lost, x.name)
			}
		}
	}
	return lost
}

// leave forgets a lost consumer that holds nothing any more: the tick that ended its reservations looks once more.
func (m *model) leave(name string) {
	if held, _ := m.heldBy(name); len(held) > 0 {
		return
	}
	x := m.roster.of(name).away
	m.roster.away = slices.DeleteFunc(m.roster.away, func(y *modelAbsence) bool { return y == x })
	delete(m.roster.byName, name)
}

func (s *sim) loseAll(names []string) {
	for _, name := range names {
		s.lose(name, errorLost)
		s.m.leave(name)
	}
}

// lose ends the reservations of a consumer.
func (s *sim) lose(name, why string) {
	held, of := s.m.heldBy(name)
	s.log.add("%s, which holds %d chunks: %s", name, len(held), why)
	for _, c := range held {
		x := s.m.sub(of[c].Submission)
		if x.state != queue.Open {
			continue // something before it ended the submission
		}
		last := c.attempts+1 >= s.m.maxAttempts(x)
		s.m.totals.lost++
		s.tally.add("consumer lost", 1)
		c.try(c.hold.token, false, why, s.now)
		if last {
			s.m.totals.failed++
			s.tally.add("consumer lost in the last try", 1)
			s.m.kill(x, c, why, s.now)
		} else if why == errorSucceeded && c.attempts == 1 {
			s.putBack(x, c, 0)
		} else {
			s.putBack(x, c, s.backedOff(x, of[c].Index, s.settings.ExpiryBackoff, int(c.attempts)))
		}
	}
}

// consumers has one come, crash, leave, or an operator do something with it.
func (s *sim) consumers() {
	name := s.drawConsumer()
	c := s.m.roster.byName[name]
	switch n := s.r.IntN(12); {
	case n < 4:
		if other, there := s.m.roster.anyAttached(); there != nil && s.chance(50) {
			name, c = other, there
		}
		incarnation := pickOf(s, "", "first", "second")
		if c != nil && len(c.succeeded) > 0 && s.chance(80) { // rare by itself: the name came under both processes before
			incarnation = c.succeeded[0]
		}
		s.log.add("%s attaches, its process is %q", name, incarnation)
		s.tally.add("consumer attached", 1)
		a, err := s.shard.Consumers.Attach(name, incarnation)
		failed, written := s.commitFailed("attach", err)
		before, was := s.m.roster.was(name)
		returns := c != nil && slices.Contains(c.succeeded, incarnation)
		s.takeEffect([]func(){func() {
			if was && incarnation != "" && before != incarnation && !returns {
				s.tally.add("consumer succeeded by another process", 1)
				s.lose(name, errorSucceeded)
			}
		}}, failed, written)
		if failed {
			return
		}
		c = s.m.roster.of(name)
		if returns {
			s.tally.add("consumer whose process was succeeded attached again", 1)
		} else {
			if before = cmp.Or(c.incarnation, before); before != "" && incarnation != "" && before != incarnation {
				c.succeeded = append(c.succeeded, before)
			}
			c.incarnation = cmp.Or(incarnation, before)
		}
		delete(s.m.roster.ended, name)
		c.streams, c.away, c.heard = append(c.streams, a), nil, max(c.heard, s.now)
		s.checkNotice(name, c, a.Next())
	case n < 8:
		if c == nil || len(c.streams) == 0 {
			if name, c = s.m.roster.anyAttached(); c == nil {
				return
			}
		}
		missed := s.chance(90)
		s.log.add("a stream of %s ends, missed=%v", name, missed)
		c.streams[0].Close(missed)
		c.streams[0].Close(missed) // once is enough
		if c.streams = c.streams[1:]; len(c.streams) > 0 {
			return
		}
		if missed {
			c.away = &modelAbsence{name, s.now}
			s.tally.add("consumer away", 1)
			s.m.roster.await(c.away)
			return
		}
		if s.m.roster.ended == nil {
			s.m.roster.ended = map[string]string{}
		}
		s.m.roster.ended[name] = c.incarnation
		if c.order == queue.NoOrder {
			delete(s.m.roster.byName, name)
		}
	case n < 9:
		s.log.add("%s detaches", name)
		n, err := s.shard.Consumers.Detach(name)
		s.must("detach", err)
		delete(s.m.roster.byName, name)
		s.tally.add("consumer detached", n)
		s.gaveBack(name, n)
	case n < 10:
		s.log.add("what %s holds is taken", name)
		n, err := s.shard.Consumers.Release(name)
		s.must("release consumer", err)
		s.tally.add("consumer released", n)
		s.gaveBack(name, n)
	case n < 11:
		s.order(name)
	default:
		s.checkConsumers()
	}
}

func (s *sim) checkNotice(name string, c *modelConsumer, n consumers.Notice) {
	held, _ := s.m.heldBy(name)
	if !n.Hello || n.Epoch != s.epoch || n.Held != len(held) || n.Grace != s.settings.ConsumerGrace || n.Over || n.Ordered != (c.order != queue.NoOrder) || n.Order != c.order {
		s.fail("the first notice of %s: got %+v, want a hello of epoch %d with %d held, and the order %q", name, n, s.epoch, len(held), c.order)
	}
}

// gaveBack offers the chunks again that a consumer held.
func (s *sim) gaveBack(name string, n int) {
	held, _ := s.m.heldBy(name)
	if n != len(held) {
		s.fail("%s gave back %d chunks, it held %d", name, n, len(held))
	}
	for _, c := range held {
		c.state, c.hold = queue.ChunkReady, modelHold{}
		s.m.totals.released++
	}
}

func (s *sim) order(name string) {
	order := pickOf(s, queue.NoOrder, queue.NoOrder, queue.Quiet, queue.Drain)
	s.log.add("%s is told %q", name, order)
	_, err := s.shard.Consumers.Order(name, order)
	held, _ := s.m.heldBy(name)
	if c := s.m.roster.byName[name]; c == nil && len(held) == 0 {
		if queue.CodeOf(err) != queue.CodeUnknownConsumer {
			s.fail("an order for %s, of whom nothing is known: got %v", name, err)
		}
		return
	}
	s.must("order", err)
	c := s.m.roster.of(name)
	c.order, c.heard = order, max(c.heard, s.now)
	s.tally.add("consumer told", 1)
	if order == queue.NoOrder && len(c.streams) == 0 && c.away == nil {
		delete(s.m.roster.byName, name)
	}
}

// checkConsumers compares the list of consumers, and the reservations of each, page by page.
func (s *sim) checkConsumers() {
	var got []queue.Consumer
	for from, more := "", true; more; more = from != "" {
		page, next, err := s.shard.Consumers.List(ctx, from, 1+s.r.IntN(3))
		s.must("consumers", err)
		got, from = append(got, page...), next
	}
	var want []queue.Consumer
	for _, name := range []string{"", "consumer-0", "consumer-1", "consumer-2", "consumer-3"} {
		held, of := s.m.heldBy(name)
		c := s.m.roster.byName[name]
		if c == nil && len(held) == 0 {
			continue
		}
		w := queue.Consumer{Name: name, Reserved: uint64(len(held))}
		if c != nil {
			w.Attached, w.Order = len(c.streams) > 0, c.order
		}
		if len(held) > 0 {
			w.Oldest = held[0].hold.reserved
		}
		want = append(want, w)
		s.checkHeld(name, held, of)
	}
	for i := range got {
		got[i] = queue.Consumer{Name: got[i].Name, Attached: got[i].Attached, Order: got[i].Order, Reserved: got[i].Reserved, Oldest: got[i].Oldest}
	}
	if !slices.Equal(got, want) {
		s.fail("consumers: got %+v, want %+v", got, want)
	}
}

func (s *sim) checkHeld(name string, held []*modelChunk, of map[*modelChunk]queue.ChunkID) {
	var got []queue.HeldChunk
	var after reserver.Place
	for more := true; more; {
		_, page, last, left, err := s.shard.Consumers.Get(name, after, 1+s.r.IntN(4))
		s.must("consumer", err)
		got = append(got, page...)
		after, more = last, left
	}
	if len(got) != len(held) {
		s.fail("%s holds %d chunks, want %d", name, len(got), len(held))
	}
	for i, c := range held {
		if got[i].Chunk != of[c] || got[i].Deadline != c.hold.deadline || got[i].Reserved != c.hold.reserved || got[i].Attempt != c.attempts+1 {
			s.fail("chunk %d of %s: got %+v, want %s until %d, since %d", i, name, got[i], of[c], c.hold.deadline, c.hold.reserved)
		}
	}
}
