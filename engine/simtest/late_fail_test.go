package simtest

import (
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// A failure that comes after the deadline still has its effect: its error replaces that of the try that the deadline counted, `fatal`
// ends the chunk, and its wish for the next try is followed, whether or not the worker has met the chunk, and whether the chunk waits or
// is ready. No other try is counted. The answer says when a failure comes too late to count.
func TestFailAfterTheDeadline(t *testing.T) {
	t.Parallel()
	backoff := queue.Backoff{Base: time.Hour, Factor: 1, Cap: time.Hour}
	for name, c := range map[string]struct {
		expiry queue.Backoff
		visits int // of the worker, after the deadline
		fatal  bool
		retry  bool
		want   queue.Chunk
	}{
		"fatal, not visited":        {fatal: true, want: queue.Chunk{State: queue.ChunkDead, Attempts: 1}},
		"fatal, ready":              {visits: 1, fatal: true, want: queue.Chunk{State: queue.ChunkDead, Attempts: 1}},
		"fatal, waiting":            {visits: 1, expiry: backoff, fatal: true, want: queue.Chunk{State: queue.ChunkDead, Attempts: 1}},
		"another try, ready":        {visits: 1, want: queue.Chunk{State: queue.ChunkReady, Attempts: 1}},
		"another try, waiting":      {visits: 1, expiry: backoff, want: queue.Chunk{State: queue.ChunkWaiting, Attempts: 1}},
		"at once, although waiting": {visits: 1, expiry: backoff, retry: true, want: queue.Chunk{State: queue.ChunkReady, Attempts: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := relaxed()
			settings.OnExhausted, settings.ExpiryBackoff, settings.RetryBackoff = queue.DeadLetter, c.expiry, queue.Backoff{}
			b := openBox(t, settings)
			sub := mustInsert(t, b, prefixed(2))
			token := mustReserve(t, b, "OldestFirst", 1)[0].Token
			b.clock.pass(2 * time.Hour)
			for range c.visits {
				b.shard.Worker.Tick()
			}
			if c.expiry.Base > 0 {
				// the draw of the back-off is not zero: the chunk waits
				b.clock.pass(-time.Hour + time.Minute)
			}
			for n := range 2 { // also when it is repeated
				results, err := b.shard.Fail(ctx, []queue.FailItem{{Token: token, Error: "cannot be read", Fatal: c.fatal, HasRetry: c.retry}}, nil)
				if ok := err == nil && results[0].Outcome == queue.OutcomeOK; !ok && n == 0 {
					t.Errorf("fail: got %+v and %v, want ok", results, err)
				}
			}
			for _, when := range []string{"at once", "after a restart"} {
				got, err := b.shard.Submissions.Chunk(ctx, sub.ID, token.Index)
				if err != nil || got.State != c.want.State || got.Attempts != c.want.Attempts || got.Error != "cannot be read" {
					t.Errorf("%s: got %+v and %v, want it %s after %d attempts with the consumer's error", when, got, err, c.want.State, c.want.Attempts)
				}
				if err := b.shard.Audit(); err != nil {
					t.Error(err)
				}
				b.close()
				b.open()
			}
		})
	}
}

// A failure of a try that another one has followed, or that an operator has given another chance, changes nothing, and says so.
func TestFailThatIsOvertaken(t *testing.T) {
	t.Parallel()
	settings := relaxed()
	settings.OnExhausted, settings.ExpiryBackoff = queue.DeadLetter, queue.Backoff{}
	settings.SuspectShare = 1
	b := openBox(t, settings)
	mustInsert(t, b, prefixed(1))
	fail := func(when string, token queue.Token, want queue.Outcome) {
		t.Helper()
		results, err := b.shard.Fail(ctx, []queue.FailItem{{Token: token, Error: "no", Fatal: true}}, nil)
		if err != nil || results[0].Outcome != want {
			t.Errorf("%s: got %+v and %v, want %v", when, results, err, want)
		}
	}
	var tokens []queue.Token
	for range 2 {
		tokens = append(tokens, mustReserve(t, b, "OldestFirst", 1)[0].Token)
		b.clock.pass(2 * time.Hour)
		b.shard.Worker.Tick()
	}
	fail("a later try was counted", tokens[0], queue.OutcomeLost)
	fail("the last try", tokens[1], queue.OutcomeOK)
	if _, err := b.shard.DeadLetters.Redrive(ctx, tokens[1].Submission, []uint32{0}); err != nil {
		t.Fatal(err)
	}
	fail("it was redriven", tokens[1], queue.OutcomeLost)
	if got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, "OldestFirst"), Max: 1, Timeout: time.Hour}, nil); err != nil || len(got.Reservations) != 1 {
		t.Errorf("the redriven chunk: %+v and %v, want it handed out", got, err)
	}
}
