package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/forecast"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/rules"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	// maxPaced bounds the values whose paces a queue remembers: 100 KB. Those beyond count as part of the rest; a metric says how many.
	maxPaced = 256

	// maxRuled bounds the rules that are parts of their own: those that end last. The others are one part.
	maxRuled = 256

	// pacedFor is how long the pace of a value is remembered that is at its limit no longer.
	pacedFor = 10 * time.Minute

	// pacedWithin is how long after a look the next has to come for what was done in between to count.
	pacedWithin = 5 * time.Second
)

// outlook is what a queue's forecasts are made of: the paces of the values at their limits, and of the rest. The mutex of the frames
// guards it.
type outlook struct {
	of     map[queue.MetaEntry]*paced
	limits map[queue.MetaKey]uint32 // of the values of a key, by all strategies that consumers use now
	rest   forecast.Paces
	free   uint64     // chunks of the rest
	done   uint64     // all that was done, at the last look
	at     queue.Time // of the last look

	// What is behind the limits of one key, of the look that is under way: of the key with most. A chunk may be behind those of several.
	behind, doneBehind uint64
	shut               uint64 // chunks of values with a limit of 0, of the key with most
	left               uint64 // values at their limits that are not paced, as there are maxPaced others
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

// begin begins a look. limits are those of strategies: a key has one if every way to a chunk that consumers use has it.
func (o *outlook) begin(limits map[queue.MetaKey]uint32) {
	o.limits = limits
	o.behind, o.doneBehind, o.shut, o.left = 0, 0, 0, 0
}

// waits says that the value was seen at a moment and was at its limit then, or shortly before: one of its chunks may just have ended.
func (p *paced) waits(at queue.Time) bool {
	return p.seen == at && p.full != 0 && at.Sub(p.full) <= HeatStep
}

func (p *paced) pace() forecast.Pace { return p.paces.Pace().Times(float64(p.limit)) }

// part is the work of a value, at its pace for each place times the places that it has.
func (p *paced) part() forecast.Part {
	return forecast.Part{Chunks: p.open - p.held, Pace: p.pace(), Bound: true}
}

// limit is how many chunks of a value may be in flight: by an operator, or by the strategies.
func (o *outlook) limit(entry queue.MetaEntry, set map[queue.MetaValue]ValueSettings) uint32 {
	most := uint32(queue.NoLimit)
	if settings, is := set[entry.Value]; is {
		most = settings.Limit
	}
	if limit, is := o.limits[entry.Key]; is {
		most = min(most, limit)
	}
	return most
}

// look counts what was done of the values of a key that have limits, since the look before.
func (o *outlook) look(key queue.MetaKey, counted []backlog.ValueCount, q *Queue, now queue.Time) {
	q.values.mu.RLock()
	defer q.values.mu.RUnlock()
	set := q.values.byKey[key]
	if _, limited := o.limits[key]; !limited && len(set) == 0 {
		return
	}
	var behind, done, shut uint64
	for i := range counted {
		count := &counted[i]
		entry := queue.MetaEntry{Key: key, Value: count.Value}
		limit := o.limit(entry, set)
		switch {
		case limit == queue.NoLimit:
			continue
		case limit == 0:
			shut += count.Available
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
		did := p.note(count, limit, now)
		if p.waits(now) {
			behind, done = behind+p.open-p.held, done+did
		}
	}
	if behind > o.behind {
		o.behind, o.doneBehind = behind, done
	}
	o.shut = max(o.shut, shut)
}

// note counts what was done of a value since it was seen last: by how many its chunks became fewer, as those that come in between hide
// as many. Only the time at its limit says how fast its places are.
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
		p.full = min(p.full, now.Add(-2*HeatStep))
	}
	since, again := now.Sub(p.seen), p.seen != 0
	p.limit, p.open, p.held, p.seen = limit, open, held, now
	if again && p.waits(now) && since > 0 && since <= pacedWithin {
		p.paces.Note(float64(done), float64(limit), since.Seconds())
	}
	return done
}

