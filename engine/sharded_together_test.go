package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// usersOf puts work of some users into each of some groups, which are in different shards. It returns the shards of the groups.
func usersOf(t *testing.T, w Work, groups, users int, chunks uint32) (shards map[queue.ShardID]bool) {
	t.Helper()
	shards = map[queue.ShardID]bool{}
	for g := range groups {
		for u := range users {
			s := put1(t, w, queue.NewSubmission{Group: fmt.Sprint("g", g), Chunks: queue.Chunks{Count: chunks}, Meta: queue.Meta{
				{Key: "group", Value: queue.StringValue(fmt.Sprint("g", g))}, {Key: "user", Value: queue.StringValue(fmt.Sprint("u", u))}}})
			shards[s.ID.Shard()] = true
		}
	}
	return shards
}

func userOf(r *queue.Reservation) string {
	value, _ := r.Meta.Find("user")
	return value.Text()
}

func perUser(list []queue.Reservation) map[string]int {
	counts := map[string]int{}
	for i := range list {
		counts[userOf(&list[i])]++
	}
	return counts
}

// A limit by a key that is not the group counts the chunks of all shards, whatever the order, however many chunks a call asks for, and
// also if other calls do not ask for the limit.
func TestLimitsByOtherKeysCountAllShards(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{`MaxSimultaneous("user", 3, Random)`, `MaxSimultaneous("user", 3, OldestFirst)`,
		`MaxSimultaneous("user", 3, NewestFirst)`, `OrElse(MaxSimultaneous("user", 2, OldestFirst), MaxSimultaneous("user", 3, Random))`} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			e, w := openSharded(t, t.TempDir(), 4)
			defer e.Close()
			if n := len(usersOf(t, w, 16, 4, 10)); n < 3 {
				t.Fatalf("the groups are in %d shards", n)
			}
			held := takenBy(t, w, strategy, 100)
			if counts := perUser(held); len(held) != 12 || len(counts) != 4 || counts["u0"] != 3 {
				t.Fatalf("one call took %v, want three of each of four users", counts)
			}
			if more := takenBy(t, w, strategy, 100); len(more) != 0 {
				t.Errorf("%d chunks more were taken", len(more))
			}
			got, err := reserveBy(t, w, strategy, 1, 0)
			if err != nil || got.Reason != queue.AllLimited || len(got.Limited) != 4 || got.Limited[0].InFlight != 3 {
				t.Errorf("an empty reserve says %v of %+v, %v", got.Reason, got.Limited, err)
			}
			if _, err := w.Complete(t.Context(), completes(held[:1]), nil); err != nil {
				t.Fatal(err)
			}
			again := takenBy(t, w, strategy, 100)
			if len(again) != 1 || userOf(&again[0]) != userOf(&held[0]) {
				t.Errorf("after a chunk of %s was completed, %v were taken", userOf(&held[0]), perUser(again))
			}
			if _, err := w.Release(t.Context(), releases(append(held[1:], again...)), nil); err != nil {
				t.Fatal(err)
			}
			free := takenBy(t, w, `SelectOnly("user", "u1", Random)`, 2) // counts, though it is not limited
			if counts := perUser(takenBy(t, w, strategy, 100)); counts["u1"] != 1 || counts["u2"] != 3 {
				t.Errorf("with %d chunks of u1 in flight, %v were taken", len(free), counts)
			}
		})
	}
}

// PreferDistinct by a key that is not the group has the users take turns over all shards.
func TestPreferDistinctCountsAllShards(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 4)
	defer e.Close()
	usersOf(t, w, 16, 5, 10)
	var held []queue.Reservation
	for round := range 4 {
		held = append(held, takenBy(t, w, `PreferDistinct("user", Random)`, 1)...)
		held = append(held, takenBy(t, w, `PreferDistinct("user", Random)`, 4)...)
		for user, n := range perUser(held) {
			if n != round+1 {
				t.Errorf("%s has %d chunks in flight after %d rounds", user, n, round+1)
			}
		}
	}
}

