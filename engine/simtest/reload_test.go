package simtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// TestReloadsInACrowd: producers and consumers work while appends fail now and then. Everything acknowledged is there at the end,
// byte for byte, after a restart too; a call that was not acknowledged took effect as a whole or not at all.
//
//quern:overlapping
func TestReloadsInACrowd(t *testing.T) {
	t.Parallel()
	f := &faults{spare: true}
	b := newBox(t, relaxed())
	b.wrap, b.fatal = f.wrap, f.fatal
	b.open()
	c := &ledger{box: b, inserted: map[queue.SubmissionID][]byte{}, done: map[queue.ChunkID][]byte{}}
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			r := newRand(uint64(i), 99)
			for done := 0; done < 60; { // those that fail do not count: with a full disk they all do, in no time
				if i < 3 && c.insert(t, r) || i >= 3 && c.work(t, r) {
					done++
				}
			}
		})
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		r := newRand(7, 99)
		for {
			select {
			case <-stop:
				return
			default:
				f.arm(fault(1+r.IntN(int(unknownLost))), r.IntN(20))
				b.shard.SetFull(false)
				if err := b.settle(); err != nil && queue.CodeOf(err) == "" {
					t.Error(err)
				}
			}
		}
	}()
	all.Wait()
	close(stop)
	<-stopped
	f.arm(noFault, 0)
	if c.failed == 0 || len(c.inserted) == 0 || len(c.done) == 0 {
		t.Errorf("%d calls failed, %d inserts and %d completions did not: nothing is tested", c.failed, len(c.inserted), len(c.done))
	}
	c.audit(t)
	b.close()
	b.open()
	c.audit(t)
}

// ledger has everything that was acknowledged.
type ledger struct {
	*box
	mu       sync.Mutex
	inserted map[queue.SubmissionID][]byte // the content of all its chunks
	done     map[queue.ChunkID][]byte      // the output
	failed   int
}

// pastReload makes a call again while a reload refuses it.
func pastReload(call func() error) error {
	for {
		if err := call(); queue.CodeOf(err) != queue.CodeUnavailable {
			return err
		}
	}
}

// ours says whether an error is one that a failed commit explains.
func (c *ledger) ours(t *testing.T, err error) bool {
	switch queue.CodeOf(err) {
	case queue.CodeCommitFailed, queue.CodeDiskFull:
		c.mu.Lock()
		c.failed++
		c.mu.Unlock()
		return true
	}
	t.Errorf("unexpected error: %v", err)
	return false
}

