package engine

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/diagnosis"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// seriesKept is how much of the past is kept in memory: 200 KB for each queue once a month is over, and 50 KB for each meta key.
var seriesKept = [...]struct {
	step time.Duration
	most int
}{{time.Second, secondsKept}, {time.Minute, 24 * 60}, {time.Hour, 30 * 24}}

const (
	secondsKept = 10 * 60

	// HeatStep is the time that one cell of a heat strip stands for. A shorter time below a limit does not show there, and does not count.
	HeatStep = diagnosis.Momentary

	// HeatCells is how many cells are kept.
	HeatCells = 120

	// HeatUnknown is the cell of a value that was not among those that the frames of that time named.
	HeatUnknown = -1

	maxHeatValues = 2 * FrameValues
)

// Point is how many chunks a queue had at a moment, by state, and its totals since the server's start.
type Point struct {
	At                             queue.Time
	Ready, Waiting, Reserved, Dead uint64
	Inserted, Taken, Done, Failed  uint64 // totals; Taken are the reservations
}

func pointOf(f *Frame) Point {
	s := &f.Stats.Stats
	return Point{
		At: f.At, Ready: s.Ready, Waiting: s.Waiting, Reserved: s.Reserved, Dead: s.Dead,
		Inserted: s.InsertedTotal, Taken: s.ReservedTotal, Done: s.DoneTotal, Failed: s.FailedTotal,
	}
}

// ratesBetween are the rates between two points, in tenths, because more digits say nothing; zero if the clock did not advance.
func ratesBetween(a, b Point) api.Rates {
	seconds := b.At.Sub(a.At).Seconds()
	if seconds <= 0 {
		return api.Rates{}
	}
	per := func(from, to uint64) float64 {
		if to < from {
			return 0
		}
		return math.Round(float64(to-from)/seconds*10) / 10
	}
	return api.Rates{Inserted: per(a.Inserted, b.Inserted), Reserved: per(a.Taken, b.Taken), Done: per(a.Done, b.Done),
		Failed: per(a.Failed, b.Failed)}
}

// ring keeps the last points at a pace.
type ring struct {
	points []Point
	start  int
}

// add keeps a point if a step has gone by since the last one. A clock that was set back starts it over.
func (r *ring) add(p Point, most int, step time.Duration) {
	if n := len(r.points); n > 0 {
		last := r.at(n - 1)
		switch since := p.At.Sub(last.At); {
		case since < 0:
			r.points, r.start = r.points[:0], 0
		case since < step-step/20: // tickers are late or early by some milliseconds
			return
		}
	}
	if len(r.points) < most {
		r.points = append(r.points, p)
		return
	}
	r.points[r.start] = p
	r.start = (r.start + 1) % most
}

// at is the i-th point, the oldest first.
func (r *ring) at(i int) *Point { return &r.points[(r.start+i)%len(r.points)] }

// Series are a queue's numbers after a moment, the oldest first. With a step of a second they cover ten minutes, of a minute a day, of an
// hour 30 days. No other step has any.
func (q *Queue) Series(step time.Duration, after time.Time) api.Series {
	out := api.Series{
		Queue: askedAs(q), StepSeconds: int(step / time.Second), At: []int64{},
		Ready: []uint64{}, Waiting: []uint64{}, Reserved: []uint64{}, Dead: []uint64{},
		InsertedRate: []float64{}, ReservedRate: []float64{}, DoneRate: []float64{}, FailedRate: []float64{},
	}
	q.frames.mu.Lock()
	defer q.frames.mu.Unlock()
	for i, kept := range seriesKept {
		if kept.step == step {
			q.frames.past[i].appendTo(&out, after)
		}
	}
	return out
}

// Durations tell how long chunks of the queue waited and ran lately or, with an entry, those of the submissions with this value.
func (q *Queue) Durations(entry *queue.MetaEntry) api.Durations {
	return q.durations.Of(entry, queue.At(q.e.options.Now()))
}

// appendTo appends the points after a moment. Rates are counted from the point before, if it is known.
func (r *ring) appendTo(out *api.Series, after time.Time) {
	for i := range r.points {
		p, before := r.at(i), r.at(max(0, i-1))
		if !p.At.Std().After(after) {
			continue
		}
		rates := ratesBetween(*before, *p)
		out.At = append(out.At, int64(p.At))
		out.Ready, out.Waiting = append(out.Ready, p.Ready), append(out.Waiting, p.Waiting)
		out.Reserved, out.Dead = append(out.Reserved, p.Reserved), append(out.Dead, p.Dead)
		out.InsertedRate, out.ReservedRate = append(out.InsertedRate, rates.Inserted), append(out.ReservedRate, rates.Reserved)
		out.DoneRate, out.FailedRate = append(out.DoneRate, rates.Done), append(out.FailedRate, rates.Failed)
	}
}

