package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// Counts and settings decide how many groups fit, and whether another shard is prepared.
func TestRoomForGroups(t *testing.T) {
	t.Parallel()
	shards := func(groups ...int) (list []shardRoom) {
		for _, n := range groups {
			list = append(list, shardRoom{groups: n})
		}
		return list
	}
	aside := shards(3, 1)
	aside[1].closed = true
	for _, test := range []struct {
		what             string
		shards           []shardRoom
		per, spare, most int
		want             room
	}{
		{"without settings nothing is full", shards(1000, 1000), 0, 10, 16, room{}},
		{"no spare is asked for", shards(3, 3), 4, 0, 16, room{free: 2}},
		{"there is room enough", shards(3, 3), 4, 2, 16, room{free: 2}},
		{"there is too little room", shards(3, 4), 4, 2, 16, room{free: 1, prepare: true}},
		{"all are full", shards(4, 4), 4, 2, 16, room{overrun: true, prepare: true}},
		{"all are full, and no spare is asked for", shards(4, 4), 4, 0, 16, room{overrun: true}},
		{"a shard over its number takes no room from others", shards(9, 2), 4, 2, 16, room{free: 2}},
		{"the most shards are there", shards(4, 4), 4, 2, 2, room{overrun: true}},
		{"no number of shards is set", shards(4, 4), 4, 2, 0, room{overrun: true}},
		{"sixteen is the end", shards(make([]int, 16)...), 1, 100, 255, room{free: 16}},
		{"a shard in quarantine has no room", aside, 4, 2, 16, room{free: 1, prepare: true}},
		{"all that serve are full", []shardRoom{{groups: 4}, {closed: true}}, 4, 2, 2, room{overrun: true}},
	} {
		settings := with(func(s *queue.Settings) {
			s.GroupsPerShard, s.SpareGroups, s.MaxShards = int64(test.per), int64(test.spare), uint8(test.most)
		})
		if got := roomFor(test.shards, &settings); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.what, got, test.want)
		}
	}
}

// openRoom opens an engine with a queue of two shards that hold three groups each, and wants room for two more, in four shards.
func openRoom(t *testing.T, dir string) (*Engine, *Sharded) {
	t.Helper()
	e, w := openSharded(t, dir, 2)
	_, err := e.ChangeQueue(t.Context(), shardedName, func(s *queue.Settings) error {
		s.GroupsPerShard, s.SpareGroups, s.MaxShards = 3, 2, 4
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, w.(*Sharded)
}

// overrun is the metric of overruns.
func overrun(e *Engine) float64 { return overruns(queueAt(e, queue.ShardName(shardedName, 1))) }

// statesOf are the groups and the states of the shards, such as "3 full, 1 open".
func statesOf(t *testing.T, e *Engine) string {
	t.Helper()
	var list []string
	for number := 1; number <= e.ShardsOf(shardedName); number++ {
		info, err := e.Shard(t.Context(), queue.ShardName(shardedName, number))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprint(info.Groups, " ", info.State))
	}
	return strings.Join(list, ", ")
}

// Behaviours 115 and 116: shards fill, others are prepared before they are needed, one at a time and up to the number that is set.
// When all are full, no more are made, inserts go on, and the overrun can be seen.
func TestShardsArePreparedAhead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, w := openRoom(t, dir)
	groups := 0
	insert := func(n int) {
		for range n {
			put1(t, w, queue.NewSubmission{Group: fmt.Sprintf("g%02d", groups)})
			groups++
		}
	}
	for _, step := range []struct{ groups, shards int }{{0, 2}, {4, 2}, {1, 3}, {0, 3}, {2, 3}, {1, 4}, {0, 4}, {3, 4}} {
		insert(step.groups)
		e.prepareShards(t.Context())
		if got := e.ShardsOf(shardedName); got != step.shards {
			t.Fatalf("with %d groups there are %d shards, want %d: %s", groups, got, step.shards, statesOf(t, e))
		}
		if e.Overrun(shardedName) != "" {
			t.Errorf("%d groups overrun the queue: %s", groups, statesOf(t, e))
		}
	}
	insert(1) // the last place
	want := strings.TrimSuffix(strings.Repeat("3 full, ", 4), ", ")
	if got := statesOf(t, e); got != want || overrun(e) != 1 {
		t.Errorf("twelve groups are in %s, want %s; overrun is %v", got, want, overrun(e))
	}
	checks := e.overruns()
	if len(checks) != 1 || !checks[0].Aside || checks[0].OK || !strings.Contains(checks[0].Detail, "larger shards") {
		t.Errorf("the checks are %+v", checks)
	}
	insert(8)
	for range 5 {
		e.prepareShards(t.Context())
	}
	if got := statesOf(t, e); strings.Count(got, "full") != 4 || e.ShardsOf(shardedName) != 4 {
		t.Errorf("twenty groups are in %s", got)
	}
	if n := len(takenBy(t, w, "OldestFirst", 100)); n != groups {
		t.Errorf("%d of %d chunks were taken", n, groups)
	}
	if _, _, err := e.PutQueue(t.Context(), shardedName, with(func(s *queue.Settings) {
		s.Shards, s.GroupsPerShard, s.SpareGroups, s.MaxShards = 2, 9, 2, 4
	})); err != nil || e.ShardsOf(shardedName) != 4 || overrun(e) != 0 {
		t.Errorf("the settings that the queue began with, with room: %v, %s", err, statesOf(t, e))
	}
	closed(t, e)
	e, _ = reopened(t, dir)
	defer closed(t, e)
	if got := e.ShardsOf(shardedName); got != 4 {
		t.Errorf("after a restart there are %d shards", got)
	}
}

