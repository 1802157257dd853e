package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// recorded is a batch of the calibration, with its forecast.
type recorded struct {
	entry  queue.MetaEntry
	id     queue.SubmissionID
	left   int
	each   float64 // seconds that a chunk takes
	readAt int     // the second at which its forecast is read
	p90    queue.Time
	ended  queue.Time
	pause  int    // the second at which it is paused; 0: never
	change int    // the second at which its limit changes; 0: never
	kind   string // what it is counted as
}

// 300 batches are behind different limits. Some are paused for a while, some get another limit, and the strategy limits a third. 80 to 97 %
// of them end before the p90 of a forecast that was read at some moment of the batch. docs/FIGURES.md has the table.
//
//quern:sequential
func TestForecastsAreCalibrated(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	start := queue.Time(1_700_000_000_000)
	clock := clockAt(start)
	e, err := Open(context.Background(), Options{Dir: t.TempDir(), Now: clock.std,
		Seed: func() uint64 { return 7 }, BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, e)
	q, ctx := queueAt(e, DefaultQueue), context.Background()
	const batches, mine = 300, 2
	all, by := make([]*recorded, batches), map[queue.MetaValue]*recorded{}
	for i := range all {
		limit, each := 1+rnd.IntN(4), 1+4*rnd.Float64()
		b := &recorded{entry: text("company", fmt.Sprint("c", i)), each: each, readAt: 40 + rnd.IntN(60), kind: "left alone"}
		if i%3 == 0 {
			b.entry.Key, b.kind, limit = "tenant", "limit of the strategy", mine
		} else {
			setValue(t, e, DefaultQueue, b.entry, limited(uint32(limit)))
		}
		b.left = int(float64(limit) / each * (150 + 150*rnd.Float64()))
		b.id = insert(t, e, uint32(b.left), b.entry)
		if i%3 != 0 && rnd.IntN(5) == 0 {
			b.change, b.kind = 10+rnd.IntN(120), "limit changed"
		}
		switch rnd.IntN(12) {
		case 0:
			b.pause, b.kind = b.readAt+5+rnd.IntN(40), "paused after the reading"
		case 1:
			b.pause, b.kind = b.readAt-5, "paused at the reading"
		}
		all[i], by[b.entry.Value] = b, b
	}
	plan, err := q.Plan(fmt.Appendf(nil, "%q", fmt.Sprintf("MaxSimultaneous(%q, %d, OldestFirst)", "tenant", mine)))
	if err != nil {
		t.Fatal(err)
	}
	due := map[int][]queue.CompleteItem{}
	owner := map[queue.Token]*recorded{}
	open := batches
	for second := 1; open > 0 && second < 2000; second++ {
		now := start.Add(time.Duration(second) * time.Second)
		clock.set(now)
		if items := due[second]; len(items) > 0 {
			if _, err := q.Complete(ctx, items, nil); err != nil {
				t.Fatal(err)
			}
			for _, item := range items {
				b := owner[item.Token]
				if b.left--; b.left == 0 {
					b.ended, open = now, open-1
				}
			}
			delete(due, second)
		}
		for _, b := range all {
			b.meddle(t, e, second, rnd)
		}
		if err := e.CatchUp(ctx); err != nil { // rules end
			t.Fatal(err)
		}
		got, err := q.Reserve(ctx, ReserveRequest{Max: 1000, Plan: plan}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got.Reservations {
			b := by[r.Meta[0].Value]
			ends := second + max(1, int(b.each*(0.5+rnd.Float64())+0.5))
			due[ends], owner[r.Token] = append(due[ends], queue.CompleteItem{Token: r.Token}), b
		}
		e.queues[DefaultQueue].sample(now, nil)
		for _, b := range all {
			if second == b.readAt && b.left > 0 {
				b.read(t, e)
			}
		}
	}
	within, known := 0, 0
	rows := map[string]*[2]int{}
	for _, b := range all {
		if b.p90 == 0 {
			continue
		}
		if rows[b.kind] == nil {
			rows[b.kind] = &[2]int{}
		}
		known++
		rows[b.kind][1]++
		if b.ended != 0 && b.ended <= b.p90 {
			within++
			rows[b.kind][0]++
		}
	}
	if open > 0 {
		t.Errorf("%d batches never ended", open)
	}
	share := float64(within) / float64(known)
	for kind, n := range rows {
		t.Logf("| %s | %d of %d | %.1f %% |", kind, n[0], n[1], 100*float64(n[0])/float64(n[1]))
	}
	t.Logf("| all | %d of %d | %.1f %% |", within, known, 100*share)
	if known < batches*9/10 || share < 0.80 || share > 0.97 {
		t.Errorf("%d of %d batches with a forecast ended before their p90, want 80 to 97 %%, of nearly all of %d", within, known, batches)
	}
}

// meddle plays the operators.
func (b *recorded) meddle(t *testing.T, e *Engine, second int, rnd *rand.Rand) {
	t.Helper()
	if b.left == 0 {
		return
	}
	if second == b.change {
		setValue(t, e, DefaultQueue, b.entry, limited(uint32(1+rnd.IntN(4))))
	}
	if second != b.pause {
		return
	}
	until := queue.At(e.options.Now()).Add(time.Duration(20+rnd.IntN(60)) * time.Second)
	_, _, err := queueAt(e, DefaultQueue).Rules.Set(context.Background(),
		queue.Rule{Action: queue.Pause, Match: queue.RuleMatch{Entry: b.entry}, Until: until}, nil)
	if err != nil {
		t.Fatal(err)
	}
}

// read reads the forecast of the batch: that of its submission, which is that of its value.
func (b *recorded) read(t *testing.T, e *Engine) {
	t.Helper()
	q := queueAt(e, DefaultQueue)
	one, err := q.Questions.DiagnoseSubmission(context.Background(), b.id)
	if err != nil {
		t.Fatal(err)
	}
	value, err := q.Questions.DiagnoseValue(context.Background(), b.entry)
	if err != nil {
		t.Fatal(err)
	}
	if (one.Forecast == nil) != (value.Forecast == nil) || one.Forecast != nil && *one.Forecast != *value.Forecast {
		t.Errorf("%s: its submission is foreseen as %+v, and its value as %+v", b.entry.Value, one.Forecast, value.Forecast)
	}
	if f := one.Forecast; f != nil {
		b.p90 = queue.At(f.P90.Time)
		if whole := q.Stats().Forecast; whole == nil || whole.P90.Before(f.P90.Time) {
			t.Errorf("%s ends by %v, and the whole queue by %+v", b.entry.Value, f.P90, whole)
		}
	}
}

// Values that strategies limit go each at its own pace, as those of an operator do: the queue ends with the slowest. As soon as consumers
// use a strategy without the limit, it holds no one back.
func TestStrategyLimitsHaveTheirPace(t *testing.T) {
	t.Parallel()
	clock := clockAt(1_700_000_000_000)
	e, err := Open(context.Background(), Options{Dir: t.TempDir(), Now: clock.std,
		Seed: func() uint64 { return 7 }, BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, e)
	q := e.queues[DefaultQueue]
	long, short := text("company", "long"), text("company", "short")
	insert(t, e, 1000, long)
	insert(t, e, 20, short)
	const limited = `MaxSimultaneous("company", 2, OldestFirst)`
	for range 30 { // two chunks of each in two seconds
		held, _ := take(t, e, limited, 10)
		clock.pass(time.Second)
		q.sample(clock.now(), nil)
		if clock.pass(time.Second); len(held) > 0 {
			finishAll(t, e, held)
		}
	}
	take(t, e, limited, 10)
	q.sample(clock.now(), nil)
	f := q.Frame().Stats.Stats.Forecast
	if f == nil || f.NotBefore.IsZero() || f.P50.Sub(clock.std()) < 900*time.Second {
		t.Errorf("940 chunks in two places, one a second: the queue ends %+v, %v away", f, f.P50.Sub(clock.std()))
	}
	d, err := queueAt(e, DefaultQueue).Questions.DiagnoseValue(context.Background(), long)
	if err != nil || d.Forecast == nil || *d.Forecast != *f {
		t.Errorf("the value ends %+v (%v), and its queue %+v", d.Forecast, err, f)
	}
	if paced := q.Frame().paced; paced < 1 {
		t.Errorf("%d values have a pace, want the long one at least", paced)
	}
	take(t, e, "OldestFirst", 1)
	q.sample(clock.now().Add(time.Second), nil)
	if f := q.Frame().Stats.Stats.Forecast; f != nil && !f.NotBefore.IsZero() {
		t.Errorf("with a strategy without the limit: %+v, bound by a limit", f)
	}
}

// A tenant learns no end that follows from another tenant's work. For a limit that it shares, a rule about more than its own, and the pace
// of the queue, it gets the same answer whether the others have work or not. It does learn the end at its own limit.
func TestForecastsKeepToTheTenant(t *testing.T) {
	t.Parallel()
	own := text("company", "own")
	asked := func(others uint32, limit bool) (d Diagnosis) {
		e := openAt(t, t.TempDir())
		defer closed(t, e)
		q, ctx, now := queueAt(e, DefaultQueue), context.Background(), queue.At(e.options.Now())
		shared := text("region", "eu")
		if setValue(t, e, DefaultQueue, shared, limited(1)); limit {
			setValue(t, e, DefaultQueue, own, limited(2))
		}
		insert(t, e, 100, own)
		if !limit {
			insert(t, e, 50, own, shared)
		}
		if others > 0 {
			insert(t, e, others, text("company", "other"), shared)
			insert(t, e, others, text("company", "other"))
		}
		for range 20 {
			held, _ := take(t, e, `OrElse(SelectOnly("region", "eu", OldestFirst), SelectOnly("company", "own", OldestFirst))`, 3)
			now = now.Add(time.Second)
			e.queues[DefaultQueue].sample(now, nil)
			finishAll(t, e, held)
		}
		take(t, e, `OrElse(SelectOnly("region", "eu", OldestFirst), SelectOnly("company", "own", OldestFirst))`, 3)
		e.queues[DefaultQueue].sample(now.Add(time.Second), nil)
		d, err := q.Questions.DiagnoseValue(ctx, own)
		if err != nil {
			t.Fatal(err)
		}
		if d.Forecast == nil {
			t.Errorf("%d chunks of others, its own limit %t: an operator is told no end", others, limit)
		}
		q.Questions.Narrow(&d, own)
		return d
	}
	for _, others := range []uint32{0, 5000} {
		d := asked(others, false)
		for i, f := range append(d.Forecasts, d.Forecast) {
			if f != nil {
				t.Errorf("%d chunks of others: the tenant is told of an end, %d: %+v", others, i, f)
			}
		}
		if d = asked(others, true); d.Forecast == nil || d.Forecast.NotBefore.IsZero() {
			t.Errorf("%d chunks of others: at its own limit the tenant is told %+v", others, d.Forecast)
		}
	}
}
