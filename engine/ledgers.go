package engine

import (
	"context"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/sdk/api"
)

// LedgerOrder is in which order the tenants of a ledger are listed.
type LedgerOrder = inspect.LedgerOrder

// The orders of a ledger's tenants; package inspect says what each means.
const (
	ByReceived = inspect.ByReceived
	ByBehind   = inspect.ByBehind
	ByAhead    = inspect.ByAhead
)

// Ledgers are the Fair blocks that are in use in a queue, by the text of their branches, the outer ones first.
func (q *Queue) Ledgers(ctx context.Context) ([]api.Ledger, error) {
	return q.shard.Inspect.Ledgers(ctx)
}

// LedgerTenants lists up to limit (1 to queue.MaxListLimit; 0: 100) tenants of a ledger: all, or those of one value. found is false when no
// ledger in use has the id.
func (q *Queue) LedgerTenants(ctx context.Context, id string, order LedgerOrder, only *queue.MetaValue, limit int) (
	list api.LedgerTenants, found bool, err error) {
	if limit, err = validLimit(limit); err != nil {
		return list, false, err
	}
	list, found, err = q.shard.Inspect.Tenants(ctx, id, order, only, limit)
	list.At = api.At(q.e.options.Now())
	list.LatelySince = q.past.tell(id, &list).API()
	return list, found, err
}
