//quern:overlapping
package web

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// The lines of several nodes are merged by their times. Those of one node stay in their order although its clock goes back, and none is
// lost or merged twice, however short the pages are.
func TestMergedLogs(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, seed))
	logs := map[string][]api.PluginLogLine{"a": nil, "b": nil, "c": nil}
	total := 0
	for node := range logs {
		now := time.Unix(1_700_000_000, 0)
		for n := range 1 + r.IntN(30) {
			now = now.Add(time.Duration(r.IntN(2000)-300) * time.Millisecond)
			logs[node] = append(logs[node], api.PluginLogLine{Node: node, Number: uint64(n + 1), Time: api.At(now)})
			total++
		}
	}
	for _, limit := range []int{1, 2, 7, 1000} {
		merged, cursor := map[string]uint64{}, ""
		for pages, n := 0, 0; n < total; pages++ {
			if pages > 100*total {
				t.Fatalf("limit %d: %d of %d lines after %d pages; cursor %q", limit, n, total, pages, cursor)
			}
			places, err := logPlaces(cursor)
			if err != nil {
				t.Fatal(err)
			}
			var parts []api.PluginLogs
			for _, node := range []string{"a", "b", "c"} {
				if r.IntN(4) == 0 {
					continue // it does not answer: its place in the cursor stays
				}
				lines := slices.Clone(logs[node][places[node]:])
				part := api.PluginLogs{Lines: lines[:min(limit, len(lines))]}
				part.Cursor = logCursor(map[string]uint64{node: places[node] + uint64(len(part.Lines))})
				parts = append(parts, part)
			}
			out, err := joinLogs(parts, cursor, limit)
			if err != nil || len(out.Lines) > limit {
				t.Fatalf("limit %d: %d lines, %v", limit, len(out.Lines), err)
			}
			for _, line := range out.Lines {
				if merged[line.Node]++; line.Number != merged[line.Node] {
					t.Fatalf("limit %d: line %d of %s is merged as its number %d", limit, line.Number, line.Node, merged[line.Node])
				}
				n++
			}
			cursor = out.Cursor
		}
		if want := fmt.Sprintf("a:%d,b:%d,c:%d", len(logs["a"]), len(logs["b"]), len(logs["c"])); cursor != want {
			t.Errorf("limit %d: the last cursor is %q, want %q", limit, cursor, want)
		}
	}
	if _, err := logPlaces("a:x"); err == nil {
		t.Error("a cursor that is none is taken")
	}
}

// Numbers of nodes are added up, and their means are weighted.
func TestAddedPluginStats(t *testing.T) {
	t.Parallel()
	all := api.PluginStats{Batches: 1, Candidates: 10, NsPerCandidate: 100, Breaker: api.PluginBreaker{State: "closed"}, MemoryPages: 3}
	addStats(&all, &api.PluginStats{Batches: 2, Candidates: 30, NsPerCandidate: 20, Faults: map[string]uint64{"trap": 2}, LastFault: "x",
		Breaker: api.PluginBreaker{State: "open"}, MemoryPages: 2, Instances: 1, Shadow: &api.PluginShadow{SHA256: "s", Batches: 1, Overlap: 1}})
	addStats(&all, &api.PluginStats{Faults: map[string]uint64{"trap": 1, "fuel": 1}, Breaker: api.PluginBreaker{State: "closed"},
		Shadow: &api.PluginShadow{SHA256: "s", Batches: 3, Overlap: 0.5}})
	if all.Batches != 3 || all.Candidates != 40 || all.NsPerCandidate != 40 || all.Faults["trap"] != 3 || all.Faults["fuel"] != 1 ||
		all.LastFault != "x" || all.Breaker.State != "open" || all.MemoryPages != 3 || all.Instances != 1 ||
		all.Shadow == nil || all.Shadow.Batches != 4 || all.Shadow.Overlap != 0.625 {
		t.Errorf("added up: %+v, shadow %+v", all, all.Shadow)
	}
}

// TestSeenPlugin: the breaker that needs attention most gives the state, whichever node answers first.
func TestSeenPlugin(t *testing.T) {
	t.Parallel()
	part := func(node string, revision uint64, state string) api.Plugin {
		p := api.Plugin{Name: "p", Revision: revision, Active: &api.PluginUse{Version: "1.0.0"}, State: state,
			Breaker: api.PluginBreaker{State: state, Node: node}}
		if state == api.BreakerClosed {
			p.State = api.PluginActive
		}
		return p
	}
	for _, c := range []struct {
		parts             []api.Plugin
		state, node       string
		revision          uint64
		reasonOfFollowing bool
	}{
		{[]api.Plugin{part("a", 1, "closed")}, "active", "a", 1, false},
		{[]api.Plugin{part("a", 1, "closed"), part("b", 1, "closed")}, "active", "a", 1, false},
		{[]api.Plugin{part("a", 1, "closed"), part("b", 1, "open"), part("c", 1, "starting")}, "open", "b", 1, false},
		{[]api.Plugin{part("a", 1, "half_open"), part("b", 1, "throttled")}, "throttled", "b", 1, false},
		{[]api.Plugin{part("a", 1, "quarantined"), part("b", 1, "open")}, "quarantined", "a", 1, false},
		{[]api.Plugin{part("a", 1, "open"), part("b", 2, "closed")}, "starting", "a", 2, true},
		{[]api.Plugin{part("a", 2, "open"), part("b", 1, "quarantined")}, "open", "a", 2, false},
		{[]api.Plugin{{Name: "p", Revision: 3, State: "inactive"}, part("b", 2, "open")}, "inactive", "", 3, false},
	} {
		got := seenPlugin(c.parts)
		if got.State != c.state || got.Breaker.Node != c.node || got.Revision != c.revision ||
			(got.Breaker.Reason != "") != c.reasonOfFollowing {
			t.Errorf("%+v: got %+v", c.parts, got)
		}
	}
}

