package pg

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/quern-queue/quern/engine/cluster"
)

// oldest is the first version of PostgreSQL that Open takes. Older ones are not maintained, and lack settings that are used.
const oldest = 14

// facts are the settings and rights that the promise depends on.
type facts struct {
	version        int // as 150014
	fsync          string
	fullPageWrites string
	standbys       string   // synchronous_standby_names
	missing        []string // rights that the role lacks
}

const factsSQL = `SELECT current_setting('server_version_num')::int, current_setting('fsync'), current_setting('full_page_writes'),
current_setting('synchronous_standby_names'),
ARRAY(SELECT r || ' on ' || c.relname FROM pg_catalog.pg_class c, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) r
	WHERE c.relnamespace = to_regnamespace($1) AND c.relkind = 'r' AND NOT has_table_privilege(c.oid, r) ORDER BY 1)`

// facts asks the database for them.
func (b *Backend) facts(ctx context.Context) (f facts, err error) {
	err = b.patiently(ctx, 0, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, factsSQL, b.o.Schema).Scan(&f.version, &f.fsync, &f.fullPageWrites, &f.standbys, &f.missing)
	})
	return f, err
}

// Promise implements cluster.Backend.
func (b *Backend) Promise(ctx context.Context) (cluster.Promise, error) {
	f, err := b.facts(ctx)
	if err == nil {
		err = f.refusal(b.o)
	}
	if err != nil {
		return cluster.Promise{}, err
	}
	engine := fmt.Sprintf("PostgreSQL %d.%d", f.version/10000, f.version%10000)
	return cluster.Promise{Engine: engine, Standbys: f.waitedFor()}, nil
}

// refusal lists everything that keeps the database from keeping the promise, and what to do; nil: there is nothing.
func (f facts) refusal(o Options) error {
	var reasons []string
	if f.version < oldest*10000 {
		reasons = append(reasons, fmt.Sprintf("It is PostgreSQL %d: upgrade it to %d or later.", f.version/10000, oldest))
	}
	if f.fsync != "on" {
		reasons = append(reasons, "fsync is off, so that a crash may lose what was acknowledged: set fsync = on in postgresql.conf.")
	}
	if f.fullPageWrites != "on" {
		reasons = append(reasons, "full_page_writes is off, so that a power cut may damage pages: set it to on in postgresql.conf.")
	}
	if f.waitedFor() == 0 && !o.AcceptAsync {
		reasons = append(reasons, "It has no synchronous standby, so that acknowledged work is lost with its disk: "+
			"set synchronous_standby_names, or accept the loss with --accept-async.")
	}
	if len(f.missing) > 0 {
		reasons = append(reasons, fmt.Sprintf("The role lacks rights in the schema %s (%s): "+
			"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %s TO the role.",
			o.Schema, strings.Join(f.missing[:min(len(f.missing), 8)], ", "), o.Schema))
	}
	if len(reasons) == 0 {
		return nil
	}
	return fmt.Errorf("%w. %s", cluster.ErrPromise, strings.Join(reasons, " "))
}

// standbyCount is the number in synchronous_standby_names: FIRST 2 (a, b), ANY 1 (*), 2 (a, b, c). A mere list is as FIRST 1.
var standbyCount = regexp.MustCompile(`(?i)^\s*(?:first|any)?\s*(\d+)\s*\(`)

// waitedFor is how many standbys must have a commit on their disks before it is acknowledged.
func (f facts) waitedFor() int {
	if strings.TrimSpace(f.standbys) == "" {
		return 0
	}
	if match := standbyCount.FindStringSubmatch(f.standbys); match != nil {
		if n, err := strconv.Atoi(match[1]); err == nil {
			return n
		}
	}
	return 1
}

// errPooled says that there is a pooler in between, which gives a connection to another client after each transaction or statement.
var errPooled = fmt.Errorf("%w: A pooler in transaction mode is in between. Sessions must stay: connect to PostgreSQL itself, or set the "+
	"pooler to session mode (pool_mode = session)", cluster.ErrPromise)

// notPooled finds a pooler that works by transactions. While one connection is in a transaction, another connection that had its server
// process before gets a different process, or waits.
func (b *Backend) notPooled(ctx context.Context) error {
	return b.patiently(ctx, 0, func(ctx context.Context, first *pgx.Conn) error {
		return b.once(ctx, b.small, 0, func(ctx context.Context, second *pgx.Conn) error {
			var before, other, after int
			const pid = "SELECT pg_catalog.pg_backend_pid()"
			if err := first.QueryRow(ctx, pid, pgx.QueryExecModeSimpleProtocol).Scan(&before); err != nil {
				return err
			}
			tx, err := second.Begin(ctx)
			if refused, is := errors.AsType[*pgconn.PgError](err); is && refused.Code == "08P01" {
				return &final{errPooled} // it works by statements
			}
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback(ctx) }()
			if err := tx.QueryRow(ctx, pid, pgx.QueryExecModeSimpleProtocol).Scan(&other); err != nil {
				return err
			}
			err = first.QueryRow(ctx, pid, pgx.QueryExecModeSimpleProtocol).Scan(&after)
			if other == before || err == nil && after != before || errors.Is(err, context.DeadlineExceeded) {
				return &final{errPooled}
			}
			return err
		})
	})
}
