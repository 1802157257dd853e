package web

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// Groups that someone creates, and their limits, in a queue of one shard and of four, over a kill.

// inGroup is a submission of a group.
func inGroup(group string, chunks int) string {
	return fmt.Sprintf(`{"group":%q,"chunks":{"count":%d,"prefix":"x/"}}`, group, chunks)
}

// together inserts the same many times at once, and counts the inserts that are taken. The limit has to refuse each of
// the others.
func (s *scene) together(queue, body string, times, most int) (taken int) {
	s.Helper()
	answers := make([]answer, times)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = s.call("POST", queuePath(queue, "/submissions"), body) })
	}
	all.Wait()
	for _, got := range answers {
		if got.status == http.StatusCreated {
			taken++
			continue
		}
		p := got.problem(s)
		if got.status != http.StatusTooManyRequests || p.Code != api.CodeLimitReached || p.Max == nil || int(*p.Max) != most || p.Current == nil {
			s.Errorf("%d %s; want it refused by the limit of %d", got.status, got.body, most)
		}
	}
	return taken
}

// Of 20 inserts at once, a group with a limit of 10 takes 10.
//
//quern:overlapping
func TestBehaviour112GroupTakesAsManyAsItsLimit(t *testing.T) {
	t.Parallel()
	for _, shards := range []uint8{1, 4} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.queue("orders", api.QueueSettingsInput{Shards: new(shards)})
			s.do("PUT", queuePath("orders", "/groups/acme"), `{"limits":{"submissions":10}}`, http.StatusCreated, nil)
			s.do("PUT", queuePath("orders", "/groups/bulk"), `{"limits":{"waiting":10}}`, http.StatusCreated, nil)
			if n := s.together("orders", inGroup("acme", 1), 20, 10); n != 10 {
				t.Errorf("%d submissions were taken, want 10", n)
			}
			if n := s.together("orders", inGroup("bulk", 3), 20, 10); n != 3 {
				t.Errorf("%d submissions of 3 chunks were taken, want 3", n)
			}
			s.killed(time.Second)
			p := s.refused("POST", queuePath("orders", "/submissions"), inGroup("acme", 1), http.StatusTooManyRequests)
			if *p.Current != 10 || *p.Max != 10 {
				t.Errorf("after a kill: %+v", p)
			}
			if n := s.together("orders", inGroup("bulk", 1), 20, 10); n != 1 {
				t.Errorf("%d chunks were taken in the last place, want 1", n)
			}
			var group api.Group
			s.do("GET", queuePath("orders", "/groups/bulk"), nil, http.StatusOK, &group)
			if group.Waiting != 10 || group.Submissions != 4 || *group.Limits.Waiting != 10 || group.Limits.Submissions != nil {
				t.Errorf("the group is %+v", group)
			}
		})
	}
}

// In a queue whose groups must exist, no insert makes one; otherwise many at once make one.
//
//quern:overlapping
func TestBehaviour113GroupThatNoOneCreated(t *testing.T) {
	t.Parallel()
	for _, shards := range []uint8{1, 4} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.queue("orders", api.QueueSettingsInput{Shards: new(shards)})
			if n := s.together("orders", inGroup("acme", 1), 30, 0); n != 30 {
				t.Errorf("%d of 30 were taken", n)
			}
			var list api.Page[api.Group]
			s.do("GET", queuePath("orders", "/groups"), nil, http.StatusOK, &list)
			if len(list.Items) != 1 || list.Items[0].Submissions != 30 {
				t.Errorf("the groups are %+v", list.Items)
			}
			s.queue("orders", api.QueueSettingsInput{Shards: new(shards), GroupMustExist: new(true)})
			for _, name := range []string{"acme", "other"} {
				p := s.refused("POST", queuePath("orders", "/submissions"), inGroup(name, 1), http.StatusNotFound)
				if p.Code != api.CodeUnknownGroup {
					t.Errorf("%s: %+v", name, p)
				}
			}
			s.do("PUT", queuePath("orders", "/groups/other"), `{}`, http.StatusCreated, nil)
			s.killed(time.Second)
			s.do("POST", queuePath("orders", "/submissions"), inGroup("other", 1), http.StatusCreated, nil)
			s.refused("POST", queuePath("orders", "/submissions"), inGroup("acme", 1), http.StatusNotFound)
		})
	}
}

// roomy makes a queue whose shards hold four groups each, and that the server gives up to four shards.
func (s *scene) roomy() {
	s.Helper()
	s.queue("orders", api.QueueSettingsInput{Shards: new(uint8(2)), GroupsPerShard: new(int64(4)), SpareGroups: new(int64(3)), MaxShards: new(uint8(4))})
}

