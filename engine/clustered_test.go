package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/cluster/clustertest"
	"github.com/quern-queue/quern/engine/cluster/member"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// testNode is a node that runs, with a table of leases that it may share.
type testNode struct {
	*Engine
	table *clustertest.Table
	late  atomic.Int64 // added to its clock
	stop  func()
}

// node opens an engine of a cluster with an empty cache, and waits until it serves all queues.
func (b *folderBackend) node(t *testing.T, table *clustertest.Table) *testNode {
	t.Helper()
	n, err := b.open(t, filepath.Join(t.TempDir(), "cache"), "a", table)
	if err != nil {
		t.Fatal(err)
	}
	n.serves(t, func() bool {
		queues := n.Queues()
		return len(queues) > 0 && len(queues) == len(n.all())
	})
	return n
}

// isolate leaves a node with its leases for long, and has it claim nothing again.
func (n *testNode) isolate() {
	n.late.Store(-int64(time.Hour))
	n.table.Cut(true)
}

// serves waits until something is true of the queues of a node.
func (n *testNode) serves(t *testing.T, what func() bool) {
	t.Helper()
	for !what() {
		select {
		case <-t.Context().Done():
			t.Fatal("the test ended while a node did not serve what it should")
		case <-time.After(time.Millisecond):
		}
	}
}

func (b *folderBackend) open(t *testing.T, dir, name string, table *clustertest.Table) (*testNode, error) {
	t.Helper()
	return openNode(t, b, dir, name, table)
}

