package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/queue"
)

// TTL is how long a node has to be silent before another one may claim its shards. The silence is measured on the clock of the other node.
// A clock may run up to a tenth slower or faster than that of another machine, so an owner stops answering earlier.
const (
	TTL  = 5 * time.Second
	Beat = time.Second
	// Patience is how long an owner waits for one write. A busy database is not gone, and giving up a write would make it busier, because
	// the queue would be read again. Patience still ends before a lease without beats; that is looked at once a second.
	Patience = 3 * time.Second
	own      = TTL * 9 / 10 // how long a beat lets an owner act, from its start
	retry    = 100 * time.Millisecond
)

// Coordinator is a shard that no queue has: the node that owns it creates the queues. The lowest free number is given to a new queue, and
// there are fewer queues than numbers.
const Coordinator = queue.ShardID(queue.MaxShards - 1)

// Options are the options of a member.
type Options struct {
	Leases cluster.Leases
	Name   string               // of this node
	URL    string               // where others reach it
	Since  time.Time            // when it was started; it is only shown
	Now    func() time.Duration // a clock that also runs while the machine sleeps, and is never set
	Logger *slog.Logger
}

// Note is the message of a node to the others, which its beats carry.
type Note struct {
	Since  time.Time                `json:"since"`
	Load   float64                  `json:"load,omitempty"`   // of all shards that it owns
	Offers map[queue.ShardID]string `json:"offers,omitempty"` // shards that it hands over, each to the node that it names
	Wants  []queue.ShardID          `json:"wants,omitempty"`  // shards that it was offered and is ready to claim
	// Left has the claims that a node gives up with its last word, by shard, when it serves nothing any more. The last word may arrive
	// after the node was started again and has claimed a shard with a newer epoch.
	Left map[queue.ShardID]uint32 `json:"left,omitempty"`
	Done bool                     `json:"done,omitempty"` // it has said its last word
	// Counts are numbers of the shards that it serves, which the others use when it no longer serves them. They change all the time, so
	// they hasten no beat.
	Counts map[queue.ShardID][]uint64 `json:"counts,omitempty"`
}

// Peer is a node as others see it.
type Peer struct {
	cluster.Node
	Note
}

// Member is one node's place in a cluster: it beats, it knows which shards it owns, and until when it may act as their owner. Its methods
// may be called from several goroutines at once.
type Member struct {
	Options
	Looked chan struct{} // has room for one: there was a beat that succeeded
	beats  chan struct{} // asks for a beat at once
	until  atomic.Int64  // an owner may act until then, in nanoseconds of Now
	held   [queue.MaxShards]atomic.Uint32

	mu      sync.Mutex
	counter uint64
	leaving bool
	hurried bool // handovers are under way: beats come fast
	note    Note
	beaten  time.Duration // when the last beat that succeeded began
	broken  bool          // the last beat failed
	seen    sights
	began   time.Duration
	view    View
}

// New is a member that no other node knows of yet.
func New(o Options) *Member {
	return &Member{Options: o, Looked: make(chan struct{}, 1), beats: make(chan struct{}, 1), counter: uint64(rand.Uint32()) << 32,
		seen: sights{}, began: o.Now(), note: Note{Since: o.Since}}
}

// Own says that no other node can own the shard at this moment. It does not wait.
func (m *Member) Own(shard queue.ShardID) bool {
	return m.held[shard].Load() > 0 && m.Now() < time.Duration(m.until.Load())
}

// Epoch is that of the lease of a shard; 0: this node does not own it.
func (m *Member) Epoch(shard queue.ShardID) uint32 { return m.held[shard].Load() }

// Left is how long this node may still act as an owner without another beat; 0 or less: it may not.
func (m *Member) Left() time.Duration { return time.Duration(m.until.Load()) - m.Now() }

// View is what a node knows of the others as of its last beat that succeeded.
type View struct {
	Peers  []Peer // by name, this node too
	Owners map[queue.ShardID]cluster.Owner
	Silent map[string]bool          // owners and peers that may be dead: no one saw them beat for TTL
	Beats  map[string]bool          // peers whose counter was seen to change, not only to be there
	Last   map[string]time.Duration // when the present counter of each peer was first seen, by the clock of this node
}

// Peer finds a node by its name.
func (v *View) Peer(name string) (Peer, bool) {
	at, found := slices.BinarySearchFunc(v.Peers, name, func(p Peer, name string) int { return strings.Compare(p.Name, name) })
	if !found {
		return Peer{}, false
	}
	return v.Peers[at], true
}

// Live is a node that beats.
func (v *View) Live(name string) bool {
	p, there := v.Peer(name)
	return there && !p.Done && !v.Silent[name]
}

// Age is how long ago this node saw the last heartbeat of a peer.
func (m *Member) Age(view *View, name string) time.Duration { return m.Now() - view.Last[name] }

// LeaseOf is how long a peer may still act as an owner without another beat, as far as this node can tell; below 0 it may not.
func (m *Member) LeaseOf(view *View, name string) time.Duration { return own - m.Age(view, name) }

