//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
	"github.com/quern-queue/quern/sdk/api"
)

// Clients ask any of three nodes while the owner is killed, stands still for longer than its lease and wakes up with calls in its socket,
// is told to end, or gives its queue away, and while links to nodes and to the database are slow, cut or cut in one way. All that they are told could have come from one server: see history.
//
// The queue has one shard or three, by the seed. QUERN_HISTORY_ROUNDS sets how many such events there are (default 3; `make soak` sets more), QUERN_HISTORY_SEED repeats their choice.
func TestClusterHistories(t *testing.T) {
	t.Parallel()
	seed := envNumber(t, "QUERN_HISTORY_SEED", rand.Uint64())
	rounds := int(envNumber(t, "QUERN_HISTORY_ROUNDS", 3))
	t.Logf("seed %d", seed)
	c := &historyCluster{history: newHistory(t, rand.New(rand.NewPCG(seed, 35))), database: pgtest.Begin(t)}
	for range 3 {
		c.start()
	}
	shards := 1 + seed%2*2
	status, _, _, text := answer(t, "PATCH", c.anyNode()+"/v1/queues/default", fmt.Sprintf(`{"settings":{"shards":%d}}`, shards))
	if status != 200 {
		t.Fatalf("%d shards: %d %s", shards, status, text)
	}
	var clients sync.WaitGroup
	for i := range historyClients {
		clients.Go(func() { c.client(i) })
	}
	events := []func(){c.standsStill, c.linksFail, c.isKilled, c.givesAway, c.ends}
	others := events[2:]
	c.locked(func() { c.rnd.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] }) })
	for round := range rounds {
		c.work()
		events[round%len(events)]()
	}
	c.locked(func() { c.over = true })
	clients.Wait()
	c.isKilled()              // what consumers hold whose answer never came is free again
	for _, n := range c.all { // one that has not seen yet who is the owner now still asks the one that is gone
		c.serves(n)
	}
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

// historyNode is one whose links may fail: clients and other nodes reach it over a wire, and it reaches the database through a proxy.
type historyNode struct {
	*launched
	name, at string
	wire     *wire
	proxy    *pgtest.Proxy
}

// start starts a node, and waits until it answers.
func (c *historyCluster) start() {
	c.t.Helper()
	name := fmt.Sprintf("n%d", c.started)
	c.started++
	listen := freeAddress(c.t)
	n := &historyNode{name: name, wire: newWire(c.t, listen), proxy: c.database.Front(c.t)}
	c.t.Cleanup(func() { _ = n.proxy.Close() })
	n.at = n.wire.url()
	n.launched = launch(c.t, c.t.TempDir(), quernCopy(c.t), "serve", "--cluster", n.proxy.URL(), "--accept-async", "--listen", listen,
		"--advertise", n.at, "--node", name)
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("node %s said:\n%s", name, n.stderr.String())
		}
	})
	n.url() // it serves
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

// serves waits until a node answers for all of the queue, though others may stand still.
func (c *historyCluster) serves(n *historyNode) {
	c.t.Helper()
	for served := false; !served; {
		ctx, stop := context.WithTimeout(c.t.Context(), time.Second)
		q, err := http.NewRequestWithContext(ctx, "GET", n.at+"/v1/queues/default/shards", http.NoBody)
		if err != nil {
			c.t.Fatal(err)
		}
		if r, err := http.DefaultClient.Do(q); err == nil {
			var list struct{ Items []api.Shard }
			err := json.NewDecoder(r.Body).Decode(&list)
			served = err == nil && r.StatusCode == 200 && !slices.ContainsFunc(list.Items, func(s api.Shard) bool { return s.State != api.ShardOpen })
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

// linksFail has each kind of fault on each link of a node for a moment. It may cost the owner its lease.
func (c *historyCluster) linksFail() {
	at := c.now()
	for fault := range wireFaults {
		for _, n := range c.all {
			if n.wire.set(fault); c.draw(2) == 0 {
				n.wire.reset()
			}
			switch c.draw(3) {
			case 0:
				n.proxy.Cut()
			case 1:
				n.proxy.Mute()
			case 2:
				release := n.proxy.Hold()
				<-time.After(wireDelay)
				release()
			}
			<-time.After(wireDelay)
			n.wire.set(noFault)
			n.wire.reset()
		}
	}
	c.maybeTakeover(at)
	for _, n := range c.all {
		c.serves(n)
	}
}

// givesAway moves the queue, with what consumers hold.
func (c *historyCluster) givesAway() {
	for tries := 1; ; tries++ {
		_, others := c.owner()
		status, _, _, text := answer(c.t, "POST", others[0].at+"/v1/queues/default/move", fmt.Sprintf(`{"node":%q}`, others[0].name))
		if status == 200 {
			return
		}
		// The owner may lose the queue to another one meanwhile, and a node whose links failed a moment ago may count as dead
		// until its next beat.
		late := status == 422 && strings.Contains(string(text), "no node of this cluster that lives")
		if status != 503 && !late || tries == 20 {
			c.t.Errorf("move: %d %s", status, text)
			return
		}
		<-time.After(wireDelay)
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
