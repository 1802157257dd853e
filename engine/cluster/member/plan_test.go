package member

import (
	"fmt"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/queue"
)

// nodes is a view of nodes that all live.
func nodes(names ...string) *View {
	v := &View{Owners: map[queue.ShardID]cluster.Owner{}, Silent: map[string]bool{}, Beats: map[string]bool{}}
	for _, name := range names {
		v.Peers, v.Beats[name] = append(v.Peers, Peer{Node: cluster.Node{Name: name}}), true
	}
	return v
}

func list(n int) (shards []queue.ShardID) {
	for i := range n {
		shards = append(shards, queue.ShardID(i))
	}
	return shards
}

// Every shard without an owner falls to one node, they all agree which, and each node gets about its part. When a node goes, the shards of
// the others stay where they are.
func TestHeirs(t *testing.T) {
	t.Parallel()
	const shards = 300
	fall := func(view *View) (to [shards]string, count map[string]int) {
		count = map[string]int{}
		for _, peer := range view.Peers {
			s := Situation{Name: peer.Name, View: view, Shards: list(shards)}
			for _, shard := range Decide(&s).Claim {
				if to[shard] != "" {
					t.Fatalf("shard %d falls to %s and to %s", shard, to[shard], peer.Name)
				}
				to[shard] = peer.Name
				count[peer.Name]++
			}
		}
		return to, count
	}
	before, count := fall(nodes("a", "b", "c"))
	for name, n := range count {
		if n < shards/3-40 || n > shards/3+40 {
			t.Errorf("%d of %d shards fall to node %s of three", n, shards, name)
		}
	}
	after, _ := fall(nodes("a", "c"))
	for shard, to := range after {
		if before[shard] == "" || to == "" || before[shard] != "b" && before[shard] != to {
			t.Errorf("shard %d falls to %q of three nodes, and to %q without b", shard, before[shard], to)
		}
	}
}

// A node claims a shard that no other live node owns, unless it leaves itself.
func TestClaims(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		of   func(*Situation)
		want bool
	}{
		{"its owner lives", func(s *Situation) { s.View.Owners[0] = cluster.Owner{Epoch: 1, Node: "b"} }, false},
		{"its owner is silent", func(s *Situation) {
			s.View.Owners[0] = cluster.Owner{Epoch: 1, Node: "b"}
			s.View.Silent["b"] = true
		}, true},
		{"its owner has left", func(s *Situation) {
			s.View.Owners[0] = cluster.Owner{Epoch: 1, Node: "b"}
			s.View.Peers[1].Done, s.View.Peers[1].Left = true, map[queue.ShardID]uint32{0: 1}
		}, true},
		{"its owner has left, and come back since", func(s *Situation) {
			s.View.Owners[0] = cluster.Owner{Epoch: 2, Node: "b"}
			s.View.Peers[1].Done, s.View.Peers[1].Left = true, map[queue.ShardID]uint32{0: 1}
		}, false},
		{"its owner gave it to this node", func(s *Situation) { s.View.Owners[0] = cluster.Owner{Epoch: 2, Node: "a"} }, true},
		{"this node leaves", func(s *Situation) {
			s.View.Owners[0] = cluster.Owner{Epoch: 2, Node: "a"}
			s.Leaving = true
		}, false},
		{"the node that it falls to does not take it for long", func(s *Situation) {
			s.View = nodes("a", "b", "c")
			s.Name = map[string]string{"a": "b", "b": "a", "c": "a"}[s.heir(0)]
			s.Orphans = map[queue.ShardID]time.Duration{0: TTL}
		}, true},
	} {
		s := &Situation{Name: "a", View: nodes("a", "b"), Shards: list(1)}
		if c.of(s); (len(Decide(s).Claim) == 1) != c.want {
			t.Errorf("%s: Claim = %v, want %v", c.name, Decide(s).Claim, c.want)
		}
	}
}

// Nodes end up with about the same load, by few moves, and then rest.
func TestBalance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		loads []float64 // of shards that node a has at first
		most  float64   // how much larger than the smallest load the largest may be in the end
	}{
		{[]float64{0, 0, 0, 0, 0, 0, 0}, 1},
		{[]float64{9, 0, 0, 0}, 9},
		{[]float64{5, 4, 3, 2, 1, 1, 1, 1}, 2},
		{[]float64{100}, 101},
		{nil, 0},
	} {
		view, at := nodes("a", "b", "c"), map[queue.ShardID]string{}
		for shard := range c.loads {
			at[queue.ShardID(shard)] = "a"
		}
		moves := 0
		for moved := true; moved; {
			if moved = false; moves > 2*len(c.loads) {
				t.Fatalf("%v: shards are moved for ever", c.loads)
			}
			for i := range view.Peers {
				s := Situation{Name: view.Peers[i].Name, View: view, Shards: list(len(c.loads)), Held: map[queue.ShardID]time.Duration{},
					Load: map[queue.ShardID]float64{}}
				for shard, node := range at {
					if view.Owners[shard] = (cluster.Owner{Epoch: 1, Node: node}); node == s.Name {
						s.Held[shard], s.Load[shard] = stays, c.loads[shard]
					}
				}
				p := Decide(&s)
				view.Peers[i].Load = p.Load
				if len(p.Offers) > 1 {
					t.Fatalf("%v: %d shards are offered at once", c.loads, len(p.Offers))
				}
				for shard, to := range p.Offers {
					at[shard], moved = to, true
					moves++
				}
			}
		}
		least, largest := view.Peers[0].Load, view.Peers[0].Load
		for _, p := range view.Peers {
			least, largest = min(least, p.Load), max(largest, p.Load)
		}
		if largest-least > c.most {
			t.Errorf("%v: loads end between %v and %v: %s", c.loads, least, largest, fmt.Sprint(at))
		}
	}
}