// View is as of the last beat. The caller must not change it.
func (m *Member) View() View {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view
}

// Tell changes the note of this node. The next beat carries it, and comes soon. Hurried beats come ten times as often.
func (m *Member) Tell(hurried bool, change func(*Note)) {
	m.mu.Lock()
	before := m.note.pressing()
	change(&m.note)
	soon := before != m.note.pressing()
	m.hurried = hurried
	m.mu.Unlock()
	if soon {
		m.Hasten()
	}
}

// Hasten makes the next beat come at once.
func (m *Member) Hasten() { notify(m.beats) }

// Seek makes the next beat come at once, for a caller that waits for an owner that this node does not know yet. However often callers ask,
// such beats come no faster than hurried ones.
func (m *Member) Seek() {
	m.mu.Lock()
	due := !m.broken && m.Now()-m.beaten >= retry
	m.mu.Unlock()
	if due {
		m.Hasten()
	}
}

// notify puts something into a channel that has room for one.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pressing is the part of a note that the others are to learn at once.
func (n Note) pressing() string {
	n.Counts = nil
	return n.text()
}

func (n *Note) text() string {
	text, err := json.Marshal(n)
	if err != nil {
		panic(err) // all its fields can be written
	}
	return string(text)
}

// Join waits until no other node has this one's name: a node that seems to have ended without leaving may only stand still. It is an error
// if another node of the same name still beats. From then on Run beats.
func (m *Member) Join(ctx context.Context) error {
	for changes := -1; ; { // the first look is no change
		asked := m.Now()
		within, stop := context.WithTimeout(ctx, TTL)
		nodes, err := m.Leases.Nodes(within)
		stop()
		if err == nil {
			now := m.Now()
			m.seen.look(now, nodes)
			s, there := m.seen[m.Name]
			if !there || s.missing || noteOf(&s.node).Done || m.seen.silent(m.Name, asked, m.began, TTL) {
				return nil
			}
			if s.since == now {
				changes++
			}
			if changes == changesMost {
				return fmt.Errorf("a node with the name %q is running: give this one another with --node", m.Name)
			}
		} else if ctx.Err() == nil {
			m.Logger.Warn("the nodes of the cluster cannot be read; the server tries again", "error", err)
		}
		if err := pause(ctx, Beat); err != nil {
			return err
		}
	}
}

// changesMost is how many beats of another node with the same name show that it runs: one beat of a node that has ended may come late.
const changesMost = 3

// Run beats until ctx ends.
func (m *Member) Run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := Beat
		if m.beat(ctx) != nil {
			wait = retry
		} else {
			notify(m.Looked)
		}
		m.mu.Lock()
		if m.hurried {
			wait = retry
		}
		m.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-m.beats:
		}
		timer.Stop()
	}
}

// beat says that this node lives, and reads the notes of the others.
func (m *Member) beat(ctx context.Context) error {
	m.mu.Lock()
	began := m.Now()
	m.counter++
	node := cluster.Node{Name: m.Name, URL: m.URL, Counter: m.counter, Leaving: m.leaving, Note: m.note.text()}
	m.mu.Unlock()
	asked, stop := context.WithTimeout(ctx, TTL)
	defer stop()
	err := m.Leases.Beat(asked, node)
	var nodes []cluster.Node
	var owners map[queue.ShardID]cluster.Owner
	if err == nil {
		owners, err = m.Leases.Owners(asked)
	}
	if err == nil { // after the owners: if an owner claims again after its silence, a claim of this moment must be too old
		nodes, err = m.Leases.Nodes(asked)
	}
	m.mu.Lock()
	if err != nil {
		if !m.broken && ctx.Err() == nil {
			m.Logger.Warn("a beat of this node failed; the server tries again", "error", err)
		}
		m.broken = true
		m.mu.Unlock()
		return err
	}
	m.broken, m.beaten = false, began
	m.look(began, nodes, owners)
	lapsed := m.Now() >= time.Duration(m.until.Load()) && len(m.owned()) > 0
	m.mu.Unlock()
	if lapsed {
		if err := m.again(asked); err != nil {
			return err
		}
	}
	m.until.Store(int64(began + own))
	return nil
}

// look takes in the answers to a beat. It marks the shards that another node has claimed as lost before this node may act any longer. The
// caller holds m.mu.
func (m *Member) look(asked time.Duration, nodes []cluster.Node, owners map[queue.ShardID]cluster.Owner) {
	now := m.Now()
	m.seen.look(now, nodes)
	view := View{Owners: owners, Silent: map[string]bool{}, Beats: map[string]bool{m.Name: true},
		Last: map[string]time.Duration{}}
	for i := range nodes {
		view.Peers = append(view.Peers, Peer{nodes[i], noteOf(&nodes[i])})
		view.Last[nodes[i].Name] = m.seen[nodes[i].Name].since
		view.Beats[nodes[i].Name] = view.Beats[nodes[i].Name] || m.seen[nodes[i].Name].beats
	}
	for name := range m.seen {
		view.Silent[name] = m.seen.silent(name, asked, m.began, TTL)
	}
	for shard, owner := range owners {
		if _, known := m.seen[owner.Node]; !known {
			view.Silent[owner.Node] = m.seen.silent(owner.Node, asked, m.began, TTL)
		}
		switch held := m.held[shard].Load(); {
		case held == 0 || owner.Epoch <= held:
		case owner.Node == m.Name: // a claim of this node that got no answer
			m.held[shard].Store(owner.Epoch)
		default:
			m.held[shard].Store(0)
			m.Logger.Warn("another node has claimed a shard of this one", "shard", shard, "node", owner.Node)
		}
	}
	view.Silent[m.Name], view.Last[m.Name] = false, asked
	m.view = view
}

