package simtest

import (
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
)

// lot is a submission of the uniformity test: the tenant t, the site s of that tenant, and one of two modes.
type lot struct {
	t, s, mode int
	chunks     uint32
}

// drawn is a composition over Random, and the lots that it has to draw from.
type drawn struct {
	text string
	// admits says that chunks of the lot may be drawn.
	admits func(l lot) bool
	// of is the pool of a lot, for Fair: one call has one chunk of each pool; nil: all lots are one pool, and a call has one chunk.
	of func(l lot) int
}

func anyLot(lot) bool      { return true }
func preview(l lot) bool   { return l.mode == 1 }
func notHeld(l lot) bool   { return l.t != 0 }
func tenantOf(l lot) int   { return l.t }
func tenantSite(l lot) int { return 10*l.t + l.s }

// Of tenant 0 two chunks are held while these are drawn.
var compositions = []drawn{
	{`Random`, anyLot, nil},
	{`SelectOnly("mode", 1, Random)`, preview, nil},
	{`SelectOnly("mode", 1, SelectOnly("s", 0, Random))`, func(l lot) bool { return preview(l) && l.s == 0 }, nil},
	{`MaxSimultaneous("t", 9, Random)`, anyLot, nil},
	{`MaxSimultaneous("t", 2, Random)`, notHeld, nil},
	{`MaxSimultaneous("t", 2, MaxSimultaneous("mode", 9, Random))`, notHeld, nil},
	{`MaxSimultaneous("absent", 1, Random)`, anyLot, nil},
	{`SelectOnly("mode", 1, MaxSimultaneous("t", 2, Random))`, func(l lot) bool { return preview(l) && notHeld(l) }, nil},
	{`PreferDistinct("t", 1, Random)`, notHeld, nil},
	{`PreferDistinct("mode", 9, Random)`, anyLot, nil},
	{`SelectOnly("t", 0, PreferDistinct("t", 1, Random))`, func(l lot) bool { return l.t == 0 }, nil},
	{`PreferDistinct("t", 1, MaxSimultaneous("mode", 9, Random))`, notHeld, nil},
	{`PreferDistinct("t", 1, PreferDistinct("mode", 9, Random))`, notHeld, nil},
	{`OrElse(SelectOnly("mode", 1, Random), Random)`, preview, nil},
	{`OrElse(SelectOnly("mode", 7, Random), Random)`, anyLot, nil},
	{`OrElse(SelectOnly("t", 0, MaxSimultaneous("t", 2, Random)), SelectOnly("mode", 1, Random))`, preview, nil},
	{`MaxSimultaneous("t", 2, OrElse(SelectOnly("mode", 7, Random), PreferDistinct("mode", 9, Random)))`, notHeld, nil},
	{`Fair("t", Random)`, anyLot, tenantOf},
	{`Fair("t", MaxSimultaneous("t", 2, Random))`, notHeld, tenantOf},
	{`Fair("t", PreferDistinct("mode", 9, Random))`, anyLot, tenantOf},
	{`Fair("t", OrElse(SelectOnly("mode", 1, Random), Random))`, preview, tenantOf},
	{`Fair("t", Fair("s", Random))`, anyLot, tenantSite},
	{`SelectOnly("mode", 1, Fair("t", Random))`, preview, tenantOf},
	{`OrElse(SelectOnly("mode", 7, Random), Fair("t", Random))`, anyLot, tenantOf},
	{`PreferDistinct("t", 1, Fair("t", Random))`, notHeld, tenantOf},
}

// Under every composition Random draws each allowed chunk with the same probability: from all of them, or under Fair from those of
// the tenant whose turn it is. A chi-square test checks the counts. A test fails beyond the value that chance alone exceeds once in
// a million times. All draws follow from the seed, which is the same each time, so that a test that passes once passes always. With
// QUERN_SIM_SEEDS, as in `make soak`, seeds are drawn again, and printed.
func TestRandomIsUniformUnderEveryComposition(t *testing.T) {
	t.Parallel()
	for _, d := range compositions {
		t.Run(d.text, func(t *testing.T) {
			t.Parallel()
			drawUniformly(t, &d)
		})
	}
}

const drawsPerChunk = 60

