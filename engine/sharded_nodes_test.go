package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/cluster/clustertest"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// shardsOf are how many shards of the queue "orders" serve at a node.
func shardsOf(n *testNode) (count int) {
	for _, q := range n.all() {
		if whole, _ := queue.CutShard(q.name); whole == shardedName || q.name == shardedName {
			count++
		}
	}
	return count
}

// fellowsAt are the fellows of the nodes that share a table of leases.
var fellowsAt sync.Map

// fellows carry questions between the nodes of a test, as package web does between processes.
type fellows struct {
	mu    sync.Mutex
	nodes map[string]*testNode
	heard int // waits that ended with a sign

	errands int                   // that nodes did for others
	before  func(question string) // before a node answers
}

func (f *fellows) Letterbox(string, string) Letterbox { return nil }

func (f *fellows) Carry(ctx context.Context, url, name, question string, body []byte) ([]byte, error) {
	f.mu.Lock()
	n := f.nodes[url]
	f.mu.Unlock()
	if n == nil {
		return nil, &queue.Error{Code: queue.CodeMoving, Message: "no node is there"}
	}
	if f.before != nil {
		f.before(question)
	}
	text, err := n.nodes.Answer(ctx, name, question, body)
	f.mu.Lock()
	defer f.mu.Unlock()
	if question == askListen && err == nil && !bytes.Contains(text, []byte(`"Over":true`)) {
		f.heard++
	}
	if question == askErrand {
		f.errands++
	}
	return text, err
}

// lose makes a node answer no more questions.
func (f *fellows) lose(url string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.nodes, url)
}

// newFellows are nodes that can ask each other. The first one has a queue of several shards.
func newFellows(t *testing.T, shards uint8, names ...string) (*fellows, map[string]*testNode) {
	t.Helper()
	b, table := newFolderBackend(t), clustertest.NewTable()
	f, nodes := &fellows{nodes: map[string]*testNode{}}, map[string]*testNode{}
	fellowsAt.Store(table, f)
	for i, name := range names {
		n, err := openNode(t, b, filepath.Join(t.TempDir(), "cache"), name, table)
		if err != nil {
			t.Fatal(err)
		}
		f.mu.Lock()
		nodes[name], f.nodes["http://"+name] = n, n
		f.mu.Unlock()
		if i > 0 {
			continue
		}
		n.serves(t, func() bool { return len(n.all()) == 1 && n.nodes.Coordinator() == nil })
		settings := DefaultSettings(n.Engine)
		settings.Shards = shards
		if _, _, err := n.PutQueue(t.Context(), shardedName, settings); err != nil {
			t.Fatal(err)
		}
	}
	first := nodes[names[0]]
	first.serves(t, func() bool {
		view := first.nodes.node.View()
		return !slices.ContainsFunc(names, func(name string) bool { return !view.Live(name) })
	})
	return f, nodes
}

// moved moves a shard to another node.
func (n *testNode) moved(t *testing.T, number int, to *testNode) {
	t.Helper()
	if err := n.nodes.Move(t.Context(), queue.ShardName(shardedName, number), to.nodes.Self()); err != nil {
		t.Fatalf("the move of shard %d: %v", number, err)
	}
	to.serves(t, func() bool { _, err := workAt(t, to.Engine).(*Sharded).shard(number); return err == nil })
}