// wantShards waits for shards in these states, such as "full, open", in the order of their numbers, and then returns them.
func (s *scene) wantShards(states ...string) (list []api.Shard) {
	s.Helper()
	var got []string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var page api.Page[api.Shard]
		s.do("GET", queuePath("orders", "/shards"), nil, http.StatusOK, &page)
		got = nil
		for i := range page.Items {
			got = append(got, page.Items[i].State)
		}
		if slices.Sort(got); slices.Equal(got, states) {
			return page.Items
		}
	}
	s.Fatalf("the shards are %v, want %v", got, states)
	return nil
}

// While there is little room for new groups, another shard is prepared, and there are never more than were asked for.
//
//quern:overlapping
func TestBehaviour115ShardsArePreparedAhead(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.roomy()
	groups := 0
	insert := func(n int) {
		for range n {
			s.do("POST", queuePath("orders", "/submissions"), inGroup(fmt.Sprint("g", groups), 1), http.StatusCreated, nil)
			groups++
		}
	}
	insert(5)
	s.wantCount(2) // with room for three more
	insert(1)
	s.wantCount(3)
	insert(4)
	s.wantCount(4)
	s.killed(time.Second)
	insert(6)
	for _, one := range s.wantShards(api.ShardFull, api.ShardFull, api.ShardFull, api.ShardFull) {
		if one.Groups != 4 {
			t.Errorf("shard %d has %d groups: there was room elsewhere", one.Shard, one.Groups)
		}
	}
	if got := s.reserveAll("orders", "OldestFirst"); len(got) != groups {
		t.Errorf("%d of %d chunks were handed out", len(got), groups)
	}
	fewer := s.refused("PATCH", queuePath("orders", ""), `{"settings":{"shards":3}}`, http.StatusUnprocessableEntity)
	if len(fewer.Errors) != 1 || fewer.Errors[0].Pointer != "/settings/shards" || !strings.Contains(fewer.Errors[0].Detail, "has 4: the number can only rise") {
		t.Errorf("a change to fewer shards answers %+v", fewer)
	}
	var kept api.Queue
	s.do("PATCH", queuePath("orders", ""), `{"settings":{"shards":4,"max_attempts":7}}`, http.StatusOK, &kept)
	if strings.Contains(fmt.Sprint(kept.Warnings), "keeps") {
		t.Errorf("the same number of shards: %q", kept.Warnings)
	}
	// a file of settings from before the server prepared shards changes everything else, and the answer has a warning
	s.do("PUT", queuePath("orders", ""), `{"settings":{"shards":2,"groups_per_shard":9,"max_shards":4,"max_attempts":8}}`, http.StatusOK, &kept)
	if kept.Settings.Shards != 4 || kept.Settings.MaxAttempts != 8 || len(kept.Warnings) != 1 || !strings.Contains(kept.Warnings[0], "keeps its 4 shards") {
		t.Errorf("the first settings again: %d shards, %d attempts, %q", kept.Settings.Shards, kept.Settings.MaxAttempts, kept.Warnings)
	}
	kept = api.Queue{}
	s.do("PUT", queuePath("orders", ""), `{"settings":{"max_attempts":9}}`, http.StatusOK, &kept) // that does not name them
	if kept.Settings.Shards != 4 || kept.Settings.MaxAttempts != 9 || len(kept.Warnings) != 0 {
		t.Errorf("settings without shards: %d shards, %d attempts, %q", kept.Settings.Shards, kept.Settings.MaxAttempts, kept.Warnings)
	}
	fewer = s.refused("PUT", queuePath("orders", ""), `{"settings":{"shards":2}}`, http.StatusUnprocessableEntity)
	if len(fewer.Errors) != 1 || fewer.Errors[0].Pointer != "/settings/shards" {
		t.Errorf("fewer shards without max_shards: %+v", fewer)
	}
}

