package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/cluster/member"
	"github.com/quern-queue/quern/engine/cluster/pg"
	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// With -nodes=3, the behaviours and the scripts, as they stand, run against a cluster of three nodes on PostgreSQL. Each call goes to a node
// that is drawn.
var nodeCount = flag.Int("nodes", 0, "how many nodes of a cluster stand for the server in behaviours and scripts; 0: a server that is alone")

// crew are the nodes of a cluster that stand for one server. It is the transport of the clients.
type crew struct {
	testing.TB
	url    string // of the database
	schema string
	next   http.RoundTripper

	mu    sync.Mutex
	draws *rand.Rand
	begun int // how often all were started
	made  int // nodes since the last orderly stop: each has a name of its own
	dead  bool
	list  []*crewNode
}

type crewNode struct {
	url    string
	engine *engine.Engine
	place  *member.Member
	shared *pg.Backend
	stop   func() // serving
	still  func() // beating
}

// startNode starts a server that is a node of a cluster.
type startNode func(dir string, in *engine.Cluster, at net.Listener) (*engine.Engine, func())

// database is the server that all crews share; each has a schema of its own.
var database struct {
	once   sync.Once
	server *pgtest.Server
	err    error
}

func stopDatabase() {
	if database.server != nil {
		database.server.Stop()
	}
}

// alwaysPlayed says that a test is not only drawn.
func alwaysPlayed(name string) bool {
	return strings.HasPrefix(name, "TestScripts/") || strings.HasPrefix(name, "TestCrew") || strings.HasPrefix(name, "TestShared") || name == "TestAnyCalls"
}

// shortStarts is how often a behaviour may start its nodes with -short.
const shortStarts = 3

// newCrew is one without nodes.
func newCrew(t testing.TB, seed uint64) *crew {
	t.Helper()
	draws := rand.New(rand.NewPCG(seed, 1))
	if testing.Short() && !alwaysPlayed(t.Name()) && draws.IntN(3) > 0 {
		t.Skip("with -short, one behaviour in three is drawn")
	}
	database.once.Do(func() { database.server, database.err = pgtest.Start("max_connections=400") })
	if database.err != nil {
		t.Fatal(database.err)
	}
	sum := sha256.Sum256([]byte(t.TempDir()))
	transport := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: defaultPatience().header / 2}
	t.Cleanup(transport.CloseIdleConnections)
	return &crew{TB: t, url: database.server.URL(), schema: "t" + hex.EncodeToString(sum[:8]), next: transport, draws: draws}
}

// start starts the nodes, and returns the engine that serves the default queue when all nodes know it.
func (c *crew) start(one startNode) *engine.Engine {
	c.Helper()
	if c.list = nil; !c.dead { // their names are free again
		c.made = 0
	}
	c.dead = false
	if c.begun++; c.begun > shortStarts && testing.Short() {
		c.Skip("with -short, no behaviour goes on after so many restarts")
	}
	for range cmp.Or(*nodeCount, 3) {
		c.add(one)
		c.settled()
	}
	return c.owner().engine
}

// owner is the node that serves the default queue.
func (c *crew) owner() *crewNode {
	c.Helper()
	for _, n := range c.list {
		if n.engine.Nodes().Elsewhere(engine.DefaultQueue) == nil {
			return n
		}
	}
	c.Fatal("no node serves the default queue")
	return nil
}

func (n *crewNode) host() string { return strings.TrimPrefix(n.url, "http://") }

// add starts a node.
func (c *crew) add(one startNode) {
	c.Helper()
	c.made++
	shared, err := pg.Open(c.Context(), pg.Options{URL: c.url, Schema: c.schema, AcceptAsync: true, Conns: 4})
	if err != nil {
		c.Fatal(err)
	}
	listener, began := listenHere(c), time.Now()
	n := &crewNode{url: "http://" + listener.Addr().String(), shared: shared}
	n.place = member.New(member.Options{Leases: shared.Leases(), Name: fmt.Sprintf("n%d", c.made), URL: n.url,
		Logger: slog.New(slog.DiscardHandler), Now: func() time.Duration { return time.Since(began) }})
	if err := n.place.Join(c.Context()); err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var beating sync.WaitGroup
	beating.Go(func() { n.place.Run(ctx) })
	n.still = func() { cancel(); beating.Wait() }
	n.engine, n.stop = one(filepath.Join(c.TempDir(), "cache"), &engine.Cluster{Backend: shared, Node: n.place}, listener)
	c.list = append(c.list, n)
}

