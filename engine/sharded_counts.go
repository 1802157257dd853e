package engine

// The last known numbers of shards that do not serve. The numbers of a queue are the sums over its shards. Without the last
// known ones, they would fall while a shard moves or its node is dead. Then an autoscaler would stop workers that are needed
// a moment later.
//
//	every second     each server keeps the numbers of its shards ─► its next beat carries them to the other nodes
//	someone asks     the numbers of shards that serve + the newest that this server or a peer kept of the others
//
// No file and no journal has these numbers: the catalogue of a cluster is a journal that keeps every change.

import (
	"sync"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/sdk/api"
)

// peerCounts is the most shards whose numbers go to the other nodes. Each beat of a node carries them, in at most cluster.MaxNote bytes.
const peerCounts = 200

// LastCounts are the last known numbers of a shard: those in the list of kept, and whether the shard was empty.
type LastCounts struct {
	Stats api.Stats
	At    queue.Time // when they were so, by the clock of this server

	created queue.Time // when the shard was created: a later one with its id is another one
}

// kept lists the numbers that are worth keeping: how much work there is. Totals are not, as they begin again with each start.
// Beats carry the numbers in this order between nodes of different versions, so a new number has to be the last.
func kept(s *api.Stats) []*uint64 {
	return []*uint64{&s.SubmissionsOpen, &s.Ready, &s.Waiting, &s.Retrying, &s.Reserved, &s.Paused, &s.Blocked, &s.Done, &s.Skipped,
		&s.Dead, &s.DeadLetters, &s.OperationsReady}
}

// keptCounts are the last known numbers of the shards that this server serves or has served, by number less one.
type keptCounts struct {
	mu   sync.Mutex
	list [queue.MaxQueueShards]LastCounts
}

// keepCounts keeps the numbers of the shards that serve here.
func (x *Sharding) keepCounts() {
	for _, s := range x.all() {
		shards, _ := s.shards()
		now := queue.At(x.of.options.Now())
		for i, q := range shards {
			if q == nil || q.shard.Health() != nil {
				continue
			}
			last := LastCounts{At: now, created: q.created}
			stats := q.shard.Stats().Stats
			for j, to := range kept(&last.Stats) {
				*to = *kept(&stats)[j]
			}
			s.kept.mu.Lock()
			s.kept.list[i] = last
			s.kept.mu.Unlock()
		}
	}
}

// all are the queues of several shards.
func (x *Sharding) all() (list []*Sharded) {
	x.of.mu.RLock()
	defer x.of.mu.RUnlock()
	for _, s := range x.sharded {
		list = append(list, s)
	}
	return list
}

// countsForPeers are the numbers for the other nodes, of at most so many shards. The first number is the time when the shard was created.
func (x *Sharding) countsForPeers(most int) map[queue.ShardID][]uint64 {
	counts := map[queue.ShardID][]uint64{}
	for _, s := range x.all() {
		shards, _ := s.shards()
		s.kept.mu.Lock()
		for i, q := range shards {
			if last := &s.kept.list[i]; q != nil && last.At > 0 && len(counts) < most {
				counts[q.id] = []uint64{uint64(last.created)}
				for _, n := range kept(&last.Stats) {
					counts[q.id] = append(counts[q.id], *n)
				}
			}
		}
		s.kept.mu.Unlock()
	}
	return counts
}

// LastCounts are the newest numbers of a shard that this server or another node has kept. false: no one has any.
func (x *Sharding) LastCounts(queueName string, number int) (last LastCounts, known bool) {
	s := x.whole(queueName)
	if s == nil {
		return last, false
	}
	s.kept.mu.Lock()
	last = s.kept.list[number-1]
	s.kept.mu.Unlock()
	if rows := s.e.nodes.queues(); rows != nil && rows.byName[s.rows[number-1]] != nil {
		row := rows.byName[s.rows[number-1]]
		if far := s.e.nodes.countsOfPeers(row); far.At > last.At || last.created != row.Created {
			last = far
		}
	}
	if last.Stats.SubmissionsOpen == 0 {
		last.Stats.Empty = 1
	}
	return last, last.At > 0
}

// countsOfPeers are the newest numbers of a shard that came with the beat of a node. At 0: there are none.
func (n *Nodes) countsOfPeers(row *store.QueueRow) (last LastCounts) {
	view, now := n.node.View(), n.e.options.Now()
	for i := range view.Peers {
		numbers := view.Peers[i].Counts[row.Shard]
		at := queue.At(now.Add(-n.node.Age(&view, view.Peers[i].Name)))
		if len(numbers) == 0 || numbers[0] != uint64(row.Created) || at <= last.At {
			continue
		}
		last = LastCounts{At: at, created: row.Created}
		to := kept(&last.Stats)
		for j := range min(len(to), len(numbers)-1) {
			*to[j] = numbers[j+1]
		}
	}
	return last
}
