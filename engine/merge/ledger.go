package merge

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Ledger says whose turn it is among the tenants of a Fair branch, whichever shards have their work. Each shard reports
// how its part of each tenant stands.
//
//	a tenant has something to take in some shard     ─► it competes
//	limits hold all of it back, in all of its shards ─► it is blocked, and keeps its lag
//	it has nothing in any shard                      ─► it leaves, and owes what it got ahead
//
// Shards are numbered from 1 on. It has no lock.
type Ledger struct {
	fair.Ledger
	Key  queue.MetaKey // "": every submission is a tenant
	Time bool          // consumer time is shared, not chunks

	tenants []tenant
	numbers map[backlog.TenantName]uint32
	free    []uint32
	sweepAt int       // with so many tenants it looks for those that are gone
	pace    fair.Pace // of its tenants
}

// tenant is a tenant of all shards. The bits are shards.
type tenant struct {
	name   backlog.TenantName
	offers uint32 // those in which it has something to take
	gated  uint32 // those in which limits hold all of it back
	known  bool   // the number is given
	pace   fair.Pace
}

// NewLedger is one of a branch, which has no tenants yet.
func NewLedger(branch *strategy.Branch) *Ledger {
	x := &Ledger{Time: branch.Cost == strategy.ByTime, numbers: map[backlog.TenantName]uint32{}, sweepAt: sweepFrom}
	if x.Time {
		x.Unit = fair.Second
	}
	if branch.Fair != strategy.SubmissionKey {
		x.Key = branch.Fair
	}
	return x
}

// Hear takes in news of the tenants in one shard. With fresh, the news are complete, and replace earlier reports of the shard.
func (x *Ledger) Hear(news []backlog.TenantNews, shard int, fresh bool) {
	bit := uint32(1) << (shard - 1)
	if fresh {
		for n := range x.tenants {
			t := &x.tenants[n]
			t.offers, t.gated = t.offers&^bit, t.gated&^bit
		}
	}
	for i := range news {
		x.note(&news[i], bit)
	}
	if fresh {
		for n := range x.tenants {
			x.agree(uint32(n))
		}
	}
}

// note keeps what a shard has reported of a tenant.
func (x *Ledger) note(news *backlog.TenantNews, bit uint32) {
	number, known := x.numbers[news.TenantName]
	if !known && !news.Offers && !news.Gated {
		return // it came and went
	}
	if !known {
		number = x.add(news.TenantName)
	}
	t := &x.tenants[number]
	t.offers, t.gated = t.offers&^bit, t.gated&^bit
	switch {
	case news.Offers:
		t.offers |= bit
	case news.Gated:
		t.gated |= bit
	}
	if news.Weight > 0 {
		x.SetWeight(number, news.Weight)
	}
	if news.Settled != 0 {
		x.Correct(number, max(0, -news.Settled), max(0, news.Settled))
	}
	if news.Ended > 0 {
		seconds := float32(news.Held.Seconds() / float64(news.Ended))
		t.pace.Learn(seconds)
		x.pace.Learn(seconds)
		x.Expect(number, fair.Milliseconds(fair.Likely(t.pace, x.pace)))
	}
	x.agree(number)
}

// agree makes the ledger agree with the state of a tenant in all shards.
func (x *Ledger) agree(number uint32) {
	switch t := &x.tenants[number]; {
	case !t.known:
	case t.offers != 0:
		x.Join(number)
	case t.gated != 0:
		x.Block(number)
	default:
		x.Leave(number)
	}
}

// sweepFrom is the number of tenants from which on the ledger looks for those that are gone.
const sweepFrom = 1024

// add gives a tenant a number.
func (x *Ledger) add(name backlog.TenantName) (number uint32) {
	if len(x.numbers) >= x.sweepAt {
		x.sweep()
	}
	if last := len(x.free) - 1; last >= 0 {
		number, x.free = x.free[last], x.free[:last]
	} else {
		number = uint32(len(x.tenants))
		x.tenants = append(x.tenants, tenant{})
	}
	x.tenants[number] = tenant{name: name, known: true}
	x.numbers[name] = number
	return number
}

// sweep forgets the tenants that have nothing and owe nothing.
func (x *Ledger) sweep() {
	for n := range x.tenants {
		t, number := &x.tenants[n], uint32(n)
		if t.known && t.offers|t.gated == 0 && x.Info(number).State == fair.Idle {
			delete(x.numbers, t.name)
			x.Forget(number)
			*t = tenant{}
			x.free = append(x.free, number)
		}
	}
	x.sweepAt = max(sweepFrom, 2*len(x.numbers))
}

// TenantTurn is a tenant's turn. The tenant is charged before its chunk is taken, because the calls that follow the take must see the
// charge.
type TenantTurn struct {
	Name     backlog.TenantName
	Estimate uint32 // how long its chunk is likely to be held, in milliseconds
	number   uint32
}

// Begin is the turn of the tenant that comes next; false: none competes.
func (x *Ledger) Begin() (turn TenantTurn, ok bool) {
	number, ok := x.Pick()
	if !ok {
		return turn, false
	}
	turn = TenantTurn{x.tenants[number].name, fair.Likely(x.tenants[number].pace, x.pace), number}
	x.Charge(number, x.cost(&turn))
	return turn, true
}

// Fail takes back a turn that gave nothing. If the tenant still seems to have chunks, something that the shards do not know holds them
// back. Then the tenant is left out until Resume.
func (x *Ledger) Fail(turn *TenantTurn) (out bool) {
	x.Refund(turn.number, x.cost(turn))
	if out = x.tenants[turn.number].offers != 0; out {
		x.Block(turn.number)
	}
	return out
}

// Resume is the inverse of leaving a tenant out.
func (x *Ledger) Resume(turn *TenantTurn) { x.agree(turn.number) }

// In says whether the tenant has something to take in a shard.
func (x *Ledger) In(turn *TenantTurn, shard int) bool {
	return x.tenants[turn.number].offers&(1<<(shard-1)) != 0
}

// cost is the charge for a turn.
func (x *Ledger) cost(turn *TenantTurn) fair.Cost {
	if !x.Time {
		return fair.Chunk
	}
	return fair.Milliseconds(turn.Estimate)
}

// Each calls fn for the tenants that are not idle, of the `most` numbers from one on. more: there are others behind it.
func (x *Ledger) Each(from, most int, fn func(*backlog.Tenant)) (more bool) {
	for n := from; n < min(from+most, len(x.tenants)); n++ {
		if info := x.Info(uint32(n)); info.State != fair.Idle {
			t := &x.tenants[n]
			fn(&backlog.Tenant{Value: t.shown(), HasValue: !t.name.Lacking, Info: info})
		}
	}
	return from+most < len(x.tenants)
}

// shown is the value that an answer has of a tenant.
func (t *tenant) shown() queue.MetaValue {
	if t.name.Submission != 0 {
		return queue.StringValue(t.name.Submission.String())
	}
	return t.name.Value
}
