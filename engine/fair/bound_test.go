package fair

import (
	"flag"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/fair/gps"
)

var (
	seedFlag  = flag.Uint64("fair.seed", 0, "seed of the random instances; 0: from the clock")
	instances = flag.Int("fair.instances", 150, "random instances per bound; the issue asks for 10000")
)

// seed is the seed of a test's instances, in the log of a failure.
func seed(t *testing.T) uint64 {
	s := *seedFlag
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("seed: -args -fair.seed=%d", s)
	return s
}

// world is a ledger beside its ideal: the same tenants, the same backlogs, one chunk per slot.
type world struct {
	t        *testing.T
	ledger   *Ledger
	ideal    *gps.System
	backlog  []int64
	received []int64
	left     []*big.Float // blocked: the fluid
	behind   float64      // largest so far
	ahead    float64
}

func newWorld(t *testing.T, weights []Weight) *world {
	n := len(weights)
	thousandths := make([]int64, n)
	for i, weight := range weights {
		thousandths[i] = int64(weight)
	}
	w := &world{t: t, ledger: new(Ledger), ideal: gps.New(thousandths), backlog: make([]int64, n), received: make([]int64, n), left: make([]*big.Float, n)}
	for i, weight := range weights {
		w.ledger.SetWeight(uint32(i), weight)
	}
	return w
}

func (w *world) submit(i int, chunks int64) {
	w.backlog[i] += chunks
	if w.left[i] != nil {
		w.left[i].Add(w.left[i], new(big.Float).SetInt64(chunks))
		return
	}
	w.ideal.Add(i, float64(chunks))
	w.ledger.Join(uint32(i))
}

func (w *world) block(i int) {
	if w.left[i] == nil {
		w.left[i] = w.ideal.Suspend(i)
		w.ledger.Block(uint32(i))
	}
}

func (w *world) unblock(i int) {
	if w.left[i] != nil {
		w.ideal.Resume(i, w.left[i])
		w.left[i] = nil
		if w.backlog[i] > 0 {
			w.ledger.Join(uint32(i))
		} else {
			w.ledger.Leave(uint32(i))
		}
	}
}

func (w *world) setWeight(i int, weight Weight) {
	w.ideal.SetWeight(i, int64(weight))
	w.ledger.SetWeight(uint32(i), weight)
}

// slot hands out one chunk, if there is one.
func (w *world) slot() (tenant int, ok bool) {
	picked, ok := w.ledger.Pick()
	i := int(picked)
	if !ok {
		return 0, false
	}
	if w.backlog[i] == 0 || w.left[i] != nil {
		w.t.Fatalf("picked tenant %d, which has %d chunks to offer, blocked: %t", i, w.backlog[i], w.left[i] != nil)
	}
	w.behind = max(w.behind, w.ideal.Lag(i, w.received[i]))
	w.ledger.Charge(picked, Chunk)
	w.received[i]++
	if w.backlog[i]--; w.backlog[i] == 0 {
		w.ledger.Leave(picked)
	}
	w.ideal.Step()
	w.ahead = max(w.ahead, -w.ideal.Lag(i, w.received[i]))
	return i, true
}

// look measures all tenants and audits the ledger.
func (w *world) look() {
	w.t.Helper()
	for i := range w.received {
		lag := w.ideal.Lag(i, w.received[i])
		w.behind, w.ahead = max(w.behind, lag), max(w.ahead, -lag)
	}
	audit(w.t, w.ledger)
}

