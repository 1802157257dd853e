package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/cluster/member"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/sdk/api"
)

// This file has a node's knowledge of the queues that other nodes serve. It follows the catalogue that all nodes share.

// knownQueues are all queues of the catalogue, also those that other nodes serve.
type knownQueues struct {
	byName  map[string]*store.QueueRow
	byShard map[queue.ShardID]*store.QueueRow
}

// others are the queues that are not served here, and not in quarantine. The caller holds Engine.mu.
func (n *Nodes) others() (list []*store.QueueRow) {
	if n == nil {
		return nil
	}
	for shard, row := range n.known.Load().byShard {
		if n.e.shards[shard] == nil && !n.e.quarantine.has(shard) {
			list = append(list, row)
		}
	}
	return list
}

// row is a queue by its name; nil: there is none, or no cluster.
func (k *knownQueues) row(name string) *store.QueueRow {
	if k == nil {
		return nil
	}
	whole, number := queue.CutShard(name)
	if first := k.byName[whole]; number == 1 && first != nil && first.Settings.Shards > 1 {
		return first
	}
	return k.byName[name]
}

// queues are all that the cluster has; nil: there is no cluster.
func (n *Nodes) queues() *knownQueues {
	if n == nil {
		return nil
	}
	return n.known.Load()
}

// refresh reads the queues from the catalogue.
func (n *Nodes) refresh() error {
	if n == nil {
		return nil
	}
	rows, err := n.e.catalogue.Queues()
	if err != nil {
		return err
	}
	known := &knownQueues{map[string]*store.QueueRow{}, map[queue.ShardID]*store.QueueRow{}}
	for i := range rows {
		known.byName[rows[i].Name], known.byShard[rows[i].Shard] = &rows[i], &rows[i]
	}
	n.known.Store(known)
	return n.divide(known)
}

// Elsewhere is the cause of an error about a queue that this node of a cluster does not serve. It names the node that does.
type Elsewhere struct {
	Queue string
	Node  string // "": no node does at this moment
	URL   string

	Arriving bool // this node is about to serve it
}

func (e *Elsewhere) Error() string {
	if e.Node == "" {
		return "no node of the cluster serves the queue at this moment"
	}
	return fmt.Sprintf("node %s serves the queue, at %s", e.Node, e.URL)
}

// Elsewhere names the node that serves a queue; nil: this one does, or there is no such queue. If it does not know the name, it waits for
// the database, for a second at most: another node may have created the queue just now.
func (n *Nodes) Elsewhere(name string) *Elsewhere { return n.Lookup().Queue(name) }

// ElsewhereOf is Elsewhere for the queue of a submission.
func (n *Nodes) ElsewhereOf(id queue.SubmissionID) *Elsewhere { return n.Lookup().Submission(id) }

// Lookup finds the nodes of queues for one call. However many queues it does not know, it waits for the database once.
type Lookup struct {
	n      *Nodes
	waited bool
}

// Lookup begins the lookups of one call.
func (n *Nodes) Lookup() *Lookup { return &Lookup{n: n} }

// Queue is Nodes.Elsewhere.
func (l *Lookup) Queue(name string) *Elsewhere {
	if name == "" {
		return nil
	}
	row := l.row(func(known *knownQueues) *store.QueueRow { return known.row(name) })
	if row == nil && name == DefaultQueue {
		return &Elsewhere{Queue: name} // the first node of all creates it in a moment
	}
	return l.n.elsewhere(row)
}

// Submission is Nodes.ElsewhereOf.
func (l *Lookup) Submission(id queue.SubmissionID) *Elsewhere {
	return l.n.elsewhere(l.row(func(known *knownQueues) *store.QueueRow { return known.byShard[id.Shard()] }))
}

func (l *Lookup) row(of func(*knownQueues) *store.QueueRow) *store.QueueRow {
	row := of(l.n.known.Load())
	if row != nil || l.waited {
		return row
	}
	l.waited = true
	if err := l.n.catchUp(); err != nil {
		return nil
	}
	return of(l.n.known.Load())
}

// catchUp takes over the changes of other nodes in the catalogue up to this moment.
func (n *Nodes) catchUp() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	if err := n.e.catalogue.CatchUp(ctx); err != nil {
		return err
	}
	return n.refresh()
}

