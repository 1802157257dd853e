package store

// A catalogue on its way between a file and the journal that the nodes of a cluster share. A
// restore is many changes, and a crash may come between any two. So the first and the last of them
// say that a restore begins and ends, and in between no node starts (ErrRestoring).

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// A backup moves a catalogue between a file and the journal that servers share: Replica makes a
// file of a journal as of one moment, and MoveTo fills an empty journal with the rows of a file.

// ErrRestoring says that a shared catalogue is not whole.
var ErrRestoring = errors.New("a restore into this cluster is not finished, so not all of it is there: run \"quern " +
	"restore --cluster\" " +
	"again, which begins with nothing, or choose another schema with --cluster-schema")

// The steps at the beginning and the end of a restore in the journal of a catalogue. They change no table.
const (
	restoreBegins = "restore.begin"
	restoreEnds   = "restore.end"
)

// movedSteps are the steps that put whole rows, in an order in which they can be done. A plugin comes after its
// versions, which it names.
var movedSteps = []string{"queue.put", "group.put", "leftover.put", "secret.put", "plugin.version", "plugin.put",
	"initial.move", "token.put", "audit.put"}

// inserts takes the table and its columns out of the statement of such a step. So the columns of a table are written
// once, in changeStatements: a new column moves along without a change here.
var inserts = regexp.MustCompile(`INTO (\w+) \(([^)]*)\)`)

// movedBytes is the approximate size of one change of a move. A change is one append: larger ones would hold the
// shared database for long, and smaller ones cost a round trip each.
const movedBytes = 1 << 20

