//quern:overlapping
package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// Producers and workers use a queue of several shards. In a cluster (-args -nodes 3) the shards are on all nodes, and
// each call comes to any node.

// Submissions of many groups in one call, in both forms of a body, have their results in order. The error of an invalid
// one names its place.
func TestSharedInsertOfMany(t *testing.T) {
	t.Parallel()
	for _, lines := range []bool{false, true} {
		s := newOrders(t, api.QueueSettingsInput{})
		var list []string
		for i := range 40 {
			list = append(list, fmt.Sprintf(`{"group":"g%d","chunks":{"count":%d,"prefix":"x/"}}`, i%13, i+1))
		}
		list[17] = `{"group":"g1","chunks":{"count":1,"prefix":"x/"},"run_at":"never"}`
		list[23] = `{"group":"g2","chunks":{"count":0,"prefix":"x/"}}`
		header, body := map[string]string{}, `{"submissions":[`+strings.Join(list, ",")+`]}`
		if lines {
			list[29] = `{"group":`
			header["Content-Type"], body = contentLines, strings.Join(list, "\n")
		}
		answered := send(s, s.client, s.address, call{method: "POST", path: queuePath("orders", "/submissions:batch"), body: body, header: header})
		var got api.InsertManyResponse
		answered.decode(s, &got)
		if answered.status != http.StatusOK || len(got.Results) != 40 {
			t.Fatalf("%d with %d results: %s", answered.status, len(got.Results), answered.body)
		}
		shards := map[int]bool{}
		for i, r := range got.Results {
			wrong := i == 17 || i == 23 || lines && i == 29
			switch at := fmt.Sprint("/submissions/", i); {
			case wrong && (r.Status != api.InsertInvalid || r.Pointer != at && !strings.HasPrefix(r.Pointer, at+"/")):
				t.Errorf("result %d: %+v, want it invalid, with its own place", i, r)
			case !wrong && (r.Submission == nil || r.Submission.Chunks != uint32(i+1) || r.Submission.Group != fmt.Sprintf("g%d", i%13)):
				t.Errorf("result %d: %+v", i, r)
			case !wrong:
				shards[r.Submission.Shard] = true
			}
		}
		if len(shards) < 2 {
			t.Errorf("all submissions are in the shards %v", shards)
		}
	}
}

// Chunks of all shards are taken in one order, and their results come back in the order of the call, whatever shards they are of.
func TestSharedResults(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	made := s.spread(16, 2)
	held := s.reserve("orders", request("OldestFirst", 32)).Reservations
	for i := range held {
		if held[i].Submission != made[i/2].ID {
			t.Errorf("chunk %d is of %s, want %s", i, held[i].Submission, made[i/2].ID)
		}
	}
	body := api.CompleteRequest{}
	for i := range 8 {
		body.Items = append(body.Items, api.CompleteItem{Token: held[i].Token})
	}
	body.Items[3].Token = strings.Repeat("A", 43)
	want := []string{"ok", "ok", "ok", "unknown", "ok", "ok", "ok", "ok"}
	for _, again := range []bool{false, true} {
		var got []string
		for _, r := range s.results("orders", "complete", body) {
			got = append(got, r.Status)
		}
		if again {
			want = []string{"already", "already", "already", "unknown", "already", "already", "already", "already"}
		}
		if !slices.Equal(got, want) {
			t.Errorf("completions: %v, want %v", got, want)
		}
	}
	body.Items[3].Token = held[3].Token
	body.Items[5].Insert = []api.BatchSubmission{{NewSubmission: api.NewSubmission{Group: made[3].Group, Chunks: api.Chunks{Count: 1, Prefix: "x/"}}}}
	if p := s.refused("POST", queuePath("orders", "/reservations/complete"), body, http.StatusUnprocessableEntity); len(p.Errors) != 1 ||
		!strings.HasPrefix(p.Errors[0].Pointer, "/items/5/insert/0") {
		t.Errorf("what belongs to another shard: %+v", p.Errors)
	}

	x := api.ExchangeRequest{Consumer: "w", Reserve: &api.ReserveRequest{Max: 4, Strategy: []byte(`"OldestFirst"`)}}
	for i := 8; i < 16; i++ {
		x.Complete = append(x.Complete, api.CompleteItem{Token: held[i].Token})
		x.Fail = append(x.Fail, api.FailItem{Token: held[8+i].Token, Error: "no", RetryAfterMS: new(int64(3_600_000))})
		x.Extend = append(x.Extend, api.ExtendItem{Token: held[16+i].Token, TimeoutMS: 60_000})
	}
	x.Extend[5].TimeoutMS = -1
	if p := s.refused("POST", queuePath("orders", "/reservations/exchange"), x, http.StatusUnprocessableEntity); len(p.Errors) != 1 ||
		p.Errors[0].Pointer != "/extend/5/timeout_ms" {
		t.Errorf("an item that is wrong: %+v", p.Errors)
	}
	x.Extend[5].TimeoutMS = 60_000
	late := s.insertLate(4)
	var done api.ExchangeResponse
	s.do("POST", queuePath("orders", "/reservations/exchange"), x, http.StatusOK, &done)
	for _, list := range [][]api.Result{done.Complete, done.Fail, done.Extend} {
		if len(list) != 8 || slices.ContainsFunc(list, func(r api.Result) bool { return r.Status != "ok" }) {
			t.Errorf("results of an exchange: %+v", list)
		}
	}
	if len(done.Reservations) != 4 || done.Reservations[0].Submission != late[0] {
		t.Errorf("an exchange took %+v, want what came late", done.Reservations)
	}
	stats := s.statsOf("orders")
	if stats.Reserved != 1+8+4 || stats.Waiting != 8 { // the completion of one chunk was never sent
		t.Errorf("in the end %d are reserved and %d wait, want 13 and 8", stats.Reserved, stats.Waiting)
	}
}

