package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Catalogue is the file of the whole server: which queues there are, the plugins, the
// access tokens, and its secrets. It is read at the start and written when an operator
// changes something, so one connection does.
//
// Lock order: the turn of a shared catalogue (begin), then mu. Around runs under one of them, so it must not call
// the catalogue, and the callers of Acts must not either: both would wait for themselves.
type Catalogue struct {
	path string

	// Around runs every change that an operator makes, and returns the error for its caller; nil: the changes run
	// plainly. On a full disk it may make room and run the change once more. It must not call the catalogue. Set it
	// before the catalogue is shared.
	Around func(write func() error) error

	mu                                    sync.Mutex
	conn                                  *sqlitedb.Conn
	shared                                *shared                   // nil: the file is this server's alone
	restoring                             bool                      // the changes so far are a part of a restore
	changes                               map[string]*sqlitedb.Stmt // by the name of a step
	list, secret, leftovers, initialRules *sqlitedb.Stmt
	groups                                *sqlitedb.Stmt
	plugin                                pluginStatements
	token                                 tokenStatements
	act                                   actStatements
}

// QueueRow is a queue as the catalogue keeps it.
type QueueRow struct {
	Name     string
	Shard    queue.ShardID
	Settings queue.Settings
	Created  queue.Time

	Quarantined queue.Time // since when it does not serve, as its files are damaged or missing; 0: it serves
	Oldest      uint64     // generation that its files may have when it is quarantined
}

// OpenCatalogue opens the catalogue at path, makes it if there is none, and brings an
// older one up to date. A file that is damaged, foreign or of a version that is not known
// is a *queue.FormatError and stays as it was.
func OpenCatalogue(ctx context.Context, path string) (*Catalogue, error) {
	c := &Catalogue{path: path}
	if err := c.open(); err != nil {
		if c.conn != nil {
			c.conn.Close()
		}
		return nil, wrap("open catalogue", err)
	}
	return c, nil
}

func (c *Catalogue) open() error {
	err := ensure(c.path, CatalogueKind)
	if err != nil {
		return err
	}
	if c.conn, err = sqlitedb.Open(c.path, CatalogueKind,
		sqlitedb.Options{Durability: queue.Full, Owner: &sqlitedb.Owner{}}); err != nil {
		return err
	}
	if err := c.checkSums(); err != nil {
		return err
	}
	if err := c.prepareChanges(); err != nil {
		return err
	}
	return prepareAll(c.conn, slices.Concat(c.plugin.prepare(), c.token.prepare(), c.act.prepare(), []prepared{
		{&c.list, "SELECT name, shard, settings, created, coalesce(quarantined, 0), coalesce(oldest, 0) FROM queue " +
			"ORDER BY name"},
		{&c.groups, "SELECT rowid, name, shard, created, came, moved FROM queue_group WHERE queue = ? AND rowid > ? " +
			"ORDER BY rowid"},
		{&c.initialRules, "SELECT id, action, match, reason, actor, since, until, inserts, revokes FROM initial_rule " +
			"ORDER BY id"},
		{&c.leftovers, "SELECT shard FROM leftover ORDER BY shard"},
		{&c.secret, "SELECT bytes FROM secret WHERE name = ?"},
	}))
}

// Begin raises the generation of the data directory, at the first start of all with an id
// that it draws from rnd, and returns the identity that all files are to come to. Without
// room on the disk the generation stays.
func (c *Catalogue) Begin(rnd io.Reader) (queue.Identity, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, err := c.conn.Identity()
	if err == nil && id.Generation == 0 {
		id.Shard = queue.NoShard
		_, err = io.ReadFull(rnd, id.Directory[:])
	}
	newest := id.Generation
	if err == nil {
		id.Generation++
		id, err = c.conn.Own(id)
	}
	id.Newest = newest
	return id, wrap("begin", err)
}

// Identity is that of the data directory, as its last start left it: for files that are
// opened without a start.
func (c *Catalogue) Identity() (queue.Identity, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, err := c.conn.Identity()
	id.Newest = id.Generation
	return id, wrap("identity", err)
}

