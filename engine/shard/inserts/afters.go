package inserts

import (
	"context"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
)

// lookUp reads from the history the ends of submissions that an insert is to wait for and that are no longer in memory.
// A submission that this shard does not have makes it refuse the insert, unless that is repeated: a repeated insert
// gets its first answer, also when the submission has been deleted since.
func (c *call) lookUp(ctx context.Context) error {
	for i := range c.list {
		in, a := &c.list[i], &c.asked[i]
		if in.Decided() || in.New.After == nil {
			continue
		}
		after := in.New.After
		var past []queue.SubmissionID
		c.Look(func(m *machine.Machine) {
			for _, id := range after.IDs {
				if m.Record(id) == nil {
					past = append(past, id)
				}
			}
		})
		for _, id := range past {
			if id.Shard() != c.ID {
				a.unknown = after.Apart(id)
				break
			}
			state, found, err := EndedAs(ctx, c.Store(), id)
			if err != nil {
				return err
			}
			if !found {
				a.unknown = after.Unknown(id)
				break
			}
			if c.known == nil {
				c.known = machine.Ends{}
			}
			c.known[id] = state
		}
	}
	return nil
}

// EndedAs says how a submission ended that is no longer in memory.
func EndedAs(ctx context.Context, rows *store.Store, id queue.SubmissionID) (queue.SubmissionState, bool, error) {
	row, found, err := rows.History.Ended(ctx, id)
	return row.State, found, err
}
