package engine

import "github.com/quern-queue/quern/engine/queue"

// What the HTTP face asks before it divides a call about a queue of several shards into calls about its shards. Both answers
// are the same on every node of a cluster.

// ShardsOf is how many shards a queue has; 0: it has only one, or there is none of this name.
func (x *Sharding) ShardsOf(name string) int {
	if x.of == nil { // the engine is not open
		return 0
	}
	x.of.mu.RLock()
	s := x.sharded[name]
	x.of.mu.RUnlock()
	if s != nil {
		return int(s.count.Load())
	}
	row := x.of.nodes.queues().row(name)
	if _, number := queue.CutShard(name); row == nil || number > 0 || row.Settings.Shards < 2 {
		return 0
	}
	return int(row.Settings.Shards)
}

// NumberIn is the number of the shard of a queue that a submission is in; 0: it is in none of them.
func (x *Sharding) NumberIn(name string, id queue.SubmissionID) int {
	row := ""
	x.of.mu.RLock()
	if q := x.of.shards[id.Shard()]; q != nil {
		row = q.name
	}
	for i := range x.of.quarantine {
		if aside := &x.of.quarantine[i]; aside.Shard == id.Shard() {
			row = aside.Name
		}
	}
	x.of.mu.RUnlock()
	if known := x.of.nodes.queues(); row == "" && known != nil && known.byShard[id.Shard()] != nil {
		row = known.byShard[id.Shard()].Name
	}
	switch whole, number := queue.CutShard(row); {
	case whole != name || row == "":
		return 0
	case number == 0:
		return 1
	default:
		return number
	}
}
