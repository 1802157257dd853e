package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// The values that a frame names are those that sorting all of them would put first, and the rest is the sum of the others.
func TestTopValuesAreTheLargest(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for round := range 200 {
		seen := make([]backlog.ValueCount, rnd.IntN(4*FrameValues))
		var all api.ValueSum
		for i := range seen {
			seen[i] = backlog.ValueCount{Value: queue.IntValue(int64(i)), InFlight: rnd.Uint64N(6), Available: rnd.Uint64N(4)}
			all.Values++
			all.Ready += seen[i].Available
			all.InFlight += seen[i].InFlight
		}
		rnd.Shuffle(len(seen), func(i, j int) { seen[i], seen[j] = seen[j], seen[i] })
		want := slices.Clone(seen)
		slices.SortFunc(want, func(a, b backlog.ValueCount) int {
			switch {
			case a.InFlight != b.InFlight:
				return int(b.InFlight) - int(a.InFlight)
			case a.Available != b.Available:
				return int(b.Available) - int(a.Available)
			}
			return a.Value.Compare(b.Value)
		})
		want = want[:min(len(want), FrameValues)]
		var sum api.ValueSum
		got := topValues(seen, &sum)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d, round %d: got %v, want %v", seed, round, got, want)
		}
		for _, v := range got {
			sum.Values++
			sum.Ready += v.Available
			sum.InFlight += v.InFlight
		}
		if sum != all {
			t.Fatalf("seed %d, round %d: top and rest are %+v together, want %+v", seed, round, sum, all)
		}
	}
}

// A frame has the chunks inserted, reserved and done since the one before, value by value.
func TestFrame(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	q := e.queues[DefaultQueue]
	if none := q.Frame(); none != nil {
		t.Fatalf("before the first: got %+v", none)
	}
	at := queue.Time(1_700_000_000_000)
	q.sample(at, nil)
	insert(t, e, 100, text("company", "acme"))
	insert(t, e, 50, text("company", "bolt"), number("zone", 7))
	setValue(t, e, DefaultQueue, text("company", "acme"), limited(3))
	held, _ := take(t, e, `SelectOnly("company", "acme", OldestFirst)`, 10)
	q.sample(at.Add(2*time.Second), nil)
	f := q.Frame()
	if want := (api.Rates{Inserted: 75, Reserved: 1.5}); f.Stats.Rates != want || f.Number != 2 || f.Stats.Stats.Ready != 147 || len(held) != 3 {
		t.Errorf("frame %d: rates %+v, ready %d, held %d; want 2, %+v, 147, 3", f.Number, f.Stats.Rates, f.Stats.Stats.Ready, len(held), want)
	}
	got := ""
	for _, k := range f.Keys.Keys {
		got += fmt.Sprintf("%s whole %t:", k.Key, k.Whole)
		for _, v := range k.Top {
			got += fmt.Sprintf(" %s %d/%d saturated %t", v.Value.Quoted(), v.InFlight, v.Ready, v.Saturated)
		}
		got += "; "
	}
	if want := `company whole true: "acme" 3/97 saturated true "bolt" 0/50 saturated false; zone whole true: 7 0/50 saturated false; `; got != want {
		t.Errorf("keys: got  %s\nwant %s", got, want)
	}
	if end := f.Stats.Stats.Forecast; end != nil {
		t.Errorf("a backlog of which nothing is done ends at %+v, want never", end)
	}
	finishAll(t, e, held)
	q.sample(at.Add(4*time.Second), nil)
	last := q.Frame()
	if last.Stats.Rates.Done != 1.5 {
		t.Errorf("done per second: got %v, want 1.5", last.Stats.Rates.Done)
	}
}

