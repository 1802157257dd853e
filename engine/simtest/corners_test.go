package simtest

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/consumers"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Corners of the life cycle that the random simulation does not reach, or reaches too seldom to tell whether they hold. Each was found by
// a change of one line that no test noticed.

func (b *box) attach(t *testing.T, name string) *consumers.Attached {
	t.Helper()
	a, err := b.shard.Consumers.Attach(name, "")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (b *box) heldAs(t *testing.T, name string, most int) []queue.Reservation {
	t.Helper()
	got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, "OldestFirst"), Max: most, Timeout: time.Hour, Consumer: name}, nil)
	if err != nil || len(got.Reservations) != most {
		t.Fatalf("reserved %d %v, want %d", len(got.Reservations), err, most)
	}
	return got.Reservations
}

// Any call of a consumer about a chunk that it holds is a sign of life: the grace of an absent consumer begins again with it.
func TestEveryCallIsASignOfLife(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(b *box, token queue.Token) error{
		"complete": func(b *box, token queue.Token) error {
			_, err := b.shard.Complete(ctx, []queue.CompleteItem{{Token: token}}, nil)
			return err
		},
		"complete with an output": func(b *box, token queue.Token) error {
			_, err := b.shard.Complete(ctx, []queue.CompleteItem{{Token: token, Output: []byte("x")}}, nil)
			return err
		},
		"fail": func(b *box, token queue.Token) error {
			_, err := b.shard.Fail(ctx, []queue.FailItem{{Token: token, HasRetry: true, RetryAfter: 3_600_000}}, nil)
			return err
		},
		"extend": func(b *box, token queue.Token) error {
			_, err := b.shard.Extend(ctx, []queue.ExtendItem{{Token: token, Timeout: 3_600_000}}, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBox(t, relaxed()) // the grace is 30 s
			mustInsert(t, b, prefixed(2))
			a := b.attach(t, "c")
			held := b.heldAs(t, "c", 2)
			a.Close(true)
			b.clock.pass(20 * time.Second)
			if err := call(b, held[0].Token); err != nil {
				t.Fatal(err)
			}
			b.tickAfter(20 * time.Second)
			if lost := b.shard.Stats().LostTotal; lost != 0 {
				t.Fatalf("20 s after a call, %d are lost, want none", lost)
			}
			b.tickAfter(11 * time.Second)
			if lost := b.shard.Stats().LostTotal; lost == 0 {
				t.Error("31 s after the last call, nothing is lost")
			}
		})
	}
}

// A consumer that came back and is away again has its whole grace from then on.
func TestSecondAbsenceHasItsOwnGrace(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	mustInsert(t, b, prefixed(1))
	a := b.attach(t, "c")
	b.heldAs(t, "c", 1)
	a.Close(true)
	b.clock.pass(10 * time.Second)
	a = b.attach(t, "c")
	b.clock.pass(10 * time.Second)
	a.Close(true)
	b.tickAfter(25 * time.Second) // the first absence began 45 s ago, and the attachment between 35 s ago
	if lost := b.shard.Stats().LostTotal; lost != 0 {
		t.Fatalf("25 s into the second absence, %d are lost, want none", lost)
	}
	b.tickAfter(6 * time.Second)
	if lost := b.shard.Stats().LostTotal; lost != 1 {
		t.Errorf("31 s into the second absence, %d are lost, want 1", lost)
	}
}

// A lost consumer's completion is accepted while the chunk waits for its next try.
func TestCompletionAfterALoss(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	sub := mustInsert(t, b, prefixed(1))
	a := b.attach(t, "c")
	held := b.heldAs(t, "c", 1)
	a.Close(true)
	b.tickAfter(31 * time.Second)
	if got := b.sub(sub.ID); got.Waiting != 1 {
		t.Fatalf("after the loss: got %+v, want it waiting", got)
	}
	if results, err := b.shard.Complete(ctx, completions(held), nil); err != nil || results[0].Outcome != queue.OutcomeOK {
		t.Errorf("a completion after the loss: got %v %v, want ok", results, err)
	}
	b.wantCounts("completed late", sub.ID, queue.Submission{State: queue.Completed, Done: 1})
}

