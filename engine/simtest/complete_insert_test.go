package simtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inserts"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// followed is a box with one chunk of one submission in a consumer's hands.
type followed struct {
	*box
	faults *faults
	first  queue.Submission
	token  queue.Token
}

func openFollowed(t *testing.T, change func(b *box)) *followed {
	f := &followed{box: newBox(t, relaxed()), faults: &faults{spare: true}}
	f.wrap, f.fatal = f.faults.wrap, f.faults.fatal
	if change != nil {
		change(f.box)
	}
	f.open()
	f.hold(prefixed(1))
	return f
}

// hold inserts a submission and reserves its first chunk.
func (f *followed) hold(n queue.NewSubmission) {
	f.t.Helper()
	f.first = mustInsert(f.t, f.box, n)
	for _, r := range mustReserve(f.t, f.box, "NewestFirst", 1) {
		f.token = r.Token
	}
}

// complete completes the chunk with submissions that it brings.
func (f *followed) complete(list ...queue.Insertion) (queue.Result, []queue.Insertion) {
	f.t.Helper()
	items := []queue.CompleteItem{{Token: f.token, Output: []byte("done"), Insert: list}}
	got, err := f.shard.Complete(ctx, items, nil)
	must(f.t, err)
	return got[0], items[0].Insert
}

// kill goes on with the files as they are on the disk at this moment.
func (f *followed) kill() { f.box.kill(f.t.(*testing.T), asTheyAre) }

// wantNeither: the chunk is not completed, nothing was inserted, and the token is still good.
func (f *followed) wantNeither(when string, more int) {
	f.t.Helper()
	if sub := f.sub(f.first.ID); sub.Done != 0 || sub.State != queue.Open {
		f.t.Errorf("%s: %d chunks are done, %s; want none", when, sub.Done, sub.State)
	}
	if n := f.submissions(); n != 1+more {
		f.t.Errorf("%s: there are %d submissions, want %d", when, n, 1+more)
	}
}

// TestCompleteInserts: the submissions that a completion brings are inserted in its commit, with contents and keys; after a kill both the
// completion and the submissions are there. A repeated token inserts nothing again.
func TestCompleteInserts(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(b *box){
		"in the batch": nil,
		"as blobs":     func(b *box) { b.opBytes = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := openFollowed(t, change)
			result, list := f.complete(insertion("k", "content"), insertion("", "other"))
			if result.Outcome != queue.OutcomeOK || list[0].Submission.ID <= f.first.ID || list[1].Submission.ID <= list[0].Submission.ID {
				t.Fatalf("got %+v and %s, %s after %s", result, list[0].Submission.ID, list[1].Submission.ID, f.first.ID)
			}
			f.kill()
			if sub := f.sub(f.first.ID); sub.State != queue.Completed || f.submissions() != 3 {
				t.Errorf("after a kill the first is %s, and there are %d submissions; want it completed, and 3", sub.State, f.submissions())
			}
			if again, _ := f.complete(insertion("k", "content"), insertion("", "other")); again.Outcome != queue.OutcomeAlready || f.submissions() != 3 {
				t.Errorf("the same again: %+v, and %d submissions; want already, and 3", again, f.submissions())
			}
			var contents []string
			for _, r := range mustReserve(t, f.box, "OldestFirst", 9) {
				contents = append(contents, string(r.Content.Bytes))
			}
			if !slices.Equal(contents, []string{"content", "other"}) {
				t.Errorf("handed out: %q", contents)
			}
			repeated := insertion("k", "content")
			if err := f.shard.InsertMany(ctx, []queue.Insertion{repeated}, false); err != nil || f.submissions() != 3 {
				t.Errorf("an insert with its idempotency key: %v, and %d submissions; want 3", err, f.submissions())
			}
		})
	}
}