// Begun says that all files have come to the generation of id: from now on older ones are refused.
func (c *Catalogue) Begun(id queue.Identity) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.conn.Own(id.Opened())
	return wrap("begun", err)
}

// Lose ends all writing, for good: the file is not where it was.
func (c *Catalogue) Lose(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn.Lose(cause)
}

// Close lets go of the file.
func (c *Catalogue) Close() error {
	defer c.shared.begin(&c.mu)()
	return wrap("close catalogue", errors.Join(c.unshare(), c.shared.table(&c.mu, c.conn.Close)))
}

// Queues lists all queues by name.
func (c *Catalogue) Queues() (all []QueueRow, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, err = rowsOf(c.list, func(row sqlitedb.Row) (QueueRow, error) {
		q := QueueRow{Name: row.Text(0), Shard: queue.ShardID(row.Int(1)), Created: queue.Time(row.Int(3)),
			Quarantined: queue.Time(row.Int(4)), Oldest: uint64(row.Int(5))}
		var err error
		if q.Settings, err = queue.SettingsOf(row.Text(2)); err != nil {
			return q, c.damaged(err, "settings of queue %q that cannot be read", q.Name)
		}
		return q, nil
	})
	return all, wrap("queues", err)
}

// rowsOf reads the rows that a statement selects; nil when one cannot be read.
func rowsOf[T any](list *sqlitedb.Stmt, read func(sqlitedb.Row) (T, error), args ...any) (all []T, err error) {
	err = list.Query(func(row sqlitedb.Row) (bool, error) {
		one, err := read(row)
		all = append(all, one)
		return true, err
	}, args...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// damaged is the error of an impossible entry of the catalogue.
func (c *Catalogue) damaged(cause error, format string, args ...any) error {
	return &queue.FormatError{Path: c.path, Reason: "has " + fmt.Sprintf(format, args...),
		Advice: sqlitedb.AdviceDamaged, Err: cause}
}

// PutQueue stores a new queue durably. One of another's name, or in another's shard, is an error.
func (c *Catalogue) PutQueue(q QueueRow, acts ...queue.Act) error {
	return c.change("put queue", acts, do("leftover.drop", int64(q.Shard)),
		do("queue.put", int64(q.Shard), q.Name, q.Settings.Row(), int64(q.Created)))
}

// SetQueue stores other settings of a queue durably, if it is still there.
func SetQueue(c *Catalogue, q QueueRow) error {
	return c.change("set queue", nil, do("queue.settings", q.Settings.Row(), q.Name, int64(q.Created)))
}

// Quarantine stores durably since when a queue does not serve, and how old its files may
// be when it does again. 0 for both: it serves.
func (c *Catalogue) Quarantine(name string, since queue.Time, oldest uint64) error {
	_, err := c.note("quarantine", nil, do("queue.quarantine", int64(since), int64(oldest), name))
	return err
}

// Leftovers lists the shards whose files, if there are any, belong to no queue: the queue was not made to the end, or
// is deleted.
func (c *Catalogue) Leftovers() (all []queue.ShardID, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, err = rowsOf(c.leftovers, func(row sqlitedb.Row) (queue.ShardID, error) {
		return queue.ShardID(row.Int(0)),
			nil
	})
	return all, wrap("leftovers", err)
}

// Leave makes a shard a leftover, durably, until a queue is put into it. It comes before the first file of a queue is
// made, because files of a shard that the catalogue does not know are taken as a sign that the catalogue has lost
// something.
func (c *Catalogue) Leave(shard queue.ShardID) error {
	_, err := c.note("leave", nil, do("leftover.put", int64(shard)))
	return err
}

// DeleteQueue removes a queue durably; its shard is a leftover. One that is not there is removed already, also if
// another one has its name by now.
func (c *Catalogue) DeleteQueue(q QueueRow, acts ...queue.Act) error {
	err := c.change("delete queue", acts, do(queueEnd, q.Name, int64(q.Created)), do("leftover.put", int64(q.Shard)),
		do("group.drop", q.Name))
	if errors.Is(err, errNothingChanged) {
		err = nil
	}
	return err
}

// Secret is the random key of this name, of this many bytes. The first call draws it from
// rnd and stores it durably; from then on it is always the same.
func (c *Catalogue) Secret(name string, bytes int, rnd io.Reader) ([]byte, error) {
	defer c.shared.begin(&c.mu)()
	key, err := c.secretOf(name)
	if err == nil && key == nil {
		key = make([]byte, bytes)
		if _, err = io.ReadFull(rnd, key); err == nil {
			_, err = c.make(&journal.Change{Steps: []journal.Step{do("secret.put", name, key)}})
		}
		if err == nil {
			key, err = c.secretOf(name) // another server that shares the catalogue may have been first
		}
	}
	if err == nil && len(key) != bytes {
		err = fmt.Errorf("%q has %d bytes, not %d", name, len(key), bytes)
	}
	if err != nil {
		return nil, wrap("secret", err)
	}
	return key, nil
}

// secretOf reads a secret; nil: there is none.
func (c *Catalogue) secretOf(name string) (key []byte, err error) {
	err = c.shared.table(&c.mu, func() error {
		return c.secret.Query(func(row sqlitedb.Row) (bool, error) { key = row.Blob(0); return false, nil }, name)
	})
	return key, err
}

// The groups of queues of several shards. A row says which shard has a group. It is written before the first
// submission of the group, so that no crash can change the shard of a group. It changes when the group moves, and then
// has a new rowid, so that a server that reads on finds it.

// groupTable is version 2 of the catalogue.
const groupTable = "CREATE TABLE queue_group (queue TEXT NOT NULL, name TEXT NOT NULL, shard INTEGER NOT NULL, " +
	"created INTEGER NOT NULL, UNIQUE (queue, name)) STRICT"

// groupMoves is version 4: which shard a group came from last, and when; 0: it never moved.
const groupMoves = "ALTER TABLE queue_group ADD COLUMN came INTEGER NOT NULL DEFAULT 0; " +
	"ALTER TABLE queue_group ADD COLUMN moved INTEGER NOT NULL DEFAULT 0"

// groupMove is the step of a move.
const groupMove = "UPDATE queue_group SET rowid = (SELECT max(rowid) + 1 FROM queue_group), came = shard, shard = ?, " +
	"moved = ? WHERE queue = ? AND name = ? AND shard = ?"

// GroupRow is a group of a queue as the catalogue keeps it.
type GroupRow struct {
	Name    string
	Shard   int // the number of the shard within the queue, from 1
	Created queue.Time
	Came    int        // from which shard it came last; 0: it never moved
	Moved   queue.Time // when it did
	// Row rises with every group that is stored here; servers that share a catalogue may have other numbers.
	Row int64
}

// Groups lists the groups of a queue behind a row, in the order in which they were stored. Row 0: all.
func Groups(c *Catalogue, queueName string, after int64) (all []GroupRow, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, err = rowsOf(c.groups, func(row sqlitedb.Row) (GroupRow, error) {
		return GroupRow{row.Text(1), int(row.Int(2)), queue.Time(row.Int(3)), int(row.Int(4)), queue.Time(row.Int(5)),
			row.Int(0)}, nil
	}, queueName, after)
	return all, wrap("groups", err)
}

// MoveGroup has another shard have a group, durably. If the row does not say that the group is in the first of the two
// shards, it stays as it is.
func MoveGroup(c *Catalogue, queueName, group string, from, to int, now queue.Time) error {
	return c.change("move group", nil, do("group.move", int64(to), int64(now), queueName, group, int64(from)))
}

// PutGroups stores new groups of a queue durably, all or none. A group that is there is an error.
func PutGroups(c *Catalogue, queueName string, groups []GroupRow) error {
	steps := make([]journal.Step, len(groups))
	for i, g := range groups {
		steps[i] = do("group.put", queueName, g.Name, int64(g.Shard), int64(g.Created))
	}
	return c.change("put groups", nil, steps...)
}
