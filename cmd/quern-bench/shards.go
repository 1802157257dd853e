package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

var shardNames = []string{
	"reserve_complete_1024x1/*", "reserve_complete_64x100/*", "reserve_p50/*", "reserve_p99/*",
}

// shardScale is how much the suite has and how often it measures.
type shardScale struct {
	shards      []uint8 // of each queue that is measured
	rounds      int     // of measuring all queues in turns; a figure is the median
	lasting     time.Duration
	most        uint8 // shards of the queue whose reserves are timed
	groups      int
	submissions int
	chunks      uint32 // of each
	timing      timing
}

func shardSuite(ctx context.Context, r *run) error {
	return shardFigures(ctx, r, shardScale{shards: []uint8{1, 2, 4}, rounds: 5, lasting: time.Second, most: queue.MaxQueueShards,
		groups: 1000, submissions: 20_000, chunks: largeChunks, timing: fullTiming})
}

// groupName is the group of the i-th submission.
func (s *shardScale) groupName(i int) string { return fmt.Sprint("g", i%s.groups) }

// shardFigures measures what several shards gain for consumers whose commits are many, and what a merge over them
// costs.
func shardFigures(ctx context.Context, r *run, scale shardScale) error {
	if err := cycleShards(ctx, r, scale); err != nil {
		return err
	}
	return reserveShards(ctx, r, scale)
}

// openShards opens an engine whose default queue has this many shards, with a backlog in every group.
func (r *run) openShards(ctx context.Context, shards uint8, scale shardScale) (*bed, error) {
	b, err := r.open(ctx, fmt.Sprint("shards", shards))
	if err != nil {
		return nil, err
	}
	change := func(s *queue.Settings) error { s.Shards = shards; return nil }
	if _, err := b.ChangeQueue(ctx, engine.DefaultQueue, change); err != nil {
		return b, err
	}
	if b.work, err = b.Work(engine.DefaultQueue); err != nil {
		return b, err
	}
	const batch = 100
	for from := 0; from < scale.submissions; from += batch {
		list := make([]queue.Insertion, batch)
		for i := range list {
			n := submission(from+i, scale.chunks)
			n.Group, n.OperationsPerChunk = scale.groupName(from+i), 1
			list[i].New = &n
		}
		if err := b.work.InsertMany(ctx, list, false); err != nil {
			return b, err
		}
		for i := range list {
			if list[i].Err != nil {
				return b, list[i].Err
			}
		}
	}
	return b, nil
}

// cycleShards measures queues of one and several shards in turns, because the speed of the machine changes within
// seconds.
func cycleShards(ctx context.Context, r *run, scale shardScale) error {
	var beds []*bed
	defer func() {
		for _, b := range beds {
			b.close()
		}
	}()
	for _, shards := range scale.shards {
		r.progress(fmt.Sprintf("a backlog in %d shards", shards))
		b, err := r.openShards(ctx, shards, scale)
		if b != nil {
			beds = append(beds, b)
		}
		if err != nil {
			return err
		}
	}
	for _, c := range []struct{ callers, batch int }{{1024, 1}, {64, 100}} {
		rates := make([][]float64, len(beds))
		r.progress(fmt.Sprintf("%d consumers in batches of %d", c.callers, c.batch))
		for range scale.rounds {
			for i, b := range beds {
				chunks, took, err := b.cycle(ctx, c.callers, c.batch, scale.lasting)
				if err != nil {
					return err
				}
				rates[i] = append(rates[i], float64(chunks)/took.Seconds())
			}
		}
		name := fmt.Sprintf("reserve_complete_%dx%d/", c.callers, c.batch)
		for i, shards := range scale.shards {
			slices.Sort(rates[i])
			r.add(name+fmt.Sprint(shards), rates[i][len(rates[i])/2], "chunks/s")
			if i > 0 {
				r.over(name + fmt.Sprint(scale.shards[0]))
			}
		}
	}
	return nil
}

// reserveShards times reserve(1) over as many shards as a queue may have.
func reserveShards(ctx context.Context, r *run, scale shardScale) error {
	r.progress(fmt.Sprintf("reserves over %d shards", scale.most))
	b, err := r.openShards(ctx, scale.most, scale)
	if b != nil {
		defer b.close()
	}
	if err != nil {
		return err
	}
	for _, c := range []reserveCase{
		{name: "random", strategy: `Random`},
		{name: "oldest_first", strategy: `OldestFirst`},
		{name: "newest_first", strategy: `NewestFirst`},
		{name: "custom_priority", strategy: `CustomPriority`},
		{name: "select_only", strategy: `SelectOnly("mode", "preview", OldestFirst)`},
		{name: "or_else_absent", strategy: `OrElse(SelectOnly("company", 1000000, OldestFirst), OldestFirst)`},
		{name: "max_simultaneous_group", strategy: `MaxSimultaneous("group", 1000, OldestFirst)`},
		{name: "prefer_distinct_group", strategy: `PreferDistinct("group", OldestFirst)`},
		{name: "max_simultaneous", strategy: `MaxSimultaneous("company", 1000, OldestFirst)`},
		{name: "max_simultaneous_percent", strategy: `MaxSimultaneous("company", "90%", OldestFirst)`},
		{name: "max_rate", strategy: `MaxRate("company", 1000000, "1s", burst=1000000, OldestFirst)`},
		{name: "fair", strategy: `Fair("company", OldestFirst)`},
		{name: "max_simultaneous_random", strategy: `MaxSimultaneous("company", 1000, Random)`}, // shards take turns from here on
		{name: "prefer_distinct", strategy: `PreferDistinct("company", OldestFirst)`},
		{name: "prefer_distinct_random", strategy: `PreferDistinct("company", Random)`},
		{name: "max_rate_random", strategy: `MaxRate("company", 100, "1s", burst=100, Random)`},
		{name: "one_group", strategy: fmt.Sprintf(`SelectOnly("group", %q, OldestFirst)`, scale.groupName(0))},
	} {
		got, err := b.time(ctx, scale.timing, c)
		if err != nil {
			return err
		}
		r.addReserve(c, got)
	}
	return nil
}

