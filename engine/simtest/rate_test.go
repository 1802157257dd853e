package simtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// An empty answer says when a rate lets the next chunk be taken, to the millisecond; so does why. After a restart of any kind a rate
// begins as if it had just been used.
func TestRateSaysWhenTheNextComes(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	const text = `MaxRate("c", 2, "1s", OldestFirst)` // one each 505 ms, or up to 10 ms earlier
	made := mustInsert(t, b, prefixed(100, number("c", 1)))
	wait := func(when string, want time.Duration) {
		t.Helper()
		got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, text), Max: 10, Limited: queue.MaxLimited}, nil)
		if err != nil || len(got.Reservations) != 0 || got.Reason != queue.RateLimited || got.RetryAfter != want || len(got.Limited) != 0 {
			t.Fatalf("%s: got %d chunks, reason %s, retry after %v, %v; want none and %v", when, len(got.Reservations), got.Reason, got.RetryAfter, err, want)
		}
		why, err := b.shard.Inspect.Why(ctx, made.ID, 50, plan(t, text))
		if err != nil || why.Leaves[0].Obstacle != queue.ObstacleRate || why.Leaves[0].Wait != want || why.Standing != nil {
			t.Fatalf("%s: why says %+v, standing %+v, %v; want the rate, for %v", when, why.Leaves, why.Standing, err, want)
		}
	}
	one := func(when string) {
		t.Helper()
		if held := mustReserve(t, b, text, 10); len(held) != 1 {
			t.Fatalf("%s: got %d chunks, want 1", when, len(held))
		}
	}
	one("at first")
	wait("then", 495*time.Millisecond)
	b.clock.pass(494 * time.Millisecond)
	wait("a moment before it is time", time.Millisecond)
	b.clock.pass(time.Millisecond)
	one("when it is time")
	wait("again", 505*time.Millisecond) // it was 10 ms early
	if held := mustReserve(t, b, "OldestFirst", 2); len(held) != 2 {
		t.Fatalf("a strategy without the rate got %d chunks, want 2", len(held))
	}
	wait("what others take counts", 3*505*time.Millisecond-505*time.Millisecond)
	b.crashed(0)
	wait("after a crash", 505*time.Millisecond)
	b.clock.pass(505 * time.Millisecond)
	one("an interval later")
	b.restarted(0)
	wait("after a planned restart", 505*time.Millisecond)
	b.clock.pass(time.Hour)
	one("much later")
	wait("what was not used is not saved up", 495*time.Millisecond)
}

// An empty answer says when the last of nested rates lets the first chunk be taken, of any value.
func TestNestedRatesSayWhenTheNextComes(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	const text = `MaxRate("c", 1, "100ms", MaxRate("d", 1, "1m", OldestFirst))`
	for c := range 2 {
		mustInsert(t, b, prefixed(100, number("c", c), number("d", c)))
	}
	for _, want := range []time.Duration{time.Minute, time.Minute - 10*time.Second} { // a hundredth of it may be made up for
		if held := mustReserve(t, b, text, 10); want == time.Minute && len(held) != 2 {
			t.Fatalf("got %d chunks, want one of each value", len(held))
		}
		got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, text), Max: 10}, nil)
		if err != nil || got.Reason != queue.RateLimited || got.RetryAfter != want {
			t.Fatalf("got %d chunks, reason %s, retry after %v, %v; want %v", len(got.Reservations), got.Reason, got.RetryAfter, err, want)
		}
		b.clock.pass(10 * time.Second)
	}
}

