//quern:overlapping
package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// inEngine are the operations about a queue that the engine does for all shards by itself.
var inEngine = []string{"get-queue", "put-queue", "change-queue", "delete-queue", "move-queue", "get-stats", "list-shards",
	"list-groups", "get-group", "put-group", "delete-group", "move-group", "drain-shard", "reopen-shard", "insert", "insert-batch", "reserve", "complete", "fail", "extend",
	"release", "exchange", "attach-consumer", "detach-consumer"}

// Every operation whose path names a queue answers for all shards of it, or refuses: none answers for one shard as if
// that were the queue. A new operation has to say which.
func TestShardsEveryOperationIsForAll(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	s.alone()
	s.insert("orders", api.NewSubmission{Chunks: api.Chunks{Count: 1, Prefix: "x"}}) // so that the queue cannot be deleted
	fill := strings.NewReplacer("{queue}", "orders", "{id}", "1", "{submission}", "1", "{index}", "0", "{name}", "a", "{key}", "group",
		"{value}", "a", "{group}", "a", "{consumer}", "a", "{ledger}", "a")
	walked := 0
	for _, methods := range bareServer(t).operations {
		for method, op := range methods {
			if !strings.Contains(op.path, "{queue}") || method == http.MethodHead {
				continue
			}
			walked++
			body := ""
			if method != http.MethodGet {
				body = "{}"
			}
			got := s.call(method, fill.Replace(op.path), body)
			oneShard := strings.Contains(string(got.body), "has several shards, and only one of them can answer this call")
			forAll := op.shards != nil || slices.Contains(inEngine, op.id)
			switch {
			case forAll && oneShard:
				t.Errorf("%s is declared for whole queues, and refuses them: %s", op.id, got.body)
			case !forAll && !oneShard:
				t.Errorf("%s answers %d for a queue of several shards: %s\nSay in its line of the table how the answers of the shards are "+
					"joined (shards), or name it in inEngine if the engine does that", op.id, got.status, got.body)
			}
		}
	}
	if walked < 60 {
		t.Errorf("%d operations were looked at", walked)
	}
}

// A schedule is in the shard of its group, and calls about the whole queue find it there.
func TestShardsSchedules(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	shards := map[int]bool{}
	for i := range 12 {
		path := queuePath("orders", fmt.Sprint("/schedules/s", i))
		body := fmt.Sprintf(`{"spec":"@every 1h","template":{"group":"g%d","chunks":{"count":1,"prefix":"x"}}}`, i)
		if got := s.do("PUT", path, body, http.StatusCreated, nil); got.header.Get("Location") != path {
			t.Errorf("the schedule is at %q, want %q", got.header.Get("Location"), path)
		}
		var made api.Submission
		s.do("POST", path+"/trigger", nil, http.StatusCreated, &made)
		shards[made.Shard] = true
		var again api.Schedule
		etag := s.do("PUT", path, body, http.StatusOK, &again).header.Get("ETag")
		if etag == "" || etag != again.ETag || again.Version != 1 {
			t.Errorf("again: %+v, ETag %q", again, etag)
		}
	}
	if len(shards) < 2 {
		t.Errorf("all schedules are in one shard: %v", shards)
	}
	list, _ := pages[api.Schedule](s, "/schedules", url.Values{}, 5)
	if len(list) != 12 || !slices.IsSortedFunc(list, func(a, b api.Schedule) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("%d schedules: %+v", len(list), list)
	}
	one := queuePath("orders", "/schedules/s3")
	s.do("POST", one+"/pause?reason=x", nil, http.StatusOK, nil)
	var paused api.Schedule
	s.do("GET", one, nil, http.StatusOK, &paused)
	if paused.State != "paused" || paused.Reason != "x" {
		t.Errorf("the paused schedule: %+v", paused)
	}
	s.do("POST", one+"/resume", nil, http.StatusOK, nil)
	s.do("GET", one+"/ticks", nil, http.StatusOK, nil)
	s.do("POST", queuePath("orders", "/schedules/preview"), `{"spec":"@every 1h"}`, http.StatusOK, nil)
	s.refused("GET", queuePath("orders", "/schedules/none"), nil, http.StatusNotFound)
	s.refused("DELETE", queuePath("orders", "/schedules/none"), nil, http.StatusNotFound)
	for _, group := range []string{"g0", "g1", "g2", "g4", "g5"} { // some are in another shard
		got := s.call("PUT", one, fmt.Sprintf(`{"spec":"@every 1h","template":{"group":%q,"chunks":{"count":1,"prefix":"x"}}}`, group))
		if got.status != http.StatusOK && got.status != http.StatusConflict {
			t.Errorf("the group %s: %d %s", group, got.status, got.body)
		}
	}
	if list, _ := pages[api.Schedule](s, "/schedules", url.Values{}, 100); len(list) != 12 {
		t.Errorf("%d schedules, want 12 still", len(list))
	}
	// A call whose condition fails leaves no group behind. A new group of an existing schedule gets the schedule's
	// shard.
	body := `{"spec":"@every 1h","template":{"group":"new","chunks":{"count":1,"prefix":"x"}}}`
	for path, header := range map[string]map[string]string{one: {"If-None-Match": "*"}, queuePath("orders", "/schedules/none"): {"If-Match": `"x"`}} {
		if got := send(t, s.client, s.address, call{method: "PUT", path: path, body: body, header: header}); got.status != http.StatusPreconditionFailed {
			t.Errorf("%v: %d %s, want 412", header, got.status, got.body)
		}
	}
	s.refused("GET", queuePath("orders", "/groups/new"), nil, http.StatusNotFound)
	s.do("PUT", one, body, http.StatusOK, nil)
	s.do("DELETE", one, nil, http.StatusNoContent, nil)
	s.refused("GET", one, nil, http.StatusNotFound)
	s.advance(time.Hour)
	if n := s.statsOf("orders").Ready; n != 12+11 {
		t.Errorf("%d chunks after an hour, want 23", n)
	}
}