// A new group goes to a shard with room, however little the full ones have to do. Groups that have a shard stay there.
func TestFullShardGetsNoNewGroup(t *testing.T) {
	t.Parallel()
	e, w := openRoom(t, t.TempDir())
	defer closed(t, e)
	if err := w.place([]string{"a", "b", "c"}, 1); err != nil {
		t.Fatal(err)
	}
	for i := range 20 { // the second shard has much more to do
		put1(t, workAt(t, e), queue.NewSubmission{Group: "d"})
		if at := w.groups.of("d"); at != 2 {
			t.Fatalf("new group %d is in shard %d, which is full", i, at)
		}
	}
	for _, name := range []string{"e", "f"} {
		if put1(t, w, queue.NewSubmission{Group: name}); w.groups.of(name) != 2 {
			t.Errorf("the group %s is in shard %d, which is full", name, w.groups.of(name))
		}
	}
	if put1(t, w, queue.NewSubmission{Group: "over"}); w.groups.of("over") != 1 {
		t.Errorf("with both full, a new group goes to shard %d, which has more to do", w.groups.of("over"))
	}
	if put1(t, w, queue.NewSubmission{Group: "a"}); w.groups.of("a") != 1 {
		t.Error("a group left its shard because that is full")
	}
}

// Behaviour 117: a kill at any step of the preparation leaves no half shard. The next start serves, and uses the parts that were left.
func TestShardIsPreparedAgainAfterAKill(t *testing.T) {
	t.Parallel()
	full := func(t *testing.T, dir string) *Engine {
		t.Helper()
		e, w := openRoom(t, dir)
		for i := range 6 {
			put1(t, w, queue.NewSubmission{Group: fmt.Sprint("g", i)})
		}
		return e
	}
	third := queue.ShardName(shardedName, 3)
	for name, kill := range map[string]func(t *testing.T, e *Engine, dir string){
		"before the catalogue knows it": func(t *testing.T, e *Engine, dir string) {
			id, err := e.freeShard(false)
			if err != nil {
				t.Fatal(err)
			}
			if err := e.catalogue.Leave(id); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(dir, "shards", fmt.Sprintf("%04d", id)), 0o755); err != nil {
				t.Fatal(err)
			}
		},
		"before the setting": func(t *testing.T, e *Engine, _ string) {
			s := workAt(t, e).(*Sharded)
			settings := *queueAt(e, queue.ShardName(shardedName, 1)).config.Load()
			settings.Shards = 3
			e.changing.Lock()
			defer e.changing.Unlock()
			if err := s.make(t.Context(), 3, settings); err != nil {
				t.Fatal(err)
			}
			if next := e.Preparing(shardedName); next != 3 {
				t.Errorf("the shard that is being made is %d", next)
			}
		},
		"before the shard is in the catalogue, with the setting": func(t *testing.T, e *Engine, _ string) {
			e.prepareShards(t.Context())
			row := queueAt(e, third).row()
			if err := e.catalogue.DeleteQueue(row); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			e := full(t, dir)
			kill(t, e, dir)
			closed(t, e)
			e, again := reopened(t, dir)
			w := again.(*Sharded)
			defer closed(t, e)
			e.prepareShards(t.Context())
			if got := statesOf(t, e); got != "3 full, 3 full, 0 open" {
				t.Errorf("the shards are %s", got)
			}
			rows, err := e.catalogue.Queues()
			if err != nil {
				t.Fatal(err)
			}
			if n := len(slices.DeleteFunc(rows, func(row store.QueueRow) bool { return !strings.HasPrefix(row.Name, shardedName) })); n != 3 {
				t.Errorf("the catalogue has %d shards", n)
			}
			if put1(t, w, queue.NewSubmission{Group: "new"}); w.groups.of("new") != 3 {
				t.Error("a new group is not in the new shard")
			}
			if n := len(takenBy(t, w, "OldestFirst", 100)); n != 7 {
				t.Errorf("%d of 7 chunks were taken", n)
			}
		})
	}
}