// A list of plugins is within the bound of an answer also when many nodes are missing. Its pages have each plugin once,
// with the numbers of each node, also where the page of one node ended before that of another.
func TestJoinedPluginsHavePages(t *testing.T) {
	t.Parallel()
	const n = 900
	missing := make([]string, 63) // cluster.MaxNodes without the one that answers
	for i := range missing {
		missing[i] = fmt.Sprintf("%064d", i)
	}
	var list [2][]api.Plugin
	for i := range n {
		p := api.Plugin{Name: fmt.Sprintf("p%03d", i), Active: &api.PluginUse{}, Breaker: api.PluginBreaker{State: api.BreakerClosed}}
		list[0] = append(list[0], p)
		p.Breaker.State, p.Breaker.Reason = api.BreakerOpen, strings.Repeat("x", 8<<10)
		list[1] = append(list[1], p)
	}
	byName := func(p *api.Plugin) string { return p.Name }
	names, count := map[string]bool{}, 0
	for next := ""; count == 0 || next != ""; count++ {
		var pages []api.Page[api.Plugin]
		for _, of := range list {
			items, more, err := pageOf(behind(of, next, byName), "", byName, asIs)
			if err != nil {
				t.Fatal(err)
			}
			pages = append(pages, api.Page[api.Plugin]{Items: items, Next: more})
		}
		all, err := joinPlugins(pages, missing)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(all)
		if err != nil || len(text) > mostEncoded || len(all.Items) == 0 || count > n {
			t.Fatalf("page %d: %d plugins in %d bytes, %v; want some in at most %d", count, len(all.Items), len(text), err, mostEncoded)
		}
		for _, p := range all.Items {
			if names[p.Name] || p.Breaker.State != api.BreakerOpen || len(p.Missing) != len(missing) {
				t.Errorf("page %d: %s is %s, without %d nodes, seen before: %v; want the open breaker of the second node", count, p.Name,
					p.Breaker.State, len(p.Missing), names[p.Name])
			}
			names[p.Name] = true
		}
		next = all.Next
	}
	if len(names) != n || count < 3 {
		t.Errorf("%d plugins on %d pages, want %d on 3 or more", len(names), count, n)
	}
}

// TestCrewPluginIsSeenByAllNodes: any node answers for the breakers and the strategies of the node that serves the queue.
func TestCrewPluginIsSeenByAllNodes(t *testing.T) {
	t.Parallel()
	if *nodeCount == 0 {
		t.Skip("it needs a cluster: -args -nodes 3")
	}
	s, _ := moodyScene(t, 100)
	narrow := strings.Replace(declared("moody", "2.0.0", "priority", "limit:none"), `"max":1024`, `"max":16`, 1)
	s.upload(wasmtest.Scorer(), narrow)
	owner := s.crew.owner()
	asks := func(n *crewNode, method, path, body string) answer {
		t.Helper()
		got := send(s, &http.Client{Transport: s.crew.next}, n.host(), call{method: method, path: "/v1/plugins/moody" + path, body: body})
		s.settle()
		return got
	}
	opened := func() {
		t.Helper()
		for range 3 {
			s.fault()
		}
		for _, n := range s.crew.list {
			var p api.Plugin
			asks(n, "GET", "", "").decode(s, &p)
			if p.State != api.BreakerOpen || p.Breaker.Node != owner.engine.Nodes().Self() {
				t.Fatalf("%s: got %+v, want it open on the owner", n.url, p)
			}
		}
	}
	for _, n := range s.crew.list {
		opened()
		if got := asks(n, "POST", "/reset", ""); got.status != 200 {
			t.Fatalf("reset at %s: %d %s", n.url, got.status, got.body)
		}
		if p := s.plugin("moody"); p.State != api.PluginActive {
			t.Errorf("after a reset at %s: got %+v, want it active", n.url, p)
		}
		opened()
		if got := asks(n, "POST", "/activate", `{"version":"1.0.0","force":true}`); got.status != 200 {
			t.Fatalf("activate at %s: %d %s", n.url, got.status, got.body)
		}
		if p := s.plugin("moody"); p.State != api.PluginActive {
			t.Errorf("after an activation by force at %s: got %+v, want it active", n.url, p)
		}
		// Only the owner knows the strategies that consumers sent.
		s.reserve("", request(`OrElse(Plugin("moody", window=512, OldestFirst), OldestFirst)`, 1))
		if got := asks(n, "POST", "/activate", `{"version":"2.0.0"}`); got.status != 409 || !strings.Contains(string(got.body), "window") {
			t.Errorf("activating at %s what refuses a window in use: %d %s, want 409", n.url, got.status, got.body)
		}
		asks(n, "POST", "/reset", "") // that reserve was a fault as well
	}
}
