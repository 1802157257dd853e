package api

// Node is a server of a cluster, as the node that answers sees it. A server that is alone is its only node.
type Node struct {
	Name    string      `json:"name"`    // The option node, or the name of the machine
	URL     string      `json:"url"`     // Where clients and other nodes reach it
	Since   Time        `json:"since"`   // Time of its start, by its own clock
	Leaving bool        `json:"leaving"` // Whether it is about to stop, and hands over its queues
	Queues  []NodeQueue `json:"queues"`  // The queues that it owns, by name
}

// NodeQueue is a queue that a node owns.
type NodeQueue struct {
	Queue string `json:"queue"` // Name of the queue
	Shard uint16 `json:"shard"` // Number of its shard, which is part of the ids of its submissions
	Epoch uint32 `json:"epoch"` // Number of the owner's claim; the next owner's is larger
	// How long the owner may serve without another heartbeat, in milliseconds: at most 4500. Below 0, the lease has ended, and another
	// node may take the queue over. null: the server is alone, and needs no lease
	LeaseMS *int64 `json:"lease_ms" nullable:"true"`
}

// MissingNode is a node of a cluster that did not answer for its queues, so that the answer lacks what is in them.
type MissingNode struct {
	Node   string   `json:"node"`   // Name of the node. Empty: no node serves these queues at the moment
	Queues []string `json:"queues"` // Names of the queues
}
