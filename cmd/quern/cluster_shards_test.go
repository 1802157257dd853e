//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
	"github.com/quern-queue/quern/sdk/api"
)

// Two nodes have two shards each, and groups move between all four while producers and consumers ask both nodes. A node is killed during a
// move: at times the one with the shard that the group leaves, at times the one with the shard that takes it. The other node takes over.
// QUERN_CRASH_ROUNDS sets how often (default 2). The checks are those of TestKillNineShards, with the limit by the group.
//
//quern:killing
func TestClusterMovesGroupsThroughKills(t *testing.T) {
	t.Parallel()
	o := newOracle(t)
	o.groups, o.limit = newCrashGroups(o), 0
	o.groups.held = crashGroupLimit + 4 // chunks that a consumer of the other node holds, or got in an answer that did not arrive
	o.strategies = []string{`MaxSimultaneous("group", 2, Random)`, `MaxSimultaneous("group", 2, OldestFirst)`}
	c := &crashCluster{oracle: o, database: pgtest.Begin(t), nodes: map[string]*launched{}, urls: map[string]string{}}
	for _, name := range []string{"a", "b"} {
		c.start(name)
	}
	ctx := t.Context()
	if err := o.groups.ask(ctx, "PATCH", "", fmt.Sprintf(`{"settings":{"shards":%d}}`, crashShards), nil); err != nil {
		t.Fatal(err)
	}
	o.groups.shards = crashShards
	rounds := envNumber(t, "QUERN_CRASH_ROUNDS", 2)
	for round := range rounds {
		c.spread()
		c.round([]string{"a", "b"}[round%2], round%2 == 0)
		if t.Failed() {
			t.Fatalf("seed %d, round %d", o.seed, round)
		}
	}
	c.again() // chunks handed out in answers that did not arrive are not held any more
	for len(o.pending) > 0 {
		o.repeatPending(ctx)
		c.finishAll()
	}
	c.finishAll()
	o.groups.held = 0
	o.groups.check(ctx)
	o.account(ctx)
	o.groups.tell()
	t.Logf("%d inserts and %d completions acknowledged, %d late completions accepted", o.inserts, o.completions, o.late)
}

// crashCluster are the nodes that an oracle asks.
type crashCluster struct {
	*oracle
	database *pgtest.Server
	nodes    map[string]*launched
	urls     map[string]string
}

// start starts a node, and waits until it answers for all shards.
func (c *crashCluster) start(name string) {
	c.t.Helper()
	c.nodes[name] = node(c.t, c.database, name, "127.0.0.1:0")
	c.urls[name] = c.nodes[name].url()
	c.asksAll()
	c.whole()
}

// asksAll has clients ask all nodes that live.
func (c *crashCluster) asksAll() {
	c.oracle.nodes = nil
	for _, url := range c.urls {
		c.oracle.nodes = append(c.oracle.nodes, url)
	}
	slices.Sort(c.oracle.nodes)
	c.epoch(c.oracle.nodes[0])
}

// whole waits until each node says that all shards are served. Where one does not, the test ends with what that node was doing.
func (c *crashCluster) whole() {
	c.t.Helper()
	end := time.Now().Add(hangs / 2)
	for name, url := range c.urls {
		for served := false; !served; time.Sleep(10 * time.Millisecond) {
			var list api.Page[api.Shard]
			c.oracle.nodes = []string{url}
			err := c.groups.ask(c.t.Context(), "GET", "/shards", "", &list)
			served = err == nil && !slices.ContainsFunc(list.Items, func(s api.Shard) bool { return s.State == api.ShardOffline })
			if !served && time.Now().After(end) {
				c.nodes[name].tell(syscall.SIGQUIT)
				_ = c.nodes[name].Wait()
				c.t.Fatalf("node %s does not serve all shards: %v, %+v", name, err, list.Items)
			}
		}
	}
	c.asksAll()
}

// spread has each node serve two shards. Where they are already that changes nothing.
func (c *crashCluster) spread() {
	c.t.Helper()
	for number := range crashShards {
		to := []string{"a", "b"}[number%2]
		if err := c.groups.ask(c.t.Context(), "POST", "~"+strconv.Itoa(number+1)+"/move", fmt.Sprintf(`{"node":%q}`, to), nil); err != nil {
			c.t.Fatalf("shard %d to node %s: %v", number+1, to, err)
		}
	}
	c.whole()
}

// round has all work until some groups have moved, kills a node, and holds the numbers against each other when the other one has taken
// over. Then the node comes again, under its name and without its disk.
func (c *crashCluster) round(victim string, finishes bool) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	var all sync.WaitGroup
	c.groups.operate(ctx, &all)
	for range 2 {
		all.Go(func() { c.produce(ctx) })
	}
	for i := range 6 {
		all.Go(func() { c.consume(ctx, i) })
	}
	c.works(ctx)
	c.groups.awaitMoves(ctx)
	time.Sleep(time.Duration(c.draw(150)) * time.Millisecond)
	c.dying.Store(true)
	c.nodes[victim].tell(syscall.SIGKILL)
	cancel()
	all.Wait()
	_ = c.nodes[victim].Wait()
	c.dying.Store(false)
	delete(c.urls, victim)
	c.asksAll()
	c.whole()
	if finishes { // else the next consumers find them
		for len(c.old) > 0 && c.completeOld(c.t.Context()) {
			continue
		}
	}
	c.groups.check(c.t.Context())
	c.start(victim)
	c.groups.check(c.t.Context())
}

// again kills all nodes, and starts them again.
func (c *crashCluster) again() {
	c.t.Helper()
	for name, n := range c.nodes {
		n.tell(syscall.SIGKILL)
		_ = n.Wait()
		delete(c.urls, name)
	}
	for _, name := range []string{"a", "b"} {
		c.start(name)
	}
}

// finishAll completes what can be reserved, and waits for nothing.
func (c *crashCluster) finishAll() {
	c.t.Helper()
	for len(c.old) > 0 && c.completeOld(c.t.Context()) {
		continue
	}
	c.finishLeft(c.t.Context())
}
