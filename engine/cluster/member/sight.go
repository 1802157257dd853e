// Package member keeps a node's place in a cluster. It beats, it knows when another node is silent, and it says how long this node may act
// as the owner of its shards. Journals decide which node may write; a lease says when this node may try, and until when it may answer
// without an append. Plan decides which shards a node claims, offers and gives.
package member

import (
	"time"

	"github.com/quern-queue/quern/engine/cluster"
)

// sights are a node's observations of the beats of all nodes, by its own clock alone.
type sights map[string]sight

type sight struct {
	node    cluster.Node
	since   time.Duration // when its present counter was first seen
	beats   bool          // its counter was seen to change
	missing bool          // it was not among the nodes at the last look
}

// look notes the nodes as they are at a time.
func (all sights) look(now time.Duration, nodes []cluster.Node) {
	there := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		there[n.Name] = true
		before, known := all[n.Name]
		changed := known && before.node.Counter != n.Counter
		if !known || before.missing || changed {
			before.since = now
		}
		all[n.Name] = sight{node: n, since: before.since, beats: before.beats || changed}
	}
	for name, s := range all {
		if !there[name] && !s.missing {
			all[name] = sight{node: s.node, since: now, missing: true}
		}
	}
}

// silent says that a node has neither beaten nor come back for so long. One that was never seen has been silent since `began`.
func (all sights) silent(name string, now, began, long time.Duration) bool {
	since := began
	if s, known := all[name]; known {
		since = s.since
	}
	return now-since >= long
}
