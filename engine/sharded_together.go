package engine

// Limits by a key that is not the group. A value of such a key can have chunks in several shards, so the shards count it
// together: each shard's counters have what the other shards have in flight, too (package backlog, together.go).
//
//	reserve by user ─► lock ─► shards tell what changed ─► each hears of the others' changes ─► take ─► … ─► unlock
//
// The lock is held by one reserve at a time of those that count so. What it takes is told to the other shards before the
// next of them is asked. Other reserves and results need no lock: what they take or finish is found when the next reserve
// begins. So no limit is exceeded, and a finished chunk may count for a moment longer.
//
// Rates by such a key are kept in the same way (sharded_rates.go).
//
// All shards have to be on this node. A shard that does not serve keeps its last counts, so that limits hold without it.

import (
	"slices"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/strategy"
)

// together are the counts of some keys over all shards of a queue.
type together struct {
	s  *Sharded
	id uint64 // of this Sharded: a shard that counted for another one begins again

	mu     sync.Mutex // held by a reserve that counts so
	keys   []queue.MetaKey
	rates  []keptRate
	total  map[queue.MetaEntry]uint32
	fair   fairShares
	shards [queue.MaxQueueShards]counted

	waits   sync.Mutex
	waiting int  // calls that wait for less to be in flight; guarded by waits
	paced   bool // rates are kept; guarded by waits
	hearing bool // keepHearing runs; guarded by waits
}

// counted is what one shard counts.
type counted struct {
	own   map[queue.MetaEntry]uint32   // what it has in flight
	stale map[queue.MetaEntry]struct{} // counts of the others that it does not know yet
	taken []backlog.Takes              // reservations of the others that it does not know yet
	lost  bool                         // not all of its own reservations are known
	began []strategy.Limit             // rates that it has not kept with the others so far

	missed bool // it did not serve, and no one kept what it would have heard
}

// crossing is what a plan counts by other keys than the group.
type crossing struct {
	keys  []queue.MetaKey // whose chunks in flight are counted, in order
	rates []strategy.Limit
	fair  bool // a ledger of all shards says whose turn it is
}

func (c *crossing) any() bool { return c.counts() || c.fair }

// counts says that the shards have to hear of each other.
func (c *crossing) counts() bool { return len(c.keys)+len(c.rates) > 0 }

// crossingOf is what a plan counts by other keys than the group.
func crossingOf(plan *strategy.Plan) (c crossing) {
	for i := range plan.Branches {
		c.fair = c.fair || plan.Branches[i].Fair != ""
		plan.Branches[i].Leaves(func(leaf *strategy.Branch) bool {
			for _, l := range leaf.Limits {
				switch {
				case l.Key == queue.GroupKey:
				case l.Of == strategy.Rate:
					c.rates = append(c.rates, l)
				default:
					c.keys = append(c.keys, l.Key)
				}
			}
			if leaf.Fewest != "" && leaf.Fewest != queue.GroupKey {
				c.keys = append(c.keys, leaf.Fewest)
			}
			return true
		})
	}
	slices.Sort(c.keys)
	c.keys = slices.Compact(c.keys)
	return c
}

// during has all shards know all counts, and calls fn with the lock held. It does not if a shard may not know all that
// consumers hold until some moment (grace).
func (x *together) during(by *crossing, fn func()) (grace queue.Time, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.keep(by.rates)
	for _, key := range by.keys {
		if !slices.Contains(x.keys, key) { // from now on it is counted so, which costs the shards little
			x.keys = slices.Sorted(slices.Values(append(slices.Clone(x.keys), key)))
		}
	}
	if by.counts() {
		grace, err = x.hear()
	}
	if err == nil && grace == 0 {
		fn()
	}
	return grace, err
}

// hear has all shards know all counts. x.mu is held.
func (x *together) hear() (grace queue.Time, err error) {
	all, _ := x.s.shards()
	if x.total == nil {
		x.total = map[queue.MetaEntry]uint32{}
	}
	for i, q := range all {
		if q == nil {
			x.shards[i].taken, x.shards[i].missed = nil, true
			continue
		}
		until, err := x.listen(i, q)
		if err != nil {
			return 0, err
		}
		grace = max(grace, until)
	}
	if err := x.beginRates(all); err != nil {
		return 0, err
	}
	for i, q := range all {
		if q != nil {
			if err := x.tell(i, q); err != nil {
				return 0, err
			}
		}
	}
	return grace, nil
}

