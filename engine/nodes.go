package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/cluster/member"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// Nodes is the part of a node that deals with its cluster. It keeps the queues that it serves in line with its leases: it claims, opens,
// hands over and closes them, as member.Decide says. At most one goroutine at a time is busy with a shard. It is nil in a server that is
// alone.
type Nodes struct {
	e    *Engine
	node *member.Member
	wake chan struct{}

	neighbours Neighbours                  // nil: this node does not speak with others
	hopKey     []byte                      // with which nodes prove to each other that they are nodes
	known      atomic.Pointer[knownQueues] // all queues of the catalogue, also those that other nodes serve
	heard      atomic.Uint64               // all parts of this node know the catalogue up to this position
	hearing    chan struct{}               // has room for the one call that catches up

	mu       sync.Mutex
	leaving  bool
	busy     map[queue.ShardID]bool
	prepared map[queue.ShardID]*preparedQueue // of other nodes, which offer them
	since    map[queue.ShardID]time.Duration  // when this node was first seen to own a shard
	orphans  map[queue.ShardID]time.Duration  // when a shard was first seen without an owner that lives
	failed   map[queue.ShardID]time.Duration  // when opening it failed last
	asked    map[queue.ShardID]string         // where operators want shards to go
	running  sync.WaitGroup
}

// openAgain is the pause before a queue that could not be opened is opened again.
const openAgain = time.Second

func newNodes(e *Engine, node *member.Member) *Nodes {
	return &Nodes{e: e, node: node, wake: make(chan struct{}, 1), hearing: make(chan struct{}, 1), busy: map[queue.ShardID]bool{},
		prepared: map[queue.ShardID]*preparedQueue{}, since: map[queue.ShardID]time.Duration{},
		orphans: map[queue.ShardID]time.Duration{}, failed: map[queue.ShardID]time.Duration{}, asked: map[queue.ShardID]string{}}
}

// looked has the next step come at once.
func (n *Nodes) looked() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// always makes steps until ctx ends.
func (n *Nodes) always(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			n.running.Wait()
			return
		case <-n.wake:
		case <-n.node.Looked:
		}
		if err := n.step(ctx); err != nil && ctx.Err() == nil {
			n.e.options.Logger.Warn("the queues of the cluster cannot be read; the server tries again", "error", err)
		}
	}
}

// step decides the next actions, announces them to other nodes, and starts them.
func (n *Nodes) step(ctx context.Context) error {
	if err := n.refresh(); err != nil {
		return err
	}
	rows := n.known.Load().byShard
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.situation(rows)
	plan := member.Decide(s)
	hurried := n.leaving || len(plan.Offers)+len(plan.Prepare)+len(plan.Wants) > 0
	counts := n.e.countsForPeers(peerCounts)
	n.node.Tell(hurried, func(note *member.Note) {
		note.Load, note.Offers, note.Wants, note.Counts = plan.Load, plan.Offers, plan.Wants, counts
	})
	for shard, to := range plan.Give {
		n.start(ctx, shard, func() error { return n.give(ctx, rows[shard], shard, to) })
	}
	for _, shard := range plan.Claim {
		n.start(ctx, shard, func() error { return n.claim(ctx, s.View, rows[shard], shard) })
	}
	for _, shard := range plan.Prepare {
		n.start(ctx, shard, func() error { return n.prepare(ctx, rows[shard]) })
	}
	for shard := range s.Held {
		if row := rows[shard]; row != nil && n.e.shardOf(shard) == nil {
			n.start(ctx, shard, func() error { return n.open(ctx, row) })
		}
	}
	n.tidy(ctx, s, plan)
	n.gather(ctx)
	return nil
}

// situation is what Decide looks at. The caller holds n.mu.
func (n *Nodes) situation(rows map[queue.ShardID]*store.QueueRow) *member.Situation {
	now, view := n.node.Now(), n.node.View()
	s := &member.Situation{Name: n.node.Name, Leaving: n.leaving, View: &view,
		Shards: append(slices.Sorted(maps.Keys(rows)), member.Coordinator), Held: map[queue.ShardID]time.Duration{},
		Ready: map[queue.ShardID]bool{member.Coordinator: true}, Load: map[queue.ShardID]float64{},
		Orphans: map[queue.ShardID]time.Duration{}, Asked: n.asked}
	for _, shard := range s.Shards {
		if n.node.Epoch(shard) == 0 {
			delete(n.since, shard)
			continue
		}
		if n.since[shard] == 0 {
			n.since[shard] = now
		}
		s.Held[shard] = now - n.since[shard]
		if q := n.e.shardOf(shard); q != nil {
			s.Load[shard] = q.load()
		}
	}
	for shard := range n.prepared {
		s.Ready[shard] = true
	}
	orphans := map[queue.ShardID]time.Duration{}
	for _, shard := range s.Orphaned() {
		orphans[shard] = cmp.Or(n.orphans[shard], now)
		s.Orphans[shard] = now - orphans[shard]
	}
	n.orphans = orphans
	return s
}

