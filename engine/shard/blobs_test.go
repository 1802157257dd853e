package shard

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/engine/strategy"
)

// large is a submission of so many chunks of so many bytes each, which have the submission's name.
func large(name string, count, size int) *queue.NewSubmission {
	n := &queue.NewSubmission{Attachment: []byte("with " + name), Chunks: queue.Chunks{Count: uint32(count)}}
	for i := range count {
		n.Chunks.Inline = append(n.Chunks.Inline, largeChunk(name, i, size))
	}
	return n
}

func largeChunk(name string, i, size int) []byte {
	text := fmt.Sprintf("%s/%d ", name, i)
	return []byte(strings.Repeat(text, size/len(text)+1)[:size])
}

// own is the contents that the chunks of a submission must have.
type own struct {
	name        string
	count, size int
}

func (o own) insert(t *testing.T, s *Shard) queue.SubmissionID {
	t.Helper()
	sub, _, err := s.Insert(t.Context(), large(o.name, o.count, o.size))
	if err != nil {
		t.Fatal(err)
	}
	return sub.ID
}

// readsOwn reserves all chunks, which are of these submissions, and checks their bytes.
func readsOwn(t *testing.T, s *Shard, want map[queue.SubmissionID]own) {
	t.Helper()
	parsed, err := strategy.Parse("Random")
	if err != nil {
		t.Fatal(err)
	}
	left := map[queue.SubmissionID]int{}
	for id, o := range want {
		left[id] = o.count
	}
	for len(left) > 0 {
		got, err := s.Reserve(t.Context(), machine.Request{Plan: parsed.Plan(), Max: 100, Timeout: time.Hour}, nil)
		if err != nil || len(got.Reservations) == 0 {
			t.Fatalf("%d chunks are reserved, %v; left are %v", len(got.Reservations), err, left)
		}
		for _, r := range got.Reservations {
			id, o := r.Token.Submission, want[r.Token.Submission]
			if !bytes.Equal(r.Content.Bytes, largeChunk(o.name, int(r.Token.Index), o.size)) || string(r.Attachment) != "with "+o.name {
				t.Fatalf("chunk %d of %s reads %.40q with %.40q", r.Token.Index, o.name, r.Content.Bytes, r.Attachment)
			}
			if left[id]--; left[id] == 0 {
				delete(left, id)
			}
		}
	}
}

func keysIn(t *testing.T, of blobs.Blobs) (keys []string) {
	t.Helper()
	if err := blobs.Each(t.Context(), of, "", func(b blobs.Blob) error { keys = append(keys, b.Key); return nil }); err != nil {
		t.Fatal(err)
	}
	return keys
}

