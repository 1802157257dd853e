//go:build linux

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
	"github.com/quern-queue/quern/sdk/api"
)

// Clients ask any of three nodes on two databases; one database is the synchronous standby of the other. Meanwhile:
//   - the owner is killed, gets the signal to end, or gives its queue away;
//   - the owner stands still for longer than its lease, and wakes up with calls in its socket;
//   - the primary is lost, and its standby is promoted, or all processes are killed at once;
//   - links to nodes, to the databases and between these are slow, reset, or cut in one direction or both.
//
// No two clocks show the same time or run alike. All answers could have come from one server: see history.
//
// The queue of the one cluster has one shard, that of the other three. Each of them sees one such event of each kind, or fewer on a machine
// that needs longer than a test may take. QUERN_HISTORY_ROUNDS sets another number (`make soak` does), QUERN_HISTORY_SEED repeats their
// choice.
//
//quern:killing
func TestClusterHistories(t *testing.T) {
	t.Parallel()
	seed := envNumber(t, "QUERN_HISTORY_SEED", rand.Uint64())
	rounds, most := int(envNumber(t, "QUERN_HISTORY_ROUNDS", 0)), time.Duration(math.MaxInt64)
	if rounds == 0 {
		most = 80 * time.Second
	}
	t.Logf("seed %d", seed)
	var both sync.WaitGroup // parallel subtests would begin after all other tests, and be the last ones to end
	defer both.Wait()
	history := func(shards int) {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			c := newHistoryCluster(t, rand.New(rand.NewPCG(seed, uint64(shards))), shards)
			var clients sync.WaitGroup
			for i := range historyClients {
				clients.Go(func() { c.client(i) })
			}
			events := map[string]func(){"standsStill": c.standsStill, "isKilled": c.isKilled, "primaryIsLost": c.primaryIsLost,
				"powerIsLost": c.powerIsLost, "linksFail": c.linksFail, "givesAway": c.givesAway, "ends": c.ends}
			var deck []string
			for n := 0; n < cmp.Or(rounds, len(events)) && time.Since(c.began) < most; n++ {
				if len(deck) == 0 {
					if deck = slices.Sorted(maps.Keys(events)); rounds > 0 { // slow events come half as often as the rest
						deck = append(deck, "linksFail", "givesAway", "ends")
					}
					c.locked(func() { c.rnd.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] }) })
				}
				c.work()
				began := c.now()
				events[deck[0]]()
				t.Logf("%s took %s", deck[0], time.Duration(c.now()-began).Round(time.Millisecond))
				deck = deck[1:]
			}
			c.locked(func() { c.over = true })
			clients.Wait()
			c.powerIsLost()           // chunks whose reservation never reached a consumer are free again, in all shards
			for _, n := range c.all { // one that has not seen yet who is the owner now still asks the one that is gone
				c.serves(n)
			}
			c.drain()
			c.check()
		})
	}
	for _, shards := range []int{1, 3} {
		both.Go(func() { history(shards) })
	}
}

// historyCluster are the nodes and databases that a history is about.
type historyCluster struct {
	*history
	shards  int
	seats   [2]*pgtest.Server // the databases
	primary int               // the seat of the one that takes writes
	link    *wire             // between the primary and its standby
	started int
	all     []*historyNode
}

// historyNode is one whose links may fail: clients and other nodes reach it over a wire, and it reaches each database through a proxy.
type historyNode struct {
	*launched
	name, at string
	wire     *wire
	proxies  [2]*pgtest.Proxy
}

// newHistoryCluster starts two databases and three nodes.
func newHistoryCluster(t *testing.T, rnd *rand.Rand, shards int) *historyCluster {
	t.Helper()
	c := &historyCluster{history: newHistory(t, rnd), shards: shards}
	c.seats[0] = pgtest.Begin(t, "wal_retrieve_retry_interval=100ms")
	if err := c.seats[0].Synchronous(t.Context(), "*"); err != nil { // a standby that is promoted has this, too
		t.Fatal(err)
	}
	c.follow()
	for range 3 {
		c.start()
	}
	status, _, _, text := answer(t, "PATCH", c.anyNode()+"/v1/queues/default", fmt.Sprintf(`{"settings":{"shards":%d}}`, shards))
	if status != 200 {
		t.Fatalf("%d shards: %d %s", shards, status, text)
	}
	for i := range shards - 1 { // each node has one of them, as long as all live
		path := fmt.Sprintf("/v1/queues/default~%d/move", i+2)
		to := c.all[i+1]
		c.serves(to)
		if status, _, _, text := answer(t, "POST", c.anyNode()+path, fmt.Sprintf(`{"node":%q}`, to.name)); status != 200 {
			t.Fatalf("%s to %s: %d %s", path, to.name, status, text)
		}
	}
	return c
}