// While a loss is on its way to the disk, a completion still comes first, and then nothing is lost; an extend comes too late.
//
//quern:overlapping
func TestCompletionOvertakesALoss(t *testing.T) {
	t.Parallel()
	at := new(stop)
	b := newBox(t, relaxed())
	b.wrap = func(inner journal.Journal) journal.Journal { return &stopLog{inner, at} }
	b.open()
	mustInsert(t, b, prefixed(2))
	a := b.attach(t, "c")
	held := b.heldAs(t, "c", 2)
	a.Close(true)
	b.clock.pass(31 * time.Second)
	begun, then := at.arm()
	inserted, ticked, completed := make(chan error), make(chan struct{}), make(chan []queue.Result)
	go func() {
		one := prefixed(1)
		_, _, err := b.shard.Insert(ctx, &one)
		inserted <- err
	}()
	<-begun
	drawn := b.seeds.Load()
	go func() {
		defer close(ticked)
		b.shard.Worker.Tick()
	}()
	for b.seeds.Load() == drawn {
		runtime.Gosched()
	}
	b.shard.Work()              // the mutex is free again: the losses are encoded
	var answered sync.WaitGroup // that it is lost, once the loss is durable
	answered.Go(func() {
		got, err := b.shard.Extend(ctx, []queue.ExtendItem{{Token: held[1].Token, Timeout: 60_000}}, nil)
		if err != nil || got[0].Outcome != queue.OutcomeLost {
			t.Errorf("an extend of what is about to be lost: got %v %v, want lost", got, err)
		}
	})
	answered.Go(func() {
		got, err := b.shard.Release(ctx, []queue.ReleaseItem{{Token: held[1].Token}}, nil)
		if err != nil || got[0].Outcome != queue.OutcomeLost {
			t.Errorf("a release of what is about to be lost: got %v %v, want lost", got, err)
		}
	})
	go func() {
		results, err := b.shard.Complete(ctx, completions(held[:1]), nil)
		if err != nil {
			t.Error(err)
		}
		completed <- results
	}()
	for finishing := false; !finishing; runtime.Gosched() {
		_, chunks, _, _, err := b.shard.Consumers.Get("c", reserver.Place{}, 2)
		if err != nil {
			t.Fatal(err)
		}
		finishing = chunks[0].Finishing || chunks[1].Finishing
	}
	close(then)
	if err := <-inserted; err != nil {
		t.Error(err)
	}
	if results := <-completed; len(results) != 1 || results[0].Outcome != queue.OutcomeOK {
		t.Errorf("complete: got %v, want ok", results)
	}
	<-ticked
	answered.Wait()
	if k, got := b.shard.Work().Kinds[machine.KindLost], b.shard.Stats(); k.Done != 1 || k.Stale != 1 || got.LostTotal != 1 || got.DoneTotal != 1 {
		t.Errorf("got %d losses done, %d stale, %d lost and %d chunks done; want one of each", k.Done, k.Stale, got.LostTotal, got.DoneTotal)
	}
}

// Consumer slots halve every ten seconds, and go at once with reservations that end by themselves.
//
//quern:overlapping
func TestLiveSlots(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	mustInsert(t, b, prefixed(100))
	slots := func() float64 { return b.shard.Work().Suspects.Slots }
	if _, err := b.shard.Complete(ctx, completions(b.heldAs(t, "c", 16)), nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []float64{8, 4, 2} {
		b.clock.pass(10 * time.Second)
		if got := slots(); got < want*0.999 || got > want*1.001 {
			t.Errorf("half-lives after 16 chunks were held: %g slots, want %g", got, want)
		}
	}
	b.clock.pass(time.Hour)
	if got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, "OldestFirst"), Max: 16, Timeout: time.Second}, nil); err != nil || len(got.Reservations) != 16 {
		t.Fatalf("reserved %d %v, want 16", len(got.Reservations), err)
	}
	b.tickAfter(2 * time.Second)
	if got := slots(); got > 0.001 {
		t.Errorf("all 16 deadlines passed: %g slots, want none", got)
	}
}

// The entry for a chunk's earlier retry time has no effect if the chunk was tried before that time, and now waits for a later one.
func TestRetryOfAnEarlierTry(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	sub := mustInsert(t, b, prefixed(1))
	retryIn := func(d time.Duration) {
		b.mustFail(mustReserve(t, b, "OldestFirst", 1), func(f *queue.FailItem) { f.HasRetry, f.RetryAfter = true, queue.Time(d.Milliseconds()) })
	}
	retryIn(10 * time.Second)
	b.clock.pass(time.Second)
	if op := b.finishBulk(t, b.startBulk(t, queue.BulkRequest{Action: queue.BulkRetry}), 10); op.Counts.Done != 1 {
		t.Fatalf("retry now: got %+v, want one done", op.Counts)
	}
	retryIn(time.Hour)
	b.tickAfter(20 * time.Second)
	b.wantCounts("at the time of the first retry", sub.ID, queue.Submission{Waiting: 1})
	b.tickAfter(time.Hour)
	b.wantCounts("at the time of the second", sub.ID, queue.Submission{Ready: 1})
}

