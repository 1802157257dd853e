package nodes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/cluster/member"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/store"
)

// node is a machine. Its process may be killed and started again, and may stand still.
type node struct {
	w      *world
	name   string
	rate   float64       // of its clocks, of which true time has 1
	offset time.Duration // of the clock on its wall
	born   time.Time
	r      *rand.Rand
	toDB   *network // of its present life
	pauses pauses
	seeds  atomic.Uint64

	mu   sync.Mutex
	life *life // nil: no process runs
}

// sinceBoot is the clock that is never set.
func (n *node) sinceBoot() time.Duration { return time.Duration(float64(time.Since(n.born)) * n.rate) }

// wall is the clock that shards are given.
func (n *node) wall() time.Time { return n.born.Add(n.sinceBoot() + n.offset) }

// pauses are where a process stands still, as after SIGSTOP: each of its goroutines at the next gate that it comes to.
type pauses struct {
	mu     sync.Mutex
	count  int           // gates until the next pause begins; 0: none is wanted
	locked bool          // only those count at which the mutex of the shard is held
	length time.Duration // of the next one
	still  chan struct{} // closed when the present one ends; nil: the process runs
	behind time.Duration // of the next goroutine to wake: one goes on after the other, so that a seed plays alike each time
	ends   func()        // ends it
}

// after has the process stand still at so many gates from now; locked: at which the mutex of the shard is held.
func (p *pauses) after(gates int, locked bool, length time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.still == nil {
		p.count, p.locked, p.length = gates, locked, length
	}
}

// end lets the process go on.
func (p *pauses) end() {
	p.mu.Lock()
	ends := p.ends
	p.count = 0
	p.mu.Unlock()
	if ends != nil {
		ends()
	}
}

// gate is a point between two steps of a process. No lock is held there that another goroutine of it waits for meanwhile: to the bubble of
// synctest, a goroutine that waits for a mutex is not blocked.
func (n *node) gate() { n.pass(false) }

func (n *node) pass(locked bool) {
	p := &n.pauses
	p.mu.Lock()
	if p.count > 0 && p.still == nil && p.locked == locked {
		if p.count--; p.count == 0 {
			n.w.note("%s stands still for %v", n.name, p.length)
			if locked {
				n.w.tally("stood still under the mutex")
			}
			if l := n.lives(); l != nil && l.turn.own() && p.length > standing {
				n.w.tally("owner stood still")
			}
			n.stand(p)
		}
	}
	still, behind := p.still, p.behind
	p.behind += time.Microsecond
	p.mu.Unlock()
	if still != nil {
		<-still
		time.Sleep(behind)
	}
}

// stand begins a pause. The mutex of p is held.
func (n *node) stand(p *pauses) {
	still := make(chan struct{})
	p.still, p.behind = still, 0
	p.ends = sync.OnceFunc(func() {
		p.mu.Lock()
		p.still, p.ends = nil, nil
		p.mu.Unlock()
		close(still)
	})
	ends := p.ends
	go func() {
		select {
		case <-still:
		case <-n.w.calm:
		case <-time.After(p.length):
		}
		ends()
	}()
}

// life is a process.
type life struct {
	n       *node
	turn    turn
	link    *link
	ctx     context.Context // until it ends
	end     context.CancelFunc
	dead    chan struct{} // closed when it is killed
	kills   sync.Once
	alone   bool // there is no other one
	number  int  // of all lives, in the order in which they could act as the owner first
	first   sync.Once
	shard   *shard.Shard
	store   *store.Store
	mu      sync.Mutex
	serving bool
	calls   sync.WaitGroup // under way in it
}

// run starts a process again and again.
func (n *node) run(ctx context.Context) {
	for lives := uint64(0); ctx.Err() == nil; lives++ {
		l := n.begin(ctx, lives)
		l.run()
		n.mu.Lock()
		n.life = nil
		n.mu.Unlock()
		l.end()
		wait(n.w.calm, 200*time.Millisecond+time.Duration(n.r.Int64N(int64(3*time.Second))))
		wait(ctx.Done(), 500*time.Millisecond)
	}
}

