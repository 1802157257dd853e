package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine"
)

// clusterNames are those of docs/FIGURES.md. river_sync_1 comes out where River can be built.
var clusterNames = []string{
	"failover_s", "acknowledged", "missing", "double_holders", "limits_exceeded", "move_longest_s", "move_kept", "direct_p50",
	"proxied_p50", "floor_direct_p50", "floor_proxied_p50", "river_sync_1", "completions_sync_1", "completions_sync_16",
	"completions_shards_1", "completions_shards_4",
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
		{[]string{"direct_p50", "proxied_p50", "floor_direct_p50", "floor_proxied_p50"}, c.proxied},
		{[]string{"completions_sync_1", "river_sync_1"}, c.rateOfOne},
		{[]string{"completions_sync_16"}, c.rateOfMany},
		{[]string{"completions_shards_1", "completions_shards_4"}, c.rateOfShards},
	} {
		if !r.wants(part.figures...) {
			continue
		}
		if err := part.measure(ctx, scale); err != nil {
			return err
		}
	}
	if n := c.repeated.Load(); n > 0 {
		r.progress(fmt.Sprintf("%d exchanges were answered with 503, and repeated", n))
	}
	return nil
}

// riverPatience bounds one turn of River, which takes seconds.
const riverPatience = 3 * time.Minute

// rateOfOne is the completions of one queue of the cluster, and beside them, in turns, those of River on the same databases.
func (c *clusterBed) rateOfOne(ctx context.Context, scale clusterScale) error {
	one, err := c.manyQueues(ctx, "one", 1, scale)
	if err != nil {
		return err
	}
	river := c.buildRiver(ctx)
	var ours, theirs []float64
	for k := range scale.rounds {
		c.progress(fmt.Sprintf("completions_sync_1 and river_sync_1: turn %d of %d", k+1, scale.rounds))
		rate, err := timed(ctx, connections/2, 3*c.turn, nil, one)
		if err != nil {
			return err
		}
		ours = append(ours, rate)
		if river == "" {
			continue
		}
		if rate, err = c.workRiver(ctx, river, scale.river); err != nil {
			return err
		}
		theirs = append(theirs, rate)
	}
	if river != "" {
		c.add("river_sync_1", middle(theirs), "jobs/s")
	}
	c.add("completions_sync_1", middle(ours), "chunks/s")
	c.over("river_sync_1")
	return nil
}

// rateOfMany is the completions of many queues of the cluster together.
func (c *clusterBed) rateOfMany(ctx context.Context, scale clusterScale) error {
	many, err := c.manyQueues(ctx, "many", scale.queues, scale)
	if err != nil {
		return err
	}
	var ours []float64
	for k := range scale.rounds {
		c.progress(fmt.Sprintf("completions_sync_16: turn %d of %d", k+1, scale.rounds))
		rate, err := timed(ctx, 2*connections, 3*c.turn, nil, many)
		if err != nil {
			return err
		}
		ours = append(ours, rate)
	}
	c.add("completions_sync_16", middle(ours), "chunks/s")
	return nil
}

// manyQueues makes queues that do not run dry. The work is an exchange with one of them after the other.
func (c *clusterBed) manyQueues(ctx context.Context, name string, n int, scale clusterScale) (work, error) {
	body := []byte(`{"submissions":[`)
	for i := range 100 {
		if i > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, `{"meta":{"company":%d},"chunks":{"count":1000000,"prefix":"s3://bucket/input/%d/"}}`, i, i)
	}
	body = append(body, "]}"...)
	at := &caller{clusterBed: c}
	var servers []*serveProcess
	for k := range n {
		queue := fmt.Sprintf("%s-%d", name, k)
		path := "/v1/queues/" + queue
		if err := at.call(ctx, http.MethodPut, path, "", []byte("{}"), nil); err != nil {
			return nil, err
		}
		if err := at.call(ctx, http.MethodPost, path+"/submissions:batch", "", body, nil); err != nil {
			return nil, err
		}
		owner, err := c.owner(ctx, queue)
		if err != nil {
			return nil, err
		}
		servers = append(servers, &serveProcess{address: owner.address, repeats: func() { c.repeated.Add(1) }})
	}
	var next atomic.Int64
	return func(_ *serveProcess, more func() bool, count *atomic.Int64) error {
		k := int(next.Add(1)) % n
		return servers[k].exchanges(fmt.Sprintf("/v1/queues/%s-%d/reservations/exchange", name, k), scale.batch, more, count)
	}, nil
}

// rateOfShards is the completions of one queue whose four shards are on all nodes, in turns with a queue of one shard. Clients ask all
// nodes, and take chunks of all shards.
func (c *clusterBed) rateOfShards(ctx context.Context, scale clusterScale) error {
	works := map[int]work{}
	for _, shards := range []int{1, 4} {
		work, err := c.dividedQueue(ctx, shards, scale)
		if err != nil {
			return err
		}
		works[shards] = work
	}
	rates := map[int][]float64{}
	for k := range scale.rounds {
		c.progress(fmt.Sprintf("completions_shards_1 and completions_shards_4: turn %d of %d", k+1, scale.rounds))
		for _, shards := range []int{1, 4} {
			rate, err := timed(ctx, connections/2, 3*c.turn, nil, works[shards])
			if err != nil {
				return err
			}
			rates[shards] = append(rates[shards], rate)
		}
	}
	for _, shards := range []int{1, 4} {
		c.add(fmt.Sprintf("completions_shards_%d", shards), middle(rates[shards]), "chunks/s")
	}
	return nil
}

