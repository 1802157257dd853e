package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/cluster/clustertest"
	"github.com/quern-queue/quern/engine/queue"
)

var errCut = errors.New("the connection was cut")

// wire is a node's connection to the table: slow, and sometimes cut before or after the table has done the call.
type wire struct {
	*clustertest.Table
	mu  sync.Mutex
	rnd *rand.Rand // nil: it is perfect
	cut bool

	slow time.Duration // not 0: each call arrives and is answered, each way in less than that
}

// call does a call of a node, late or not at all. Its answer may be lost.
func (w *wire) call(ctx context.Context, fn func(context.Context) error) error {
	w.mu.Lock()
	before, after, lost, unanswered := time.Duration(0), time.Duration(0), w.cut, w.cut
	switch {
	case w.slow > 0:
		before, after = time.Duration(w.rnd.Int64N(int64(w.slow))), time.Duration(w.rnd.Int64N(int64(w.slow)))
	case w.rnd != nil:
		before, after = time.Duration(w.rnd.IntN(300))*time.Millisecond, time.Duration(w.rnd.IntN(300))*time.Millisecond
		if w.rnd.IntN(20) == 0 {
			before = time.Duration(w.rnd.IntN(20)) * time.Second
		}
		lost, unanswered = lost || w.rnd.IntN(20) == 0, unanswered || w.rnd.IntN(20) == 0
	}
	w.mu.Unlock()
	done := make(chan error, 1)
	go func() { // it may come to the table when no one waits for it any more
		time.Sleep(before)
		if lost {
			return
		}
		err := fn(context.WithoutCancel(ctx))
		time.Sleep(after)
		if !unanswered {
			done <- err
		}
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errCut, ctx.Err())
	}
}

func (w *wire) Beat(ctx context.Context, n cluster.Node) error {
	return w.call(ctx, func(ctx context.Context) error { return w.Table.Beat(ctx, n) })
}

func (w *wire) SetOwner(ctx context.Context, shard queue.ShardID, epoch uint32, node string) error {
	return w.call(ctx, func(ctx context.Context) error { return w.Table.SetOwner(ctx, shard, epoch, node) })
}

func (w *wire) Nodes(ctx context.Context) ([]cluster.Node, error) {
	return answer(ctx, w, w.Table.Nodes)
}

func (w *wire) Owners(ctx context.Context) (map[queue.ShardID]cluster.Owner, error) {
	return answer(ctx, w, w.Table.Owners)
}

// answer is what a call says. It is not read when it came too late.
func answer[T any](ctx context.Context, w *wire, ask func(context.Context) (T, error)) (none T, err error) {
	var got T
	if err := w.call(ctx, func(ctx context.Context) (err error) {
		got, err = ask(ctx)
		return err
	}); err != nil {
		return none, err
	}
	return got, nil
}

// node is a member with a clock that is off by a few per cent.
func (w *wire) node(name string, rate float64) *Member {
	began := time.Now()
	return New(Options{Leases: w, Name: name, URL: "http://" + name, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Duration { return time.Duration(float64(time.Since(began)) * rate) }})
}

func perfect(of *clustertest.Table) *wire { return &wire{Table: of} }

// engine stands for the engine of a member: it carries out the plans of Decide, in no time.
type engine struct {
	*Member
	shards  []queue.ShardID
	mu      sync.Mutex
	leaving bool
	ready   map[queue.ShardID]bool
	since   map[queue.ShardID]time.Duration
	orphans map[queue.ShardID]time.Duration
	asked   map[queue.ShardID]string
	planned func(*Plan) // is called with each plan; nil: nothing is
}

func newEngine(m *Member, shards []queue.ShardID) *engine {
	return &engine{Member: m, shards: shards, ready: map[queue.ShardID]bool{}, since: map[queue.ShardID]time.Duration{},
		orphans: map[queue.ShardID]time.Duration{}, asked: map[queue.ShardID]string{}}
}

// serve runs until ctx ends.
func (e *engine) serve(ctx context.Context) error {
	if err := e.Join(ctx); err != nil {
		return err
	}
	var beats sync.WaitGroup
	beats.Go(func() { e.Run(ctx) })
	defer beats.Wait()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.Looked:
			e.step(ctx)
		}
	}
}

func (e *engine) step(ctx context.Context) {
	view := e.View()
	p := e.plan(&view)
	e.Tell(len(p.Offers)+len(p.Wants)+len(p.Prepare) > 0, func(n *Note) { n.Load, n.Offers, n.Wants = p.Load, p.Offers, p.Wants })
	if e.planned != nil {
		e.planned(p)
	}
	for shard, to := range p.Give {
		_ = e.Give(ctx, shard, to) // else the other one claims it when this node is silent, or this node does
	}
	for _, shard := range p.Claim {
		_ = e.Claim(ctx, &view, shard) // else it is claimed again with the next beat
	}
}

