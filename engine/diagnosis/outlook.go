package diagnosis

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/forecast"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/rules"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	// maxPaced bounds the values whose paces a queue remembers: 100 KB. Those beyond count as part of the rest; a metric says how many.
	maxPaced = 256

	// maxRuled bounds the rules that are their own parts: those that end last. The others are one part.
	maxRuled = 256

	// PacedFor is how long the pace of a value is remembered after the value left its limit.
	PacedFor = 10 * time.Minute

	// pacedWithin is the longest time between two looks for which the chunks done in between count.
	pacedWithin = 5 * time.Second

	// Momentary is the longest time for which a value that was at its limit still counts as there: one of its chunks may just have ended.
	Momentary = 5 * time.Second
)

// Outlook has the input of a queue's forecasts: the paces of the values at their limits, and of the rest. Once a second the engine makes a
// look: Begin, Look for each key, and Tell. Its zero value is ready; its user guards it.
type Outlook struct {
	of     map[queue.MetaEntry]*paced
	limits map[queue.MetaKey]uint32 // of the values of a key, by all strategies that consumers use now
	rest   forecast.Paces
	free   uint64     // chunks of the rest
	done   uint64     // all that was done, at the last look
	at     queue.Time // of the last look

	// The chunks behind the limits of one key, as of the last look: of the key with most. A chunk may be behind the limits of several keys.
	behind behind
	left   uint64       // values at their limits without a pace, because maxPaced others have one
	held   []rules.Held // the rules that end last, each with the chunks that no rule that ends later holds
}

// behind counts the chunks that wait at the limits of the values of one key.
type behind struct {
	key     queue.MetaKey
	values  int            // that are at their limits
	waiting uint64         // their chunks that could be handed out otherwise
	open    uint64         // those and the ones in flight, of values with a pace
	shut    uint64         // of waiting, those of values with a limit of 0
	done    uint64         // since the look before
	top     []limitedValue // the values with most of them
}

type limitedValue struct {
	count backlog.ValueCount
	limit uint32
}

// add counts a value that waits.
func (b *behind) add(count *backlog.ValueCount, limit uint32) {
	b.values++
	b.waiting += count.Available
	more := func(a limitedValue, n uint64) int { return cmp.Compare(n, a.count.Available) }
	at, _ := slices.BinarySearchFunc(b.top, count.Available, more)
	if at < machine.TopMost {
		b.top = slices.Insert(b.top, at, limitedValue{*count, limit})
		b.top = b.top[:min(len(b.top), machine.TopMost)]
	}
}

// paced is a value that is or was at its limit.
type paced struct {
	paces forecast.Paces
	limit uint32
	open  uint64     // chunks that are in flight, can be handed out, or are held by rules
	held  uint64     // of them, those that rules hold
	seen  queue.Time // when it was counted last
	full  queue.Time // when it was at its limit last
}

// Begin begins a look. limits are those of strategies: a key has one if every way to a chunk that consumers use has it.
func (o *Outlook) Begin(limits map[queue.MetaKey]uint32) {
	o.limits = limits
	o.behind, o.left = behind{}, 0
}

// waits says that the value was seen at this moment, and was at its limit then or shortly before: one of its chunks may just have ended.
func (p *paced) waits(at queue.Time) bool {
	return p.seen == at && p.full != 0 && at.Sub(p.full) <= Momentary
}

func (p *paced) pace() forecast.Pace { return p.paces.Pace().Times(float64(p.limit)) }

// part is the work of a value, at its pace for each place times the places that it has.
func (p *paced) part() forecast.Part {
	return forecast.Part{Chunks: p.open - p.held, Pace: p.pace(), Bound: true}
}

// LimitsOf are the limits of the values of keys by all of these plans, as a call for one chunk follows them. A key has a limit if all
// leaves of the plans have one, and the highest of them holds.
func LimitsOf(plans []*strategy.Plan, numbered func(*strategy.Plan, int) *strategy.Plan) (limits map[queue.MetaKey]uint32) {
	for _, plan := range plans {
		plan = numbered(plan, 1)
		for i := range plan.Branches {
			plan.Branches[i].Leaves(func(leaf *strategy.Branch) bool {
				limits = atMost(limits, leaf)
				return true
			})
		}
	}
	return limits
}

// atMost are the limits that a leaf has too; nil: it is the first one.
func atMost(limits map[queue.MetaKey]uint32, leaf *strategy.Branch) map[queue.MetaKey]uint32 {
	own := map[queue.MetaKey]uint32{}
	for _, l := range leaf.Limits {
		before, is := limits[l.Key]
		if l.Of == strategy.Simultaneous && (is || limits == nil) {
			own[l.Key] = max(before, l.Max)
		}
	}
	return own
}

