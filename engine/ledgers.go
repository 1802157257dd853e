package engine

import (
	"context"
	"strings"
	"sync"
	"time"

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
	list, err := q.shard.Inspect.Ledgers(ctx)
	if s := q.many.Load(); s != nil && err == nil {
		overShards(s, list)
	}
	return list, err
}

// tenantsOf lists the tenants of a ledger: of the one of all shards of the queue, if there is one.
func tenantsOf(ctx context.Context, q *Queue, id string, order LedgerOrder, only *queue.MetaValue, most int) (
	list api.LedgerTenants, found bool, err error) {
	if s := q.many.Load(); s != nil {
		if list, found = tenantsOverShards(s, id, order, only, most); found {
			return list, true, nil
		}
	}
	return q.shard.Inspect.Tenants(ctx, id, order, only, most)
}

// LedgerTenants lists up to limit (1 to queue.MaxListLimit; 0: 100) tenants of a ledger: all, or those of one value. found is false when no
// ledger in use has the id.
func (q *Queue) LedgerTenants(ctx context.Context, id string, order LedgerOrder, only *queue.MetaValue, limit int) (
	list api.LedgerTenants, found bool, err error) {
	if limit, err = validLimit(limit); err != nil {
		return list, false, err
	}
	list, found, err = tenantsOf(ctx, q, id, order, only, limit)
	list.At = api.At(q.e.options.Now())
	list.LatelySince = q.past.tell(id, &list).API()
	return list, found, err
}

// The bounds of the past that is kept of ledgers, to say what tenants received and were entitled to lately. Once a minute, a reading keeps
// the tenants that received most of each ledger in use. That is half a megabyte for a ledger with many tenants.
const (
	ledgerEvery = time.Minute
	ledgerKept  = 11 // readings: ten minutes
	ledgersKept = 8
	tenantsKept = 1000
)

// ledgerPast are the readings of a queue's ledgers, by id.
type ledgerPast struct {
	mu    sync.Mutex
	of    map[string][]ledgerReading
	taken uint64 // reservations until the last reading: without new ones nothing changed
}

type ledgerReading struct {
	at    queue.Time
	whole bool                        // the ledger had no other tenants
	sum   api.TenantLately            // of all tenants
	of    map[string]api.TenantLately // since a tenant was first heard of, by its latelyKey
}

// latelyKey names a tenant among those of its ledger.
func latelyKey(t *api.LedgerTenant) string {
	var b strings.Builder
	write := func(value *queue.MetaValue) {
		if value != nil {
			b.WriteString("=" + value.Quoted())
		}
		b.WriteByte(0)
	}
	for i := range t.Around {
		write(t.Around[i].Value)
	}
	write(t.Value)
	return b.String()
}

// readLedgers takes a reading of the ledgers of queues.
func readLedgers(ctx context.Context, queues []*Queue, now queue.Time) {
	for _, q := range queues {
		taken := q.shard.Stats().ReservedTotal
		q.past.mu.Lock()
		idle := taken == q.past.taken && len(q.past.of) == 0
		q.past.taken = taken
		q.past.mu.Unlock()
		if idle {
			continue
		}
		ledgers, err := q.shard.Inspect.Ledgers(ctx)
		if err != nil {
			continue // it closes, or is asked too much: there is another minute
		}
		fresh := map[string]ledgerReading{}
		for i := range ledgers[:min(len(ledgers), ledgersKept)] {
			if r, found := q.readLedger(ctx, ledgers[i].ID, now); found {
				fresh[ledgers[i].ID] = r
			}
		}
		q.past.add(fresh)
	}
}

func (q *Queue) readLedger(ctx context.Context, id string, now queue.Time) (r ledgerReading, found bool) {
	list, found, err := tenantsOf(ctx, q, id, inspect.ByReceived, nil, tenantsKept)
	if err != nil || !found {
		return r, false
	}
	r = ledgerReading{at: now, whole: list.Whole && list.Tenants == len(list.Items),
		sum: api.TenantLately{Received: list.Received, Entitled: list.Entitled}, of: make(map[string]api.TenantLately, len(list.Items))}
	for i := range list.Items {
		t := &list.Items[i]
		r.of[latelyKey(t)] = api.TenantLately{Received: t.Received, Entitled: t.Entitled}
	}
	return r, true
}

// add keeps the readings of the ledgers that are in use, and forgets the others.
func (p *ledgerPast) add(fresh map[string]ledgerReading) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := make(map[string][]ledgerReading, len(fresh))
	for id, r := range fresh {
		list := append(p.of[id], r)
		of[id] = list[max(0, len(list)-ledgerKept):]
	}
	p.of = of
}

// tell adds to tenants what they received and were entitled to since the oldest reading that is kept, and returns its time; 0: there is
// none. A tenant that is known to have been absent then begins at nothing; so does one that was forgotten and came back.
func (p *ledgerPast) tell(id string, list *api.LedgerTenants) (since queue.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	readings := p.of[id]
	if len(readings) == 0 {
		return 0
	}
	first := readings[0]
	list.Lately = &api.TenantLately{Received: max(0, list.Received-first.sum.Received), Entitled: max(0, list.Entitled-first.sum.Entitled)}
	for i := range list.Items {
		t := &list.Items[i]
		was, there := first.of[latelyKey(t)]
		if !there && !first.whole {
			continue
		}
		if t.Received < was.Received {
			was = api.TenantLately{}
		}
		t.Lately = &api.TenantLately{Received: t.Received - was.Received, Entitled: max(0, t.Entitled-was.Entitled)}
	}
	return first.at
}