// load is how many thousand chunks a second were reserved.
func (q *Queue) load() float64 {
	return q.pace.perSecond(queue.At(q.e.options.Now()), q.shard.Stats().ReservedTotal) / 1000
}

// tidy closes the queues that this node serves without owning them, and those that it prepared in advance and no longer needs. The caller
// holds n.mu.
func (n *Nodes) tidy(ctx context.Context, s *member.Situation, plan *member.Plan) {
	for _, q := range n.e.all() {
		switch {
		case n.node.Epoch(q.id) == 0:
			n.start(ctx, q.id, func() error { return n.drop(q) })
		case queue.CodeOf(q.shard.Health()) == queue.CodeMoved: // the journal says so, whatever the leases say
			n.start(ctx, q.id, func() error {
				n.node.Drop(q.id)
				return n.drop(q)
			})
		}
	}
	for shard, q := range n.prepared {
		if !slices.Contains(plan.Wants, shard) && !slices.Contains(plan.Claim, shard) && s.Held[shard] == 0 && !n.busy[shard] {
			delete(n.prepared, shard)
			n.start(ctx, shard, q.discard)
		}
	}
	for shard, to := range n.asked {
		if _, held := s.Held[shard]; !held || to == n.node.Name {
			delete(n.asked, shard)
		}
	}
}

// start starts a goroutine for a shard, unless another one is busy with that shard. The caller holds n.mu.
func (n *Nodes) start(ctx context.Context, shard queue.ShardID, do func() error) {
	now := n.node.Now()
	if failed, did := n.failed[shard]; n.busy[shard] || did && now-failed < openAgain {
		return
	}
	n.busy[shard] = true
	n.running.Go(func() {
		err := do()
		n.mu.Lock()
		delete(n.busy, shard)
		if delete(n.failed, shard); err != nil {
			n.failed[shard] = n.node.Now()
		}
		n.mu.Unlock()
		if err != nil && ctx.Err() == nil && !errors.Is(err, cluster.ErrNewerOwner) {
			n.e.options.Logger.Warn("a queue could not change its node; the server tries again", "shard", shard, "error", err)
		}
		n.looked() // there may be something to do that waited for this
	})
}

// claim takes a shard that no other node can own, and opens its queue.
func (n *Nodes) claim(ctx context.Context, seen *member.View, row *store.QueueRow, shard queue.ShardID) error {
	if err := n.node.Claim(ctx, seen, shard); err != nil {
		return err
	}
	if shard == member.Coordinator {
		return n.makeDefault(ctx)
	}
	return n.open(ctx, row)
}

// prepare reads all data of a queue, while its owner goes on.
func (n *Nodes) prepare(ctx context.Context, row *store.QueueRow) error {
	q, err := n.ready(ctx, *row)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.prepared[row.Shard] = q
	n.mu.Unlock()
	return nil
}