func drawUniformly(t *testing.T, d *drawn) {
	seed := uint64(1)
	switch {
	case *oneSeed != 0:
		seed = *oneSeed
	case os.Getenv("QUERN_SIM_SEEDS") != "":
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	source := rand.New(rand.NewPCG(seed, 7))
	e, err := engine.Open(ctx, engine.Options{Dir: t.TempDir(), Now: time.Now, BallastBytes: -1, Seed: func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return source.Uint64()
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	relaxed := queue.DefaultSettings()
	relaxed.Durability = queue.Relaxed
	if _, _, err := e.PutQueue(ctx, engine.DefaultQueue, relaxed); err != nil {
		t.Fatal(err)
	}
	lots := map[queue.SubmissionID]lot{}
	for i := range 24 { // 4 tenants with 2 sites each; sizes from 1 to 31
		l := lot{t: i % 4, s: i / 4 % 2, mode: i / 8 % 2, chunks: uint32(1 + i*i%31)}
		n := prefixed(l.chunks, number("t", l.t), number("s", l.s), number("mode", l.mode))
		sub, _, err := queueAt(e, engine.DefaultQueue).Insert(ctx, n)
		if err != nil {
			t.Fatal(err)
		}
		lots[sub.ID] = l
	}
	reserve := func(text string, most int) []queue.Reservation {
		got, err := queueAt(e, engine.DefaultQueue).Reserve(ctx, engine.ReserveRequest{Max: most, Plan: plan(t, text)}, nil)
		if err != nil || len(got.Reservations) != most {
			t.Fatalf("%s: %d chunks, %v; want %d", text, len(got.Reservations), err, most)
		}
		return got.Reservations
	}
	pools := newPools(d, lots, reserve(`SelectOnly("t", 0, Random)`, 2))
	calls := drawsPerChunk * pools.largest()
	asked := plan(t, d.text)
	for range calls {
		got, err := queueAt(e, engine.DefaultQueue).Reserve(ctx, engine.ReserveRequest{Max: len(pools), Plan: asked}, nil)
		if err != nil || len(got.Reservations) != len(pools) {
			t.Fatalf("%d chunks, %v; want %d", len(got.Reservations), err, len(pools))
		}
		var back []queue.ReleaseItem
		for i := range got.Reservations {
			token := got.Reservations[i].Token
			back = append(back, queue.ReleaseItem{Token: token})
			pool := pools[d.pool(lots[token.Submission])]
			at := queue.ChunkID{Submission: token.Submission, Index: token.Index}
			if _, may := pool[at]; !may {
				t.Fatalf("drew %v of %+v, which may not be drawn now", at, lots[token.Submission])
			}
			pool[at]++
		}
		if _, err := queueAt(e, engine.DefaultQueue).Release(ctx, back, nil); err != nil {
			t.Fatal(err)
		}
	}
	pools.check(t, calls)
}

// pool is the pool that a lot belongs to.
func (d *drawn) pool(l lot) int {
	if d.of == nil {
		return 0
	}
	return d.of(l)
}

// pools counts, for each pool, how often each of its chunks was drawn.
type pools map[int]map[queue.ChunkID]float64

func newPools(d *drawn, lots map[queue.SubmissionID]lot, held []queue.Reservation) pools {
	p := pools{}
	for id, l := range lots {
		if !d.admits(l) {
			continue
		}
		if p[d.pool(l)] == nil {
			p[d.pool(l)] = map[queue.ChunkID]float64{}
		}
		for index := range l.chunks {
			p[d.pool(l)][queue.ChunkID{Submission: id, Index: index}] = 0
		}
	}
	for i := range held {
		token := held[i].Token
		delete(p[d.pool(lots[token.Submission])], queue.ChunkID{Submission: token.Submission, Index: token.Index})
	}
	return p
}

func (p pools) largest() (n int) {
	for _, pool := range p {
		n = max(n, len(pool))
	}
	return n
}

// check sums chi-square over all pools. Its limit is that for one in a million (Wilson and Hilferty's approximation).
func (p pools) check(t *testing.T, calls int) {
	t.Helper()
	const beyond = 4.753 // standard deviations of the normal distribution, one-sided
	var chi, freedom float64
	for _, pool := range p {
		want := float64(calls) / float64(len(pool))
		for _, got := range pool {
			chi += (got - want) * (got - want) / want
		}
		freedom += float64(len(pool) - 1)
	}
	cube := 1 - 2/(9*freedom) + beyond*math.Sqrt(2/(9*freedom))
	limit := freedom * cube * cube * cube
	t.Logf("%d calls, chi-square %.1f of %.0f degrees, limit %.1f", calls, chi, freedom, limit)
	if chi > limit {
		t.Errorf("chi-square is %.1f over %.0f degrees, want at most %.1f; counts %v", chi, freedom, limit, p)
	}
}

// queueAt is a queue that serves.
func queueAt(e *engine.Engine, name string) *engine.Queue {
	q, err := e.Queue(name)
	if err != nil {
		panic(err)
	}
	return q
}