// insertLate inserts n chunks into the groups that spread has made.
func (s *scene) insertLate(n int) (ids []string) {
	s.Helper()
	var list api.Page[api.Group]
	s.do("GET", queuePath("orders", "/groups"), nil, http.StatusOK, &list)
	for i := range n {
		s.advance(time.Millisecond)
		var made api.Submission
		s.do("POST", queuePath("orders", "/submissions"), inGroup(list.Items[i].Group, 1), http.StatusCreated, &made)
		ids = append(ids, made.ID)
	}
	return ids
}

// Consumers at all nodes at once never hold more chunks of a group than its limit allows, and none twice.
func TestSharedLimits(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	s.spread(8, 40)
	var (
		mu     sync.Mutex
		flight = map[string]int{}
		done   = map[string]int{}
		all    sync.WaitGroup
	)
	for range 12 {
		all.Go(func() {
			for range 40 {
				got := s.reserve("orders", request(`MaxSimultaneous("group", 2, Random)`, 3)).Reservations
				if len(got) == 0 {
					continue
				}
				mu.Lock()
				for i := range got {
					group := got[i].Meta["group"].Text()
					if flight[group]++; flight[group] > 2 {
						t.Errorf("%d chunks of group %s are in flight", flight[group], group)
					}
					if done[chunk(&got[i])]++; done[chunk(&got[i])] > 1 {
						t.Errorf("%s was handed out twice", chunk(&got[i]))
					}
				}
				for i := range got { // before the call, as the server may hand out the next one before its answer is here
					flight[got[i].Meta["group"].Text()]--
				}
				mu.Unlock()
				s.completing("orders", got...)
			}
		})
	}
	all.Wait()
	if len(done) < 100 {
		t.Errorf("only %d chunks were done", len(done))
	}
}

