package clustertest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/queue"
)

// Table is the leases of a cluster in memory. Several nodes of one process may share it.
type Table struct {
	mu     sync.Mutex
	nodes  map[string]cluster.Node
	owners map[queue.ShardID]cluster.Owner
	cut    bool
}

// NewTable is a table of no nodes.
func NewTable() *Table {
	return &Table{nodes: map[string]cluster.Node{}, owners: map[queue.ShardID]cluster.Owner{}}
}

var errCut = errors.New("the table cannot be reached")

// Cut makes all calls fail from now on, or succeed again.
func (t *Table) Cut(cut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cut = cut
}

// do runs a call, unless there is a reason against it.
func (t *Table) do(ctx context.Context, call func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if t.cut {
		return errCut
	}
	return call()
}

// Beat implements cluster.Leases.
func (t *Table) Beat(ctx context.Context, n cluster.Node) error {
	return t.do(ctx, func() error {
		t.nodes[n.Name] = n
		return n.Check()
	})
}

// Nodes implements cluster.Leases.
func (t *Table) Nodes(ctx context.Context) (list []cluster.Node, err error) {
	err = t.do(ctx, func() error {
		list = slices.SortedFunc(maps.Values(t.nodes), func(a, b cluster.Node) int { return strings.Compare(a.Name, b.Name) })
		return nil
	})
	return list, err
}

// SetOwner implements cluster.Leases.
func (t *Table) SetOwner(ctx context.Context, shard queue.ShardID, epoch uint32, node string) error {
	return t.do(ctx, func() error {
		was := t.owners[shard]
		if was.Epoch > epoch || was.Epoch == epoch && was.Node != node {
			return cluster.ErrNewerOwner
		}
		t.owners[shard] = cluster.Owner{Epoch: epoch, Node: node}
		return nil
	})
}

// Owners implements cluster.Leases.
func (t *Table) Owners(ctx context.Context) (owners map[queue.ShardID]cluster.Owner, err error) {
	err = t.do(ctx, func() error {
		owners = maps.Clone(t.owners)
		return nil
	})
	return owners, err
}