// audit checks the invariants of a ledger.
func audit(t *testing.T, l *Ledger) {
	t.Helper()
	if sum := l.SumOfLags(); sum != 0 {
		t.Fatalf("the sum of lags is %v chunks, want 0", sum.In(Chunk))
	}
	sum, members := 0.0, [4]int{}
	var weights [2]int64
	l.Each(func(i Info) bool { sum += i.Lag; return true })
	if math.Abs(sum) > 1e-6 {
		t.Fatalf("the lags as shown add up to %v, want 0 within 1e-6", sum)
	}
	for i := range l.slots {
		s := &l.slots[i]
		members[s.state]++
		switch s.state {
		case Idle:
		case Blocked:
			weights[1] += int64(s.weight)
		case Owing:
			if got, want := l.owing[s.left], (entry{s.tag, uint32(i)}); got != want {
				t.Fatalf("owing tenant %d: the heap has %+v at its place, want %+v", i, got, want)
			}
			fallthrough
		default:
			weights[0] += int64(s.weight)
		}
	}
	size, _ := auditTree(t, l, l.root, nil)
	if weights != [2]int64{l.running.weight, l.frozen.weight} || members[Blocked] != l.blocked ||
		members[Active] != l.active || size != l.active || members[Owing] != len(l.owing) {
		t.Fatalf("weights %v, states %v: the ledger has weights %d and %d, active %d (in the tree %d), owing %d, blocked %d", weights, members,
			l.running.weight, l.frozen.weight, l.active, size, len(l.owing), l.blocked)
	}
	for i := range l.owing {
		if l.before(l.owing[i], l.owing[max(0, i-1)/heapWidth]) {
			t.Fatalf("the owing %v: entry %d is before its parent", l.owing, i)
		}
	}
}

// auditTree checks that the tree is in order and returns its size and its last node.
func auditTree(t *testing.T, l *Ledger, n node, last *slot) (int, *slot) {
	t.Helper()
	if n == 0 {
		return 0, last
	}
	s := l.at(n)
	least := s.tag
	for _, below := range []node{s.left, s.right} {
		if below != 0 {
			least = min(least, l.at(below).least)
			if rank(below) > rank(n) {
				t.Fatalf("tree: tenant %d is below tenant %d, which is of lower rank", below-1, n-1)
			}
		}
	}
	if s.state != Active || s.least != least || s.deadline != l.deadlineOf(s) {
		t.Fatalf("tree: tenant %d is %+v, want active, least tag %d, deadline %d", n-1, *s, least, l.deadlineOf(s))
	}
	before, last := auditTree(t, l, s.left, last)
	if last != nil && !first(last, s) {
		t.Fatalf("tree: tenant %d comes too late", n-1)
	}
	after, last := auditTree(t, l, s.right, s)
	return before + 1 + after, last
}

// randomWeights are equal, of a few magnitudes, or anything between 0.001 and 1000.
func randomWeights(rnd *rand.Rand, n int) []Weight {
	spread, kind := math.Pow(10, rnd.Float64()*6), rnd.IntN(3)
	weights := make([]Weight, n)
	for i := range weights {
		switch kind {
		case 0:
			weights[i] = DefaultWeight
		case 1:
			weights[i] = WeightOf(math.Pow10(rnd.IntN(4)))
		default:
			weights[i] = WeightOf(0.001 * math.Pow(spread, rnd.Float64()))
		}
	}
	return weights
}

// bound runs random instances and checks the largest lag of all.
func bound(t *testing.T, limit float64, play func(t *testing.T, rnd *rand.Rand) *world) {
	t.Helper()
	s := seed(t)
	var behind, ahead float64
	for i := range *instances {
		w := play(t, rand.New(rand.NewPCG(s, uint64(i))))
		w.look()
		behind, ahead = max(behind, w.behind), max(ahead, w.ahead)
		if max(w.behind, w.ahead) > limit {
			t.Fatalf("instance %d (%d tenants): largest lag %.4f behind, %.4f ahead, want at most %v", i, len(w.received), w.behind, w.ahead, limit)
		}
	}
	t.Logf("%d instances: largest lag %.4f behind, %.4f ahead", *instances, behind, ahead)
}

const plenty = 1 << 40

func backlogged(t *testing.T, rnd *rand.Rand) *world {
	w := newWorld(t, randomWeights(rnd, 2+rnd.IntN(30)))
	for i := range w.backlog {
		w.submit(i, plenty)
	}
	return w
}

