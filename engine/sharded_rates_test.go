package engine

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/together"
)

// A rate by a key that is not the group counts the reservations of all shards, whatever the order, however many chunks a call asks for,
// and those of other strategies, too. Nothing is held back for longer than the rate demands.
func TestRatesByOtherKeysCountAllShards(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{`MaxRate("user", 6, "1m", burst=3, Random)`, `MaxRate("user", 6, "1m", burst=3, OldestFirst)`,
		`OrElse(MaxRate("user", 6, "1m", burst=3, NewestFirst), MaxRate("user", 3, "1m", burst=3, Random))`,
		`MaxRate("user", 6, "1m", burst=3, MaxSimultaneous("user", 50, Random))`} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			clock := clockAt(1_700_000_000_000)
			e, w := openShardedAt(t, t.TempDir(), 4, clock.std)
			defer closed(t, e)
			if n := len(usersOf(t, w, 16, 4, 20)); n < 3 {
				t.Fatalf("the groups are in %d shards", n)
			}
			each := func(what string, list []queue.Reservation, want int) {
				t.Helper()
				for user := range 4 {
					if n := perUser(list)[fmt.Sprint("u", user)]; n != want {
						t.Fatalf("%s: %v were taken, want %d of each of four users", what, perUser(list), want)
					}
				}
			}
			each("at first", takenBy(t, w, strategy, 100), 3)
			got, err := reserveBy(t, w, strategy, 100, 0)
			if err != nil || len(got.Reservations) > 0 || got.Reason != queue.RateLimited || got.RetryAfter != 10*time.Second {
				t.Fatalf("at once %v more were taken, %v with %v, %v", perUser(got.Reservations), got.Reason, got.RetryAfter, err)
			}
			clock.pass(10*time.Second - 2*time.Millisecond)
			each("a little early", takenBy(t, w, strategy, 100), 0)
			clock.pass(2 * time.Millisecond)
			each("after 10 s", takenBy(t, w, strategy, 100), 1)
			clock.pass(20 * time.Second)
			var one []queue.Reservation
			for range 20 {
				one = append(one, takenBy(t, w, strategy, 1)...)
			}
			each("one by one", one, 2)
			clock.pass(20 * time.Second)
			free := takenBy(t, w, `SelectOnly("user", "u1", Random)`, 1)
			if counts := perUser(takenBy(t, w, strategy, 100)); counts["u1"] != 1 || counts["u2"] != 2 {
				t.Errorf("after %d chunk of u1 was taken without the rate, %v were taken", len(free), counts)
			}
		})
	}
}

// A rate without a key counts all chunks of all shards.
func TestRateOfAllChunksCountsAllShards(t *testing.T) {
	t.Parallel()
	clock := clockAt(1_700_000_000_000)
	e, w := openShardedAt(t, t.TempDir(), 4, clock.std)
	defer closed(t, e)
	usersOf(t, w, 16, 2, 20)
	for step, want := range []int{5, 1, 1, 2, 5} {
		if got := takenBy(t, w, `MaxRate(10, "10s", burst=5, Random)`, 100); len(got) != want {
			t.Errorf("step %d: %d were taken, want %d", step, len(got), want)
		}
		clock.pass([]time.Duration{1, 1, 2, 60, 0}[step] * time.Second)
	}
}

// Many workers at the same time never have more of a user than the rate allows, while others take the same users without it, and a shard
// moves from one engine to another meanwhile.
func TestRateByOtherKeyHoldsAtTheSameTime(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 4)
	defer closed(t, e)
	usersOf(t, w, 12, 4, 400)
	const strategy, apart = `MaxRate("user", 40, "1s", Random)`, time.Second / 40
	var (
		mu      sync.Mutex
		taken   = map[string]int{}
		workers sync.WaitGroup
	)
	begun := time.Now()
	for time.Since(begun) < 2*time.Second {
		for worker := range 12 {
			workers.Go(func() {
				by := strategy
				if worker == 0 {
					by = `SelectOnly("user", "u0", Random)`
				}
				got, err := reserveBy(t, w, by, 1+worker%3, 20*time.Millisecond)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for i := range got.Reservations {
					if by == strategy {
						taken[userOf(&got.Reservations[i])]++
					}
				}
			})
		}
		workers.Wait()
	}
	took := time.Since(begun)
	for user := range 4 {
		n, most := taken[fmt.Sprint("u", user)], int(took/apart)+2
		if n > most || user > 0 && n == 0 {
			t.Errorf("%d of u%d were taken in %v, and %d are allowed", n, user, took, most)
		}
	}
	if taken["u0"] > taken["u1"] {
		t.Errorf("a user that others take, too, got %d by the rate, and one that is taken by the rate alone %d", taken["u0"], taken["u1"])
	}
	t.Logf("%v in %v, at most %d each", taken, took, int(took/apart)+2)
}

