package simtest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// faultyBox is a box whose appends fail on demand.
func faultyBox(t *testing.T, settings queue.Settings) (*box, *faults) {
	f := &faults{spare: true}
	b := newBox(t, settings)
	b.wrap, b.fatal = f.wrap, f.fatal
	b.open()
	return b, f
}

// failCommit has one commit of unknown outcome, so that the shard reloads.
func failCommit(t *testing.T, b *box, f *faults) {
	t.Helper()
	f.arm(unknownLost, 0)
	if _, _, err := b.shard.Insert(ctx, &queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "lost/"}}); queue.CodeOf(err) != queue.CodeCommitFailed {
		t.Fatalf("an insert whose commit fails: got %v, want %s", err, queue.CodeCommitFailed)
	}
}

// A failed commit makes no one lose a held chunk: tokens, deadlines and consumers are as before, hard limits go on counting it, and
// no one else gets it.
//
//quern:overlapping
func TestReloadKeepsReservations(t *testing.T) {
	t.Parallel()
	b, f := faultyBox(t, relaxed())
	sub := mustInsert(t, b, prefixed(5, number("customer", 1)))
	const limited = `MaxSimultaneous("customer", 2, OldestFirst)`
	got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, limited), Max: 9, Timeout: time.Minute, Consumer: "worker-1"}, nil)
	if err != nil || len(got.Reservations) != 2 {
		t.Fatalf("reserve: got %d chunks and %v, want 2", len(got.Reservations), err)
	}
	held := got.Reservations
	for range 3 {
		failCommit(t, b, f)
	}
	for i := range held {
		chunk, err := b.shard.Submissions.Chunk(ctx, sub.ID, held[i].Token.Index)
		want := queue.Chunk{Index: held[i].Token.Index, State: queue.ChunkReserved, Consumer: "worker-1", Deadline: held[i].Deadline}
		if err != nil || chunk.State != want.State || chunk.Consumer != want.Consumer || chunk.Deadline != want.Deadline {
			t.Errorf("chunk %d after three reloads: got %+v and %v, want %+v", chunk.Index, chunk, err, want)
		}
	}
	if more := mustReserve(t, b, limited, 9); len(more) != 0 {
		t.Errorf("%d chunks of a customer that has 2 of 2 were handed out after a reload", len(more))
	}
	extended, err := b.shard.Extend(ctx, []queue.ExtendItem{{Token: held[0].Token, Timeout: 60_000, Consumer: "worker-1"}}, nil)
	if err != nil || extended[0].Outcome != queue.OutcomeOK {
		t.Errorf("extend after a reload: got %+v and %v", extended, err)
	}
	done, err := b.shard.Complete(ctx, completions(held[:1]), nil)
	if err != nil || done[0].Outcome != queue.OutcomeOK {
		t.Errorf("complete after a reload: got %+v and %v", done, err)
	}
	if more := mustReserve(t, b, limited, 9); len(more) != 1 {
		t.Errorf("%d chunks were handed out when one of 2 was completed, want 1", len(more))
	}
	b.clock.pass(2 * time.Minute)
	b.shard.Worker.Tick()
	if chunk, err := b.shard.Submissions.Chunk(ctx, sub.ID, held[1].Token.Index); err != nil || chunk.Attempts != 1 {
		t.Errorf("the deadline of a reservation from before the reload passed: got %+v and %v, want a try counted", chunk, err)
	}
	if err := b.shard.Audit(); err != nil {
		t.Error(err)
	}
}