// CatchUp takes over all changes of other nodes in the catalogue up to this moment.
func (n *Nodes) CatchUp() error {
	if n == nil {
		return nil
	}
	if err := n.catchUp(); err != nil {
		return err
	}
	n.changed()
	return nil
}

// CatalogueOf is how far a node knows the catalogue of its cluster; 0: there is no cluster.
func CatalogueOf(n *Nodes) uint64 {
	if n == nil {
		return 0
	}
	return store.Position(n.e.catalogue)
}

// CatchUpTo returns when a node knows the catalogue as far as another node did, or when the database does not answer for a second. A call
// that the other node sends on depends on what that node knew: on a token, a plugin, a queue, or the shard of a group.
func CatchUpTo(n *Nodes, position uint64) {
	if n == nil || n.heard.Load() >= position {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	select {
	case n.hearing <- struct{}{}: // the next call often finds that this one has caught up for it
		defer func() { <-n.hearing }()
	case <-ctx.Done():
		return
	}
	if n.heard.Load() < position && n.e.catalogue.CatchUp(ctx) == nil {
		n.changed()
	}
}

// elsewhere names the node that serves a queue that this node does not serve, or may not at this moment; nil: this node does, or there is
// no queue.
func (n *Nodes) elsewhere(row *store.QueueRow) *Elsewhere {
	switch {
	case row == nil:
		return nil
	case !n.serves(row.Shard):
		at := n.owner(row.Shard, row.Name)
		if at.Node == "" { // a queue that was just created has an owner that the last beat did not see
			n.node.Seek()
		}
		at.Arriving = n.arriving(row.Shard)
		return at
	case !n.node.Own(row.Shard): // another node may have it by now
		return &Elsewhere{Queue: row.Name}
	}
	return nil
}

// Has says that there is a queue of this name, on any node.
func (n *Nodes) Has(name string) bool { return n.known.Load().row(name) != nil }

// Coordinator says who creates queues, if this node of a cluster does not.
func (n *Nodes) Coordinator() *Elsewhere {
	if n.node.Own(member.Coordinator) {
		return nil
	}
	return n.owner(member.Coordinator, "")
}

// HopKey is the key with which the nodes of a cluster prove to each other that they are nodes.
func (n *Nodes) HopKey() []byte { return n.hopKey }

// Speak has this node speak with the others. It is called before Run.
func (n *Nodes) Speak(with Neighbours) {
	if n != nil {
		n.neighbours = with
	}
}

// sendsTo is the letterbox of a queue that another node serves; nil: none does, or it is not known how to reach it.
func (n *Nodes) sendsTo(name string) Letterbox {
	if n == nil || n.neighbours == nil {
		return nil
	}
	if at := n.Elsewhere(name); at != nil && at.Node != "" {
		return n.neighbours.Letterbox(at.URL, name)
	}
	return nil
}

// serves says that the queue of a shard is open here, or in quarantine.
func (n *Nodes) serves(id queue.ShardID) bool {
	n.e.mu.RLock()
	defer n.e.mu.RUnlock()
	return n.e.shards[id] != nil || n.e.quarantine.has(id)
}

// keep keeps a queue from moving and from being opened until release is called. It fails if one of these has begun already.
func (n *Nodes) keep(row store.QueueRow) (release func(), err error) {
	if n == nil {
		return func() {}, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.busy[row.Shard] {
		return nil, n.refusal(&row)
	}
	n.busy[row.Shard] = true
	return func() {
		n.mu.Lock()
		delete(n.busy, row.Shard)
		n.mu.Unlock()
		n.looked()
	}, nil
}

// arriving says that a shard is prepared here, or just being opened. While it is being prepared, which may take long, its owner serves it.
func (n *Nodes) arriving(shard queue.ShardID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.prepared[shard] != nil || n.busy[shard] && n.node.Epoch(shard) > 0
}

// owner is who owns a shard as far as this node knows.
func (n *Nodes) owner(shard queue.ShardID, name string) *Elsewhere {
	view := n.node.View()
	owner := view.Owners[shard].Node
	peer, there := view.Peer(owner)
	if !there || owner == n.node.Name || !view.Live(owner) {
		return &Elsewhere{Queue: name}
	}
	return &Elsewhere{Queue: name, Node: peer.Name, URL: peer.URL}
}

// missing refuses a submission whose queue is not served here. The caller holds Engine.mu.
func (n *Nodes) missing(aside quarantine, id queue.SubmissionID) error {
	if known := n.queues(); known != nil && known.byShard[id.Shard()] != nil && !aside.has(id.Shard()) {
		return n.refusal(known.byShard[id.Shard()])
	}
	return aside.missing(id)
}

func (n *Nodes) refusal(row *store.QueueRow) error {
	cause := n.owner(row.Shard, row.Name)
	return &queue.Error{Code: queue.CodeMoving, Err: cause,
		Message: fmt.Sprintf("This node does not serve the queue %q: %s. Send this again in a moment.", row.Name, cause)}
}

// follow takes over the changes of other nodes in the catalogue, until ctx ends.
func (n *Nodes) follow(ctx context.Context) {
	for ctx.Err() == nil {
		err := n.e.catalogue.Follow(ctx, n.changed)
		if err != nil && ctx.Err() == nil {
			n.e.options.Logger.Warn("the catalogue of the cluster cannot be followed; the server tries again", "error", err)
			pause(ctx, time.Second)
		}
	}
}

// changed takes over a change of another node in the catalogue.
func (n *Nodes) changed() {
	n.looked()
	at := store.Position(n.e.catalogue)
	err := errors.Join(n.e.tokens.reload(), n.refresh())
	if n.e.options.Changed != nil {
		err = errors.Join(err, n.e.options.Changed())
	}
	if err != nil {
		n.e.options.Logger.Warn("what another node has changed in the catalogue could not be taken over; it is tried with the next change",
			"error", err)
		return
	}
	for was := n.heard.Load(); was < at && !n.heard.CompareAndSwap(was, at); was = n.heard.Load() {
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// ready reads a queue of the cluster, whose journal another node may still have.
func (n *Nodes) ready(ctx context.Context, row store.QueueRow) (*preparedQueue, error) {
	if err := n.e.catalogue.CatchUp(ctx); err != nil { // it has what the owner has put into the audit log
		return nil, err
	}
	id := n.e.identity.ForShard(row.Shard)
	id.Newest = id.Generation // its files may have been opened in this life
	if err := n.e.home.prepare(ctx, row, id); err != nil {
		return nil, err
	}
	return n.e.prepareQueue(ctx, row, id)
}

// serve claims the journal of a queue that this node has the lease of. ready is what was prepared; nil: nothing was.
func (n *Nodes) serve(ctx context.Context, row store.QueueRow, ready *preparedQueue) (*Queue, error) {
	if ready != nil {
		err := ready.prepared.CatchUp(ctx)
		if err == nil {
			return ready.claim(ctx)
		}
		// Most likely the queue was prepared too long ago, and the journal is trimmed since. Whatever the reason, it is prepared again.
		if err := errors.Join(ready.discard(), ctx.Err()); err != nil {
			return nil, err
		}
	}
	ready, err := n.ready(ctx, row)
	if errors.Is(err, cluster.ErrNoJournal) { // the node that deleted it did not come to the catalogue
		n.e.options.Logger.Info("the deletion of a queue is ended", "queue", row.Name, "shard", row.Shard)
		return nil, errors.Join(err, dropQueue(ctx, n.e, row), n.e.home.forget(row), n.refresh())
	}
	if err != nil {
		return nil, err
	}
	return ready.claim(ctx)
}

// putInQuarantine has the node refuse calls to a queue whose journal or blobs are damaged, as long as it owns the queue.
func (n *Nodes) putInQuarantine(row store.QueueRow, reason error) {
	e := n.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.quarantine.has(row.Shard) {
		return
	}
	row.Quarantined = queue.At(e.options.Now())
	e.quarantine = append(e.quarantine, quarantined{row, reason})
	e.options.Logger.Error("a queue is in quarantine: its calls are refused, and the other queues serve. Restore a backup, or delete the "+
		"queue; the server tries again", "queue", row.Name, "error", reason)
}

// check says whether this node has a place in the cluster.
func (n *Nodes) check() Check {
	left := n.node.Left()
	check := Check{Check: api.Check{Name: "cluster", OK: left > 0, Detail: "its beats reach the database"}}
	if left <= 0 {
		check.Detail = fmt.Sprintf("no beat has reached the database for so long that the leases ended %s ago: queues of this node answer "+
			"503, and other nodes may take them over", (-left).Round(time.Second))
	}
	return check
}

// owning is how this server may own a shard.
func (n *Nodes) owning(id queue.ShardID) shard.Owner {
	if n == nil {
		return shard.Owner{}
	}
	return shard.Owner{Own: func() bool { return n.node.Own(id) }, Patience: member.Patience}
}

// taken are the shard numbers that queues of other nodes have. For a further shard of a queue, they also include those with a live owner
// elsewhere, which another node may be about to give to a queue, and the one that stands for the coordinator.
func (n *Nodes) taken(further bool) map[queue.ShardID]bool {
	taken := map[queue.ShardID]bool{}
	for _, row := range n.others() {
		taken[row.Shard] = true
	}
	if n == nil || !further {
		return taken
	}
	view := n.node.View()
	for id, owner := range view.Owners {
		taken[id] = taken[id] || owner.Node != n.node.Name && view.Live(owner.Node)
	}
	taken[member.Coordinator] = true
	return taken
}

// begin takes the lease of a new queue. Only the coordinator makes queues, so no other node takes this number. The node that
// serves a queue makes its further shards: of two nodes that take the same number, one fails.
func (n *Nodes) begin(ctx context.Context, row *store.QueueRow) error {
	if n == nil {
		return nil
	}
	if err := vacate(ctx, n, row.Shard); err != nil {
		return err
	}
	_, number := queue.CutShard(row.Name)
	switch {
	case number > 1:
		err := n.node.TakeFree(ctx, row.Shard)
		if errors.Is(err, cluster.ErrNewerOwner) {
			err = &queue.Error{Code: queue.CodeMoving, Err: err, Message: "Another node has just taken the number of the new " +
				"shard. Nothing was done to the queue: send this again in a moment."}
		}
		return err
	case !n.node.Own(member.Coordinator):
		return &queue.Error{Code: queue.CodeMoving, Err: n.Coordinator(),
			Message: "This node does not create queues: another one of the cluster does. Send this again in a moment."}
	}
	return n.node.Take(ctx, row.Shard)
}

// vacate closes what this node has prepared of an earlier queue with a number. It waits a second for what is being opened or closed.
func vacate(ctx context.Context, n *Nodes, shard queue.ShardID) error {
	for waited := time.Duration(0); waited < time.Second && ctx.Err() == nil; waited += seenLook {
		n.mu.Lock()
		ready, busy := n.prepared[shard], n.busy[shard]
		if !busy {
			delete(n.prepared, shard)
		}
		n.mu.Unlock()
		switch {
		case !busy && ready != nil:
			return ready.discard()
		case !busy:
			return nil
		}
		pause(ctx, seenLook)
	}
	return &queue.Error{Code: queue.CodeMoving, Message: "The number of the new queue was that of a deleted one, which this node is just " +
		"closing. Nothing was done. Send this again in a moment."}
}

// end makes sure that no node takes a queue over any more, before the queue is taken out of the catalogue. It fails if another node may
// have claimed the queue already: a claim appends to the journal, so either the claim or the deletion of the journal is refused.
func (n *Nodes) end(ctx context.Context, row *store.QueueRow) error {
	if n == nil {
		return nil
	}
	// A caller that goes away must not leave it open whether the journal is there.
	err := n.e.options.Cluster.Backend.DeleteJournal(context.WithoutCancel(ctx), shardJournal(row),
		func() bool { return n.node.Own(row.Shard) })
	if errors.Is(err, journal.ErrConflict) {
		err = &queue.Error{Code: queue.CodeMoving, Err: err, Message: "Another node may have the queue by now. Nothing was done: send " +
			"this again in a moment."}
	}
	return err
}

// makeDefault creates the default queue, if there is none. This node is the coordinator.
func (n *Nodes) makeDefault(ctx context.Context) error {
	if err := errors.Join(n.e.catalogue.CatchUp(ctx), n.refresh()); err != nil || n.known.Load().byName[DefaultQueue] != nil {
		return err
	}
	_, _, err := n.e.PutQueue(ctx, DefaultQueue, queue.DefaultSettings())
	return err
}