// A reserve that finds nothing else looks for suspects that suit it behind those that do not. The suspects that it cannot take go back.
func TestBorrowsWhatSuits(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	for _, rank := range []int{1, 1, 1, 4} {
		mustInsert(t, b, prefixed(2, number("rank", rank)))
	}
	if got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, "OldestFirst"), Max: 8, Timeout: time.Second}, nil); err != nil || len(got.Reservations) != 8 {
		t.Fatal(got, err)
	}
	mustInsert(t, b, prefixed(100, number("rank", 2)))
	b.tickAfter(2 * time.Second)
	b.tickAfter(time.Minute)
	if w := b.shard.Work().Suspects; w.Shelved != 7 || w.Lent != 1 {
		t.Fatalf("suspects: %+v, want 7 shelved and one out", w)
	}
	limited := `MaxSimultaneous("rank", 1, SelectOnly("rank", 4, OldestFirst))`
	if got := mustReserve(t, b, limited, 1); len(got) != 1 {
		t.Fatalf("got %d, want the suspect that suits, behind others", len(got))
	}
	before := b.shard.Work().Suspects
	if got := mustReserve(t, b, limited, 1); len(got) != 0 {
		t.Fatalf("got %d over the limit", len(got))
	}
	if after := b.shard.Work().Suspects; after.Shelved != before.Shelved || after.Lent != before.Lent {
		t.Errorf("what was borrowed without success: got %+v, want %+v as before", after, before)
	}
}

// An attached consumer is notified of its chunks when their submission ends.
func TestHolderHearsOfTheEnd(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	sub := mustInsert(t, b, prefixed(1))
	a := b.attach(t, "c")
	held := b.heldAs(t, "c", 1)
	a.Next()
	if _, err := b.shard.Submissions.Cancel(ctx, sub.ID); err != nil {
		t.Fatal(err)
	}
	if n := a.Next(); len(n.Revoked) != 1 || n.Revoked[0].Token != held[0].Token || n.Revoked[0].Why != queue.RevokedEnded {
		t.Errorf("told: %+v, want the token of chunk 0", n)
	}
}

// A schedule that a rule keeps from emitting emits as soon as the rule is lifted, and a lift that failed can be repeated.
func TestLiftedRuleLetsScheduleEmit(t *testing.T) {
	t.Parallel()
	f := &faults{spare: true}
	b := newBox(t, relaxed())
	b.wrap, b.fatal = f.wrap, f.fatal
	b.open()
	rule, _, err := b.shard.Rules.Set(queue.Rule{Action: queue.Pause}, nil)
	if err != nil {
		t.Fatal(err)
	}
	def := queue.Schedule{Spec: "@every 10s", Enabled: true, Template: queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "p/"}}}
	if _, _, err := b.shard.Schedules.Put("s", def, nil); err != nil {
		t.Fatal(err)
	}
	b.tickAfter(10 * time.Second)
	if info, err := b.shard.Schedules.Get("s"); err != nil || info.State != queue.ScheduleHeld || info.Emitted != 0 {
		t.Fatalf("under the rule: %+v %v, want it held", info, err)
	}
	f.arm(full, 0)
	if _, _, err := b.shard.Rules.Lift(rule.ID, ""); queue.CodeOf(err) != queue.CodeDiskFull {
		t.Fatalf("a lift on a full disk: got %v", err)
	}
	b.shard.SetFull(false)
	if _, was, err := b.shard.Rules.Lift(rule.ID, ""); !was || err != nil || len(b.shard.Rules.List()) != 0 {
		t.Fatalf("the lift again: %v %v, rules %+v; want it lifted", was, err, b.shard.Rules.List())
	}
	b.shard.Worker.Tick()
	if info, err := b.shard.Schedules.Get("s"); err != nil || info.Emitted != 1 {
		t.Errorf("after the lift, at the same moment: %+v %v, want a tick emitted", info.ScheduleCounts, err)
	}
}