func (n *node) begin(ctx context.Context, lives uint64) *life {
	l := &life{n: n, dead: make(chan struct{})}
	l.ctx, l.end = context.WithCancel(ctx)
	net := n.w.network(rand.New(rand.NewPCG(n.r.Uint64(), lives)), 5*time.Second)
	net.gate, net.dead = n.gate, l.dead
	l.link = &link{database: n.w.db, net: net}
	l.turn = newTurn(l.link, n.name, n.sinceBoot)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.life, n.toDB = l, net
	return l
}

// kill ends a process at once.
func (l *life) kill() {
	l.kills.Do(func() {
		close(l.dead)
		l.end()
		l.n.pauses.end()
	})
}

// run is the course of a process from its start to its end.
func (l *life) run() {
	if l.turn.take(l.ctx) != nil {
		return
	}
	l.n.w.note("%s has its turn", l.n.name)
	keeping, stop := context.WithCancel(context.WithoutCancel(l.ctx))
	var kept sync.WaitGroup
	kept.Go(func() {
		if err := l.turn.keep(keeping); err != nil {
			l.n.w.note("%s: %v", l.n.name, err)
			l.end()
		}
	})
	err := l.open()
	if err == nil {
		l.serve()
	} else if l.ctx.Err() == nil {
		l.n.w.note("%s does not serve: %v", l.n.name, err)
	}
	l.close()
	stop()
	if closed(l.dead) {
		kept.Wait()
		return
	}
	kept.Wait()
	leaving, stop := context.WithTimeout(context.Background(), standing)
	defer stop()
	if err := l.turn.leave(leaving); err == nil {
		l.n.w.note("%s has left", l.n.name)
	}
}

// open makes the shard in an empty folder: it has lost its disk.
func (l *life) open() error {
	for l.ctx.Err() == nil {
		err := l.openOnce(filepath.Join(l.n.w.t.TempDir(), "store.db"))
		code := queue.CodeOf(err)
		if err == nil || code != queue.CodeMoved && code != queue.CodeMoving && !errors.Is(err, journal.ErrUnknown) {
			return err
		}
		l.n.w.tally("claim refused")
		l.n.w.note("%s could not claim the journal: %v", l.n.name, err)
		wait(l.ctx.Done(), time.Second)
	}
	return l.ctx.Err()
}

func (l *life) openOnce(path string) (err error) {
	w := l.n.w
	if w.copies != "" {
		log, err := l.link.Journal(l.ctx, journalName)
		if err != nil {
			return err
		}
		tail, err := log.Tail(l.ctx)
		if err == nil && tail > 0 {
			_, err = w.snapshots().Restore(l.ctx, path, log)
		}
		if err = errors.Join(err, log.Close()); err != nil {
			return err
		}
	}
	if l.store, err = store.Open(l.ctx, path, store.Options{Durability: queue.Relaxed}); err != nil {
		return err
	}
	prepared, err := shard.Prepare(l.ctx, l.options())
	if err == nil {
		l.n.gate()
		l.shard, err = prepared.Claim(l.ctx)
	}
	if err != nil {
		return errors.Join(err, l.store.Close())
	}
	w.book.served(l)
	return nil
}

const journalName = "shard-0007"

func (l *life) options() shard.Options {
	w := l.n.w
	o := shard.Options{
		ID: 7, Queue: "default", Settings: w.settings, Key: reserver.Key{K0: 1, K1: 2}, Store: l.store,
		Journal:   func(ctx context.Context) (journal.Journal, error) { return l.link.Journal(ctx, journalName) },
		Now:       l.n.wall,
		Seed:      func() uint64 { return l.n.seeds.Add(1) * 0x9E3779B97F4A7C15 },
		Logger:    w.logger(l),
		Committed: func(time.Duration, int, int) {}, Fatal: func(err error) { w.fail("%s: Fatal is called: %v", l.n.name, err) },
		FreeBallast: func() bool { return false },
		Owner:       shard.Owner{Own: l.own, Patience: member.Patience}, RecountEvery: -1,
		OpBytes: 1 << 20, CheckpointBytes: 1 << 40, CheckpointEnded: 1 << 30,
	}
	if w.copies != "" {
		o.CheckpointBytes, o.Copies.SnapshotBytes = 1000, -1
		o.Copies.Snapshots = gatedSnapshots{w.snapshots(), l}
	} else {
		o.OpBytes, o.Copies.Blobs = 100, l.link.Blobs() // most contents are blobs
	}
	return o
}

