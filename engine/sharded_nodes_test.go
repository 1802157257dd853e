package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
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

// All shards of a queue are on one node of a cluster. They move together, with reservations and limits, and they are taken over together.
func TestShardsMoveTogether(t *testing.T) {
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
		}
	}
	a := nodes["a"]
	settings := DefaultSettings(a.Engine)
	settings.Shards = 3
	if _, _, err := a.PutQueue(t.Context(), shardedName, settings); err != nil {
		t.Fatal(err)
	}
	w := workAt(t, a.Engine)
	const limited = `MaxSimultaneous("group", 1, OldestFirst)`
	for i := range 12 {
		put1(t, w, queue.NewSubmission{Group: fmt.Sprint("g", i%6), Chunks: queue.Chunks{Count: 2}})
	}
	held := takenBy(t, w, limited, 100)
	if len(held) != 6 {
		t.Fatalf("%d chunks of 6 groups were taken", len(held))
	}

	a.serves(t, func() bool { view := a.nodes.node.View(); return view.Live("b") && view.Live("c") })
	if err := a.nodes.Move(t.Context(), queue.ShardName(shardedName, 2), "b"); queue.CodeOf(err) != queue.CodeInvalid {
		t.Errorf("the move of one shard answers %v", err)
	}
	if err := a.nodes.Move(t.Context(), shardedName, "b"); err != nil {
		t.Fatalf("Move = %v", err)
	}
	at := nodes["b"]
	at.serves(t, func() bool { return shardsOf(at) == 3 })
	if n := shardsOf(a); n != 0 {
		t.Errorf("%d shards stayed behind", n)
	}
	if _, err := a.Work(shardedName); queue.CodeOf(err) != queue.CodeMoving {
		t.Errorf("the node that had the queue answers %v, want the code moving", err)
	}
	w = workAt(t, at.Engine)
	if got := takenBy(t, w, limited, 100); len(got) != 0 {
		t.Errorf("%d chunks beyond the limits were taken after the move", len(got))
	}
	results, err := w.Complete(t.Context(), []queue.CompleteItem{{Token: held[0].Token}, {Token: held[5].Token}}, nil)
	if err != nil || results[0].Outcome != queue.OutcomeOK || results[1].Outcome != queue.OutcomeOK {
		t.Fatalf("completions after the move: %+v, %v", results, err)
	}
	if got := takenBy(t, w, limited, 100); len(got) != 2 {
		t.Errorf("%d chunks were taken when two groups had room", len(got))
	}

	settings.Shards = 5 // b is not the node that creates queues
	if _, _, err := at.PutQueue(t.Context(), shardedName, settings); err != nil {
		t.Fatalf("more shards: %v", err)
	}
	at.serves(t, func() bool { return shardsOf(at) == 5 })
	placed := map[string]int{}
	for i := range 30 {
		s := put1(t, w, queue.NewSubmission{Group: fmt.Sprint("h", i)})
		placed[s.Group] = w.(*Sharded).groups.of(s.Group)
	}
	handing, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	at.nodes.HandOver(handing)
	at.stop()
	others := []*testNode{a, nodes["c"]}
	one := func() *testNode {
		i := slices.IndexFunc(others, func(n *testNode) bool { return shardsOf(n) == 5 })
		if i < 0 {
			return nil
		}
		return others[i]
	}
	a.serves(t, func() bool { return one() != nil })
	w = workAt(t, one().Engine)
	for name, number := range placed {
		if got := w.(*Sharded).groups.of(name); got != number {
			t.Errorf("group %s was in shard %d, and is in shard %d at another node", name, number, got)
		}
	}
	if stats, err := one().Stats(shardedName); err != nil || stats.Reserved != 6 || stats.Ready != 24-8+30 {
		t.Errorf("the numbers after all this are %+v, %v", stats, err)
	}
}

// A group that the old owner of a queue places at the last moment is where it placed it.
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

// A shard without the first one takes nothing in: it does not know which groups are elsewhere.
func TestShardWithoutTheFirst(t *testing.T) {
	t.Parallel()
	a, _ := twoShards(t)
	second := queueAt(a.Engine, queue.ShardName(shardedName, 2))
	back := a.away(t, queueAt(a.Engine, queue.ShardName(shardedName, 1)))
	_, _, err := second.Insert(t.Context(), queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "x"}, Group: "g"})
	if queue.CodeOf(err) != queue.CodeMoving {
		t.Errorf("an insert into a shard whose first one is elsewhere answers %v, want the code moving", err)
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

// While a shard is away, calls for it are refused as those of a queue that moves, and none is answered by another shard. It comes back with
// the settings of the first one. One that the catalogue does not have any more is made again, empty.
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
	first := a.nodes.known.Load().byName[shardedName]
	a.mu.RLock()
	whole := a.sharded[shardedName]
	a.mu.RUnlock()
	if a.nodes.gathering(first) {
		t.Error("calls wait for a shard although the queue came long ago")
	}
	whole.arrived = a.nodes.node.Now()
	if !a.nodes.gathering(first) {
		t.Error("calls do not wait for a shard although the queue came just now")
	}
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