// consumer reserves the chunks. They are given back before a restart, because a restart keeps reservations.
const consumer = "bench"

// reserveCase is a strategy in a situation.
type reserveCase struct {
	name, strategy string
	empty          bool // nothing is to be found
	lone           bool // each chunk is given back before the next is reserved: only one can be had
}

// timing is how often a case is measured.
type timing struct {
	warm    int // reserves before those that count; the first ones build the views
	samples int // reserves that count
	hold    int // chunks that are held at most, from this case
}

var fullTiming = timing{warm: 1000, samples: 20_000, hold: 5000}

// cost is the result of a measurement.
type cost struct {
	sorted   []time.Duration // one reserve each
	examined float64         // submissions looked at per chunk; per reserve where nothing is to be found
}

func planOf(text string) (*strategy.Plan, error) {
	s, err := strategy.Parse(text)
	if err != nil {
		return nil, err
	}
	return s.Plan(), nil
}

// timeReserve adds what reserve(1) takes in a case.
func (r *run) timeReserve(ctx context.Context, b *bed, c reserveCase) error {
	got, err := b.time(ctx, fullTiming, c)
	if err != nil {
		return err
	}
	r.addReserve(c, got)
	return nil
}

func (r *run) addReserve(c reserveCase, got cost) {
	r.add("reserve_p50/"+c.name, micro(quantile(got.sorted, 0.5)), "us")
	r.add("reserve_p99/"+c.name, micro(quantile(got.sorted, 0.99)), "us")
}

// time reserves one chunk at a time and gives what it holds back now and then, outside the measured time.
func (b *bed) time(ctx context.Context, t timing, c reserveCase) (cost, error) {
	plan, err := planOf(c.strategy)
	if err != nil {
		return cost{}, err
	}
	if c.lone {
		t.hold = 1
	}
	before := b.q.Examined()
	request := engine.ReserveRequest{Max: 1, Plan: plan, Consumer: consumer}
	held := make([]queue.ReleaseItem, 0, t.hold)
	times := make([]time.Duration, 0, t.samples)
	reservations := make([]queue.Reservation, 0, 1)
	for i := range t.warm + t.samples {
		started := time.Now()
		got, err := b.work.Reserve(ctx, request, reservations[:0])
		took := time.Since(started)
		if err != nil {
			return cost{}, err
		}
		if (len(got.Reservations) == 0) != c.empty {
			return cost{}, fmt.Errorf("%s: reserve with %s gave %d chunks", c.name, c.strategy, len(got.Reservations))
		}
		if i >= t.warm {
			times = append(times, took)
		}
		for j := range got.Reservations {
			held = append(held, queue.ReleaseItem{Token: got.Reservations[j].Token})
		}
		if len(held) == t.hold {
			if err := b.giveBack(ctx, held); err != nil {
				return cost{}, err
			}
			held = held[:0]
		}
	}
	if err := b.giveBack(ctx, held); err != nil {
		return cost{}, err
	}
	after := b.q.Examined()
	slices.Sort(times)
	return cost{sorted: times, examined: float64(after-before) / float64(t.warm+t.samples)}, nil
}

// hold reserves exactly n chunks by a strategy, for giveBack.
func (b *bed) hold(ctx context.Context, text string, n int) ([]queue.ReleaseItem, error) {
	plan, err := planOf(text)
	if err != nil {
		return nil, err
	}
	items := make([]queue.ReleaseItem, 0, n)
	var reservations []queue.Reservation
	for len(items) < n {
		got, err := b.work.Reserve(ctx,
			engine.ReserveRequest{Max: min(n-len(items), queue.MaxReserve), Plan: plan, Consumer: consumer}, reservations[:0])
		if err != nil {
			return nil, err
		}
		if reservations = got.Reservations; len(reservations) == 0 {
			return nil, fmt.Errorf("%s gave %d chunks, not %d", text, len(items), n)
		}
		for i := range reservations {
			items = append(items, queue.ReleaseItem{Token: reservations[i].Token})
		}
	}
	return items, nil
}

// giveBack releases held chunks.
func (b *bed) giveBack(ctx context.Context, held []queue.ReleaseItem) error {
	for batch := range slices.Chunk(held, queue.MaxBatch) {
		results, err := b.work.Release(ctx, batch, nil)
		if err != nil {
			return err
		}
		for i := range results {
			if results[i].Outcome != queue.OutcomeOK {
				return fmt.Errorf("a release came back %v: %s", results[i].Outcome, results[i].Detail)
			}
		}
	}
	return nil
}
