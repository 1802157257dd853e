// Package together lets the shards of a queue count together, for strategies that limit by another key than the group. A value of such a
// key can have chunks in several shards, so each shard's counters also have the chunks in flight in the other shards (package backlog,
// together.go).
//
//	reserve by user ─► lock ─► learn what shards have counted ─► compare ─► tell one what the others have ─► take ─► unlock
//
// The lock is held by one reserve at a time, of those that count so. A shard learns what the others have counted before a reserve takes
// from it. That is soon enough for chunks that the others took: they can only make the shard's next chunk come later. Finished chunks can
// make it come earlier, so shards learn of them before they are compared. A shard in which nothing has changed is not asked again, and its
// next chunks are remembered. Soon after each reserve all shards learn everything (newsAge).
//
// Other reserves and results need no lock: the next reserve that counts so learns of the chunks that they took or finished. So no limit is
// exceeded, and a finished chunk may count for a moment longer.
//
// Rates by such a key are kept in the same way (rates.go).
//
// All shards have to be on this node. A shard that does not serve keeps its last counts, so that limits hold without it.
package together

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/strategy"
)

// Counts are the counts of some keys over all shards of a queue.
type Counts struct {
	id     uint64 // a shard that counted for another Counts begins again
	clock  func() time.Time
	serve  func() []*shard.Shard
	shards [queue.MaxQueueShards]counted

	mu     sync.Mutex // held by a reserve that counts so
	now    int64      // the time of the call that holds it, in nanoseconds
	what   backlog.Together
	used   []time.Time // when a call used each of the rates
	values map[queue.MetaEntry]*valueCount
	news   []report // that not all shards know
	urgent int      // so many of the news must reach all shards before they are compared
	flush  bool     // spreadNews is about to run, or runs
	looks  map[*strategy.Plan]*[queue.MaxQueueShards]shard.Look

	waits   sync.Mutex
	waiting int  // calls that wait for less to be in flight; guarded by waits
	paced   bool // rates are kept; guarded by waits
	hearing bool // keepHearing runs; guarded by waits
}

// New makes the Counts of a queue's shards, in their order; nil in the list: that one does not serve here. The id is random.
func New(id uint64, now func() time.Time, shards func() []*shard.Shard) *Counts {
	return &Counts{id: id, clock: now, serve: shards}
}

// valueCount is how many chunks of a value are in flight in each shard, and in all.
type valueCount struct {
	queue.MetaEntry
	total uint32
	in    [queue.MaxQueueShards]uint32
}

// report is a report of a shard: the count of a value changed, or reservations were made.
type report struct {
	from  int // the index of the shard
	value *valueCount
	taken backlog.Takes
}

// counted is what Counts knows of a shard, and how much the shard knows of the others.
type counted struct {
	at    shard.Moment     // of its last report
	grace queue.Time       // until then it may not know all that consumers hold
	knows int              // of the news
	all   bool             // it must get all counts
	lost  bool             // not all of its own reservations are known
	began []strategy.Limit // rates that it has not kept with the others so far

	missed bool // it did not serve, and the news for it were not kept
}

// Crossing has the counts of a plan by other keys than the group.
type Crossing struct {
	Keys  []queue.MetaKey // whose chunks in flight are counted, in order
	Rates []strategy.Limit
	Fair  bool // a ledger of all shards says whose turn it is
	Draws bool // a random draw is among the values with the fewest chunks in flight
}

// Any says that the shards have something in common.
func (c *Crossing) Any() bool { return c.Counts() || c.Fair }

// Counts says that the shards must hear of each other.
func (c *Crossing) Counts() bool { return len(c.Keys)+len(c.Rates) > 0 }

// CrossingOf is the Crossing of a plan.
func CrossingOf(plan *strategy.Plan) (c Crossing) {
	for i := range plan.Branches {
		c.Fair = c.Fair || plan.Branches[i].Fair != ""
		plan.Branches[i].Leaves(func(leaf *strategy.Branch) bool {
			for _, l := range leaf.Limits {
				switch key, _ := queue.LackedBy(l.Key); {
				case key == queue.GroupKey: // one shard has a group, and the first one all that is without
				case l.Of == strategy.Rate:
					c.Rates = append(c.Rates, l)
				default:
					c.Keys = append(c.Keys, l.Key)
				}
			}
			c.Draws = c.Draws || leaf.Fewest != "" && leaf.Order == strategy.Random
			if leaf.Fewest != "" && leaf.Fewest != queue.GroupKey {
				c.Keys = append(c.Keys, leaf.Fewest)
			}
			return true
		})
	}
	slices.Sort(c.Keys)
	c.Keys = slices.Compact(c.Keys)
	return c
}