func (e *engine) plan(view *View) *Plan {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &Situation{Name: e.Name, Leaving: e.leaving, View: view, Shards: e.shards, Held: map[queue.ShardID]time.Duration{},
		Ready: e.ready, Orphans: map[queue.ShardID]time.Duration{}, Asked: e.asked}
	for _, shard := range e.shards {
		if e.Epoch(shard) == 0 {
			delete(e.since, shard)
			continue
		}
		if _, had := e.since[shard]; !had {
			e.since[shard] = e.Now()
		}
		s.Held[shard] = e.Now() - e.since[shard]
	}
	before := e.orphans
	e.orphans = map[queue.ShardID]time.Duration{}
	for _, shard := range s.Orphaned() {
		at, was := before[shard]
		if !was {
			at = e.Now()
		}
		e.orphans[shard], s.Orphans[shard] = at, e.Now()-at
	}
	p := Decide(s)
	for shard := range p.Give {
		delete(e.asked, shard)
	}
	for _, shard := range p.Prepare {
		e.ready[shard] = true
	}
	return p
}

// Calls get lost, clocks run at different speeds, and shards are moved all the time. There are never two nodes that may act as the owner of
// a shard, and again and again there is one.
func TestOneOwnerAtATime(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { oneOwner(t, seed) })
		})
	}
}

func oneOwner(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	of := clustertest.NewTable()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Minute)
	defer stop()
	shards := []queue.ShardID{0, 1, 2, Coordinator}
	var wires []*wire
	var engines []*engine
	var beside sync.WaitGroup
	for n := range 3 {
		w := &wire{Table: of, rnd: rand.New(rand.NewPCG(seed, uint64(n)))}
		e := newEngine(w.node(fmt.Sprintf("n%d", n), 0.95+0.1*rnd.Float64()), shards)
		wires, engines = append(wires, w), append(engines, e)
		beside.Go(func() { _ = e.serve(ctx) })
	}
	owned, changes, last := 0, 0, map[queue.ShardID]int{}
	for ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
		switch rnd.IntN(200) {
		case 0:
			w := wires[rnd.IntN(len(wires))]
			w.mu.Lock()
			w.cut = !w.cut
			w.mu.Unlock()
		case 1:
			e := engines[rnd.IntN(len(engines))]
			e.mu.Lock()
			e.asked[shards[rnd.IntN(len(shards))]] = engines[rnd.IntN(len(engines))].Name
			e.mu.Unlock()
		}
		for _, shard := range shards {
			now := -1
			for n, e := range engines {
				if !e.Own(shard) {
					continue
				}
				if now >= 0 {
					t.Fatalf("seed %d: nodes %d and %d may both act as the owner of shard %d", seed, now, n, shard)
				}
				now = n
			}
			if now >= 0 {
				owned++
				if before, had := last[shard]; had && now != before {
					changes++
				}
				last[shard] = now
			}
		}
	}
	beside.Wait()
	time.Sleep(time.Minute) // for calls that come late
	if owned == 0 || changes < 3 {
		t.Errorf("seed %d: there was an owner at %d looks, and %d times another one", seed, owned, changes)
	}
}

// begins starts an engine, and waits until it owns the shards; it says how long that took.
func begins(t *testing.T, ctx context.Context, e *engine) time.Duration {
	t.Helper()
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- e.serve(ctx) }()
	for _, shard := range e.shards {
		for !e.Own(shard) {
			select {
			case err := <-done:
				t.Fatalf("%s: %v", e.Name, err)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return time.Since(began)
}

// A node waits for TTL behind one that fell silent, and not at all behind one that has left.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		of, shards := clustertest.NewTable(), []queue.ShardID{0, 5, Coordinator}
		alive, kill := context.WithCancel(t.Context())
		first := newEngine(perfect(of).node("a", 1), shards)
		if took := begins(t, alive, first); took > Beat {
			t.Errorf("the first node of all waits %v", took)
		}
		kill()
		synctest.Wait()
		alive, kill = context.WithCancel(t.Context())
		second := newEngine(perfect(of).node("b", 1), shards)
		if took := begins(t, alive, second); took < TTL || took > TTL+2*Beat {
			t.Errorf("behind a silent owner a node waits %v, want %v and up to two beats", took, TTL)
		}
		if first.Own(0) {
			t.Error("the first node may act as the owner beside the second")
		}
		if err := first.beat(t.Context()); err != nil || first.Own(0) || first.Epoch(0) != 0 {
			t.Errorf("a beat of the first node: %v; it still believes that it owns a shard", err)
		}
		kill()
		synctest.Wait()
		if err := second.Leave(t.Context()); err != nil || second.Own(0) {
			t.Errorf("Leave = %v; it may act as the owner", err)
		}
		alive, kill = context.WithCancel(t.Context())
		defer kill()
		if took := begins(t, alive, newEngine(perfect(of).node("c", 1), shards)); took > Beat {
			t.Errorf("behind an owner that left a node waits %v", took)
		}
	})
}