// hearOf has all shards know what one of them has counted since the last time. x.mu is held.
func (x *together) hearOf(number int) {
	all, _ := x.s.shards()
	if q := all[number-1]; q != nil {
		if _, err := x.listen(number-1, q); err != nil {
			return // the shard gives nothing any more
		}
	}
	for i, q := range all {
		if q != nil && i != number-1 {
			_ = x.tell(i, q)
		}
	}
}

// listen learns what a shard has counted.
func (x *together) listen(i int, q *Queue) (grace queue.Time, err error) {
	c := &x.shards[i]
	now, err := shard.CountTogether(q.shard, x.id, backlog.Together{Keys: x.keys, Rates: x.limits()})
	if err != nil {
		return 0, err
	}
	x.noteTaken(i, &now)
	if now.Fresh {
		known := map[queue.MetaEntry]struct{}{}
		for _, n := range now.Own {
			known[n.MetaEntry] = struct{}{}
		}
		for entry := range c.own {
			if _, is := known[entry]; !is {
				now.Own = append(now.Own, backlog.OwnCount{MetaEntry: entry})
			}
		}
		c.stale = map[queue.MetaEntry]struct{}{}
		for entry := range x.total {
			c.stale[entry] = struct{}{}
		}
	}
	for _, n := range now.Own {
		x.note(i, n)
	}
	return now.Grace, nil
}

// note keeps the count of a value in one shard, which the others have to know.
func (x *together) note(i int, n backlog.OwnCount) {
	c := &x.shards[i]
	before := c.own[n.MetaEntry]
	if n.InFlight == before {
		return
	}
	if c.own == nil {
		c.own = map[queue.MetaEntry]uint32{}
	}
	c.own[n.MetaEntry] = n.InFlight
	if n.InFlight == 0 {
		delete(c.own, n.MetaEntry)
	}
	x.total[n.MetaEntry] += n.InFlight - before
	if x.total[n.MetaEntry] == 0 {
		delete(x.total, n.MetaEntry)
	}
	for k := range int(x.s.count.Load()) {
		if k == i {
			continue
		}
		if x.shards[k].stale == nil {
			x.shards[k].stale = map[queue.MetaEntry]struct{}{}
		}
		x.shards[k].stale[n.MetaEntry] = struct{}{}
	}
}

// tell has a shard know what the others have in flight.
func (x *together) tell(i int, q *Queue) error {
	c := &x.shards[i]
	if len(c.stale)+len(c.taken) == 0 {
		return nil
	}
	counts := make([]backlog.OwnCount, 0, len(c.stale))
	for entry := range c.stale {
		counts = append(counts, backlog.OwnCount{MetaEntry: entry, InFlight: x.total[entry] - c.own[entry]})
	}
	clear(c.stale)
	taken := c.taken
	c.taken = nil
	return shard.CountOthers(q.shard, shard.Elsewhere{InFlight: counts, Taken: taken})
}

// hearEvery is how soon a call that waits learns that another shard has less in flight.
const hearEvery = 10 * time.Millisecond

// hearOfRates is how soon a shard learns what others have given of values with a rate, when no call asks. A reserve by
// the rate makes them hear at once, so this only bounds what is to be heard then, and for how long it holds a value back.
const hearOfRates = 100 * time.Millisecond

// wait has the shards hear of each other while a call waits. The caller calls the result when its wait is over.
func (x *together) wait() (over func()) {
	x.listening(func() { x.waiting++ })
	return func() { x.listening(func() { x.waiting-- }) }
}

// listening changes why the shards hear of each other without a call.
func (x *together) listening(change func()) {
	x.waits.Lock()
	defer x.waits.Unlock()
	if change(); x.waiting > 0 && !x.hearing || x.paced && !x.hearing {
		x.hearing = true
		go x.keepHearing()
	}
}

// keepHearing ends soon after the last call that waits, and when no rate is kept any more.
func (x *together) keepHearing() {
	for {
		every := x.hears()
		if every == 0 {
			return
		}
		x.hearAlone()
		time.Sleep(every)
	}
}

// hearAlone has the shards hear of each other without a call. Without a shard that serves no rate is kept any more.
func (x *together) hearAlone() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.letGo()
	all, _ := x.s.shards()
	serves := slices.ContainsFunc(all, func(q *Queue) bool { return q != nil })
	if _, err := x.hear(); err != nil || !serves { // a call finds that by itself
		x.listening(func() { x.paced = false })
	}
}

// hears is how often to hear; 0: no more, which it notes.
func (x *together) hears() (every time.Duration) {
	x.waits.Lock()
	defer x.waits.Unlock()
	switch {
	case x.waiting > 0:
		return hearEvery
	case x.paced:
		return hearOfRates
	}
	x.hearing = false
	return 0
}
