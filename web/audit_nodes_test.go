//quern:overlapping
package web

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
)

// Every node of a cluster shows the changes in the queues of all nodes, in each form of the log, although they are not
// in the log yet, but only in the journals of the queues.
func TestCrewAuditHasAllNodes(t *testing.T) {
	t.Parallel()
	if *nodeCount == 0 {
		t.Skip("it needs a cluster: -args -nodes 3")
	}
	f := newFixture(t)
	const rules = 9
	for i, n := range f.crew.list {
		f.do("PUT", fmt.Sprintf("/v1/queues/q%d", i), "{}", http.StatusCreated, nil)
		f.do("POST", fmt.Sprintf("/v1/queues/q%d/move", i), fmt.Sprintf(`{"node":%q}`, n.place.Name), http.StatusOK, nil)
	}
	var want []string
	for i := range rules {
		queue := fmt.Sprintf("q%d", i%len(f.crew.list))
		for done := false; !done; { // a node that does not know of the move yet refuses the call, and does nothing
			got := f.send(call{method: "POST", path: "/v1/queues/" + queue + "/rules", body: fmt.Sprintf(`{"action":"pause","match":{"meta":{"company":%d}}}`, i)})
			if done = got.status == http.StatusCreated; !done && got.status != http.StatusMisdirectedRequest {
				t.Fatalf("rule: %d %s", got.status, got.body)
			}
		}
		want = append(want, fmt.Sprintf("%s company=%d", queue, i))
	}
	shown := func(e *api.AuditEntry) string {
		var rule struct{ Match string }
		if err := json.Unmarshal(e.After, &rule); err != nil {
			t.Fatalf("%s: %v", e.After, err)
		}
		return e.Queue + " " + rule.Match
	}
	for node := range f.crew.list {
		var got []string
		var last api.AuditEntry
		for cursor, more := "", true; more; more = cursor != "" {
			var page api.PageAuditEntry
			f.wholeAudit(node, "application/json", "&limit=2&cursor="+cursor).decode(t, &page)
			for i := range page.Items {
				if e := page.Items[i]; len(got) > 0 && e.At.After(last.At.Time) {
					t.Errorf("node %d: the log is not the latest first: %+v after %+v", node, e, last)
				}
				last, got = page.Items[i], append(got, shown(&page.Items[i]))
			}
			cursor = page.Next
		}
		check := func(form string, got []string) {
			t.Helper()
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Errorf("node %d shows %s with %q, want %q", node, form, got, want)
			}
		}
		check("pages", got)
		got = nil
		for line := range strings.Lines(string(f.wholeAudit(node, contentLines, "").body)) {
			var e api.AuditEntry
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			got = append(got, shown(&e))
		}
		check("lines", got)
		check("a stream", f.streamedAudit(node, rules, shown))
	}
}

// wholeAudit is a node's answer about new rules once it lacks nothing. It may lack some while another node is slow to
// say that it lives.
func (f *fixture) wholeAudit(node int, accept, query string) answer {
	f.Helper()
	for {
		got := f.at(node, call{method: "GET", path: "/v1/audit?action=rule.create" + query, header: map[string]string{"Accept": accept}})
		if got.status != http.StatusOK {
			f.Fatalf("node %d: %d %s", node, got.status, got.body)
		}
		if got.header.Get(headerIncomplete) == "" {
			return got
		}
		for _, n := range f.crew.list {
			n.place.Hasten()
		}
	}
}

// streamedAudit has the entries of a node's stream of new rules.
func (f *fixture) streamedAudit(node, most int, shown func(*api.AuditEntry) string) (got []string) {
	f.Helper()
	request, err := http.NewRequestWithContext(f.Context(), "GET", f.crew.list[node].url+"/v1/audit?action=rule.create&since=2026-01-01T00:00:00Z", nil)
	if err != nil {
		f.Fatal(err)
	}
	request.Header.Set("Accept", contentEvents)
	stream, err := http.DefaultClient.Do(request)
	if err != nil {
		f.Fatal(err)
	}
	defer stream.Body.Close()
	for lines := bufio.NewScanner(stream.Body); len(got) < most && lines.Scan(); {
		if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
			var e api.AuditEntry
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				f.Fatalf("%s: %v", data, err)
			}
			got = append(got, shown(&e))
		}
	}
	return got
}