// insert says whether it was acknowledged.
func (c *ledger) insert(t *testing.T, r *rand.Rand) bool {
	content := fmt.Appendf(nil, "content %d %s", r.Uint64(), bytes.Repeat([]byte{'x'}, r.IntN(2000)))
	var got queue.Submission
	err := pastReload(func() (err error) {
		got, _, err = c.shard.Insert(ctx, &queue.NewSubmission{Chunks: queue.Chunks{Count: 2, Inline: [][]byte{content, content}}, Attachment: content[:10]})
		return err
	})
	if err != nil {
		return !c.ours(t, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inserted[got.ID] = content
	return true
}

// work says whether its reserve succeeded, also when it found nothing.
func (c *ledger) work(t *testing.T, r *rand.Rand) bool {
	strategy := [...]string{"Random", "OldestFirst"}[r.IntN(2)] // under the second a chunk whose completion failed is soon someone else's
	var got machine.Reserved
	err := pastReload(func() (err error) {
		got, err = c.shard.Reserve(ctx, machine.Request{Plan: plan(t, strategy), Max: 2, Timeout: time.Hour, Wait: time.Millisecond}, nil)
		return err
	})
	if err != nil {
		return !c.ours(t, err)
	}
	for i := range got.Reservations {
		res := &got.Reservations[i]
		c.mu.Lock()
		content, known := c.inserted[res.Token.Submission]
		c.mu.Unlock()
		if known && !bytes.Equal(res.Content.Bytes, content) {
			t.Errorf("chunk %s/%d carries %.60q, want %.60q", res.Token.Submission, res.Token.Index, res.Content.Bytes, content)
		}
		output := fmt.Appendf(nil, "output %d", r.Uint64())
		var results []queue.Result
		err := pastReload(func() (err error) {
			results, err = c.shard.Complete(ctx, []queue.CompleteItem{{Token: res.Token, Output: output}}, nil)
			return err
		})
		if err != nil {
			c.ours(t, err)
			continue
		}
		if results[0].Outcome == queue.OutcomeOK {
			c.mu.Lock()
			if before, twice := c.done[chunkOf(&res.Token)]; twice {
				t.Errorf("chunk %s/%d was completed twice: %s and %s", res.Token.Submission, res.Token.Index, before, output)
			}
			c.done[chunkOf(&res.Token)] = output
			c.mu.Unlock()
		}
	}
	return true
}

// audit reads everything that was acknowledged; it reserves the chunks that are left, to see their contents.
func (c *ledger) audit(t *testing.T) {
	t.Helper()
	for id, output := range c.done {
		chunk, err := c.shard.Submissions.Chunk(ctx, id.Submission, id.Index)
		if err != nil || chunk.State != queue.ChunkDone || !bytes.Equal(chunk.Output, output) {
			t.Errorf("chunk %s was completed with %q: got the state %s, the output %q and %v", id, output, chunk.State, chunk.Output, err)
		}
	}
	for id := range c.inserted {
		if _, err := c.shard.Submissions.Get(ctx, id); err != nil {
			t.Errorf("submission %s was acknowledged: %v", id, err)
		}
	}
	for {
		got, err := c.shard.Reserve(ctx, machine.Request{Plan: plan(t, "OldestFirst"), Max: 100, Timeout: time.Hour}, nil)
		if err != nil {
			t.Error(err)
		}
		if len(got.Reservations) == 0 {
			return
		}
		for i := range got.Reservations {
			res := &got.Reservations[i]
			if content, known := c.inserted[res.Token.Submission]; known && !bytes.Equal(res.Content.Bytes, content) {
				t.Errorf("chunk %s/%d carries %.60q, want %.60q", res.Token.Submission, res.Token.Index, res.Content.Bytes, content)
			}
			if !bytes.HasPrefix(res.Content.Bytes, res.Attachment) || len(res.Attachment) != 10 {
				t.Errorf("submission %s: attachment %q, content %.60q", res.Token.Submission, res.Attachment, res.Content.Bytes)
			}
		}
	}
}

// A batch that landed although its commit failed counts in the totals, as its effects are there; one that did not land counts in
// none.
//
//quern:overlapping
func TestReloadCountsWhatLanded(t *testing.T) {
	t.Parallel()
	b, f := faultyBox(t, relaxed())
	mustInsert(t, b, prefixed(9))
	held := mustReserve(t, b, "OldestFirst", 4)
	want := b.shard.Stats()
	for _, how := range []fault{unknownWritten, unknownLost, unknownWritten} {
		landed := uint64(0)
		if how == unknownWritten {
			landed = 1
		}
		for _, call := range []struct {
			what string
			do   func() error
			add  func()
		}{
			{"an insert", func() error {
				n := prefixed(5)
				_, _, err := b.shard.Insert(ctx, &n)
				return err
			}, func() {
				want.InsertedTotal += 5 * landed
				want.SubmissionsInsertedTotal += landed
			}},
			{"a complete", func() error {
				_, err := b.shard.Complete(ctx, []queue.CompleteItem{{Token: held[0].Token}}, nil)
				return err
			}, func() { want.DoneTotal += landed }},
			{"a fail", func() error {
				_, err := b.shard.Fail(ctx, []queue.FailItem{{Token: held[1].Token}}, nil)
				return err
			}, func() { want.FailedTotal += landed }},
		} {
			f.arm(how, 0)
			if err := call.do(); queue.CodeOf(err) != queue.CodeCommitFailed {
				t.Fatalf("%s whose commit is unknown: got %v, want %s", call.what, err, queue.CodeCommitFailed)
			}
			call.add()
			got := b.shard.Stats()
			if got.InsertedTotal != want.InsertedTotal || got.SubmissionsInsertedTotal != want.SubmissionsInsertedTotal ||
				got.DoneTotal != want.DoneTotal || got.FailedTotal != want.FailedTotal || got.ReservedTotal != want.ReservedTotal {
				t.Errorf("after %s that %s, the totals are %+v, want %+v", call.what, faultNames[how], got.Stats, want.Stats)
			}
		}
		held = held[2:]
		if how == unknownLost { // it is still to be done
			held = mustReserve(t, b, "OldestFirst", 2)
			want.ReservedTotal += 2
		}
	}
}