// After a restart each value counts as if it had used its burst, in all shards.
func TestRateByOtherKeyAfterRestart(t *testing.T) {
	t.Parallel()
	clock := clockAt(1_700_000_000_000)
	dir := t.TempDir()
	e, w := openShardedAt(t, dir, 4, clock.std)
	const strategy = `MaxRate("user", 6, "1m", burst=2, Random)`
	usersOf(t, w, 8, 2, 20)
	if n := len(takenBy(t, w, strategy, 100)); n != 4 {
		t.Fatalf("%d were taken", n)
	}
	closed(t, e)
	e, w = openShardedAt(t, dir, 4, clock.std)
	defer closed(t, e)
	if n := len(takenBy(t, w, strategy, 100)); n != 0 {
		t.Errorf("%d were taken right after a restart", n)
	}
	clock.pass(10 * time.Second)
	if n := len(takenBy(t, w, strategy, 100)); n != 2 {
		t.Errorf("%d were taken 10 s after a restart, want one of each user", n)
	}
}

// A shard that was on another node knows nothing of the rates of the others, and they know nothing of its reservations. So all of them
// count as if each value had used its burst, and use the highest debt that any of them knows.
func TestRateByOtherKeyNeedsOneNode(t *testing.T) {
	t.Parallel()
	_, nodes := newFellows(t, 2, "a", "b")
	a, b := nodes["a"], nodes["b"]
	w := workAt(t, a.Engine)
	usersOf(t, w, 8, 1, 10)
	put1(t, w, queue.NewSubmission{Meta: queue.Meta{{Key: "user", Value: queue.StringValue("alone")}}}) // in the first shard
	const strategy = `MaxRate("user", 2, "10m", burst=2, OldestFirst)`
	if n := len(takenBy(t, w, strategy, 1)); n != 1 {
		t.Fatalf("%d were taken", n)
	}
	a.moved(t, 2, b)
	for _, n := range []*testNode{a, b} {
		if _, err := reserveBy(t, workAt(t, n.Engine), strategy, 10, 0); queue.CodeOf(err) != queue.CodeInvalid {
			t.Errorf("over two nodes, a reserve answers %v", err)
		}
	}
	b.moved(t, 2, a)
	if n := len(takenBy(t, w, strategy, 10)); n != 0 {
		t.Errorf("%d more were taken after a shard was away", n)
	}
}

// While a rate is kept, each shard hears of the reservations of the others, although no call uses the rate.
func TestShardsHearOfReservations(t *testing.T) {
	t.Parallel()
	clock := clockAt(1_700_000_000_000)
	e, w := openShardedAt(t, t.TempDir(), 4, clock.std)
	defer closed(t, e)
	usersOf(t, w, 8, 1, 20)
	const strategy = `MaxRate("user", 6, "1m", burst=6, Random)`
	takenBy(t, w, strategy, 1)
	takenBy(t, w, "Random", 3)
	s := w.(*Sharded)
	rate := together.CrossingOf(asksFor(t, w, strategy, 1).Plan).Rates[0]
	owed := func() (least int64) {
		for number := range 4 {
			q, err := s.shard(number + 1)
			if err != nil {
				t.Fatal(err)
			}
			list, err := shard.Owed(q.shard, rate)
			if err != nil || len(list) > 1 {
				t.Fatalf("a shard knows of %v, %v", list, err)
			}
			if len(list) == 0 {
				return 0
			}
			if number == 0 || list[0].At < least {
				least = list[0].At
			}
		}
		return least
	}
	for owed() < clock.std().Add(4*10*time.Second).UnixNano() {
		time.Sleep(time.Millisecond)
	}
}

