package simtest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// These tests hold appends back, so that several calls share a batch; synctest tells when everybody waits.

// TestFailedBatch: when an append fails, all callers in its batch get the error, and so do those in the batch that was
// filled meanwhile, as it may rest on the failed one. Calls that were acknowledged before keep their effect.
func TestFailedBatch(t *testing.T) {
	t.Parallel()
	for kind := full; kind <= syncLost; kind++ {
		t.Run(faultNames[kind], func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { failBatch(t, kind) })
		})
	}
}

func failBatch(t *testing.T, kind fault) {
	f := new(faults)
	b := newBox(t, relaxed())
	b.wrap, b.fatal = f.wrap, f.fatal
	b.open()
	sub := mustInsert(t, b, prefixed(6))
	held := mustReserve(t, b, "OldestFirst", 5)
	if _, err := b.shard.Complete(ctx, completions(held[:1]), nil); err != nil {
		t.Fatal(err)
	}
	open := f.shut()
	var errs [5]error
	call := func(i int, do func() error) {
		go func() { errs[i] = do() }()
		synctest.Wait()
	}
	call(0, func() error {
		_, _, err := b.shard.Insert(ctx, &queue.NewSubmission{Chunks: queue.Chunks{Count: 1}})
		return err
	})
	call(1, func() error { _, err := b.shard.Complete(ctx, completions(held[1:2]), nil); return err }) // the first waits alone
	call(2, func() error {
		_, err := b.shard.Fail(ctx, []queue.FailItem{{Token: held[2].Token, Error: "no"}}, nil)
		return err
	})
	call(3, func() error { _, err := b.shard.Complete(ctx, completions(held[1:2]), nil); return err }) // "already" rests on call 1
	f.arm(kind, 0)                                                                                     // the first append has met the gate already: the second fails
	call(4, func() error { _, err := b.shard.Submissions.Cancel(ctx, sub.ID); return err })
	open()
	synctest.Wait()
	want := queue.CodeCommitFailed
	if kind == full {
		want = queue.CodeDiskFull
	}
	if errs[0] != nil {
		t.Errorf("the call of the good batch: %v", errs[0])
	}
	for i, err := range errs[1:] {
		if queue.CodeOf(err) != want {
			t.Errorf("call %d of the failed batch: got %v, want %s", i+1, err, want)
		}
	}
	got, err := b.shard.Submissions.Get(ctx, sub.ID)
	if err != nil {
		t.Fatal(err)
	}
	states := fmt.Sprintf("%s ready %d reserved %d done %d", got.State, got.Ready, got.Reserved, got.Done)
	wantStates := map[fault]string{
		full:           "open ready 1 reserved 4 done 1",
		unknownWritten: "cancelled ready 0 reserved 0 done 2", unknownLost: "open ready 1 reserved 4 done 1",
		syncWritten: "cancelled ready 0 reserved 0 done 2", syncLost: "open ready 1 reserved 4 done 1",
	}[kind]
	if states != wantStates {
		t.Errorf("after the failed commit: got %s, want %s", states, wantStates)
	}
	b.shard.SetFull(false)
	if kind == full || kind == unknownLost { // asked again, it goes through
		results, err := b.shard.Complete(ctx, completions(held[1:2]), nil)
		if err != nil || results[0].Outcome != queue.OutcomeOK {
			t.Errorf("the completion sent again: got %v %v, want ok", results, err)
		}
	}
	b.close()
}

// TestNextBatchFailsToo: the batch that was filled while the failing append was on its way fails with it.
//
//quern:overlapping
func TestNextBatchFailsToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := new(faults)
		b := newBox(t, relaxed())
		b.wrap = f.wrap
		b.open()
		sub := mustInsert(t, b, prefixed(2))
		held := mustReserve(t, b, "OldestFirst", 2)
		f.arm(full, 0)
		open := f.shut()
		var errs [2]error
		for i := range errs {
			go func() { _, errs[i] = b.shard.Complete(ctx, completions(held[i:i+1]), nil) }()
			synctest.Wait()
		}
		open()
		synctest.Wait()
		for i, err := range errs {
			if queue.CodeOf(err) != queue.CodeDiskFull {
				t.Errorf("call %d: got %v, want %s", i, err, queue.CodeDiskFull)
			}
		}
		if got, err := b.shard.Submissions.Get(ctx, sub.ID); err != nil || got.Reserved != 2 {
			t.Errorf("after the failed commit: got %+v %v, want both chunks reserved as before", got, err)
		}
		results, err := b.shard.Complete(ctx, completions(held), nil)
		if err != nil || results[0].Outcome != queue.OutcomeOK || results[1].Outcome != queue.OutcomeOK {
			t.Errorf("the completions sent again: got %v %v, want ok twice", results, err)
		}
		b.close()
	})
}