// settled returns when each node knows all others, and who serves each queue.
func (c *crew) settled() {
	c.Helper()
	for _, n := range c.list {
		for {
			_, waiting := n.engine.Nodes().Placed()
			if len(n.engine.Nodes().Others()) == len(c.list)-1 && n.engine.Nodes().Has(engine.DefaultQueue) && len(waiting) == 0 {
				break
			}
			for _, n := range c.list {
				n.place.Hasten()
			}
			select {
			case <-c.Context().Done():
				c.Fatal("the test ended before the nodes knew each other")
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

// stop ends the nodes in order, and all at once, so that none hands its queues over.
func (c *crew) stop() {
	c.Helper()
	for _, n := range c.list {
		c.end(n)
	}
	c.list = nil
}

// end ends a node, which hands nothing over.
func (c *crew) end(n *crewNode) {
	c.Helper()
	n.stop()
	n.still()
	if c.dead {
		return
	}
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	if err := errors.Join(n.place.Leave(ctx), n.shared.Close()); err != nil {
		c.Errorf("stop: %v", err)
	}
}

// kill takes the database from the nodes, and ends them: they write nothing more, as after kill -9.
func (c *crew) kill() {
	c.Helper()
	c.dead = true
	for _, n := range c.list {
		n.still()
		if err := n.shared.Close(); err != nil {
			c.Errorf("kill: %v", err)
		}
	}
	c.stop()
}

// dying says that errors of nodes are expected.
func (c *crew) dying() bool { return c != nil && c.dead }

func (c *crew) engines() (list []*engine.Engine) {
	for _, n := range c.list {
		list = append(list, n.engine)
	}
	return list
}

// RoundTrip sends a call to any node. A call about data that each node has for itself goes to the node that serves the
// default queue.
func (c *crew) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	at := c.list[c.draws.IntN(len(c.list))]
	c.mu.Unlock()
	if ofOneNode(r.URL.Path) {
		at = c.owner()
	}
	r = r.Clone(r.Context())
	r.URL.Host = at.host()
	response, err := c.next.RoundTrip(r)
	if err == nil && r.Method != http.MethodGet && ofTheCatalogue(r.URL.Path) {
		err = c.follow(r)
	}
	if name, is := strings.CutPrefix(r.URL.Path, "/v1/queues/"); err == nil && is && r.Method != http.MethodGet && !strings.Contains(name, "/") {
		err = c.spread(r.Context(), name)
	}
	return response, err
}

// spread moves each shard of a queue to another node than the shard before it.
func (c *crew) spread(ctx context.Context, name string) error {
	engines := c.engines()
	work, err := engines[0].Work(name)
	s, several := work.(*engine.Sharded)
	if err != nil || !several {
		return nil
	}
	for i, shard := range s.Names() {
		to := engines[(i+1)%len(engines)].Nodes()
		for to.Elsewhere(shard) != nil {
			for _, e := range engines {
				err := e.Nodes().Move(ctx, shard, to.Self())
				if code := queue.CodeOf(err); err != nil && code != queue.CodeMoving && code != queue.CodeUnavailable {
					return err
				}
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		for _, n := range c.list { // all know of it
			for at := n.engine.Nodes().Elsewhere(shard); n.engine.Nodes() != to && (at == nil || at.Node != to.Self()); at = n.engine.Nodes().Elsewhere(shard) {
				n.place.Hasten()
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(time.Millisecond):
				}
			}
		}
	}
	return nil
}

// follow returns when all nodes have followed a change, and all plugins in use score on all of them. Each node follows
// within a second by itself.
func (c *crew) follow(r *http.Request) error {
	for _, e := range c.engines() {
		if err := e.Nodes().CatchUp(); err != nil {
			return err
		}
	}
	for strings.HasPrefix(r.URL.Path, "/v1/plugins") {
		ask, err := http.NewRequestWithContext(r.Context(), http.MethodGet, c.list[0].url+"/v1/plugins", nil)
		if err != nil {
			return err
		}
		ask.Header = r.Header.Clone()
		said, err := c.next.RoundTrip(ask)
		if err != nil {
			return err
		}
		var all api.Page[api.Plugin]
		err = json.NewDecoder(said.Body).Decode(&all)
		if err := errors.Join(err, said.Body.Close()); err != nil {
			return err
		}
		if !slices.ContainsFunc(all.Items, func(p api.Plugin) bool { return p.State == api.BreakerStarting }) {
			break
		}
	}
	return nil
}

// ofOneNode says that a node answers only for itself.
func ofOneNode(path string) bool {
	return path == "/metrics" || strings.HasPrefix(path, "/v1/plugins/") &&
		(strings.Contains(path, "/recordings") || strings.HasSuffix(path, "/scores") || strings.HasSuffix(path, "/dry-run"))
}

// ofTheCatalogue says that a call changes what all nodes follow.
func ofTheCatalogue(path string) bool {
	for _, prefix := range []string{"/v1/tokens", "/v1/plugins"} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return strings.HasPrefix(path, "/v1/queues/") && strings.Count(path, "/") == 3
}
