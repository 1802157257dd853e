package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/queue"
)

const (
	// The pauses before a statement is tried again.
	firstPause   = 10 * time.Millisecond
	longestPause = 500 * time.Millisecond

	connectTimeout = 5 * time.Second // of a try to connect, unless the URL has another one
)

// setUp sets up a connection, with the schema and synchronous_commit, because the role or the database may have other defaults. The caller
// bounds the wait for a lock or for a standby, because it must know when the outcome is unknown.
const setUp = `SET search_path TO %s; SET synchronous_commit TO %s; SET statement_timeout TO 0; SET lock_timeout TO 0;
SET idle_in_transaction_session_timeout TO 0; SET idle_session_timeout TO 0; SET default_transaction_isolation TO 'read committed';
SET default_transaction_read_only TO off; SET client_min_messages TO warning; SET plan_cache_mode TO force_generic_plan`

// warned is the key under which a connection keeps the last warning of the server.
const warned = "quern.warned"

func newPool(ctx context.Context, o Options, conns int, durability string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("pg: the URL of the database is not valid, write postgres://USER:PASSWORD@HOST:PORT/DATABASE: %w", err)
	}
	config.MaxConns, config.MinConns = int32(conns), 0
	c := config.ConnConfig
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, connectTimeout)
	if c.ValidateConnect == nil { // of several hosts, and after a failover
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	c.RuntimeParams["application_name"] = cmp.Or(c.RuntimeParams["application_name"], "quern")
	c.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	c.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			conn.CustomData()[warned] = n
		}
	}
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.PgConn().Exec(ctx, fmt.Sprintf(setUp, o.Schema, durability)).ReadAll()
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("pg: %w", err)
	}
	return pool, nil
}

// statement runs statements: a connection, or a transaction on it.
type statement interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// exec runs a statement that changes rows, and returns how many. A commit that stopped waiting for a standby is answered like any other,
// with a warning (01000): the rows are visible, and may be lost. So a warning leaves the outcome unknown.
func exec(ctx context.Context, conn *pgx.Conn, on statement, sql string, args ...any) (rows int64, err error) {
	delete(conn.PgConn().CustomData(), warned)
	tag, err := on.Exec(ctx, sql, args...)
	if err != nil {
		return 0, err
	}
	return tag.RowsAffected(), warning(conn)
}

// warning is the warning that a connection got, as an error.
func warning(conn *pgx.Conn) error {
	if n, is := conn.PgConn().CustomData()[warned].(*pgconn.Notice); is {
		return &warningError{n}
	}
	return nil
}

type warningError struct{ notice *pgconn.Notice }

func (e *warningError) Error() string {
	return fmt.Sprintf("the database committed with a warning: %s (SQLSTATE %s)", e.notice.Message, e.notice.Code)
}

// class is the meaning of a statement's failure.
type class uint8

const (
	unknown   class = iota // it may have been done, or may yet be
	undone                 // it was not done, and another try may succeed
	noRoom                 // the same, once the disk of the database has room
	refused                // it was not done, and would be refused again
	corrupted              // stored data is damaged
)

// classes are those of SQLSTATEs and of their first two characters. All others are undone.
var classes = map[string]class{
	"53100": noRoom, "XX001": corrupted, "XX002": corrupted,
	"0A": refused, "22": refused, "23": refused, "28": refused, "3D": refused, "3F": refused, "42": refused, "44": refused, "54": refused,
}

// classOf tells failures apart. A statement that ended with an ERROR was rolled back. FATAL and PANIC end the connection. After a lost
// connection, the outcome of the statement is unknown.
func classOf(err error) class {
	server, is := errors.AsType[*pgconn.PgError](err)
	if is {
		for _, code := range []string{server.Code, server.Code[:min(2, len(server.Code))]} {
			if c, known := classes[code]; known {
				return c
			}
		}
	}
	if pgconn.SafeToRetry(err) || errors.Is(err, pgx.ErrTxCommitRollback) || is && server.SeverityUnlocalized == "ERROR" {
		return undone
	}
	return unknown
}

