package member

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// A shard goes from one living node to another in four steps, each said with a beat: its owner offers it; the other one prepares it, and
// then wants it; the owner closes it and gives it; the other one claims it. Until the owner closes it, it serves.
//
// The shards of one queue are independent: they may be on different nodes.

// Situation is a node's knowledge when it decides what to do next.
type Situation struct {
	Name    string
	Leaving bool // this node is about to stop
	View    *View
	Shards  []queue.ShardID                 // all shards, in order
	Held    map[queue.ShardID]time.Duration // shards of this node, and for how long it has had each
	Ready   map[queue.ShardID]bool          // shards of others that are prepared here
	Load    map[queue.ShardID]float64       // of shards of this node; 0 counts as a little
	Orphans map[queue.ShardID]time.Duration // how long each shard has been seen without an owner that lives
	Asked   map[queue.ShardID]string        // nodes that operators want shards of this node to be moved to
}

// Plan is what a node does next. All lists are in the order of Shards.
type Plan struct {
	Claim   []queue.ShardID          // no other node can own them
	Prepare []queue.ShardID          // their owners offer them to this node
	Wants   []queue.ShardID          // the same, and they are prepared
	Offers  map[queue.ShardID]string // shards of this node, or just given away, and the nodes that are to have them
	Give    map[queue.ShardID]string // the same, and the other node is ready
	Load    float64                  // of this node
}

const (
	idleLoad = 1.0              // of a shard without work
	stays    = 30 * time.Second // a shard stays for so long before it is moved for the sake of balance
	balanced = 0.9              // a move must bring the larger of two loads down to this part of it
)

// Decide is the plan for a situation.
func Decide(s *Situation) *Plan {
	p := &Plan{Offers: map[queue.ShardID]string{}, Give: map[queue.ShardID]string{}}
	for _, shard := range s.Shards {
		if _, mine := s.Held[shard]; mine {
			p.Load += s.weight(shard)
			if to := s.target(shard); to != "" {
				p.Offers[shard] = to
			}
			continue
		}
		switch owner := s.View.Owners[shard].Node; {
		case s.Leaving:
		case owner == s.Name, s.orphan(shard) && (s.heir(shard) == s.Name || s.Orphans[shard] >= TTL):
			p.Claim = append(p.Claim, shard)
		case s.offered(shard, owner) && s.Ready[shard]:
			p.Wants = append(p.Wants, shard)
		case s.offered(shard, owner):
			p.Prepare = append(p.Prepare, shard)
		}
	}
	if len(p.Offers) == 0 && !s.Leaving {
		s.balance(p)
	}
	for shard, to := range p.Offers {
		if peer, there := s.View.Peer(to); there && slices.Contains(peer.Wants, shard) {
			p.Give[shard] = to
		}
	}
	for _, shard := range s.Shards {
		if to := s.given(shard); to != "" {
			p.Offers[shard] = to
		}
	}
	return p
}

// given is the node to which this one has just given a shard; "": there is none, or that node has claimed the shard already. The offer
// stands until then. The other node reads the owners first and the notes second. If the owner changed and the offer ended between these
// two reads, the other node would see neither, and throw away all that it has prepared.
func (s *Situation) given(shard queue.ShardID) string {
	if _, mine := s.Held[shard]; mine {
		return ""
	}
	self, _ := s.View.Peer(s.Name)
	to := self.Offers[shard]
	if peer, there := s.View.Peer(to); there && slices.Contains(peer.Wants, shard) {
		return to
	}
	return ""
}

// orphan says that the owner of a shard has died or left, or that there never was one.
func (s *Situation) orphan(shard queue.ShardID) bool {
	owner := s.View.Owners[shard]
	if peer, there := s.View.Peer(owner.Node); there && peer.Left[shard] >= owner.Epoch && owner.Epoch > 0 {
		return true
	}
	return owner.Node == "" || s.View.Silent[owner.Node]
}

// Orphaned lists the shards whose owners have died or left.
func (s *Situation) Orphaned() (list []queue.ShardID) {
	for _, shard := range s.Shards {
		if _, mine := s.Held[shard]; !mine && s.orphan(shard) {
			list = append(list, shard)
		}
	}
	return list
}

// offered says that the owner of a shard offers it to this node. The last word of a node that leaves may do so.
func (s *Situation) offered(shard queue.ShardID, owner string) bool {
	peer, there := s.View.Peer(owner)
	return there && !s.View.Silent[owner] && peer.Offers[shard] == s.Name
}

// target is the node that a shard of this one is to go to; "": it stays.
func (s *Situation) target(shard queue.ShardID) string {
	if to := s.Asked[shard]; to != "" && to != s.Name && s.takes(to) {
		return to
	}
	if s.Leaving {
		return s.heir(shard)
	}
	return ""
}

// takes says that a node may get new shards. One that was not seen to beat yet may have died long ago.
func (s *Situation) takes(name string) bool {
	peer, there := s.View.Peer(name)
	return there && !peer.Leaving && s.View.Live(name) && s.View.Beats[name]
}

// heir is the node that a shard without an owner falls to; "": there is none. Nodes with the same view find the same heir, and a node that
// comes or goes changes few heirs: each node has a random rank for each shard ("highest random weight", Thaler and Ravishankar 1998).
func (s *Situation) heir(shard queue.ShardID) (best string) {
	var most uint64
	for i := range s.View.Peers {
		name := s.View.Peers[i].Name
		if name == s.Name && s.Leaving || !s.takes(name) {
			continue
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte{byte(shard >> 8), byte(shard)}) // it never fails
		_, _ = h.Write([]byte(name))
		if rank := scramble(h.Sum64()); best == "" || rank > most {
			best, most = name, rank
		}
	}
	return best
}

// scramble spreads a hash over all bits (the finalizer of MurmurHash3, Appleby): FNV leaves the high ones of similar names alike.
func scramble(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

func (s *Situation) weight(shard queue.ShardID) float64 {
	if shard == Coordinator {
		return 0
	}
	return idleLoad + s.Load[shard]
}

// balance offers one shard to the node with the least load, if that makes the two more equal by a good part.
func (s *Situation) balance(p *Plan) {
	least := Peer{}
	for _, peer := range s.View.Peers {
		if peer.Name != s.Name && s.takes(peer.Name) && (least.Name == "" || peer.Load < least.Load) {
			least = peer
		}
	}
	if least.Name == "" || len(least.Wants) > 0 {
		return
	}
	best, after := Coordinator, p.Load*balanced
	for _, shard := range s.Shards {
		since, mine := s.Held[shard]
		if !mine || since < stays || shard == Coordinator {
			continue
		}
		if larger := max(p.Load-s.weight(shard), least.Load+s.weight(shard)); larger < after {
			best, after = shard, larger
		}
	}
	if best != Coordinator {
		p.Offers[best] = least.Name
	}
}
