package objects_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"gocloud.dev/blob"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
	"github.com/quern-queue/quern/sdk/objects"
)

// each runs a test with every kind of bucket, and a server of its own.
func each(t *testing.T, test func(t *testing.T, s objects.Store)) {
	for name, address := range buckets(t) {
		t.Run(name, func(t *testing.T) {
			test(t, objects.Store{Client: connect(t), Bucket: open(t, address), Parallel: 3})
		})
	}
}

func texts(list ...string) iter.Seq2[io.Reader, error] {
	return func(yield func(io.Reader, error) bool) {
		for _, text := range list {
			if !yield(strings.NewReader(text), nil) {
				return
			}
		}
	}
}

// keys are those of all objects in a bucket.
func keys(t *testing.T, b *blob.Bucket) (list []string) {
	t.Helper()
	for all := b.List(nil); ; {
		object, err := all.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, object.Key)
	}
}

// work has a consumer run until the submission has ended.
func work(t *testing.T, s objects.Store, id string, handler objects.Handler) *api.Submission {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Work(ctx, client.WorkOptions{Concurrency: 4}, handler) }()
	submission, err := s.Client.Wait(t.Context(), id)
	stop()
	if err := errors.Join(err, <-ended); err != nil {
		t.Fatal(err)
	}
	return submission
}

// Consumers read the contents that were uploaded, and outputs name the results that consumers write: of sizes from nothing to several
// parts of an upload.
func TestRoundTrip(t *testing.T) {
	each(t, func(t *testing.T, s objects.Store) {
		sizes := []int{0, 1, 1000, 11 << 20}
		chunks := func(yield func(io.Reader, error) bool) {
			for i, size := range sizes {
				if !yield(bytes.NewReader(bytes.Repeat([]byte{byte('a' + i)}, size)), nil) {
					return
				}
			}
		}
		submission, err := s.Submit(t.Context(), "default", "", &api.NewSubmission{Meta: api.Meta{"company": api.Int(5)}}, chunks)
		if err != nil {
			t.Fatal(err)
		}
		submission = work(t, s, submission.ID, func(_ context.Context, chunk *client.Chunk, in io.Reader, out io.Writer) error {
			if chunk.Meta["company"] != api.Int(5) {
				t.Errorf("got the meta %v", chunk.Meta)
			}
			_, err := io.Copy(out, in)
			return err
		})
		if submission.State != api.StateCompleted || int(submission.Done) != len(sizes) {
			t.Fatalf("got %+v, want %d done chunks", submission, len(sizes))
		}
		seen := 0
		for output, err := range s.Client.Outputs(t.Context(), submission.ID) {
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Bucket.ReadAll(t.Context(), string(output.Output))
			if want := bytes.Repeat([]byte{byte('a' + output.Index)}, sizes[output.Index]); err != nil || !bytes.Equal(got, want) {
				t.Errorf("output %d: got %d bytes, %v; want %d", output.Index, len(got), err, len(want))
			}
			seen++
		}
		if seen != len(sizes)-1 { // nothing was written for the empty one
			t.Errorf("got %d outputs, want %d", seen, len(sizes)-1)
		}
	})
}

// Only what a handler wrote before it returned nil is an object: not what a failed try wrote.
func TestFailedTryLeavesNoOutput(t *testing.T) {
	each(t, func(t *testing.T, s objects.Store) {
		submission, err := s.Submit(t.Context(), "default", "", &api.NewSubmission{}, texts("x"))
		if err != nil {
			t.Fatal(err)
		}
		work(t, s, submission.ID, func(_ context.Context, chunk *client.Chunk, _ io.Reader, out io.Writer) error {
			if _, err := fmt.Fprintf(out, "try %d", chunk.Attempt); err != nil {
				return err
			}
			switch chunk.Attempt {
			case 1:
				return client.RetryAfter(errors.New("not yet"), 0)
			case 2:
				panic("in the middle")
			}
			return nil
		})
		found := slices.DeleteFunc(keys(t, s.Bucket), func(key string) bool { return !strings.HasPrefix(key, "quern/outputs/") })
		if len(found) != 1 {
			t.Fatalf("got the outputs %q, want that of the third try only", found)
		}
		if got, err := s.Bucket.ReadAll(t.Context(), found[0]); err != nil || string(got) != "try 3" {
			t.Errorf("got %q, %v; want try 3", got, err)
		}
	})
}