// Shards are prepared while groups come from all sides: no insert fails, no shard is made twice.
func TestShardsArePreparedUnderInserts(t *testing.T) {
	t.Parallel()
	e, w := openRoom(t, t.TempDir())
	defer closed(t, e)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for ctx.Err() == nil {
				if err := prepareShard(t.Context(), w); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var inserts sync.WaitGroup
	for p := range 4 {
		inserts.Go(func() {
			for i := range 10 {
				put1(t, w, queue.NewSubmission{Group: fmt.Sprint("g", p, "-", i)})
			}
		})
	}
	inserts.Wait()
	stop()
	group.Wait()
	for range 3 { // there may have been no turn after the last insert
		e.prepareShards(t.Context())
	}
	states, settings := statesOf(t, e), queueAt(e, queue.ShardName(shardedName, 1)).config.Load()
	if n := e.ShardsOf(shardedName); n < 3 || n > 4 || int(settings.Shards) != n {
		t.Errorf("forty groups are in %d shards, and the setting is %d: %s", n, settings.Shards, states)
	}
	if overrun(e) == 1 && settings.Shards < 4 {
		t.Errorf("there is no room, and no shard was prepared: %s", states)
	}
	if n := len(takenBy(t, w, "Random", 100)); n != 40 {
		t.Errorf("%d of 40 chunks were taken", n)
	}
}

// In a cluster, the node of the first shard prepares others, and all nodes send new groups there.
func TestNodeOfTheFirstShardPreparesOthers(t *testing.T) {
	t.Parallel()
	_, nodes := newFellows(t, 2, "a", "b")
	a, b := nodes["a"], nodes["b"]
	_, err := a.ChangeQueue(t.Context(), shardedName, func(s *queue.Settings) error {
		s.GroupsPerShard, s.SpareGroups, s.MaxShards = 3, 2, 4
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	a.moved(t, 1, b)
	if err := workAt(t, a.Engine).(*Sharded).place([]string{"1", "2", "3", "4", "5"}, 0); err != nil {
		t.Fatal(err)
	}
	b.serves(t, func() bool { return workAt(t, b.Engine).(*Sharded).groups.number() == 5 })
	a.prepareShards(t.Context())
	if n := b.ShardsOf(shardedName); n != 2 {
		t.Fatalf("the other node prepared shard %d", n)
	}
	b.prepareShards(t.Context())
	a.serves(t, func() bool { return a.ShardsOf(shardedName) == 3 })
	for _, n := range []*testNode{a, b} {
		if over := n.Overrun(shardedName); over != "" {
			t.Errorf("a queue with room overruns: %s", over)
		}
	}
	last, err := a.nodes.Lookup().GroupHome(shardedName, "new", true)
	if last2, err2 := a.nodes.Lookup().GroupHome(shardedName, "new2", true); err != nil || err2 != nil ||
		last != queue.ShardName(shardedName, 3) && last2 != queue.ShardName(shardedName, 3) {
		t.Errorf("the groups that find one place in the first two shards are in %q and %q, %v, %v", last, last2, err, err2)
	}
	if err := workAt(t, a.Engine).(*Sharded).place([]string{"6", "7", "8"}, 3); err != nil {
		t.Fatal(err)
	}
	b.serves(t, func() bool { // there is no room, until the worker of the node has prepared the last shard
		return b.ShardsOf(shardedName) == 4 || b.Preparing(shardedName) == 0 && overrun(b.Engine) == 1
	})
}
