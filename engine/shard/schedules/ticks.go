package schedules

import (
	"errors"
	"math"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/schedule"
)

// Rhythm is when a schedule is due, and what happens to late ticks. It never changes, so it can be asked without the
// mutex.
type Rhythm struct {
	Def   *queue.Schedule
	spec  *schedule.Spec
	words string // the spec's, in plain words
	seed  uint64 // of the jitter
}

// Parse reads the spec of a schedule in its zone.
func Parse(def *queue.Schedule) (*schedule.Spec, error) {
	loc, err := schedule.Zone(def.Zone)
	if err != nil {
		return nil, scheduleError("/tz", err)
	}
	spec, err := schedule.Parse(def.Spec, schedule.Options{Seconds: def.Seconds, Location: loc,
		Anchor: def.Anchor.Std()})
	if err != nil {
		return nil, scheduleError("/spec", err)
	}
	return spec, nil
}

func scheduleError(pointer string, err error) error {
	var wrong *schedule.Error
	if errors.As(err, &wrong) {
		return queue.Invalid(pointer, "%s", wrong.Error())
	}
	return err
}

func newRhythm(name string, def *queue.Schedule) (*Rhythm, error) {
	spec, err := Parse(def)
	if err != nil {
		return &Rhythm{Def: def}, err
	}
	return &Rhythm{Def: def, spec: spec, words: spec.Describe(), seed: hashText(name)}, nil
}

// first is the first tick of a new rhythm. The only tick of @at comes even if its time is past, because someone asked
// for it now. The search goes behind a moment, hence Start-1: a tick at the start itself counts.
func (x *Rhythm) first(now queue.Time) queue.Time {
	from := max(now, x.Def.Start-1)
	if x.spec.Once() {
		from = max(0, x.Def.Start-1)
	}
	return x.after(from)
}

// after is the first tick after t, 0 when there is none up to the end.
func (x *Rhythm) after(t queue.Time) queue.Time {
	next := queue.At(x.spec.Next(time.UnixMilli(int64(t))))
	if x.Def.End != 0 && next > x.Def.End {
		return 0
	}
	return next
}

// due is when a tick is to be emitted: later than the tick by its jitter, which depends on nothing but the schedule's
// name and the tick. The jitter is the same after a restart and on another node, so a tick is neither emitted twice
// nor moved.
func (x *Rhythm) due(tick queue.Time) queue.Time {
	most := uint64(x.Def.Jitter / time.Millisecond)
	if most == 0 {
		return tick
	}
	return tick + queue.Time(mix(x.seed^uint64(tick))%(most+1))
}

// hashText is FNV-1a.
func hashText(text string) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(text) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014): ticks differ in few bits.
func mix(z uint64) uint64 {
	z += 0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// tickPlan is what happens to the ticks up to a moment.
type tickPlan struct {
	ticks        []queue.Time // to be emitted, ascending
	missed, late uint64       // how many are dropped, as missed or as late
	next         queue.Time   // the first tick that is not among them
}

// plan decides about the ticks from `next` up to the moment asOf, and lists at most `most` to be emitted; the rest is
// for the next call, with the same asOf. A tick is missed when it is later than its jitter and queue.ScheduleGrace
// allow.
func (x *Rhythm) plan(next, asOf queue.Time, most int) (p tickPlan) {
	onTime := asOf.Add(-queue.ScheduleGrace - x.Def.Jitter)
	var old []queue.Time // missed ones to be emitted
	if next != 0 && next < onTime {
		last := onTime - 1
		if x.Def.End != 0 {
			last = min(last, x.Def.End)
		}
		old = x.missed(&p, next, last, asOf)
		next = x.after(last)
	}
	for next != 0 && x.due(next) <= asOf && len(p.ticks) < most {
		p.ticks = append(p.ticks, next)
		next = x.after(next)
	}
	p.next = next
	if x.Def.Missed == queue.MissedOnce && len(old) > 0 && len(p.ticks) > 0 {
		p.missed++ // the one on time stands for it
		old = nil
	}
	if p.ticks = append(old, p.ticks...); len(p.ticks) > most {
		p.next, p.ticks = p.ticks[most], p.ticks[:most]
	}
	return p
}

// missed decides about the ticks from first to last, all missed, and returns those to be emitted.
func (x *Rhythm) missed(p *tickPlan, first, last, asOf queue.Time) (emit []queue.Time) {
	n := uint64(x.spec.Count(time.UnixMilli(int64(first-1)), time.UnixMilli(int64(last))))
	// The policy `skip` keeps none.
	keep, oldest := 0, queue.Time(math.MinInt64)
	dropped := &p.missed
	switch x.Def.Missed {
	case queue.MissedOnce:
		keep = 1
	case queue.MissedAll:
		keep, oldest, dropped = int(x.Def.CatchUp), asOf.Add(-x.Def.CatchUpWindow), &p.late
	}
	// From the latest back: when there are more than the policy keeps, the older ones are dropped.
	for at := last + 1; len(emit) < keep; {
		tick := queue.At(x.spec.Prev(time.UnixMilli(int64(at))))
		if tick < max(first, oldest) {
			break
		}
		emit = append(emit, tick)
		at = tick
	}
	for i, j := 0, len(emit)-1; i < j; i, j = i+1, j-1 {
		emit[i], emit[j] = emit[j], emit[i]
	}
	*dropped += n - uint64(len(emit))
	return emit
}
