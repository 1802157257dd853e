package engine

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
)

// How much is kept of the past of ledgers, to say what tenants received and were entitled to lately: of each of the ledgers that were in
// use, the tenants that received most, once a minute. That is half a megabyte for a ledger with many tenants.
const (
	ledgerEvery = time.Minute
	ledgerKept  = 11 // readings: ten minutes
	ledgersKept = 8
	tenantsKept = 1000
)

// Lately is what tenants received and were entitled to since a moment of up to ten minutes ago, by LatelyKey.
type Lately struct {
	Since queue.Time // 0: nothing is known yet
	Of    map[string]Due
}

// Due is what one tenant received and was entitled to.
type Due struct{ Received, Entitled float64 }

// ledgerPast are the readings of a queue's ledgers, by id.
type ledgerPast struct {
	mu    sync.Mutex
	of    map[string][]ledgerReading
	taken uint64 // reservations until the last reading: without new ones nothing changed
}

type ledgerReading struct {
	at    queue.Time
	whole bool // the ledger had no other tenants
	of    map[string]Due
}

// LatelyKey names a tenant among those of its ledger.
func LatelyKey(t *LedgerTenant) string {
	var b strings.Builder
	for i := range t.Around {
		b.WriteString(t.Around[i].Value.Quoted() + "\x00")
	}
	if t.HasValue {
		b.WriteString("=" + t.Value.Quoted())
	}
	return b.String()
}

// readLedgers notes how tenants stand in the ledgers of queues.
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
	_, list, sums, found, err := q.shard.Inspect.Tenants(ctx, id, inspect.ByReceived, nil, tenantsKept)
	if err != nil || !found {
		return r, false
	}
	r = ledgerReading{at: now, whole: sums.Whole && sums.Tenants == len(list), of: make(map[string]Due, len(list))}
	for i := range list {
		r.of[LatelyKey(&list[i])] = Due{list[i].Received, list[i].Entitled}
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

// since compares tenants with the oldest reading that is kept. A tenant that was not there then begins at nothing, if it is known that it
// was not there; one that was forgotten and came back does too.
func (p *ledgerPast) since(id string, list []LedgerTenant) Lately {
	p.mu.Lock()
	defer p.mu.Unlock()
	readings := p.of[id]
	if len(readings) == 0 {
		return Lately{}
	}
	first := readings[0]
	out := Lately{Since: first.at, Of: make(map[string]Due, len(list))}
	for i := range list {
		key := LatelyKey(&list[i])
		was, there := first.of[key]
		if !there && !first.whole {
			continue
		}
		if list[i].Received < was.Received {
			was = Due{}
		}
		out.Of[key] = Due{list[i].Received - was.Received, max(0, list[i].Entitled-was.Entitled)}
	}
	return out
}