// An insert whose bytes are on their way while its shard reloads fails, and leaves nothing. The next insert reads its
// own bytes.
func TestReloadUnderALargeInsert(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var lose atomic.Int32
	var hold atomic.Bool
	holds, goOn := make(chan struct{}), make(chan struct{})
	o := optionsOn(t, dir, func(ctx context.Context) (journal.Journal, error) {
		log, err := sqlitelog.Open(ctx, filepath.Join(dir, "journal.db"), sqlitelog.Options{Durability: queue.Relaxed})
		return &lossyLog{Journal: log, lose: &lose}, err
	})
	rows, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), store.Options{Durability: queue.Relaxed,
		Around: func(write func() error) error {
			if hold.CompareAndSwap(true, false) {
				close(holds)
				<-goOn
			}
			return write()
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	o.Store = rows
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	hold.Store(true)
	first := make(chan error)
	go func() {
		_, _, err := s.Insert(context.Background(), large("first", 100, 1500)) // a page for each chunk
		first <- err
	}()
	<-holds
	lose.Store(1)
	if err := insertFive(s); queue.CodeOf(err) != queue.CodeCommitFailed {
		t.Fatalf("an insert whose append is lost: %v, want %s", err, queue.CodeCommitFailed)
	}
	close(goOn)
	if err := <-first; queue.CodeOf(err) != queue.CodeCommitFailed {
		t.Fatalf("the insert that was under way: %v, want %s", err, queue.CodeCommitFailed)
	}
	second := own{"second", 400, 300} // several chunks in a page
	id := second.insert(t, s)
	readsOwn(t, s, map[queue.SubmissionID]own{id: second})
	for _, key := range keysIn(t, &rows.Blobs) {
		if epoch, seq, _, _ := blobs.ParseKey(key); epoch != s.m.Epoch || seq != s.m.NextSeq {
			t.Errorf("blob %s is left of the other insert", key)
		}
	}
}

// Two owners with a store each, epochs 1 and 2, draw the same number, and both put large contents into shared blobs.
// Each submission in the remaining journal reads its own bytes, also for a third owner that has only the journal and
// the blobs.
func TestTwoOwnersOfANumber(t *testing.T) {
	t.Parallel()
	journals := filepath.Join(t.TempDir(), "journal.db")
	how := sqlitelog.Options{Durability: queue.Relaxed, Shared: true}
	medium, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "blobs.db"), store.Options{Durability: queue.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	defer medium.Close()
	owner := func() *Shard {
		o := optionsOn(t, t.TempDir(), func(ctx context.Context) (journal.Journal, error) { return sqlitelog.Open(ctx, journals, how) })
		o.Copies.Blobs = &medium.Blobs
		s, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	want := map[queue.SubmissionID]own{}
	one := owner()
	x := own{"x", 7, 900_000} // two parts
	want[x.insert(t, one)] = x
	two := owner()
	if _, _, err := one.Insert(t.Context(), large("y", 90, 1500)); queue.CodeOf(err) != queue.CodeMoved {
		t.Fatalf("an insert of the old owner: %v, want %s", err, queue.CodeMoved)
	}
	z := own{"z", 500, 300}
	want[z.insert(t, two)] = z
	if y := blobs.Key(0, 1, two.m.NextSeq, 0); !slices.Contains(keysIn(t, &medium.Blobs), y) {
		t.Fatalf("the old owner left no blob %s: this test shows nothing", y)
	}
	readsOwn(t, two, want)
	three := owner()
	readsOwn(t, three, want)
	for _, key := range keysIn(t, &medium.Blobs) {
		if epoch, seq, _, _ := blobs.ParseKey(key); epoch == 1 && seq == 2 {
			t.Errorf("blob %s is left, which no insert names", key)
		}
	}
}

// A crash between the put of blobs and the append of their insert leaves garbage. The next start removes it, and no
// blobs that open or ended submissions name, or that its own inserts have put meanwhile.
func TestGarbageIsSwept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var stays []string
	put := func(s *Shard, epoch, seq uint32, part int) string {
		t.Helper()
		key := blobs.Key(s.options.ID, epoch, seq, part)
		if err := s.store.Blobs.Put(t.Context(), key, []byte("garbage")); err != nil {
			t.Fatal(err)
		}
		return key
	}
	withShard(t, dir, func(s *Shard) {
		open, ended, past := own{"open", 9, 900_000}, own{"ended", 100, 1000}, own{"past", 100, 1000}
		open.insert(t, s)
		for _, o := range []own{past, ended} {
			if _, err := s.Submissions.Cancel(t.Context(), o.insert(t, s)); err != nil {
				t.Fatal(err)
			}
			if o == past {
				if err := s.Checkpoint(); err != nil { // it is in the history only
					t.Fatal(err)
				}
			}
		}
		stays = keysIn(t, &s.store.Blobs)
		put(s, 0, 1, 0)
		put(s, 1, 1, 9)
		put(s, 0, 2, 0)
		put(s, 0, 3, 1)
		put(s, 1, 4, 0)
		put(s, 1, 1<<32-1, 2)
		stays = append(stays, put(s, 2, 4, 0)) // of the epoch that begins
	})
	withShard(t, dir, func(s *Shard) {
		if got := keysIn(t, &s.store.Blobs); !slices.Equal(got, slices.Sorted(slices.Values(stays))) {
			t.Errorf("after the start there are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(stays, "\n"))
		}
	})
}

// A disk that gets full in the middle of a large insert refuses it, and no blob is left. When there is room again, the
// insert succeeds.
func TestFullDiskLeavesNoBlobs(t *testing.T) {
	t.Parallel()
	withShard(t, t.TempDir(), func(s *Shard) {
		first := own{"first", 100, 1000}
		want := map[queue.SubmissionID]own{first.insert(t, s): first}
		before := keysIn(t, &s.store.Blobs)
		noise := own{"noise", 24, 700_000}
		n := large(noise.name, noise.count, noise.size)
		for i := range n.Chunks.Inline {
			noisy(n.Chunks.Inline[i])
		}
		if err := s.store.SetMaxPages(2500); err != nil { // some of the parts
			t.Fatal(err)
		}
		if _, _, err := s.Insert(t.Context(), n); queue.CodeOf(err) != queue.CodeDiskFull {
			t.Fatalf("an insert on a full disk: %v, want %s", err, queue.CodeDiskFull)
		}
		if got := keysIn(t, &s.store.Blobs); !slices.Equal(got, before) {
			t.Errorf("there are %v, want %v as before", got, before)
		}
		if err := s.store.SetMaxPages(0); err != nil {
			t.Fatal(err)
		}
		s.SetFull(false) // as the engine does when it sees room
		want[noise.insert(t, s)] = noise
		readsOwn(t, s, want)
	})
}

// The start names submissions whose blobs are missing or have other bytes. Their chunks become dead letters when they
// are reserved, and the others go on.
func TestMissingBlobsAreNamed(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, s *Shard, key string){
		"missing": func(*testing.T, *Shard, string) {},
		"another": func(t *testing.T, s *Shard, key string) {
			if err := s.store.Blobs.Put(t.Context(), key, []byte("other bytes")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			good, bad := own{"good", 100, 1000}, own{"bad", 9, 900_000}
			want, badID := map[queue.SubmissionID]own{}, queue.SubmissionID(0)
			withShard(t, dir, func(s *Shard) {
				want[good.insert(t, s)] = good
				badID = bad.insert(t, s)
				key := blobs.Key(s.options.ID, s.m.Epoch, s.m.NextSeq, 1)
				if err := s.store.Blobs.Delete(t.Context(), key); err != nil {
					t.Fatal(err)
				}
				damage(t, s, key)
			})
			withShard(t, dir, func(s *Shard) {
				readsOwn(t, s, want)
				parsed, err := strategy.Parse("Random")
				if err != nil {
					t.Fatal(err)
				}
				got, err := s.Reserve(t.Context(), machine.Request{Plan: parsed.Plan(), Max: 100, Timeout: time.Hour}, nil)
				if err != nil || len(got.Reservations) > 0 {
					t.Fatalf("%d chunks of a submission without its bytes are served, %v", len(got.Reservations), err)
				}
				sub, err := s.Submissions.Get(t.Context(), badID)
				if err != nil || sub.Paused+sub.Dead != uint32(bad.count) {
					t.Errorf("the submission is %+v, %v; want its chunks dead", sub, err)
				}
			})
		})
	}
}

func noisy(b []byte) {
	x := uint32(len(b))
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
}