// A node that is started again under its name waits until its predecessor, which may only stand still, has been silent for TTL. It refuses
// to run beside a node that beats.
func TestSameName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		of, shards := clustertest.NewTable(), []queue.ShardID{0}
		alive, kill := context.WithCancel(t.Context())
		first := newEngine(perfect(of).node("a", 1), shards)
		begins(t, alive, first)
		if err := perfect(of).node("a", 1).Join(t.Context()); err == nil || !strings.Contains(err.Error(), "--node") {
			t.Errorf("a second node of the same name: %v, want that it is refused", err)
		}
		kill()
		synctest.Wait()
		alive, kill = context.WithCancel(t.Context())
		defer kill()
		if took := begins(t, alive, newEngine(perfect(of).node("a", 1), shards)); took < TTL {
			t.Errorf("a node took the place of its predecessor after %v", took)
		}
		if first.Own(0) {
			t.Error("both may act as the owner")
		}
	})
}

// An owner whose claim got no answer is not deposed by its own claim.
func TestClaimWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		of := clustertest.NewTable()
		alive, kill := context.WithCancel(t.Context())
		defer kill()
		e := newEngine(perfect(of).node("a", 1), []queue.ShardID{0})
		begins(t, alive, e)
		if err := perfect(of).SetOwner(t.Context(), 0, e.Epoch(0)+1, "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * Beat)
		if !e.Own(0) {
			t.Error("an owner is deposed by its own claim")
		}
	})
}

// The last word of a node that left may come late, after the node was started again and owns a shard. No other node takes the shard because
// of it.
func TestLateLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		of, shards := clustertest.NewTable(), []queue.ShardID{0}
		alive, kill := context.WithCancel(t.Context())
		first := newEngine(perfect(of).node("a", 1), shards)
		begins(t, alive, first)
		kill()
		synctest.Wait()
		if err := first.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		beats, err := of.Nodes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		alive, kill = context.WithCancel(t.Context())
		again := newEngine(perfect(of).node("a", 1), shards)
		if took := begins(t, alive, again); took > Beat {
			t.Errorf("a node that left waits %v when it is started again", took)
		}
		kill()
		synctest.Wait()
		if err := of.Beat(t.Context(), beats[0]); err != nil {
			t.Fatal(err)
		}
		alive, kill = context.WithCancel(t.Context())
		defer kill()
		if took := begins(t, alive, newEngine(perfect(of).node("b", 1), shards)); took < TTL {
			t.Errorf("a node took the place of an owner after %v", took)
		}
		if again.Own(0) {
			t.Error("both may act as the owner")
		}
	})
}

// An owner that could not beat for long goes on with the shards that no one has claimed since, and only with those.
func TestLeaseThatLapsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		of := clustertest.NewTable()
		w := perfect(of)
		alive, kill := context.WithCancel(t.Context())
		defer kill()
		e := newEngine(w.node("a", 1), []queue.ShardID{0, 1})
		begins(t, alive, e)
		w.mu.Lock()
		w.cut = true
		w.mu.Unlock()
		time.Sleep(own)
		if e.Own(0) || e.Own(1) {
			t.Error("a node that reaches nothing may act as an owner")
		}
		other := perfect(of)
		if err := errors.Join(other.Beat(t.Context(), cluster.Node{Name: "b", URL: "http://b"}), other.SetOwner(t.Context(), 1, 9, "b")); err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		w.cut = false
		w.mu.Unlock()
		time.Sleep(TTL - Beat) // a call that is cut lasts for TTL at most
		if !e.Own(0) || e.Own(1) || e.Epoch(1) != 0 {
			t.Errorf("when it reaches the others again, it owns shard 0: %v, and shard 1: %v; want the first only", e.Own(0), e.Own(1))
		}
	})
}