// When all shards are full, inserts go on, and the overrun is reported by the metrics, the diagnosis and the readiness.
//
//quern:overlapping
func TestBehaviour116AllShardsAreFull(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.roomy()
	overrun := func(want int) {
		s.Helper()
		reported := func() bool {
			var said api.Diagnosis
			s.do("GET", queuePath("orders", "/diagnosis"), nil, http.StatusOK, &said)
			return strings.Contains(said.Sentence, "all shards are full")
		}
		if s.crew != nil { // each node hears a little later of groups that others made, and metrics and readiness are those of one node
			for end := time.Now().Add(30 * time.Second); reported() != (want == 1); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(end) {
					s.Fatalf("with an overrun of %d, the diagnosis reports the opposite", want)
				}
			}
			return
		}
		line := fmt.Sprintf("quern_shards_overrun{queue=\"orders\"} %d\n", want)
		if body := s.call("GET", "/metrics", nil).body; !strings.Contains(string(body), line) {
			t.Errorf("the metrics lack %s", line)
		}
		var ready api.Readiness
		s.do("GET", "/readyz?verbose", nil, http.StatusOK, &ready)
		at := slices.IndexFunc(ready.Checks, func(c api.Check) bool { return c.Name == "shards of orders" })
		if said := reported(); said != (want == 1) || (at >= 0) != (want == 1) || !ready.Ready {
			t.Errorf("with an overrun of %d, the diagnosis reports it: %v; the readiness is %+v", want, said, ready)
		}
	}
	for i := range 8 {
		s.do("POST", queuePath("orders", "/submissions"), inGroup(fmt.Sprint("g", i), 1), http.StatusCreated, nil)
	}
	s.wantCount(3)
	overrun(0)
	for i := range 12 {
		s.do("POST", queuePath("orders", "/submissions"), inGroup(fmt.Sprint("h", i), 1), http.StatusCreated, nil)
	}
	s.wantCount(4) // until it was ready, the others took more than four groups
	for i := range 4 {
		s.do("POST", queuePath("orders", "/submissions"), inGroup(fmt.Sprint("i", i), 1), http.StatusCreated, nil)
	}
	s.wantShards(api.ShardFull, api.ShardFull, api.ShardFull, api.ShardFull)
	overrun(1)
	s.do("PATCH", queuePath("orders", ""), `{"settings":{"max_shards":5}}`, http.StatusOK, nil)
	s.wantShards(api.ShardFull, api.ShardFull, api.ShardFull, api.ShardFull, api.ShardOpen)
	overrun(0)
}

// wantCount waits until there are so many shards, and looks a little whether there are more.
func (s *scene) wantCount(shards int) {
	s.Helper()
	var seen time.Time
	var page api.Page[api.Shard]
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		page = api.Page[api.Shard]{}
		s.do("GET", queuePath("orders", "/shards"), nil, http.StatusOK, &page)
		n := len(page.Items)
		switch {
		case n > shards:
			s.Fatalf("there are %d shards, want %d", n, shards)
		case n < shards || page.Items[n-1].State == api.ShardPreparing:
		case seen.IsZero():
			seen = time.Now()
		case time.Since(seen) > 1500*time.Millisecond: // the next look has passed
			return
		}
	}
	s.Fatalf("the shards are %+v, want %d", page.Items, shards)
}

// groupNow is a group as it is.
func (s *scene) groupNow(name string) (g api.Group) {
	s.Helper()
	s.do("GET", queuePath("orders", "/groups/"+name), nil, http.StatusOK, &g)
	return g
}

