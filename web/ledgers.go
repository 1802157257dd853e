package web

import (
	"context"
	"fmt"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
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
	Value  string `query:"value" maxLength:"1024" doc:"Only tenants of this value, written as in paths: 7, s:7 or acme"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most tenants"`
}

func (x queues) ledger(ctx context.Context, q *engine.Queue, in *getLedgerInput) (*output[api.LedgerTenants], error) {
	order := map[string]engine.LedgerOrder{"behind": engine.ByBehind, "ahead": engine.ByAhead}[in.Sort] // otherwise ByReceived
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
	list := v.Items
	out := &output[api.LedgerTenants]{v.Sums}
	out.Body.Ledger, out.Body.At, out.Body.LatelySince = apiLedger(&v.Ledger), api.Time{Time: x.now()}, v.Lately.Since.API()
	out.Body.Sentence, out.Body.Items = fairness(&v.Ledger, &v.Sums), make([]api.LedgerTenant, len(list))
	for i := range list {
		t := &list[i]
		one := api.LedgerTenant{State: t.State.String(), Weight: float64(t.Weight) / 1000, Share: t.Share,
			Received: t.Received, Entitled: t.Entitled, Lag: t.Lag, Value: tenantValue(&t.Tenant)}
		if due, known := v.Lately.Of[engine.LatelyKey(t)]; known {
			one.Lately = &api.TenantLately{Received: due.Received, Entitled: due.Entitled}
		}
		for j := range t.Around {
			one.Around = append(one.Around, apiTenant(&t.Around[j], ""))
		}
		out.Body.Items[i] = one
	}
	return out, nil
}

// fairness says in one sentence how far tenants are from their due.
func fairness(l *engine.Ledger, sums *api.LedgerTenants) string {
	unit := "chunks"
	if l.Time {
		unit = "s"
	}
	var text string
	switch behind := sums.MostBehind; {
	case sums.Tenants == 0:
		return "No tenant has work or a claim now."
	case behind <= engine.LeastLag:
		text = "No one is owed anything"
	default:
		text = fmt.Sprintf("No one is owed more than %.2f %s", behind, unit)
	}
	if !sums.Whole {
		text += fmt.Sprintf(", of the %d tenants that were looked at", sums.Tenants)
	}
	switch l.Blocked {
	case 0:
	case 1:
		text += "; 1 tenant is held by limits"
	default:
		text += fmt.Sprintf("; %d tenants are held by limits", l.Blocked)
	}
	return text + "."
}

func tenantValue(t *backlog.Tenant) *api.MetaValue {
	if !t.HasValue {
		return nil
	}
	return &t.Value
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