// A static set: no tenant is ever more than one chunk from the ideal, and the ledger's lags are those of the ideal.
func TestBoundStatic(t *testing.T) {
	t.Parallel()
	bound(t, 1, func(t *testing.T, rnd *rand.Rand) *world {
		w := backlogged(t, rnd)
		for range 500 {
			w.slot()
		}
		for i := range w.received {
			want := w.ideal.Lag(i, w.received[i])
			if got := w.ledger.Lag(uint32(i)).In(Chunk); math.Abs(got-want) > 1e-9 {
				t.Fatalf("tenant %d: lag %v, of the ideal %v", i, got, want)
			}
		}
		return w
	})
}

// Tenants that come and go: at a load around 1, or many bursts at first and then nothing more.
func TestBoundJoinsAndLeaves(t *testing.T) {
	t.Parallel()
	bound(t, 2, func(t *testing.T, rnd *rand.Rand) *world {
		n := 2 + rnd.IntN(30)
		w := newWorld(t, randomWeights(rnd, n))
		mean, load, credit := rnd.Float64()*4, 0.5+rnd.Float64(), 0.0
		slots, bursts := 200+6*n, rnd.IntN(2) == 0
		for now := range slots {
			if bursts {
				load = 0
				for now < slots/2 && rnd.IntN(slots/2) < 2*n {
					w.submit(rnd.IntN(n), 1+int64(rnd.ExpFloat64()*mean))
				}
			}
			for credit += load; rnd.Float64()*4 < credit; {
				chunks := 1 + int64(rnd.ExpFloat64()*mean)
				if rnd.IntN(50) == 0 {
					chunks *= 20
				}
				w.submit(rnd.IntN(n), chunks)
				credit -= float64(chunks)
			}
			w.slot()
			if rnd.IntN(40) == 0 {
				w.look()
			}
		}
		for {
			if _, ok := w.slot(); !ok {
				return w
			}
		}
	})
}

// Tenants at their limits or paused, and weights that change meanwhile.
func TestBoundBlockingAndWeights(t *testing.T) {
	t.Parallel()
	bound(t, 3, func(t *testing.T, rnd *rand.Rand) *world {
		w := backlogged(t, rnd)
		n := len(w.backlog)
		blocked := 0
		for range 1000 {
			if rnd.IntN(4) == 0 {
				switch i := rnd.IntN(n); {
				case w.left[i] != nil:
					w.unblock(i)
					blocked--
				case blocked < n-1:
					w.block(i)
					blocked++
				}
			}
			if rnd.IntN(20) == 0 {
				w.setWeight(rnd.IntN(n), WeightOf(math.Pow(10, rnd.Float64()*2)))
			}
			w.slot()
			if rnd.IntN(50) == 0 {
				w.look()
			}
		}
		return w
	})
}

// Everything at once: joins, leaves, blocking (of all, too), weights.
func TestBoundEverything(t *testing.T) {
	t.Parallel()
	bound(t, 3, func(t *testing.T, rnd *rand.Rand) *world {
		n := 2 + rnd.IntN(30)
		w := newWorld(t, randomWeights(rnd, n))
		for range 600 {
			for rnd.IntN(4) == 0 {
				w.submit(rnd.IntN(n), 1+int64(rnd.ExpFloat64()*5))
			}
			if i := rnd.IntN(n); w.left[i] != nil && rnd.IntN(3) == 0 {
				w.unblock(i)
			} else if w.left[i] == nil && rnd.IntN(12) == 0 {
				w.block(i)
			}
			if rnd.IntN(30) == 0 {
				w.setWeight(rnd.IntN(n), WeightOf(math.Pow(10, rnd.Float64()*2)))
			}
			w.slot()
			if rnd.IntN(50) == 0 {
				w.look()
			}
		}
		return w
	})
}