// During has the shards count together what a call counts, and calls fn with the lock held. It does not if a shard may not know all that
// consumers hold until some moment (grace). If there is a plan, it also learns what the shards give next by it.
func (x *Counts) During(ctx context.Context, by *Crossing, plan *strategy.Plan, fn func()) (grace queue.Time, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.now = x.clock().UnixNano()
	x.keep(by.Rates)
	for _, key := range by.Keys {
		if !slices.Contains(x.what.Keys, key) { // from now on it is counted so, which costs the shards little
			x.change(slices.Sorted(slices.Values(append(slices.Clone(x.what.Keys), key))), x.what.Rates)
		}
	}
	if by.Counts() {
		grace, err = x.hear(ctx, plan)
	}
	if err == nil && grace == 0 {
		fn()
	}
	return grace, err
}

// Locked calls fn with the lock held: no reserve counts meanwhile.
func (x *Counts) Locked(fn func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	fn()
}

// Now is the time of the call that holds the lock, in nanoseconds.
func (x *Counts) Now() int64 { return x.now }

// change changes the keys and rates that the shards count. x.mu is held.
func (x *Counts) change(keys []queue.MetaKey, rates []strategy.Limit) {
	x.what = backlog.Together{Keys: keys, Rates: rates}
	for i := range x.shards {
		x.shards[i].at = shard.Moment{}
	}
}

// hear learns the counts of all shards since the last time, and gives them the urgent news. x.mu is held.
func (x *Counts) hear(ctx context.Context, plan *strategy.Plan) (grace queue.Time, err error) {
	shards := x.serve()
	for _, later := range []bool{false, true} { // earlier ones must know the news of later ones, too
		for i, s := range shards {
			if s == nil {
				x.miss(i)
				continue
			}
			if err := x.Know(ctx, i, s, plan, false); err != nil {
				return 0, err
			}
			grace = max(grace, x.shards[i].grace)
		}
		if later {
			break
		}
		if err := x.beginRates(shards); err != nil {
			return 0, err
		}
	}
	return grace, nil
}

// miss is for a shard that cannot get the news. When it serves again, it gets everything. x.mu is held.
func (x *Counts) miss(i int) {
	c := &x.shards[i]
	c.missed, c.all, c.knows, c.at = true, true, len(x.news), shard.Moment{}
}

// Know learns the counts of a shard, and gives it the urgent news, or all. i is its index. With a plan it also looks at the shard's next
// chunks. It does nothing if all of that is known. The lock is held (During).
func (x *Counts) Know(ctx context.Context, i int, s *shard.Shard, plan *strategy.Plan, all bool) error {
	c, look, needs := &x.shards[i], (*shard.Look)(nil), x.urgent
	if all {
		needs = len(x.news)
	}
	known := c.knows >= needs && c.at.Lasts(s, x.now)
	if plan != nil {
		look = &x.looksOf(plan)[i]
		known = known && look.Err == nil && look.At.Lasts(s, x.now)
	}
	if known {
		return nil
	}
	for again := true; again; again = c.all {
		now, err := shard.CountTogether(ctx, s, x.id, x.what, x.newsFor(i), look)
		if err != nil {
			x.miss(i)
			return err
		}
		x.learn(i, &now)
	}
	return nil
}

// Look is the next chunks of a shard by a plan, or chunks that come before them. i is its index. The lock is held (During).
func (x *Counts) Look(ctx context.Context, i int, s *shard.Shard, plan *strategy.Plan) ([]backlog.Head, error) {
	if err := x.Know(ctx, i, s, plan, false); err != nil {
		return nil, err
	}
	look := &x.looksOf(plan)[i]
	return look.Heads, look.Err
}

// looksMost is the most plans whose looks are remembered.
const looksMost = 64

// looksOf are the looks at the shards by a plan. x.mu is held.
func (x *Counts) looksOf(plan *strategy.Plan) *[queue.MaxQueueShards]shard.Look {
	if x.looks[plan] == nil {
		if len(x.looks) >= looksMost || x.looks == nil {
			x.looks = map[*strategy.Plan]*[queue.MaxQueueShards]shard.Look{}
		}
		x.looks[plan] = new([queue.MaxQueueShards]shard.Look)
		for i := range x.looks[plan] {
			x.looks[plan][i].Plan = plan
		}
	}
	return x.looks[plan]
}

// newsFor is the news that a shard does not know yet. x.mu is held.
func (x *Counts) newsFor(i int) (of shard.Elsewhere) {
	c := &x.shards[i]
	if of.All = c.all; c.all {
		for _, v := range x.values {
			of.InFlight = append(of.InFlight, backlog.OwnCount{MetaEntry: v.MetaEntry, InFlight: v.total - v.in[i]})
		}
	}
	for k := range x.news[c.knows:] {
		switch n := &x.news[c.knows+k]; {
		case n.from == i:
		case n.value == nil:
			of.Taken = append(of.Taken, n.taken)
		case !c.all:
			of.InFlight = append(of.InFlight, backlog.OwnCount{MetaEntry: n.value.MetaEntry, InFlight: n.value.total - n.value.in[i]})
		}
	}
	return of
}

