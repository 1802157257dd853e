package shell

import (
	"context"
	"math"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Questions looks at a shard for answers that may need a long look. It does so in short holds of the mutex, between
// which all others have a turn, and remembers how much the longest of them looked at. It is here because several parts
// use it.
type Questions struct {
	Shell
	most machine.Looks // see MostLooks. The mutex guards it
}

// Ask calls fn with the mutex held, and remembers the most that one such call looked at.
// It fails when the shard cannot work.
func (q *Questions) Ask(fn func(m *machine.Machine) (machine.Looks, error)) error {
	return q.Locked(func(m *machine.Machine, _ queue.Time) error {
		n, err := fn(m)
		q.most = max(q.most, n)
		return err
	})
}

// MostLooks is the most that one hold of the mutex has looked at for a question since the
// shard was opened: submissions, times the blocks or branches that each is held against, tenants, and picks. It is a
// measure of how long a question can delay a reserve.
func (q *Questions) MostLooks() (most int) {
	q.Look(func(*machine.Machine) { most = int(q.most) })
	return most
}

// Slices calls fn in holds of the mutex: first with 0, then with its last result, until that is 0.
func (q *Questions) Slices(ctx context.Context, fn func(m *machine.Machine, from int) (next int,
	n machine.Looks)) error {
	budget := math.MaxInt
	return q.SlicesWithin(ctx, &budget, 0, fn)
}

// SlicesWithin is Slices that begins with from, and ends when the budget, in holds of the
// mutex, is used up.
func (q *Questions) SlicesWithin(ctx context.Context, budget *int, from int,
	fn func(m *machine.Machine, from int) (next int, n machine.Looks)) error {
	for more := true; more && *budget > 0; *budget-- {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := q.Ask(func(m *machine.Machine) (n machine.Looks, _ error) {
			from, n = fn(m, from)
			return n, nil
		})
		if err != nil {
			return err
		}
		more = from != 0
	}
	return nil
}
