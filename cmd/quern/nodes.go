package main

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/cluster/member"
	"github.com/quern-queue/quern/sdk/api"
)

// nodesCommand lists the servers of a cluster.
func nodesCommand(a *app) *cobra.Command {
	list := resource[api.Node]{
		header: []string{"NODE", "URL", "SINCE", "STATE", "LEASE", "QUEUES"}, row: nodeRow,
		list: does("nodes", "List the nodes of the cluster, and the queues that each owns",
			func(ctx context.Context, c call) (all[api.Node], error) { return c.Nodes(ctx), nil }).with(func(c *cobra.Command) {
			c.Long = "List the nodes of the cluster, and the queues that each owns. LEASE says how long a node may serve its " +
				"queues without\nanother heartbeat. A server outside a cluster appears as one node without a lease."
		}),
	}
	return list.commands(a)[0]
}

// moveCommand moves a queue to another node of a cluster.
func moveCommand(a *app) *cobra.Command {
	move := resource[api.Moved]{
		fields: func(m api.Moved) [][2]string { return [][2]string{{"queue", m.Queue}, {"node", m.Node}} },
		one: []action[*api.Moved]{does("move QUEUE NODE", "Move a queue to another node of the cluster",
			func(ctx context.Context, c call) (*api.Moved, error) { return c.MoveQueue(ctx, c.args[0], c.args[1]) }).with(
			func(c *cobra.Command) {
				c.Long = "Move a queue to another node of the cluster. 'quern nodes' lists the nodes. Reservations, limits and\n" +
					"tokens stay valid. The command returns when the other node serves the queue. After 30 seconds the server\n" +
					"gives up, and the queue stays. If the server does not answer, the command waits that long in each of its attempts."
			})},
	}
	return move.commands(a)[0]
}

func nodeRow(n api.Node) []string {
	state, lease, queues := "", "", []string{}
	if n.Leaving {
		state = "leaving"
	}
	for _, q := range n.Queues {
		queues = append(queues, q.Queue)
		if q.LeaseMS != nil {
			lease = strconv.FormatFloat(float64(*q.LeaseMS)/1000, 'f', 1, 64) + "s"
		}
	}
	return []string{n.Name, n.URL, moment(n.Since), state, lease, strings.Join(queues, ",")}
}

// self is this server as a node, without its queues.
func (c *Config) self(at listeners) api.Node {
	node := api.Node{Name: c.Cluster.Node, URL: c.Cluster.Advertise, Since: api.At(time.Now())}
	if node.URL == "" {
		node.URL = c.url(at)
	}
	if node.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "localhost" // a second node of that name is refused with advice
		}
		node.Name = strings.ToLower(host)
	}
	return node
}

// url is where this machine reaches the server.
func (c *Config) url(at listeners) string {
	switch {
	case c.Listen == "":
		return socketScheme + c.Socket
	case c.secure():
		return "https://" + at.serving[0].Addr().String()
	}
	return "http://" + at.serving[0].Addr().String()
}

// nodes tells the nodes of the cluster as this one sees them.
func (j *joined) nodes(core *engine.Engine) func(context.Context) ([]api.Node, error) {
	if j == nil {
		return nil
	}
	return func(context.Context) ([]api.Node, error) {
		view, places := j.View(), core.Places()
		var list []api.Node
		for _, p := range view.Peers {
			node := api.Node{Name: p.Name, URL: p.URL, Since: api.At(p.Since), Leaving: p.Leaving || p.Done}
			lease := j.LeaseOf(&view, p.Name).Milliseconds()
			for _, at := range places {
				if at.Node == p.Name {
					node.Queues = append(node.Queues,
						api.NodeQueue{Queue: at.Queue, Shard: uint16(at.Shard), Epoch: at.Epoch, LeaseMS: &lease})
				}
			}
			if len(node.Queues) > 0 || view.Live(p.Name) {
				list = append(list, node)
			}
		}
		return list, nil
	}
}

// places shows how many queues a node serves, and which no node does: 256 at most, as many as there can be.
type places func() (served int, waiting []string)

var (
	placesServed = prometheus.NewDesc("quern_cluster_queues", "Number of queues that this node serves.", nil, nil)
	placeWaiting = prometheus.NewDesc("quern_cluster_queues_waiting",
		"1 for each queue that no node serves, as this node sees it. Other queues are not listed.", []string{"queue"}, nil)
)

func (p places) Describe(to chan<- *prometheus.Desc) { to <- placesServed; to <- placeWaiting }

func (p places) Collect(to chan<- prometheus.Metric) {
	served, waiting := p()
	to <- prometheus.MustNewConstMetric(placesServed, prometheus.GaugeValue, float64(served))
	for _, name := range waiting {
		to <- prometheus.MustNewConstMetric(placeWaiting, prometheus.GaugeValue, 1, name)
	}
}

// beatAges measures how old the last beats of all nodes are.
type beatAges struct{ *member.Member }

var beatAge = prometheus.NewDesc("quern_node_beat_age_seconds",
	"Time since this node saw the last heartbeat of each node, in seconds. Nodes that have left are not listed.",
	[]string{"node"}, nil)

func (b beatAges) Describe(to chan<- *prometheus.Desc) { to <- beatAge }

func (b beatAges) Collect(to chan<- prometheus.Metric) {
	view := b.View()
	for _, p := range view.Peers {
		if !p.Done {
			to <- prometheus.MustNewConstMetric(beatAge, prometheus.GaugeValue, b.Age(&view, p.Name).Seconds(), p.Name)
		}
	}
}
