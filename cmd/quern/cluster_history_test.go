//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
	"github.com/quern-queue/quern/sdk/api"
)

// Clients ask any of three nodes while the owner is killed, stands still for longer than its lease and wakes up with calls in its socket,
// is told to end, or gives its queue away. All that they are told could have come from one server: see history.
//
// QUERN_HISTORY_ROUNDS sets how many such events there are (default 3; `make soak` sets more), QUERN_HISTORY_SEED repeats their choice.
func TestClusterHistories(t *testing.T) {
	t.Parallel()
	seed := envNumber(t, "QUERN_HISTORY_SEED", rand.Uint64())
	rounds := int(envNumber(t, "QUERN_HISTORY_ROUNDS", 3))
	t.Logf("seed %d", seed)
	c := &historyCluster{history: newHistory(t, rand.New(rand.NewPCG(seed, 35))), database: pgtest.Begin(t)}
	for range 3 {
		c.start()
	}
	var clients sync.WaitGroup
	for i := range historyClients {
		clients.Go(func() { c.client(i) })
	}
	events := []func(){c.standsStill, c.isKilled, c.givesAway, c.ends}
	c.rnd.Shuffle(len(events)-1, func(i, j int) { events[i+1], events[j+1] = events[j+1], events[i+1] })
	for round := range rounds {
		c.work()
		events[round%len(events)]()
	}
	c.locked(func() { c.over = true })
	clients.Wait()
	c.isKilled() // what consumers hold whose answer never came is free again
	c.drain()
	c.check()
}

// historyCluster are the nodes that a history is about.
type historyCluster struct {
	*history
	database *pgtest.Server
	started  int
	all      []*historyNode
}

type historyNode struct {
	*launched
	name, at string
}

// start starts a node, and waits until it answers.
func (c *historyCluster) start() {
	c.t.Helper()
	name := fmt.Sprintf("n%d", c.started)
	c.started++
	n := &historyNode{launched: node(c.t, c.database, name, "127.0.0.1:0"), name: name}
	n.at = n.url()
	c.serves(n)
	c.all = append(c.all, n)
	c.locked(func() { c.nodes = append(c.nodes, n.at) })
}

// work waits until clients have done something.
func (c *historyCluster) work() {
	deeds := func() (n int) {
		c.locked(func() { n = len(c.ops) })
		return n
	}
	for until := deeds() + 300; deeds() < until; {
		c.serves(c.all[c.draw(len(c.all))]) // each look is a call
	}
}

// owner is the node that serves the queue, and the others.
func (c *historyCluster) owner() (owner *historyNode, others []*historyNode) {
	c.t.Helper()
	var is string
	nodesAt(c.t, c.all[0].at, func(list []api.Node) bool {
		for _, n := range list {
			if len(n.Queues) > 0 && slices.ContainsFunc(c.all, func(of *historyNode) bool { return of.name == n.Name }) {
				is = n.Name
				return true
			}
		}
		return false
	})
	for _, n := range c.all {
		if n.name == is {
			owner = n
		} else {
			others = append(others, n)
		}
	}
	return owner, others
}

// leaves has clients ask a node no more.
func (c *historyCluster) leaves(n *historyNode) {
	c.all = slices.DeleteFunc(c.all, func(of *historyNode) bool { return of == n })
	c.locked(func() { c.nodes = slices.DeleteFunc(c.nodes, func(at string) bool { return at == n.at }) })
}

// serves waits until a node answers for the queue, though others may stand still.
func (c *historyCluster) serves(n *historyNode) {
	c.t.Helper()
	for served := false; !served; {
		ctx, stop := context.WithTimeout(c.t.Context(), time.Second)
		q, err := http.NewRequestWithContext(ctx, "GET", n.at+"/v1/queues/default/stats", http.NoBody)
		if err != nil {
			c.t.Fatal(err)
		}
		if r, err := http.DefaultClient.Do(q); err == nil {
			served = r.StatusCode == 200
			r.Body.Close()
		}
		if stop(); c.t.Context().Err() != nil {
			c.t.Fatal("the test ended before another node served")
		}
	}
}

func (c *historyCluster) isKilled() {
	owner, others := c.owner()
	at := c.now()
	owner.tell(syscall.SIGKILL)
	c.leaves(owner)
	c.serves(others[0])
	c.takeover(at)
	c.start()
}

func (c *historyCluster) standsStill() {
	owner, others := c.owner()
	at := c.now()
	owner.stands()
	c.serves(others[0])
	c.takeover(at)
	answered := c.late(owner.at, 48)
	owner.tell(syscall.SIGCONT)
	answered()
	c.serves(owner)
}

// givesAway moves the queue, with what consumers hold.
func (c *historyCluster) givesAway() {
	_, others := c.owner()
	status, _, _, text := answer(c.t, "POST", others[0].at+"/v1/queues/default/move", fmt.Sprintf(`{"node":%q}`, others[0].name))
	if status != 200 {
		c.t.Errorf("move: %d %s", status, text)
	}
}

// ends stops the owner in order: what consumers hold goes on at the next one.
func (c *historyCluster) ends() {
	owner, _ := c.owner()
	c.leaves(owner)
	owner.tell(syscall.SIGTERM)
	owner.launched.ends(exitOK)
	c.start()
}

// drain completes all that is left, and reads every submission.
func (c *historyCluster) drain() {
	ctx, node := c.t.Context(), c.anyNode()
	queue := node + "/v1/queues/default"
	for n := 1; n > 0; {
		for n = 0; c.reserve(ctx, 0, queue, 1000) > 0; n++ {
			continue
		}
		for len(c.tokens) > 0 {
			held := c.tokens[len(c.tokens)-1]
			c.tokens = c.tokens[:len(c.tokens)-1]
			c.end(ctx, 0, queue, "complete", held)
		}
	}
	for _, name := range c.names {
		c.read(ctx, 0, node, name)
		if last := c.ops[len(c.ops)-1]; last.Output.(outcome).done != historyChunks || last.Output.(outcome).said != "completed" {
			c.t.Errorf("at the end submission %s is %+v", name, last.Output)
		}
	}
}
