//quern:overlapping
package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
)

// Kinds of errors are those of all shards, with their numbers added up.
func TestShardsKindsOfErrors(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{MaxAttempts: new(uint16(2)), RetryBackoff: &api.Backoff{BaseMS: 60_000, Factor: 1}})
	s.spread(12, 4)
	held := s.reserve("orders", request("OldestFirst", 48)).Reservations
	for i := range held {
		if held[i].Index < 2 {
			s.failing("orders", fmt.Sprint("no such file ", i), true, held[i])
		} else {
			s.failing("orders", []string{"", "", "timeout of host", "no route"}[held[i].Index], false, held[i])
		}
	}
	s.settle()
	var dead api.DeadGroups
	s.do("GET", queuePath("orders", "/dead-letters/groups"), nil, http.StatusOK, &dead)
	if len(dead.Items) != 1 || dead.Items[0].Count != 24 || dead.Items[0].Submissions != 12 || dead.Next != "" {
		t.Errorf("dead letters: %+v", dead)
	}
	var retries api.RetryGroups
	s.do("GET", queuePath("orders", "/retries/groups"), nil, http.StatusOK, &retries)
	if len(retries.Items) != 2 || retries.Items[0].Count != 12 || retries.Items[1].Count != 12 || retries.Examined != 24 ||
		len(retries.Items[0].Tries) != 1 || retries.Items[0].Tries[0].Count != 12 {
		t.Errorf("retries: %+v", retries)
	}
	var use api.StrategiesInUse
	s.do("GET", queuePath("orders", "/strategies/in-use"), nil, http.StatusOK, &use)
	if len(use.Items) != 1 || use.Items[0].Strategy != "OldestFirst" || use.Items[0].Consumers > 1 {
		t.Errorf("strategies in use: %+v", use)
	}
	var views api.Views
	s.do("GET", queuePath("orders", "/views"), nil, http.StatusOK, &views)
	shards := map[int]bool{}
	for _, v := range views.Items {
		shards[v.Shard] = true
	}
	if len(shards) != 4 || shards[0] {
		t.Errorf("views: %+v", views)
	}
}

// A consumer that works for the whole queue is one consumer, whatever the shards that it has chunks of.
func TestShardsConsumers(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	s.spread(12, 2)
	for _, name := range []string{"a", "b"} {
		r := request("OldestFirst", 12)
		r.Consumer = name
		if got := s.reserve("orders", r).Reservations; len(got) != 12 {
			t.Fatalf("%s has %d chunks", name, len(got))
		}
	}
	list, _ := pages[api.Consumer](s, "/consumers", url.Values{}, 1)
	if len(list) != 2 || list[0].Consumer != "a" || list[1].Consumer != "b" || list[0].Reserved != 12 || list[1].Reserved != 12 {
		t.Errorf("consumers: %+v", list)
	}
	var held []api.HeldChunk
	for query := ""; ; {
		var detail api.ConsumerDetail
		s.do("GET", queuePath("orders", "/consumers/a")+"?limit=5"+query, nil, http.StatusOK, &detail)
		if detail.Consumer.Consumer != "a" || detail.Reserved != 12 {
			t.Errorf("the consumer: %+v", detail.Consumer)
		}
		held = append(held, detail.Items...)
		if detail.Next == "" {
			break
		}
		query = "&cursor=" + detail.Next
	}
	if len(byChunk(held, func(h *api.HeldChunk) (string, uint32) { return h.Submission, h.Index })) != 12 || len(held) != 12 {
		t.Errorf("it holds %d chunks, want 12", len(held))
	}
	var quiet api.Consumer
	s.do("POST", queuePath("orders", "/consumers/a/quiet"), nil, http.StatusOK, &quiet)
	r := request("OldestFirst", 1)
	r.Consumer = "a"
	if got := s.reserve("orders", r); len(got.Reservations) > 0 || *got.Reason != "quiet" || !quiet.Quiet {
		t.Errorf("a quiet consumer got %+v; the order says %+v", got, quiet)
	}
	s.do("POST", queuePath("orders", "/consumers/a/resume"), nil, http.StatusOK, nil)
	var released api.Released
	s.do("POST", queuePath("orders", "/consumers/b/release"), nil, http.StatusOK, &released)
	if released.Released != 12 {
		t.Errorf("%d chunks were released, want 12", released.Released)
	}
	s.refused("GET", queuePath("orders", "/consumers/none"), nil, http.StatusNotFound)
	s.refused("POST", queuePath("orders", "/consumers/none/drain"), nil, http.StatusNotFound)
}