// A consumer of the whole queue is attached in all shards by one stream. When it is lost, its chunks in all of them go
// back.
func TestSharedAttachment(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{ConsumerGraceMS: new(int64(5_000))})
	s.spread(8, 1)
	a, hello := s.attach("orders", "w")
	if hello.Reserved != 0 || hello.ConsumerGraceMS != 5_000 {
		t.Errorf("hello: %+v", hello)
	}
	held := s.reserveAs("orders", "w", 8)
	s.do("POST", consumerPath("orders", "w", "/quiet"), nil, http.StatusOK, nil)
	if e := a.next(); e.name != api.EventQuiet {
		t.Errorf("the consumer hears %s %s", e.name, e.data)
	}
	s.crash("orders", "w", a)
	b, hello := s.attach("orders", "w")
	if hello.Reserved != 8 {
		t.Errorf("after the stream was opened again the server knows of %d chunks", hello.Reserved)
	}
	for e := b.next(); e.name != api.EventQuiet; e = b.next() {
		t.Errorf("the consumer hears %s %s", e.name, e.data)
	}
	s.crash("orders", "w", b)
	s.advance(6 * time.Second)
	if got := s.completing("orders", held[0]); !slices.Contains([]string{"lost", "ok"}, got[0]) {
		t.Errorf("a completion of a lost consumer: %v", got)
	}
	if stats := s.statsOf("orders"); stats.Reserved != 0 {
		t.Errorf("%d chunks of a lost consumer are reserved", stats.Reserved)
	}

	s.insertLate(7)
	c, _ := s.attach("orders", "v")
	r := request("OldestFirst", 7)
	r.Consumer = "v"
	r.Strategy = []byte(`"NewestFirst"`)
	if got := s.reserve("orders", r).Reservations; len(got) != 7 {
		t.Errorf("%d chunks were taken", len(got))
	}
	var released api.Released
	s.do("POST", consumerPath("orders", "v", "/detach"), nil, http.StatusOK, &released)
	if released.Released != 7 {
		t.Errorf("detach released %d chunks, want 7", released.Released)
	}
	c.ends()
}

// A call that waits hears of work in any shard, and one that names a group of work for it.
func TestSharedWait(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	groups := s.spread(4, 1)
	s.reserveAll("orders", "Random")
	for i, strategy := range []string{"OldestFirst", "Random", "", `SelectOnly("group", "late", Fair("kind", Random))`} {
		strategy = cmp.Or(strategy, fmt.Sprintf(`SelectOnly("group", %q, Fair("kind", OldestFirst))`, groups[2].Group))
		got := make(chan int)
		go func() {
			r := request(strategy, 1)
			r.WaitMS = 60_000
			got <- len(s.reserve("orders", r).Reservations)
		}()
		group := groups[i].Group
		if strings.Contains(strategy, "late") {
			group = "late"
		}
		s.do("POST", queuePath("orders", "/submissions"), inGroup(group, 1), http.StatusCreated, nil)
		if n := <-got; n != 1 {
			t.Errorf("%s: %d chunks", strategy, n)
		}
	}
}

// Calls wait for work in shards of other nodes, whichever node they came to, and so does an exchange that is divided.
func TestCrewWaitsInOtherShards(t *testing.T) {
	t.Parallel()
	if *nodeCount == 0 {
		t.Skip("it needs a cluster: -args -nodes 3")
	}
	seed := rand.Uint64()
	f := newFixtureOn(t, newCrew(t, seed), seed)
	f.do("PUT", "/v1/queues/orders", `{"settings":{"shards":3}}`, http.StatusCreated, nil)
	for i := range 9 { // in all shards
		f.do("POST", "/v1/queues/orders/submissions", inGroup(fmt.Sprint("g", i), 1), http.StatusCreated, nil)
	}
	var held api.ReserveResponse
	f.do("POST", "/v1/queues/orders/reservations", `{"max":9,"strategy":"OldestFirst"}`, http.StatusOK, &held)
	exchange := api.ExchangeRequest{Reserve: &api.ReserveRequest{Max: 1, Strategy: []byte(`"OldestFirst"`), WaitMS: 60_000}}
	for _, r := range held.Reservations {
		exchange.Complete = append(exchange.Complete, api.CompleteItem{Token: r.Token})
	}
	divided, err := json.Marshal(exchange)
	if err != nil {
		t.Fatal(err)
	}
	for node := range f.crew.list {
		for _, c := range []call{
			{path: "/v1/queues/orders/reservations", body: `{"max":1,"strategy":"OldestFirst","wait_ms":60000}`},
			{path: "/v1/queues/orders/reservations", body: `{"max":1,"strategy":"SelectOnly(\"group\", \"g4\", Fair(\"kind\", Random))","wait_ms":60000}`},
			{path: "/v1/queues/orders/reservations/exchange", body: string(divided)},
		} {
			c.method = "POST"
			answered := make(chan answer)
			go func() { answered <- f.at(node, c) }()
			select {
			case got := <-answered:
				t.Errorf("node %d, %s: %d %s before there was work", node, c.path, got.status, got.body)
			case <-time.After(100 * time.Millisecond): // most likely it waits by now
				f.do("POST", "/v1/queues/orders/submissions", inGroup("g4", 1), http.StatusCreated, nil)
				var out api.ReserveResponse
				got := <-answered
				if got.decode(t, &out); len(out.Reservations) != 1 {
					t.Errorf("node %d, %s: %d %s", node, c.path, got.status, got.body)
				}
			}
		}
	}
}

