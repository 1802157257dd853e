package engine

import (
	"maps"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/forecast"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	// maxPaced bounds the values whose paces a queue remembers: 100 KB.
	maxPaced = 256

	// pacedFor is how long the pace of a value is remembered that is at its limit no longer.
	pacedFor = 10 * time.Minute

	// pacedWithin is how long after a look the next has to come for what was done in between to count.
	pacedWithin = 5 * time.Second
)

// outlook is what a queue's forecasts are made of: the paces of the values at their limits, and of the rest. The mutex of the frames
// guards it.
type outlook struct {
	of   map[queue.MetaEntry]*paced
	rest forecast.Paces
	free uint64     // chunks of the rest
	done uint64     // all that was done, at the last look
	at   queue.Time // of the last look

	// What is behind the limits of one key, of the look that is under way: of the key with most. A chunk may be behind those of several.
	behind, doneBehind uint64
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

// part is the work of a value, at its pace for each place times the places that it has.
func (p *paced) part() forecast.Part {
	return forecast.Part{Chunks: p.open - p.held, Pace: p.paces.Pace().Times(float64(p.limit)), Bound: true}
}

// look counts what was done of the values of a key that have limits, since the look before.
func (o *outlook) look(key queue.MetaKey, counted []backlog.ValueCount, q *Queue, now queue.Time) {
	q.values.mu.RLock()
	defer q.values.mu.RUnlock()
	limits := q.values.byKey[key]
	if len(limits) == 0 {
		return
	}
	var behind, done uint64
	for i := range counted {
		settings, is := limits[counted[i].Value]
		if !is || settings.Limit == 0 || settings.Limit == queue.NoLimit {
			continue
		}
		entry := queue.MetaEntry{Key: key, Value: counted[i].Value}
		full := q.frames.full.since(entry) != 0
		p := o.of[entry]
		if p == nil {
			if !full || len(o.of) >= maxPaced {
				continue
			}
			if o.of == nil {
				o.of = map[queue.MetaEntry]*paced{}
			}
			p = &paced{}
			o.of[entry] = p
		}
		did := p.note(&counted[i], settings.Limit, full, now)
		if full {
			behind, done = behind+p.open-p.held, done+did
		}
	}
	if behind > o.behind {
		o.behind, o.doneBehind = behind, done
	}
}

// note counts what was done of a value since it was seen last: by how many its chunks became fewer, as those that come in between hide
// as many. Only the time at its limit says how fast its places are.
func (p *paced) note(count *backlog.ValueCount, limit uint32, full bool, now queue.Time) (done uint64) {
	held := count.Paused + count.Blocked
	open := count.InFlight + count.Available + held
	if open < p.open {
		done = p.open - open
	}
	if since := now.Sub(p.seen); full && p.seen != 0 && since > 0 && since <= pacedWithin {
		p.paces.Note(float64(done), float64(limit), since.Seconds())
	}
	p.limit, p.open, p.held, p.seen = limit, open, held, now
	if full {
		p.full = now
	}
	return done
}

// tell ends a look, and is the forecast of the whole queue.
func (o *outlook) tell(stats *api.Stats, rules []queue.Rule, now queue.Time) *api.Forecast {
	maps.DeleteFunc(o.of, func(_ queue.MetaEntry, p *paced) bool { return now.Sub(p.full) > pacedFor || now < p.full })
	all := stats.Ready + stats.Waiting + stats.Reserved
	had := o.free
	o.free = all - min(all, o.behind)
	if since := now.Sub(o.at); had+o.free > 0 && since > 0 && since <= pacedWithin && stats.DoneTotal >= o.done {
		did := stats.DoneTotal - o.done
		o.rest.Note(float64(did-min(did, o.doneBehind)), 1, since.Seconds())
	}
	o.done, o.at, o.behind, o.doneBehind = stats.DoneTotal, now, 0, 0
	parts := append(o.ruled(stats.Paused+stats.Blocked, rules, now), o.others())
	for _, p := range o.of {
		if p.full == now {
			parts = append(parts, p.part())
		}
	}
	return foreseen(parts, now)
}

// others is what waits for no limit of a value.
func (o *outlook) others() forecast.Part { return forecast.Part{Chunks: o.free, Pace: o.rest.Pace()} }

// ruled is what rules hold. It goes on when the last of them ends; if one ends only when it is lifted, no one knows when.
func (o *outlook) ruled(chunks uint64, rules []queue.Rule, now queue.Time) []forecast.Part {
	part := forecast.Part{Chunks: chunks, Pace: o.rest.Pace(), Bound: true}
	for i := range rules {
		part.From = max(part.From, rules[i].Until.Sub(now))
		part.Stuck = part.Stuck || rules[i].Until == 0
	}
	return []forecast.Part{part}
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
// turn it is: what waits there ends with the last of all that wait there.
func (q *Queue) foresee(d *Diagnosis) {
	q.frames.mu.Lock()
	defer q.frames.mu.Unlock()
	o := &q.frames.outlook
	var parts []forecast.Part
	d.Forecasts = make([]*api.Forecast, len(d.Causes))
	for i := range d.Causes {
		c := &d.Causes[i]
		part, counts := o.cause(c, d.At)
		if !counts {
			continue
		}
		d.Forecasts[i] = foreseen([]forecast.Part{part}, d.At)
		parts = append(parts, part)
	}
	if len(parts) == 0 && d.InFlight > 0 {
		parts = append(parts, forecast.Part{Chunks: d.InFlight, Pace: o.rest.Pace()})
	}
	d.Forecast = foreseen(parts, d.At)
}

// cause is the part of the work that waits for the same as the chunks of a cause; false where no one waits for it.
func (o *outlook) cause(c *Cause, now queue.Time) (part forecast.Part, counts bool) {
	if c.Obstacle == queue.ObstacleDead {
		return part, false
	}
	part = o.others()
	part.Chunks = max(part.Chunks, c.Held.Chunks)
	switch c.Obstacle {
	case queue.ObstacleValueLimit:
		if p := o.of[queue.MetaEntry{Key: c.Limit.Key, Value: c.Value}]; p != nil {
			part = p.part()
		}
		part.Bound, part.Stuck = true, c.Limit.Max == 0
	case queue.ObstacleLimit:
		part.Bound, part.Stuck = true, c.Limit.Max == 0
	case queue.ObstaclePaused, queue.ObstacleBlocked:
		part.Chunks, part.Bound, part.Stuck = c.Held.Chunks, true, c.Until == 0
	case queue.ObstacleWaiting, queue.ObstacleNotDue, queue.ObstacleGrace:
		part.Chunks = c.Held.Chunks
	case queue.ObstacleFilter:
		part.Stuck = true
	}
	if c.Until > now {
		part.From = c.Until.Sub(now)
	}
	return part, true
}