// Callers that wait for frames are woken once all queues have theirs.
func TestSampled(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	if _, _, err := e.PutQueue(t.Context(), "other", queue.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	for want := range uint64(3) {
		one, two := e.Sampled(), e.Sampled()
		select {
		case <-one:
			t.Fatalf("after %d frames: announced before there is another", want)
		default:
		}
		e.sample()
		<-one
		<-two
		for _, name := range []string{DefaultQueue, "other"} {
			if f := queueAt(e, name).Frame(); f == nil || f.Number != want+1 {
				t.Errorf("%s: got frame %+v, want number %d", name, f, want+1)
			}
		}
	}
}

// Keys with more values than one frame reads are said not to be whole, and those after them are left out.
func TestFrameIsBounded(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	q := e.queues[DefaultQueue]
	for i := range 20 {
		insert(t, e, 1, number("a", int64(i)), number("b", 1))
	}
	if k := q.sampleKey("a", 12, 0); k.Whole || k.Values != 12 || len(k.Top)+k.Rest.Values != 12 {
		t.Errorf("with room for 12: %+v; want 12 values, not whole", k)
	}
	if k := q.sampleKey("a", 20, 0); !k.Whole || k.Values != 20 {
		t.Errorf("with room for 20: %+v; want all, whole", k)
	}
	var frame api.KeysFrame
	for i := range maxFrameKeys + 3 {
		insert(t, e, 1, number(fmt.Sprintf("k%02d", i), 1))
	}
	q.sampleKeys(&frame, 0, nil)
	if len(frame.Keys) != maxFrameKeys || frame.Left != 5 {
		t.Errorf("%d keys and %d left, want %d and 5", len(frame.Keys), frame.Left, maxFrameKeys)
	}
}

// A ring keeps the last points in order at its pace, hands out those after a moment, with rates since the one before, and starts over
// when the clock is set back.
func TestRing(t *testing.T) {
	t.Parallel()
	var r ring
	second := func(n int) queue.Time { return queue.Time(1_000_000 + 1000*n) }
	for i := range 25 {
		r.add(Point{At: second(i), Ready: uint64(i), Done: uint64(i)}, 10, time.Second)
		r.add(Point{At: second(i).Add(400 * time.Millisecond), Done: 999}, 10, time.Second) // too soon
	}
	since := func(after queue.Time) (s api.Series) { r.appendTo(&s, after.Std()); return s }
	if got := since(second(20)); !slices.Equal(got.Ready, []uint64{21, 22, 23, 24}) || !slices.Equal(got.DoneRate, []float64{1, 1, 1, 1}) {
		t.Errorf("after 20: got %v at the rates %v, want 21 to 24 at 1 a second", got.Ready, got.DoneRate)
	}
	if all := since(0); len(all.At) != 10 || all.Ready[0] != 15 || all.DoneRate[0] != 0 || all.DoneRate[1] != 1 {
		t.Errorf("all: got %v at the rates %v, want 15 to 24, the first with no rate", all.Ready, all.DoneRate)
	}
	r.add(Point{At: second(3)}, 10, time.Second)
	if all := since(0); len(all.At) != 1 {
		t.Errorf("after the clock was set back: %d points, want 1", len(all.At))
	}
}

// A strip has the highest number in flight of each step, 0 if there was nothing, and "not known" for steps that no frame looked at.
func TestHeat(t *testing.T) {
	t.Parallel()
	var f frames
	at := queue.Time(HeatStep.Milliseconds() * 1_000_000)
	look := func(steps int, rest uint64, inFlight ...uint64) {
		k := api.KeyFrame{Key: "company", Whole: true, Rest: api.ValueSum{InFlight: rest}}
		for i, n := range inFlight {
			k.Top = append(k.Top, api.ValueCount{Value: queue.IntValue(int64(i)), InFlight: n})
		}
		f.note(&Frame{At: at.Add(time.Duration(steps) * HeatStep), Keys: api.KeysFrame{Keys: []api.KeyFrame{k}}})
	}
	last := func(value int64) string {
		h := f.heat["company"]
		row := h.rows[queue.IntValue(value)]
		if row == nil {
			return "none"
		}
		var cells []int32
		for s := h.step - 5; s <= h.step; s++ {
			cells = append(cells, row.cells[s%HeatCells])
		}
		return fmt.Sprint(cells)
	}
	look(0, 0, 2)
	look(0, 0, 7)
	look(0, 0, 1)
	look(1, 0, 0, 3)
	look(3, 9, 4) // 1 is not named, and others have something in flight
	for value, want := range map[int64]string{0: "[-1 -1 7 0 -1 4]", 1: "[-1 -1 0 3 -1 -1]", 2: "none"} {
		if got := last(value); got != want {
			t.Errorf("value %d: got %s, want %s", value, got, want)
		}
	}
	look(4, 0, 0, 0, 6)
	if got, want := last(2), "[-1 -1 -1 -1 -1 6]"; got != want {
		t.Errorf("a value that comes after a blind time: got %s, want %s", got, want)
	}
	look(4+HeatCells, 0)
	if got := len(f.heat["company"].rows); got != 0 {
		t.Errorf("after ten idle minutes there are %d rows, want none", got)
	}
}

// A value that is at work in every frame keeps its history, however many others come and go beside it.
func TestHeatKeepsABusyValue(t *testing.T) {
	t.Parallel()
	const frames, others = 5, FrameValues - 1
	h := &heat{rows: map[queue.MetaValue]*heatRow{}}
	steady, next := queue.StringValue("steady"), int64(0)
	for step := range int64(HeatCells) {
		for range frames {
			k := api.KeyFrame{Key: "company", Whole: true, Rest: api.ValueSum{InFlight: 1}}
			for range others {
				k.Top = append(k.Top, api.ValueCount{Value: queue.IntValue(next), InFlight: 2})
				next++
			}
			k.Top = append(k.Top, api.ValueCount{Value: steady, InFlight: 1})
			h.note(&k, step)
		}
	}
	row := h.rows[steady]
	if row == nil {
		t.Fatal("the value has no strip")
	}
	for step, n := range row.cells {
		if n != 1 {
			t.Errorf("step %d: got %d in flight, want 1", step, n)
		}
	}
	if len(h.rows) > maxHeatValues {
		t.Errorf("%d strips, want %d at most", len(h.rows), maxHeatValues)
	}
}