// dividedQueue makes a queue of several shards, each on another node than the one before, with work in 100 groups.
func (c *clusterBed) dividedQueue(ctx context.Context, shards int, scale clusterScale) (work, error) {
	at, path := &caller{clusterBed: c}, fmt.Sprintf("/v1/queues/divided-%d", shards)
	if err := at.call(ctx, http.MethodPut, path, "", fmt.Appendf(nil, `{"settings":{"shards":%d}}`, shards), nil); err != nil {
		return nil, err
	}
	for k := range shards {
		to := c.nodes[k%len(c.nodes)]
		body := fmt.Appendf(nil, `{"node":%q,"shard":%d}`, to.name, k+1)
		if err := at.call(ctx, http.MethodPost, path+"/move", "", body, nil); err != nil {
			return nil, err
		}
	}
	for i := range 100 {
		body := fmt.Appendf(nil, `{"group":"g%d","chunks":{"count":1000000,"prefix":"s3://bucket/input/%d/"}}`, i, i)
		if err := at.call(ctx, http.MethodPost, path+"/submissions", "", body, nil); err != nil {
			return nil, err
		}
	}
	var next atomic.Int64
	return func(_ *serveProcess, more func() bool, count *atomic.Int64) error {
		node := c.nodes[int(next.Add(1))%len(c.nodes)]
		server := &serveProcess{address: node.address, repeats: func() { c.repeated.Add(1) }}
		return server.exchanges(path+"/reservations/exchange", scale.batch, more, count)
	}, nil
}

// buildRiver builds the program in the module beside this one; "": it cannot be.
func (c *clusterBed) buildRiver(ctx context.Context) (program string) {
	built := newGuests(c.dir)
	why := built.missing("go")
	if why == "" {
		program = filepath.Join(c.dir, "river")
		build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
		build.Dir = filepath.Join(built.checkout, "cmd/quern-bench/river")
		if said, err := build.CombinedOutput(); err != nil {
			why = fmt.Sprintf("its module cannot be built: %v: %s", err, bytes.TrimSpace(said))
		}
	}
	if why != "" {
		c.progress("without river_sync_1: " + why)
		return ""
	}
	return program
}

// workRiver has River work so much off, and returns how much it completed per second.
func (c *clusterBed) workRiver(ctx context.Context, program string, n int) (float64, error) {
	ctx, stop := context.WithTimeout(ctx, riverPatience)
	defer stop()
	out, err := exec.CommandContext(ctx, program, "-url", c.primary.URL(), "-jobs", strconv.Itoa(n)).Output()
	if err != nil {
		if exit, is := errors.AsType[*exec.ExitError](err); is {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return 0, errors.Join(fmt.Errorf("river: %w", err), ctx.Err())
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

// proxied is one call at a time, sent to the owner and to a node that passes it on, in turns. It reserves a chunk, which writes nothing: so
// the connections are most of it. The floor is the same calls to two bare servers; the second passes them on to the first.
func (c *clusterBed) proxied(ctx context.Context, scale clusterScale) error {
	c.progress("proxied_p50 and direct_p50")
	owner, err := c.owner(ctx, engine.DefaultQueue)
	if err != nil {
		return err
	}
	bare, err := startProcess(exec.CommandContext(ctx, c.floor[0], c.floor[1:]...))
	if err != nil {
		return err
	}
	defer bare.stop()
	hop, err := startProcess(exec.CommandContext(ctx, c.floor[0], append(c.floor[1:], "http://"+bare.address)...))
	if err != nil {
		return err
	}
	defer hop.stop()
	ways := []struct{ name, address string }{
		{"direct_p50", owner.address}, {"proxied_p50", c.other(owner).address},
		{"floor_direct_p50", bare.address}, {"floor_proxied_p50", hop.address},
	}
	times := make([][]time.Duration, len(ways))
	for range scale.rounds {
		for k, way := range ways {
			list, err := oneByOne(way.address, scale.calls)
			if err != nil {
				return err
			}
			times[k] = append(times[k], list...)
		}
	}
	for k, way := range ways {
		slices.Sort(times[k])
		c.add(way.name, milli(quantile(times[k], 0.5)), "ms")
		if k%2 == 1 {
			c.over(ways[k-1].name)
		}
	}
	return ctx.Err()
}

// oneByOne is how long each of n reserves of one chunk takes on one connection.
func oneByOne(address string, n int) ([]time.Duration, error) {
	l, err := dialLean(address, "", nil)
	if err != nil {
		return nil, err
	}
	defer l.close()
	body, times := []byte(`{"max":1,"strategy":"OldestFirst"}`), make([]time.Duration, n)
	for i := range times {
		began := time.Now()
		if _, err := l.post(pathReservations, body); err != nil {
			return nil, err
		}
		times[i] = time.Since(began)
	}
	return times, nil
}