// A divided call that failed in part does not say that nothing was done. A refusal stays what it is.
func TestSharedCallThatFailedInPart(t *testing.T) {
	t.Parallel()
	if err := partly(&queue.Error{Code: queue.CodeMoving}); queue.CodeOf(err) != queue.CodeCommitFailed {
		t.Errorf("a part that moves is %v", err)
	}
	if err := partly(&queue.Error{Code: queue.CodeInvalid}); queue.CodeOf(err) != queue.CodeInvalid {
		t.Errorf("a part that is refused is %v", err)
	}
}

// While no node serves a shard, the numbers of the queue have the last known ones of that shard, and say from when they
// are. Another node kept these numbers: the node that served the shard is gone.
func TestCrewNumbersOfAShardWithoutANode(t *testing.T) {
	t.Parallel()
	f := newCrewed(t)
	f.do("PUT", "/v1/queues/orders", `{"settings":{"shards":3}}`, http.StatusCreated, nil)
	for i := range 9 {
		f.do("POST", "/v1/queues/orders/submissions", inGroup(fmt.Sprint("g", i), 10), http.StatusCreated, nil)
	}
	f.do("POST", "/v1/queues/orders/reservations", `{"max":30,"strategy":"OldestFirst"}`, http.StatusOK, nil)
	asked := f.crew.list[0]
	open := func() (sum uint64) { // as that node knows them without asking
		for number := range 3 {
			last, _ := asked.engine.LastCounts("orders", number+1)
			sum += last.Stats.Ready + last.Stats.Reserved
		}
		return sum
	}
	for open() != 90 {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the numbers of all shards never came")
		}
	}
	gone := f.crew.list[1:]
	f.crew.list = f.crew.list[:1]
	for _, n := range gone {
		n.stop()
		n.still()
		t.Cleanup(func() { _ = n.shared.Close() })
	}
	lacked := false
	for !lacked {
		got := f.at(0, call{method: "GET", path: "/v1/queues/orders/stats"})
		var sum api.Stats
		got.decode(t, &sum)
		lacked = got.header.Get(headerMissing) != ""
		if sum.Ready != 60 || sum.Reserved != 30 || sum.SubmissionsOpen != 9 || sum.Empty != 0 || (got.header.Get(headerLastKnown) != "") != lacked {
			t.Fatalf("with %q missing, the numbers are %s", got.header.Get(headerMissing), got.body)
		}
	}
	var shards api.Page[api.Shard]
	f.at(0, call{method: "GET", path: "/v1/queues/orders/shards"}).decode(t, &shards)
	var known, all uint64
	for _, one := range shards.Items {
		if all += one.Ready + one.Reserved; !one.LastKnownAt.IsZero() {
			known += one.Ready + one.Reserved
		}
	}
	if all != 90 || known == 0 {
		t.Errorf("the shards are %+v", shards.Items)
	}
}

// A group that was made through one node is found through any other at once.
func TestCrewFindsNewGroups(t *testing.T) {
	t.Parallel()
	f := newCrewed(t)
	f.do("PUT", "/v1/queues/orders", `{"settings":{"shards":3}}`, http.StatusCreated, nil)
	for i := range 12 {
		path := fmt.Sprint("/v1/queues/orders/groups/g", i)
		if got := f.at(i%3, call{method: "PUT", path: path, body: `{}`}); got.status != http.StatusCreated {
			t.Fatalf("a new group: %d %s", got.status, got.body)
		}
		for node := range f.crew.list {
			if got := f.at((i+1+node)%3, call{method: "GET", path: path}); got.status != http.StatusOK {
				t.Errorf("node %d: %d %s", (i+1+node)%3, got.status, got.body)
			}
		}
	}
}