func openNode(t *testing.T, b cluster.Backend, dir, name string, table *clustertest.Table, change ...func(*Options)) (*testNode, error) {
	t.Helper()
	n := &testNode{table: table}
	began := time.Now()
	place := member.New(member.Options{Leases: table, Name: name, URL: "http://" + name, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Duration { return time.Since(began) + time.Duration(n.late.Load()) }})
	if err := place.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := Options{Dir: dir, Now: time.Now, Seed: rand.Uint64, BallastBytes: -1, CheckpointBytes: 128 << 10,
		SnapshotBytes: 512 << 10, Cluster: &Cluster{Backend: b, Node: place}}
	for _, fn := range change {
		fn(&o)
	}
	e, err := Open(context.Background(), o)
	if err != nil {
		return nil, err
	}
	if f, speak := fellowsAt.Load(table); speak {
		e.Nodes().Speak(f.(*fellows))
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { place.Run(ctx) })
	running.Go(func() { _ = e.Run(ctx) })
	n.Engine, n.stop = e, sync.OnceFunc(func() {
		stop()
		running.Wait()
		if err := e.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	t.Cleanup(n.stop)
	return n, nil
}

func mustPlan(t *testing.T, q *Queue, text string) Asked {
	t.Helper()
	asked, err := q.Asked(t.Context(), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return asked
}

// A node that comes while the owner still runs has all that was acknowledged, on an empty disk. The old owner's writes are refused, and a
// reservation that it has given out is completed at the new one.
func TestNodeTakesOver(t *testing.T) {
	t.Parallel()
	b := newFolderBackend(t)
	old := b.node(t, clustertest.NewTable())
	if _, _, err := old.PutQueue(t.Context(), "large", queue.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	made, _, err := old.Tokens().New(t.Context(), TokenRequest{Name: "ops", Scopes: access.Admin})
	if err != nil {
		t.Fatal(err)
	}
	var id queue.SubmissionID
	var chunks [][]byte
	for range 3 { // so that snapshots are made, and something comes behind the last one
		id, chunks = large(t, old.Engine)
		if err := queueAt(old.Engine, "large").shard.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	small, _, err := queueAt(old.Engine, "default").Insert(t.Context(), queue.NewSubmission{Chunks: queue.Chunks{Count: 10, Prefix: "x/"}})
	if err != nil {
		t.Fatal(err)
	}
	request := ReserveRequest{Max: 4, Plan: mustPlan(t, queueAt(old.Engine, "default"), `"OldestFirst"`).Plan, Consumer: "w"}
	got, err := queueAt(old.Engine, "default").Reserve(t.Context(), request, nil)
	if err != nil || len(got.Reservations) != 4 {
		t.Fatalf("Reserve = %d, %v; want 4", len(got.Reservations), err)
	}
	complete := func(e *Engine, n int) queue.Result {
		t.Helper()
		results, err := queueAt(e, "default").Complete(t.Context(), []queue.CompleteItem{{Token: got.Reservations[n].Token}}, nil)
		if err != nil {
			t.Fatalf("Complete: %v", err)
		}
		return results[0]
	}
	complete(old.Engine, 0)

	old.isolate()
	now := b.node(t, clustertest.NewTable()) // it knows nothing of the old one's lease: only the journal keeps them apart
	for _, name := range []string{"default", "large"} {
		if _, _, err := queueAt(old.Engine, name).Insert(t.Context(), queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "x/"}}); queue.CodeOf(err) != queue.CodeMoved {
			t.Errorf("an insert at the old owner of %s: %v, want the code moved", name, err)
		}
	}
	if _, err := now.Tokens().Token(made.ID); err != nil {
		t.Errorf("the access token at the new owner: %v", err)
	}
	hasLarge(t, now.Engine, id, chunks)
	if s := queueAt(now.Engine, "default").Stats(); s.Ready != 9 || s.Reserved != 0 {
		t.Errorf("the new owner has %d ready chunks and %d reserved ones, want 9 and none", s.Ready, s.Reserved)
	}
	if r := complete(now.Engine, 1); r.Outcome != queue.OutcomeOK {
		t.Errorf("a reservation of the old owner: %+v at the new one, want it completed", r)
	}
	if s, err := now.Submission(t.Context(), small.ID); err != nil || s.Done != 2 {
		t.Errorf("Submission = %+v, %v; want 2 chunks done", s, err)
	}
}

// While another node may have the queues by the lease, the node gives no answer that an append does not fence.
func TestNodeWithoutALease(t *testing.T) {
	t.Parallel()
	b := newFolderBackend(t)
	e := b.node(t, clustertest.NewTable())
	q := queueAt(e.Engine, "default")
	if _, _, err := q.Insert(t.Context(), queue.NewSubmission{Chunks: queue.Chunks{Count: 10, Prefix: "x/"}}); err != nil {
		t.Fatal(err)
	}
	request := ReserveRequest{Max: 1, Plan: mustPlan(t, q, `"OldestFirst"`).Plan}
	got, err := q.Reserve(t.Context(), request, nil)
	if err != nil || len(got.Reservations) != 1 {
		t.Fatalf("Reserve = %d, %v; want 1", len(got.Reservations), err)
	}
	token := got.Reservations[0].Token
	calls := map[string]func() error{
		"reserve": func() error { _, err := q.Reserve(t.Context(), request, nil); return err },
		"extend": func() error {
			_, err := q.Extend(t.Context(), []queue.ExtendItem{{Token: token, Timeout: 3600_000}}, nil)
			return err
		},
		"release":  func() error { _, err := q.Release(t.Context(), []queue.ReleaseItem{{Token: token}}, nil); return err },
		"complete": func() error { _, err := q.Complete(t.Context(), []queue.CompleteItem{{Token: token}}, nil); return err },
		"insert": func() error {
			_, _, err := q.Insert(t.Context(), queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "x/"}})
			return err
		},
	}
	e.table.Cut(true)
	e.late.Store(int64(member.TTL))
	for name, call := range calls {
		if err := call(); queue.CodeOf(err) != queue.CodeMoving {
			t.Errorf("%s without a lease: %v, want the code moving", name, err)
		}
	}
	e.late.Store(0)
	if s := q.Stats(); s.Reserved != 1 || s.Ready != 9 {
		t.Errorf("%d are reserved and %d ready, want 1 and 9, as before", s.Reserved, s.Ready)
	}
	for _, name := range []string{"insert", "reserve", "extend", "complete"} {
		if err := calls[name](); err != nil {
			t.Errorf("%s with the lease again: %v", name, err)
		}
	}
}

// A cache is refused as a data directory, and a data directory as a cache. Both stay as they are.
func TestCacheAndDataAreNotMixed(t *testing.T) {
	t.Parallel()
	b := newFolderBackend(t)
	cache := filepath.Join(t.TempDir(), "cache")
	e, err := b.open(t, cache, "a", clustertest.NewTable())
	if err != nil {
		t.Fatal(err)
	}
	e.stop()
	options := Options{Dir: cache, Now: time.Now, Seed: rand.Uint64, BallastBytes: -1}
	if _, err := Open(t.Context(), options); err == nil || !strings.Contains(err.Error(), "--cluster") {
		t.Errorf("a server that is alone on a cache: %v, want that it is refused", err)
	}
	options.Dir = filepath.Join(t.TempDir(), "data")
	alone, err := Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	closed(t, alone)
	if _, err := b.open(t, options.Dir, "a", clustertest.NewTable()); err == nil || !strings.Contains(err.Error(), "alone") {
		t.Errorf("a node on a data directory: %v, want that it is refused", err)
	}
	again, err := b.open(t, cache, "a", clustertest.NewTable())
	if err != nil {
		t.Fatalf("a cache is not used again: %v", err)
	}
	again.stop()
}

// A queue that is deleted is gone from the cluster, and one of the same name begins from nothing, also at the next node.
func TestDeletedQueueOfACluster(t *testing.T) {
	t.Parallel()
	b := newFolderBackend(t)
	e := b.node(t, clustertest.NewTable())
	for round := range 2 {
		if _, _, err := e.PutQueue(t.Context(), "large", queue.DefaultSettings()); err != nil {
			t.Fatal(err)
		}
		if s := queueAt(e.Engine, "large").Stats(); s.SubmissionsOpen != 0 {
			t.Errorf("round %d: a new queue has %d submissions", round, s.SubmissionsOpen)
		}
		id, _ := large(t, e.Engine)
		if _, err := queueOf(e.Engine, id).Submissions.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if round == 1 {
			break
		}
		if err := e.DeleteQueue(t.Context(), "large", false); err != nil {
			t.Fatal(err)
		}
		if list, err := b.blobs.List(t.Context(), "", "", 10); err != nil || len(list) != 0 {
			t.Errorf("the blobs %v are left, %v", list, err)
		}
		e.stop()
		e = b.node(t, clustertest.NewTable())
		if len(e.Queues()) != 1 {
			t.Errorf("the next node has %d queues, want the default one", len(e.Queues()))
		}
	}
}

// A queue that has the number of a deleted one shares nothing with it. A node that still has the deleted one open can neither write into
// the new one nor make its journal again, and an old token is not good.
func TestNumberOfADeletedQueue(t *testing.T) {
	t.Parallel()
	b := newFolderBackend(t)
	old := b.node(t, clustertest.NewTable())
	if _, _, err := old.PutQueue(t.Context(), "large", queue.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	gone := queueAt(old.Engine, "large")
	reserveOne := func(q *Queue) queue.Token {
		t.Helper()
		got, err := q.Reserve(t.Context(), ReserveRequest{Max: 1, Plan: mustPlan(t, q, `"OldestFirst"`).Plan}, nil)
		if err != nil || len(got.Reservations) != 1 {
			t.Fatalf("Reserve = %d, %v; want 1", len(got.Reservations), err)
		}
		return got.Reservations[0].Token
	}
	first, _ := large(t, old.Engine)
	token := reserveOne(gone)

	old.isolate()
	now := b.node(t, clustertest.NewTable())
	if _, err := queueOf(now.Engine, first).Submissions.Cancel(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := now.DeleteQueue(t.Context(), "large", false); err != nil {
		t.Fatal(err)
	}
	late := func(when string) {
		t.Helper()
		_, err := gone.Complete(t.Context(), []queue.CompleteItem{{Token: token}}, nil)
		if code := queue.CodeOf(err); code != queue.CodeMoved && code != queue.CodeUnavailable { // the old node closes it at last
			t.Errorf("a completion at the old node %s: %v, want it refused", when, err)
		}
	}
	late("of the deleted queue")
	if _, err := b.Journal(t.Context(), shardJournal(&store.QueueRow{Shard: gone.id, Created: gone.created})); !errors.Is(err, cluster.ErrNoJournal) {
		t.Errorf("the journal of the deleted queue: %v, want ErrNoJournal", err)
	}
	if _, _, err := now.PutQueue(t.Context(), "large", queue.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	next := queueAt(now.Engine, "large")
	if next.id != gone.id {
		t.Fatalf("the next queue has the number %d, want that of the deleted one, %d", next.id, gone.id)
	}
	kept, err := old.home.copies(gone.row(), old.identity)
	if err != nil {
		t.Fatal(err)
	}
	for part := range 3 { // as of a node that stood still in the middle of an insert
		if err := kept.Blobs.Put(t.Context(), blobs.Key(gone.id, 1, 1, part), []byte("late")); err != nil {
			t.Fatal(err)
		}
	}
	id, chunks := large(t, now.Engine)
	reserveOne(next)
	late("when the number is used again")
	if results, err := next.Complete(t.Context(), []queue.CompleteItem{{Token: token}}, nil); err != nil || results[0].Outcome == queue.OutcomeOK {
		t.Errorf("a token of the deleted queue at the next one: %+v, %v; want it refused", results, err)
	}
	if err := next.shard.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	now.isolate()
	after := b.node(t, clustertest.NewTable())
	hasLarge(t, after.Engine, id, chunks)
	if s := queueAt(after.Engine, "large").Stats(); s.SubmissionsOpen != 1 {
		t.Errorf("the next node has %d submissions, want the one that was inserted", s.SubmissionsOpen)
	}
}

// Three nodes share the queues of one cluster: they spread them, a queue is moved with its reservations, and when a node ends, the others
// serve all that it had.
func TestNodesShareTheQueues(t *testing.T) {
	t.Parallel()
	b, table := newFolderBackend(t), clustertest.NewTable()
	nodes := map[string]*testNode{}
	for _, name := range []string{"a", "b", "c"} {
		n, err := b.open(t, filepath.Join(t.TempDir(), "cache"), name, table)
		if err != nil {
			t.Fatal(err)
		}
		nodes[name] = n
		if name == "a" {
			n.serves(t, func() bool { return len(n.all()) == 1 && n.nodes.Coordinator() == nil })
			for i := range 5 {
				if _, _, err := n.PutQueue(t.Context(), fmt.Sprintf("q%d", i), queue.DefaultSettings()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	a, second := nodes["a"], nodes["b"]
	second.serves(t, func() bool { return len(second.Queues()) == 6 })
	if _, err := second.Queue("q1"); queue.CodeOf(err) != queue.CodeMoving {
		t.Errorf("a queue of another node: %v, want the code moving", err)
	}
	second.serves(t, func() bool {
		at := second.nodes.Elsewhere("q1")
		return at != nil && at.Node == "a" && at.URL == "http://a"
	})

	q := queueAt(a.Engine, "q1")
	made, _, err := q.Insert(t.Context(), queue.NewSubmission{Chunks: queue.Chunks{Count: 10, Prefix: "x/"}})
	if err != nil {
		t.Fatal(err)
	}
	old := *second.nodes.known.Load() // as if the queue had been created just now
	old.byName, old.byShard = maps.Clone(old.byName), maps.Clone(old.byShard)
	delete(old.byName, "q1")
	delete(old.byShard, made.ID.Shard())
	for _, look := range []func(*Lookup) *Elsewhere{
		func(l *Lookup) *Elsewhere { return l.Queue("q1") },
		func(l *Lookup) *Elsewhere { return l.Submission(made.ID) },
	} {
		second.nodes.known.Store(&old)
		if at := look(second.nodes.Lookup()); at == nil || at.Node != "a" {
			t.Errorf("a queue that a node did not know yet is at %+v, want a", at)
		}
	}
	got, err := q.Reserve(t.Context(), ReserveRequest{Max: 4, Plan: mustPlan(t, q, `"OldestFirst"`).Plan, Consumer: "w"}, nil)
	if err != nil || len(got.Reservations) != 4 {
		t.Fatalf("Reserve = %d, %v; want 4", len(got.Reservations), err)
	}
	a.serves(t, func() bool { view := a.nodes.node.View(); return view.Live("b") })
	if err := a.nodes.Move(t.Context(), "q1", "b"); err != nil {
		t.Fatalf("Move = %v", err)
	}
	second.serves(t, func() bool { _, err := second.Queue("q1"); return err == nil })
	there := queueAt(second.Engine, "q1")
	if s := there.Stats(); s.Reserved != 4 || s.Ready != 6 {
		t.Errorf("after the move %d are reserved and %d ready, want 4 and 6", s.Reserved, s.Ready)
	}
	results, err := there.Complete(t.Context(), []queue.CompleteItem{{Token: got.Reservations[0].Token}}, nil)
	if err != nil || results[0].Outcome != queue.OutcomeOK {
		t.Errorf("Complete at the new node = %+v, %v", results, err)
	}
	if at := a.nodes.ElsewhereOf(made.ID); at == nil || at.Node != "b" {
		t.Errorf("the old node says that the submission is at %+v, want b", at)
	}

	for _, name := range []string{"a", "b"} { // both in order; the last one takes everything
		handing, stop := context.WithTimeout(t.Context(), time.Minute)
		nodes[name].nodes.HandOver(handing)
		stop()
		if n := len(nodes[name].all()); n > 0 {
			t.Errorf("node %s has %d queues after it has handed over", name, n)
		}
		nodes[name].stop()
	}
	last := nodes["c"]
	last.serves(t, func() bool { return len(last.all()) == 6 })
	if s := queueAt(last.Engine, "q1").Stats(); s.Reserved != 3 || s.Ready != 6 {
		t.Errorf("at the last node %d are reserved and %d ready, want 3 and 6", s.Reserved, s.Ready)
	}
}

// A queue comes back to a node that had it before, whose cache has an old store of it.
func TestQueueComesBack(t *testing.T) {
	t.Parallel()
	b, table := newFolderBackend(t), clustertest.NewTable()
	first := b.node(t, table)
	second, err := b.open(t, filepath.Join(t.TempDir(), "cache"), "b", table)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := first.PutQueue(t.Context(), "large", queue.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	at := map[string]*testNode{"a": first, "b": second}
	inserted := 0
	for _, step := range []struct{ from, to string }{{"a", "b"}, {"b", "a"}, {"a", "b"}} {
		var id queue.SubmissionID
		var chunks [][]byte
		for range 2 { // a snapshot, and something behind it
			id, chunks = large(t, at[step.from].Engine)
			inserted++
			if err := queueAt(at[step.from].Engine, "large").shard.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
		if err := at[step.from].nodes.Move(t.Context(), "large", step.to); err != nil {
			t.Fatalf("from %s to %s: %v", step.from, step.to, err)
		}
		at[step.to].serves(t, func() bool { _, err := at[step.to].Queue("large"); return err == nil })
		hasLarge(t, at[step.to].Engine, id, chunks)
		if n := queueAt(at[step.to].Engine, "large").Stats().SubmissionsOpen; int(n) != inserted {
			t.Errorf("at node %s are %d submissions, want %d", step.to, n, inserted)
		}
	}
}

// A move that loses to a faster node ends with the name of the node that serves the queue. The queue stays at that node.
func TestMoveThatAnotherNodeWins(t *testing.T) {
	t.Parallel()
	b, table := newFolderBackend(t), clustertest.NewTable()
	first := b.node(t, table)
	third, err := b.open(t, filepath.Join(t.TempDir(), "cache"), "c", table)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := first.PutQueue(t.Context(), "wanted", queue.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	idle := member.New(member.Options{Leases: table, Name: "b", URL: "http://b", Logger: slog.New(slog.DiscardHandler), // it takes nothing
		Now: func() time.Duration { return time.Since(began) }})
	if err := idle.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var beating sync.WaitGroup
	beating.Go(func() { idle.Run(ctx) })
	t.Cleanup(func() {
		stop()
		beating.Wait()
	})
	first.serves(t, func() bool {
		view := first.nodes.node.View()
		return view.Live("b") && view.Live("c")
	})
	moved := make(chan error, 1)
	go func() { moved <- first.nodes.Move(t.Context(), "wanted", "b") }()
	shard := queueAt(first.Engine, "wanted").id
	first.serves(t, func() bool {
		first.nodes.mu.Lock()
		defer first.nodes.mu.Unlock()
		return first.nodes.asked[shard] == "b"
	})
	if err := first.nodes.Move(t.Context(), "wanted", "c"); err != nil {
		t.Fatalf("Move to c = %v", err)
	}
	if err := <-moved; queue.CodeOf(err) != queue.CodeUnavailable || !strings.Contains(err.Error(), "lost the queue to node c before node b") {
		t.Errorf("Move to b = %v, want it to say that c was faster", err)
	}
	third.serves(t, func() bool { _, err := third.Queue("wanted"); return err == nil })
}

// unreadBlobs are blobs of which none can be read for some time.
type unreadBlobs struct {
	blobs.Blobs
	backend *unreadBackend
}

// unreadBackend has such blobs. Snapshots can be read all the same.
type unreadBackend struct {
	*folderBackend
	away  atomic.Bool
	asked chan struct{} // closed when one could not be read
	once  sync.Once
	after chan struct{} // not nil: until it is closed, the answer to such a read does not come
}

func (b *unreadBackend) Blobs() blobs.Blobs { return unreadBlobs{b.folderBackend.Blobs(), b} }

func (b unreadBlobs) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	_, name, _ := strings.Cut(key, "/")
	if _, _, _, content := blobs.ParseKey(name); content && b.backend.away.Load() {
		b.backend.once.Do(func() { close(b.backend.asked) })
		if b.backend.after != nil {
			<-b.backend.after
			return b.Blobs.Get(ctx, key, off, n)
		}
		return nil, errors.New("the database does not answer")
	}
	return b.Blobs.Get(ctx, key, off, n)
}

// A node that takes a queue over serves it only when its empty cache has got all contents. Until then calls are refused as for a queue that
// moves, and nothing is put in quarantine.
func TestNodeWaitsForContents(t *testing.T) {
	t.Parallel()
	b, table := newFolderBackend(t), clustertest.NewTable()
	none := func(o *Options) { o.SnapshotBytes = 1 << 40 } // a snapshot would have the contents, too
	old, err := openNode(t, b, filepath.Join(t.TempDir(), "cache"), "a", table, none)
	if err != nil {
		t.Fatal(err)
	}
	old.serves(t, func() bool { return len(old.all()) == 1 && old.nodes.Coordinator() == nil })
	if _, _, err := old.PutQueue(t.Context(), "large", queue.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	id, chunks := large(t, old.Engine)
	unread := &unreadBackend{folderBackend: b, asked: make(chan struct{})}
	unread.away.Store(true)
	old.isolate()
	next, err := openNode(t, unread, filepath.Join(t.TempDir(), "cache"), "b", clustertest.NewTable())
	if err != nil {
		t.Fatal(err)
	}
	<-unread.asked
	if _, err := next.Queue("large"); queue.CodeOf(err) != queue.CodeMoving ||
		!strings.Contains(err.Error(), "no node of the cluster serves the queue at this moment") {
		t.Errorf("while contents cannot be read: %v, want the code moving", err)
	}
	unread.away.Store(false)
	next.serves(t, func() bool { _, err := next.Queue("large"); return err == nil })
	hasLarge(t, next.Engine, id, chunks)
}

// A node may take long to prepare a queue that it is about to get. Meanwhile it sends callers to the owner at once.
func TestCallsGoOnWhileAQueueIsPrepared(t *testing.T) {
	t.Parallel()
	b, table := newFolderBackend(t), clustertest.NewTable()
	none := func(o *Options) { o.SnapshotBytes = 1 << 40 } // a snapshot would have the contents, too
	owner, err := openNode(t, b, filepath.Join(t.TempDir(), "cache"), "a", table, none)
	if err != nil {
		t.Fatal(err)
	}
	owner.serves(t, func() bool { return len(owner.all()) == 1 && owner.nodes.Coordinator() == nil })
	if _, _, err := owner.PutQueue(t.Context(), "large", queue.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	id, chunks := large(t, owner.Engine)
	slow := &unreadBackend{folderBackend: b, asked: make(chan struct{}), after: make(chan struct{})}
	slow.away.Store(true)
	read := sync.OnceFunc(func() { close(slow.after) })
	t.Cleanup(read)
	next, err := openNode(t, slow, filepath.Join(t.TempDir(), "cache"), "b", table)
	if err != nil {
		t.Fatal(err)
	}
	owner.serves(t, func() bool { view := owner.nodes.node.View(); return view.Live("b") })
	moved := make(chan error, 1)
	go func() { moved <- owner.nodes.Move(t.Context(), "large", "b") }()
	<-slow.asked
	if at := next.nodes.Elsewhere("large"); at == nil || at.Node != "a" || at.Arriving {
		t.Errorf("while the queue is prepared it is at %+v, want node a, and that it is not arriving", at)
	}
	read()
	if err := <-moved; err != nil {
		t.Fatalf("Move = %v", err)
	}
	next.serves(t, func() bool { _, err := next.Queue("large"); return err == nil })
	hasLarge(t, next.Engine, id, chunks)
}

// A node makes a new queue with the number of one that it had before, and that was deleted at another node. Its cache still has files of
// the deleted queue, also while it prepares to have that queue again.
func TestNumberOfAQueueThatANodeHad(t *testing.T) {
	t.Parallel()
	b, table := newFolderBackend(t), clustertest.NewTable()
	a := b.node(t, table)
	other, err := b.open(t, filepath.Join(t.TempDir(), "cache"), "b", table)
	if err != nil {
		t.Fatal(err)
	}
	a.serves(t, func() bool { view := a.nodes.node.View(); return view.Live("b") })
	for range 2 {
		if _, _, err := a.PutQueue(t.Context(), "large", queue.DefaultSettings()); err != nil {
			t.Fatal(err)
		}
		made := queueAt(a.Engine, "large")
		if s := made.Stats(); s.SubmissionsOpen != 0 || made.id != 1 {
			t.Fatalf("the new queue has the number %d and %d submissions, want 1 and none", made.id, s.SubmissionsOpen)
		}
		id, _ := large(t, a.Engine)
		if err := a.nodes.Move(t.Context(), "large", "b"); err != nil {
			t.Fatal(err)
		}
		other.serves(t, func() bool { _, err := other.Queue("large"); return err == nil })
		if err := a.nodes.prepare(t.Context(), &store.QueueRow{Name: "large", Shard: made.id, Created: made.created, Settings: *made.config.Load()}); err != nil {
			t.Fatal(err)
		}
		if _, err := queueOf(other.Engine, id).Submissions.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if err := other.DeleteQueue(t.Context(), "large", false); err != nil {
			t.Fatal(err)
		}
		a.serves(t, func() bool { return !a.nodes.Has("large") })
	}
}

// A node that catches up with another one knows its tokens at once. It does not wait until it hears of the change.
func TestCatchUpToAnotherNode(t *testing.T) {
	t.Parallel()
	b, table := newFolderBackend(t), clustertest.NewTable()
	a := b.node(t, table)
	other, err := b.open(t, filepath.Join(t.TempDir(), "cache"), "b", table)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		made, _, err := a.Tokens().New(t.Context(), TokenRequest{Name: fmt.Sprint("t", i), Scopes: access.All})
		if err != nil {
			t.Fatal(err)
		}
		CatchUpTo(other.nodes, CatalogueOf(a.nodes))
		if _, err := other.Tokens().Token(made.ID); err != nil {
			t.Errorf("token %d: %v", i, err)
		}
	}
}