// No interval of a rate has more reservations than it allows, for all strategies and over kills at any time, and nothing waits for
// longer than it must.
func TestRatesHoldOverCrashes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			b := openBox(t, relaxed())
			for c := range 3 {
				mustInsert(t, b, prefixed(5000, number("c", c), number("d", c%2)))
			}
			strategies := []string{
				`MaxRate("c", 3, "1s", Random)`, `MaxRate("c", 3, "1s", MaxRate(5, "1s", OldestFirst))`,
				`Fair("c", MaxRate("c", 3, "1s", MaxRate(5, "1s", Random)))`, `MaxRate(5, "1s", MaxSimultaneous("d", 4000, MaxRate("c", 3, "1s", NewestFirst)))`,
			}
			of := map[queue.MetaValue][]queue.Time{}
			note := func(key queue.MetaValue, most int, at queue.Time) {
				list := append(of[key], at)
				of[key] = list
				if n := len(list); n > most && at.Sub(list[n-1-most]) < time.Second {
					t.Fatalf("seed %d: %v has more than %d reservations in a second: %v", seed, key, most, list[n-1-most:])
				}
			}
			began := b.clock.now()
			for range 1500 {
				switch x := r.IntN(200); {
				case x == 0:
					b.crashed(time.Duration(r.IntN(300)) * time.Millisecond)
				case x == 1:
					b.restarted(time.Duration(r.IntN(300)) * time.Millisecond)
				case x < 120:
					b.clock.pass(time.Duration(r.IntN(150)) * time.Millisecond)
				default:
					text := strategies[1+r.IntN(len(strategies)-1)]
					got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, text), Max: 1 + r.IntN(5)}, nil)
					if err != nil {
						t.Fatal(err)
					}
					for _, held := range got.Reservations {
						c, _ := held.Meta.Find("c")
						note(c, 3, b.clock.now())
						note(queue.StringValue("all"), 5, b.clock.now())
					}
					if len(got.Reservations) == 0 && got.Reason != queue.RateLimited {
						t.Fatalf("seed %d: %s got nothing because of %s", seed, text, got.Reason)
					}
				}
			}
			t.Logf("counted: %d reservations, no interval with too many", len(of[queue.StringValue("all")]))
			seconds := b.clock.now().Sub(began).Seconds()
			if all := len(of[queue.StringValue("all")]); float64(all) < 2*seconds {
				t.Errorf("seed %d: %d chunks in %.0f s: the rate of 5 is hardly used", seed, all, seconds)
			}
		})
	}
}

// ratesOf has operators' changes of a rate's number 4, over time.
type ratesOf struct {
	own, all uint32 // 0: not set
	changes  []rateChange
}

type rateChange struct {
	at   queue.Time
	most int
}

func (r *ratesOf) changed(at queue.Time) {
	most := 4
	switch {
	case r.own != 0:
		most = int(r.own)
	case r.all != 0:
		most = int(r.all)
	}
	r.changes = append(r.changes, rateChange{at, most})
}

// most is the largest number that held at any moment of an interval.
func (r *ratesOf) most(from, to queue.Time) (most int) {
	for i, c := range r.changes {
		if c.at <= to && (i+1 == len(r.changes) || r.changes[i+1].at >= from) {
			most = max(most, c.most)
		}
	}
	return most
}

// An operator's number replaces that of a rate at once: no second has more reservations than the largest number that held in it, over
// crashes too. A consumer that learns when the next chunk comes gets it then, and not a millisecond earlier.
func TestSetRatesHold(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 3))
			b := openBox(t, relaxed())
			var rates [3]ratesOf
			for c := range 3 {
				mustInsert(t, b, prefixed(5000, number("c", c)))
				rates[c].changed(b.clock.now())
			}
			of, exact, faster, slower := [3][]queue.Time{}, 0, 0, 0
			text := func(c int) string { return fmt.Sprintf(`SelectOnly("c", %d, MaxRate("c", 4, "1s", Random))`, c) }
			ask := func(c int) machine.Reserved {
				got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, text(c)), Max: 1 + r.IntN(5)}, nil)
				must(t, err)
				for range got.Reservations {
					now := b.clock.now()
					of[c] = append(of[c], now)
					within := 0
					for i := len(of[c]) - 1; i >= 0 && now.Sub(of[c][i]) < time.Second; i-- {
						within++
					}
					if most := rates[c].most(now.Add(-time.Second), now); within > most {
						t.Fatalf("seed %d: %d has %d reservations in a second, want at most %d", seed, c, within, most)
					}
				}
				return got
			}
			set := func(c int) {
				demand, before := queue.NoSettings(), len(rates[c].changes)-1
				number1 := []uint32{0, 1, 2, 3, 6, 9, 30}[r.IntN(7)]
				if number1 > 0 {
					demand.Rate = queue.Rate{Max: number1, Per: time.Second}
				}
				if r.IntN(3) > 0 {
					must(t, b.putValue(number("c", c), demand))
					rates[c].own = number1
				} else {
					must(t, b.putDefault("c", demand))
					for c := range rates {
						rates[c].all = number1
					}
				}
				for c := range rates {
					rates[c].changed(b.clock.now())
				}
				is, was := rates[c].changes[len(rates[c].changes)-1].most, rates[c].changes[before].most
				if is > was {
					faster++
				} else if is < was {
					slower++
				}
			}
			for range 2000 {
				switch x := r.IntN(200); {
				case x == 0:
					b.crashed(time.Duration(r.IntN(300)) * time.Millisecond)
				case x == 1:
					b.restarted(time.Duration(r.IntN(300)) * time.Millisecond)
				case x < 20:
					set(r.IntN(3))
				case x < 100:
					b.clock.pass(time.Duration(r.IntN(200)) * time.Millisecond)
				default:
					c := r.IntN(3)
					got := ask(c)
					if len(got.Reservations) > 0 || r.IntN(2) == 0 {
						continue
					}
					if got.Reason != queue.RateLimited || got.RetryAfter <= 0 {
						t.Fatalf("seed %d: %d got nothing because of %s, retry after %v", seed, c, got.Reason, got.RetryAfter)
					}
					b.clock.pass(got.RetryAfter - time.Millisecond)
					if early := ask(c); got.RetryAfter > time.Millisecond && len(early.Reservations) > 0 {
						t.Fatalf("seed %d: %d got a chunk a millisecond before the end of %v", seed, c, got.RetryAfter)
					}
					b.clock.pass(time.Millisecond)
					if late := ask(c); len(late.Reservations) == 0 && got.RetryAfter > time.Millisecond {
						t.Fatalf("seed %d: %d got nothing after %v; %s, %v", seed, c, got.RetryAfter, late.Reason, late.RetryAfter)
					}
					exact++
				}
			}
			if t.Logf("counted: %d exact waits, %d faster, %d slower", exact, faster, slower); exact < 50 || faster < 10 || slower < 10 {
				t.Errorf("seed %d: %d exact waits, %d faster, %d slower: hardly anything is shown", seed, exact, faster, slower)
			}
		})
	}
}

