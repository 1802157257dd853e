package shard

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// ends is the part of the machine that has the ends of submissions in their order, from the last checkpoint on; those before it are in the
// history. In between, while a checkpoint is written, an end may be in both.
type ends struct {
	m       *machine
	list    []*record        // by the position of their end
	settled journal.Position // all ends up to here are in the list, or in the history
}

func (p *ends) add(r *record) { p.list = append(p.list, r) }

// settle is called when all of a batch is applied.
func (p *ends) settle(position journal.Position) { p.settled = position }

// written lets go of the ends that the history has now.
func (p *ends) written(upTo journal.Position) {
	p.list = slices.Clone(p.list[p.behind(upTo):]) // else what is let go of would stay in memory
}

// behind is the index of the first end behind a position.
func (p *ends) behind(position journal.Position) int {
	return sort.Search(len(p.list), func(i int) bool { return p.list[i].ended.position > position })
}

// stands says whether an end of a submission is still its last: it is not open again, and has not ended again.
func (p *ends) stands(id queue.SubmissionID, position journal.Position) bool {
	r := p.m.ended[id]
	return p.m.live(id) == nil && (r == nil || r.ended.position == position)
}

// endPlace is where the record's end stands.
func endPlace(r *record) queue.EndPlace {
	return queue.EndPlace{Position: uint64(r.ended.position), Seq: r.seq}
}

// after lists ends behind a place, about `limit` that match and at most about `look` in all; to is the place up to which that is all.
func (p *ends) after(after queue.EndPlace, f *Filter, limit int, name string) (list []queue.End, to queue.EndPlace) {
	const look = listSlice
	to = queue.EndPlace{Position: uint64(p.settled), Seq: math.MaxUint32}
	last, looked := journal.Position(0), 0
	for _, r := range p.list[p.behind(journal.Position(after.Position)-min(1, journal.Position(after.Position))):] {
		at := r.ended.position
		if at > p.settled {
			break
		}
		if at != last && (len(list) >= limit || looked >= look) {
			return list, queue.EndPlace{Position: uint64(last), Seq: math.MaxUint32}
		}
		last = at
		looked++
		if place := endPlace(r); place.Compare(after) > 0 && p.stands(r.id, at) && f.matches(r) {
			list = append(list, queue.End{Place: place, Submission: r.info(name, r.ended.meta, 0)})
		}
	}
	return list, to
}

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
	return queue.EndPlace{Position: uint64(p.s.m.ends.settled), Seq: math.MaxUint32}
}

// EndsPage is some ends, in their order. To is where to go on: all that matches up to there was listed, but for what retention has removed;
// Gone is the last place of such.
type EndsPage struct {
	List     []queue.End
	To, Gone queue.EndPlace
}

// After lists what ended behind a place and matches, about `limit` of it at most. A submission that was opened again, and is open or ended
// again, has its last end only. It fails while the shard is closed or cannot work.
func (p *Ends) After(ctx context.Context, after queue.EndPlace, f Filter, limit int) (page EndsPage, err error) {
	s := p.s
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return page, err
	}
	page.List, page.To = s.m.ends.after(after, &f, limit, s.options.Queue)
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
func (p *Ends) past(ctx context.Context, after queue.EndPlace, upTo journal.Position, f *Filter, limit int) (list []queue.End,
	to queue.EndPlace, err error) {
	s := p.s
	rows, to, err := s.store.History.Ends(ctx, after, upTo, limit, pastLook, func(e *store.Ended) (bool, error) {
		if len(f.States) > 0 && !slices.Contains(f.States, e.State) {
			return false, nil
		}
		if len(f.Meta) == 0 && f.Schedule == "" {
			return true, nil
		}
		spec, err := journal.DecodeInsert(e.Spec)
		if err != nil {
			return false, fmt.Errorf("store: history of %s: %w", e.ID, err)
		}
		return f.ofSpec(spec), nil
	})
	if err != nil {
		return nil, to, err
	}
	for i := range rows {
		r, _, err := endedRecord(&rows[i])
		if err != nil {
			return nil, to, err
		}
		list = append(list, queue.End{Place: rows[i].EndPlace(), Submission: r.info(s.options.Queue, r.ended.meta, 0)})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(list, func(e queue.End) bool {
		return !s.m.ends.stands(e.Submission.ID, journal.Position(e.Place.Position))
	}), to, nil
}

// ofSpec is matches for what does not change of a submission.
func (f *Filter) ofSpec(spec *journal.Insert) bool {
	return cmp.Or(f.Schedule, spec.Schedule) == spec.Schedule && f.ofMeta(spec.Meta)
}