// After a commit of unknown outcome, the ops that are found in the journal end the reservations that they are about, and no others.
//
//quern:overlapping
func TestReloadEndsWhatWasWritten(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(b *box, held []queue.Reservation) error{
		"completed": func(b *box, held []queue.Reservation) error {
			_, err := b.shard.Complete(ctx, completions(held), nil)
			return err
		},
		"failed, and ready again": func(b *box, held []queue.Reservation) error {
			_, err := b.shard.Fail(ctx, []queue.FailItem{{Token: held[0].Token, Error: "no", HasRetry: true}}, nil)
			return err
		},
		"failed, and waits": func(b *box, held []queue.Reservation) error {
			_, err := b.shard.Fail(ctx, []queue.FailItem{{Token: held[0].Token, Error: "no", HasRetry: true, RetryAfter: 60_000}}, nil)
			return err
		},
		"failed for good": func(b *box, held []queue.Reservation) error {
			_, err := b.shard.Fail(ctx, []queue.FailItem{{Token: held[0].Token, Error: "no", Fatal: true}}, nil)
			return err
		},
		"cancelled": func(b *box, held []queue.Reservation) error {
			_, err := b.shard.Submissions.Cancel(ctx, held[0].Token.Submission)
			return err
		},
		"taken back by a rule": func(b *box, held []queue.Reservation) error {
			_, _, err := b.shard.Rules.Set(queue.Rule{Action: queue.Pause, Match: queue.RuleMatch{Submission: held[0].Token.Submission}, Revoke: true}, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := relaxed()
			settings.OnExhausted = queue.DeadLetter
			b, f := faultyBox(t, settings)
			mustInsert(t, b, prefixed(2))
			other := mustInsert(t, b, prefixed(1))
			held := mustReserve(t, b, "OldestFirst", 3)
			stays := held[2]
			f.arm(unknownWritten, 0)
			if err := call(b, held[:1]); queue.CodeOf(err) != queue.CodeCommitFailed {
				t.Fatalf("got %v, want %s", err, queue.CodeCommitFailed)
			}
			if chunk, err := b.shard.Submissions.Chunk(ctx, held[0].Token.Submission, held[0].Token.Index); err != nil || chunk.State == queue.ChunkReserved {
				t.Errorf("what was written ended the reservation, but the chunk is %+v and %v", chunk, err)
			}
			if chunk, err := b.shard.Submissions.Chunk(ctx, other.ID, stays.Token.Index); err != nil || chunk.State != queue.ChunkReserved {
				t.Errorf("a chunk that the commit was not about is %+v and %v, want it reserved", chunk, err)
			}
			if err := b.shard.Audit(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A caller that waits for the end of a submission learns of it although a commit failed meanwhile, also when that commit ended the
// submission.
//
//quern:overlapping
func TestReloadKeepsWaitersForTheEnd(t *testing.T) {
	t.Parallel()
	for _, kind := range []fault{unknownLost, unknownWritten} {
		t.Run(faultNames[kind], func(t *testing.T) {
			t.Parallel()
			b, f := faultyBox(t, relaxed())
			sub := mustInsert(t, b, prefixed(1))
			type answer struct {
				sub queue.Submission
				err error
			}
			waits := make(chan answer, 1)
			waiting := newWaitContext()
			go func() {
				got, err := waitEnd(waiting, b, sub.ID)
				waits <- answer{got, err}
			}()
			<-waiting.waits
			f.arm(kind, 0)
			if _, err := b.shard.Submissions.Cancel(ctx, sub.ID); queue.CodeOf(err) != queue.CodeCommitFailed {
				t.Fatalf("got %v, want %s", err, queue.CodeCommitFailed)
			}
			if kind == unknownLost {
				if _, err := b.shard.Submissions.Cancel(ctx, sub.ID); err != nil {
					t.Fatal(err)
				}
			}
			if got := <-waits; got.err != nil || got.sub.State != queue.Cancelled {
				t.Errorf("the wait ended with %s and %v, want %s", got.sub.State, got.err, queue.Cancelled)
			}
		})
	}
}

// waitContext tells when the shard begins to wait for its end, which is when a wait is registered.
type waitContext struct {
	context.Context
	once  sync.Once
	waits chan struct{}
}

func newWaitContext() *waitContext { return &waitContext{Context: ctx, waits: make(chan struct{})} }

func (c *waitContext) Done() <-chan struct{} {
	c.once.Do(func() { close(c.waits) })
	return c.Context.Done()
}

// After three failed commits in a row the shard says that it is degraded, and takes it back with the first that comes through, which
// it makes itself when no one calls.
func TestDegradedAfterFailedCommits(t *testing.T) {
	t.Parallel()
	b, f := faultyBox(t, relaxed())
	for n := 1; n <= 4; n++ {
		failCommit(t, b, f)
		err := b.shard.Health()
		if said := err != nil && strings.Contains(err.Error(), "degraded"); said != (n >= 3) {
			t.Errorf("after %d failed commits: %v", n, err)
		}
	}
	b.shard.Heal()
	if err := errors.Join(b.settle(), b.shard.Health()); err != nil {
		t.Errorf("after a commit that came through: %v", err)
	}
}

// A consumer gives a chunk back with a delay, and takes it up again with the same token when the delay is over. A reload keeps that
// reservation: only the release before it is in the journal.
//
//quern:overlapping
func TestReloadKeepsWhatWasTakenUpAgain(t *testing.T) {
	t.Parallel()
	b, f := faultyBox(t, relaxed())
	sub := mustInsert(t, b, prefixed(1))
	held := mustReserve(t, b, "OldestFirst", 1)[0].Token
	if _, err := b.shard.Release(ctx, []queue.ReleaseItem{{Token: held, Delay: 1000}}, nil); err != nil {
		t.Fatal(err)
	}
	b.clock.pass(time.Minute)
	b.shard.Worker.Tick()
	taken, err := b.shard.Extend(ctx, []queue.ExtendItem{{Token: held, Timeout: 60_000, Consumer: "w"}}, nil)
	if err != nil || taken[0].Outcome != queue.OutcomeOK {
		t.Fatalf("extend of a chunk that was given back and is ready: got %+v and %v", taken, err)
	}
	failCommit(t, b, f)
	if chunk, err := b.shard.Submissions.Chunk(ctx, sub.ID, 0); err != nil || chunk.State != queue.ChunkReserved {
		t.Errorf("after a reload the chunk is %+v and %v, want reserved", chunk, err)
	}
	f.arm(unknownWritten, 0) // given back once more, in secret
	if _, err := b.shard.Release(ctx, []queue.ReleaseItem{{Token: held, Delay: 1000}}, nil); queue.CodeOf(err) != queue.CodeCommitFailed {
		t.Fatal(err)
	}
	if chunk, err := b.shard.Submissions.Chunk(ctx, sub.ID, 0); err != nil || chunk.State != queue.ChunkWaiting {
		t.Errorf("after a release that landed in secret the chunk is %+v and %v, want waiting", chunk, err)
	}
}