// A group moves when it has no open submissions, with its limits. Nothing is held back, done twice or lost, over a kill.
//
//quern:overlapping
func TestShardsGroupMoves(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("orders", api.QueueSettingsInput{Shards: new(uint8(3)), RestartGraceMS: new(int64(0))})
	s.do("PUT", queuePath("orders", "/groups/acme"), `{"limits":{"submissions":2}}`, http.StatusCreated, nil)
	from := s.groupNow("acme").Shard
	to := 1 + from%3
	path := queuePath("orders", "/groups/acme/move")
	keyed := `{"submissions":[{"group":"acme","idempotency_key":"k1","chunks":{"count":2,"prefix":"x/"}},{"group":"acme","idempotency_key":"k2","chunks":{"count":2,"prefix":"x/"}}]}`
	var first, again api.InsertManyResponse
	s.do("POST", queuePath("orders", "/submissions:batch"), keyed, http.StatusOK, &first)
	var moving api.Group
	if s.do("POST", path, api.MoveGroupRequest{Shard: uint8(to)}, http.StatusOK, &moving); moving.Shard != from || moving.MovingTo != to {
		t.Errorf("a group with work is %+v", moving)
	}
	s.killed(time.Second)
	if g := s.groupNow("acme"); g.MovingTo != to || g.Submissions != 2 {
		t.Errorf("after a kill the group is %+v", g)
	}
	held := s.reserve("orders", request(`MaxSimultaneous("group", 3, OldestFirst)`, 10)).Reservations
	if len(held) != 3 {
		t.Fatalf("%d chunks were handed out within a limit of 3", len(held))
	}
	s.wantStatuses(s.completing("orders", held...), 3, "ok")
	s.wantStatuses(s.completing("orders", s.reserveAll("orders", "OldestFirst")...), 1, "ok")
	for end := time.Now().Add(30 * time.Second); s.groupNow("acme").Shard != to; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("an empty group is %+v", s.groupNow("acme"))
		}
	}
	s.do("POST", queuePath("orders", "/submissions:batch"), keyed, http.StatusOK, &again)
	for i := range again.Results {
		if again.Results[i].Submission.ID != first.Results[i].Submission.ID {
			t.Errorf("insert %d was made again behind the move: %+v", i, again.Results[i])
		}
	}
	var sub api.Submission
	for range 2 {
		s.do("POST", queuePath("orders", "/submissions"), inGroup("acme", 1), http.StatusCreated, &sub)
		if sub.Shard != to {
			t.Errorf("a new submission is %+v", sub)
		}
	}
	s.refused("POST", queuePath("orders", "/submissions"), inGroup("acme", 1), http.StatusTooManyRequests)
	s.killed(time.Second)
	if g := s.groupNow("acme"); g.Shard != to || g.MovingTo != 0 || g.Submissions != 2 || *g.Limits.Submissions != 2 {
		t.Errorf("after the move and a kill the group is %+v", g)
	}
	s.refused("POST", path, `{"shard":9}`, http.StatusUnprocessableEntity)
	s.refused("POST", path, fmt.Sprintf(`{"shard":%d}`, 1+to%3), http.StatusConflict) // within a day it can only move back
	s.refused("POST", queuePath("orders", "/groups/none/move"), `{"shard":2}`, http.StatusNotFound)
	s.refused("POST", queuePath("", "/groups/acme/move"), `{"shard":2}`, http.StatusNotFound)
}

// A shard that drains gets no new groups, and its groups leave it when they are empty.
//
//quern:overlapping
func TestShardsDrain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("orders", api.QueueSettingsInput{Shards: new(uint8(2)), RestartGraceMS: new(int64(0))})
	for i := range 8 {
		s.do("POST", queuePath("orders", "/submissions"), inGroup(fmt.Sprint("g", i), 1), http.StatusCreated, nil)
	}
	s.do("POST", queuePath("orders", "/shards/2/drain"), nil, http.StatusNoContent, nil)
	s.refused("POST", queuePath("orders", "/shards/1/drain"), nil, http.StatusConflict)
	s.refused("POST", queuePath("orders", "/shards/3/drain"), nil, http.StatusUnprocessableEntity)
	s.killed(time.Second)
	s.settle()
	for i := range 8 {
		var sub api.Submission
		if s.do("POST", queuePath("orders", "/submissions"), inGroup(fmt.Sprint("h", i), 1), http.StatusCreated, &sub); sub.Shard != 1 {
			t.Errorf("a new group is in shard %d, which drains", sub.Shard)
		}
	}
	held := s.reserveAll("orders", "OldestFirst")
	if len(held) != 16 {
		t.Fatalf("%d of 16 chunks were handed out", len(held))
	}
	s.wantStatuses(s.completing("orders", held...), 16, "ok")
	list := s.wantShards(api.ShardDraining, api.ShardOpen)
	for end := time.Now().Add(30 * time.Second); list[1].Groups > 0; list = s.wantShards(api.ShardDraining, api.ShardOpen) {
		if time.Now().After(end) {
			t.Fatalf("empty groups stay in a shard that drains: %+v", list)
		}
	}
	s.do("DELETE", queuePath("orders", "/shards/2/drain"), nil, http.StatusNoContent, nil)
	if list = s.wantShards(api.ShardOpen, api.ShardOpen); list[0].Groups != 16 {
		t.Errorf("the first shard has %d of 16 groups", list[0].Groups)
	}
}