// Many workers at the same time never have more chunks of a user than the limit, in whichever shards these are, and they finish all work.
// Shards that reload or are given up to another engine meanwhile change nothing of that.
func TestLimitByOtherKeyHoldsAtTheSameTime(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 4)
	defer e.Close()
	usersOf(t, w, 12, 6, 8)
	var (
		mu      sync.Mutex
		flying  = map[string]int{}
		done    int
		workers sync.WaitGroup
	)
	for range 24 {
		workers.Go(func() {
			for {
				got, err := reserveBy(t, w, `MaxSimultaneous("user", 2, Random)`, 3, 2*time.Second)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for i := range got.Reservations {
					user := userOf(&got.Reservations[i])
					if flying[user]++; flying[user] > 2 {
						t.Errorf("%d chunks of %s are in flight", flying[user], user)
					}
				}
				over := done == 12*6*8
				mu.Unlock()
				if len(got.Reservations) == 0 {
					if over {
						return
					}
					continue
				}
				mu.Lock()
				for i := range got.Reservations {
					flying[userOf(&got.Reservations[i])]--
				}
				done += len(got.Reservations)
				mu.Unlock()
				if _, err := w.Complete(t.Context(), completes(got.Reservations), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	if done != 12*6*8 {
		t.Errorf("%d of %d chunks were done", done, 12*6*8)
	}
}

// A call that waits because a user has its limit in one shard wakes when a chunk in another shard is done.
func TestLimitByOtherKeyWakes(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 4)
	defer e.Close()
	usersOf(t, w, 8, 1, 1)
	held := takenBy(t, w, `MaxSimultaneous("user", 1, OldestFirst)`, 5)
	if len(held) != 1 {
		t.Fatalf("%d chunks were taken", len(held))
	}
	for range 7 {
		came := make(chan []queue.Reservation)
		go func() {
			got, err := reserveBy(t, w, `MaxSimultaneous("user", 1, OldestFirst)`, 5, time.Minute)
			if err != nil {
				t.Error(err)
			}
			came <- got.Reservations
		}()
		if _, err := w.Complete(t.Context(), completes(held), nil); err != nil {
			t.Fatal(err)
		}
		if held = <-came; len(held) != 1 {
			t.Fatalf("%d chunks came", len(held))
		}
	}
}

// After a restart the limit counts the chunks that consumers still have. After a kill, with a restart grace, the limit gives nothing as
// long as any shard may not know the chunks of consumers.
func TestLimitByOtherKeyAfterRestart(t *testing.T) {
	t.Parallel()
	const strategy = `MaxSimultaneous("user", 2, Random)`
	for _, killed := range []string{"none", "one", "all"} {
		t.Run(killed, func(t *testing.T) {
			t.Parallel()
			dir, copied := t.TempDir(), t.TempDir()
			e, w := openSharded(t, dir, 4)
			settings := *queueAt(e, queue.ShardName(shardedName, 1)).config.Load()
			settings.RestartGrace = time.Minute
			if _, _, err := e.PutQueue(t.Context(), shardedName, settings); err != nil {
				t.Fatal(err)
			}
			usersOf(t, w, 8, 2, 4)
			held := takenBy(t, w, strategy, 10)
			if len(held) != 4 {
				t.Fatalf("%d chunks were taken", len(held))
			}
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil { // what a kill leaves
				t.Fatal(err)
			}
			closed(t, e)
			want := queue.RestartGrace
			switch killed {
			case "none":
				want = queue.AllLimited
			case "one":
				shard := filepath.Join("shards", fmt.Sprintf("%04d", held[0].Token.Submission.Shard()))
				if err := os.RemoveAll(filepath.Join(dir, shard)); err != nil {
					t.Fatal(err)
				}
				if err := os.CopyFS(filepath.Join(dir, shard), os.DirFS(filepath.Join(copied, shard))); err != nil {
					t.Fatal(err)
				}
			case "all":
				dir = copied
			}
			e, w = reopened(t, dir)
			defer closed(t, e)
			got, err := reserveBy(t, w, strategy, 10, 0)
			if err != nil || len(got.Reservations) != 0 || got.Reason != want || want == queue.RestartGrace && got.RetryAfter <= 0 {
				t.Errorf("%d chunks were taken, or %v with %v, %v", len(got.Reservations), got.Reason, got.RetryAfter, err)
			}
			if free := takenBy(t, w, `Random`, 1); len(free) != 1 {
				t.Errorf("%d chunks were taken without a limit", len(free))
			}
		})
	}
}

// A limit that shards of one node count together is refused when they are on several nodes, and works again when they are back on one.
func TestLimitByOtherKeyNeedsOneNode(t *testing.T) {
	t.Parallel()
	_, nodes := newFellows(t, 2, "a", "b")
	a, b := nodes["a"], nodes["b"]
	w := workAt(t, a.Engine)
	usersOf(t, w, 8, 1, 4)
	const strategy = `MaxSimultaneous("user", 2, OldestFirst)`
	held := takenBy(t, w, strategy, 10)
	if len(held) != 2 {
		t.Fatalf("%d chunks were taken", len(held))
	}
	_, holding := queue.CutShard(w.(*Sharded).HomeOf(held[0].Token.Submission))
	other := 3 - holding
	a.moved(t, other, b)
	for _, n := range []*testNode{a, b} {
		if _, err := reserveBy(t, workAt(t, n.Engine), strategy, 10, 0); queue.CodeOf(err) != queue.CodeInvalid {
			t.Errorf("over two nodes, a reserve answers %v", err)
		}
	}
	b.moved(t, other, a) // it knows nothing of what the shard that stayed has in flight
	if got := takenBy(t, w, strategy, 10); len(got) != 0 {
		t.Errorf("%d chunks more were taken after a shard was away", len(got))
	}
	a.moved(t, 1, b)
	a.moved(t, 2, b)
	w = workAt(t, b.Engine)
	if got := takenBy(t, w, strategy, 10); len(got) != 0 {
		t.Errorf("%d chunks more were taken after the shards moved", len(got))
	}
	if _, err := w.Complete(t.Context(), completes(held[:1]), nil); err != nil {
		t.Fatal(err)
	}
	if got := takenBy(t, w, strategy, 10); len(got) != 1 {
		t.Errorf("%d chunks were taken after one was completed, want 1", len(got))
	}
}

// Each shard hears of the chunks that the others have given, and while a call waits, also of finished ones, although no call reserves.
func TestShardsHearWhileCallsWait(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 4)
	defer e.Close()
	usersOf(t, w, 8, 1, 2)
	s := w.(*Sharded)
	asked := asksFor(t, w, `MaxSimultaneous("user", 1, OldestFirst)`, 1)
	open := func() (shards int) {
		for number := range 4 {
			q, err := s.shard(number + 1)
			if err != nil {
				t.Fatal(err)
			}
			heads, err := q.shard.Heads(t.Context(), asked.Plan, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !nothing(heads) {
				shards++
			}
		}
		return shards
	}
	held := takenBy(t, w, `MaxSimultaneous("user", 1, OldestFirst)`, 1)
	for open() > 0 {
		time.Sleep(time.Millisecond)
	}
	if len(held) != 1 {
		t.Fatalf("%d chunks are held", len(held))
	}
	defer s.counts.Wait()()
	if _, err := w.Complete(t.Context(), completes(held), nil); err != nil {
		t.Fatal(err)
	}
	for open() < 2 {
		time.Sleep(time.Millisecond)
	}
}
