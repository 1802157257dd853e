package web

import (
	"context"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

const ledgerAbout = "`sort` is received (who got most), behind (who is owed most) or ahead. Of what an ideal " +
	"division would have handed out, no tenant is ever more than a few chunks away: GUARANTEES.md has the numbers."

func (x queues) ledgers(ctx context.Context, q *engine.Queue, _ *QueuePath) (*output[api.Page[api.Ledger]], error) {
	list, err := q.Ledgers(ctx)
	return answeredList(list, err, apiLedger)
}

type getLedgerInput struct {
	QueuePath
	Ledger string `path:"ledger" maxLength:"32" doc:"Id of the ledger"`
	Sort   string `query:"sort" enum:"received,behind,ahead" default:"received" doc:"Whose turn it is to be listed first"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most tenants"`
}

func (x queues) ledger(ctx context.Context, q *engine.Queue, in *getLedgerInput) (*output[api.LedgerTenants], error) {
	order := map[string]engine.LedgerOrder{"behind": engine.ByBehind, "ahead": engine.ByAhead}[in.Sort] // otherwise ByReceived
	l, list, sums, found, err := q.LedgerTenants(ctx, in.Ledger, order, in.Limit)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, newProblem(codeNotFound, "No Fair block in use has this id: a block that has not been used for "+
			"a while is removed to make room for others. List the ledgers again.")
	}
	out := &output[api.LedgerTenants]{Body: api.LedgerTenants{
		Ledger: apiLedger(&l), At: api.Time{Time: x.now()}, Received: sums.Received, Entitled: sums.Entitled, Lag: sums.Lag,
		MostBehind: sums.MostBehind, MostAhead: sums.MostAhead, Tenants: sums.Tenants, Whole: sums.Whole,
		Items: make([]api.LedgerTenant, len(list)),
	}}
	for i := range list {
		t := &list[i]
		one := api.LedgerTenant{State: t.State.String(), Weight: float64(t.Weight) / 1000, Share: t.Share,
			Received: t.Received, Entitled: t.Entitled, Lag: t.Lag, Value: tenantValue(&t.Tenant)}
		for j := range t.Around {
			a := &t.Around[j]
			one.Around = append(one.Around, api.Tenant{Value: tenantValue(a), State: a.State.String(),
				Weight: float64(a.Weight) / 1000, Share: a.Share, Lag: a.Lag})
		}
		out.Body.Items[i] = one
	}
	return out, nil
}

func tenantValue(t *backlog.Tenant) *api.MetaValue {
	if !t.HasValue {
		return nil
	}
	value := apiValue(t.Value)
	return &value
}

func apiLedger(l *engine.Ledger) api.Ledger {
	out := api.Ledger{ID: l.ID, Branch: l.Branch, Key: l.Key, Cost: strategy.ByChunk.String(), Depth: l.Depth,
		Places: l.Shares, Active: l.Active, Owing: l.Owing, Blocked: l.Blocked}
	if out.Key == "" {
		out.Key = strategy.SubmissionKey
	}
	if l.Time {
		out.Cost = strategy.ByTime.String()
	}
	return out
}