// A thousand consumers of four shards never have a third chunk of a value in flight, by the key group and, on one node, by another key.
//
//quern:overlapping
func TestBehaviour121LimitOverShards(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"group", "user"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.queue("orders", api.QueueSettingsInput{Shards: new(uint8(4))})
			consumersMost := 1000
			if *nodeCount > 1 {
				consumersMost = 100
				if key != queue.GroupKey {
					s.refused("POST", queuePath("orders", "/reservations"), request(`MaxSimultaneous("user", 2, Random)`, 1), http.StatusUnprocessableEntity)
					return
				}
			}
			const groups, users, chunks = 20, 5, 3
			for i := range groups * users {
				s.do("POST", queuePath("orders", "/submissions"), fmt.Sprintf(`{"group":"g%d","meta":{"user":"u%d"},"chunks":{"count":%d,"prefix":"x/"}}`,
					i%groups, i/groups, chunks), http.StatusCreated, nil)
			}
			var (
				flying    sync.Map // value to *atomic.Int32
				left      atomic.Int32
				consumers sync.WaitGroup
			)
			left.Store(groups * users * chunks)
			consume := func() {
				for left.Load() > 0 {
					got := s.reserve("orders", request(fmt.Sprintf("MaxSimultaneous(%q, 2, Random)", key), 1)).Reservations
					if len(got) == 0 {
						time.Sleep(time.Duration(100+rand.IntN(400)) * time.Millisecond) // a thousand at once are load enough
						continue
					}
					value := got[0].Meta[key].Text()
					count, _ := flying.LoadOrStore(value, new(atomic.Int32))
					if n := count.(*atomic.Int32).Add(1); n > 2 {
						t.Errorf("%d chunks of %s are in flight", n, value)
					}
					s.statsOf("orders") // the chunk is held while others reserve
					count.(*atomic.Int32).Add(-1)
					left.Add(-1)
					s.do("POST", queuePath("orders", "/reservations/complete"), api.CompleteRequest{Items: []api.CompleteItem{{Token: got[0].Token}}}, http.StatusOK, nil)
				}
			}
			for range consumersMost {
				consumers.Go(consume)
			}
			consumers.Wait()
			if n := s.statsOf("orders"); n.Ready+n.Reserved != 0 {
				t.Errorf("%d chunks are ready and %d reserved at the end", n.Ready, n.Reserved)
			}
		})
	}
}

// Fair shares out the chunks of four shards of one node, a rate counts the reservations of all of them, and so does a limit in percent.
// The lists of ledgers show what each user received in all shards. Over several nodes these strategies are refused.
func TestBehaviourSharesAndRatesOverShards(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("orders", api.QueueSettingsInput{Shards: new(uint8(4))})
	if *nodeCount > 1 {
		for _, strategy := range []string{`Fair("user", Random)`, `MaxRate("user", 2, "1h", Random)`, `MaxSimultaneous("user", "10%", Random)`} {
			s.refused("POST", queuePath("orders", "/reservations"), request(strategy, 1), http.StatusUnprocessableEntity)
		}
		return
	}
	put := func(group, user string, chunks int) {
		s.do("POST", queuePath("orders", "/submissions"), fmt.Sprintf(`{"group":%q,"meta":{"user":%q},"chunks":{"count":%d,"prefix":"x/"}}`,
			group, user, chunks), http.StatusCreated, nil)
	}
	put("large", "heavy", 300) // in one shard
	for i := range 16 {
		put(fmt.Sprint("g", i), "light", 5)
	}
	counts := map[string]int{}
	take := func(strategy string, most int) (n int) {
		got := s.reserve("orders", request(strategy, most)).Reservations
		for i := range got {
			counts[got[i].Meta["user"].Text()]++
		}
		return len(got)
	}
	for _, most := range []int{1, 1, 7, 1, 30} {
		take(`Fair("user", OldestFirst)`, most)
	}
	if counts["heavy"] != 20 || counts["light"] != 20 {
		t.Errorf("of 40 chunks, the users got %v", counts)
	}
	var ledgers api.Page[api.Ledger]
	s.do("GET", queuePath("orders", "/ledgers"), nil, http.StatusOK, &ledgers)
	if len(ledgers.Items) != 1 || ledgers.Items[0].Active != 2 {
		t.Fatalf("the ledgers are %+v", ledgers.Items)
	}
	var tenants api.LedgerTenants
	s.do("GET", queuePath("orders", "/ledgers/"+ledgers.Items[0].ID), nil, http.StatusOK, &tenants)
	if tenants.Received != 40 || len(tenants.Items) != 2 || tenants.Items[0].Received != 20 || tenants.Lag != 0 {
		t.Errorf("the ledger says %+v", tenants)
	}
	if n := take(`MaxRate("user", 3, "1h", burst=3, Random)`, 50); n != 6 {
		t.Errorf("a rate of three let %d chunks of two users pass", n)
	}
	if n := take(`MaxRate("user", 3, "1h", burst=3, Random)`, 50); n != 0 {
		t.Errorf("%d chunks more passed the rate", n)
	}
	// 46 chunks are in flight, and 54 are asked for: a quarter is 25, of which each user has 23
	if n := take(`MaxSimultaneous("user", "25%", Random)`, 54); n != 4 {
		t.Errorf("a limit of 25 chunks, where each of two users has 23, let %d pass", n)
	}
}