// A strategy that a reserve of the queue refuses is not valid for it. Questions about one group go to its shard.
func TestShardsStrategies(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	made := s.spread(8, 2)
	inOne := func(strategy string) string {
		return fmt.Sprintf("SelectOnly(%q, %q, %s)", "group", made[2].Group, strategy)
	}
	for _, strategy := range []string{`Fair("user", Fair("group", Random))`, `MaxRate("user", 2, "1s", missing=one, OldestFirst)`, `Nonsense(`,
		inOne(`MaxSimultaneous("user", 2, missing=one, OldestFirst)`),
		inOne(`Fair("user", Fair("kind", MaxSimultaneous("user", 2, Random)))`)} {
		refused := s.refused("POST", queuePath("orders", "/reservations"), request(strategy, 1), http.StatusUnprocessableEntity)
		for _, below := range []string{"validate", "preview", "explain"} {
			p := s.refused("POST", queuePath("orders", "/strategies/"+below), map[string]string{"strategy": strategy}, http.StatusUnprocessableEntity)
			if len(p.Errors) == 0 || p.Errors[0].Detail != refused.Errors[0].Detail {
				t.Errorf("%s %s: %+v, want %+v", below, strategy, p.Errors, refused.Errors)
			}
		}
	}
	s.do("POST", queuePath("orders", "/strategies/validate"), `{"strategy":"MaxSimultaneous(\"group\", 2, OldestFirst)"}`, http.StatusOK, nil)
	s.do("POST", queuePath("orders", "/strategies/validate"), map[string]string{"strategy": inOne(`Fair("user", Fair("kind", Random))`)}, http.StatusOK, nil)
	one := inOne("OldestFirst")
	var preview api.PreviewResponse
	s.do("POST", queuePath("orders", "/strategies/preview"), map[string]any{"strategy": one, "max": 10}, http.StatusOK, &preview)
	if len(preview.Picks) != 2 || preview.Picks[0].Submission != made[2].ID {
		t.Errorf("the preview: %+v", preview.Picks)
	}
	s.do("POST", queuePath("orders", "/strategies/explain"), map[string]any{"strategy": one}, http.StatusOK, nil)
	byGroup := `MaxSimultaneous("group", 1, missing=one, OldestFirst)`
	s.do("POST", queuePath("orders", "/strategies/preview"), map[string]any{"strategy": byGroup, "max": 10}, http.StatusOK, nil)
	s.do("POST", queuePath("orders", "/strategies/compare"), map[string]any{"a": one, "b": one}, http.StatusOK, nil)
	s.do("PUT", queuePath("orders", "/strategies/own"), `{"strategy":"OldestFirst"}`, http.StatusCreated, nil)
	if got := s.reserve("orders", api.ReserveRequest{Strategy: []byte(`{"name":"own"}`), Max: 1}).Reservations; len(got) != 1 {
		t.Errorf("%d chunks by the name", len(got))
	}
}

// Numbers over time and the diagnosis are those of all shards.
func TestShardsNumbers(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	s.spread(8, 2)
	r := request("OldestFirst", 16)
	r.Consumer = "a"
	held := s.reserve("orders", r).Reservations
	s.advance(10 * time.Second)
	s.completing("orders", held...)
	s.spreadMore(8)
	s.do("POST", queuePath("orders", "/rules"), `{"action":"pause","match":{"queue":true}}`, http.StatusCreated, nil)
	s.advance(2 * time.Second)
	var durations api.Durations
	s.do("GET", queuePath("orders", "/durations"), nil, http.StatusOK, &durations)
	if durations.Run.Count != 16 || durations.Run.P50MS < 8000 || durations.Run.P50MS > 16384 || durations.Wait.Count != 16 {
		t.Errorf("durations: %+v", durations)
	}
	var diagnosis api.Diagnosis
	s.do("GET", queuePath("orders", "/diagnosis"), nil, http.StatusOK, &diagnosis)
	for shard := range 4 {
		if !strings.Contains(diagnosis.Sentence, fmt.Sprintf("Shard %d: ", shard+1)) {
			t.Errorf("the sentence does not name shard %d: %s", shard+1, diagnosis.Sentence)
		}
	}
	var paused uint64
	for _, c := range diagnosis.Causes {
		if c.Kind == api.CauseRule && strings.HasPrefix(c.Detail, "shard ") {
			paused += c.Chunks
		}
	}
	if paused != 8 {
		t.Errorf("%d chunks are behind the rule, want 8: %+v", paused, diagnosis.Causes)
	}
	var series api.Series
	s.do("GET", queuePath("orders", "/timeseries"), nil, http.StatusOK, &series)
	if series.Queue != "orders" || len(series.At) != len(series.Ready) {
		t.Errorf("the series: %+v", series)
	}
	var worker api.Lifecycle
	s.do("GET", queuePath("orders", "/lifecycle"), nil, http.StatusOK, &worker)
	if len(worker.Kinds) < 5 {
		t.Errorf("the worker: %+v", worker)
	}
	s.do("POST", queuePath("orders", "/lifecycle/retry"), nil, http.StatusOK, nil)
}

// spreadMore inserts a chunk into each of n groups that there are.
func (s *scene) spreadMore(n int) {
	s.Helper()
	var groups api.Page[api.Group]
	s.do("GET", queuePath("orders", "/groups"), nil, http.StatusOK, &groups)
	for _, g := range groups.Items[:n] {
		s.do("POST", queuePath("orders", "/submissions"), inGroup(g.Group, 1), http.StatusCreated, nil)
	}
}