// open has a queue served here. This node owns it.
func (n *Nodes) open(ctx context.Context, row *store.QueueRow) error {
	n.mu.Lock()
	ready := n.prepared[row.Shard]
	delete(n.prepared, row.Shard)
	n.mu.Unlock()
	began := time.Now()
	if err := n.refresh(); err != nil {
		return err
	}
	if now := n.known.Load().byShard[row.Shard]; now == nil || now.Created != row.Created { // it was deleted meanwhile
		return nil
	}
	q, err := n.serve(ctx, *row, ready)
	if queue.CodeOf(err) == queue.CodeMoved { // another node was faster with the journal
		n.node.Drop(row.Shard)
	}
	if damage, is := errors.AsType[*queue.FormatError](err); is && !damage.Unread {
		n.putInQuarantine(*row, err)
	}
	if err != nil {
		return err
	}
	n.e.mu.change(func() {
		n.e.quarantine = n.e.quarantine.without(q.id)
		n.e.register(q)
	})
	n.e.options.Logger.Info("this node serves a queue", "queue", row.Name, "shard", row.Shard, "lease", n.node.Epoch(row.Shard),
		"prepared", ready != nil, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// give closes a queue, saves its reservations, and makes another node its owner.
func (n *Nodes) give(ctx context.Context, row *store.QueueRow, shard queue.ShardID, to string) error {
	var err error
	if q := n.e.shardOf(shard); q != nil {
		err = n.drop(q)
	}
	n.mu.Lock()
	delete(n.asked, shard)
	n.mu.Unlock()
	given := n.node.Give(context.WithoutCancel(ctx), shard, to)
	if given == nil && row != nil {
		n.e.options.Logger.Info("this node gave a queue to another one", "queue", row.Name, "shard", shard, "node", to)
	}
	n.node.Hasten()
	return errors.Join(err, given)
}

// drop stops serving a queue here. Calls that wait are answered that it moves.
func (n *Nodes) drop(q *Queue) error {
	n.e.mu.Lock()
	if n.e.queues[q.name] == q {
		delete(n.e.queues, q.name)
		delete(n.e.shards, q.id)
	}
	n.e.mu.Unlock()
	n.e.metrics.forget(q.name)
	return q.close()
}

// close closes prepared queues. No step is made any more.
func (n *Nodes) close() (err error) {
	for shard, q := range n.prepared {
		delete(n.prepared, shard)
		err = errors.Join(err, q.discard())
	}
	return err
}

// HandOver gives all queues of this node to others, while the engine runs and calls are answered. It returns when all are given, when no
// other node takes any, or when ctx ends.
func (n *Nodes) HandOver(ctx context.Context) {
	if n == nil {
		return
	}
	n.mu.Lock()
	n.leaving = true
	n.mu.Unlock()
	n.node.Leaving()
	n.looked()
	ctx, done := context.WithCancel(ctx)
	defer done()
	every(ctx, handOverLook, func() {
		if n.nothingLeft() {
			done()
		}
	})
}

// handOverLook is how often a node that leaves looks whether it has given everything away.
const handOverLook = 20 * time.Millisecond

// nothingLeft says that this node serves nothing, or that there is no one to take it.
func (n *Nodes) nothingLeft() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	view := n.node.View()
	return len(n.e.all())+len(n.busy) == 0 || !slices.ContainsFunc(view.Peers, func(peer member.Peer) bool {
		return peer.Name != n.node.Name && !peer.Leaving && view.Live(peer.Name)
	})
}

// moveMost is how long a move may take before its caller gets an answer that it goes on.
const moveMost = 30 * time.Second

// Move has another node of the cluster serve a queue of this one, and waits for that. Reservations, limits and tokens stay valid. Of a
// queue of several shards it moves those of this node. CodeUnavailable: the other node did not get ready in time, and the queue stays here;
// or this one lost it to a third.
func (n *Nodes) Move(ctx context.Context, name, to string) error {
	if n == nil {
		return &queue.Error{Code: queue.CodeConflict, Message: "This server is alone: there is no other node that a queue could move to."}
	}
	work, err := n.e.Work(name)
	if err != nil {
		return err
	}
	s, several := work.(*Sharded)
	if !several {
		return n.moveOne(ctx, work.(*Queue), name, to)
	}
	all, _ := s.shards()
	failed := make([]error, len(all))
	var moving sync.WaitGroup
	for i, q := range all {
		if q != nil {
			moving.Go(func() { failed[i] = n.moveOne(ctx, q, queue.ShardName(name, i+1), to) })
		}
	}
	moving.Wait()
	return errors.Join(failed...)
}

func (n *Nodes) moveOne(ctx context.Context, q *Queue, name, to string) error {
	if to == n.node.Name {
		return nil
	}
	act := n.e.act(ctx, "", "queue.move", name, "")
	act.Change(map[string]string{"node": n.node.Name}, map[string]string{"node": to})
	if err := n.move(ctx, q, to); err != nil {
		return err
	}
	return n.e.catalogue.PutAct(&act)
}

func (n *Nodes) move(ctx context.Context, q *Queue, to string) error {
	ctx, done := context.WithTimeout(ctx, moveMost)
	defer done()
	view := n.node.View()
	peer, there := view.Peer(to)
	if !there || !view.Live(to) { // it may have come just now, or come back
		n.node.Hasten()
		pause(ctx, 2*member.Beat)
		view = n.node.View()
		peer, there = view.Peer(to)
	}
	switch {
	case !there || !view.Live(to):
		return queue.Invalid("/node", "names %q, which is no node of this cluster that lives", clip(to, cluster.MaxName))
	case peer.Leaving:
		return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("Node %s is about to stop, and takes no queues.", to)}
	}
	n.mu.Lock()
	n.asked[q.id] = to
	n.mu.Unlock()
	n.looked()
	taken := ""
	every(ctx, handOverLook, func() {
		if at := n.Elsewhere(askedAs(q)); at != nil && at.Node != "" && at.Node != n.node.Name {
			taken = at.Node
			done()
		}
	})
	if taken == to {
		return nil
	}
	n.mu.Lock()
	delete(n.asked, q.id)
	n.mu.Unlock()
	if taken != "" {
		return &queue.Error{Code: queue.CodeUnavailable,
			Message: fmt.Sprintf("This node lost the queue to node %s before node %s could take it. Move it again.", taken, to)}
	}
	return &queue.Error{Code: queue.CodeUnavailable, Message: fmt.Sprintf("Node %s did not take the queue within %s. It stays where it is.",
		to, moveMost)}
}
