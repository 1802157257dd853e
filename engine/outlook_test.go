package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// recorded is a batch of the calibration: what it is, and what was foreseen of it.
type recorded struct {
	entry  queue.MetaEntry
	id     queue.SubmissionID
	left   int
	each   float64 // seconds that a chunk takes
	readAt int     // the second at which its forecast is read
	p90    queue.Time
	ended  queue.Time
	pause  int // the second at which it is paused; 0: never
	change int // the second at which its limit changes; 0: never
}

// Of 200 batches behind limits that differ, some of which are paused for a while and some of which get another limit, 80 to 97 % end
// before the p90 of a forecast that was read at some moment of them.
func TestForecastsAreCalibrated(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	start := queue.Time(1_700_000_000_000)
	now := start
	e, err := Open(context.Background(), Options{Dir: t.TempDir(), Now: func() time.Time { return now.Std() },
		Seed: func() uint64 { return 7 }, BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, e)
	q, ctx := queueAt(e, DefaultQueue), context.Background()
	const batches = 200
	all, by := make([]*recorded, batches), map[queue.MetaValue]*recorded{}
	for i := range all {
		limit, each := 1+rnd.IntN(4), 1+4*rnd.Float64()
		b := &recorded{entry: text("company", fmt.Sprint("c", i)), each: each, readAt: 40 + rnd.IntN(60)}
		b.left = int(float64(limit) / each * (150 + 150*rnd.Float64()))
		setValue(t, e, DefaultQueue, b.entry, limited(uint32(limit)))
		b.id = insert(t, e, uint32(b.left), b.entry)
		if rnd.IntN(10) == 0 {
			b.pause = b.readAt + 5 + rnd.IntN(40)
		}
		if rnd.IntN(5) == 0 {
			b.change = 10 + rnd.IntN(120)
		}
		all[i], by[b.entry.Value] = b, b
	}
	plan, err := q.Plan([]byte(`"OldestFirst"`))
	if err != nil {
		t.Fatal(err)
	}
	due := map[int][]queue.CompleteItem{}
	owner := map[queue.Token]*recorded{}
	open := batches
	for second := 1; open > 0 && second < 2000; second++ {
		now = start.Add(time.Duration(second) * time.Second)
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
		got, err := q.Reserve(ctx, ReserveRequest{Max: 1000, Plan: plan}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got.Reservations {
			value, _ := r.Meta.Find("company")
			b := by[value]
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
	for _, b := range all {
		if b.p90 == 0 {
			continue
		}
		known++
		if b.ended != 0 && b.ended <= b.p90 {
			within++
		}
	}
	share := float64(within) / float64(known)
	t.Logf("%d of %d ended before their p90: %.1f %%", within, known, 100*share)
	if known < batches*9/10 || share < 0.80 || share > 0.97 {
		t.Errorf("%d of %d batches with a forecast ended before their p90, want 80 to 97 %%, of nearly all of %d", within, known, batches)
	}
}

// meddle is what operators do.
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
		queue.Rule{Action: queue.Pause, Match: queue.RuleMatch{Entry: b.entry}, Until: until})
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