// noteOf reads the note of a node. A note that cannot be read is of another version, and counts as empty.
func noteOf(n *cluster.Node) (note Note) {
	_ = json.Unmarshal([]byte(n.Note), &note)
	return note
}

// owned lists the shards that this node has claimed.
func (m *Member) owned() (list []queue.ShardID) {
	for shard := range m.held {
		if m.held[shard].Load() > 0 {
			list = append(list, queue.ShardID(shard))
		}
	}
	return list
}

// again claims all shards of this node once more: its lease had ended, so others may have claimed some of them since.
func (m *Member) again(ctx context.Context) error {
	for _, shard := range m.owned() {
		switch err := m.set(ctx, shard, m.held[shard].Load()+1, m.Name); {
		case errors.Is(err, cluster.ErrNewerOwner):
			m.held[shard].Store(0)
		case err != nil:
			return err
		}
	}
	return nil
}

// set names the owner of a shard. If that is this node, it holds the shard from then on, as long as its beats let it.
func (m *Member) set(ctx context.Context, shard queue.ShardID, epoch uint32, node string) error {
	if err := m.Leases.SetOwner(ctx, shard, epoch, node); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	owners := maps.Clone(m.view.Owners)
	if owners == nil {
		owners = map[queue.ShardID]cluster.Owner{}
	}
	owners[shard] = cluster.Owner{Epoch: epoch, Node: node}
	m.view.Owners = owners
	if node == m.Name {
		m.held[shard].Store(epoch)
	}
	return nil
}

// Claim makes this node the owner of a shard. The caller has seen, in this view, that no other node can own it. cluster.ErrNewerOwner:
// another one was faster.
func (m *Member) Claim(ctx context.Context, seen *View, shard queue.ShardID) error {
	ctx, stop := context.WithTimeout(ctx, TTL)
	defer stop()
	return m.set(ctx, shard, seen.Owners[shard].Epoch+1, m.Name)
}

// Take makes this node the owner of a shard that the caller is creating, so that no other node has it.
func (m *Member) Take(ctx context.Context, shard queue.ShardID) error {
	ctx, stop := context.WithTimeout(ctx, TTL)
	defer stop()
	owners, err := m.Leases.Owners(ctx)
	if err != nil {
		return err
	}
	return m.set(ctx, shard, owners[shard].Epoch+1, m.Name)
}

// TakeFree is Take of a shard that another live node may just have taken. Then it returns ErrNewerOwner.
func (m *Member) TakeFree(ctx context.Context, shard queue.ShardID) error {
	ctx, stop := context.WithTimeout(ctx, TTL)
	defer stop()
	owners, err := m.Leases.Owners(ctx)
	if err != nil {
		return err
	}
	view := m.View()
	if owner := owners[shard].Node; owner != "" && owner != m.Name && view.Live(owner) {
		return cluster.ErrNewerOwner
	}
	return m.set(ctx, shard, owners[shard].Epoch+1, m.Name)
}

// Give makes another node the owner of a shard that this one has closed. After an error, the other one may not know it.
func (m *Member) Give(ctx context.Context, shard queue.ShardID, to string) error {
	epoch := m.held[shard].Swap(0)
	if epoch == 0 {
		return cluster.ErrNewerOwner
	}
	ctx, stop := context.WithTimeout(ctx, TTL)
	defer stop()
	return m.set(ctx, shard, epoch+1, to)
}

// Drop gives up a shard that this node does not serve any more. It does not tell the others.
func (m *Member) Drop(shard queue.ShardID) { m.held[shard].Store(0) }

// Leaving announces, with the next beat, that this node must get nothing new.
func (m *Member) Leaving() {
	m.mu.Lock()
	m.leaving = true
	m.mu.Unlock()
	m.Hasten()
}

// Leave says that this node serves nothing any more, so that others may claim its shards at once. It is called when all journals are
// closed, and Run has ended.
func (m *Member) Leave(ctx context.Context) error {
	left := map[queue.ShardID]uint32{}
	for _, shard := range m.owned() {
		left[shard] = m.held[shard].Swap(0)
	}
	m.mu.Lock()
	m.leaving, m.note = true, Note{Since: m.Since, Done: true, Left: left, Offers: m.note.Offers, Counts: m.note.Counts}
	m.mu.Unlock()
	return m.beat(ctx)
}

// pause waits, and returns the error of ctx when that ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