// forget drops the values that were at their limits long ago, unless rules hold some of their chunks: these will go on at that pace.
func (o *outlook) forget(now queue.Time) {
	maps.DeleteFunc(o.of, func(_ queue.MetaEntry, p *paced) bool {
		return now < p.full || now.Sub(p.full) > pacedFor && (p.held == 0 || now.Sub(p.seen) > pacedFor)
	})
}

// tell ends a look, and is the forecast of the whole queue.
func (o *outlook) tell(stats *api.Stats, held []rules.Held, now queue.Time) *api.Forecast {
	o.forget(now)
	all := stats.Ready + stats.Waiting + stats.Reserved
	had := o.free
	o.free = all - min(all, o.behind+o.shut)
	if since := now.Sub(o.at); had+o.free > 0 && since > 0 && since <= pacedWithin && stats.DoneTotal >= o.done {
		did := stats.DoneTotal - o.done
		o.rest.Note(float64(did-min(did, o.doneBehind)), 1, since.Seconds())
	}
	o.done, o.at = stats.DoneTotal, now
	parts := o.ruled(stats.Paused+stats.Blocked, held, now)
	parts = append(parts, forecast.Part{Chunks: o.shut, Bound: true, Stuck: true})
	for _, p := range o.of {
		if p.waits(now) {
			parts = append(parts, p.part())
		}
	}
	return foreseen(parts, now)
}

// others is what waits for no limit of a value.
func (o *outlook) others() forecast.Part { return forecast.Part{Chunks: o.free, Pace: o.rest.Pace()} }

// ruled is what rules hold, those that end last coming first: each is a part that goes on when it ends. A chunk that several of them
// hold goes on with the last. What has no pace of its own goes at that of the rest, together with all that goes on later: so each part
// includes those that come behind it, and the end of all is the latest of theirs.
func (o *outlook) ruled(chunks uint64, held []rules.Held, now queue.Time) (parts []forecast.Part) {
	together := o.others()
	for i := range held {
		rule := &held[i].Rule
		part := forecast.Part{Chunks: min(held[i].Chunks, chunks), Bound: true, Stuck: rule.Until == 0, From: max(0, rule.Until.Sub(now))}
		if i == maxRuled-1 {
			part.Chunks = chunks
		}
		chunks -= part.Chunks
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

// lastRules are the rules that end last, the last one first.
func lastRules(list []queue.Rule) []queue.Rule {
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

// foresee adds to a diagnosis when the chunks of each cause are done. A limit or the rest is shared with others, and no one knows whose
// turn it is: what waits there ends with the last of all that wait there. What a tenant is told follows from the pace of its own value and
// from nothing else. A cause of which it may not know the end has none, and then all of its work has none.
func (q *Queue) foresee(d *Diagnosis) {
	q.frames.mu.Lock()
	defer q.frames.mu.Unlock()
	o := &q.frames.outlook
	var parts []forecast.Part
	d.Forecast, d.Forecasts = nil, make([]*api.Forecast, len(d.Causes))
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
		d.Forecasts[i] = foreseen([]forecast.Part{part}, d.At)
		parts = append(parts, part)
	}
	if len(parts) == 0 && d.InFlight > 0 && d.own.Key == "" {
		parts = append(parts, forecast.Part{Chunks: d.InFlight, Pace: o.rest.Pace()})
	}
	d.Forecast = foreseen(parts, d.At)
}

// cause is the part of the work that waits for the same as the chunks of a cause; false if a tenant may not know of it.
func (o *outlook) cause(c *Cause, d *Diagnosis) (part forecast.Part, known bool) {
	entry := cmp.Or(d.own, c.Rule.Match.Entry, d.Entry)
	limited := c.Obstacle == queue.ObstacleValueLimit || c.Obstacle == queue.ObstacleLimit
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
