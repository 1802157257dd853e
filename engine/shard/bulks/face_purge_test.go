package bulks

import (
	"context"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// purging has the submissions of a script, and notes whose deletion is ordered.
type purging struct {
	*script
	room    int
	ordered []queue.SubmissionID
	listed  int // at most so many on a page; 0: as many as there may be
}

func (p *purging) List(_ context.Context, f machine.Filter, before queue.SubmissionID, limit int) (list []queue.Submission,
	next queue.SubmissionID, err error) {
	if p.listed > 0 {
		limit = min(limit, p.listed)
	}
	p.script.Look(func(m *machine.Machine) {
		next = m.Order.Before(before, 1<<20, func(r *machine.Record) bool {
			if r.ID < f.From {
				return false
			}
			if f.Matches(r) {
				list = append(list, machine.Info(r, "q"))
			}
			return len(list) < limit
		})
	})
	if len(list) < limit {
		next = 0
	}
	return list, next, nil
}

func (p *purging) Room() int { return p.room - len(p.ordered) }

func (p *purging) Order(m *machine.Machine, id queue.SubmissionID, now queue.Time) {
	m.EndSubmission(m.Live(id), queue.Cancelled, "", now)
	p.ordered = append(p.ordered, id)
}

// A purge goes through all submissions that its filter means, newest first, page by page, even if a page has none of
// them. It counts the submissions that it looks at, and leaves later ones alone.
func TestPurge(t *testing.T) {
	t.Parallel()
	for _, listed := range []int{0, 1, 3} {
		x := newScript(t)
		x.purging.listed = listed
		mine, others := x.insert(5, 7), x.insert(4, 8)
		id := x.start(queue.BulkRequest{Action: queue.BulkPurge, Filter: queue.BulkFilter{
			Meta: ofCompany(7).Meta, CreatedAfter: mine[1].Time(), CreatedBefore: mine[4].Time()}})
		late := x.insert(1, 7)
		for more := true; more; {
			var err error
			if _, more, err = x.Step(t.Context(), id, 2); err != nil {
				t.Fatal(err)
			}
		}
		want := []queue.SubmissionID{mine[3], mine[2], mine[1]}
		b, _ := x.Get(id)
		if !slices.Equal(x.purging.ordered, want) || b.State != queue.BulkCompleted || b.Counts != (queue.BulkCounts{Matched: 3, Done: 3}) ||
			b.Walk.Examined != 3 || b.Walk.Percent(b.State) != 100 {
			t.Errorf("with %d on a page: ordered %v, want %v; %s, %+v, %+v", listed, x.purging.ordered, want, b.State, b.Counts, b.Walk)
		}
		for _, kept := range [][]queue.SubmissionID{others, late, {mine[0], mine[4]}} {
			for _, id := range kept {
				if x.Machine.Live(id) == nil {
					t.Errorf("with %d on a page: submission %s is gone", listed, id)
				}
			}
		}
	}
}

// A dry run orders nothing, a limit ends a purge early, and one that finds no room for its orders tries again later.
func TestPurgeIsBounded(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	all := x.insert(6, 7)
	dry := x.start(queue.BulkRequest{Action: queue.BulkPurge, DryRun: true, Filter: queue.BulkFilter{States: []queue.SubmissionState{queue.Open}}})
	x.page(dry, 100, 6, false)
	if b, _ := x.Get(dry); len(x.purging.ordered) != 0 || b.Counts.Done != 6 || b.State != queue.BulkCompleted {
		t.Errorf("the dry run: ordered %v, %+v", x.purging.ordered, b)
	}
	x.purging.room = 2
	id := x.start(queue.BulkRequest{Action: queue.BulkPurge, Limit: 3})
	x.page(id, 100, 2, true)
	if _, _, err := x.Step(t.Context(), id, 100); queue.CodeOf(err) != queue.CodeOverloaded {
		t.Errorf("without room: %v", err)
	}
	x.purging.room = 100
	x.page(id, 100, 1, true)
	x.page(id, 100, 0, false)
	if b, _ := x.Get(id); b.State != queue.BulkCompleted || b.Counts.Done != 3 || !slices.Equal(x.purging.ordered, []queue.SubmissionID{all[5], all[4], all[3]}) {
		t.Errorf("three at most: %s, %+v, ordered %v", b.State, b.Counts, x.purging.ordered)
	}
}