// own is Owner.Own. The shard asks under its mutex, and again before it answers. A pause may come between the two.
func (l *life) own() bool {
	locked, calls := underMutex()
	if !locked {
		l.n.gate()
	}
	if !l.alone && !l.turn.own() {
		return false
	}
	l.first.Do(func() { l.number = l.n.w.book.took() }) // one that slept since it was its turn has none
	for _, other := range l.n.w.nodes {
		if it := other.lives(); other != l.n && it != nil && it.turn.own() {
			l.n.w.fail("%s and %s may both act as the owner", l, it)
		}
	}
	if calls && l.n.w.abrupt {
		l.n.pass(true) // with the mutex, for which no one waits: everyone else of the process is at a gate, or comes to one first
	}
	return true
}

// underMutex says, from the stack, that the shard asks with its mutex held, and whether for a caller.
func underMutex() (locked, calls bool) {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		locked = locked || strings.HasSuffix(frame.Function, ".usable")
		_, method, _ := strings.Cut(frame.Function, "shard.(*Shard).")
		calls = calls || locked && (method == "Reserve" || method == "Extend")
	}
	return locked, calls
}

// gatedSnapshots are the copies of a store, on a disk that all nodes share.
type gatedSnapshots struct {
	engine.Snapshots
	l *life
}

func (s gatedSnapshots) Save(ctx context.Context, of *store.Cut, epoch uint32, at journal.Position) (journal.Snapshot, error) {
	made, err := s.Snapshots.Save(ctx, of, epoch, at)
	s.l.n.gate()
	return made, err
}

func (s gatedSnapshots) Keep(made journal.Snapshot) error {
	s.l.n.gate()
	s.l.n.w.tally("snapshot")
	if closed(s.l.dead) {
		return errKilled
	}
	return s.Snapshots.Keep(made)
}

// serve drives the shard as the engine does, until the process is to end, or has lost the journal.
func (l *life) serve() {
	l.mu.Lock()
	l.serving = true
	l.mu.Unlock()
	for beats := 1; l.ctx.Err() == nil; beats++ {
		wait(l.ctx.Done(), 250*time.Millisecond+time.Duration(l.n.r.IntN(1000)))
		l.n.gate()
		l.shard.Worker.Nudge()
		if beats%4 == 0 {
			l.shard.Heal()
			l.shard.Tidy()
			if errors.Is(l.shard.Health(), journal.ErrConflict) {
				return
			}
		}
	}
}

// close ends the serving shard. Calls under way are answered first.
func (l *life) close() {
	l.mu.Lock()
	l.serving = false
	l.mu.Unlock()
	l.end()
	l.calls.Wait()
	if l.shard == nil {
		return
	}
	if err := errors.Join(l.shard.Close(), l.store.Close()); err != nil && !closed(l.dead) {
		l.n.w.note("%s: closing: %v", l.n.name, err)
	}
}

// lives is the process that runs; nil: none does.
func (n *node) lives() *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life
}

// enter begins a call in the process that runs on a node, if one serves.
func (n *node) enter() (l *life, leave func(), err error) {
	if l = n.lives(); l == nil {
		return nil, nil, errDown
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.serving {
		return nil, nil, &queue.Error{Code: queue.CodeMoving, Message: l.turn.owner()}
	}
	l.calls.Add(1)
	return l, l.calls.Done, nil
}

var (
	errDown   = errors.New("connection refused")
	errAnswer = errors.New("no answer came from the node")
)

func (l *life) String() string { return fmt.Sprintf("%s/%d", l.n.name, l.number) }
