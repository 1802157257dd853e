package submissions

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// MostWeighed is how many submissions Largest looks at: the newest. It takes some 100 ms.
const MostWeighed = 1_000_000

// weighed is a submission with how many of its chunks can be handed out, wait, or are in flight.
type weighed struct {
	id   queue.SubmissionID
	left uint64
}

// largest keeps the heaviest of what is added: twice as many at most, so that most of them are looked at once.
// Sorting once per `most` additions makes the cost per submission logarithmic in most, and the memory independent of
// the backlog.
type largest struct {
	list  []weighed
	most  int
	least weighed // what is not above it is none of them
}

// heavier orders the heaviest first. Of equal ones the newest comes first, so the order is total.
func heavier(a, b weighed) int { return cmp.Or(cmp.Compare(b.left, a.left), cmp.Compare(b.id, a.id)) }

func (l *largest) add(w weighed) {
	if len(l.list) >= l.most && heavier(w, l.least) > 0 {
		return
	}
	if l.list = append(l.list, w); len(l.list) >= 2*l.most {
		l.cut()
	}
}

func (l *largest) cut() []weighed {
	slices.SortFunc(l.list, heavier)
	l.list = l.list[:min(len(l.list), l.most)]
	if len(l.list) == l.most {
		l.least = l.list[l.most-1]
	}
	return l.list
}

// Largest returns up to limit open submissions, those with most chunks left first, of the newest MostWeighed. The
// slices are of different moments, so a submission is read again for the answer: its numbers are then of one moment,
// and may differ from those that it was chosen by.
func (s *Submissions) Largest(ctx context.Context, f machine.Filter, limit int) (list []queue.Submission, err error) {
	top := largest{most: limit}
	visit := func(r *machine.Record) bool {
		if r.ID < f.From {
			return false
		}
		if r.Sub != nil && !r.Ending && f.Matches(r) {
			top.add(weighed{r.ID, uint64(r.Sub.Available()) + uint64(r.Waiting) + uint64(r.Holds.Len())})
		}
		return true
	}
	before := queue.SubmissionID(math.MaxInt64)
	if f.Before != 0 {
		before = f.Before
	}
	for looked := 0; before > f.From && looked < MostWeighed; looked += machine.ListSlice {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.Look(func(m *machine.Machine) { before = m.Order.Before(before, machine.ListSlice, visit) })
	}
	answer := access.Gather(ctx)
	chosen := top.cut()
	s.Look(func(m *machine.Machine) {
		for _, w := range chosen {
			r := m.Live(w.id)
			if r == nil {
				continue // it ended meanwhile
			}
			list = append(list, machine.Info(r, s.queue))
			if !answer.Fits(queue.SubmissionBytes(&list[len(list)-1])) {
				return
			}
		}
	})
	return list, nil
}
