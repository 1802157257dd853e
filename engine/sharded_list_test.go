package engine

import (
	"fmt"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// A submission has the shard of its group, from the moment its queue has several shards, and after a restart.
func TestShardOfSubmission(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, w := openSharded(t, dir, 1)
	before := put1(t, w, queue.NewSubmission{Group: "before"})
	if n := e.ShardOf(before.ID); n != 0 {
		t.Errorf("a queue of one shard: shard %d", n)
	}
	settings := queue.DefaultSettings()
	settings.Shards = 4
	if _, _, err := e.PutQueue(t.Context(), shardedName, settings); err != nil {
		t.Fatal(err)
	}
	w = workAt(t, e)
	made := map[string]queue.SubmissionID{"before": before.ID}
	for i := range 40 {
		name := fmt.Sprint("g", i)
		made[name] = put1(t, w, queue.NewSubmission{Group: name}).ID
	}
	check := func() {
		t.Helper()
		for name, id := range made {
			info, err := e.Group(shardedName, name)
			if err != nil {
				t.Fatal(err)
			}
			if n := e.ShardOf(id); n == 0 || n != info.Shard {
				t.Errorf("%s: shard %d, and the group is in shard %d", name, n, info.Shard)
			}
		}
		if n := e.ShardOf(before.ID); n != 1 {
			t.Errorf("what was there before: shard %d", n)
		}
	}
	check()
	closed(t, e)
	e, _ = openSharded(t, dir, 4)
	defer closed(t, e)
	check()
}
