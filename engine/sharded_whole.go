package engine

import "github.com/quern-queue/quern/engine/queue"

// The HTTP face asks these questions before it divides a call about a queue of several shards into calls about its shards. The first two
// answers are the same on every node of a cluster. Only the node that serves the queue as a whole knows the others (ServesWhole).

// ShardsOf is how many shards a queue has; 0: it has only one, or there is none of this name.
func (x *Sharding) ShardsOf(name string) int {
	if x.of == nil { // the engine is not open
		return 0
	}
	if s := x.whole(name); s != nil {
		return int(s.count.Load())
	}
	return 0
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

// whole is a queue of several shards; nil: there is none of this name.
func (x *Sharding) whole(name string) *Sharded {
	x.of.mu.RLock()
	defer x.of.mu.RUnlock()
	return x.sharded[name]
}

// ShardOfGroup is the number of the shard that has a group. A new group gets a shard now: the one of this number, or the one with least to
// do if that is 0. "" is no group, and goes to the first.
func (x *Sharding) ShardOfGroup(name, group string, wanted int) (number int, err error) {
	s := x.whole(name)
	if s == nil {
		return 1, nil // it has just left this node, and the first shard says so
	}
	if settings, err := s.settings(); err != nil || s.groups.of(group) == 0 && settings.GroupMustExist {
		return 1, err // the shard says that no one created the group
	}
	if err := s.place([]string{group}, wanted); err != nil {
		return 0, err
	}
	return s.groups.of(group), nil
}