// A call that broke off goes on under its key: objects that are there stay as they are, and there is one submission.
func TestSubmitGoesOn(t *testing.T) {
	each(t, func(t *testing.T, s objects.Store) {
		broken := func(yield func(io.Reader, error) bool) {
			_ = yield(strings.NewReader("one"), nil) && yield(nil, errors.New("the source ended"))
		}
		if _, err := s.Submit(t.Context(), "default", "k", &api.NewSubmission{}, broken); err == nil || !strings.Contains(err.Error(), "the source ended") {
			t.Fatalf("got %v, want the source's error", err)
		}
		first, err := s.Submit(t.Context(), "default", "k", &api.NewSubmission{}, texts("one", "two"))
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.Submit(t.Context(), "default", "k", &api.NewSubmission{}, texts("ONE", "TWO"))
		if err != nil || again.ID != first.ID {
			t.Fatalf("got %+v, %v; want the submission %s again", again, err, first.ID)
		}
		var read atomic.Int64
		work(t, s, first.ID, func(_ context.Context, chunk *client.Chunk, in io.Reader, _ io.Writer) error {
			text, err := io.ReadAll(in)
			if want := []string{"one", "two"}[chunk.Index]; string(text) != want {
				t.Errorf("chunk %d: got %q, want %q", chunk.Index, text, want)
			}
			read.Add(1)
			return err
		})
		if read.Load() != 2 {
			t.Errorf("%d chunks were read, want 2", read.Load())
		}
	})
}

// An upload that fails inserts nothing and leaves nothing: not half an object either.
func TestFailedUploadLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, s objects.Store) {
		for name, chunks := range map[string]iter.Seq2[io.Reader, error]{
			"a reader fails in its middle": func(yield func(io.Reader, error) bool) {
				_ = yield(strings.NewReader("whole"), nil) && yield(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrClosedPipe)), nil)
			},
			"the source fails": func(yield func(io.Reader, error) bool) {
				_ = yield(strings.NewReader("whole"), nil) && yield(nil, io.ErrClosedPipe)
			},
		} {
			if _, err := s.Submit(t.Context(), "default", "", &api.NewSubmission{}, chunks); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("%s: got %v, want %v", name, err, io.ErrClosedPipe)
			}
		}
		half := func(yield func(io.Reader, error) bool) {
			yield(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrClosedPipe)), nil)
		}
		if _, err := s.Submit(t.Context(), "default", "kept", &api.NewSubmission{}, half); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("under a key: got %v, want %v", err, io.ErrClosedPipe)
		}
		for name, n := range map[string]*api.NewSubmission{"no chunks": {}, "must be empty": {Chunks: api.Chunks{Count: 3}}} {
			if _, err := s.Submit(t.Context(), "default", "", n, texts()); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("got %v, want an error with %q", err, name)
			}
		}
		if found := keys(t, s.Bucket); len(found) > 0 {
			t.Errorf("left behind: %q", found)
		}
		for submission, err := range s.Client.List(t.Context(), "default", client.ListOptions{}) {
			t.Errorf("inserted: %+v %v", submission, err)
		}
	})
}