// learn keeps the report of a shard that has just got all of the news. x.mu is held.
func (x *Counts) learn(i int, now *shard.Counted) {
	c := &x.shards[i]
	c.at, c.grace, c.all = now.At, now.Grace, now.Fresh
	c.lost = c.lost || now.Lost
	c.began = append(c.began, now.Began...)
	for _, taken := range now.Taken {
		x.news = append(x.news, report{from: i, taken: taken})
	}
	if now.Fresh {
		had := map[queue.MetaEntry]bool{}
		for _, n := range now.Own {
			had[n.MetaEntry] = true
		}
		for entry, v := range x.values {
			if v.in[i] > 0 && !had[entry] {
				x.note(i, backlog.OwnCount{MetaEntry: entry})
			}
		}
	}
	for _, n := range now.Own {
		x.note(i, n)
	}
	if c.knows < len(x.news) && !x.flush {
		x.flush = true
		time.AfterFunc(newsAge, x.spreadNews)
	}
	c.knows = len(x.news)
}

// note keeps the count of a value in one shard. When it rises, the next chunks of the others can only come later, so they need not know
// before their turn. x.mu is held.
func (x *Counts) note(i int, n backlog.OwnCount) {
	v := x.values[n.MetaEntry]
	switch {
	case v == nil && n.InFlight == 0:
		return
	case v == nil:
		if x.values == nil {
			x.values = map[queue.MetaEntry]*valueCount{}
		}
		v = &valueCount{MetaEntry: n.MetaEntry}
		x.values[n.MetaEntry] = v
	}
	before := v.in[i]
	if n.InFlight == before {
		return
	}
	v.in[i] = n.InFlight
	if v.total += n.InFlight - before; v.total == 0 {
		delete(x.values, n.MetaEntry)
	}
	if x.news = append(x.news, report{from: i, value: v}); n.InFlight < before {
		x.urgent = len(x.news)
	}
}

// newsAge is how soon all shards know the news of one.
const newsAge = time.Millisecond

// spreadNews gives all shards all news. It holds the lock for one shard at a time, so that no reserve waits for all.
func (x *Counts) spreadNews() {
	shards := x.serve()
	for i := range shards {
		x.spreadTo(i)
	}
	x.forgetNews()
}

// spreadTo gives one shard all news.
func (x *Counts) spreadTo(i int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.now = x.clock().UnixNano()
	shards := x.serve()
	if s := shards[i]; s == nil || x.Know(context.Background(), i, s, nil, true) != nil {
		x.miss(i)
	}
}

// forgetNews drops the news that all shards know, and spreads the rest soon.
func (x *Counts) forgetNews() {
	x.mu.Lock()
	defer x.mu.Unlock()
	shards := x.serve()
	least := len(x.news)
	for i := range shards {
		least = min(least, x.shards[i].knows)
	}
	x.news, x.urgent = slices.Delete(x.news, 0, least), max(0, x.urgent-least)
	for i := range x.shards {
		x.shards[i].knows = max(0, x.shards[i].knows-least)
	}
	if x.flush = len(x.news) > 0; x.flush {
		time.AfterFunc(newsAge, x.spreadNews)
	}
}

// hearEvery is how soon a call that waits learns that another shard has less in flight.
const hearEvery = 10 * time.Millisecond

// hearOfRates is how soon a shard hears of the reservations of others of values with a rate, when no call asks. A reserve by the rate makes
// the shards hear at once. So this only bounds the news at that moment, and how long they hold a value back.
const hearOfRates = 100 * time.Millisecond

// Wait makes the shards hear of each other while a call waits. The caller calls the result when its wait is over.
func (x *Counts) Wait() (over func()) {
	x.listening(func() { x.waiting++ })
	return func() { x.listening(func() { x.waiting-- }) }
}

// listening changes the reasons why the shards hear of each other without a call.
func (x *Counts) listening(change func()) {
	x.waits.Lock()
	defer x.waits.Unlock()
	if change(); x.waiting > 0 && !x.hearing || x.paced && !x.hearing {
		x.hearing = true
		go x.keepHearing()
	}
}

// keepHearing makes the shards hear of each other. It ends soon after no call waits and no rate is kept any more.
func (x *Counts) keepHearing() {
	for {
		every := x.hears()
		if every == 0 {
			return
		}
		x.hearAlone()
		time.Sleep(every)
	}
}

// hearAlone makes the shards hear of each other without a call. If no shard serves, no rate is kept any more.
func (x *Counts) hearAlone() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.now = x.clock().UnixNano()
	x.letGo()
	all := x.serve()
	serves := slices.ContainsFunc(all, func(s *shard.Shard) bool { return s != nil })
	if _, err := x.hear(context.Background(), nil); err != nil || !serves { // a call finds that by itself
		x.listening(func() { x.paced = false })
	}
}

// hears is how often to hear; 0: no more, which it notes.
func (x *Counts) hears() (every time.Duration) {
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
