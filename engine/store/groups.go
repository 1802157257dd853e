package store

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// The groups of queues of several shards. A row says which shard has a group. It is written once,
// before the first submission of the group, and never changed: the shard of a group must not depend
// on what was lost in a crash.

// groupTable is version 2 of the catalogue.
const groupTable = "CREATE TABLE queue_group (queue TEXT NOT NULL, name TEXT NOT NULL, shard INTEGER NOT NULL, " +
	"created INTEGER NOT NULL, UNIQUE (queue, name)) STRICT"

// GroupRow is a group of a queue as the catalogue keeps it.
type GroupRow struct {
	Name    string
	Shard   int // the number of the shard within the queue, from 1
	Created queue.Time
}

// Groups lists the groups of a queue by name.
func Groups(c *Catalogue, queueName string) (all []GroupRow, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, err = rowsOf(c.groups, func(row sqlitedb.Row) (GroupRow, error) {
		return GroupRow{row.Text(0), int(row.Int(1)), queue.Time(row.Int(2))}, nil
	}, queueName)
	return all, wrap("groups", err)
}

// PutGroups stores new groups of a queue durably, all or none. A group that is there is an error.
func PutGroups(c *Catalogue, queueName string, groups []GroupRow) error {
	steps := make([]journal.Step, len(groups))
	for i, g := range groups {
		steps[i] = do("group.put", queueName, g.Name, int64(g.Shard), int64(g.Created))
	}
	return c.change("put groups", nil, steps...)
}
