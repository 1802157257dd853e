package simtest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// knownKeys is how many keys TestKeysAreNotForgotten uses: with QUERN_KEYS as many as that, in slots of the usual size.
func knownKeys(t *testing.T) (keys, slot int) {
	if text := os.Getenv("QUERN_KEYS"); text != "" {
		n, err := strconv.Atoi(text)
		must(t, err)
		return n, 0
	}
	return 20_000, 1000
}

// Submissions with idempotency keys that are sent twice are inserted once each, however many there are, also when checkpoints wrote the
// keys, and when the server was killed or restarted between the two.
func TestKeysAreNotForgotten(t *testing.T) {
	t.Parallel()
	b := newBox(t, relaxed())
	keys := 0
	keys, b.slotKeys = knownKeys(t)
	b.open()
	const atOnce = 1000
	first := make([]queue.SubmissionID, keys)
	send := func(visit func(n int, in *queue.Insertion)) {
		for from := 0; from < keys; from += atOnce {
			list := make([]queue.Insertion, min(atOnce, keys-from))
			for i := range list {
				list[i] = insertion(fmt.Sprint("key", from+i), "x")
			}
			must(t, b.shard.InsertMany(ctx, list, false))
			for i := range list {
				must(t, list[i].Err)
				visit(from+i, &list[i])
			}
			if from/atOnce%7 == 3 {
				must(t, b.shard.Checkpoint())
			}
		}
	}
	send(func(n int, in *queue.Insertion) {
		if first[n] = in.Submission.ID; in.Replayed {
			t.Fatalf("key %d is new, and was answered with %s", n, in.Submission.ID)
		}
	})
	for again := range 2 {
		if again == 0 {
			b.kill(t, asTheyAre)
		} else {
			b.close()
			b.open()
		}
		send(func(n int, in *queue.Insertion) {
			if !in.Replayed || in.Submission.ID != first[n] {
				t.Fatalf("key %d again: %s, replayed %v; want %s", n, in.Submission.ID, in.Replayed, first[n])
			}
		})
	}
	t.Logf("counted: %d keys, each used three times", keys)
}

// A key outlives its submission: when the retention of the submission is over, a repeat is answered so, also after a restart, and inserts
// nothing.
func TestKeysOutliveRetention(t *testing.T) {
	t.Parallel()
	settings := relaxed()
	settings.Retention = time.Second
	b := openBox(t, settings)
	one := insertion("once", "x")
	first, _, err := b.shard.Insert(ctx, one.New)
	must(t, err)
	_, err = b.shard.Submissions.Cancel(ctx, first.ID)
	must(t, err)
	b.clock.pass(2 * time.Second)
	_, err = b.shard.Retention.Retain(ctx, b.clock.now().Add(-settings.Retention), 10)
	must(t, err)
	for _, restart := range []func(){func() {}, func() { b.close(); b.open() }, func() { b.kill(t, asTheyAre) }} {
		restart()
		if got, replayed, err := b.shard.Insert(ctx, one.New); queue.CodeOf(err) != queue.CodeUnknownSubmission {
			t.Errorf("the repeat gave %s, replayed %v, %v; want %s", got.ID, replayed, err, queue.CodeUnknownSubmission)
		}
	}
	b.clock.pass(queue.IdempotencyWindow)
	if again, replayed, err := b.shard.Insert(ctx, one.New); err != nil || replayed || again.ID == first.ID {
		t.Errorf("after the window: %s, replayed %v, %v; want it inserted", again.ID, replayed, err)
	}
}

// A queue that knows as many keys as it may refuses new ones, and says for how long; it forgets none. Inserts with known keys are
// answered, and inserts without a key are made.
func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	const most = 10
	b := newBox(t, relaxed())
	b.slotKeys, b.mostKeys = 4, most
	b.open()
	insert := func(key string) (queue.SubmissionID, bool, error) {
		one := insertion(key, "x")
		sub, replayed, err := b.shard.Insert(ctx, one.New)
		return sub.ID, replayed, err
	}
	var first [most]queue.SubmissionID
	began := b.clock.now()
	for i := range first {
		var err error
		first[i], _, err = insert(fmt.Sprint("key", i))
		must(t, err)
		b.clock.pass(time.Minute)
	}
	for what, change := range map[string]func(){"in memory": func() {}, "checkpointed": func() { must(t, b.shard.Checkpoint()) },
		"killed": func() { b.kill(t, asTheyAre) }} {
		change()
		if _, _, err := insert("new"); queue.CodeOf(err) != queue.CodeOverloaded || !strings.Contains(err.Error(), "10 idempotency keys") {
			t.Errorf("%s: a new key gave %v, want %s with the number", what, err, queue.CodeOverloaded)
		}
		for i := range first {
			if id, replayed, err := insert(fmt.Sprint("key", i)); err != nil || !replayed || id != first[i] {
				t.Errorf("%s: key %d gave %s, replayed %v, %v; want %s", what, i, id, replayed, err, first[i])
			}
		}
		if id, _, err := insert(""); err != nil || id == 0 {
			t.Errorf("%s: without a key: %v", what, err)
		}
	}
	must(t, b.shard.Checkpoint())
	_, _, err := insert("new")
	refused, _ := err.(*queue.Error)
	if want := began.Add(3*time.Minute + queue.IdempotencyWindow).Sub(b.clock.now()); refused == nil || refused.RetryAfter != want {
		t.Fatalf("a new key gave %v; want it refused until the first slot leaves, for %v", err, want)
	}
	if stats := b.shard.Stats(); stats.Keys != most || stats.KeysMost != most || stats.KeysRefused == 0 {
		t.Errorf("stats tell of %d keys of %d, %d refused; want %d of %[4]d, some", stats.Keys, stats.KeysMost, stats.KeysRefused, most)
	}
	b.clock.pass(refused.RetryAfter + time.Millisecond)
	_, err = b.store.Keys.Expire(ctx, b.clock.now().Add(-queue.IdempotencyWindow), 100)
	must(t, err)
	if _, replayed, err := insert("new"); err != nil || replayed {
		t.Errorf("when the oldest slot has left, a new key gave replayed %v, %v", replayed, err)
	}
}