// TestCompleteInsertsNeither: a token that is worth nothing inserts nothing, and when a submission cannot be inserted the chunk is not
// completed: it is held as before. A commit that fails leaves neither.
func TestCompleteInsertsNeither(t *testing.T) {
	t.Parallel()
	t.Run("the token is lost", func(t *testing.T) {
		t.Parallel()
		f := openFollowed(t, nil)
		f.tickAfter(2 * time.Hour)
		f.tickAfter(2 * time.Hour)
		if again := mustReserve(t, f.box, "OldestFirst", 1); len(again) != 1 {
			t.Fatalf("%d reservations, want one", len(again))
		}
		if result, _ := f.complete(insertion("k", "a")); result.Outcome != queue.OutcomeLost {
			t.Errorf("got %+v, want lost", result)
		}
		f.wantNeither("after it", 0)
		if in := insertion("k", "b"); f.shard.InsertMany(ctx, []queue.Insertion{in}, false) != nil || f.submissions() != 2 {
			t.Error("the idempotency key of the submission that was not inserted is not free")
		}
	})
	t.Run("one of its keys is that of another request", func(t *testing.T) {
		t.Parallel()
		f := openFollowed(t, nil)
		must(t, f.shard.InsertMany(ctx, []queue.Insertion{insertion("taken", "a")}, false))
		result, _ := f.complete(insertion("", "x"), insertion("taken", "b"), insertion("", "y"))
		if result.Outcome != queue.OutcomeRefused || result.Code != string(queue.CodeIdempotencyReuse) {
			t.Errorf("got %+v, want it refused", result)
		}
		f.wantNeither("after it", 1)
		if result, _ = f.complete(insertion("taken", "a")); result.Outcome != queue.OutcomeOK || f.submissions() != 2 {
			t.Errorf("with the same request: %+v, and %d submissions", result, f.submissions())
		}
	})
	t.Run("as many submissions are open as may be", func(t *testing.T) {
		t.Parallel()
		f := openFollowed(t, func(b *box) { b.live = inserts.NewLiveLimit(2) })
		result, _ := f.complete(insertion("", "x"), insertion("", "y"))
		if result.Outcome != queue.OutcomeRefused || result.Code != string(queue.CodeTooManySubmissions) {
			t.Errorf("got %+v, want it refused", result)
		}
		f.wantNeither("after it", 0)
		if result, _ = f.complete(insertion("", "x")); result.Outcome != queue.OutcomeOK {
			t.Errorf("with one: %+v", result)
		}
		if _, _, err := f.shard.Insert(ctx, new(prefixed(1))); err != nil {
			t.Errorf("the places of what was refused are not free: %v", err)
		}
	})
	t.Run("the server is full, and its memory too", func(t *testing.T) {
		t.Parallel()
		f := openFollowed(t, func(b *box) { b.live = inserts.NewLiveLimit(1) })
		f.live.Uses(2<<20, 1<<20)
		result, _ := f.complete(insertion("", "x"), insertion("", "y"))
		if result.Outcome != queue.OutcomeRefused || result.Code != string(queue.CodeOverloaded) {
			t.Errorf("two for one: %+v, want it refused", result)
		}
		f.wantNeither("after it", 0)
		if result, _ = f.complete(insertion("", "x")); result.Outcome != queue.OutcomeOK || f.submissions() != 2 {
			t.Errorf("one that takes the place of the one that ends: %+v", result)
		}
		if _, _, err := f.shard.Insert(ctx, new(prefixed(1))); queue.CodeOf(err) != queue.CodeOverloaded {
			t.Errorf("an insert after it: %v, want it refused", err)
		}
		f.live.Uses(0, 1<<20)
		if _, _, err := f.shard.Insert(ctx, new(prefixed(1))); queue.CodeOf(err) != queue.CodeTooManySubmissions {
			t.Errorf("with free memory: %v, want too many submissions", err)
		}
	})
	t.Run("the disk is full", func(t *testing.T) {
		t.Parallel()
		f := openFollowed(t, nil)
		f.shard.SetFull(true)
		result, _ := f.complete(insertion("", "x"))
		if result.Outcome != queue.OutcomeRefused || result.Code != string(queue.CodeDiskFull) {
			t.Errorf("got %+v, want it refused", result)
		}
		f.wantNeither("after it", 0)
		if result, _ = f.complete(); result.Outcome != queue.OutcomeOK {
			t.Errorf("without inserts: %+v", result)
		}
		if result, _ = f.complete(insertion("", "x")); result.Outcome != queue.OutcomeAlready {
			t.Errorf("repeated with inserts: %+v, want already", result)
		}
	})
	for how := range faultNames {
		if fault(how) == noFault || fault(how) == syncLost || fault(how) == syncWritten {
			continue
		}
		t.Run("the append fails: "+faultNames[how], func(t *testing.T) {
			t.Parallel()
			f := openFollowed(t, nil)
			f.faults.arm(fault(how), 0)
			items := []queue.CompleteItem{{Token: f.token, Insert: []queue.Insertion{insertion("k", "a"), insertion("", "b")}}}
			if _, err := f.shard.Complete(ctx, items, nil); err == nil {
				t.Fatal("got no error")
			}
			f.shard.SetFull(false)
			if !fault(how).written() {
				f.wantNeither("after it", 0)
			}
			f.kill()
			if sub, n := f.sub(f.first.ID), f.submissions(); sub.Done == 1 != fault(how).written() || n != 1+2*int(sub.Done) {
				t.Errorf("after a kill %d chunks are done, and there are %d submissions", sub.Done, n)
			}
		})
	}
}

