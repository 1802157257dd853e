package ends

import (
	"context"
	"slices"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// Ends lists the ends of a shard's submissions in the order in which they became durable, for the
// stream of ends.
type Ends struct {
	shell.Door[*Part]
	followers map[chan struct{}]struct{} // the shard's mutex guards it
}

// Face has the calls about ends.
func Face(door shell.Door[*Part]) *Ends {
	return &Ends{Door: door, followers: map[chan struct{}]struct{}{}}
}

// Tell wakes those that wait for ends. The mutex is held.
func (e *Ends) Tell() {
	for wake := range e.followers {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// Follow has wake receive when there may be more ends; leave ends that.
func (e *Ends) Follow() (wake <-chan struct{}, leave func()) {
	own := make(chan struct{}, 1)
	e.Look(func(*machine.Machine) { e.followers[own] = struct{}{} })
	return own, func() {
		e.Look(func(*machine.Machine) { delete(e.followers, own) })
	}
}

// Last is behind all ends that are durable now.
func (e *Ends) Last() (last queue.EndID) {
	e.Look(func(*machine.Machine) {
		p := e.Part()
		last = p.id(behind(p.Reached))
	})
	return last
}

// Since is where a follower goes on that has all ends up to an id. same: that is behind the id. Otherwise this server
// lacks ends that the follower has, as a restore has lost them, and the follower goes on behind those that both have.
func (e *Ends) Since(id queue.EndID) (from queue.EndID, same bool) {
	e.Look(func(*machine.Machine) {
		var place queue.EndPlace
		place, same = e.Part().since(id)
		from = e.Part().id(place)
	})
	return from, same
}

// Page is a list of ends in their order. It has all matches up to To, the place to continue from,
// except for those that retention has removed. Gone is the last place of a removed one.
type Page struct {
	List     []queue.End
	To, Gone queue.EndID
}

// After lists the matching ends behind a place, about `limit` at most. A submission that was opened again has only its
// last end. It fails while the shard is closed or cannot work.
func (e *Ends) After(ctx context.Context, after queue.EndPlace, f machine.Filter, limit int) (page Page, err error) {
	var until queue.EndPlace
	err = e.Locked(func(*machine.Machine, queue.Time) error {
		page.List, until = e.Part().After(after, &f, limit, e.Queue.Name)
		return nil
	})
	if err != nil {
		return page, err
	}
	past, to, err := e.past(ctx, after, journal.Position(until.Position), &f, limit)
	if err != nil {
		return page, err
	}
	gone := e.Store().History.Gone() // asked after the read, so it covers ends that were removed meanwhile
	if to.Compare(until) < 0 {
		until = to
	}
	page.List = append(page.List, past...)
	slices.SortFunc(page.List, func(a, b queue.End) int { return a.ID.Compare(b.ID) })
	page.List = slices.CompactFunc(page.List, func(a, b queue.End) bool { return a.ID == b.ID })
	page.List = slices.DeleteFunc(page.List, func(x queue.End) bool { return x.ID.EndPlace.Compare(until) > 0 })
	e.Look(func(*machine.Machine) { page.To, page.Gone = e.Part().id(until), e.Part().id(gone) })
	return page, nil
}

// pastLook is how many ends of the history one call looks at.
const pastLook = 20_000

// past lists the ends that are in the history.
func (e *Ends) past(ctx context.Context, after queue.EndPlace, upTo journal.Position, f *machine.Filter,
	limit int) (list []queue.End, to queue.EndPlace, err error) {
	rows, to, err := e.Store().History.Ends(ctx, after, upTo, limit, pastLook,
		func(row *checkpoint.Ended) (bool, error) {
			if len(f.States) > 0 && !slices.Contains(f.States, row.State) {
				return false, nil
			}
			return f.MatchesEnded(row)
		})
	if err != nil {
		return nil, to, err
	}
	for i := range rows {
		r, _, err := machine.EndedRecord(&rows[i])
		if err != nil {
			return nil, to, err
		}
		list = append(list, queue.End{ID: queue.EndID{EndPlace: rows[i].EndPlace()},
			Submission: r.Info(e.Queue.Name, r.Ended.Meta, 0)})
	}
	e.Look(func(*machine.Machine) {
		list = slices.DeleteFunc(list, func(x queue.End) bool {
			return !e.Part().Stands(x.Submission.ID, journal.Position(x.ID.Position))
		})
		for i := range list {
			list[i].ID = e.Part().id(list[i].ID.EndPlace)
		}
	})
	return list, to, nil
}
