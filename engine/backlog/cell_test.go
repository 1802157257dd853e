package backlog

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// nestedCase is a backlog under several limits of which some are reached. Chunks are given back one at a time, at random, and
// another one is taken.
type nestedCase struct {
	name   string
	limits []strategy.Limit
	fair   queue.MetaKey
	order  strategy.Order
	held   int                      // how many chunks are in flight
	meta   func(i int64) queue.Meta // of the i-th submission
	before func(b *Backlog)         // sets an operator's limits
	most   float64                  // submissions and cells examined per Take
	sizes  []int
}

func side(key string, max uint32) strategy.Limit { return strategy.Limit{Key: key, Max: max} }

// grid has pairs of x and y in turn, all of them before any again.
func gridded(x, y int64) func(int64) queue.Meta {
	return func(i int64) queue.Meta { return queue.Meta{is("x", i%x), is("y", i/x%y)} }
}

func nestedCases() []nestedCase {
	two := []strategy.Limit{side("x", 1), side("y", 1)}
	sizes := []int{10_000, 40_000}
	var cases []nestedCase
	for _, order := range []strategy.Order{strategy.Random, strategy.OldestFirst} {
		cases = append(cases,
			nestedCase{name: "100x100 saturated", limits: two, order: order, held: 100, meta: gridded(100, 100), most: 4, sizes: sizes},
			nestedCase{name: "100x100 two open", limits: two, order: order, held: 98, meta: gridded(100, 100), most: 13, sizes: sizes},
			nestedCase{name: "100x100 ten open", limits: two, order: order, held: 90, meta: gridded(100, 100), most: 16, sizes: sizes},
			nestedCase{name: "100x100 30 % open", limits: two, order: order, held: 70, meta: gridded(100, 100), most: 6, sizes: sizes},
			nestedCase{name: "100x100 nearly all open", limits: two, order: order, held: 10, meta: gridded(100, 100), most: 3, sizes: sizes},
			nestedCase{name: "1000x50 saturated", limits: two, order: order, held: 50, meta: gridded(1000, 50), most: 4, sizes: []int{50_000, 100_000}},
			nestedCase{name: "10^4x10^4", limits: two, order: order, held: 2000, meta: func(i int64) queue.Meta {
				return queue.Meta{is("x", i%10_000), is("y", i*7919%9973)}
			}, most: 3, sizes: sizes},
			nestedCase{name: "30x30x30 saturated", limits: append(two[:2:2], side("z", 1)), order: order, held: 30, meta: func(i int64) queue.Meta {
				return queue.Meta{is("x", i%30), is("y", i/30%30), is("z", i/900%30)}
			}, most: 4, sizes: []int{27_000, 54_000}},
			nestedCase{name: "some without", limits: two, order: order, held: 110, meta: func(i int64) queue.Meta {
				if m := gridded(100, 100)(i); i%3 == 0 {
					return m[i/3%2:][:1]
				} else {
					return m
				}
			}, most: 6, sizes: sizes},
			nestedCase{name: "fair by another key", fair: "w", limits: two, order: order, held: 100, meta: func(i int64) queue.Meta {
				return append(queue.Meta{is("w", i/100%10)}, gridded(100, 100)(i)...)
			}, most: 8, sizes: sizes},
			nestedCase{name: "fair by a limited key", fair: "x", limits: two, order: order, held: 100, meta: gridded(100, 100), most: 6, sizes: sizes},
			nestedCase{name: "fair by a limited key, most of it free", fair: "x", limits: two, order: order, held: 50, meta: gridded(1000, 50), most: 6, sizes: []int{50_000, 100_000}},
			nestedCase{name: "an operator's limit of a third key", limits: two, order: order, held: 90, meta: func(i int64) queue.Meta {
				return append(queue.Meta{is("w", i%9)}, gridded(100, 100)(i)...)
			}, before: func(b *Backlog) {
				for w := range int64(4) {
					b.Values.Set("w", queue.IntValue(w), queue.ValueSettings{Limit: 5})
				}
			}, most: 20, sizes: sizes},
		)
	}
	return cases
}

// A submission that an operator's limit held back, and that is free of it again, is still under the view's own limits.
func TestLimitAfterAnOperatorsLimitIsGone(t *testing.T) {
	t.Parallel()
	for name, br := range map[string]strategy.Branch{
		"one limit":  limited(strategy.OldestFirst, side("x", 1)),
		"two limits": limited(strategy.OldestFirst, side("x", 1), side("y", 1)),
	} {
		b := New()
		first, second := b.add(2, 0, is("w", 1), is("x", 1)), b.add(2, 0, is("x", 1))
		v := finished(b, br)
		b.Values.Set("w", queue.IntValue(1), queue.ValueSettings{Limit: 0})
		if s, _, ok := b.Take(v, nil); !ok || s != second {
			t.Errorf("%s: took from %v while w=1 is limited, want the second submission", name, s)
		}
		b.Values.Set("w", queue.IntValue(1), queue.NoSettings())
		if s, _, ok := b.Take(v, nil); ok {
			t.Errorf("%s: took from submission %v while x=1 has its maximum in flight, want nothing", name, s.ID())
		}
		b.Land(second)
		if s, _, ok := b.Take(v, nil); !ok || s != first {
			t.Errorf("%s: took from %v, want the first submission", name, s)
		}
	}
}

// A pick under several limits examines a number of submissions that depends neither on the backlog nor on reservations.
func TestNestedExaminedDoesNotGrow(t *testing.T) {
	t.Parallel()
	for _, test := range nestedCases() {
		if testing.Short() {
			test.sizes = test.sizes[:1]
		}
		for _, size := range test.sizes {
			t.Run(fmt.Sprint(test.order, "/", test.name, "/", size), func(t *testing.T) {
				t.Parallel()
				got, worst := test.run(t, size, 3000)
				t.Logf("%.2f examined per Take, %d at most", got, worst)
				if got > test.most {
					t.Errorf("%.2f submissions and cells examined per Take among %d, want at most %v", got, size, test.most)
				}
			})
		}
	}
}

// run gives back and takes so often, and returns how many looks that took on average and at most.
func (test *nestedCase) run(t *testing.T, size, takes int) (mean float64, most uint64) {
	b, rnd := New(), rand.New(rand.NewPCG(1, 70))
	for i := range int64(size) {
		b.add(10, 0, test.meta(i)...)
	}
	if test.before != nil {
		test.before(b)
	}
	br := limited(test.order, test.limits...)
	if test.fair != "" {
		br = strategy.Branch{Fair: test.fair, Inner: []strategy.Branch{br}}
	}
	v := finished(b, br)
	var held []queueChunk
	take := func() {
		s, index, ok := b.Take(v, rnd)
		if !ok {
			t.Fatalf("nothing found with %d in flight", len(held))
		}
		held = append(held, queueChunk{s, index})
	}
	giveBack := func() {
		i := rnd.IntN(len(held))
		b.Land(held[i].s)
		b.PutBack(held[i].s, held[i].index)
		held[i] = held[len(held)-1]
		held = held[:len(held)-1]
	}
	for len(held) < test.held {
		if s, index, ok := b.Take(v, rnd); ok {
			held = append(held, queueChunk{s, index})
		} else {
			giveBack() // the last ones do not fit together
		}
	}
	start := b.Examined()
	for range takes {
		before := b.Examined()
		giveBack()
		take()
		most = max(most, b.Examined()-before)
	}
	return float64(b.Examined()-start) / float64(takes), most
}
