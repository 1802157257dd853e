package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// Fair shares out the chunks of all shards, whichever shards the tenants are in, one by one and many at a time, and also if shards have
// nothing of a tenant any more.
func TestFairOverShards(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{`Fair("user", OldestFirst)`, `Fair("user", Random)`, `Fair("user", NewestFirst)`,
		`OrElse(Fair("user", CustomPriority), Random)`, `Fair("user", OrElse(SelectOnly("kind", "a", Random), OldestFirst))`,
		`Fair("user", MaxSimultaneous("user", 5000, Random))`} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			e, w := openSharded(t, t.TempDir(), 4)
			defer closed(t, e)
			put1(t, w, userWork("heavy", "lone", 300)) // its work is in one shard
			for g := range 12 {
				put1(t, w, userWork(fmt.Sprint("g", g), "many", 20))
				put1(t, w, userWork(fmt.Sprint("g", g), "few", 2))
			}
			for round := range 10 { // all three compete
				held := takenBy(t, w, strategy, 1+round)
				held = append(held, takenBy(t, w, strategy, 1)...)
				for more := 3*len(held) - len(held); len(held)%3 != 0 && more > 0; more-- {
					held = append(held, takenBy(t, w, strategy, 1)...)
				}
				counts := perUser(held)
				if round < 3 && (counts["lone"] != counts["many"] || counts["many"] != counts["few"]) {
					t.Fatalf("round %d: %v", round, counts)
				}
			}
			for len(takenBy(t, w, `SelectOnly("user", "few", Random)`, 100)) > 0 {
			}
			if counts := perUser(takenBy(t, w, strategy, 100)); counts["lone"]-counts["many"] > 2 || counts["many"]-counts["lone"] > 2 {
				t.Errorf("of 100 chunks, %v were taken", counts)
			}
			all := perUser(takenBy(t, w, strategy, 1000))
			if rest := takenBy(t, w, strategy, 10); len(rest) != 0 || all["lone"] == 0 {
				t.Errorf("%v were taken at last, and then %d", all, len(rest))
			}
		})
	}
}

// userWork is work of a user in a group.
func userWork(group, user string, chunks uint32) queue.NewSubmission {
	return queue.NewSubmission{Group: group, Chunks: queue.Chunks{Count: chunks}, Meta: queue.Meta{
		{Key: "group", Value: queue.StringValue(group)}, {Key: "kind", Value: queue.StringValue([]string{"a", "b"}[len(group)%2])},
		{Key: "user", Value: queue.StringValue(user)}}}
}

// Groups and submissions are tenants, too, though each of them is in one shard. Groups go by their weights.
func TestFairByGroupAndSubmission(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 4)
	defer closed(t, e)
	const groups = 9
	for g := range groups {
		put1(t, w, userWork(fmt.Sprint("g", g), "u", uint32(40+g)))
	}
	for _, strategy := range []string{`Fair("group", Random)`, `Fair("$submission", OldestFirst)`} {
		counts := map[queue.SubmissionID]int{}
		for _, most := range []int{1, 4, 13, 9} { // three of each
			for _, r := range takenBy(t, w, strategy, most) {
				counts[r.Token.Submission]++
			}
		}
		for id, n := range counts {
			if n != 3 || len(counts) != groups {
				t.Errorf("%s: %d of %v, of %d submissions", strategy, n, id, len(counts))
			}
		}
	}
	for number := range 4 {
		entry := queue.MetaEntry{Key: "group", Value: queue.StringValue("g1")}
		if _, _, err := queueAt(e, queue.ShardName(shardedName, number+1)).Values.Put(t.Context(), entry, queue.ValueSettings{Limit: queue.NoLimit, Weight: 3000}, nil); err != nil {
			t.Fatal(err)
		}
	}
	counts := map[string]int{}
	for _, r := range takenBy(t, w, `Fair("group", Random)`, 11*4) {
		value, _ := r.Meta.Find("group")
		counts[value.Text()]++
	}
	if counts["g1"] < 11 || counts["g1"] > 13 || counts["g2"] < 3 || counts["g2"] > 5 {
		t.Errorf("with a weight of three, a group got %d, and another one %d", counts["g1"], counts["g2"])
	}
}