// once runs f on a connection of a pool, for as long as one try may take. It does not use a connection again on which something failed: the
// server may have become a standby, or a pooler may be in between.
func (b *Backend) once(ctx context.Context, pool *pgxpool.Pool, bytes int, f func(ctx context.Context, conn *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, b.o.Try+time.Duration(bytes)*time.Second>>20)
	defer cancel()
	defer context.AfterFunc(b.ctx, cancel)()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return &acquireError{err}
	}
	defer conn.Release()
	if err = f(ctx, conn.Conn()); err != nil && classOf(err) != refused {
		_ = conn.Conn().Close(ctx)
	}
	return err
}

// acquireError says that there was no connection, so that nothing was sent.
type acquireError struct{ err error }

func (e *acquireError) Error() string     { return "no connection to the database: " + e.err.Error() }
func (e *acquireError) Unwrap() error     { return e.err }
func (e *acquireError) SafeToRetry() bool { return true }

// patiently runs f, which may be repeated, until it succeeds, is refused, or patience or ctx end.
func (b *Backend) patiently(ctx context.Context, bytes int, f func(ctx context.Context, conn *pgx.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	patience := time.After(b.o.Patience)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := b.once(ctx, b.pool, bytes, f)
		if err == nil {
			return nil
		}
		if known, is := errors.AsType[*final](err); is {
			return known.err
		}
		switch classOf(err) {
		case refused:
			return explain(err)
		case noRoom:
			return full(err)
		case corrupted:
			return b.damaged("has damaged pages: " + err.Error())
		case unknown, undone:
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", explain(err), ctx.Err())
		case <-b.ctx.Done():
			return errClosed
		case <-patience:
			return explain(err)
		case <-time.After(pause):
		}
	}
}

var errClosed = errors.New("pg: the backend is closed")

// final is an error that is an answer: it is not tried again.
type final struct{ err error }

func (e *final) Error() string { return e.err.Error() }
func (e *final) Unwrap() error { return e.err }

func (b *Backend) damaged(reason string) error {
	return &queue.FormatError{Path: "schema " + b.o.Schema, Reason: reason,
		Advice: "Restore the database from a backup, or promote a standby that has what is missing."}
}

// advice says what to do about failures that an operator can end, by SQLSTATE.
var advice = map[string]string{
	"28000": "The database does not let this user in: check the user in the URL, and pg_hba.conf.",
	"28P01": "The password is wrong: check the one in the URL.",
	"3D000": "There is no such database: create it with CREATE DATABASE, or correct the URL.",
	"42P01": "A table is missing: the schema was changed or dropped while it was used. Restore it, or restart Quern to begin with nothing.",
	"53300": "The database takes no more connections: raise its max_connections, or give Quern fewer.",
	"57P03": "The database is starting or stopping: try again when it accepts connections.",
}

// explain puts a sentence that says what to do before a failure.
func explain(err error) error {
	server, is := errors.AsType[*pgconn.PgError](err)
	var connecting *pgconn.ConnectError
	switch {
	case is && server.Code == "42501":
		return fmt.Errorf("pg: %w: %w", missingRight, err)
	case is && advice[server.Code] != "":
		return fmt.Errorf("pg: %s (%w)", advice[server.Code], err)
	case errors.As(err, &connecting):
		return fmt.Errorf("pg: No PostgreSQL that takes writes can be reached: check host and port in the URL, and that it runs. (%w)", err)
	}
	return fmt.Errorf("pg: %w", err)
}

var missingRight = fmt.Errorf("%w: Its role lacks a right. Let it own the schema: ALTER SCHEMA ... OWNER TO ..., or, "+
	"before the first start, GRANT CREATE ON DATABASE ... TO ...", cluster.ErrPromise)
