package ends

import (
	"slices"
	"sort"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Part has the ends of submissions in their order, from the last checkpoint on; those before it are in the
// history. In between, while a checkpoint is written, an end may be in both.
type Part struct {
	m       *machine.Machine
	epochs  epochs
	list    []*machine.Record // by the position of their end
	Reached journal.Position  // all ends up to here are in the list, or in the history
}

// New is the part of a machine in which no submission has ended.
func New(m *machine.Machine) *Part { return &Part{m: m} }

// Ended notes an end.
func (p *Part) Ended(r *machine.Record) { p.list = append(p.list, r) }

// Reach is called when a whole batch is applied.
func (p *Part) Reach(position journal.Position) { p.Reached = position }

// Written drops the ends that the history has now.
func (p *Part) Written(upTo journal.Position) {
	p.list = slices.Clone(p.list[p.behind(upTo):]) // a copy, as otherwise the dropped ends would stay in memory
}

// behind is the index of the first end behind a position.
func (p *Part) behind(position journal.Position) int {
	return sort.Search(len(p.list), func(i int) bool { return p.list[i].Ended.Position > position })
}

// Stands says whether an end of a submission is still its last: it is not open again, and
// has not ended again.
func (p *Part) Stands(id queue.SubmissionID, position journal.Position) bool {
	r := p.m.Endings.ByID[id]
	return p.m.Live(id) == nil && (r == nil || r.Ended.Position == position)
}

// endPlace is the place of the record's end.
func endPlace(r *machine.Record) queue.EndPlace {
	return queue.EndPlace{Position: uint64(r.Ended.Position), Seq: r.Seq}
}

// After lists the matching ends behind a place, about `limit` at most, and looks at about `look` ends at most; to is
// the place up to which the list is complete.
func (p *Part) After(after queue.EndPlace, f *machine.Filter, limit int,
	name string) (list []queue.End, to queue.EndPlace) {
	const look = machine.ListSlice
	to = behind(p.Reached)
	last, looked := journal.Position(0), 0
	for _, r := range p.list[p.behind(journal.Position(after.Position)-min(1, journal.Position(after.Position))):] {
		at := r.Ended.Position
		if at > p.Reached {
			break
		}
		if at != last && (len(list) >= limit || looked >= look) {
			return list, behind(last)
		}
		last = at
		looked++
		if place := endPlace(r); place.Compare(after) > 0 && p.Stands(r.ID, at) && f.Matches(r) {
			list = append(list, queue.End{ID: p.id(place), Submission: r.Info(name, r.Ended.Meta, 0)})
		}
	}
	return list, to
}
