package together

// Rates by a key that is not the group, over all shards of a queue. Each shard keeps such a rate as if it had made all
// reservations itself, and hears of those of the others (package backlog, together_rates.go).
//
//	a reserve by the rate ─► all shards know all ─► take ─► the others hear of it ─► the next reserve
//	other reserves        ─► the others hear of them before the next reserve by the rate, or after hearOfRates
//
// So no rate is exceeded. A shard counts the reservations of the others when it hears of them, so it may hold a value back
// for a moment longer: by hearOfRates at most.
//
// A shard that restarts knows nothing of what happened before. Its values count as if they had used their burst, in all
// shards, as on a queue of one shard.

import (
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/strategy"
)

// keptFor is how long a rate is kept at least after the last call that used it.
const keptFor = time.Minute

// keep makes the shards keep the rates of a call. x.mu is held.
func (x *Counts) keep(limits []strategy.Limit) {
	if len(limits) == 0 {
		return
	}
	now := x.clock()
	for _, l := range limits {
		i := slices.Index(x.what.Rates, l)
		if i < 0 {
			i = len(x.used)
			x.used = append(x.used, now)
			x.change(x.what.Keys, append(slices.Clone(x.what.Rates), l))
		}
		x.used[i] = now
	}
	x.listening(func() { x.paced = true })
}

// Kept are the rates that the shards keep together, and whether they hear of each other without a call.
func (x *Counts) Kept() (rates []strategy.Limit, hearing bool) {
	x.Locked(func() { rates = x.what.Rates })
	x.listening(func() { hearing = x.hearing })
	return rates, hearing
}

// letGo makes the shards forget rates that no call has used for so long that no reservation counts any more. x.mu is held.
func (x *Counts) letGo() {
	now := x.clock()
	var rates []strategy.Limit
	var used []time.Time
	for i, l := range x.what.Rates {
		if _, slack := l.Pace(); now.Sub(x.used[i]).Abs() <= max(keptFor, 2*(l.Per+slack)) {
			rates, used = append(rates, l), append(used, x.used[i])
		}
	}
	if len(rates) < len(x.used) {
		x.used = used
		x.change(x.what.Keys, rates)
	}
	if len(rates) == 0 {
		x.listening(func() { x.paced = false })
	}
}

// beginRates begins rates that some shards have not kept so far. x.mu is held.
//
// If all shards begin a rate, a value owes the sum of its debts in all of them. If only some begin it, these have restarted: then the
// highest debt that a shard knows is right, and the last reservations of the restarted shards are unknown.
func (x *Counts) beginRates(all []*shard.Shard) error {
	lost, some := false, false
	for i, s := range all {
		if c := &x.shards[i]; s != nil {
			lost, some = lost || c.lost || c.missed, some || len(c.began) > 0
		}
	}
	if !lost && !some {
		return nil
	}
	for _, l := range x.what.Rates {
		began, present := 0, 0
		for i, s := range all {
			if s == nil {
				continue
			}
			present++
			if slices.Contains(x.shards[i].began, l) {
				began++
			}
		}
		if began == 0 && !lost {
			continue
		}
		if err := x.beginRate(all, l, lost || began < present); err != nil {
			return err
		}
	}
	for i, s := range all {
		if c := &x.shards[i]; s != nil {
			c.lost, c.missed, c.began = false, false, nil
		}
	}
	return nil
}

// beginRate tells all shards the debts of the values of a rate. unknown: some shards have reservations that no one knows.
func (x *Counts) beginRate(all []*shard.Shard, l strategy.Limit, unknown bool) error {
	owed := map[queue.MetaValue]int64{}
	now := x.clock().UnixNano()
	for _, s := range all {
		if s == nil {
			continue
		}
		list, err := shard.Owed(s, l)
		if err != nil {
			return err
		}
		for _, o := range list {
			if at, is := owed[o.Value]; is && !unknown {
				owed[o.Value] = at + max(0, o.At-now)
			} else {
				owed[o.Value] = max(at, o.At)
			}
		}
	}
	list := make([]backlog.Owed, 0, len(owed))
	for value, at := range owed {
		list = append(list, backlog.Owed{Value: value, At: at})
	}
	for _, s := range all {
		if s == nil {
			continue
		}
		if err := shard.Owes(s, l, list, unknown); err != nil {
			return err
		}
	}
	return nil
}