// Values of a key have the numbers of all shards, in the order of these; settings hold in every shard.
func TestShardsValues(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	for i := range 24 {
		region := []string{"eu", "us", "asia"}[i%3]
		if i < 6 {
			region = "eu"
		}
		s.do("POST", queuePath("orders", "/submissions"), fmt.Sprintf(`{"group":"g%d","meta":{"region":%q},"chunks":{"count":2,"prefix":"x"}}`,
			i, region), http.StatusCreated, nil)
	}
	keys, _ := pages[api.MetaKey](s, "/meta-keys", url.Values{}, 1)
	if len(keys) != 2 || keys[0].Key != "group" || keys[0].Values != 24 || keys[1].Key != "region" {
		t.Errorf("keys: %+v", keys)
	}
	var list api.Page[api.ValueCount]
	s.do("GET", queuePath("orders", "/meta-keys/region/values?sort=ready&limit=2"), nil, http.StatusOK, &list)
	if len(list.Items) != 2 || list.Items[0].Value != api.Text("eu") || list.Items[0].Ready != 24 || list.Items[1].Ready != 12 {
		t.Errorf("values: %+v", list.Items)
	}
	var eu api.ValueCount
	s.do("GET", queuePath("orders", "/meta-keys/region/values/eu"), nil, http.StatusOK, &eu)
	if eu.Ready != 24 || eu.Submissions != 12 {
		t.Errorf("the value: %+v", eu)
	}
	for _, limit := range []string{"0", "1001", "x"} {
		s.refused("GET", queuePath("orders", "/meta-keys/region/values?limit="+limit), nil, http.StatusUnprocessableEntity)
	}
	s.refused("PUT", queuePath("orders", "/meta-keys/region/values/eu"), `{"limit":1}`, http.StatusUnprocessableEntity)
	s.refused("GET", queuePath("orders", "/meta-keys/region/values/none"), nil, http.StatusNotFound)
	etag := s.do("PUT", queuePath("orders", "/meta-keys/group"), `{"limit":1}`, http.StatusCreated, nil).header.Get("ETag")
	got := s.reserve("orders", request("OldestFirst", 48)).Reservations
	if len(got) != 24 {
		t.Errorf("%d chunks of 24 groups with the limit 1", len(got))
	}
	var key api.MetaKey
	if again := s.do("GET", queuePath("orders", "/meta-keys/group"), nil, http.StatusOK, &key); again.header.Get("ETag") != etag ||
		key.ETag != etag || key.Values != 24 {
		t.Errorf("the key: %+v, ETag %q, want %q", key, again.header.Get("ETag"), etag)
	}
	stale := send(t, s.client, s.address, call{method: "PUT", path: queuePath("orders", "/meta-keys/group"), body: `{"limit":2}`,
		header: map[string]string{"If-Match": `"x"`}})
	if stale.status != http.StatusPreconditionFailed {
		t.Errorf("with another ETag: %d %s", stale.status, stale.body)
	}
	s.do("DELETE", queuePath("orders", "/meta-keys/group"), nil, http.StatusNoContent, nil)
	s.refused("DELETE", queuePath("orders", "/meta-keys/group"), nil, http.StatusNotFound)
	if got := s.reserve("orders", request("OldestFirst", 48)).Reservations; len(got) != 24 {
		t.Errorf("%d chunks without the limit", len(got))
	}
}

// An ETag of settings covers the settings of all shards. So a change of one shard alone is not overwritten
// unseen.
func TestShardsETagsOfAll(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	s.spread(8, 1)
	for _, below := range []string{"/meta-keys/group", "/meta-keys/group/values/g1"} {
		path, inThird := queuePath("orders", below), queuePath("orders~3", below)
		put := func(body, header, etag string) answer {
			return send(t, s.client, s.address, call{method: "PUT", path: path, body: body, header: map[string]string{header: etag}})
		}
		first := put(`{"limit":1}`, "If-None-Match", "*")
		if first.status != http.StatusCreated {
			t.Fatalf("%s: %d %s", below, first.status, first.body)
		}
		seen := first.header.Get("ETag")
		s.do("PUT", inThird, `{"limit":7}`, http.StatusOK, nil)
		for _, method := range []string{"PUT", "DELETE"} {
			stale := send(t, s.client, s.address, call{method: method, path: path, body: `{"limit":2}`, header: map[string]string{"If-Match": seen}})
			if stale.status != http.StatusPreconditionFailed {
				t.Errorf("%s %s with the ETag from before one shard was changed: %d %s", method, below, stale.status, stale.body)
			}
		}
		var key struct{ Limit *uint32 }
		if s.do("GET", queuePath("orders~1", below), nil, http.StatusOK, &key); key.Limit == nil || *key.Limit != 1 {
			t.Errorf("a refused change has changed the first shard: %+v", key)
		}
		now := s.do("GET", path, nil, http.StatusOK, nil).header.Get("ETag")
		third := s.do("GET", inThird, nil, http.StatusOK, nil).header.Get("ETag")
		again := put(`{"limit":3}`, "If-Match", `"x", `+now)
		if again.status != http.StatusOK || now == seen || now == third || again.header.Get("ETag") == now {
			t.Errorf("with the ETag %s: %d %s, ETag %q", now, again.status, again.body, again.header.Get("ETag"))
		}
		for number := range 4 {
			if s.do("GET", queuePath(fmt.Sprint("orders~", number+1), below), nil, http.StatusOK, &key); *key.Limit != 3 {
				t.Errorf("shard %d has the limit %d", number+1, *key.Limit)
			}
		}
		var list api.Page[api.ValueCount]
		if s.do("GET", queuePath("orders", "/meta-keys/group/values"), nil, http.StatusOK, &list); strings.HasSuffix(below, "g1") {
			i := slices.IndexFunc(list.Items, func(v api.ValueCount) bool { return v.Value == api.Text("g1") })
			if list.Items[i].ETag != again.header.Get("ETag") {
				t.Errorf("the list has the ETag %q, want %q", list.Items[i].ETag, again.header.Get("ETag"))
			}
		}
		s.do("DELETE", path, nil, http.StatusNoContent, nil)
		s.do("PUT", inThird, `{"limit":5}`, http.StatusCreated, nil)
		if one := put(`{"limit":1}`, "If-None-Match", "*"); one.status != http.StatusPreconditionFailed {
			t.Errorf("%s is created though one shard has it: %d %s", below, one.status, one.body)
		}
		s.do("DELETE", path, nil, http.StatusNoContent, nil)
	}
}