// Fair by time counts how long the chunks of all shards were held. A user whose chunks take three times as long gets a third of them.
//
//quern:sequential
func TestFairByTimeOverShards(t *testing.T) {
	t.Parallel()
	clock := clockAt(1_700_000_000_000)
	e, w := openShardedAt(t, t.TempDir(), 4, clock.std)
	defer closed(t, e)
	usersOf(t, w, 12, 2, 100)
	counts := map[string]int{}
	held, since := map[string][]queue.Reservation{}, map[queue.Token]time.Time{}
	for range 400 {
		if free := 4 - len(held["u0"]) - len(held["u1"]); free > 0 {
			for _, r := range takenBy(t, w, `Fair("user", time, Random)`, free) {
				held[userOf(&r)], since[r.Token] = append(held[userOf(&r)], r), clock.std()
				counts[userOf(&r)]++
			}
		}
		clock.pass(time.Second)
		for user, each := range map[string]time.Duration{"u0": 3 * time.Second, "u1": time.Second} {
			var over []queue.Reservation
			held[user] = slices.DeleteFunc(held[user], func(r queue.Reservation) bool {
				ends := clock.std().Sub(since[r.Token]) >= each
				if ends {
					over = append(over, r)
				}
				return ends
			})
			if _, err := w.Complete(t.Context(), completes(over), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if ratio := float64(counts["u1"]) / float64(counts["u0"]); ratio < 2.6 || ratio > 3.4 {
		t.Errorf("%v chunks were taken, want three times as many of the user whose chunks take a third of the time", counts)
	}
}

// Many workers at the same time, releases and a limit by another key: everything is done once, and no user gets ahead while all have work.
func TestFairOverShardsAtTheSameTime(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 4)
	defer closed(t, e)
	const users, chunks = 5, 12 * 10
	usersOf(t, w, 12, users, 10)
	var (
		mu      sync.Mutex
		done    = map[string]int{}
		most    int
		workers sync.WaitGroup
	)
	for worker := range 12 {
		workers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(worker), 1))
			for {
				got, err := reserveBy(t, w, `Fair("user", MaxSimultaneous("user", 8, Random))`, 2, 200*time.Millisecond)
				if err != nil {
					t.Error(err)
					return
				}
				if len(got.Reservations) == 0 {
					mu.Lock()
					over := done["u0"]+done["u1"]+done["u2"]+done["u3"]+done["u4"] == users*chunks
					mu.Unlock()
					if over {
						return
					}
					continue
				}
				if rnd.IntN(5) == 0 {
					if _, err := w.Release(t.Context(), releases(got.Reservations), nil); err != nil {
						t.Error(err)
					}
					continue
				}
				if _, err := w.Complete(t.Context(), completes(got.Reservations), nil); err != nil {
					t.Error(err)
				}
				mu.Lock()
				for i := range got.Reservations {
					done[userOf(&got.Reservations[i])]++
				}
				least, greatest := chunks, 0
				for user := range users {
					n := done[fmt.Sprint("u", user)]
					least, greatest = min(least, n), max(greatest, n)
				}
				if greatest < chunks-20 {
					most = max(most, greatest-least)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	if most > 12*2+2 { // what twelve workers may hold at once
		t.Errorf("a user was %d chunks ahead of another", most)
	}
	for user, n := range done {
		if n != chunks {
			t.Errorf("%d of %d chunks of %s were done", n, chunks, user)
		}
	}
}

// Each shard answers with the ledger of all shards: the service that each user received in all of them together.
func TestLedgerOverShards(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 4)
	defer closed(t, e)
	for u := range 3 { // no shard has all of them
		put1(t, w, userWork(fmt.Sprint("group", u), fmt.Sprint("u", u), 40))
	}
	takenBy(t, w, `Fair("user", Random)`, 60)
	for number := range 4 {
		q := queueAt(e, queue.ShardName(shardedName, number+1))
		list, err := q.Ledgers(t.Context())
		if err != nil || len(list) != 1 || list[0].Active != 3 || list[0].Key != "user" {
			t.Fatalf("shard %d has the ledgers %+v, %v", number+1, list, err)
		}
		tenants, found, err := q.LedgerTenants(t.Context(), list[0].ID, ByReceived, nil, 10)
		if err != nil || !found || tenants.Received != 60 || len(tenants.Items) != 3 || tenants.Items[0].Received != 20 || tenants.Lag != 0 {
			t.Errorf("shard %d says of the tenants %+v, %v", number+1, tenants, err)
		}
		only := queue.StringValue("u1")
		if one, _, err := q.LedgerTenants(t.Context(), list[0].ID, ByAhead, &only, 10); err != nil || len(one.Items) != 1 || *one.Items[0].Value != only {
			t.Errorf("shard %d says of u1 %+v, %v", number+1, one.Items, err)
		}
	}
}

// A shard that restarts reports its tenants again. None of them gains by that. Work that is only in this shard waits for it.
func TestFairWhileAShardIsAway(t *testing.T) {
	t.Parallel()
	_, nodes := newFellows(t, 2, "a", "b")
	a, b := nodes["a"], nodes["b"]
	w := workAt(t, a.Engine)
	usersOf(t, w, 12, 2, 40)
	const strategy = `Fair("user", OldestFirst)`
	counts := perUser(takenBy(t, w, strategy, 20))
	if counts["u0"] != 10 || counts["u1"] != 10 {
		t.Fatalf("%v were taken", counts)
	}
	takenBy(t, w, `SelectOnly("user", "u0", Random)`, 7)
	a.moved(t, 2, b)
	if _, err := reserveBy(t, w, strategy, 10, 0); queue.CodeOf(err) != queue.CodeInvalid {
		t.Errorf("over two nodes, a reserve answers %v", err)
	}
	b.moved(t, 2, a)
	counts = perUser(takenBy(t, w, strategy, 40))
	if counts["u0"] != 20 || counts["u1"] != 20 {
		t.Errorf("after a shard was away, %v were taken", counts)
	}
	a.moved(t, 2, b)
	takenBy(t, queueAt(b.Engine, queue.ShardName(shardedName, 2)), "Random", 1000)
	b.moved(t, 2, a)
	for _, r := range takenBy(t, w, strategy, 900) {
		if _, number := queue.CutShard(w.(*Sharded).HomeOf(r.Token.Submission)); number != 1 {
			t.Errorf("a chunk came from shard %d, where all were taken meanwhile", number)
		}
	}
	list, err := queueAt(a.Engine, queue.ShardName(shardedName, 1)).Ledgers(t.Context())
	if err != nil || len(list) != 1 || list[0].Active != 0 {
		t.Errorf("with nothing left, the ledgers are %+v, %v", list, err)
	}
}

// A chunk that comes back is not charged, and neither is a turn that gave nothing because an operator's limit holds all of a user back.
func TestFairChargesWhatIsWorkedOn(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 4)
	defer closed(t, e)
	put1(t, w, userWork("slow", "u0", 100))
	for g := range 8 {
		put1(t, w, userWork(fmt.Sprint("g", g), "u1", 20))
	}
	const strategy = `Fair("user", OldestFirst)`
	var back []queue.Reservation
	for _, r := range takenBy(t, w, strategy, 20) {
		if userOf(&r) == "u0" {
			back = append(back, r)
		}
	}
	if _, err := w.Release(t.Context(), releases(back), nil); err != nil {
		t.Fatal(err)
	}
	if counts := perUser(takenBy(t, w, strategy, 10)); len(back) != 10 || counts["u0"] != 10 {
		t.Errorf("after %d chunks of u0 came back, %v were taken", len(back), counts)
	}
	slow := queue.MetaEntry{Key: "group", Value: queue.StringValue("slow")}
	for number := range 4 {
		if _, _, err := queueAt(e, queue.ShardName(shardedName, number+1)).Values.Put(t.Context(), slow, limited(12), nil); err != nil {
			t.Fatal(err)
		}
	}
	if counts := perUser(takenBy(t, w, strategy, 10)); counts["u0"] != 2 || counts["u1"] != 8 {
		t.Errorf("under a limit of an operator, %v were taken", counts)
	}
	q := queueAt(e, queue.ShardName(shardedName, 1))
	list, err := q.Ledgers(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	tenants, _, err := q.LedgerTenants(t.Context(), list[0].ID, ByReceived, nil, 10)
	if err != nil || tenants.Items[0].Received != 18 || tenants.Items[1].Received != 12 || tenants.Items[1].State != "blocked" {
		t.Errorf("the ledger says %+v, %v", tenants.Items, err)
	}
}

// A reserve that finds nothing says why. A chunk that comes at this moment is given in turn.
func TestFairSaysWhyThereIsNothing(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 4)
	defer closed(t, e)
	usersOf(t, w, 8, 2, 4)
	const strategy = `Fair("user", MaxSimultaneous("user", 3, Random))`
	if n := len(takenBy(t, w, strategy, 100)); n != 6 {
		t.Fatalf("%d were taken", n)
	}
	got, err := reserveBy(t, w, strategy, 100, 0)
	if err != nil || got.Reason != queue.AllLimited || len(got.Limited) != 2 {
		t.Errorf("an empty reserve says %v of %+v, %v", got.Reason, got.Limited, err)
	}
	came := make(chan int)
	for range 4 {
		go func() {
			got, err := reserveBy(t, w, `Fair("user", SelectOnly("kind", "a", Random))`, 1, time.Minute)
			if err != nil {
				t.Error(err)
			}
			came <- len(got.Reservations)
		}()
	}
	for n := range 4 {
		put1(t, w, userWork(fmt.Sprint("new", n), "u9", 1))
		put1(t, w, userWork(fmt.Sprint("ab", n), "u9", 1))
	}
	for range 4 {
		if n := <-came; n != 1 {
			t.Errorf("%d chunks came to a call that waited", n)
		}
	}
}