// TestCompleteInsertsManyItems: each item has its own inserts and its own result, in order, beside items without any.
func TestCompleteInsertsManyItems(t *testing.T) {
	t.Parallel()
	f := openFollowed(t, nil)
	mustInsert(t, f.box, prefixed(600))
	var items []queue.CompleteItem
	for i, r := range mustReserve(t, f.box, "OldestFirst", 600) {
		item := queue.CompleteItem{Token: r.Token, Output: fmt.Append(nil, i)}
		switch {
		case i%100 == 50:
			item.Insert = []queue.Insertion{insertion("", fmt.Sprint(i))}
		case i%100 == 51:
			item.Token.MAC++
			item.Insert = []queue.Insertion{insertion("", fmt.Sprint(i))}
		}
		items = append(items, item)
	}
	got, err := f.shard.Complete(ctx, items, nil)
	must(t, err)
	for i := range got {
		want := queue.OutcomeOK
		if i%100 == 51 {
			want = queue.OutcomeUnknown
		}
		if got[i].Outcome != want || i%100 == 50 && items[i].Insert[0].Submission.ID == 0 {
			t.Fatalf("item %d: %+v, want %s", i, got[i], want)
		}
	}
	if n := f.submissions(); n != 2+6 {
		t.Errorf("there are %d submissions, want 8", n)
	}
	must(t, f.shard.Submissions.Outputs(ctx, items[0].Token.Submission, func(index uint32, output []byte) error {
		if string(output) != fmt.Sprint(index) {
			return fmt.Errorf("chunk %d has the output %q", index, output)
		}
		return nil
	}))
}

// TestCompleteInsertsItsUniqueKey: a submission may be followed by one with its own unique key, if it ends with the chunk that brings it.
// One that goes on keeps its key.
func TestCompleteInsertsItsUniqueKey(t *testing.T) {
	t.Parallel()
	f := openFollowed(t, nil)
	next := func() queue.Insertion { return queue.Insertion{New: unique("chain", 0, false, false)} }
	f.hold(*unique("chain", 0, false, false))
	for range 3 {
		result, list := f.complete(next())
		if result.Outcome != queue.OutcomeOK || list[0].Existing || list[0].Submission.ID == f.first.ID {
			t.Fatalf("got %+v and %+v, want another submission after %s", result, list[0], f.first.ID)
		}
		if other := next(); f.shard.InsertMany(ctx, []queue.Insertion{other}, false) != nil || f.open1() != 2 {
			t.Fatalf("beside the next one, %d submissions are open, want 2", f.open1())
		}
		f.kill()
		f.first = list[0].Submission
		for _, r := range mustReserve(t, f.box, "NewestFirst", 1) {
			if f.token = r.Token; f.token.Submission != f.first.ID {
				t.Fatalf("reserved %s, want %s", f.token.Submission, f.first.ID)
			}
		}
	}
	two := unique("two", 0, false, false)
	two.Chunks.Count = 2
	f.hold(*two)
	result, list := f.complete(queue.Insertion{New: unique("two", 0, false, false)})
	if result.Outcome != queue.OutcomeOK || !list[0].Existing || list[0].Submission.ID != f.first.ID {
		t.Errorf("the first of two chunks: %+v and %+v, want its own submission, which goes on", result, list[0])
	}
}

// open1 is how many submissions are open.
func (f *followed) open1() int {
	list, _, err := f.shard.Submissions.List(ctx, machine.Filter{States: []queue.SubmissionState{queue.Open}}, 0, 100)
	must(f.t, err)
	return len(list)
}
