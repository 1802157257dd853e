package shard

import (
	"context"
	"sync"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
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
	m := s.m
	m.seed(seed)
	ops := make([]*journal.Insert, 0, len(list))
	var fresh []*queue.NewSubmission
	for i := range list {
		if n := &list[i].Submission; m.forwarding.expects(n.Origin) {
			ops, fresh = append(ops, m.draw(n, now)), append(fresh, n)
		}
	}
	s.mu.Unlock()
	if err := s.options.Live.admit(len(ops)); err != nil {
		return err
	}
	defer s.options.Live.release(len(ops))
	if err := p.writeContents(ctx, ops, fresh); err != nil {
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
	for _, op := range ops {
		if m.forwarding.expects(op.Origin) { // no one else delivered it meanwhile
			m.encode(now).Insert(op)
			m.intend(arriving{op.Origin.Source, m.forwarding.arriving[op.Origin.Source]})
			m.forwarding.arriving[op.Origin.Source] = op.Origin.Number
		}
	}
	var waits commits
	waits.add(s.writer.pending())
	s.mu.Unlock()
	return s.writer.wait(waits)
}

// expects says that a dead letter has not arrived yet, and is not about to.
func (p *forwarding) expects(o *queue.Origin) bool {
	return o.Number > p.inbox[o.Source] && o.Number > p.arriving[o.Source]
}

// arriving is a dead letter of another queue whose insert is on its way to the disk.
type arriving struct{ source, before uint64 } // before: the last number of the source that was on its way already

func (a arriving) Applied(m *machine) {
	if m.forwarding.arriving[a.source] <= m.forwarding.inbox[a.source] {
		delete(m.forwarding.arriving, a.source)
	}
}

func (a arriving) Undo(m *machine) {
	if m.forwarding.arriving[a.source] = a.before; a.before == 0 {
		delete(m.forwarding.arriving, a.source)
	}
}

// arrived notes how far the dead letters of an outbox have come.
func (p *forwarding) arrived(o *queue.Origin) {
	if o == nil {
		return
	}
	p.m.stats.arrived++
	if o.Number > p.inbox[o.Source] {
		p.inbox[o.Source] = o.Number
		p.m.asides.changed(asideInbox, o.Source)
	}
}

// deliverAtOnce is how many contents are written at a time: they share commits of the store.
const deliverAtOnce = 16

// writeContents writes the contents of several inserts before they are published.
func (p *Forwarding) writeContents(ctx context.Context, ops []*journal.Insert, list []*queue.NewSubmission) error {
	var group sync.WaitGroup
	var mu sync.Mutex
	var failed error
	turn := make(chan struct{}, deliverAtOnce)
	for i, op := range ops {
		if !op.Inline && !op.Attachment {
			continue
		}
		turn <- struct{}{}
		group.Go(func() {
			defer func() { <-turn }()
			if err := p.s.contents.write(ctx, op.Seq, list[i]); err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return failed
}
