package pgtest

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Table is a queue as many programs have it in PostgreSQL: an index has the waiting rows, and a worker takes the oldest that no other one
// has locked. Rows that are done are kept, as Quern keeps its history.
type Table struct {
	in, out *pgx.Conn // of the producer, and of the worker
	taken   int64     // the row that the worker has
}

const (
	tableURL = "postgres://postgres@127.0.0.1/postgres?sslmode=disable"
	tableSQL = `CREATE TABLE job (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, company int NOT NULL,
		content text NOT NULL, state text NOT NULL DEFAULT 'waiting', created timestamptz NOT NULL DEFAULT now(),
		begun timestamptz, finished timestamptz);
		CREATE INDEX job_waiting ON job (id) WHERE state = 'waiting'`
	tableInsert = "INSERT INTO job (company, content) VALUES ($1, $2) RETURNING id"
	tableFinish = "UPDATE job SET state = 'done', finished = now() WHERE id = $1 AND state = 'running'"
	tableTake   = `UPDATE job SET state = 'running', begun = now() WHERE id = (SELECT id FROM job WHERE state = 'waiting'
		ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, company, content`
)

// NewTable makes the table in the server that listens on 127.0.0.1.
func NewTable(ctx context.Context) (t *Table, err error) {
	t = &Table{}
	for _, conn := range []**pgx.Conn{&t.in, &t.out} {
		if *conn, err = pgx.Connect(ctx, tableURL); err != nil {
			t.Close()
			return nil, err
		}
	}
	if _, err = t.in.Exec(ctx, tableSQL); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Close ends the connections.
func (t *Table) Close() {
	for _, conn := range []*pgx.Conn{t.in, t.out} {
		if conn != nil {
			_ = conn.Close(context.Background())
		}
	}
}

// Insert adds a row.
func (t *Table) Insert(ctx context.Context, company int, content string) error {
	var id int64
	return t.in.QueryRow(ctx, tableInsert, company, content).Scan(&id)
}

// Work completes the worker's row and takes the next one, in one transaction, which saves syncs.
func (t *Table) Work(ctx context.Context) error {
	batch := &pgx.Batch{}
	batch.Queue(tableFinish, t.taken)
	batch.Queue(tableTake).QueryRow(func(row pgx.Row) error {
		var company int
		var content string
		return row.Scan(&t.taken, &company, &content)
	})
	return t.out.SendBatch(ctx, batch).Close()
}
