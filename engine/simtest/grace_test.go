package simtest

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// crashed opens a copy of the files as they are now, as after a kill.
func (b *box) crashed(down time.Duration) {
	b.t.Helper()
	dir := b.t.TempDir()
	b.copyFiles("journal.db", dir)
	b.copyFiles("store.db", dir)
	b.close()
	b.dir = dir
	b.clock.pass(down)
	b.open()
}

// outside is the world outside of the server: the workers, and the chunks that each really works on. It is the oracle: it sees the
// workers and not the server's view of them.
type outside struct {
	b       *box
	r       *rand.Rand
	workers []*outsider
	most    map[queue.MetaValue]int // that was ever worked on at once
	during  int                     // chunks that no limit counts, handed out in a restart grace
}

// outsider is a worker who extends in time, stops at once when it hears that its chunk is lost, and may die with its machine.
type outsider struct {
	name string
	work []*outsideWork
}

type outsideWork struct {
	token    queue.Token
	meta     queue.Meta
	extended queue.Time
}

const companyLimit = 3 // by the strategy; company 2 has one of 2, by an operator

var companyStrategies = []string{
	`MaxSimultaneous("company", 3, Random)`, `OrElse(MaxSimultaneous("company", 2, OldestFirst), MaxSimultaneous("company", 3, NewestFirst))`,
	`Fair("company", MaxSimultaneous("company", 3, Random))`, `SelectOnly("company", 2, OldestFirst)`,
}

// look notes how many chunks of each company are worked on.
func (o *outside) look() {
	now := map[queue.MetaValue]int{}
	for _, w := range o.workers {
		for _, x := range w.work {
			if v, limited := x.meta.Find("company"); limited {
				now[v]++
				o.most[v] = max(o.most[v], now[v])
			}
		}
	}
}

func (o *outside) reserve(w *outsider, strategy string) queue.EmptyReason {
	o.b.t.Helper()
	got, err := o.b.shard.Reserve(ctx, machine.Request{Plan: plan(o.b.t, strategy), Max: 1 + o.r.IntN(2), Consumer: w.name, Timeout: time.Minute}, nil)
	if err != nil {
		o.b.t.Fatal(err)
	}
	for _, res := range got.Reservations {
		w.work = append(w.work, &outsideWork{res.Token, res.Meta, o.b.clock.now()})
	}
	return got.Reason
}

// extend is called for each worker a quarter of a minute after its last call: at the latest when half of the restart grace is over.
func (o *outside) extend(w *outsider) {
	o.b.t.Helper()
	kept := w.work[:0]
	for _, x := range w.work {
		if now := o.b.clock.now(); x.extended.Add(15*time.Second) <= now {
			got, err := o.b.shard.Extend(ctx, []queue.ExtendItem{{Token: x.token, Timeout: 60_000, Consumer: w.name}}, nil)
			if err != nil {
				o.b.t.Fatal(err)
			}
			if got[0].Outcome != queue.OutcomeOK {
				continue
			}
			x.extended = now
		}
		kept = append(kept, x)
	}
	w.work = kept
}

func (o *outside) finish(w *outsider) {
	o.b.t.Helper()
	if len(w.work) == 0 {
		return
	}
	x := w.work[0]
	w.work = w.work[1:]
	if _, err := o.b.shard.Complete(ctx, []queue.CompleteItem{{Token: x.token}}, nil); err != nil {
		o.b.t.Fatal(err)
	}
}

// step does one thing. It returns when the server's grace is over, if it crashed.
func (o *outside) step(graceEnds queue.Time) queue.Time {
	w := o.workers[o.r.IntN(len(o.workers))]
	switch n := o.r.IntN(100); {
	case n < 40:
		if len(w.work) < 3 {
			o.reserve(w, companyStrategies[o.r.IntN(len(companyStrategies))])
		}
	case n < 50:
		before := len(w.work)
		o.reserve(w, `SelectOnly("free", 1, Random)`)
		if o.b.clock.now() < graceEnds {
			o.during += len(w.work) - before
		}
	case n < 65:
		o.finish(w)
	case n < 96:
		o.b.tickAfter(time.Duration(1+o.r.IntN(5)) * time.Second)
		for _, w := range o.workers {
			o.extend(w)
		}
	default:
		for _, w := range o.workers {
			if o.r.IntN(6) == 0 {
				w.work = nil // it dies too, and another one comes in its place
			}
		}
		o.b.crashed(time.Duration(o.r.IntN(10)) * time.Second)
		graceEnds = o.b.clock.now().Add(o.b.settings.RestartGrace)
	}
	o.look()
	return graceEnds
}

// playOutside lets workers work through crashes of the server.
func playOutside(t *testing.T, seed uint64, grace time.Duration) *outside {
	t.Helper()
	settings := relaxed()
	settings.RestartGrace = grace
	b := newBox(t, settings)
	b.seeds.Store(seed << 20)
	b.open()
	two := queue.NoSettings()
	two.Limit = 2
	b.setValue(number("company", 2), two)
	o := &outside{b: b, r: rand.New(rand.NewPCG(seed, 7)), most: map[queue.MetaValue]int{}}
	for i := range 12 {
		o.workers = append(o.workers, &outsider{name: fmt.Sprint("worker-", i)})
	}
	for company := range 3 {
		mustInsert(t, b, prefixed(500, number("company", company)))
	}
	mustInsert(t, b, prefixed(500, number("free", 1)))
	graceEnds := queue.Time(0)
	for range 400 {
		graceEnds = o.step(graceEnds)
	}
	return o
}

