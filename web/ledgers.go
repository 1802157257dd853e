package web

// The ledgers of Fair blocks: what each tenant got, and what it is owed. Read-only. A list has no
// place of its own to continue from, so it is sorted by branch and depth first, and the cursor is a
// hash of these.

import (
	"context"
	"fmt"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const ledgerAbout = "Shares per tenant. `sort` is received (the largest first), behind (furthest behind first) " +
	"or ahead. No tenant is ever more than a few chunks from an ideal division: STRATEGIES.md has the numbers."

// ledgers lists the Fair blocks in use. Views come and go between two pages, so a ledger may be missed or be new, but
// none is listed twice.
func (x queues) ledgers(ctx context.Context, q *engine.Queue, in *listInput) (*output[api.Page[api.Ledger]], error) {
	list, err := q.Ledgers(ctx)
	if err != nil {
		return nil, err
	}
	byBranch := func(l *api.Ledger) string { return hashed(l.Branch) + fmt.Sprintf(".%04d.", l.Depth) + l.ID }
	arrange(list, byBranch)
	return answeredList(list, in.Cursor, byBranch, asIs)
}

// getLedgerInput names a ledger by its id. There are no pages: the tenants that are furthest from their share matter,
// and the three orders have them first. `value` finds any other tenant.
type getLedgerInput struct {
	QueuePath
	Ledger string `path:"ledger" maxLength:"32" doc:"Id of the ledger"`
	Sort   string `query:"sort" enum:"received,behind,ahead" default:"received" doc:"Order of the list"`
	Value  string `query:"value" maxLength:"1024" doc:"Only tenants of this value, written as in paths: 7, s:7 or acme"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most tenants"`
}

func (x queues) ledger(ctx context.Context, q *engine.Queue, in *getLedgerInput) (*output[api.LedgerTenants], error) {
	// otherwise ByReceived
	order := map[string]engine.LedgerOrder{"behind": engine.ByBehind, "ahead": engine.ByAhead}[in.Sort]
	var only *queue.MetaValue
	if in.Value != "" {
		value, err := queryValue("/query/value", in.Value)
		if err != nil {
			return nil, err
		}
		only = &value
	}
	v, found, err := q.LedgerTenants(ctx, in.Ledger, order, only, in.Limit)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, newProblem(codeNotFound, "No Fair block in use has this id: a block that has not been used for "+
			"a while is removed to make room for others. List the ledgers again.")
	}
	first := func(*api.LedgerTenant) string { return "" } // a list without a next page
	v.Items, _, err = pageOf(v.Items, "", first, asIs)
	return answered(v, err, asIs)
}
