package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/cluster/clustertest"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// hooked is a backend that asks before it changes anything, and before it reads a blob.
type hooked struct {
	cluster.Backend
	before func(call, name string) error
}

func (h *hooked) MakeJournal(ctx context.Context, name string, after journal.Position) error {
	if err := h.before("MakeJournal", name); err != nil {
		return err
	}
	return h.Backend.MakeJournal(ctx, name, after)
}

func (h *hooked) DeleteJournal(ctx context.Context, name string, still func() bool) error {
	if err := h.before("DeleteJournal", name); err != nil {
		return err
	}
	return h.Backend.DeleteJournal(ctx, name, still)
}

func (h *hooked) Journal(ctx context.Context, name string) (journal.Journal, error) {
	j, err := h.Backend.Journal(ctx, name)
	return &hookedJournal{j, h, name}, err
}

func (h *hooked) Blobs() blobs.Blobs { return &hookedBlobs{h.Backend.Blobs(), h} }

type hookedJournal struct {
	journal.Journal
	h    *hooked
	name string
}

func (j *hookedJournal) Append(ctx context.Context, expect journal.Position, batch []byte) (journal.Position, error) {
	if err := j.h.before("Append", j.name); err != nil {
		return 0, err
	}
	return j.Journal.Append(ctx, expect, batch)
}

type hookedBlobs struct {
	blobs.Blobs
	h *hooked
}

func (b *hookedBlobs) Put(ctx context.Context, key string, content []byte) error {
	if err := b.h.before("Put", key); err != nil {
		return err
	}
	return b.Blobs.Put(ctx, key, content)
}

func (b *hookedBlobs) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if err := b.h.before("Get", key); err != nil {
		return nil, err
	}
	return b.Blobs.Get(ctx, key, off, n)
}

func (b *hookedBlobs) Delete(ctx context.Context, key string) error {
	if err := b.h.before("Delete", key); err != nil {
		return err
	}
	return b.Blobs.Delete(ctx, key)
}

// backupOf is a backup of an engine, an increment of an earlier one unless that is nil.
func backupOf(t *testing.T, e *Engine, since []byte) []byte {
	t.Helper()
	var earlier io.Reader
	if since != nil {
		earlier = bytes.NewReader(since)
	}
	made, err := e.Storage().Backup(t.Context(), "ana", "", earlier)
	if err != nil {
		t.Fatal(err)
	}
	var to bytes.Buffer
	if err := made.Write(&to); err != nil {
		t.Fatal(err)
	}
	return to.Bytes()
}

// restoreInto restores a backup and its increments into a cluster.
func restoreInto(t *testing.T, b cluster.Backend, from ...[]byte) error {
	t.Helper()
	r := ClusterRestore{Backend: b, Work: filepath.Join(t.TempDir(), "work"), Now: time.Now,
		Silence: func(context.Context) error { return nil }}
	var readers []io.Reader
	for _, one := range from {
		readers = append(readers, bytes.NewReader(one))
	}
	_, err := r.Run(t.Context(), readers...)
	return err
}

// small inserts and finishes some, and returns the submission and a token that holds a chunk of it.
func small(t *testing.T, e *Engine, key string) (queue.SubmissionID, queue.Token) {
	t.Helper()
	q := queueAt(e, "default")
	made, _, err := q.Insert(t.Context(), queue.NewSubmission{Chunks: queue.Chunks{Inline: [][]byte{[]byte("a"), []byte("b"), []byte("c")}},
		IdempotencyKey: key})
	if err != nil {
		t.Fatal(err)
	}
	got, err := q.Reserve(t.Context(), ReserveRequest{Max: 2, Plan: mustPlan(t, q, `"NewestFirst"`).Plan}, nil)
	if err != nil || len(got.Reservations) != 2 || got.Reservations[0].Token.Submission != made.ID {
		t.Fatalf("Reserve = %+v, %v; want two of %s", got.Reservations, err, made.ID)
	}
	done := []queue.CompleteItem{{Token: got.Reservations[0].Token, Output: []byte("out of " + key)}}
	if results, err := q.Complete(t.Context(), done, nil); err != nil || results[0].Outcome != queue.OutcomeOK {
		t.Fatalf("Complete = %v, %v; want ok", results, err)
	}
	return made.ID, got.Reservations[1].Token
}