// Shards of one queue are on different nodes, and a reserve at any node takes from all of them, in the order of one queue, within
// limits. They move one by one, with what consumers hold.
func TestShardsOnSeveralNodes(t *testing.T) {
	t.Parallel()
	_, nodes := newFellows(t, 4, "a", "b", "c")
	a, b, c := nodes["a"], nodes["b"], nodes["c"]
	a.moved(t, 2, b)
	a.moved(t, 3, b)
	a.moved(t, 4, c)
	if na, nb, nc := shardsOf(a), shardsOf(b), shardsOf(c); na != 1 || nb != 2 || nc != 1 {
		t.Fatalf("the nodes serve %d, %d and %d shards", na, nb, nc)
	}
	var ids []queue.SubmissionID
	used := map[int]bool{}
	for i := range 24 {
		group := fmt.Sprint("g", i%12)
		for _, n := range nodes { // whichever has the shard of the group; a new one is placed by the first that is asked
			w := workAt(t, n.Engine).(*Sharded)
			list := []queue.Insertion{{New: &queue.NewSubmission{Group: group, OperationsPerChunk: 1, Chunks: queue.Chunks{Count: 2, Prefix: "x"}}}}
			homes, err := w.Homes(list, false)
			if err != nil {
				t.Fatal(err)
			}
			_, number := queue.CutShard(homes[0])
			if _, err := w.shard(number); err != nil {
				continue
			}
			if err := errors.Join(w.InsertMany(t.Context(), list, false), list[0].Err); err != nil {
				t.Fatal(err)
			}
			ids, used[number] = append(ids, list[0].Submission.ID), true
			break
		}
	}
	if len(ids) != 24 || len(used) < 3 {
		t.Fatalf("%d submissions are in %d shards", len(ids), len(used))
	}
	slices.Sort(ids)
	var held []queue.Reservation
	for i, n := range []*testNode{c, a, b, a} { // in turns, four chunks at a time
		got := takenBy(t, workAt(t, n.Engine), "OldestFirst", 4)
		for k := range got {
			if want := ids[2*i+k/2]; got[k].Token.Submission != want {
				t.Errorf("chunk %d of node %d is of %s, want %s", k, i, got[k].Token.Submission, want)
			}
		}
		held = append(held, got...)
	}
	if len(held) != 16 {
		t.Fatalf("%d of 16 chunks were taken", len(held))
	}
	const limited = `MaxSimultaneous("group", 2, Random)`
	for range 3 {
		for _, n := range nodes {
			held = append(held, takenBy(t, workAt(t, n.Engine), limited, 100)...)
		}
	}
	flight := map[string]int{}
	for i := range held {
		flight[held[i].Meta.GroupOf()]++
	}
	for group, n := range flight {
		if n > 2 {
			t.Errorf("%d chunks of group %s are in flight, at most 2 are allowed", n, group)
		}
	}
	if len(held) != 24 { // 12 groups, each with its two
		t.Errorf("%d chunks are held, want 2 of each of 12 groups", len(held))
	}
	b.moved(t, 3, a)
	if got := takenBy(t, workAt(t, c.Engine), limited, 100); len(got) != 0 {
		t.Errorf("%d chunks beyond the limits were taken after a move", len(got))
	}
	if rest := takenBy(t, workAt(t, b.Engine), "NewestFirst", 100); len(rest) != 24 {
		t.Errorf("%d of the last 24 chunks were taken", len(rest))
	}
}

// Over several nodes, the refusal of a strategy says how to ask instead, and the server accepts that.
func TestAdviceOverSeveralNodes(t *testing.T) {
	t.Parallel()
	_, nodes := newFellows(t, 2, "a", "b")
	a := nodes["a"]
	a.moved(t, 2, nodes["b"])
	for _, c := range []struct{ refused, advice, instead string }{
		{`Fair("group", Random)`, `Otherwise select one group, as in SelectOnly("group", `, `SelectOnly("group", "acme", Fair("group", Random))`},
		{`Fair("user", Random)`, `Otherwise select one group, as in SelectOnly("group", `, `SelectOnly("group", "acme", Fair("user", Random))`},
		{`SelectOnly("group", "acme", Fair("user", MaxSimultaneous("user", 2, Random)))`, `Otherwise use the key "group"`,
			`SelectOnly("group", "acme", Fair("user", MaxSimultaneous("group", 2, Random)))`},
		{`MaxSimultaneous("user", 2, Random)`, `Otherwise use the key "group"`, `MaxSimultaneous("group", 2, Random)`},
		{`PreferDistinct("user", 2, Random)`, `Otherwise use the key "group"`, `PreferDistinct("group", 2, Random)`},
		{`MaxRate("user", 2, "1s", missing=one, Random)`, `Instead, use the key "group"`, `MaxRate("group", 2, "1s", missing=one, Random)`},
	} {
		_, err := reserveBy(t, workAt(t, a.Engine), c.refused, 1, 0)
		if err == nil || !strings.Contains(fmt.Sprintf("%+v", err), c.advice) {
			t.Errorf("%s: got %v, want the advice %q", c.refused, err, c.advice)
		}
		if _, err := reserveBy(t, workAt(t, a.Engine), c.instead, 1, 0); err != nil {
			t.Errorf("%s: %v", c.instead, err)
		}
	}
}

