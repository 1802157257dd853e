package web

import (
	"context"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
)

const nodesAbout = "Lists the nodes of the cluster by name, each with the queues that it owns. `epoch` is the " +
	"number of the owner's claim to a queue, and `lease_ms` the time left of its lease. The node that answers " +
	"measures all leases by its own clock, from the last heartbeat that it saw. A node without queues leaves " +
	"the list after 5 seconds of silence. A server without a cluster lists itself, with `lease_ms` null."

// nodes are the handlers of the nodes of a cluster. self has no queues: they are filled in for each answer, as they
// come and go.
type nodes struct {
	engine  *engine.Engine
	self    api.Node
	cluster func(context.Context) ([]api.Node, error) // nil: the server is alone
}

// routes are the part of the table about nodes.
func (x nodes) routes(r *router) {
	register(r, operation{id: "list-nodes", method: "GET", path: "/v1/nodes", scope: scopeRead,
		narrow: noTenants | inHandler,
		tag:    tagServer, compress: true, summary: "List the nodes of the cluster, and the queues that each owns",
		about: nodesAbout}, x.list)
}

type nodesOutput struct {
	Node string `header:"Quern-Node" doc:"Name of the node that answers; absent: the server is alone"`
	Body api.Page[api.Node]
}

// There are no pages: a cluster has few nodes. A token that is bound to queues sees all nodes, but only its own
// queues on them.
func (x nodes) list(ctx context.Context, _ *struct{}) (*nodesOutput, error) {
	name, list, err := "", []api.Node{x.alone()}, error(nil)
	if x.cluster != nil {
		name = x.self.Name
		list, err = x.cluster(ctx)
	}
	for i := range list {
		list[i].Queues = within(ctx, list[i].Queues,
			func(q *api.NodeQueue) bool { return boundTo(ctx).CoversQueue(q.Queue) })
		if list[i].Queues == nil {
			// An empty list and not null: clients of typed languages need not tell the two apart.
			list[i].Queues = []api.NodeQueue{}
		}
	}
	return &nodesOutput{Node: name, Body: api.Page[api.Node]{Items: list}}, err
}

// alone is a server without a cluster. No other server can take its queues, so it may serve them for ever.
func (x nodes) alone() api.Node {
	node := x.self
	for _, q := range x.engine.Places() {
		node.Queues = append(node.Queues, api.NodeQueue{Queue: q.Queue, Shard: uint16(q.Shard), Epoch: q.Epoch})
	}
	return node
}