// hasSmall expects that a submission of small has one chunk done, its key, and two chunks that can be reserved.
func hasSmall(t *testing.T, e *Engine, id queue.SubmissionID, key string) {
	t.Helper()
	s, err := e.Submission(t.Context(), id)
	if err != nil || s.Done != 1 || s.Ready != 2 || s.Reserved != 0 {
		t.Errorf("submission of %s = %+v, %v; want one chunk done and two ready", key, s, err)
	}
	again, replayed, err := queueAt(e, "default").Insert(t.Context(), queue.NewSubmission{
		Chunks: queue.Chunks{Inline: [][]byte{[]byte("a"), []byte("b"), []byte("c")}}, IdempotencyKey: key})
	if err != nil || !replayed || again.ID != id {
		t.Errorf("the insert of %s again = %s, %t, %v; want %s once more", key, again.ID, replayed, err, id)
	}
}

// A data directory becomes a cluster by way of a backup, goes on there, and becomes a data directory again. Increments work over nodes.
//
//quern:sequential
func TestBackupMovesIntoAClusterAndBack(t *testing.T) {
	t.Parallel()
	alone := openAt(t, t.TempDir())
	if _, _, err := alone.PutQueue(t.Context(), "large", queue.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	firstLarge, chunks := large(t, alone)
	firstSmall, _ := small(t, alone, "first")
	full := backupOf(t, alone, nil)
	secondSmall, stale := small(t, alone, "second") // only in the increment

	b := newFolderBackend(t)
	if err := restoreInto(t, b, full, backupOf(t, alone, full)); err != nil {
		t.Fatal(err)
	}
	node := b.node(t, clustertest.NewTable())
	hasLarge(t, node.Engine, firstLarge, chunks)
	hasSmall(t, node.Engine, firstSmall, "first")
	hasSmall(t, node.Engine, secondSmall, "second")
	if results, err := queueAt(node.Engine, "default").Complete(t.Context(), []queue.CompleteItem{{Token: stale}}, nil); err != nil ||
		results[0].Outcome != queue.OutcomeUnknown {
		t.Errorf("a token of before = %v, %v; want it unknown, as after every restore", results, err)
	}
	inCluster := backupOf(t, node.Engine, nil)
	for range 3 { // so that there are snapshots, and blobs behind the last one
		if err := queueAt(node.Engine, "large").shard.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		_, _ = large(t, node.Engine)
	}
	thirdSmall, _ := small(t, node.Engine, "third")
	node.isolate()
	next := b.node(t, clustertest.NewTable())
	increment := backupOf(t, next.Engine, inCluster)

	dir := filepath.Join(t.TempDir(), "data")
	if _, err := Restore(t.Context(), dir, bytes.NewReader(inCluster), bytes.NewReader(increment)); err != nil {
		t.Fatal(err)
	}
	back := openAt(t, dir)
	for id, key := range map[queue.SubmissionID]string{firstSmall: "first", secondSmall: "second", thirdSmall: "third"} {
		hasSmall(t, back, id, key)
	}
	if s := queueAt(back, "large").Stats(); s.SubmissionsOpen != 4 {
		t.Errorf("%d large submissions came back, want 4", s.SubmissionsOpen)
	}
	hasAllLarge(t, back, chunks, 4)
}

// hasAllLarge reserves all chunks of so many large submissions and looks at their bytes.
func hasAllLarge(t *testing.T, e *Engine, chunks [][]byte, submissions int) {
	t.Helper()
	q, seen := queueAt(e, "large"), 0
	plan := mustPlan(t, q, `"OldestFirst"`).Plan
	for {
		got, err := q.Reserve(t.Context(), ReserveRequest{Max: 100, Plan: plan}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Reservations) == 0 {
			break
		}
		for _, r := range got.Reservations {
			if seen++; !bytes.Equal(r.Content.Bytes, chunks[r.Token.Index]) || len(r.Attachment) != queue.MaxAttachmentBytes {
				t.Errorf("chunk %d of %s has %d bytes and an attachment of %d", r.Token.Index, r.Token.Submission, len(r.Content.Bytes),
					len(r.Attachment))
			}
		}
	}
	if seen != submissions*len(chunks) {
		t.Errorf("%d chunks came back, want %d", seen, submissions*len(chunks))
	}
}

var errCutOff = errors.New("test: the restore is cut off")

// A restore that is cut off at any change leaves nothing, or a cluster in which no node starts and of which no backup is made. A second
// restore, of the same backup or another, succeeds.
//
//quern:sequential
func TestRestoreIntoAClusterCutOff(t *testing.T) {
	t.Parallel()
	alone := openAt(t, t.TempDir())
	if _, _, err := alone.PutQueue(t.Context(), "large", queue.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	other := backupOf(t, alone, nil)
	id, chunks := large(t, alone)
	backup := backupOf(t, alone, nil)
	refused, done := 0, false
	for most := 0; !done; most++ {
		b := newFolderBackend(t)
		left := most
		cutting := &hooked{b, func(call, _ string) error {
			if left--; left < 0 && call != "Get" {
				return errCutOff
			}
			return nil
		}}
		if most%2 == 1 { // the one that is cut off is itself the second one
			begun := 4
			err := restoreInto(t, &hooked{b, func(call, _ string) error {
				if begun--; begun < 0 {
					return errCutOff
				}
				return nil
			}}, other)
			if !errors.Is(err, errCutOff) {
				t.Fatalf("a restore of another backup = %v; want it cut off", err)
			}
		}
		err := restoreInto(t, cutting, backup)
		if done = err == nil && most%2 == 0; err != nil && !errors.Is(err, errCutOff) {
			t.Fatalf("a restore that is cut off after %d changes = %v", most, err)
		}
		if err != nil {
			ends, err := b.Journals(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.open(t, filepath.Join(t.TempDir(), "cache"), "a", clustertest.NewTable())
			if empty := ends[catalogueJournal] == 0; empty != (err == nil) {
				t.Errorf("after %d changes there are the journals %v, and a node starts with %v", most, ends, err)
			} else if !empty {
				if refused++; !errors.Is(err, store.ErrRestoring) || !strings.Contains(err.Error(), "quern restore") {
					t.Errorf("after %d changes a node starts with %v; want what to do", most, err)
				}
			}
			if empty(ends) {
				continue // a node has begun there with nothing
			}
			if err := restoreInto(t, b, backup); err != nil {
				t.Fatalf("the restore again after %d changes: %v", most, err)
			}
		}
		node := b.node(t, clustertest.NewTable())
		hasLarge(t, node.Engine, id, chunks)
		node.stop()
	}
	if refused < 8 {
		t.Errorf("%d restores that were cut off left something, want some", refused)
	}
}

func empty(ends map[string]journal.Position) bool { return ends[catalogueJournal] == 0 }

// A backup that cannot be restored into a cluster is refused before anything in it is changed, and the error says what to do.
func TestRestoreIntoAClusterRefuses(t *testing.T) {
	t.Parallel()
	alone := openAt(t, t.TempDir())
	backup := backupOf(t, alone, nil)
	damaged := bytes.Clone(backup)
	damaged[len(damaged)/2] ^= 1
	used := newFolderBackend(t)
	used.node(t, clustertest.NewTable()).stop()
	running, gone := newFolderBackend(t), newFolderBackend(t)
	running.nodes = []cluster.Node{{Name: "a", Counter: 7}}
	gone.nodes = running.nodes
	for name, c := range map[string]struct {
		b      *folderBackend
		backup []byte
		want   string
	}{
		"a cluster with queues":       {used, backup, "has queues already"},
		"a damaged backup":            {newFolderBackend(t), damaged, "checksum"},
		"a backup that is cut short":  {newFolderBackend(t), backup[:len(backup)/2], "EOF"},
		"no backup":                   {newFolderBackend(t), []byte("hello"), "backup"},
		"a node that runs":            {running, backup, "the node a"},
		"a node that ran and is gone": {gone, backup, ""},
	} {
		before, err := c.b.Journals(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r := ClusterRestore{Backend: c.b, Work: filepath.Join(t.TempDir(), "work"), Now: time.Now,
			Silence: func(context.Context) error {
				if c.b == running {
					c.b.nodes = []cluster.Node{{Name: "a", Counter: 8}}
				}
				return nil
			}}
		_, err = r.Run(t.Context(), bytes.NewReader(c.backup))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
		if after, err := c.b.Journals(t.Context()); err != nil || c.want != "" && fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%s: the journals are %v, %v; want %v as before", name, after, err, before)
		}
	}
}

// A node that is started while a restore begins, or in the middle of it, does not serve: one of the two is refused.
func TestRestoreIntoAClusterBesideANode(t *testing.T) {
	t.Parallel()
	alone := openAt(t, t.TempDir())
	small(t, alone, "k")
	backup := backupOf(t, alone, nil)
	for _, at := range []string{"MakeJournal catalogue", "Append catalogue", "MakeJournal shard", "Append shard"} {
		b := newFolderBackend(t)
		var node *testNode
		var started error
		tried := false
		err := restoreInto(t, &hooked{b, func(call, name string) error {
			if !tried && strings.HasPrefix(call+" "+name, at) {
				tried = true
				node, started = b.open(t, filepath.Join(t.TempDir(), "cache"), "a", clustertest.NewTable())
			}
			return nil
		}}, backup)
		if !tried || (err == nil) == (started == nil) {
			t.Errorf("a node before %s: the restore = %v, the node = %v; want one of them refused", at, err, started)
		}
		if node != nil && !strings.Contains(err.Error(), "Stop all nodes") {
			t.Errorf("a node before %s: the restore = %v; want what to do", at, err)
		}
	}
}

// A backup of a cluster takes another moment when the owner makes a snapshot meanwhile, and gives up if that happens again and again.
//
//quern:sequential
func TestBackupOfAClusterBesideSnapshots(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 1 << 20} {
		b := newFolderBackend(t)
		var node *testNode
		var copying atomic.Bool
		again, inserted := most, 1
		var err error
		node, err = openNode(t, &hooked{b, func(call, name string) error {
			if call == "Get" && strings.Contains(name, "snapshot/") && again > 0 && copying.CompareAndSwap(true, false) {
				again--
				inserted++
				_, _ = large(t, node.Engine)
				if err := queueAt(node.Engine, "large").shard.Checkpoint(); err != nil {
					return err
				}
				copying.Store(true)
			}
			return nil
		}}, filepath.Join(t.TempDir(), "cache"), "a", clustertest.NewTable(), func(o *Options) { o.SnapshotBytes = -1 })
		if err != nil {
			t.Fatal(err)
		}
		node.serves(t, func() bool { return len(node.all()) == 1 })
		if _, _, err := node.PutQueue(t.Context(), "large", queue.DefaultSettings()); err != nil {
			t.Fatal(err)
		}
		_, chunks := large(t, node.Engine)
		if err := queueAt(node.Engine, "large").shard.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		copying.Store(true)
		if most > cutsMost {
			if _, err := node.Storage().Backup(t.Context(), "ana", "large", nil); queue.CodeOf(err) != queue.CodeInvalid {
				t.Errorf("a backup of a single queue, which cannot be restored in a cluster: %v", err)
			}
			_, err := node.Storage().Backup(t.Context(), "ana", "", nil)
			if !errors.Is(err, errSnapshotMoved) || inserted != cutsMost+1 {
				t.Errorf("a backup beside a snapshot of each moment = %v after %d tries; want that it gives up after %d", err, inserted-1, cutsMost)
			}
			continue
		}
		backup := backupOf(t, node.Engine, nil)
		if inserted != 2 {
			t.Fatalf("%d snapshots were made beside the backup, want one", inserted-1)
		}
		dir := filepath.Join(t.TempDir(), "data")
		if _, err := Restore(t.Context(), dir, bytes.NewReader(backup)); err != nil {
			t.Fatal(err)
		}
		hasAllLarge(t, openAt(t, dir), chunks, inserted)
	}
}
