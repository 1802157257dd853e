package engine

import (
	"context"

	"github.com/quern-queue/quern/engine/shard/inspect"
)

// Ledger is a Fair block that is in use, LedgerTenant one of its tenants, LedgerSums what all of them add up to.
type (
	Ledger       = inspect.Ledger
	LedgerTenant = inspect.LedgerTenant
	LedgerSums   = inspect.LedgerSums
	LedgerOrder  = inspect.LedgerOrder
)

// The orders of a ledger's tenants; package shard says what each means.
const (
	ByReceived = inspect.ByReceived
	ByBehind   = inspect.ByBehind
	ByAhead    = inspect.ByAhead
)

// Ledgers are the Fair blocks that are in use in a queue, by the text of their branches, the outer ones first.
func (q *Queue) Ledgers(ctx context.Context) ([]Ledger, error) {
	return q.shard.Inspect.Ledgers(ctx)
}

// LedgerTenants lists up to limit (1 to queue.MaxListLimit; 0: 100) tenants of a ledger. found is false when no ledger in use has
// the id.
func (q *Queue) LedgerTenants(ctx context.Context, id string, order LedgerOrder, limit int) (l Ledger,
	list []LedgerTenant, sums LedgerSums, found bool, err error) {
	if limit, err = validLimit(limit); err != nil {
		return l, nil, sums, false, err
	}
	return q.shard.Inspect.Tenants(ctx, id, order, limit)
}