// Look counts the chunks done since the last look, of the values of a key that have limits. set is the limit that an operator set for a
// value, or queue.NoLimit; nil: the key has none. The limit that counts is the smaller one of that and of the strategies'.
func (o *Outlook) Look(key queue.MetaKey, counted []backlog.ValueCount, set func(queue.MetaEntry) uint32, now queue.Time) {
	most, byStrategies := o.limits[key]
	if !byStrategies {
		most = queue.NoLimit
	}
	if !byStrategies && set == nil {
		return
	}
	here := behind{key: key}
	for i := range counted {
		count := &counted[i]
		entry := queue.MetaEntry{Key: key, Value: count.Value}
		limit := most
		if set != nil {
			limit = min(limit, set(entry))
		}
		switch {
		case limit == queue.NoLimit:
			continue
		case limit == 0:
			if count.Available > 0 {
				here.shut += count.Available
				here.add(count, limit)
			}
			continue
		}
		p := o.of[entry]
		if p == nil {
			if !strategy.Reached(uint32(count.InFlight), limit) {
				continue
			}
			if len(o.of) >= maxPaced {
				o.left++
				continue
			}
			if o.of == nil {
				o.of = map[queue.MetaEntry]*paced{}
			}
			p = &paced{}
			o.of[entry] = p
		}
		if did := p.note(count, limit, now); p.waits(now) && count.Available > 0 {
			here.add(count, limit)
			here.open += p.open - p.held
			here.done += did
		}
	}
	if here.waiting > o.behind.waiting {
		o.behind = here
	}
}

// note counts the chunks of a value done since it was seen last: by how many they became fewer, so new chunks hide as many done ones. Only
// the time at its limit says how fast its places are.
func (p *paced) note(count *backlog.ValueCount, limit uint32, now queue.Time) (done uint64) {
	held := count.Paused + count.Blocked
	open := count.InFlight + count.Available + held
	if open < p.open {
		done = p.open - open
	}
	switch {
	case strategy.Reached(uint32(count.InFlight), limit):
		p.full = now
	case p.limit != limit: // below a limit that is another one now
		p.full = min(p.full, now.Add(-2*Momentary))
	}
	since, again := now.Sub(p.seen), p.seen != 0
	p.limit, p.open, p.held, p.seen = limit, open, held, now
	if again && p.waits(now) && since > 0 && since <= pacedWithin {
		p.paces.Note(float64(done), float64(limit), since.Seconds())
	}
	return done
}

// forget drops the values that were at their limits long ago, unless rules hold some of their chunks, which will go on at that pace.
func (o *Outlook) forget(now queue.Time) {
	maps.DeleteFunc(o.of, func(_ queue.MetaEntry, p *paced) bool {
		return now < p.full || now.Sub(p.full) > PacedFor && (p.held == 0 || now.Sub(p.seen) > PacedFor)
	})
}

// Tell ends a look, and returns the forecast of the whole queue.
func (o *Outlook) Tell(stats *api.Stats, held []rules.Held, now queue.Time) *api.Forecast {
	o.forget(now)
	all := stats.Ready + stats.Waiting + stats.Reserved
	had := o.free
	o.free = all - min(all, o.behind.open+o.behind.shut)
	if since := now.Sub(o.at); had+o.free > 0 && since > 0 && since <= pacedWithin && stats.DoneTotal >= o.done {
		did := stats.DoneTotal - o.done
		o.rest.Note(float64(did-min(did, o.behind.done)), 1, since.Seconds())
	}
	o.done, o.at = stats.DoneTotal, now
	o.held = alone(held, stats.Paused+stats.Blocked)
	parts := append(o.ruled(now), forecast.Part{Chunks: o.behind.shut, Bound: true, Stuck: true})
	for _, p := range o.of {
		if p.waits(now) {
			parts = append(parts, p.part())
		}
	}
	return foreseen(parts, now)
}

// others are the chunks that wait for no limit of a value.
func (o *Outlook) others() forecast.Part { return forecast.Part{Chunks: o.free, Pace: o.rest.Pace()} }

// alone counts each held chunk once, for the rule that ends last. held begins with the rules that end last. chunks is the number of all
// held chunks, which the sum does not exceed. The last of maxRuled rules gets the rest.
func alone(held []rules.Held, chunks uint64) []rules.Held {
	for i := range held {
		if held[i].Chunks = min(held[i].Chunks, chunks); i == maxRuled-1 {
			held[i].Chunks = chunks
		}
		chunks -= held[i].Chunks
	}
	return held
}

