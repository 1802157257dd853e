//quern:overlapping
package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// rulesIn are the rules of a queue or of one shard.
func (s *scene) rulesIn(queue, state string) []api.Rule {
	s.Helper()
	var page api.Page[api.Rule]
	s.do("GET", queuePath(queue, "/rules?state="+state), nil, http.StatusOK, &page)
	return page.Items
}

// A rule of the whole queue holds in every shard from the answer on, is one rule in lists, and ends in every shard.
func TestShardsRuleHoldsInAll(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	for i := range 16 {
		s.do("POST", queuePath("orders", "/submissions"), `{"group":"g`+string(rune('a'+i))+`","meta":{"customer":7},"chunks":{"count":1,"prefix":"x"}}`,
			http.StatusCreated, nil)
	}
	s.spread(8, 1)
	s.do("POST", queuePath("orders~2", "/rules"), `{"action":"pause","match":{"meta":{"customer":8}}}`, http.StatusCreated, nil)
	const pause = `{"action":"pause","match":{"meta":{"customer":7}},"reason":"they asked"}`
	var rule api.Rule
	at := s.do("POST", queuePath("orders", "/rules"), pause, http.StatusCreated, &rule).header.Get("Location")
	if at != queuePath("orders", "/rules/"+rule.ID) || !wholeRule(rule.ID) || rule.Shards != nil {
		t.Errorf("the rule: %+v at %q", rule, at)
	}
	if got := s.reserve("orders", request("OldestFirst", 100)).Reservations; len(got) != 8 {
		t.Errorf("%d chunks, want the 8 of others", len(got))
	}
	list := s.rulesIn("orders", "active")
	if len(list) != 2 || list[0].ID == rule.ID || len(list[0].Shards) != 1 || list[0].Shards[0] != 2 ||
		list[1].ID != rule.ID || list[1].Chunks != 16 || list[1].Shards != nil || list[1].Reason != "they asked" {
		t.Errorf("the rules: %+v", list)
	}
	var same api.Rule
	etag := s.do("GET", at, nil, http.StatusOK, &same).header.Get("ETag")
	if same.ID != rule.ID || etag == "" {
		t.Errorf("one rule: %+v, ETag %q", same, etag)
	}
	s.do("POST", queuePath("orders", "/rules"), pause, http.StatusOK, &same)
	for etag, want := range map[string]int{`"x"`: http.StatusPreconditionFailed, etag: http.StatusOK} {
		got := send(t, s.client, s.address, call{method: "POST", path: queuePath("orders", "/rules"),
			body: strings.Replace(pause, "they", "we", 1), header: map[string]string{"If-Match": etag}})
		if got.status != want {
			t.Errorf("If-Match %s: %d %s, want %d", etag, got.status, got.body, want)
		}
	}
	// Someone changes the rule in one shard alone: the ETag of the whole is another one, and the old one changes nothing.
	etag = s.do("GET", at, nil, http.StatusOK, nil).header.Get("ETag")
	s.do("POST", queuePath("orders~3", "/rules"), strings.Replace(pause, "they", "others", 1), http.StatusOK, nil)
	if now := s.do("GET", at, nil, http.StatusOK, nil).header.Get("ETag"); now == etag {
		t.Error("the ETag is the same after a change in shard 3")
	}
	const other = `{"action":"pause","match":{"meta":{"customer":8}},"reason":"x"}` // shard 2 has it
	for _, c := range []call{{body: pause, header: map[string]string{"If-Match": etag}}, {body: other, header: map[string]string{"If-None-Match": "*"}},
		{body: strings.Replace(pause, "7", "9", 1), header: map[string]string{"If-Match": etag}}} {
		c.method, c.path = "POST", queuePath("orders", "/rules")
		if got := send(t, s.client, s.address, c); got.status != http.StatusPreconditionFailed {
			t.Errorf("%v: %d %s, want 412", c.header, got.status, got.body)
		}
	}
	if list := s.rulesIn("orders~1", "active"); len(list) != 1 || list[0].Reason != "we asked" {
		t.Errorf("the rules of shard 1 after what was refused: %+v", list)
	}
	etag = s.do("GET", at, nil, http.StatusOK, nil).header.Get("ETag")
	if got := send(t, s.client, s.address, call{method: "POST", path: queuePath("orders", "/rules"), body: strings.Replace(pause, "they", "we", 1),
		header: map[string]string{"If-Match": etag}}); got.status != http.StatusOK {
		t.Errorf("with the ETag of all shards: %d %s", got.status, got.body)
	}
	s.killed(time.Second)
	for _, shard := range []string{"orders~1", "orders~2", "orders~3", "orders~4"} {
		if list := s.rulesIn(shard, "active"); list[len(list)-1].Reason != "we asked" {
			t.Errorf("the rules of %s: %+v", shard, list)
		}
	}
	s.do("DELETE", at, nil, http.StatusNoContent, nil)
	s.do("DELETE", at, nil, http.StatusNoContent, nil)
	s.refused("DELETE", queuePath("orders", "/rules/r0123456789abcdef"), nil, http.StatusNotFound)
	s.refused("GET", at, nil, http.StatusNotFound)
	if got := s.reserve("orders", request("OldestFirst", 100)).Reservations; len(got) != 24 {
		t.Errorf("%d chunks after the kill and the lift, want 24", len(got))
	}
	if list := s.rulesIn("orders", "ended"); len(list) != 1 || list[0].ID != rule.ID || list[0].Shards != nil || list[0].End != api.RuleLifted {
		t.Errorf("what ended: %+v", list)
	}
}

