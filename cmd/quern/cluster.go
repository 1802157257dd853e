package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/cluster/member"
	"github.com/quern-queue/quern/engine/cluster/pg"
	"github.com/quern-queue/quern/sdk/api"
)

// ClusterConfig says which cluster a server is a node of.
type ClusterConfig struct {
	URL         string // of the database; "": the server is alone
	Schema      string
	Node        string
	Advertise   string
	AcceptAsync bool
}

// clusterOptions are about the cluster that a server is a node of.
func clusterOptions() []option {
	return []option{
		{
			"cluster", "", "postgres://USER:PASSWORD@HOST:PORT/DATABASE; empty for none",
			"PostgreSQL database that all nodes of a cluster share: each node serves some of the queues, and when it dies, the " +
				"others take these over",
			func(c *Config, text string) error { c.Cluster.URL = text; return nil },
		},
		{
			"cluster-schema", "quern", "a name in the database", "database schema with the cluster's tables",
			func(c *Config, text string) error { return nonEmpty(&c.Cluster.Schema, text) },
		},
		{
			"node", "", "1 to 64 of 0-9, a-z, -, _ and full stops; empty for the name of the machine",
			"name of this node, unique in the cluster",
			func(c *Config, text string) error { c.Cluster.Node = text; return nil },
		},
		{
			"advertise", "", "an http or https URL; empty for the address that it listens on",
			"where clients and other nodes reach this node",
			func(c *Config, text string) error { c.Cluster.Advertise = text; return nil },
		},
		{
			"accept-async", "false", "true or false", "use a database without a synchronous standby: " +
				"if the database's only disk is lost, so is acknowledged work",
			func(c *Config, text string) error { return setSwitch(&c.Cluster.AcceptAsync, text) },
		},
	}
}

// checkCluster refuses options that do not go together.
func (c *Config) checkCluster() error {
	switch {
	case c.Cluster.URL == "" && (c.Cluster.Node != "" || c.Cluster.Advertise != "" || c.Cluster.AcceptAsync):
		return errors.New("node, advertise and accept-async need the option cluster: set it, or leave them out")
	case c.Cluster.URL != "" && c.SnapshotDir != "":
		return errors.New("a cluster keeps the copies of the stores in its database: give cluster or snapshot-dir, not both")
	case c.Cluster.URL != "" && c.BackupDir != "":
		return errors.New("a node of a cluster makes no backups by itself: give cluster or backup-dir, not both, and run quern backup")
	case c.Cluster.URL != "" && c.TLSSelfSigned:
		return errors.New("the other nodes of a cluster do not trust the certificate that tls-self-signed makes: give " +
			"tls-cert and tls-key, from an authority that every node's system trusts")
	}
	return nil
}

// withoutPassword is the URL of a database as people may see it.
func withoutPassword(text string) string {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return ""
	case err != nil || u.Scheme == "":
		return "(hidden)"
	}
	return u.Redacted()
}

// joined is the place of this server in its cluster.
type joined struct {
	*member.Member
	backend *pg.Backend
	cache   string // the folder that is removed at the end; "": the operator named one
	beating sync.WaitGroup
	stop    context.CancelFunc
}

// join connects to the database, and beats from then on. It waits while another node of this name may still run.
func join(ctx context.Context, config *Config, at listeners, registry *prometheus.Registry, logger *slog.Logger) (*joined, error) {
	self, err := config.node(at)
	if err != nil {
		return nil, err
	}
	backend, err := pg.Open(ctx, pg.Options{URL: config.Cluster.URL, Schema: config.Cluster.Schema,
		AcceptAsync: config.Cluster.AcceptAsync})
	if err != nil {
		return nil, err
	}
	j := &joined{backend: backend, stop: func() {}}
	j.Member = member.New(member.Options{Leases: backend.Leases(), Name: self.Name, URL: self.URL,
		Since: self.Since.Time, Now: bootClock, Logger: logger})
	registry.MustRegister(j.metrics()...)
	if config.Data, err = j.makeCache(config); err == nil {
		err = j.Join(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, j.close())
	}
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	j.stop = stop
	j.beating.Go(func() { j.Run(beating) })
	return j, nil
}

// node is this server as a node of a cluster: it has a name, and others reach it.
func (c *Config) node(at listeners) (self api.Node, err error) {
	if c.Listen == "" {
		return self, usageError{errors.New("a node of a cluster needs an address that others reach: give --listen HOST:PORT")}
	}
	self = c.self(at)
	if c.Cluster.Advertise == "" && unspecified(at.serving[0].Addr()) {
		return self, usageError{fmt.Errorf("other nodes cannot reach this one at %s: give --advertise, a URL at which they can", self.URL)}
	}
	if err := (cluster.Node{Name: self.Name, URL: self.URL}).Check(); err != nil {
		return self, usageError{fmt.Errorf("--node and --advertise: %w", err)}
	}
	return self, nil
}

// hosts are the names that the server is known by: that by which other nodes reach it is one of them.
func (c *Config) hosts() []string {
	if at, err := url.Parse(c.Cluster.Advertise); err == nil && at.Hostname() != "" {
		return append(slices.Clone(c.AllowedHosts), at.Hostname())
	}
	return c.AllowedHosts
}

// unspecified says that an address names no machine: it stands for all of this one's.
func unspecified(address net.Addr) bool {
	tcp, is := address.(*net.TCPAddr)
	return is && tcp.IP.IsUnspecified()
}

// makeCache makes the folder for data that can be made again.
func (j *joined) makeCache(config *Config) (string, error) {
	if config.gave("data") {
		return config.Data, nil
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), cachePrefix+"*"))
	for _, dir := range left { // of nodes that were killed
		if release, held := engine.HoldDir(dir); held == nil {
			err = errors.Join(err, release(), os.RemoveAll(dir))
		}
	}
	if err != nil {
		return "", err
	}
	j.cache, err = os.MkdirTemp("", cachePrefix)
	return j.cache, err
}

// cachePrefix begins the names of the folders for caches.
const cachePrefix = "quern-cache-"

// metrics are those of the node's place.
func (j *joined) metrics() []prometheus.Collector {
	return []prometheus.Collector{
		beatAges{j.Member},
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "quern_lease_remaining_seconds",
			Help: "Time for which this node may answer for its queues without another heartbeat, in seconds; 0 if it " +
				"may not answer."},
			func() float64 { return max(0, j.Left().Seconds()) }),
	}
}

// leave says that this node serves nothing any more. The engine is closed.
func (j *joined) leave() error {
	j.stop()
	j.beating.Wait()
	ctx, stop := context.WithTimeout(context.Background(), member.TTL)
	defer stop()
	return errors.Join(j.Leave(ctx), j.close())
}

func (j *joined) close() error {
	err := j.backend.Close()
	if j.cache != "" {
		err = errors.Join(err, os.RemoveAll(j.cache))
	}
	return err
}
