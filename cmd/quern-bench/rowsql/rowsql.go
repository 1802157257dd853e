// Package rowsql is what Quern is measured against: a queue that keeps a row per chunk in SQLite and answers every reserve
// with streaming SQL, a filter in Go passing over what is in flight. It is for `quern-bench ratios` only.
//
// It is given every advantage that such a design has: statements are prepared and kept, the tables are filled in the order of
// their keys, the page cache is large and the file is in memory's reach, no other connection makes it take a lock, nothing is
// sorted at a reserve, meta values are in memory as numbers, and of several filters the rarest leads.
package rowsql

import (
	"fmt"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
	"github.com/quern-queue/quern/engine/strategy"
)

// Random is a 16-bit hash of a chunk's place, and an index on it: the deck is cut at a random number.
const tables = `
CREATE TABLE submission(id INTEGER PRIMARY KEY, chunks INTEGER NOT NULL, priority INTEGER NOT NULL) STRICT;
CREATE TABLE meta(submission INTEGER NOT NULL, key TEXT NOT NULL, value ANY NOT NULL, PRIMARY KEY(submission, key)) WITHOUT ROWID, STRICT;
CREATE TABLE chunk(submission INTEGER NOT NULL, number INTEGER NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, content BLOB,
 draw INTEGER NOT NULL GENERATED ALWAYS AS (((submission * 7919 + number) * 40503) & 65535) VIRTUAL,
 PRIMARY KEY(submission, number)) WITHOUT ROWID, STRICT;
CREATE TABLE chunk_meta(key TEXT NOT NULL, value ANY NOT NULL, draw INTEGER NOT NULL, submission INTEGER NOT NULL, number INTEGER NOT NULL,
 PRIMARY KEY(key, value, draw, submission, number)) WITHOUT ROWID, STRICT;`

const indexes = `
CREATE INDEX by_priority ON submission(priority DESC, id);
CREATE UNIQUE INDEX by_value ON meta(key, value, submission);
CREATE INDEX by_draw ON chunk(draw, submission, number);
INSERT INTO chunk_meta SELECT m.key, m.value, c.draw, c.submission, c.number FROM meta m JOIN chunk c USING (submission)
 ORDER BY 1, 2, 3, 4, 5;
ANALYZE;
PRAGMA wal_checkpoint(TRUNCATE)`

// draws is how many places the deck has.
const draws = 1 << 16

// Chunk is a chunk's place in the table.
type Chunk struct{ Submission, Number int64 }

// term is a meta key and value; it counts what is in flight of it, and its submissions.
type term struct {
	key                   queue.MetaKey
	inFlight, submissions uint32
}

// Engine is a backlog in one file. It is for one goroutine, which saves it all locking.
type Engine struct {
	conn     *sqlitedb.Conn
	terms    map[queue.MetaEntry]*term
	of       [][]*term // of submission i+1
	inFlight map[Chunk]struct{}
	stmts    map[string]*sqlitedb.Stmt
	plans    map[*strategy.Plan][]scan
	draw     func(n int64) int64
	rows     uint64
}

// Open makes a new database at path. draw returns a random number below n.
func Open(path string, draw func(n int64) int64) (*Engine, error) {
	kind := sqlitedb.Kind{Name: "rows", ApplicationID: 0x51726f77, Schema: tables}
	if err := sqlitedb.Create(path, kind, nil); err != nil {
		return nil, err
	}
	conn, err := sqlitedb.Open(path, kind, sqlitedb.Options{Durability: queue.Relaxed, Alone: true, CacheKiB: 256 << 10})
	if err != nil {
		return nil, err
	}
	if err := conn.Exec("PRAGMA mmap_size = 8589934592"); err != nil {
		conn.Close()
		return nil, err
	}
	return &Engine{
		conn: conn, draw: draw, terms: map[queue.MetaEntry]*term{}, inFlight: map[Chunk]struct{}{},
		stmts: map[string]*sqlitedb.Stmt{}, plans: map[*strategy.Plan][]scan{},
	}, nil
}

// Close ends the connection.
func (e *Engine) Close() error { return e.conn.Close() }

// Load fills the tables with n submissions, once. It is no measure of an insert: the indexes are made afterwards.
func (e *Engine) Load(n int, submission func(i int) queue.NewSubmission) error {
	err := e.conn.Tx(func() error {
		stmts, err := e.prepare(
			`INSERT INTO submission VALUES (?, ?, ?)`, `INSERT INTO meta VALUES (?, ?, ?)`,
			`WITH RECURSIVE s(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM s WHERE i + 1 < ?2) `+
				`INSERT INTO chunk(submission, number) SELECT ?1, i FROM s`)
		if err != nil {
			return err
		}
		for i := range n {
			if err := e.insert(int64(i+1), submission(i), stmts[0], stmts[1], stmts[2]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("rowsql: load: %w", err)
	}
	if err := e.conn.Exec(indexes); err != nil {
		return fmt.Errorf("rowsql: index: %w", err)
	}
	return nil
}

func (e *Engine) insert(id int64, n queue.NewSubmission, submissions, meta, chunks *sqlitedb.Stmt) error {
	if _, err := submissions.Exec(id, int64(n.Chunks.Count), n.Priority); err != nil {
		return err
	}
	var terms []*term
	for _, entry := range n.Meta {
		if _, err := meta.Exec(id, entry.Key, argument(entry.Value)); err != nil {
			return err
		}
		t := e.terms[entry]
		if t == nil {
			t = &term{key: entry.Key}
			e.terms[entry] = t
		}
		t.submissions++
		terms = append(terms, t)
	}
	e.of = append(e.of, terms)
	_, err := chunks.Exec(id, int64(n.Chunks.Count))
	return err
}

func argument(v queue.MetaValue) any {
	if v.IsInt() {
		return v.Int()
	}
	return v.Text()
}

func (e *Engine) prepare(texts ...string) (list []*sqlitedb.Stmt, err error) {
	for _, text := range texts {
		if e.stmts[text] == nil {
			if e.stmts[text], err = e.conn.Prepare(text); err != nil {
				return nil, err
			}
		}
		list = append(list, e.stmts[text])
	}
	return list, nil
}