// ruled returns a part for each rule, whose chunks go on when the rule ends, and one for the rest. A part without a pace of its own goes at
// the pace of the rest, together with all chunks that go on later: so each part includes those behind it, and the end of all is the latest
// of theirs.
func (o *Outlook) ruled(now queue.Time) (parts []forecast.Part) {
	together := o.others()
	for i := range o.held {
		rule := &o.held[i].Rule
		part := forecast.Part{Chunks: o.held[i].Chunks, Bound: true, Stuck: rule.Until == 0, From: max(0, rule.Until.Sub(now))}
		switch p := o.of[rule.Match.Entry]; {
		case part.Stuck:
		case p != nil:
			part.Pace = p.pace()
		default:
			together.Chunks += part.Chunks
			part.Chunks, part.Pace = together.Chunks-o.free, together.Pace
		}
		parts = append(parts, part)
	}
	return append(parts, together)
}

// LastRules are the rules that end last, the last one first.
func LastRules(list []queue.Rule) []queue.Rule {
	list = slices.SortedFunc(slices.Values(list), func(a, b queue.Rule) int { return cmp.Compare(lasts(&b), lasts(&a)) })
	return list[:min(len(list), maxRuled)]
}

// lasts is when a rule ends: one that only ends when it is lifted is the last.
func lasts(r *queue.Rule) queue.Time {
	if r.Until == 0 {
		return 1<<63 - 1
	}
	return r.Until
}

// foreseen is the forecast of some parts as it stands in answers; nil where nothing moves.
func foreseen(parts []forecast.Part, now queue.Time) *api.Forecast {
	f, moves := forecast.Of(parts)
	if !moves {
		return nil
	}
	out := &api.Forecast{P50: now.Add(f.P50).API(), P90: now.Add(f.P90).API(), Moving: f.Moving}
	if f.NotBefore > 0 {
		out.NotBefore = now.Add(f.NotBefore).API()
	}
	return out
}

// Foresee adds to a diagnosis when the chunks of each cause are done. Other chunks wait at the same limit or in the rest, and no one knows
// whose turn it is: so the end there is that of all chunks that wait there. A tenant's forecast uses only the pace of its own value. A
// cause whose end the tenant may not know gets none, and then all of its work gets none.
func (o *Outlook) Foresee(d *Diagnosis) {
	var parts []forecast.Part
	d.Forecast, d.Forecasts, d.Paces = nil, make([]*api.Forecast, len(d.Causes)), make([]float64, len(d.Causes))
	for i := range d.Causes {
		c := &d.Causes[i]
		if c.Obstacle == queue.ObstacleDead {
			continue
		}
		part, known := o.cause(c, d)
		if !known {
			defer func() { d.Forecast = nil }()
			continue
		}
		d.Forecasts[i], d.Paces[i] = foreseen([]forecast.Part{part}, d.At), part.Pace.Middle
		parts = append(parts, part)
	}
	if len(parts) == 0 && d.InFlight > 0 && d.own.Key == "" {
		parts = append(parts, forecast.Part{Chunks: d.InFlight, Pace: o.rest.Pace()})
	}
	d.Forecast = foreseen(parts, d.At)
}

// cause is the part of the work that waits for the same thing as the chunks of a cause; false if a tenant may not know of it.
func (o *Outlook) cause(c *Cause, d *Diagnosis) (part forecast.Part, known bool) {
	entry := cmp.Or(d.own, c.Rule.Match.Entry, d.Entry)
	limited := c.Obstacle == queue.ObstacleValueLimit || c.Obstacle == queue.ObstacleLimit || c.Obstacle == queue.ObstacleRate
	ruled := c.Obstacle == queue.ObstaclePaused || c.Obstacle == queue.ObstacleBlocked
	if limited {
		entry = queue.MetaEntry{Key: c.Limit.Key, Value: c.Value}
	}
	at := o.of[entry]
	if d.own.Key != "" && (at == nil || ruled && c.Rule.ID == 0) {
		return part, false
	}
	part = forecast.Part{Chunks: c.Held.Chunks, Pace: o.rest.Pace()}
	switch {
	case limited && at != nil:
		part = at.part()
	case at != nil && (d.own.Key != "" || c.Obstacle != queue.NoObstacle):
		part.Pace = at.pace()
	case limited || c.Obstacle == queue.NoObstacle:
		part.Chunks = max(part.Chunks, o.free)
	}
	part.Bound = limited || ruled
	part.Stuck = limited && c.Limit.Max == 0 || ruled && c.Until == 0 || c.Obstacle == queue.ObstacleFilter
	if c.Until > d.At {
		part.From = c.Until.Sub(d.At)
	}
	return part, true
}

// still says that a value is at its limit, and that none of its chunks was done in the whole time that a pace covers.
func (o *Outlook) still(entry queue.MetaEntry) bool {
	p := o.of[entry]
	return p != nil && p.paces.Known() && p.pace().Middle == 0
}

// Paced is how many values at their limits have a pace of their own, and how many have none because there are too many.
func (o *Outlook) Paced() (with, without uint64) { return uint64(len(o.of)), o.left }