// A rule about one submission is in its shard alone.
func TestShardsRuleOfSubmission(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	made := s.spread(8, 1)
	var rule api.Rule
	s.do("POST", queuePath("orders", "/rules"), `{"action":"pause","match":{"submission":"`+made[2].ID+`"}}`, http.StatusCreated, &rule)
	if list := s.rulesIn("orders", "active"); len(list) != 1 || list[0].ID != rule.ID || list[0].Shards != nil {
		t.Errorf("the rules: %+v", list)
	}
	if got := s.reserve("orders", request("OldestFirst", 100)).Reservations; len(got) != 7 {
		t.Errorf("%d chunks, want 7", len(got))
	}
	s.do("DELETE", queuePath("orders", "/rules/"+rule.ID), nil, http.StatusNoContent, nil)
	s.refused("POST", queuePath("orders", "/rules"), `{"action":"pause","match":{"submission":"1"}}`, http.StatusNotFound)
}

// A queue that gets more shards has its rules and its settings of values in them, before any work comes there.
func TestShardsNewOnesInheritRules(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("orders", api.QueueSettingsInput{})
	s.do("POST", queuePath("orders", "/rules"), `{"action":"block","match":{"meta":{"customer":7}},"reason":"unpaid"}`, http.StatusCreated, nil)
	s.do("PUT", queuePath("orders", "/meta-keys/group"), `{"limit":2}`, http.StatusCreated, nil)
	for _, shards := range []uint8{2, 4} {
		s.queue("orders", api.QueueSettingsInput{Shards: new(shards)})
	}
	s.advance(time.Second)
	s.do("POST", queuePath("orders", "/rules"), `{"action":"pause","match":{"meta":{"customer":8}}}`, http.StatusCreated, nil)
	s.killed(time.Second)
	s.queue("orders", api.QueueSettingsInput{Shards: new(uint8(5))})
	list := s.rulesIn("orders", "active")
	if len(list) != 2 || list[0].Shards != nil || list[1].Shards != nil || list[0].Reason != "unpaid" || list[1].Action != "pause" {
		t.Errorf("the rules: %+v", list)
	}
	if list := s.rulesIn("orders~5", "active"); len(list) != 2 {
		t.Errorf("the rules of the new shard: %+v", list)
	}
	s.advance(time.Hour) // after a kill, chunks that a limit counts wait
	s.spread(8, 5)
	if got := s.reserve("orders", request("OldestFirst", 100)).Reservations; len(got) != 16 {
		t.Errorf("%d chunks of 8 groups with the limit 2, want 16", len(got))
	}
}

// A pause while a shard does not serve holds in the others, and says so. An empty shard in the place of the lost one
// has it.
func TestShardsRuleBesideQuarantine(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	s.spread(8, 1)
	s.setAside()
	const pause = `{"action":"pause","match":{"queue":true}}`
	p := s.refused("POST", queuePath("orders", "/rules"), pause, http.StatusServiceUnavailable)
	if p.Code != api.CodeQuarantined || !strings.Contains(p.Detail, "Shards 1, 2 and 4 have done it") {
		t.Errorf("the refusal: %+v", p)
	}
	if got := s.reserve("orders", request("OldestFirst", 100)); len(got.Reservations) > 0 {
		t.Errorf("%d chunks were handed out", len(got.Reservations))
	}
	list := s.rulesIn("orders", "active")
	if len(list) != 1 || list[0].Shards != nil {
		t.Errorf("the rules: %+v", list)
	}
	p = s.refused("DELETE", queuePath("orders", "/rules/"+list[0].ID), nil, http.StatusServiceUnavailable)
	if p.Code != api.CodeQuarantined || len(s.rulesIn("orders", "active")) != 0 {
		t.Errorf("the lift: %+v", p)
	}
	s.refused("POST", queuePath("orders", "/rules"), pause, http.StatusServiceUnavailable)
	s.do("DELETE", "/v1/queues/orders~3?quarantined=true", nil, http.StatusNoContent, nil)
	if list := s.rulesIn("orders~3", "active"); len(list) != 1 {
		t.Errorf("the rules of the shard that was made again: %+v", list)
	}
	s.do("POST", queuePath("orders", "/rules"), pause, http.StatusOK, nil)
}