// A node that leaves has its shards taken over by the others while it serves, and each is without an owner for less than a beat.
func TestHandOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		of, shards := clustertest.NewTable(), []queue.ShardID{0, 1, 2, 3, Coordinator}
		first := newEngine(perfect(of).node("a", 1), shards)
		begins(t, t.Context(), first)
		var others []*engine
		for _, name := range []string{"b", "c"} {
			e := newEngine(perfect(of).node(name, 1), shards)
			others = append(others, e)
			go func() { _ = e.serve(t.Context()) }()
		}
		time.Sleep(3 * Beat)
		first.mu.Lock()
		first.leaving = true
		first.mu.Unlock()
		first.Leaving()
		began, served := time.Now(), map[queue.ShardID]time.Time{}
		for left := len(shards); left > 0; time.Sleep(5 * time.Millisecond) {
			if time.Since(began) > TTL {
				t.Fatalf("after %v shards are not handed over", TTL)
			}
			left = 0
			for _, shard := range shards {
				switch {
				case others[0].Own(shard) || others[1].Own(shard):
					served[shard] = time.Now()
				case first.Own(shard):
					served[shard] = time.Now()
					left++
				default:
					left++
					if gap := time.Since(served[shard]); gap >= Beat {
						t.Fatalf("shard %d has had no owner for %v", shard, gap)
					}
				}
			}
		}
	})
}

// A node that has prepared a shard wants it until it claims it, whenever the two nodes read and write the table. Otherwise, it would have
// to prepare the shard again, and no node would serve it meanwhile.
func TestPreparedShardStaysWanted(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			of, shards := clustertest.NewTable(), []queue.ShardID{0}
			ctx, end := context.WithCancel(t.Context())
			rnd := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 2*round+stream)) }
			first := newEngine((&wire{Table: of, rnd: rnd(0), slow: 200 * time.Millisecond >> (round % 8)}).node("a", 1), shards)
			var serving sync.WaitGroup
			leaves, stop := context.WithCancel(ctx)
			defer stop()
			serving.Go(func() { _ = first.serve(leaves) })
			for first.Epoch(0) == 0 {
				time.Sleep(Beat)
			}
			second := newEngine((&wire{Table: of, rnd: rnd(1), slow: 500 * time.Millisecond}).node("b", 1), shards)
			wanted, claimed := false, make(chan struct{})
			second.planned = func(p *Plan) {
				switch wants := len(p.Wants) > 0; {
				case len(p.Claim) > 0 || second.Epoch(0) > 0:
					if second.planned = nil; !wanted {
						t.Error("the second node claims the shard before it has prepared it")
					}
					close(claimed)
				case wanted && !wants:
					t.Error("the second node no longer wants the shard that it has prepared, and has not claimed it")
				default:
					wanted = wants
				}
			}
			serving.Go(func() { _ = second.serve(ctx) })
			time.Sleep(5 * Beat)
			first.mu.Lock()
			first.leaving, first.asked[0] = round%2 == 0, "b"
			first.mu.Unlock()
			for first.Epoch(0) > 0 {
				time.Sleep(time.Millisecond)
			}
			if round%2 == 0 {
				stop()
				if err := first.Leave(ctx); err != nil {
					t.Error(err)
				}
			}
			<-claimed
			end()
			serving.Wait()
			time.Sleep(Beat) // for calls under way
		})
	}
}

// Other nodes learn at once which node offers which shard, but not each number of a shard: numbers change all the time, and a beat for each
// would load the database.
func TestNumbersHastenNoBeat(t *testing.T) {
	t.Parallel()
	m := New(Options{Name: "a", URL: "http://a", Now: func() time.Duration { return 0 }, Logger: slog.New(slog.DiscardHandler)})
	for _, step := range []struct {
		change  func(*Note)
		hastens bool
	}{
		{func(n *Note) { n.Counts = map[queue.ShardID][]uint64{7: {1, 2}} }, false},
		{func(n *Note) { n.Counts = map[queue.ShardID][]uint64{7: {1, 3}} }, false},
		{func(n *Note) { n.Load = 1 }, true},
	} {
		m.Tell(false, step.change)
		if got := len(m.beats) == 1; got != step.hastens {
			t.Errorf("the note %s hastens the next beat: %v", m.note.text(), got)
		}
	}
	if text := m.note.text(); !strings.Contains(text, `"counts":{"7":[1,3]}`) {
		t.Errorf("the note lacks the numbers: %s", text)
	}
}

// Callers that wait for an owner hasten beats, but not more than ten in a second, and none while beats fail.
func TestSeekersHastenFewBeats(t *testing.T) {
	t.Parallel()
	now := retry
	m := New(Options{Name: "a", URL: "http://a", Now: func() time.Duration { return now }, Logger: slog.New(slog.DiscardHandler)})
	for _, step := range []struct {
		after   time.Duration // since the last beat
		broken  bool
		hastens bool
	}{{0, false, false}, {retry - 1, false, false}, {retry, false, true}, {Beat, false, true}, {Beat, true, false}} {
		m.beaten, m.broken, now = retry, step.broken, retry+step.after
		for range 3 {
			m.Seek()
		}
		if got := len(m.beats) == 1; got != step.hastens {
			t.Errorf("%v behind a beat, broken: %v: the next one is hastened: %v", step.after, step.broken, got)
		}
		select {
		case <-m.beats:
		default:
		}
	}
}
