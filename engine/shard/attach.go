package shard

import (
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/consumers"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Attached is one stream of an attached consumer. Its server waits for Wake, calls Next, and ends with Close. A consumer
// may have several, as when it comes back before the server notices that it was gone.
type Attached struct {
	shard *Shard
	wake  chan struct{}

	// The shard's mutex guards the rest.
	greeted bool // Hello was given
	stream  consumers.Stream
}

// Notice is what is new for an attached consumer.
type Notice struct {
	Hello   bool // Epoch, Grace and Held are to be told: at the beginning
	Epoch   uint32
	Grace   time.Duration
	Held    int  // reservations of the consumer that the server knows
	Ordered bool // Order is to be told
	Order   queue.ConsumerOrder
	Revoked []queue.Revoked
	Over    bool // nothing more comes: the consumer left or was lost, the stream fell behind, or the queue closes
}

// maxAttached bounds the streams of a queue.
const maxAttached = 20_000

// Attach makes a consumer known: when its last stream ends other than by Detach, what it holds is lost after the queue's consumer
// grace. It fails while the shard is closed or cannot work, and beyond maxAttached streams.
func (p *Consumers) Attach(name string) (*Attached, error) {
	s := p.s
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return nil, err
	}
	if s.roster.Attached >= maxAttached {
		return nil, &queue.Error{Code: queue.CodeOverloaded, Message: "So many consumers are attached to the queue " +
			"that it takes no more. Work goes on without: only deadlines count then."}
	}
	a := &Attached{shard: s, wake: make(chan struct{}, 1)}
	a.stream.Stir = a.stir
	s.roster.Join(name, &a.stream, now)
	a.stream.Ordered = a.stream.Of.Order != queue.NoOrder
	a.stir()
	return a, nil
}

// Wake receives when there may be something new.
func (a *Attached) Wake() <-chan struct{} { return a.wake }

// Next takes what is new.
func (a *Attached) Next() Notice {
	s := a.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	of := a.stream.Of
	n := Notice{Over: a.stream.Over || s.closed, Ordered: a.stream.Ordered, Order: of.Order, Revoked: a.stream.Revokes}
	if n.Over {
		return n
	}
	if !a.greeted {
		held, _ := s.m.Holds.Holding(of.Name)
		n.Hello, n.Epoch, n.Grace, n.Held = true, s.m.Epoch, s.m.Settings.ConsumerGrace, held.Held
		a.greeted = true
	}
	a.stream.Ordered, a.stream.Revokes = false, nil
	return n
}

// Alive notes that the stream works.
func (a *Attached) Alive() {
	now := a.shard.now()
	a.shard.mu.Lock()
	of := a.stream.Of
	of.Seen = max(of.Seen, now)
	a.shard.mu.Unlock()
}

// Close ends the stream. missed says that the consumer is missed from now on, if this was its last stream: false when it is the
// server that ends it.
func (a *Attached) Close(missed bool) {
	s := a.shard
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roster.Part(&a.stream, missed && !s.closed, now)
}

func (a *Attached) stir() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Detach ends a consumer's attachment: it leaves, all its streams end, and what it holds goes back with no try counted. It says
// how many chunks that were. One that is not attached and holds nothing has left already.
func (p *Consumers) Detach(name string) (released int, err error) {
	s := p.s
	s.mu.Lock()
	if c := s.roster.ByName[name]; c != nil {
		s.roster.Forget(c)
		s.noteSpecial()
	}
	s.mu.Unlock()
	return p.giveBack(name, nil)
}

// Release takes a consumer's reservations from it, with no try counted, and tells it so if it is attached. It says how
// many chunks that were. It may get others.
func (p *Consumers) Release(name string) (released int, err error) {
	return p.giveBack(name, func(r *machine.Record, slot uint32) { p.s.m.Holders.Revoked(r.ID, slot, queue.RevokedOperator) })
}

// giveBack offers what a consumer holds again, slice by slice. What is finishing or expiring takes its course. tell is called
// before each goes; nil: no one is told.
func (p *Consumers) giveBack(name string, tell func(r *machine.Record, slot uint32)) (released int, err error) {
	s := p.s
	var slots []uint32
	for more := true; more; {
		now := s.now()
		s.mu.Lock()
		if err := s.usable(); err != nil {
			s.mu.Unlock()
			return released, err
		}
		slots, _ = s.m.Holders.HeldNow(name, reserver.Place{}, slots[:0], sliceItems)
		for _, slot := range slots {
			r := s.m.LiveSeq(s.m.Holds.At(slot).Seq)
			if tell != nil {
				tell(r, slot)
			}
			s.m.Unhold(r, slot)
			s.m.Stats.Released++
		}
		released += len(slots)
		more = len(slots) == sliceItems
		s.waiters.serve(now)
		s.mu.Unlock()
	}
	return released, nil
}

// Order tells a consumer what an operator wants of it: NoOrder takes back what was told before. One of whom nothing is
// known is an error. The order itself is memory; that it was given is durable first.
func (p *Consumers) Order(name string, order queue.ConsumerOrder, acts ...queue.Act) (queue.Consumer, error) {
	s, now := p.s, queue.Time(0)
	err := s.writer.change(func(m *machine.Machine, at queue.Time) (*commit.Commit, error) {
		if now = at; !p.knows(name) {
			return nil, unknownConsumer(name)
		}
		if len(acts) == 0 {
			return nil, nil
		}
		m.ActLog.Tell(at, acts, nil, nil)
		return m.Batch.Commit, nil
	})
	if err != nil {
		return queue.Consumer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.roster.Enter(name)
	c.Seen = max(c.Seen, now)
	s.roster.SetOrder(c, order)
	s.noteSpecial()
	if order != queue.NoOrder {
		p.tellWaiting(func(w *waiter) bool { return w.q.Consumer == name })
	}
	info, _ := s.m.Holders.Describe(name, now)
	return info, nil
}

// knows says whether there is a consumer of this name. The mutex is held.
func (p *Consumers) knows(name string) bool {
	s := p.s
	if _, holds := s.m.Holds.Holding(name); holds || s.roster.ByName[name] != nil {
		return true
	}
	for w := range s.waiters.all {
		if w.q.Consumer == name {
			return true
		}
	}
	return false
}

// tellWaiting has waiters ask again. The mutex is held.
func (p *Consumers) tellWaiting(which func(*waiter) bool) {
	var waiting []*waiter
	for w := range p.s.waiters.all {
		if which(w) {
			waiting = append(waiting, w)
		}
	}
	for _, w := range slices.Backward(waiting) {
		p.s.waiters.unpark(w, nil)
		w.served <- nil
	}
}

// stirAttached has all streams look at what is new. The mutex is held.
func (p *Consumers) stirAttached() {
	for _, c := range p.s.roster.List {
		for _, a := range c.Streams {
			a.Stir()
		}
	}
}

// sweepOrders forgets orders for consumers that are long gone. The mutex is held.
func (p *Consumers) sweepOrders() {
	s := p.s
	s.roster.SweepOrders(s.now(), func(name string) queue.Time {
		h, _ := s.m.Holds.Holding(name)
		return h.Seen
	})
	s.noteSpecial()
}