// TestLateWhileFailing: the time of a waiting chunk comes between a late completion and the failure of its commit. It is not
// missed: the chunk is offered.
//
//quern:overlapping
func TestLateWhileFailing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := new(faults)
		settings := relaxed()
		settings.ExpiryBackoff = queue.Backoff{Base: time.Second, Factor: 1, Cap: time.Second}
		b := newBox(t, settings)
		b.wrap = f.wrap
		b.open()
		mustInsert(t, b, prefixed(1))
		held := mustReserve(t, b, "OldestFirst", 1)
		b.clock.pass(2 * 3600 * time.Second)
		b.shard.Worker.Tick()
		if err := b.settle(); err != nil {
			t.Fatal(err)
		}
		if stats := b.shard.Stats(); stats.Waiting != 1 {
			t.Fatalf("after the deadline: %+v, want one chunk waiting", stats)
		}
		f.arm(full, 0)
		open := f.shut()
		go b.shard.Complete(ctx, completions(held), nil)
		synctest.Wait()
		b.clock.pass(3600 * time.Second)
		b.shard.Worker.Tick()
		open()
		synctest.Wait()
		b.shard.Worker.Tick()
		if got := mustReserve(t, b, "OldestFirst", 1); len(got) != 1 {
			t.Errorf("the chunk is not offered after its late completion failed: %+v", b.shard.Stats())
		}
		b.close()
	})
}

// TestExpiryWhileCommitting: a completion that comes while the end of its reservation is on its way to the disk wins, unless
// that end is the chunk's last.
//
//quern:overlapping
func TestExpiryWhileCommitting(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		maxExpiries uint8
		rule        queue.OnExhausted
		want        queue.Outcome
		state       queue.ChunkState
	}{
		{"tries left", 3, queue.FailSubmission, queue.OutcomeOK, queue.ChunkDone},
		{"last try, the submission fails", 1, queue.FailSubmission, queue.OutcomeGone, queue.ChunkDead},
		{"last try, the submission goes on", 1, queue.DeadLetter, queue.OutcomeGone, queue.ChunkDead},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := new(faults)
				settings := relaxed()
				settings.MaxExpiries, settings.OnExhausted = test.maxExpiries, test.rule
				b := newBox(t, settings)
				b.wrap = f.wrap
				b.open()
				sub := mustInsert(t, b, prefixed(2))
				held := mustReserve(t, b, "OldestFirst", 1)
				b.clock.pass(2 * 3600 * time.Second)
				open := f.shut()
				go b.shard.Worker.Tick()
				synctest.Wait()
				var got []queue.Result
				go func() { got, _ = b.shard.Complete(ctx, completions(held), nil) }()
				synctest.Wait()
				open()
				synctest.Wait()
				chunk, err := b.shard.Submissions.Chunk(ctx, sub.ID, held[0].Token.Index)
				if err != nil || len(got) != 1 || got[0].Outcome != test.want || chunk.State != test.state {
					t.Errorf("complete: got %v, want %v; the chunk: got %+v %v, want %s", got, test.want, chunk, err, test.state)
				}
				b.close()
				b.open()
				if chunk, err = b.shard.Submissions.Chunk(ctx, sub.ID, held[0].Token.Index); err != nil || chunk.State != test.state {
					t.Errorf("the chunk after a restart: got %+v %v, want %s", chunk, err, test.state)
				}
				b.close()
			})
		})
	}
}

// TestFailedReload: when even the reload fails, every call is refused until the process starts again. Then everything
// acknowledged is there.
//
//quern:overlapping
func TestFailedReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := new(faults)
		b := newBox(t, relaxed())
		b.wrap = f.wrap
		b.open()
		first := mustInsert(t, b, prefixed(2))
		f.arm(unknownLost, 0)
		open := f.shut()
		var failed error
		go func() { _, _, failed = b.shard.Insert(ctx, &queue.NewSubmission{Chunks: queue.Chunks{Count: 1}}) }()
		synctest.Wait()
		f.arm(unknownLost, 0) // the reload's append
		open()
		synctest.Wait()
		if queue.CodeOf(failed) != queue.CodeCommitFailed {
			t.Errorf("insert: got %v, want %s", failed, queue.CodeCommitFailed)
		}
		if b.shard.Health() == nil {
			t.Error("the shard says it is healthy after a failed reload")
		}
		if _, _, err := b.shard.Insert(ctx, &queue.NewSubmission{Chunks: queue.Chunks{Count: 1}}); queue.CodeOf(err) != queue.CodeUnavailable {
			t.Errorf("insert after a failed reload: got %v, want %s", err, queue.CodeUnavailable)
		}
		b.shard.Stats()
		b.shard.Worker.Tick()
		b.close()
		b.open()
		if list, _, err := b.shard.Submissions.List(ctx, everything, 0, 10); err != nil || len(list) != 1 || list[0].ID != first.ID {
			t.Errorf("after a restart: got %v %v, want only %s", list, err, first.ID)
		}
		b.close()
	})
}