// Replica makes a catalogue at path, where none may be, as a shared one was when its journal ended at upTo, and
// lists its queues.
func Replica(ctx context.Context, path string, log journal.Journal,
	upTo journal.Position) (rows []QueueRow, err error) {
	c, err := OpenCatalogue(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	err = log.Read(ctx, 0, func(at journal.Position, batch []byte) error {
		if at > upTo {
			return errEnough
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return replayChange(c, at, batch)
	})
	switch {
	case err != nil && !errors.Is(err, errEnough):
		return nil, wrap("replica", err)
	case c.restoring:
		return nil, ErrRestoring
	}
	return c.Queues()
}

// errEnough ends the reading of a journal that has more than is wanted.
var errEnough = errors.New("no more is wanted")

// Restoring says whether the journal of a shared catalogue has the beginning of a restore
// and not its end. It reads an empty one as whole.
func Restoring(ctx context.Context, log journal.Journal) (is bool, err error) {
	err = log.Read(ctx, 0, func(at journal.Position, batch []byte) error {
		x, err := journal.DecodeChange(batch)
		for i := range x.Steps {
			is = x.Steps[i].Name == restoreBegins || is && x.Steps[i].Name != restoreEnds
		}
		if err == nil && !is {
			err = errEnough
		}
		return err
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return is, wrap("restoring", err)
}

// Move puts catalogues into an empty journal. No server uses it before End: a change of another writer ends the move
// with a conflict. It is used by one goroutine.
type Move struct {
	ctx  context.Context
	log  journal.Journal
	at   journal.Position
	next journal.Change
	room int // bytes that it may still take
}

// BeginMove marks a journal that must be empty.
func BeginMove(ctx context.Context, log journal.Journal) (*Move, error) {
	m := &Move{ctx: ctx, log: log}
	return m, wrap("begin a move", errors.Join(m.put(do(restoreBegins)), m.flush()))
}

// End makes the catalogue that of the servers.
func (m *Move) End() error {
	return wrap("end a move", errors.Join(m.put(do(restoreEnds)), m.flush()))
}

func (m *Move) put(step journal.Step) error {
	m.next.Steps = append(m.next.Steps, step)
	for _, arg := range step.Args {
		m.room -= 16
		switch arg := arg.(type) {
		case string:
			m.room -= len(arg)
		case []byte:
			m.room -= len(arg)
		}
	}
	if m.room > 0 {
		return nil
	}
	return m.flush()
}

func (m *Move) flush() (err error) {
	if len(m.next.Steps) > 0 {
		m.at, err = AppendMoved(m.ctx, m.log, m.at, journal.AppendChange(nil, &m.next))
	}
	m.next, m.room = journal.Change{}, movedBytes
	return err
}

// movePatience is how long one append of a move waits for a database that is away.
const movePatience = 15 * time.Second

// AppendMoved appends a batch of a move. It does not give up early, because no caller waits for it.
func AppendMoved(ctx context.Context, log journal.Journal, at journal.Position,
	batch []byte) (journal.Position, error) {
	ctx, stop := context.WithTimeout(ctx, movePatience)
	defer stop()
	return log.Append(ctx, at, batch)
}

// MoveTo puts all rows of this catalogue, which no server uses.
func (c *Catalogue) MoveTo(m *Move) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, step := range movedSteps {
		of := inserts.FindStringSubmatch(changeStatements[step])
		if err := c.moveRows(m, step, fmt.Sprintf("SELECT %s FROM %s ORDER BY rowid", of[2], of[1])); err != nil {
			return wrap("move", err)
		}
	}
	err := c.moveRows(m, "queue.quarantine",
		"SELECT quarantined, oldest, name FROM queue WHERE quarantined IS NOT NULL")
	required, err2 := c.first("SELECT required FROM access")
	if err = errors.Join(err, err2); err == nil && required != nil && *required != 0 {
		err = m.put(do("access.required"))
	}
	return wrap("move", errors.Join(err, m.flush()))
}

// moveRows puts a step for each row that a query gives.
func (c *Catalogue) moveRows(m *Move, step, sql string) error {
	rows, err := c.conn.Prepare(sql)
	if err != nil {
		return err
	}
	return rows.Query(func(row sqlitedb.Row) (bool, error) {
		args := make([]any, len(row))
		for i := range row {
			args[i] = row[i]
			if b, is := row[i].([]byte); is {
				args[i] = bytes.Clone(b) // the row is good during the call only
			}
		}
		return true, m.put(do(step, args...))
	})
}

// Cut is a file of this package as it is at one moment. The file is written beside it; its
// log grows until Close.
type Cut struct {
	snapshot *sqlitedb.Snapshot
	writer   *sync.Mutex
}

// CutStore prepares a cut of a store. It has no moment before Take.
func CutStore(s *Store) (*Cut, error) { return cutOf(s.path, Kind, &s.write.mu) }

// CutCatalogue prepares a cut of a catalogue. It has no moment before Take.
func CutCatalogue(c *Catalogue) (*Cut, error) { return cutOf(c.path, CatalogueKind, &c.mu) }

func cutOf(path string, kind sqlitedb.Kind, writer *sync.Mutex) (*Cut, error) {
	snapshot, err := sqlitedb.Prepare(path, kind)
	if err != nil {
		return nil, wrap("cut", err)
	}
	return &Cut{snapshot, writer}, nil
}

// Take makes now the moment of the cut, and calls `at` in it: the file is not written
// meanwhile. `at` must be quick.
func (c *Cut) Take(at func() error) error {
	c.writer.Lock()
	defer c.writer.Unlock()
	if err := c.snapshot.Take(); err != nil {
		return wrap("cut", err)
	}
	return at()
}

// Checkpointed is up to which position of the journal the snapshot rows of a store are complete.
func (c *Cut) Checkpointed() (journal.Position, error) {
	n, err := c.snapshot.Int("SELECT position FROM folded WHERE one = 1")
	return journal.Position(n), wrap("cut", err)
}

// CopyTo makes a file of the cut at path, where none may be: one of this identity, that
// was closed in good order. It is not synced. pace is called after each few pages with how
// many bytes these were; an error of it ends the copy.
func (c *Cut) CopyTo(path string, id queue.Identity, pace func(bytes int) error) error {
	return wrap("cut", c.snapshot.CopyTo(path, id, pace))
}

// Close ends the cut.
func (c *Cut) Close() error { return wrap("cut", c.snapshot.Close()) }

// Assign gives a file of a data directory that is not in use another identity. A journal
// is such a file too.
func Assign(path string, id queue.Identity) error { return wrap("assign", sqlitedb.Assign(path, id)) }

// Renew makes the catalogue at path, which is not in use, that of another data directory.
// The secret of this name is forgotten: the next start draws a new one.
func Renew(ctx context.Context, path, secret string, id queue.Identity) error {
	c, err := OpenCatalogue(ctx, path)
	if err != nil {
		return err
	}
	drop, err := c.conn.Prepare("DELETE FROM secret WHERE name = ?")
	if err == nil {
		_, err = drop.Exec(secret)
	}
	if err = errors.Join(wrap("renew", err), c.Close()); err != nil {
		return err
	}
	return Assign(path, id)
}