// With a restart grace a limit holds in the world outside, across crashes: workers that worked through a crash extend before any
// chunk that the limit counts is handed out. Chunks that no limit counts are handed out meanwhile. Without the grace the limit does
// not hold, which shows that the oracle can tell.
func TestLimitsHoldAcrossCrashes(t *testing.T) {
	t.Parallel()
	n := uint64(12)
	if testing.Short() {
		n = 6
	}
	first, last := seedsToPlay(t, n)
	limits := map[queue.MetaValue]int{queue.IntValue(0): companyLimit, queue.IntValue(1): companyLimit, queue.IntValue(2): 2}
	var during, exceeded atomic.Int64
	playSeeds(t, first, last, func(t *testing.T, seed uint64) {
		with, without := playOutside(t, seed, 30*time.Second), playOutside(t, seed, 0)
		for company, limit := range limits {
			if n := with.most[company]; n > limit || n == 0 {
				t.Errorf("%d chunks of company %s were worked on at once, want some, and at most %d", n, company.Text(), limit)
			}
			if without.most[company] > limit {
				exceeded.Add(1)
			}
		}
		during.Add(int64(with.during))
	})
	t.Logf("no limit exceeded with the grace, %d without it; %d chunks without a limit handed out during graces", exceeded.Load(), during.Load())
	if last-first >= 5 && (exceeded.Load() == 0 || during.Load() == 0) { // in fewer it may not happen
		t.Errorf("without the grace %d limits were exceeded, and %d chunks were handed out during graces: want some of both", exceeded.Load(), during.Load())
	}
}

// The grace as a caller sees it: which chunks it keeps back, what a reserve answers, and what ends it.
//
//quern:overlapping
func TestRestartGrace(t *testing.T) {
	t.Parallel()
	settings := relaxed()
	settings.RestartGrace = 30 * time.Second
	b := openBox(t, settings)
	mustInsert(t, b, prefixed(10, number("company", 1)))
	mustInsert(t, b, prefixed(1))
	limited := `MaxSimultaneous("company", 2, OldestFirst)`
	held := mustReserve(t, b, limited, 2) // the first life has no grace
	if len(held) != 2 {
		t.Fatalf("the first life hands out %d, want 2", len(held))
	}
	b.crashed(time.Hour)
	want := func(when, strategy string, reason queue.EmptyReason, after time.Duration) {
		t.Helper()
		got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, strategy), Max: 5}, nil)
		if err != nil || len(got.Reservations) != 0 || got.Reason != reason || got.RetryAfter != after {
			t.Fatalf("%s: got %+v %v, want none, for %s, and to ask again after %s", when, got, err, reason, after)
		}
	}
	if got := mustReserve(t, b, limited, 5); len(got) != 1 {
		t.Errorf("what has no such key: got %d chunks, want 1: no limit counts it", len(got))
	} else if _, err := b.shard.Complete(ctx, completions(got), nil); err != nil {
		t.Fatal(err)
	}
	want("after the crash", limited, queue.RestartGrace, 30*time.Second)
	b.tickAfter(10 * time.Second)
	want("ten seconds later", limited, queue.RestartGrace, 20*time.Second)
	if got := mustReserve(t, b, "Random", 1); len(got) != 1 {
		t.Errorf("without a limit: got %d chunks, want 1", len(got))
	} else if _, err := b.shard.Release(ctx, []queue.ReleaseItem{{Token: got[0].Token}}, nil); err != nil {
		t.Fatal(err)
	}
	one := queue.NoSettings()
	one.Limit = 4
	b.setValue(number("company", 1), one) // an operator sets a limit meanwhile
	want("under the operator's limit", "Random", queue.RestartGrace, 20*time.Second)
	got, err := b.shard.Extend(ctx, []queue.ExtendItem{{Token: held[0].Token, Consumer: "it"}, {Token: held[1].Token, Consumer: "it"}}, nil)
	if err != nil || got[0].Outcome != queue.OutcomeOK || got[1].Outcome != queue.OutcomeOK {
		t.Fatalf("extend with tokens of the life before: got %+v %v, want both ok", got, err)
	}
	waiting := make(chan int, 1)
	go func() {
		got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, `MaxSimultaneous("company", 4, OldestFirst)`), Max: 5, Wait: time.Hour}, nil)
		if err != nil {
			t.Errorf("the waiting reserve: %v", err)
		}
		waiting <- len(got.Reservations)
	}()
	for b.shard.Stats().ConsumersWaiting == 0 {
	}
	b.tickAfter(20 * time.Second)
	if n := <-waiting; n != 2 {
		t.Errorf("who waited gets %d chunks when the grace ends, want 2: 2 are in flight, and 4 allowed", n)
	}
	want("when it is over", limited, queue.AllLimited, 0)
	if got := b.shard.Values.Settings(number("company", 1)); got != one {
		t.Errorf("what the operator set: got %+v, want %+v", got, one)
	}
	settings.RestartGrace = time.Minute
	if err := b.putSettings(settings); err != nil { // too late for this life
		t.Fatal(err)
	}
	want("after a longer grace is set", limited, queue.AllLimited, 0)
	b.settings = settings
	b.crashed(0)
	want("after the next crash", limited, queue.RestartGrace, time.Minute)
	settings.RestartGrace = 0
	if err := b.putSettings(settings); err != nil {
		t.Fatal(err)
	}
	b.tickAfter(0)
	if got := mustReserve(t, b, limited, 5); len(got) != 2 {
		t.Errorf("after the operator has cut the grace short: got %d, want 2", len(got))
	}
}