// A rate that is set faster serves those who wait at once, and why names it.
//
//quern:overlapping
func TestFasterRateServesThoseWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, relaxed())
		b.now = time.Now
		b.open()
		made := mustInsert(t, b, prefixed(100, number("c", 1)))
		const text = `MaxRate("c", 1, "1h", OldestFirst)`
		if held := mustReserve(t, b, text, 1); len(held) != 1 {
			t.Fatalf("got %d chunks, want 1", len(held))
		}
		w := await(t, b, text, 1)
		hourly := queue.NoSettings()
		hourly.Rate = queue.Rate{Max: 4, Per: time.Hour}
		must(t, b.putDefault("c", hourly))
		why, err := b.shard.Inspect.Why(ctx, made.ID, 50, plan(t, text))
		if err != nil || why.Leaves[0].Obstacle != queue.ObstacleRate || why.Leaves[0].Limit.Rate() != "4/1h" {
			t.Errorf("why says %+v, %v; want the rate that is set", why.Leaves, err)
		}
		time.Sleep(10 * time.Second)
		if synctest.Wait(); w.done.Load() {
			t.Fatal("the waiter was served too early")
		}
		hourly.Rate.Max = 1000
		must(t, b.putValue(number("c", 1), hourly))
		if synctest.Wait(); !w.done.Load() || !w.served(1) {
			t.Error("the waiter was not served when the rate was set")
		}
	})
}

// A call that waits is served at the moment at which the rate allows it.
//
//quern:overlapping
func TestRateServesThoseWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, relaxed())
		b.now = time.Now
		b.open()
		mustInsert(t, b, prefixed(100, number("c", 1)))
		const text = `MaxRate("c", 2, "1s", OldestFirst)`
		if held := mustReserve(t, b, text, 10); len(held) != 1 {
			t.Fatalf("got %d chunks, want 1", len(held))
		}
		began := time.Now()
		first, second := await(t, b, text, 5), await(t, b, text, 5)
		for i, w := range []*waiter{first, second} {
			for !w.done.Load() {
				time.Sleep(time.Millisecond)
				synctest.Wait()
			}
			if took, want := time.Since(began), 495*time.Millisecond+time.Duration(i)*505*time.Millisecond; !w.served(1) || took < want || took > want+2*time.Millisecond {
				t.Errorf("waiter %d: %v after %v, want one chunk after %v", i, w, took, want)
			}
		}
	})
}

// The number of rates of a queue is bounded: a strategy with one more is refused, and the known rates go on. Stats have the numbers
// of rates, of values that wait, and of refusals.
func TestRatesAreBounded(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	mustInsert(t, b, prefixed(1000, number("c", 1)))
	rated := func(number int) string { return fmt.Sprintf(`MaxRate("c", %d, "1h", OldestFirst)`, 1+number) }
	for number := range backlog.MostRates {
		mustReserve(t, b, rated(number), 1)
	}
	_, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, rated(backlog.MostRates)), Max: 1}, nil)
	if queue.CodeOf(err) != queue.CodeConflict || !strings.Contains(err.Error(), "254") {
		t.Fatalf("one more rate: got %v, want a conflict that names the most", err)
	}
	if held := mustReserve(t, b, "OldestFirst", 1); len(held) != 1 {
		t.Fatalf("a strategy without a rate got %d chunks, want 1", len(held))
	}
	mustReserve(t, b, rated(3), 1)
	if s := b.shard.Stats().Rates; s.Known != 254 || s.Refused != 1 || s.Values != 254 {
		t.Errorf("stats tell of %d rates, %d values and %d refused, want 254, 254 values and 1", s.Known, s.Values, s.Refused)
	}
}
