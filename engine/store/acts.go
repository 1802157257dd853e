package store

import (
	"context"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// The audit log is a table of the catalogue, so that it outlives the queues in it. A change of the
// catalogue enters the log in the same transaction. An act of a queue is in the queue's journal first, and
// comes here at a checkpoint of the queue.

// CatalogueActs replaces a shard for acts that are in no queue's journal.
const CatalogueActs = -1

// ActPlace is the place of an entry in the log. Entries are ordered by time, then by shard, then by number.
type ActPlace struct {
	At     queue.Time
	Shard  int // or CatalogueActs
	Number uint64
}

// ActRow is an entry of the log.
type ActRow struct {
	Place ActPlace
	queue.Act
}

type actStatements struct{ last, latest, oldest *sqlitedb.Stmt }

func (a *actStatements) prepare() []prepared {
	return []prepared{
		{&a.last, "SELECT coalesce(max(number), 0) FROM audit WHERE shard = ?"},
		{&a.latest, "SELECT shard, number, at, queue, crc, bytes FROM audit WHERE (at, shard, number) < (?, ?, ?) " +
			"ORDER BY at DESC, shard DESC, number DESC"},
		{&a.oldest, "SELECT shard, number, at, queue, crc, bytes FROM audit WHERE (at, shard, number) > (?, ?, ?) " +
			"ORDER BY at, shard, number"},
	}
}

// logActs puts acts of the catalogue's own into the log. The caller is in a transaction.
func (c *Catalogue) logActs(acts []queue.Act) error {
	if len(acts) == 0 {
		return nil
	}
	last, err := c.lastAct(CatalogueActs)
	for i := range acts {
		if err == nil {
			put := (&ActRow{ActPlace{acts[i].At, CatalogueActs, last + 1 + uint64(i)}, acts[i]}).put()
			_, err = c.step(&put)
		}
	}
	return err
}

// put is the step that puts the entry into the log.
func (a *ActRow) put() journal.Step {
	bytes := journal.AppendAct(nil, &a.Act)
	return do("audit.put", int64(a.Place.Shard), int64(a.Place.Number), int64(a.Place.At), a.Queue, a.sum(bytes), bytes)
}

// sum is over the row's integers and texts but for itself.
func (a *ActRow) sum(bytes []byte) int64 {
	return sum(0).number(int64(a.Place.Shard)).number(int64(a.Place.Number)).number(int64(a.Place.At)).
		number(int64(len(a.Queue))).bytes([]byte(a.Queue)).bytes(bytes).stored()
}

func (c *Catalogue) lastAct(shard int) (last uint64, err error) {
	err = c.act.last.Query(func(row sqlitedb.Row) (bool, error) { last = uint64(row.Int(0)); return false, nil },
		int64(shard))
	return last, err
}

// LastAct is the largest number that the log has of a shard, 0 if it has none.
func (c *Catalogue) LastAct(shard queue.ShardID) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, err := c.lastAct(int(shard))
	return last, wrap("last act", err)
}

// PutActs puts entries of a queue into the log, durably. Those that it has already stay as they are.
func (c *Catalogue) PutActs(_ context.Context, shard queue.ShardID, name string, list []journal.Act) error {
	var steps []journal.Step
	for i := range list {
		row := ActRow{ActPlace{list[i].At, int(shard), list[i].Number}, list[i].Act}
		row.Queue = name
		steps = append(steps, row.put())
	}
	_, err := c.note("put acts", nil, steps...)
	return err
}

// PutAct puts an act into the log that changed nothing, durably. No room is made for it on a full disk.
func (c *Catalogue) PutAct(act *queue.Act) error {
	_, err := c.note("put act", []queue.Act{*act})
	return err
}

// Acts calls fn for the entries before a place, the latest first, until it returns false.
// fn must not call the catalogue.
func (c *Catalogue) Acts(before ActPlace, fn func(*ActRow) bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listActs(c.act.latest, before, fn)
}

// ActsAfter calls fn for the entries after a place, the oldest first, until it returns
// false. No more rows are read than fn is called for. fn must not call the catalogue.
func (c *Catalogue) ActsAfter(after ActPlace, fn func(*ActRow) bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listActs(c.act.oldest, after, fn)
}

// listActs calls fn for the rows of a statement that begins at a place. The caller holds c.mu.
func (c *Catalogue) listActs(list *sqlitedb.Stmt, from ActPlace, fn func(*ActRow) bool) error {
	return wrap("acts", list.Query(func(row sqlitedb.Row) (bool, error) {
		a := ActRow{Place: ActPlace{queue.Time(row.Int(2)), int(row.Int(0)), uint64(row.Int(1))}}
		bytes := row.Blob(5)
		act, err := journal.DecodeAct(bytes)
		a.Act, a.Queue = act, row.Text(3)
		if err != nil || a.sum(bytes) != row.Int(4) {
			return false, c.damaged(nil, "a damaged row in table audit: its checksum does not match")
		}
		return fn(&a), nil
	}, int64(from.At), int64(from.Shard), int64(from.Number)))
}

// TrimActs deletes up to `most` of the entries from before a time, the oldest first, and says how many.
func (c *Catalogue) TrimActs(before queue.Time, most int) (n int64, err error) {
	return c.note("trim acts", nil, do("audit.trim", int64(before), int64(most)))
}
