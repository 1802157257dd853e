package simtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Known defects of other queues (P: Querator, D: Dark's pitfalls, F: Fetchq), each with the behaviour of Quern.

func deadLetters() queue.Settings {
	s := relaxed()
	s.OnExhausted = queue.DeadLetter
	return s
}

func (b *box) mustFail(held []queue.Reservation, change func(*queue.FailItem)) {
	b.t.Helper()
	var items []queue.FailItem
	for i := range held {
		item := queue.FailItem{Token: held[i].Token, Error: fmt.Sprint("trouble ", i)}
		if change != nil {
			change(&item)
		}
		items = append(items, item)
	}
	results, err := b.shard.Fail(ctx, items, nil)
	for i := range results {
		if results[i].Outcome != queue.OutcomeOK {
			b.t.Fatalf("fail %d: got %+v, want ok", i, results[i])
		}
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) tickAfter(d time.Duration) {
	b.t.Helper()
	b.clock.pass(d)
	b.shard.Worker.Tick()
	if err := b.settle(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) sub(id queue.SubmissionID) queue.Submission {
	b.t.Helper()
	sub, err := b.shard.Submissions.Get(ctx, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return sub
}

func (b *box) letters() []queue.DeadChunk {
	b.t.Helper()
	list, err := b.shard.DeadLetters.List(ctx, queue.BulkFilter{}, queue.ChunkID{}, 1000)
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

func (b *box) wantCounts(when string, id queue.SubmissionID, want queue.Submission) {
	b.t.Helper()
	got := b.sub(id)
	type counts struct {
		State                                         queue.SubmissionState
		Ready, Waiting, Reserved, Done, Dead, Skipped uint32
	}
	of := func(s queue.Submission) counts {
		return counts{s.State, s.Ready, s.Waiting, s.Reserved, s.Done, s.Dead, s.Skipped}
	}
	if of(got) != of(want) {
		b.t.Errorf("%s: got %+v, want %+v", when, of(got), of(want))
	}
}

// P1, P2 (behaviours 11 and 12): every run_at is met, in any order of inserts, and across a restart.
func TestEveryRunAtIsMet(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	for _, after := range []time.Duration{2 * time.Second, time.Second, 3 * time.Second} {
		n := prefixed(1)
		n.RunAt = b.clock.now().Add(after)
		mustInsert(t, b, n)
	}
	for second := range 3 {
		if second == 1 {
			b.close()
			b.open()
		}
		b.tickAfter(time.Second)
		got := mustReserve(t, b, "OldestFirst", 10)
		if len(got) != 1 {
			t.Errorf("after %d s: %d chunks are handed out, want 1", second+1, len(got))
		}
		if _, err := b.shard.Complete(ctx, completions(got), nil); err != nil {
			t.Fatal(err)
		}
	}
}

// P3 (21): a chunk on its last try is not judged while someone holds it.
func TestLastTryIsNotJudgedWhileHeld(t *testing.T) {
	t.Parallel()
	s := deadLetters()
	s.MaxAttempts = 1
	b := openBox(t, s)
	sub := mustInsert(t, b, prefixed(1))
	held := mustReserve(t, b, "OldestFirst", 1)
	for range 20 {
		b.tickAfter(time.Minute)
	}
	b.wantCounts("held for 20 minutes", sub.ID, queue.Submission{Reserved: 1})
	if results, err := b.shard.Complete(ctx, completions(held), nil); err != nil || results[0].Outcome != queue.OutcomeOK {
		t.Errorf("complete: got %+v %v, want ok", results, err)
	}
	b.wantCounts("completed", sub.ID, queue.Submission{State: queue.Completed, Done: 1})
}

// P4 (24): a fatal failure goes to the dead letters with the consumer's words. D5 (66): nothing is deleted silently.
func TestFatalFailureIsADeadLetter(t *testing.T) {
	t.Parallel()
	b := openBox(t, deadLetters())
	sub := mustInsert(t, b, prefixed(2))
	b.mustFail(mustReserve(t, b, "OldestFirst", 1), func(f *queue.FailItem) { f.Fatal, f.Error = true, "poison" })
	list := b.letters()
	if len(list) != 1 || list[0].Error != "poison" || list[0].Attempts != 1 || len(list[0].Past) != 1 {
		t.Fatalf("dead letters: got %+v, want one of 1 attempt that says poison", list)
	}
	b.wantCounts("after it", sub.ID, queue.Submission{Ready: 1, Dead: 1})
	b.tickAfter(100 * 24 * time.Hour)
	if _, err := b.shard.Retention.Retain(ctx, b.clock.now(), 100); err != nil {
		t.Fatal(err)
	}
	if len(b.letters()) != 1 {
		t.Error("the dead letter of an open submission aged out")
	}
}

// P5 (22): failures count, not only deadlines; D3 (72): neither handing out nor giving back does.
func TestAttemptsCountFailuresOnly(t *testing.T) {
	t.Parallel()
	s := deadLetters()
	s.MaxAttempts = 2
	b := openBox(t, s)
	sub := mustInsert(t, b, prefixed(1))
	for range 50 {
		held := mustReserve(t, b, "OldestFirst", 1)
		if _, err := b.shard.Release(ctx, []queue.ReleaseItem{{Token: held[0].Token}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	b.mustFail(mustReserve(t, b, "OldestFirst", 1), nil)
	b.wantCounts("after one failure", sub.ID, queue.Submission{Ready: 1})
	b.mustFail(mustReserve(t, b, "OldestFirst", 1), nil)
	b.wantCounts("after two", sub.ID, queue.Submission{State: queue.CompletedWithDead, Dead: 1})
}

// The defaults outlive a short outage: workers that fail all their chunks for 3 s, ten times a second, end no chunk. The chance that ten
// draws of the back-off of a chunk pass within it is below 10^-11.
func TestDefaultsOutliveAnOutage(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Durability = queue.Relaxed
	b := openBox(t, s)
	sub := mustInsert(t, b, prefixed(1000))
	for range 30 {
		b.mustFail(mustReserve(t, b, "Random", 1000), nil)
		b.tickAfter(100 * time.Millisecond)
	}
	if now := b.sub(sub.ID); now.State != queue.Open || now.Dead != 0 || now.Skipped != 0 {
		t.Fatalf("after the outage: %+v, want all 1,000 chunks alive", now)
	}
	for range 10 { // no back-off is longer than 10 minutes
		if _, err := b.shard.Complete(ctx, completions(mustReserve(t, b, "Random", 1000)), nil); err != nil {
			t.Fatal(err)
		}
		b.tickAfter(time.Minute)
	}
	b.wantCounts("when the outage is over", sub.ID, queue.Submission{State: queue.Completed, Done: 1000})
}

// One bad row costs no other row: with the defaults it becomes a dead letter.
func TestDefaultsKeepTheOtherRows(t *testing.T) {
	t.Parallel()
	s := queue.DefaultSettings()
	s.Durability = queue.Relaxed
	b := openBox(t, s)
	sub := mustInsert(t, b, prefixed(100))
	for range 200 {
		var good []queue.Reservation
		for _, r := range mustReserve(t, b, "OldestFirst", 10) {
			if r.Token.Index == 7 {
				b.mustFail([]queue.Reservation{r}, nil)
			} else {
				good = append(good, r)
			}
		}
		if _, err := b.shard.Complete(ctx, completions(good), nil); err != nil {
			t.Fatal(err)
		}
		b.tickAfter(time.Minute)
	}
	b.wantCounts("at the end", sub.ID, queue.Submission{State: queue.CompletedWithDead, Done: 99, Dead: 1})
}

// P6 (15): a submission that waits for its run_at does not expire by it; a dead_deadline ends an open submission, even if chunks are held.
func TestDeadDeadline(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	n := prefixed(4)
	n.RunAt, n.DeadDeadline = b.clock.now().Add(time.Hour), b.clock.now().Add(2*time.Hour)
	sub := mustInsert(t, b, n)
	b.tickAfter(time.Hour)
	held := mustReserve(t, b, "OldestFirst", 2)
	if _, err := b.shard.Complete(ctx, completions(held[:1]), nil); err != nil {
		t.Fatal(err)
	}
	b.tickAfter(59 * time.Minute)
	b.wantCounts("before the deadline", sub.ID, queue.Submission{Ready: 2, Reserved: 1, Done: 1})
	b.close() // it holds across a restart
	b.open()
	b.tickAfter(time.Minute)
	b.wantCounts("at the deadline", sub.ID, queue.Submission{State: queue.Expired, Done: 1, Skipped: 3})
	results, err := b.shard.Complete(ctx, completions(held[1:]), nil)
	if err != nil || results[0].Outcome != queue.OutcomeGone {
		t.Errorf("a completion after the end: got %+v %v, want gone", results, err)
	}
	if got := mustReserve(t, b, "OldestFirst", 10); len(got) != 0 {
		t.Errorf("%d chunks of an expired submission are handed out", len(got))
	}
}

// 30: a queue's dead_after_ms gives a submission its dead_deadline at its insert, unless it has one. It counts from run_at if that is
// later, and a changed setting applies to later inserts.
func TestDeadAfter(t *testing.T) {
	t.Parallel()
	settings := relaxed()
	settings.DeadAfter = time.Hour
	b := openBox(t, settings)
	from := b.clock.now()
	usual := mustInsert(t, b, prefixed(2))
	n := prefixed(2)
	n.RunAt = from.Add(2 * time.Hour)
	later := mustInsert(t, b, n)
	n = prefixed(2)
	n.DeadDeadline = from.Add(4 * time.Hour)
	own := mustInsert(t, b, n)
	settings.DeadAfter = 0
	must(t, b.putSettings(settings))
	none := mustInsert(t, b, prefixed(2))
	b.close() // they are the submissions' own
	b.open()
	b.tickAfter(time.Hour - time.Millisecond)
	b.wantCounts("a moment before", usual.ID, queue.Submission{Ready: 2})
	b.tickAfter(time.Millisecond)
	b.wantCounts("after an hour", usual.ID, queue.Submission{State: queue.Expired, Skipped: 2})
	b.tickAfter(time.Hour)
	b.wantCounts("at its run_at", later.ID, queue.Submission{Ready: 2})
	b.tickAfter(time.Hour)
	b.wantCounts("an hour after its run_at", later.ID, queue.Submission{State: queue.Expired, Skipped: 2})
	b.wantCounts("with a deadline of its own", own.ID, queue.Submission{Ready: 2})
	b.tickAfter(time.Hour)
	b.wantCounts("at a deadline of its own", own.ID, queue.Submission{State: queue.Expired, Skipped: 2})
	b.tickAfter(1000 * time.Hour)
	b.wantCounts("without one", none.ID, queue.Submission{Ready: 2})
}

// T14: with on_deadline dead_letter, the remaining chunks of a submission become dead letters when its dead_deadline passes, in any state.
// They can be redriven, and the deadline does not come back.
func TestDeadlineMakesDeadLetters(t *testing.T) {
	t.Parallel()
	settings := relaxed()
	settings.OnDeadline, settings.OnExhausted = queue.DeadLetterThem, queue.Skip
	settings.RetryBackoff = queue.Backoff{Base: 2 * time.Hour, Jitter: queue.NoJitter}
	b := openBox(t, settings)
	n := prefixed(1500) // in slices
	n.DeadDeadline, n.MaxFailedChunks = b.clock.now().Add(time.Hour), 1
	sub := mustInsert(t, b, n)
	held := mustReserve(t, b, "Random", 700)
	_, err := b.shard.Complete(ctx, completions(held[:1]), nil)
	must(t, err)
	_, err = b.shard.Fail(ctx, []queue.FailItem{{Token: held[1].Token, Error: "no"}, {Token: held[2].Token, Error: "no"}}, nil)
	must(t, err)
	_, err = b.shard.Release(ctx, []queue.ReleaseItem{{Token: held[3].Token}, {Token: held[4].Token}}, nil)
	must(t, err)
	b.clock.pass(time.Hour - time.Millisecond)
	b.wantCounts("a moment before", sub.ID, queue.Submission{Ready: 802, Waiting: 2, Reserved: 695, Done: 1})
	b.tickAfter(time.Millisecond)
	b.wantCounts("at the deadline", sub.ID, queue.Submission{State: queue.CompletedWithDead, Done: 1, Dead: 1499})
	results, err := b.shard.Complete(ctx, completions(held[10:11]), nil)
	if err != nil || results[0].Outcome != queue.OutcomeGone {
		t.Errorf("a completion after the deadline: got %+v %v, want gone", results, err)
	}
	b.close()
	b.open()
	redriven := []uint32{held[1].Token.Index, held[10].Token.Index}
	slices.Sort(redriven)
	if n, err := b.shard.DeadLetters.Redrive(ctx, sub.ID, redriven); n != 2 || err != nil {
		t.Fatalf("redrive: got %d %v, want 2", n, err)
	}
	for range 2 { // also after a restart
		b.tickAfter(time.Hour)
		b.wantCounts("redriven", sub.ID, queue.Submission{Ready: 2, Done: 1, Dead: 1497})
		b.close()
		b.open()
	}
}

// If the commit of a slice of dead letters fails, the worker makes it again by itself. While chunks die, nothing of the submission is
// handed out, and after a restart in between the rest follow.
func TestDeadlineIsRepeated(t *testing.T) {
	t.Parallel()
	for slice := range 2 {
		settings := relaxed()
		settings.OnDeadline = queue.DeadLetterThem
		f := &faults{}
		b := newBox(t, settings)
		b.wrap, b.fatal = f.wrap, f.fatal
		b.open()
		n := prefixed(700)
		n.DeadDeadline = b.clock.now().Add(time.Minute)
		sub := mustInsert(t, b, n)
		held := mustReserve(t, b, "OldestFirst", 1)
		f.arm(full, slice)
		b.clock.pass(time.Minute)
		b.shard.Worker.Tick()
		if err := b.settle(); queue.CodeOf(err) != queue.CodeDiskFull && !f.hasFired() {
			t.Fatalf("the commit of slice %d: got %v, want a full disk", slice, err)
		}
		if slice == 0 {
			b.wantCounts("after the first failed", sub.ID, queue.Submission{Ready: 699, Reserved: 1})
			if got := mustReserve(t, b, "OldestFirst", 1); len(got) != 1 {
				t.Error("it is not offered again")
			}
		} else {
			b.wantCounts("after the second failed", sub.ID, queue.Submission{Waiting: 200, Dead: 500})
			if got := mustReserve(t, b, "OldestFirst", 1); len(got) != 0 {
				t.Errorf("%d chunks of a submission that is at its deadline are handed out", len(got))
			}
			if _, err := b.shard.DeadLetters.Redrive(ctx, sub.ID, []uint32{held[0].Token.Index}); queue.CodeOf(err) != queue.CodeConflict {
				t.Errorf("a redrive meanwhile: got %v, want a conflict", err)
			}
			b.close()
			b.open()
		}
		b.tickAfter(time.Second)
		b.wantCounts("after the next tick", sub.ID, queue.Submission{State: queue.CompletedWithDead, Dead: 700})
		b.close()
	}
}

// P7 (39), F4 (101): the counts follow every expiry, and their sum stays.
func TestCountsAfterExpiries(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	sub := mustInsert(t, b, prefixed(10))
	mustReserve(t, b, "OldestFirst", 10)
	b.tickAfter(time.Hour)
	b.wantCounts("after ten expiries", sub.ID, queue.Submission{Waiting: 10})
	if got := b.shard.Stats(); got.Reserved != 0 || got.Waiting != 10 || got.Ready != 0 {
		t.Errorf("stats: got %+v, want 10 waiting", got)
	}
}

// P9 (43): if the commit of a life-cycle decision fails, the worker makes it again by itself, without any call of a client.
func TestFailedLifeCycleCommitIsRepeated(t *testing.T) {
	t.Parallel()
	f := &faults{}
	b := newBox(t, relaxed())
	b.wrap, b.fatal = f.wrap, f.fatal
	b.open()
	n := prefixed(1)
	n.DeadDeadline = b.clock.now().Add(time.Hour)
	ends := mustInsert(t, b, n)
	stays := mustInsert(t, b, prefixed(1))
	held := mustReserve(t, b, "NewestFirst", 1)
	if held[0].Token.Submission != stays.ID {
		t.Fatalf("%s is handed out, want %s", held[0].Token.Submission, stays.ID)
	}
	f.arm(full, 0)
	b.clock.pass(time.Hour)
	b.shard.Worker.Tick()
	if err := b.settle(); queue.CodeOf(err) != queue.CodeDiskFull && !f.hasFired() {
		t.Fatalf("the commit of the tick: got %v, want a full disk", err)
	}
	b.wantCounts("after the failed commit", ends.ID, queue.Submission{Ready: 1})
	b.tickAfter(time.Second) // the pause after one failure is at most 0.6 s
	b.wantCounts("after the next tick", ends.ID, queue.Submission{State: queue.Expired, Skipped: 1})
	b.tickAfter(0)
	b.wantCounts("the expired reservation", stays.ID, queue.Submission{Waiting: 1})
}

func (f *faults) hasFired() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired != noFault
}

// F2 (96): a stale consumer cannot finish what another one holds now. 36: it can when no one does.
func TestLateCompletes(t *testing.T) {
	t.Parallel()
	s := relaxed()
	s.ExpiryBackoff = queue.Backoff{}
	b := openBox(t, s)
	sub := mustInsert(t, b, prefixed(2))
	late := mustReserve(t, b, "OldestFirst", 2)
	b.tickAfter(time.Hour)
	again := mustReserve(t, b, "OldestFirst", 1)
	results, err := b.shard.Complete(ctx, completions(late), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range results {
		want := queue.OutcomeOK
		if late[i].Token.Index == again[0].Token.Index {
			want = queue.OutcomeLost
		}
		if results[i].Outcome != want {
			t.Errorf("late completion of chunk %d: got %v, want %v", late[i].Token.Index, results[i].Outcome, want)
		}
	}
	b.wantCounts("after it", sub.ID, queue.Submission{Reserved: 1, Done: 1})
	if results, err = b.shard.Complete(ctx, completions(again), nil); err != nil || results[0].Outcome != queue.OutcomeOK {
		t.Errorf("the holder's completion: got %+v %v, want ok", results, err)
	}
}

// F3 (94, 38): without a wish of the consumer the queue's back-off decides, and a wish holds across a restart.
func TestOwnRetryTime(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	sub := mustInsert(t, b, prefixed(2))
	held := mustReserve(t, b, "OldestFirst", 2)
	b.mustFail(held[:1], func(f *queue.FailItem) { f.HasRetry, f.RetryAfter = true, 3_600_000 })
	b.mustFail(held[1:], nil)
	b.wantCounts("one wish of an hour, one at once", sub.ID, queue.Submission{Ready: 1, Waiting: 1})
	b.close()
	b.open()
	b.tickAfter(time.Hour - time.Millisecond)
	b.wantCounts("a moment before", sub.ID, queue.Submission{Ready: 1, Waiting: 1})
	b.tickAfter(time.Millisecond)
	b.wantCounts("an hour later", sub.ID, queue.Submission{Ready: 2})
	if chunk, err := b.shard.Submissions.Chunk(ctx, sub.ID, held[0].Token.Index); err != nil || chunk.Attempts != 1 {
		t.Errorf("the chunk after it: got %+v %v, want 1 attempt", chunk, err)
	}
}

// F8 (99, 28): the limits are read when a decision is made, also for chunks in flight.
func TestLimitsAreReadAtDecision(t *testing.T) {
	t.Parallel()
	s := deadLetters()
	s.MaxAttempts = 2
	b := openBox(t, s)
	sub := mustInsert(t, b, prefixed(1))
	b.mustFail(mustReserve(t, b, "OldestFirst", 1), nil)
	held := mustReserve(t, b, "OldestFirst", 1)
	s.MaxAttempts = 5
	if err := b.putSettings(s); err != nil {
		t.Fatal(err)
	}
	b.mustFail(held, nil)
	b.wantCounts("raised to 5", sub.ID, queue.Submission{Ready: 1})
	s.MaxAttempts, s.OnExhausted = 1, queue.Skip
	if err := b.putSettings(s); err != nil {
		t.Fatal(err)
	}
	b.wantCounts("lowered below what is counted", sub.ID, queue.Submission{Ready: 1})
	b.mustFail(mustReserve(t, b, "OldestFirst", 1), nil)
	b.wantCounts("at its next end", sub.ID, queue.Submission{State: queue.Completed, Skipped: 1})
}

// Expiries have a limit of their own, below that of all tries.
func TestExpiriesCountApart(t *testing.T) {
	t.Parallel()
	s := deadLetters()
	s.ExpiryBackoff, s.MaxExpiries = queue.Backoff{}, 2
	b := openBox(t, s)
	sub := mustInsert(t, b, prefixed(1))
	b.mustFail(mustReserve(t, b, "OldestFirst", 1), nil)
	for range 2 {
		mustReserve(t, b, "OldestFirst", 1)
		b.tickAfter(2 * time.Hour)
	}
	list := b.letters()
	if len(list) != 1 || list[0].Attempts != 3 || list[0].Expiries != 2 || !list[0].Past[2].Expired || list[0].Past[0].Expired {
		t.Fatalf("dead letters: got %+v, want one of 3 attempts, the last 2 of them expiries", list)
	}
	b.wantCounts("after it", sub.ID, queue.Submission{State: queue.CompletedWithDead, Dead: 1})
}

// The budget holds within one call too: the first chunk beyond it fails the submission, and nothing behind it counts.
func TestFailureBudget(t *testing.T) {
	t.Parallel()
	for _, policy := range []queue.OnExhausted{queue.DeadLetter, queue.Skip} {
		b := openBox(t, relaxed())
		n := prefixed(6)
		n.OnExhausted, n.MaxFailedChunks, n.MaxAttempts = policy, 2, 1
		sub := mustInsert(t, b, n)
		held := mustReserve(t, b, "OldestFirst", 5)
		b.mustFail(held[:2], nil)
		if got := b.sub(sub.ID); got.State != queue.Open {
			t.Fatalf("policy %d, 2 of 2 failed: the submission is %s", policy, got.State)
		}
		results, err := b.shard.Fail(ctx, []queue.FailItem{{Token: held[2].Token, Error: "the third"}, {Token: held[3].Token}}, nil)
		if err != nil || results[0].Outcome != queue.OutcomeOK || results[1].Outcome != queue.OutcomeGone {
			t.Fatalf("policy %d: got %+v %v, want ok and gone", policy, results, err)
		}
		if got := b.sub(sub.ID); got.State != queue.Failed || got.Failure != "the third" || got.Dead+got.Skipped != 6 {
			t.Errorf("policy %d: got %+v, want failed by the third", policy, got)
		}
		if list := b.letters(); len(list) != 0 {
			t.Errorf("policy %d: a failed submission has %d dead letters, want none to redrive", policy, len(list))
		}
	}
}

// The history of tries keeps the last ten, over redrives and restarts.
func TestHistoryOfTries(t *testing.T) {
	t.Parallel()
	s := deadLetters()
	s.MaxAttempts = 4
	b := openBox(t, s)
	sub := mustInsert(t, b, prefixed(1))
	for try := range 12 {
		if try > 0 && try%4 == 0 {
			if n, err := b.shard.DeadLetters.Redrive(ctx, sub.ID, []uint32{0}); n != 1 || err != nil {
				t.Fatalf("redrive: got %d %v, want 1", n, err)
			}
			b.wantCounts("redriven", sub.ID, queue.Submission{Ready: 1})
		}
		got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, "Random"), Max: 1, Consumer: fmt.Sprint("w", try)}, nil)
		if err != nil || len(got.Reservations) != 1 || int(got.Reservations[0].Attempt) != try%4+1 {
			t.Fatalf("try %d: got %+v %v, want attempt %d", try, got, err, try%4+1)
		}
		b.clock.pass(time.Duration(try) * time.Second)
		b.mustFail(got.Reservations, func(f *queue.FailItem) { f.Error = strings.Repeat(fmt.Sprint(try, " "), 200) })
		if try%5 == 0 {
			b.close()
			b.open()
		}
	}
	d := b.letters()[0]
	if len(d.Past) != queue.MaxAttemptsKept || d.Attempts != 4 || d.Redrives != 2 {
		t.Fatalf("dead letter: got %+v, want 10 tries kept, 4 counted, 2 redrives", d)
	}
	for i, a := range d.Past {
		try := i + 2
		if a.Consumer != fmt.Sprint("w", try) || a.Held != time.Duration(try)*time.Second || !strings.HasPrefix(a.Error, fmt.Sprint(try, " ")) || i < 9 && len(a.Error) > queue.MaxPastErrorBytes {
			t.Errorf("try %d of the history: got %+v", try, a)
		}
	}
}

// Retention takes no submission that has dead letters, nor one that is open again. Dead letters go when they are older than their own
// retention says, whether their submission has ended or not, with the counts exact. The data that they kept goes then.
func TestRetentionOfDeadLetters(t *testing.T) {
	t.Parallel()
	s := deadLetters()
	s.MaxAttempts = 1
	b := openBox(t, s)
	inline := queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Inline: [][]byte{[]byte("keep me")}}}
	ended, redriven := mustInsert(t, b, prefixed(1)), mustInsert(t, b, inline)
	b.mustFail(mustReserve(t, b, "OldestFirst", 2), nil)
	b.clock.pass(time.Second)
	later := mustInsert(t, b, prefixed(1)) // its dead letter stays, and keeps the submission
	b.mustFail(mustReserve(t, b, "OldestFirst", 1), nil)
	if err := b.shard.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	b.clock.pass(time.Hour)
	if n, err := b.shard.DeadLetters.Redrive(ctx, redriven.ID, []uint32{0}); n != 1 || err != nil {
		t.Fatalf("redrive: got %d %v, want 1", n, err)
	}
	if got := b.shard.Stats(); got.DeadLetters != 2 || got.SubmissionsOpen != 1 {
		t.Errorf("after the redrive: got %+v, want 2 dead letters and 1 open submission", got)
	}
	if list, _, err := b.shard.Submissions.List(ctx, machine.Filter{States: []queue.SubmissionState{queue.CompletedWithDead}}, 0, 10); err != nil || len(list) != 2 || list[0].ID != later.ID || list[1].ID != ended.ID {
		t.Errorf("the list of what completed with dead chunks: got %+v %v, want %s and %s", list, err, later.ID, ended.ID)
	}
	retain := func() {
		t.Helper()
		if _, err := b.shard.Retention.Retain(ctx, b.clock.now(), 10); err != nil {
			t.Fatal(err)
		}
	}
	age := func(keep time.Duration) {
		t.Helper()
		if _, err := b.shard.Retention.Age(ctx, keep, 10); err != nil {
			t.Fatal(err)
		}
	}
	retain()
	age(time.Hour + time.Second + time.Millisecond)
	if got := b.sub(ended.ID); got.Dead != 1 || b.shard.Stats().DeadLetters != 2 {
		t.Errorf("after the retention of the submission: got %+v, want it there for the sake of its dead letter", got)
	}
	age(time.Hour + time.Second)
	if got := b.sub(ended.ID); got.Dead != 0 || got.Skipped != 1 || b.shard.Stats().DeadLetters != 1 || b.shard.Stats().AgedTotal != 1 {
		t.Errorf("after the retention of the dead letter: got %+v, stats %+v, want it skipped and counted", got, b.shard.Stats())
	}
	if k := b.shard.Work().Kinds[machine.KindRetention]; k.Done != 1 {
		t.Errorf("the kind: got %+v, want 1 done", k)
	}
	retain()
	if _, err := b.shard.Submissions.Get(ctx, ended.ID); queue.CodeOf(err) != queue.CodeUnknownSubmission {
		t.Errorf("the ended one: got %v, want %s", err, queue.CodeUnknownSubmission)
	}
	b.close()
	b.open()
	if held := mustReserve(t, b, "OldestFirst", 10); len(held) != 1 || held[0].Token.Submission != redriven.ID || string(held[0].Content.Bytes) != "keep me" {
		t.Errorf("after a restart: got %+v, want the redriven chunk with its content", held)
	}
}

// 122: the end of a submission costs the same however many of its chunks are reserved. The reservations go bit by bit, and meanwhile the
// counts are exact and the tokens are invalid.
func TestCancelOfMuch(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	sub := mustInsert(t, b, prefixed(1_000_000))
	held := 1_000_000
	if testing.Short() {
		held = 20_000
	}
	var last []queue.Reservation
	for range held / 1000 {
		last = mustReserve(t, b, "OldestFirst", 1000)
	}
	other := mustInsert(t, b, prefixed(1))
	if _, err := b.shard.Submissions.Cancel(ctx, sub.ID); err != nil {
		t.Fatal(err)
	}
	if err := b.shard.Audit(); err != nil {
		t.Error(err)
	}
	if got := b.shard.Stats(); got.Reserved != 0 || got.Ready != 1 {
		t.Errorf("right after the cancel: got %d reserved and %d ready, want 0 and 1", got.Reserved, got.Ready)
	}
	results, err := b.shard.Complete(ctx, completions(last), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range results {
		if results[i].Outcome != queue.OutcomeGone {
			t.Fatalf("completion %d of the cancelled: got %v, want gone", i, results[i].Outcome)
		}
	}
	if got := mustReserve(t, b, "OldestFirst", 10); len(got) != 1 || got[0].Token.Submission != other.ID {
		t.Errorf("handed out after the cancel: %+v, want the chunk of %s", got, other.ID)
	}
	b.wantCounts("cancelled", sub.ID, queue.Submission{State: queue.Cancelled, Skipped: 1_000_000})
	list, _, err := b.shard.Submissions.Chunks(ctx, sub.ID, []queue.ChunkState{queue.ChunkSkipped}, uint32(held-10), 10) // the sweep is not over: the reader helps
	if err != nil || len(list) != 10 || list[0].Index != uint32(held-10) {
		t.Errorf("the chunks of the cancelled: got %d %v, want the 10 skipped ones from %d on", len(list), err, held-10)
	}
	b.tickAfter(2 * time.Hour)
	if got := b.shard.Stats(); got.ExpiredTotal != 1 || got.Reserved != 0 {
		t.Errorf("when all deadlines passed: got %d expired and %d reserved, want 1 and 0", got.ExpiredTotal, got.Reserved)
	}
}