// A request that is invalid in itself leaves no group behind.
func TestShardsWrongRequestCreatesNoGroup(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	wrong := map[string]call{
		"limit":     {body: `{"limits":{"waiting":0}}`},
		"field":     {body: `{"limit":1}`},
		"json":      {body: `{`},
		"text":      {body: `{"description":"` + strings.Repeat("x", 1<<16) + `"}`},
		"condition": {body: `{}`, header: map[string]string{"If-Match": "*"}},
	}
	for name, c := range wrong {
		c.method = "PUT"
		for i := range 6 { // some of them would be in another shard than the first
			c.path = queuePath("orders", fmt.Sprint("/groups/", name, i))
			if got := send(t, s.client, s.address, c); got.status/100 != 4 {
				t.Errorf("%s: %d %s", name, got.status, got.body)
			}
			s.refused("GET", c.path, nil, http.StatusNotFound)
		}
	}
	for name, body := range map[string]string{
		"spec":     `{"spec":"sometimes","template":{"group":"g","chunks":{"count":1,"prefix":"x"}}}`,
		"template": `{"spec":"@every 1h","template":{"group":"g","chunks":{"count":0}}}`,
		"unknown":  `{"spec":"@every 1h","sometimes":1,"template":{"group":"g","chunks":{"count":1,"prefix":"x"}}}`,
		"preview":  `{"spec":"@every 1h","template":{"group":"g","chunks":{"count":1,"prefix":"x"}}}`,
	} {
		s.refused("PUT", queuePath("orders", "/schedules/"+name), body, http.StatusUnprocessableEntity)
		s.refused("GET", queuePath("orders", "/groups/g"), nil, http.StatusNotFound)
	}
}

// A server that has never seen the numbers of a shard does not say that the queue is empty.
func TestShardsWithUnknownNumbers(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	var sum api.Stats
	if s.do("GET", queuePath("orders", "/stats"), nil, http.StatusOK, &sum); sum.Empty != 1 {
		t.Errorf("all shards are empty: %+v", sum)
	}
	s.setAside()
	header := s.do("GET", queuePath("orders", "/stats"), nil, http.StatusOK, &sum).header
	if sum.Empty != 0 || header.Get(headerLastKnown) != "" || header.Get(headerMissing) != "orders~3" {
		t.Errorf("with %q missing: %+v", header.Get(headerMissing), sum)
	}
}

// While a shard does not serve, lists name it, and a change says why it failed and where it is done.
func TestShardsChangeSaysWhereItIsDone(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	s.spread(20, 1)
	s.setAside()
	path := queuePath("orders", "/meta-keys/group")
	p := s.refused("PUT", path, `{"limit":1}`, http.StatusServiceUnavailable)
	if p.Code != api.CodeQuarantined || !strings.HasPrefix(p.Detail, `Shard 3 of the queue "orders": `) ||
		!strings.HasSuffix(p.Detail, "Shards 1, 2 and 4 have done it. Send it again for the others.") {
		t.Errorf("the change: %+v", p)
	}
	p = s.refused("PUT", path, `{"limit":-1}`, http.StatusUnprocessableEntity)
	if strings.Contains(p.Detail, "Shard") {
		t.Errorf("what no shard does: %+v", p)
	}
	for _, below := range []string{"/dead-letters/groups", "/retries/groups", "/strategies/in-use", "/views", "/consumers", "/meta-keys",
		"/meta-keys/group/values"} {
		var got api.Page[struct{}]
		header := s.do("GET", queuePath("orders", below), nil, http.StatusOK, &got).header
		if !slices.ContainsFunc(got.MissingShards, func(m api.MissingShard) bool { return m.Shard == "orders~3" }) ||
			len(got.MissingShards) != 1 || header.Get(headerMissing) != "orders~3" {
			t.Errorf("%s: missing %+v, header %q", below, got.MissingShards, header.Get(headerMissing))
		}
	}
}
