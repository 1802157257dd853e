package client_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// A worker uses a queue of four shards as it uses any other: it is attached, waits for work, and finishes every chunk once. By the
// group, no two chunks are worked on at the same time. The lists of groups and of shards know where everything is.
func TestWorkOverShards(t *testing.T) {
	t.Parallel()
	c, ctx := connect(t, serve(t)), t.Context()
	const groups, each = 20, 3
	if _, err := c.PutQueue(ctx, "orders", api.QueueSettingsInput{Shards: new(uint8(4))}); err != nil {
		t.Fatal(err)
	}
	var (
		mu      sync.Mutex
		working = map[string]int{}
		done    = map[string]int{}
		left    = groups * each
	)
	worked, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { // it waits for its first work
		ended <- c.Work(worked, client.WorkOptions{Queue: "orders", Consumer: "w1", Concurrency: 8, Strategy: `MaxSimultaneous("group", 1, OldestFirst)`},
			func(_ context.Context, chunk *client.Chunk) ([]byte, error) {
				group := chunk.Meta["group"].Text()
				mu.Lock()
				defer mu.Unlock()
				if working[group]++; working[group] > 1 {
					t.Errorf("two chunks of the group %s are worked on", group)
				}
				mu.Unlock()
				mu.Lock()
				working[group]--
				done[fmt.Sprint(chunk.Submission, "/", chunk.Index)]++
				if left--; left == 0 {
					stop()
				}
				return nil, nil
			})
	}()
	for n := range groups {
		if _, err := c.Insert(ctx, "orders", &api.NewSubmission{Group: fmt.Sprintf("g%02d", n), Chunks: api.Chunks{Count: each, Template: "{index}"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if len(done) != groups*each {
		t.Errorf("%d different chunks were done, want %d", len(done), groups*each)
	}
	shards, err := c.Shards(ctx, "orders")
	if err != nil || len(shards) != 4 {
		t.Fatalf("the shards are %+v, %v", shards, err)
	}
	sum, names := uint64(0), []string(nil)
	for _, shard := range shards {
		sum += shard.Groups
		if _, err := c.Queue(ctx, shard.Queue); err != nil {
			t.Errorf("the shard %s cannot be asked by its name: %v", shard.Queue, err)
		}
	}
	for group, err := range c.Groups(ctx, "orders") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, group.Group)
		if one, err := c.Group(ctx, "orders", group.Group); err != nil || one.Shard != group.Shard {
			t.Errorf("the group %s is in shard %d of the list, and in %+v, %v", group.Group, group.Shard, one, err)
		}
	}
	if sum != groups || len(names) != groups || !slices.IsSorted(names) {
		t.Errorf("the shards have %d groups, and the list has %v", sum, names)
	}
}