// A call that waits at one node gets a chunk that comes in a shard of another. A call that names a group gets its chunks wherever its shard
// is, also if the group is new.
func TestWaitInShardsOfOtherNodes(t *testing.T) {
	t.Parallel()
	f, nodes := newFellows(t, 2, "a", "b")
	a, b := nodes["a"], nodes["b"]
	a.moved(t, 2, b)
	for _, strategy := range []string{"OldestFirst", "Random", `SelectOnly("group", "new", Fair("kind", Random))`,
		`SelectAny("group", ["new", "never"], NewestFirst)`} {
		for _, n := range []*testNode{a, b} {
			got := make(chan int)
			go func() {
				result, err := reserveBy(t, workAt(t, n.Engine), strategy, 1, time.Minute)
				if err != nil {
					t.Errorf("%s: %v", strategy, err)
				}
				got <- len(result.Reservations)
			}()
			second := queueAt(b.Engine, queue.ShardName(shardedName, 2))
			put1(t, second, queue.NewSubmission{Group: "new", Meta: queue.Meta{{Key: "group", Value: queue.StringValue("new")}}, Chunks: queue.Chunks{Count: 1}})
			if n := <-got; n != 1 {
				t.Errorf("%s: %d chunks came", strategy, n)
			}
		}
	}
	if f.heard == 0 {
		t.Error("no wait at another node ended with a sign of work")
	}
}

