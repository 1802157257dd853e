package engine

import (
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
)

// Place is where a queue is served: by which node, and since which of its claims. A server that is alone serves all queues. The epoch is
// then that of the journal.
type Place struct {
	Queue string
	Shard queue.ShardID
	Epoch uint32
	Node  string // "": this server, which is alone, or no node yet
}

// Placed counts the queues that this node of a cluster serves, and names those that no node does, as far as it knows.
func (n *Nodes) Placed() (served int, waiting []string) {
	for _, row := range n.known.Load().byName {
		switch at := n.elsewhere(row); {
		case at == nil:
			served++
		case at.Node == "":
			waiting = append(waiting, row.Name)
		}
	}
	return served, waiting
}

// Others are the other nodes of the cluster that live, with their URLs, by name.
func (n *Nodes) Others() (list []Elsewhere) {
	view := n.node.View()
	for _, peer := range view.Peers {
		if peer.Name != n.node.Name && view.Live(peer.Name) {
			list = append(list, Elsewhere{Node: peer.Name, URL: peer.URL})
		}
	}
	return list
}

// Self is the name of this node.
func (n *Nodes) Self() string { return n.node.Name }

// Named is the other node of this name; nil: it is this one.
func (n *Nodes) Named(name string) (*Elsewhere, error) {
	if name == n.node.Name {
		return nil, nil
	}
	for _, at := range n.Others() {
		if at.Node == name {
			return &at, nil
		}
	}
	return nil, queue.Invalid("/query/node", "names no node of this cluster that is alive")
}

// Served names the queues that this node serves now, without those in quarantine.
func (n *Nodes) Served() (names []string) {
	for _, q := range n.e.all() {
		if n.node.Own(q.id) {
			names = append(names, q.name)
		}
	}
	return names
}

// Places lists all queues of the cluster with the nodes that serve them, as Engine.Places does.
func (n *Nodes) Places() []Place { return n.e.Places() }

// Places lists all queues with their places, by name. A server that is alone leaves out queues in quarantine.
func (e *Engine) Places() (list []Place) {
	if e.nodes == nil {
		for _, q := range e.all() {
			list = append(list, Place{Queue: q.name, Shard: q.id, Epoch: q.shard.Epoch()})
		}
		return list
	}
	owners := e.nodes.node.View().Owners
	for _, row := range e.nodes.known.Load().byName {
		owner := owners[row.Shard]
		list = append(list, Place{Queue: row.Name, Shard: row.Shard, Epoch: owner.Epoch, Node: owner.Node})
	}
	slices.SortFunc(list, func(a, b Place) int { return strings.Compare(a.Queue, b.Queue) })
	return list
}
