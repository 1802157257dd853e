package web

import (
	"context"
	"fmt"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

const ledgerAbout = "`sort` is received (who got most), behind (who is owed most) or ahead. Of what an ideal " +
	"division would have handed out, no tenant is ever more than a few chunks away: GUARANTEES.md has the numbers."

func (x queues) ledgers(ctx context.Context, q *engine.Queue, in *listInput) (*output[api.Page[api.Ledger]], error) {
	list, err := q.Ledgers(ctx)
	if err != nil {
		return nil, err
	}
	byBranch := func(l *api.Ledger) string { return hashed(l.Branch) + fmt.Sprintf(".%04d.", l.Depth) + l.ID }
	arrange(list, byBranch)
	return answeredList(list, in.Cursor, byBranch, asIs)
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
	v.Sentence = fairness(&v)
	first := func(*api.LedgerTenant) string { return "" } // a list without a next page
	v.Items, _, err = pageOf(v.Items, "", first, asIs)
	return answered(v, err, asIs)
}

// fairness says in one sentence how far tenants are from their due.
func fairness(list *api.LedgerTenants) string {
	unit := "chunks"
	if list.Ledger.Cost == strategy.ByTime.String() {
		unit = "s"
	}
	var text string
	switch behind := list.MostBehind; {
	case list.Tenants == 0:
		return "No tenant has work or a claim now."
	case behind <= engine.LeastLag:
		text = "No one is owed anything"
	default:
		text = fmt.Sprintf("No one is owed more than %.2f %s", behind, unit)
	}
	if !list.Whole {
		text += fmt.Sprintf(", of the %d tenants that were looked at", list.Tenants)
	}
	switch blocked := list.Ledger.Blocked; blocked {
	case 0:
	case 1:
		text += "; 1 tenant is held by limits"
	default:
		text += fmt.Sprintf("; %d tenants are held by limits", blocked)
	}
	return text + "."
}
