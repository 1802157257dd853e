package shard

import (
	"context"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Ends are the ends of submissions, in the order in which they became durable.
type Ends struct {
	s         *Shard
	followers map[chan struct{}]struct{}
}

// tell wakes those that wait for ends. The mutex is held.
func (p *Ends) tell() {
	for wake := range p.followers {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// Follow has wake receive when there may be more ends; leave ends that.
func (p *Ends) Follow() (wake <-chan struct{}, leave func()) {
	s, own := p.s, make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.followers == nil {
		p.followers = map[chan struct{}]struct{}{}
	}
	p.followers[own] = struct{}{}
	return own, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(p.followers, own)
	}
}

// Last is the place behind all ends that are durable now.
func (p *Ends) Last() queue.EndPlace {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return queue.EndPlace{Position: uint64(p.s.parts.ends.Settled), Seq: math.MaxUint32}
}

// EndsPage is some ends, in their order. To is where to go on: all that matches up to there was listed, but for what retention has removed;
// Gone is the last place of such.
type EndsPage struct {
	List     []queue.End
	To, Gone queue.EndPlace
}

// After lists what ended behind a place and matches, about `limit` of it at most. A submission that was opened again, and is open or ended
// again, has its last end only. It fails while the shard is closed or cannot work.
func (p *Ends) After(ctx context.Context, after queue.EndPlace, f machine.Filter, limit int) (page EndsPage, err error) {
	s := p.s
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return page, err
	}
	page.List, page.To = s.parts.ends.After(after, &f, limit, s.options.Queue)
	s.mu.Unlock()
	past, to, err := p.past(ctx, after, journal.Position(page.To.Position), &f, limit)
	if err != nil {
		return page, err
	}
	page.Gone = s.store.History.Gone() // after what was read: what went meanwhile is told
	if to.Compare(page.To) < 0 {
		page.To = to
	}
	page.List = append(page.List, past...)
	slices.SortFunc(page.List, func(a, b queue.End) int { return a.Place.Compare(b.Place) })
	page.List = slices.CompactFunc(page.List, func(a, b queue.End) bool { return a.Place == b.Place })
	page.List = slices.DeleteFunc(page.List, func(e queue.End) bool { return e.Place.Compare(page.To) > 0 })
	return page, nil
}

// pastLook is how many ends of the history one call looks at.
const pastLook = 20_000

// past is what the history has of them.
func (p *Ends) past(ctx context.Context, after queue.EndPlace, upTo journal.Position, f *machine.Filter, limit int) (list []queue.End,
	to queue.EndPlace, err error) {
	s := p.s
	want := wanted(f)
	rows, to, err := s.store.History.Ends(ctx, after, upTo, limit, pastLook, func(e *checkpoint.Ended) (bool, error) {
		if len(f.States) > 0 && !slices.Contains(f.States, e.State) {
			return false, nil
		}
		return want(e)
	})
	if err != nil {
		return nil, to, err
	}
	for i := range rows {
		r, _, err := machine.EndedRecord(&rows[i])
		if err != nil {
			return nil, to, err
		}
		list = append(list, queue.End{Place: rows[i].EndPlace(), Submission: r.Info(s.options.Queue, r.Ended.Meta, 0)})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(list, func(e queue.End) bool {
		return !s.parts.ends.Stands(e.Submission.ID, journal.Position(e.Place.Position))
	}), to, nil
}