// A share in percent is of the chunks in flight in all shards.
func TestPercentOfAllShards(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 4)
	defer closed(t, e)
	usersOf(t, w, 16, 4, 20)
	takenBy(t, w, `SelectOnly("user", "u0", Random)`, 60)
	for _, key := range []string{"user", "group"} {
		got := takenBy(t, w, fmt.Sprintf(`MaxSimultaneous(%q, "10%%", Random)`, key), 100)
		counts := map[string]int{}
		for i := range got {
			value, _ := got[i].Meta.Find(key)
			counts[value.Text()]++
		}
		if most := (60 + 100) / 10; key == "user" && (len(counts) != 3 || counts["u1"] != most || counts["u3"] != most) {
			t.Errorf("a tenth of %d is %v of each user", 60+100, counts)
		}
		if _, err := w.Release(t.Context(), releases(got), nil); err != nil {
			t.Fatal(err)
		}
	}
	came := make(chan int)
	go func() { // waits until a third of what is in flight is more
		got, err := reserveBy(t, w, `SelectOnly("user", "u0", MaxSimultaneous("user", "50%", Random))`, 1, time.Minute)
		if err != nil {
			t.Error(err)
		}
		came <- len(got.Reservations)
	}()
	for n := 0; n < 70; n += 10 {
		takenBy(t, w, `SelectOnly("user", "u2", Random)`, 10)
	}
	if n := <-came; n != 1 {
		t.Errorf("%d chunks came to a call that waited for a share", n)
	}
}

// A rate that no call has used for long is not kept together any more. When a call uses it again, the reservations since then count.
func TestRateByOtherKeyIsLetGo(t *testing.T) {
	t.Parallel()
	clock := clockAt(1_700_000_000_000)
	e, w := openShardedAt(t, t.TempDir(), 4, clock.std)
	defer closed(t, e)
	usersOf(t, w, 16, 1, 20)
	const strategy = `MaxRate("user", 6, "1m", burst=6, Random)`
	if n := len(takenBy(t, w, strategy, 100)); n != 6 {
		t.Fatalf("%d were taken", n)
	}
	clock.pass(5 * time.Minute)
	counts := w.(*Sharded).counts
	for kept := true; kept; time.Sleep(time.Millisecond) {
		rates, _ := counts.Kept()
		kept = len(rates) > 0
	}
	in := map[queue.ShardID]bool{}
	for len(in) < 2 {
		if free := takenBy(t, w, "Random", 1); !in[free[0].Token.Submission.Shard()] {
			in[free[0].Token.Submission.Shard()] = true
		} else if _, err := w.Complete(t.Context(), completes(free), nil); err != nil {
			t.Fatal(err)
		} else {
			clock.pass(5 * time.Minute) // all is forgotten, and the shards count again
			clear(in)
		}
	}
	if n := len(takenBy(t, w, strategy, 100)); n != 4 {
		t.Errorf("%d were taken after two shards had given one each, want 4", n)
	}
}

// A shard that did not serve for a moment, and has not restarted, does not know the reservations of the others meanwhile.
func TestRateCountsWhatAShardMissed(t *testing.T) {
	t.Parallel()
	clock := clockAt(1_700_000_000_000)
	e, w := openShardedAt(t, t.TempDir(), 2, clock.std)
	defer closed(t, e)
	usersOf(t, w, 8, 1, 20)
	const strategy = `MaxRate("user", 6, "1m", burst=6, Random)`
	if n := len(takenBy(t, w, strategy, 1)); n != 1 {
		t.Fatalf("%d were taken", n)
	}
	name := queue.ShardName(shardedName, 2)
	q := queueAt(e, name)
	e.mu.change(func() { delete(e.queues, name) })
	for _, want := range []int{4, 1} {
		if n := len(takenBy(t, w, strategy, want)); n != want {
			t.Errorf("%d were taken of one shard, want %d", n, want)
		}
	}
	e.mu.change(func() { e.queues[name] = q })
	if n := len(takenBy(t, w, strategy, 100)); n != 0 {
		t.Errorf("%d more were taken when the other shard served again", n)
	}
}

// When no shard serves any more, because the queue was deleted, nothing keeps running for its rates.
func TestHearingEndsWithTheShards(t *testing.T) {
	t.Parallel()
	clock := clockAt(1_700_000_000_000)
	e, w := openShardedAt(t, t.TempDir(), 2, clock.std)
	defer closed(t, e)
	if n := len(takenBy(t, w, `MaxRate("user", 6, "1m", Random)`, 1)); n != 0 {
		t.Fatalf("%d were taken", n)
	}
	if err := e.DeleteQueue(t.Context(), shardedName, false); err != nil {
		t.Fatal(err)
	}
	counts := w.(*Sharded).counts
	for hearing := true; hearing; time.Sleep(time.Millisecond) {
		_, hearing = counts.Kept()
	}
}
