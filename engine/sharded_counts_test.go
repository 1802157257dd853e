package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// A node knows the last numbers of a shard that another node served, also when that node is dead and has never been asked.
func TestNumbersOfADeadNode(t *testing.T) {
	t.Parallel()
	_, nodes := newFellows(t, 2, "a", "b")
	a, b := nodes["a"], nodes["b"]
	a.moved(t, 2, b)
	w := workAt(t, a.Engine)
	for i, in := 0, 0; in < 3; i++ {
		if number, err := a.ShardOfGroup(shardedName, fmt.Sprint("g", i), 0); err != nil || number != 2 {
			continue
		}
		put1(t, queueAt(b.Engine, queue.ShardName(shardedName, 2)), queue.NewSubmission{Group: fmt.Sprint("g", i)})
		in++
	}
	takenBy(t, w, "OldestFirst", 1)
	q := queueAt(b.Engine, queue.ShardName(shardedName, 2))
	truth := func() (want api.Stats) {
		now := q.shard.Stats().Stats
		for i, to := range kept(&want) {
			*to = *kept(&now)[i]
		}
		return want
	}
	if now := truth(); now.Ready != 2 || now.Reserved != 1 || now.SubmissionsOpen != 3 {
		t.Fatalf("the shard has %+v", now)
	}
	want := truth()
	knows := func() bool {
		last, known := a.LastCounts(shardedName, 2)
		return known && last.Stats == want
	}
	a.serves(t, knows)
	a.nodes.mu.Lock()
	a.nodes.busy[q.id] = true // so that it takes over nothing
	a.nodes.mu.Unlock()
	b.stop()
	a.serves(t, func() bool {
		if !knows() {
			last, known := a.LastCounts(shardedName, 2)
			t.Fatalf("the last numbers are %+v, %v, want %+v", last, known, want)
		}
		view := a.nodes.node.View()
		return !view.Live("b")
	})
	if served, waiting := a.nodes.Placed(); served != 2 || !slices.Equal(waiting, []string{q.name}) {
		t.Errorf("it serves %d queues, and no node serves %q", served, waiting)
	}
	if last, _ := a.LastCounts(shardedName, 1); last.Stats.Empty != 1 {
		t.Errorf("an empty shard has %+v", last)
	}
	if _, known := a.LastCounts("none", 1); known {
		t.Error("a queue that is not there has numbers")
	}
}

// An id can be used again after its shard is deleted. The numbers of the earlier shard are not those of the later one.
func TestNumbersOfAnEarlierShard(t *testing.T) {
	t.Parallel()
	_, nodes := newFellows(t, 2, "a", "b")
	a, b := nodes["a"], nodes["b"]
	a.moved(t, 2, b)
	row := *a.nodes.known.Load().byName[queue.ShardName(shardedName, 2)]
	a.serves(t, func() bool { return a.nodes.countsOfPeers(&row).At > 0 })
	row.Created++
	if got := a.nodes.countsOfPeers(&row); got.At > 0 {
		t.Errorf("a shard that was made later has the numbers %+v", got)
	}
	a.stop() // so that it keeps no other numbers
	s := a.whole(shardedName)
	for known, created := range map[bool]queue.Time{true: s.created, false: s.created - 1} {
		s.kept.list[0] = LastCounts{Stats: api.Stats{Ready: 99}, At: queue.At(a.options.Now()) + 1_000_000, created: created}
		if last, _ := a.LastCounts(shardedName, 1); (last.Stats.Ready == 99) != known {
			t.Errorf("created at %d: %+v", created, last)
		}
	}
}

// A note carries the numbers of a bounded count of shards, because it also needs room for everything else that nodes tell each other.
func TestNumbersForPeersAreBounded(t *testing.T) {
	t.Parallel()
	e, _ := openSharded(t, t.TempDir(), 2)
	defer closed(t, e)
	e.keepCounts()
	if got := e.countsForPeers(peerCounts); len(got) != 2 {
		t.Errorf("numbers of %d shards, want 2", len(got))
	}
	if got := e.countsForPeers(1); len(got) != 1 {
		t.Errorf("numbers of %d shards, want 1", len(got))
	}
}