// A setting of the queue holds in the shards of all nodes when the call returns. A node that does not take it over at once does so later.
// More shards are made by the node of the first one, and all are deleted, wherever they are.
func TestSettingsOfShardsOnSeveralNodes(t *testing.T) {
	t.Parallel()
	f, nodes := newFellows(t, 2, "a", "b")
	a, b := nodes["a"], nodes["b"]
	a.moved(t, 2, b)
	settings := *queueAt(a.Engine, queue.ShardName(shardedName, 1)).config.Load()
	settings.MaxAttempts, settings.Shards = 7, 3
	if _, _, err := a.PutQueue(t.Context(), shardedName, settings); err != nil {
		t.Fatal(err)
	}
	if now := *queueAt(b.Engine, queue.ShardName(shardedName, 2)).config.Load(); now != settings {
		t.Errorf("the settings of the other node's shard are %+v", now)
	}
	a.moved(t, 3, b)
	f.lose("http://b")
	settings.MaxAttempts = 8
	if _, _, err := a.PutQueue(t.Context(), shardedName, settings); err != nil {
		t.Fatal(err)
	}
	b.serves(t, func() bool {
		return *queueAt(b.Engine, queue.ShardName(shardedName, 2)).config.Load() == settings
	})
	if err := a.DeleteQueue(t.Context(), shardedName, false); queue.CodeOf(err) != queue.CodeMoving {
		t.Errorf("a deletion while a node does not answer: %v, want the code moving", err)
	}
	f.mu.Lock()
	f.nodes["http://b"] = b
	f.mu.Unlock()
	s := put1(t, queueAt(b.Engine, queue.ShardName(shardedName, 3)), queue.NewSubmission{Group: "g"})
	if err := a.DeleteQueue(t.Context(), shardedName, false); queue.CodeOf(err) != queue.CodeConflict {
		t.Errorf("a deletion while a submission is open: %v, want the code conflict", err)
	}
	if _, err := queueAt(b.Engine, queue.ShardName(shardedName, 3)).Submissions.Cancel(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if err := a.DeleteQueue(t.Context(), shardedName, false); err != nil {
		t.Fatalf("the deletion: %v", err)
	}
	for _, n := range nodes {
		n.serves(t, func() bool { _, err := n.Work(shardedName); return queue.CodeOf(err) == queue.CodeUnknownQueue })
		if left := shardsOf(n); left != 0 {
			t.Errorf("%d shards are left at node %s", left, n.nodes.Self())
		}
	}
}

// Nodes that place the same new groups at the same moment agree where these are.
func TestNodesPlaceTheSameGroups(t *testing.T) {
	t.Parallel()
	_, nodes := newFellows(t, 4, "a", "b")
	var placing sync.WaitGroup
	for _, n := range nodes {
		for range 2 {
			placing.Go(func() {
				for i := range 40 {
					names := []string{fmt.Sprint("g", i), fmt.Sprint("g", i+1)}
					if err := workAt(t, n.Engine).(*Sharded).place(names, 0); err != nil {
						t.Errorf("%v: %v", names, err)
					}
				}
			})
		}
	}
	placing.Wait()
	for i := range 41 {
		name := fmt.Sprint("g", i)
		at := workAt(t, nodes["a"].Engine).(*Sharded).groups.of(name)
		if other := workAt(t, nodes["b"].Engine).(*Sharded).groups.of(name); at == 0 || other != at {
			t.Errorf("group %s is in shard %d at one node, and in shard %d at the other", name, at, other)
		}
	}
}

// A group that the old owner of a queue places at the last moment stays where it was placed.
func TestGroupThatAnotherNodePlaced(t *testing.T) {
	t.Parallel()
	b, table := newFolderBackend(t), clustertest.NewTable()
	a := b.node(t, table)
	settings := DefaultSettings(a.Engine)
	settings.Shards = 4
	if _, _, err := a.PutQueue(t.Context(), shardedName, settings); err != nil {
		t.Fatal(err)
	}
	old, err := b.open(t, filepath.Join(t.TempDir(), "cache"), "b", table)
	if err != nil {
		t.Fatal(err)
	}
	w := workAt(t, a.Engine)
	put1(t, w, queue.NewSubmission{Group: "early"})
	for number := 1; number <= 4; number++ {
		late := fmt.Sprint("late", number)
		row := store.GroupRow{Name: late, Shard: number, Created: queue.At(time.Now())}
		if err := store.PutGroups(old.catalogue, shardedName, []store.GroupRow{row}); err != nil {
			t.Fatal(err)
		}
		s := put1(t, w, queue.NewSubmission{Group: late})
		if q := a.shardOf(s.ID.Shard()); w.(*Sharded).number(q) != number {
			t.Errorf("group %s went to %s, and another node had placed it in shard %d", late, q.name, number)
		}
	}
}

// twoShards is a node of a cluster with a queue of two shards.
func twoShards(t *testing.T) (*testNode, queue.Settings) {
	t.Helper()
	a := newFolderBackend(t).node(t, clustertest.NewTable())
	settings := DefaultSettings(a.Engine)
	settings.Shards = 2
	if _, _, err := a.PutQueue(t.Context(), shardedName, settings); err != nil {
		t.Fatal(err)
	}
	return a, settings
}

// away closes a shard, which the node does not open again before back is called.
func (n *testNode) away(t *testing.T, shard *Queue) (back func()) {
	t.Helper()
	n.serves(t, func() bool { release, err := n.nodes.keep(shard.row()); back = release; return err == nil })
	if err := n.nodes.drop(shard); err != nil {
		t.Fatal(err)
	}
	return back
}

// A shard takes in what belongs to it, wherever the first one is.
func TestShardWithoutTheFirst(t *testing.T) {
	t.Parallel()
	a, _ := twoShards(t)
	second := queueAt(a.Engine, queue.ShardName(shardedName, 2))
	back := a.away(t, queueAt(a.Engine, queue.ShardName(shardedName, 1)))
	put1(t, second, queue.NewSubmission{Group: "g"})
	_, _, err := second.Insert(t.Context(), queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "x"}})
	if queue.CodeOf(err) != queue.CodeInvalid {
		t.Errorf("an insert without a group, which is for the first shard, answers %v", err)
	}
	back()
	a.serves(t, func() bool { return shardsOf(a) == 2 })
	put1(t, workAt(t, a.Engine), queue.NewSubmission{Group: "g"})
}

