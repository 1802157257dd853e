package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
	"github.com/quern-queue/quern/internal/loopback"
	"github.com/quern-queue/quern/sdk/api"
)

// clusterBed is a running cluster.
type clusterBed struct {
	*run
	primary, standby *pgtest.Server
	nodes            []*clusterNode
	client           *http.Client
	repeated         atomic.Int64 // exchanges that were answered with 503
}

// clusterNode is one `quern serve --cluster`. It can be started again after its end, at the same address and with the same name.
type clusterNode struct {
	name, address string
	process       *exec.Cmd
	ended         chan struct{} // closed when the process is gone
	said          string        // the file that has its stderr
}

const (
	clusterNodes = 3
	// again is how long a call waits until it asks the next node.
	again = 5 * time.Millisecond
	// patience bounds every wait for the cluster.
	patience = 2 * time.Minute
)

// The databases get more memory and rarer checkpoints than by default. With the defaults, the figures of River and Quern would mostly
// measure the checkpoints.
var databaseSettings = []string{"shared_buffers=256MB", "max_wal_size=4GB"}

func (r *run) startCluster(ctx context.Context) (*clusterBed, error) {
	r.progress("starting two PostgreSQL servers and three nodes")
	c := &clusterBed{run: r, client: &http.Client{
		Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: connections},
	}}
	err := c.startDatabases(ctx)
	for k := 0; k < clusterNodes && err == nil; k++ {
		var address string
		if address, err = loopback.Free(); err == nil {
			n := &clusterNode{name: string(rune('a' + k)), address: address}
			c.nodes = append(c.nodes, n)
			err = c.start(ctx, n)
		}
	}
	if err == nil {
		_, err = c.owner(ctx, engine.DefaultQueue)
	}
	if err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

func (c *clusterBed) startDatabases(ctx context.Context) (err error) {
	if err := os.Chmod(c.dir, 0o711); err != nil { // PostgreSQL runs as another user than root
		return err
	}
	if c.primary, err = pgtest.StartIn(c.dir, databaseSettings...); err != nil {
		c.primary = nil
		return fmt.Errorf("the suite needs PostgreSQL: %w", err)
	}
	if c.standby, err = c.primary.Follow(); err != nil {
		c.standby = nil
		return err
	}
	if err := c.primary.Synchronous(ctx, "*"); err != nil {
		return err
	}
	return c.primary.Await(ctx, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')")
}

// start starts a node, and waits until it answers.
func (c *clusterBed) start(ctx context.Context, n *clusterNode) error {
	n.said = filepath.Join(c.dir, "node-"+n.name+".log")
	stderr, err := os.OpenFile(n.said, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer stderr.Close()
	n.process = exec.Command(c.server, "serve", "--cluster", c.primary.URL(), "--listen", n.address, "--node", n.name,
		"--data", filepath.Join(c.dir, "node-"+n.name), "--log-level", "error")
	n.process.Stderr = stderr
	n.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // also when this process is killed
	process, started, ended := n.process, make(chan error), make(chan struct{})
	n.ended = ended
	go func() {
		runtime.LockOSThread() // the signal comes when the thread that started the process ends
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := process.Start()
		started <- err
		if err == nil {
			_ = process.Wait()
		}
	}()
	if err := <-started; err != nil {
		n.process = nil
		return err
	}
	return c.until(ctx, "node "+n.name+" to answer", func() (bool, error) {
		select {
		case <-ended:
			text, _ := os.ReadFile(n.said)
			return false, fmt.Errorf("node %s has ended: %s", n.name, text[max(0, len(text)-2000):])
		default:
		}
		status, _, _ := c.send(ctx, n, http.MethodGet, "/livez", "", nil)
		return status == http.StatusOK, nil
	})
}

// end sends a signal to a node, and waits until its process is gone.
func (n *clusterNode) end(signal os.Signal) {
	if n.process != nil {
		_ = n.process.Process.Signal(signal) // it may have ended by itself
		<-n.ended
	}
}

// stop ends all processes. Their folders are in that of the run.
func (c *clusterBed) stop() {
	c.client.CloseIdleConnections()
	for _, n := range c.nodes {
		n.end(syscall.SIGKILL)
	}
	for _, database := range []*pgtest.Server{c.standby, c.primary} {
		if database != nil {
			database.Stop()
		}
	}
}

// owner is the node that owns a queue.
func (c *clusterBed) owner(ctx context.Context, queue string) (found *clusterNode, err error) {
	err = c.until(ctx, "a node to own the queue "+queue, func() (bool, error) {
		for _, n := range c.nodes {
			status, text, _ := c.send(ctx, n, http.MethodGet, "/v1/nodes", "", nil)
			var all api.Page[api.Node]
			if status != http.StatusOK { // it is gone, or stands by
				continue
			}
			if err := json.Unmarshal(text, &all); err != nil {
				return false, err
			}
			for _, node := range all.Items {
				if slices.ContainsFunc(node.Queues, func(q api.NodeQueue) bool {
					return q.Queue == queue && q.LeaseMS != nil && *q.LeaseMS > 0
				}) {
					found = c.nodes[slices.IndexFunc(c.nodes, func(n *clusterNode) bool { return n.name == node.Name })]
					return true, nil
				}
			}
		}
		return false, nil
	})
	return found, err
}

// other is a node that is not this one.
func (c *clusterBed) other(n *clusterNode) *clusterNode {
	return c.nodes[slices.IndexFunc(c.nodes, func(other *clusterNode) bool { return other != n })]
}

// until asks until the answer is yes.
func (c *clusterBed) until(ctx context.Context, what string, yes func() (bool, error)) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for {
		if is, err := yes(); is || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-time.After(again):
		}
	}
}

// send makes one call of one node.
func (c *clusterBed) send(ctx context.Context, n *clusterNode, method, path, key string, body []byte) (status int, text []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+n.address+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	return response.StatusCode, text, err
}

// caller is a client that knows all nodes, and keeps to the one that served it last.
type caller struct {
	*clusterBed
	at int
}

// call asks one node after the other until one has answered. It repeats unsafe calls too: a lost reservation does no harm here, and an
// insert has a key.
func (c *caller) call(ctx context.Context, method, path, key string, body []byte, answer any) error {
	return c.until(ctx, "an answer to "+method+" "+path, func() (bool, error) {
		n := c.nodes[c.at%len(c.nodes)]
		status, text, err := c.send(ctx, n, method, path, key, body)
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err == nil && status/100 == 2:
			if answer == nil {
				return true, nil
			}
			return true, json.Unmarshal(text, answer)
		case err == nil && status/100 == 4 && status != http.StatusMisdirectedRequest:
			return false, fmt.Errorf("%s %s: %d: %s", method, path, status, text)
		}
		c.at++
		return false, nil
	})
}