// heat is the strips of one meta key.
type heat struct {
	step  int64 // number of the step that the last cell stands for, counted from the epoch
	since int64 // the first step that was looked at
	blind int64 // the last step in which not all values were named
	rows  map[queue.MetaValue]*heatRow
}

type heatRow struct {
	cells [HeatCells]int32 // by step modulo HeatCells
	seen  int64            // the last step in which something was in flight
}

func stepOf(at queue.Time) int64 { return int64(at) / HeatStep.Milliseconds() }

// note enters a frame into the strips. Keys that are gone lose theirs.
func (f *frames) note(frame *Frame) {
	step := stepOf(frame.At)
	if f.heat == nil {
		f.heat = map[queue.MetaKey]*heat{}
	}
	maps.DeleteFunc(f.heat, func(_ queue.MetaKey, h *heat) bool { return step-h.step >= HeatCells })
	for i := range frame.Keys.Keys {
		k := &frame.Keys.Keys[i]
		h := f.heat[k.Key]
		if h == nil || step < h.step {
			h = &heat{step: step, since: step, rows: map[queue.MetaValue]*heatRow{}}
			f.heat[k.Key] = h
		}
		h.note(k, step)
	}
}

func (h *heat) note(k *api.KeyFrame, step int64) {
	absent := int32(0) // of values that the frame does not name
	if k.Rest.InFlight > 0 || !k.Whole {
		absent, h.blind = HeatUnknown, step
	}
	for s := max(h.step+1, step-HeatCells+1); s <= step; s++ {
		for _, row := range h.rows {
			row.cells[s%HeatCells] = absent
		}
	}
	h.step = step
	var fresh []*api.ValueCount
	for i := range k.Top {
		if v := &k.Top[i]; h.rows[v.Value] != nil {
			h.rows[v.Value].note(v.InFlight, step)
		} else if v.InFlight > 0 {
			fresh = append(fresh, v)
		}
	}
	for _, v := range fresh { // after the others, so that no value is evicted that this frame shows at work
		if len(h.rows) >= maxHeatValues && !h.evict(step) {
			break
		}
		row := h.newRow(step)
		row.note(v.InFlight, step)
		h.rows[v.Value] = row
	}
	maps.DeleteFunc(h.rows, func(_ queue.MetaValue, row *heatRow) bool { return step-row.seen >= HeatCells })
}

// note enters the chunks in flight into the cell of a step. A cell has the highest number of all its frames.
func (row *heatRow) note(inFlight uint64, step int64) {
	if inFlight > 0 {
		row.seen = step
	}
	cell := &row.cells[step%HeatCells]
	*cell = max(*cell, int32(min(inFlight, 1<<31-1)))
}

// evict makes room for a value by forgetting the one that had nothing in flight for longest. It returns false if all are at work.
func (h *heat) evict(step int64) bool {
	var oldest queue.MetaValue
	least := step
	for value, row := range h.rows {
		if row.seen < least {
			least, oldest = row.seen, value
		}
	}
	if least == step {
		return false
	}
	delete(h.rows, oldest)
	return true
}

// newRow is the row of a value that was not at work in the steps that were looked at.
func (h *heat) newRow(step int64) *heatRow {
	row := new(heatRow)
	for s := max(0, step-HeatCells+1); s <= step; s++ {
		if s < h.since || s <= h.blind {
			row.cells[s%HeatCells] = HeatUnknown
		}
	}
	return row
}

// KeySeries are the heat strips of a meta key, by value, with HeatUnknown where no frame looked, and the end of the step of the last cells.
// If there are none, the key has nothing in flight, or no frame has it.
func (q *Queue) KeySeries(key queue.MetaKey) (list []api.ValueSeries, ends time.Time) {
	q.frames.mu.Lock()
	defer q.frames.mu.Unlock()
	h := q.frames.heat[key]
	if h == nil {
		return nil, ends
	}
	for value, row := range h.rows {
		cells := make([]int64, HeatCells)
		for i := range cells {
			if s := h.step - HeatCells + 1 + int64(i); s >= 0 {
				cells[i] = int64(row.cells[s%HeatCells])
			}
		}
		list = append(list, api.ValueSeries{Value: value, InFlight: cells})
	}
	slices.SortFunc(list, func(a, b api.ValueSeries) int { return a.Value.Compare(b.Value) })
	return list, queue.Time((h.step + 1) * HeatStep.Milliseconds()).Std()
}