// A queue of several shards moves into a cluster and back, with the groups where they were.
func TestShardsAreRestoredIntoACluster(t *testing.T) {
	t.Parallel()
	alone, w := openSharded(t, t.TempDir(), 3)
	defer closed(t, alone)
	placed := map[string]queue.ShardID{}
	for i := range 20 {
		s := put1(t, w, queue.NewSubmission{Group: fmt.Sprint("g", i)})
		placed[s.Group] = s.ID.Shard()
	}
	b := newFolderBackend(t)
	if err := restoreInto(t, b, backupOf(t, alone, nil)); err != nil {
		t.Fatal(err)
	}
	n, err := b.open(t, filepath.Join(t.TempDir(), "cache"), "a", clustertest.NewTable())
	if err != nil {
		t.Fatal(err)
	}
	n.serves(t, func() bool { return shardsOf(n) == 3 })
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := Restore(t.Context(), dir, bytes.NewReader(backupOf(t, n.Engine, nil))); err != nil {
		t.Fatal(err)
	}
	back, _ := openSharded(t, dir, 3)
	defer closed(t, back)
	for name, e := range map[string]*Engine{"in the cluster": n.Engine, "back": back} {
		for group, shard := range placed {
			s := put1(t, workAt(t, e), queue.NewSubmission{Group: group})
			if s.ID.Shard() != shard {
				t.Errorf("%s, group %s is in shard %d and was in shard %d", name, group, s.ID.Shard(), shard)
			}
		}
		if got := takenBy(t, workAt(t, e), "OldestFirst", 100); len(got) != 40 {
			t.Errorf("%s, %d of 40 chunks were taken", name, len(got))
		}
	}
}

// While a shard is away, calls for it are refused like those for a queue that moves, and no other shard answers them. It comes back with
// the settings of the first one. A shard that the catalogue has lost is made again, empty.
func TestShardsOfAClusterComeBack(t *testing.T) {
	t.Parallel()
	a, settings := twoShards(t)
	w, name := workAt(t, a.Engine), queue.ShardName(shardedName, 2)
	group := ""
	for i := 0; group == ""; i++ {
		if s := put1(t, w, queue.NewSubmission{Group: fmt.Sprint("g", i)}); s.ID.Shard() == queueAt(a.Engine, name).id {
			group = s.Group
		}
	}
	held := takenBy(t, w, fmt.Sprintf(`SelectOnly("group", %q, Random)`, group), 1)
	back := a.away(t, queueAt(a.Engine, name))
	if results, err := w.Complete(t.Context(), []queue.CompleteItem{{Token: held[0].Token}}, nil); queue.CodeOf(err) != queue.CodeMoving {
		t.Errorf("a completion of a shard that is away answers %v, %v", results, err)
	}
	list := []queue.Insertion{{New: &queue.NewSubmission{Group: group, OperationsPerChunk: 1, Chunks: queue.Chunks{Count: 1, Prefix: "x"}}}}
	if err := w.InsertMany(t.Context(), list, false); err != nil || queue.CodeOf(list[0].Err) != queue.CodeMoving {
		t.Errorf("an insert into a shard that is away answers %v, %v", err, list[0].Err)
	}
	settings.MaxAttempts++
	if _, _, err := a.PutQueue(t.Context(), shardedName, settings); err != nil {
		t.Fatal(err)
	}
	back()
	serves := func() *Queue {
		a.mu.RLock()
		defer a.mu.RUnlock()
		return a.queues[name]
	}
	a.serves(t, func() bool { q := serves(); return q != nil && *q.config.Load() == settings })
	results, err := w.Complete(t.Context(), []queue.CompleteItem{{Token: held[0].Token}}, nil)
	if err != nil || results[0].Outcome != queue.OutcomeOK {
		t.Errorf("the completion answers %+v, %v when the shard is back", results, err)
	}

	gone := queueAt(a.Engine, name)
	back = a.away(t, gone)
	if err := errors.Join(a.catalogue.DeleteQueue(gone.row()), a.nodes.refresh()); err != nil { // as a kill between a deletion and what follows it
		t.Fatal(err)
	}
	back()
	a.serves(t, func() bool { return serves() != nil })
	put1(t, workAt(t, a.Engine), queue.NewSubmission{Group: group})
}