// A sweep removes the objects that belong to no submission: of a deleted queue, and of an insert that never came. Younger objects, and
// objects that are not Store's, stay.
func TestSweep(t *testing.T) {
	each(t, func(t *testing.T, s objects.Store) {
		ctx := t.Context()
		if _, err := s.Client.PutQueue(ctx, "going", api.QueueSettingsInput{}); err != nil {
			t.Fatal(err)
		}
		submit := func(queue string) *api.Submission {
			submission, err := s.Submit(ctx, queue, "", &api.NewSubmission{OnExhausted: "dead_letter"}, texts("a", "b"))
			if err != nil {
				t.Fatal(err)
			}
			return submission
		}
		kept, gone := submit("default"), submit("going")
		for _, key := range []string{"mine", "quern/contents/mine/0", "quern/contents/" + strings.Repeat("0a", 16) + "/0", "quern/outputs/unknown/0-x",
			"quern/outputs/" + kept.ID + "/0-x"} {
			if err := s.Bucket.WriteAll(ctx, key, []byte("x"), nil); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := s.Sweep(ctx, time.Now().Add(-time.Hour)); n != 0 || err != nil {
			t.Errorf("a sweep of what is older than an hour: got %d %v, want none", n, err)
		}
		if _, err := s.Client.Cancel(ctx, gone.ID); err != nil {
			t.Fatal(err)
		}
		if err := s.Client.DeleteQueue(ctx, "going"); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Sweep(ctx, time.Now().Add(time.Hour)); n != 3 || err != nil {
			t.Errorf("a sweep of all that is unknown: got %d %v, want 3", n, err)
		}
		want := []string{"mine", kept.Prefix + "0", kept.Prefix + "1", "quern/contents/mine/0", "quern/outputs/" + kept.ID + "/0-x"}
		if got := keys(t, s.Bucket); !slices.Equal(got, want) {
			t.Errorf("got the keys %q, want %q", got, want)
		}
	})
}

// A folder goes by its youngest object, wherever that is among the others.
func TestSweepWaitsForTheYoungest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := objects.Store{Client: connect(t), Bucket: open(t, "file://"+dir+"?no_tmp_dir=true")}
	folder, now := "quern/contents/"+strings.Repeat("b1", 16)+"/", time.Now()
	age := func(name string, age time.Duration) {
		if err := os.Chtimes(filepath.Join(dir, folder, name), now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"0", "1", "2"} {
		if err := s.Bucket.WriteAll(t.Context(), folder+name, []byte("x"), nil); err != nil {
			t.Fatal(err)
		}
		age(name, 2*time.Hour)
	}
	for _, young := range []string{"0", "1", "2"} {
		age(young, 0)
		if n, err := s.Sweep(t.Context(), now.Add(-time.Hour)); n != 0 || err != nil {
			t.Errorf("with the young object %s: got %d %v, want none", young, n, err)
		}
		age(young, 2*time.Hour)
	}
	if n, err := s.Sweep(t.Context(), now.Add(-time.Hour)); n != 1 || err != nil || len(keys(t, s.Bucket)) != 0 {
		t.Errorf("without a young one: got %d %v, want one folder gone", n, err)
	}
}

// The contents of a dead letter that went on to another queue stay when its own queue is gone.
func TestSweepKeepsForwarded(t *testing.T) {
	each(t, func(t *testing.T, s objects.Store) {
		ctx := t.Context()
		if _, err := s.Client.PutQueue(ctx, "rejects", api.QueueSettingsInput{}); err != nil {
			t.Fatal(err)
		}
		settings := api.QueueSettingsInput{OnExhausted: new("dead_letter"), DeadLetterQueue: new("rejects")}
		if _, err := s.Client.PutQueue(ctx, "work", settings); err != nil {
			t.Fatal(err)
		}
		submission, err := s.Submit(ctx, "work", "", &api.NewSubmission{}, texts("a"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Client.Reserve(ctx, "work", &api.ReserveRequest{Max: 1, Consumer: "me"})
		if err != nil || len(r.Reservations) != 1 {
			t.Fatalf("got %+v, %v; want the chunk", r, err)
		}
		if _, err := s.Client.Fail(ctx, "work", []api.FailItem{{Token: r.Reservations[0].Token, Error: "no", Fatal: true}}); err != nil {
			t.Fatal(err)
		}
		for err = s.Client.DeleteQueue(ctx, "work"); client.CodeOf(err) == api.CodeConflict; err = s.Client.DeleteQueue(ctx, "work") {
			// the dead letter is on its way
		}
		if err != nil {
			t.Fatal(err)
		}
		if n, err := s.Sweep(ctx, time.Now().Add(time.Hour)); n != 0 || err != nil {
			t.Errorf("got %d %v, want nothing removed", n, err)
		}
		if got, want := keys(t, s.Bucket), []string{submission.Prefix + "0"}; !slices.Equal(got, want) {
			t.Errorf("got the keys %q, want %q", got, want)
		}
	})
}

// A token that sees only some submissions must not have the objects of the others removed.
func TestSweepNeedsToSeeAll(t *testing.T) {
	c, address := connectTo(t)
	s := objects.Store{Client: c, Bucket: open(t, buckets(t)["files"])}
	if _, err := s.Submit(t.Context(), "default", "", &api.NewSubmission{}, texts("a")); err != nil {
		t.Fatal(err)
	}
	before := keys(t, s.Bucket)
	for _, token := range []api.NewToken{{Name: "all", Scopes: []string{"admin"}}, {Name: "some", Scopes: []string{"read"}, Queues: []string{"other"}}} {
		made, err := s.Client.NewToken(t.Context(), &token)
		if err != nil {
			t.Fatal(err)
		}
		if s.Client, err = client.New(address, client.WithToken(made.Token)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Client.Close)
	}
	if n, err := s.Sweep(t.Context(), time.Now().Add(time.Hour)); n != 0 || err == nil || !strings.Contains(err.Error(), "sees only") {
		t.Errorf("got %d %v, want a refusal", n, err)
	}
	if got := keys(t, s.Bucket); !slices.Equal(got, before) {
		t.Errorf("got the keys %q, want %q", got, before)
	}
}

// Remove takes the objects of one submission, and of one that was inserted otherwise its outputs only.
func TestRemove(t *testing.T) {
	each(t, func(t *testing.T, s objects.Store) {
		if err := s.Bucket.WriteAll(t.Context(), "elsewhere/0", []byte("kept"), nil); err != nil {
			t.Fatal(err)
		}
		echo := func(_ context.Context, _ *client.Chunk, in io.Reader, out io.Writer) error {
			_, err := io.Copy(out, in)
			return err
		}
		uploaded, err := s.Submit(t.Context(), "default", "", &api.NewSubmission{}, texts("a", "b"))
		if err != nil {
			t.Fatal(err)
		}
		other, err := s.Client.Insert(t.Context(), "default", &api.NewSubmission{Chunks: api.Chunks{Count: 1, Prefix: "elsewhere/"}})
		if err != nil {
			t.Fatal(err)
		}
		inline, err := s.Client.Insert(t.Context(), "default", &api.NewSubmission{Chunks: api.Chunks{Inline: []api.Bytes{api.Bytes("c")}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{uploaded.ID, other.ID, inline.ID} {
			if ended := work(t, s, id, echo); ended.Done != ended.Chunks {
				t.Errorf("got %+v, want all chunks done", ended)
			}
		}
		if got := keys(t, s.Bucket); len(got) != 7 {
			t.Errorf("got the objects %q, want 3 contents and 4 outputs", got)
		}
		for _, submission := range []*api.Submission{uploaded, other, inline} {
			if err := s.Remove(t.Context(), submission); err != nil {
				t.Error(err)
			}
		}
		if got, want := keys(t, s.Bucket), []string{"elsewhere/0"}; !slices.Equal(got, want) {
			t.Errorf("got the keys %q, want %q", got, want)
		}
	})
}
