//quern:overlapping
package web

import (
	"strconv"
	"strings"
	"testing"
)

// A call is counted once in a cluster: by the node that the client asked, also where another node answers it or several do.
func TestCrewCountsACallOnce(t *testing.T) {
	t.Parallel()
	if *nodeCount == 0 {
		t.Skip("it needs a cluster: -args -nodes 3")
	}
	f := newFixture(t)
	for route, c := range map[string]call{
		"get-stats":            {method: "GET", path: "/v1/queues/default/stats"}, // one node answers
		"list-bulk-operations": {method: "GET", path: "/v1/bulk-operations"},      // all do
		"list-audit":           {method: "GET", path: "/v1/audit"},
		"set-rule":             {method: "POST", path: "/v1/queues/default/rules", body: `{"action":"pause","match":{"meta":{"company":7}}}`},
	} {
		changes := make([]int, len(f.crew.list))
		for node := range f.crew.list {
			if f.at(node, c).status < 300 && c.method == "POST" {
				changes[node]++
			}
			for at := range f.crew.list {
				want := 0
				if at <= node { // each was asked once so far, the first ones first
					want = 1
				}
				text := string(f.at(at, call{method: "GET", path: "/metrics"}).body)
				if got := sumOf(t, text, "quern_http_request_seconds_count{", `route="`+route+`"`); got != want {
					t.Errorf("%s: after the call to node %d, node %d counts %d, want %d", route, node, at, got, want)
				}
				if got := sumOf(t, text, "quern_audit_events_total{", `action="`+route+`"`); got != changes[at] {
					t.Errorf("%s: after the call to node %d, node %d counts %d changes, want %d", route, node, at, got, changes[at])
				}
			}
		}
	}
}

// sumOf adds up the series of a metric with such a name in their braces.
func sumOf(t *testing.T, text, metric, named string) (sum int) {
	t.Helper()
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, metric) || !strings.Contains(line, named) {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}
