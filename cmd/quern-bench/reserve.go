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

// consumer is in whose name chunks are reserved, and given back before a restart, which keeps what is held.
const consumer = "bench"

// reserveCase is a strategy in a situation.
type reserveCase struct {
	name, strategy string
	empty          bool // nothing is to be found
	lone           bool // each chunk is given back before the next is reserved: there is no more than one to be had
}

// timing is how often a case is measured.
type timing struct {
	warm    int // reserves before those that count; the first ones build the views
	samples int // reserves that count
	hold    int // chunks that are held at most, from this case
}

var fullTiming = timing{warm: 1000, samples: 20_000, hold: 5000}

// cost is what was measured.
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
