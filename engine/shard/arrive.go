package shard

import (
	"context"
	"sync"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
)

// Deliver makes submissions of dead letters that another queue forwards, and leaves out those that have arrived before. They come
// from one outbox, by ascending number, at most journal.MaxRedrive. It returns after the commit.
func (p *Forwarding) Deliver(ctx context.Context, list []queue.Delivery) error {
	s := p.s
	if s.full.Load() {
		return commitError(journal.ErrFull)
	}
	now, seed := s.now(), s.options.Seed()
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return err
	}
	m, letters := s.m, s.parts.letters
	m.Seed(seed)
	arrivals := make([]arrival, 0, len(list))
	for i := range list {
		if n := &list[i].Submission; letters.Expects(n.Origin) {
			arrivals = append(arrivals, arrival{NewSubmission: n, op: m.Draw(n, now)})
		}
	}
	s.mu.Unlock()
	if err := s.options.Live.admit(len(arrivals)); err != nil {
		return err
	}
	defer s.options.Live.release(len(arrivals))
	if err := p.writeContents(ctx, arrivals); err != nil {
		return err
	}
	now = s.now()
	s.mu.Lock()
	err := s.usable()
	if err == nil && s.m != m {
		err = commitError(journal.ErrUnknown)
	}
	if err != nil {
		s.mu.Unlock()
		return err
	}
	for i := range arrivals {
		if op := arrivals[i].op; letters.Expects(op.Origin) { // no one else delivered it meanwhile
			m.Insert(op, arrivals[i].carried, now)
			letters.Arrives(op.Origin)
		}
	}
	var waits commit.Set
	waits.Add(s.writer.pending())
	s.mu.Unlock()
	return s.writer.wait(waits)
}

// arrival is a dead letter that is being delivered.
type arrival struct {
	*queue.NewSubmission
	op      *journal.Insert
	carried *journal.Contents // what its insert brings; nil: nothing, or it is in the store already
}

// deliverAtOnce is how many contents are written at a time: they share commits of the store.
const deliverAtOnce = 16

// writeContents packs the contents of several inserts for their batch, and writes those that do not go into it before they are published.
func (p *Forwarding) writeContents(ctx context.Context, arrivals []arrival) error {
	var group sync.WaitGroup
	var mu sync.Mutex
	var failed error
	turn := make(chan struct{}, deliverAtOnce)
	for i := range arrivals {
		a := &arrivals[i]
		var beside bool
		if a.carried, beside = p.s.contents.pack(a.NewSubmission, len(arrivals)); !beside {
			continue
		}
		turn <- struct{}{}
		group.Go(func() {
			defer func() { <-turn }()
			if err := p.s.contents.write(ctx, a.op.Seq, a.NewSubmission); err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return failed
}
