package engine

import (
	"context"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/sdk/api"
)

// Ledger is a Fair block that is in use, LedgerTenant one of its tenants.
type (
	Ledger       = inspect.Ledger
	LedgerTenant = inspect.LedgerTenant
	LedgerOrder  = inspect.LedgerOrder
)

// The orders of a ledger's tenants; package shard says what each means.
const (
	ByReceived = inspect.ByReceived
	ByBehind   = inspect.ByBehind
	ByAhead    = inspect.ByAhead
)

// LeastLag is the lag up to which a tenant of a ledger is owed nothing.
var LeastLag = inspect.LeastLag

// Ledgers are the Fair blocks that are in use in a queue, by the text of their branches, the outer ones first.
func (q *Queue) Ledgers(ctx context.Context) ([]Ledger, error) {
	return q.shard.Inspect.Ledgers(ctx)
}

// LedgerView is how the tenants of a ledger stand, and what they received and were entitled to lately.
type LedgerView struct {
	Ledger Ledger
	Items  []LedgerTenant
	Sums   api.LedgerTenants // but for what is about single tenants
	Lately Lately
}

// LedgerTenants lists up to limit (1 to queue.MaxListLimit; 0: 100) tenants of a ledger: all, or those of one value. found is false when no
// ledger in use has the id.
func (q *Queue) LedgerTenants(ctx context.Context, id string, order LedgerOrder, only *queue.MetaValue, limit int) (
	v LedgerView, found bool, err error) {
	if limit, err = validLimit(limit); err != nil {
		return v, false, err
	}
	v.Ledger, v.Items, v.Sums, found, err = q.shard.Inspect.Tenants(ctx, id, order, only, limit)
	v.Lately = q.past.since(id, v.Items)
	return v, found, err
}
