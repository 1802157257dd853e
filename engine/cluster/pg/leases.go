package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/queue"
)

// leaseRows keeps nodes and owners in rows, on its own connections, so that a beat does not wait for appends. Nothing here is synced,
// because nothing relies on it. A call makes one try, and so takes Options.Try at most: the caller knows when it is too late for another
// one.
type leaseRows struct{ b *Backend }

const (
	beatSQL = `WITH gone AS (DELETE FROM node WHERE seen < now() - interval '1 hour' AND name <> $1)
INSERT INTO node (name, url, counter, leaving, note, seen) SELECT $1, $2, $3, $4, $5, now()
WHERE (SELECT count(*) FROM node WHERE name <> $1 AND seen >= now() - interval '1 hour') < $6
ON CONFLICT (name) DO UPDATE SET url = excluded.url, counter = excluded.counter, leaving = excluded.leaving, note = excluded.note,
	seen = excluded.seen
WHERE node.counter <= excluded.counter OR node.counter >> 32 <> excluded.counter >> 32`

	nodesSQL = "SELECT name, url, counter, leaving, note FROM node ORDER BY name"

	setOwnerSQL = `INSERT INTO owner AS o (shard, epoch, node) VALUES ($1, $2, $3)
ON CONFLICT (shard) DO UPDATE SET epoch = excluded.epoch, node = excluded.node
WHERE o.epoch < excluded.epoch OR o.epoch = excluded.epoch AND o.node = excluded.node`

	ownersSQL = "SELECT shard, epoch, node FROM owner"
)

func (x leaseRows) once(ctx context.Context, f func(ctx context.Context, conn *pgx.Conn) error) error {
	if err := x.b.once(ctx, x.b.small, 0, f); err != nil {
		return explain(err)
	}
	return nil
}

// change runs a statement that changes one row, and says whether it did.
func (x leaseRows) change(ctx context.Context, sql string, args ...any) (changed bool, err error) {
	err = x.once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, sql, args...)
		changed = tag.RowsAffected() == 1
		return err
	})
	return changed, err
}

// Beat implements cluster.Leases.
func (x leaseRows) Beat(ctx context.Context, n cluster.Node) error {
	if err := n.Check(); err != nil {
		return err
	}
	changed, err := x.change(ctx, beatSQL, n.Name, n.URL, int64(n.Counter), n.Leaving, n.Note, cluster.MaxNodes)
	if err == nil && !changed { // or it came late, and no one waits for the answer
		err = cluster.ErrTooManyNodes
	}
	return err
}

// Nodes implements cluster.Leases.
func (x leaseRows) Nodes(ctx context.Context) (list []cluster.Node, err error) {
	err = x.once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, nodesSQL)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (n cluster.Node, err error) {
			var counter int64
			err = row.Scan(&n.Name, &n.URL, &counter, &n.Leaving, &n.Note)
			n.Counter = uint64(counter)
			return n, err
		})
		return err
	})
	return list, err
}

// SetOwner implements cluster.Leases.
func (x leaseRows) SetOwner(ctx context.Context, shard queue.ShardID, epoch uint32, node string) error {
	if err := cluster.CheckName(node); err != nil {
		return fmt.Errorf("pg: an owner: %w", err)
	}
	if shard >= queue.MaxShards {
		return fmt.Errorf("pg: there is no shard %d", shard)
	}
	changed, err := x.change(ctx, setOwnerSQL, int32(shard), int64(epoch), node)
	if err == nil && !changed {
		err = fmt.Errorf("pg: shard %d, epoch %d: %w", shard, epoch, cluster.ErrNewerOwner)
	}
	return err
}

// Owners implements cluster.Leases.
func (x leaseRows) Owners(ctx context.Context) (map[queue.ShardID]cluster.Owner, error) {
	owners := map[queue.ShardID]cluster.Owner{}
	err := x.once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, ownersSQL)
		if err != nil {
			return err
		}
		var shard int32
		var epoch int64
		var node string
		_, err = pgx.ForEachRow(rows, []any{&shard, &epoch, &node}, func() error {
			owners[queue.ShardID(shard)] = cluster.Owner{Epoch: uint32(epoch), Node: node}
			return nil
		})
		return err
	})
	return owners, err
}
