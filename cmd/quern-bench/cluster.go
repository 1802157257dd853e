package main

import (
	"context"
	"fmt"
	"time"
)

// clusterNames are those of docs/FIGURES.md. river_sync_1 comes out where River can be built.
var clusterNames = []string{
	"failover_s", "acknowledged", "missing", "double_holders", "limits_exceeded", "move_longest_s", "move_kept", "direct_p50",
	"proxied_p50", "river_sync_1", "completions_sync_1", "completions_sync_16",
}

// clusterScale is how much the suite does.
type clusterScale struct {
	submissions int // that are in the queue when its owner is killed
	chunks      int // of each
	kills       int
	moves       int
	held        int           // chunks that are held over a move
	acts        int           // inserts and completions that are acknowledged before a kill
	grace       time.Duration // the restart grace of the queue
	batch       int           // chunks of one exchange
	queues      int           // of completions_sync_16
	rounds      int           // of rates and of proxied_p50
	calls       int           // of one round of proxied_p50
	river       int           // how much River works off in one round
}

var fullCluster = clusterScale{
	submissions: largeSubmissions, chunks: largeChunks, kills: 3, moves: 3, held: 1000, acts: 2000, grace: 3 * time.Second,
	batch: 512, queues: 16, rounds: rounds, calls: 1000, river: 50_000,
}

// clusterSuite measures three nodes on two PostgreSQL servers, a primary and its synchronous standby. All are processes of this machine.
func clusterSuite(ctx context.Context, r *run) error { return clusterFigures(ctx, r, fullCluster) }

func clusterFigures(ctx context.Context, r *run, scale clusterScale) error {
	c, err := r.startCluster(ctx)
	if err != nil {
		return err
	}
	defer c.stop()
	r.progress(fmt.Sprintf("a backlog of %d submissions of %d chunks", scale.submissions, scale.chunks))
	if err := c.backlog(ctx, scale); err != nil {
		return err
	}
	for _, part := range []struct {
		figures []string
		measure func(context.Context, clusterScale) error
	}{
		{clusterNames[:5], c.failovers},
		{[]string{"move_longest_s", "move_kept"}, c.moves},
		{[]string{"direct_p50", "proxied_p50"}, c.proxied},
		{[]string{"completions_sync_1", "river_sync_1"}, c.rateOfOne},
		{[]string{"completions_sync_16"}, c.rateOfMany},
	} {
		if !r.wants(part.figures...) {
			continue
		}
		if err := part.measure(ctx, scale); err != nil {
			return err
		}
	}
	return nil
}