// follow gives the primary a standby, in the other seat.
func (c *historyCluster) follow() {
	c.t.Helper()
	primary := c.seats[c.primary]
	if c.link = newWire(c.t, primary.Socket()); c.seats[1-c.primary] != nil {
		c.seats[1-c.primary].Stop()
	}
	host, port, err := net.SplitHostPort(c.link.listener.Addr().String())
	if err != nil {
		c.t.Fatal(err)
	}
	standby, err := primary.FollowAt(host, port)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(standby.Stop)
	c.seats[1-c.primary] = standby
	for _, n := range c.all {
		n.proxies[1-c.primary].Lead(standby)
	}
	primary.Until(c.t, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')")
}

// start starts a node, and waits until it answers.
func (c *historyCluster) start() {
	c.t.Helper()
	c.answers(c.launch(fmt.Sprintf("n%d", c.started)))
	c.started++
}

// launch starts the process of a node.
func (c *historyCluster) launch(name string) *historyNode {
	c.t.Helper()
	listen := freeAddress(c.t)
	n := &historyNode{name: name, wire: newWire(c.t, listen)}
	for i, database := range c.seats {
		n.proxies[i] = database.Front(c.t)
		c.t.Cleanup(func() { _ = n.proxies[i].Close() })
	}
	n.at = n.wire.url()
	clocks := fmt.Sprintf("%s=%d %d", clocksVariable, c.draw(600)-300, c.draw(81)-40)
	n.launched = launch(c.t, c.t.TempDir(), "env", clocks, quernCopy(c.t), "serve", "--cluster", n.proxies[0].URL(n.proxies[1]),
		"--listen", listen, "--advertise", n.at, "--node", name)
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("node %s, with %s, said:\n%s", name, clocks, n.stderr.String())
		}
	})
	return n
}

// answers waits until a node that was launched answers, and has clients ask it.
func (c *historyCluster) answers(n *historyNode) {
	c.t.Helper()
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
	all, done := context.WithTimeout(c.t.Context(), time.Minute)
	defer done()
	for served := false; !served; time.Sleep(historyPause) {
		ctx, stop := context.WithTimeout(all, time.Second)
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
		if stop(); all.Err() != nil {
			c.t.Fatalf("node %s does not serve within a minute", n.name)
		}
	}
}

func (c *historyCluster) isKilled() {
	owner, others := c.owner()
	at := c.now()
	owner.tell(syscall.SIGKILL)
	c.leaves(owner)
	c.serves(others[0])
	c.ownerIsLost(at)
	c.start()
}

// ownerIsLost records that one owner was lost between a moment and now. In other shards, consumers still have what they hold.
func (c *historyCluster) ownerIsLost(at int64) {
	if c.shards == 1 {
		c.takeover(at)
	} else {
		c.maybeTakeover(at)
	}
}

// primaryIsLost promotes the standby after a moment, and gives it a standby.
func (c *historyCluster) primaryIsLost() {
	at := c.now()
	if err := c.seats[c.primary].Kill(); err != nil {
		c.t.Fatal(err)
	}
	<-time.After(time.Duration(c.draw(int(2 * time.Second))))
	c.primary = 1 - c.primary
	c.seats[c.primary].Exec(c.t, "SELECT pg_promote(true)")
	c.follow()
	c.maybeTakeover(at)
	for _, n := range c.all {
		c.serves(n)
	}
}

// powerIsLost kills all processes at once. The nodes come again under their names, without their disks.
func (c *historyCluster) powerIsLost() {
	at, old := c.now(), slices.Clone(c.all) // nodes that leave are deleted in place
	for _, n := range old {
		n.tell(syscall.SIGKILL)
	}
	for _, database := range c.seats {
		if err := database.Kill(); err != nil {
			c.t.Fatal(err)
		}
	}
	for _, i := range []int{c.primary, 1 - c.primary} {
		if err := c.seats[i].Run(); err != nil {
			c.t.Fatal(err)
		}
	}
	var again []*historyNode
	for _, n := range old {
		again = append(again, c.launch(n.name))
	}
	for _, n := range again {
		c.answers(n)
	}
	for _, n := range old {
		c.leaves(n)
	}
	c.takeover(at)
}

func (c *historyCluster) standsStill() {
	owner, others := c.owner()
	at := c.now()
	owner.stands()
	c.serves(others[0])
	c.ownerIsLost(at)
	answered := c.late(owner.at, 48)
	owner.tell(syscall.SIGCONT)
	answered()
	c.serves(owner)
}

// linksFail has each kind of fault on each link of each node and on that between the databases for a moment. It may cost the owner its lease.
func (c *historyCluster) linksFail() {
	at := c.now()
	for fault := range wireFaults {
		for _, n := range c.all {
			if n.wire.set(fault); c.draw(2) == 0 {
				n.wire.reset()
			}
			c.link.set(fault)
			switch proxy := n.proxies[c.primary]; c.draw(4) {
			case 0:
				proxy.Cut()
			case 1:
				proxy.Mute()
			case 2:
				release := proxy.Hold()
				<-time.After(wireDelay)
				release()
			case 3:
				c.link.reset()
			}
			<-time.After(wireDelay)
			for _, w := range []*wire{n.wire, c.link} {
				w.set(noFault)
				w.reset()
			}
		}
	}
	c.maybeTakeover(at)
	for _, n := range c.all {
		c.serves(n)
	}
}

// givesAway moves the queue, with the reservations of consumers.
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

// ends stops the owner in an orderly way, so that consumers keep their reservations at the next owner.
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

// clocksVariable names the environment variable with which a test sets the clocks of a process: how many seconds its wall clock is ahead,
// and how many thousandths the clock of its lease runs too fast.
const clocksVariable = "QUERN_TEST_CLOCKS"

// clocksAreOff sets the clocks of this process.
func clocksAreOff() {
	var ahead, fast int64
	if n, _ := fmt.Sscan(os.Getenv(clocksVariable), &ahead, &fast); n != 2 {
		return
	}
	began := sinceBoot()
	wallClock = func() time.Time { return time.Now().Add(time.Duration(ahead) * time.Second) }
	bootClock = func() time.Duration { return began + (sinceBoot()-began)*time.Duration(1000+fast)/1000 }
}
