// Package pg keeps the shared data of a cluster's nodes in PostgreSQL: journals, blobs and leases, in one schema of a database.
// docs/decisions/0036-postgresql-holds-the-journal-of-many-machines.md says why.
package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

var _ cluster.Backend = (*Backend)(nil)

// Options say where the database is and how it is used.
type Options struct {
	// URL is postgres://USER:PASSWORD@HOST:PORT/DATABASE, or any other form that libpq takes. It may name several hosts, as
	// host1:5432,host2:5432. The one that takes writes is used.
	URL string
	// Schema has all tables; "" is DefaultSchema. Servers with different schemas share nothing.
	Schema string
	// AcceptAsync accepts a database without a synchronous standby. If its disk is lost, so is acknowledged work.
	AcceptAsync bool
	// Conns bounds the connections for journals and blobs; 0 is DefaultConns. Up to three more serve leases and notifications. Each append
	// and each call for a blob holds one, with up to 4 MiB of memory here and a few times that in the database.
	Conns int
	// Try is how long one try of a statement may take before it is made again on another connection; 0 is DefaultTry. Each MiB that is sent
	// allows one second more.
	Try time.Duration
	// Patience is how long a call other than an append is tried again while the database cannot be reached; 0 is DefaultPatience. An
	// append goes on until its context ends.
	Patience time.Duration
}

// The defaults of Options.
const (
	DefaultSchema   = "quern"
	DefaultConns    = 16
	DefaultTry      = 5 * time.Second
	DefaultPatience = 10 * time.Second
)

// maxConns bounds Options.Conns: PostgreSQL starts a process for each one.
const maxConns = 1000

// schemas are the names of schemas that need no quotes. PostgreSQL keeps pg_ for itself.
var schemas = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`)

// Backend is a schema of a PostgreSQL database.
type Backend struct {
	o     Options
	pool  *pgxpool.Pool // for journals and blobs
	small *pgxpool.Pool // for leases and notifications, which must not wait for appends
	hub   *hub

	ctx    context.Context // of the goroutines
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// Open connects to the database, refuses one that cannot keep the promise (cluster.ErrPromise), and makes the tables or brings them to
// this version.
func Open(ctx context.Context, o Options) (*Backend, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	b := &Backend{o: o, hub: newHub()}
	var err error
	if b.pool, err = newPool(ctx, o, o.Conns, "on"); err != nil {
		return nil, err
	}
	if b.small, err = newPool(ctx, o, 2, "off"); err != nil {
		b.pool.Close()
		return nil, err
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	if err := b.start(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	b.ended.Go(b.tell)
	return b, nil
}

func (o *Options) complete() error {
	o.Schema = cmp.Or(o.Schema, DefaultSchema)
	o.Conns = cmp.Or(o.Conns, DefaultConns)
	o.Try = cmp.Or(o.Try, DefaultTry)
	o.Patience = cmp.Or(o.Patience, DefaultPatience)
	switch {
	case !schemas.MatchString(o.Schema) || len(o.Schema) > 2 && o.Schema[:3] == "pg_":
		return fmt.Errorf("pg: the schema %.100q is not 1 to 48 of the characters a-z, 0-9 and _, with no digit and no pg_ in front",
			o.Schema)
	case o.Conns < 1 || o.Conns > maxConns:
		return fmt.Errorf("pg: %d connections; there may be 1 to %d", o.Conns, maxConns)
	case o.Try < 0 || o.Patience < 0:
		return errors.New("pg: a time is below 0")
	}
	return nil
}

// start looks at the database before it changes anything in it.
func (b *Backend) start(ctx context.Context) error {
	if err := b.notPooled(ctx); err != nil {
		return err
	}
	facts, err := b.facts(ctx)
	if err != nil {
		return err
	}
	if err := facts.refusal(b.o); err != nil {
		return err
	}
	if err := b.migrate(ctx); err != nil {
		return err
	}
	_, err = b.Promise(ctx) // now with the rights to the tables
	return err
}

// Journal implements cluster.Backend.
func (b *Backend) Journal(ctx context.Context, name string) (journal.Journal, error) {
	l, err := b.open(ctx, name)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Blobs implements cluster.Backend.
func (b *Backend) Blobs() blobs.Blobs { return blobRows{b} }

// Leases implements cluster.Backend.
func (b *Backend) Leases() cluster.Leases { return leaseRows{b} }

// Close lets go of the database. Appends that are under way end as if their contexts had ended.
func (b *Backend) Close() error {
	b.cancel()
	b.ended.Wait()
	b.pool.Close()
	b.small.Close()
	return nil
}

// full is ErrFull with a cause.
func full(err error) error { return fmt.Errorf("%w: %w", journal.ErrFull, err) }

// durabilities are the values of synchronous_commit. With "off", a crash of the database may lose the last acknowledged commits, up to
// three times its wal_writer_delay (0.6 s), and a standby gets them later. The order is kept.
var durabilities = map[queue.Durability]string{queue.Full: "on", queue.Relaxed: "off"}
