package web

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// newBroken is a server whose queue "broken" cannot be opened: lost is a submission of it, and file is damaged.
func newBroken(t *testing.T) (s *scene, lost api.Submission, file string) {
	t.Helper()
	s = newScene(t)
	s.alone()
	s.queue("broken", api.QueueSettingsInput{})
	lost = s.insert("broken", api.NewSubmission{Chunks: api.Chunks{Count: 3, Template: "x"}})
	s.insert("", api.NewSubmission{Chunks: api.Chunks{Count: 3, Template: "x"}})
	s.stop()
	file = filepath.Join(s.dir, "shards", "0001", "journal.db")
	if err := os.Truncate(file, 5000); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.settle()
	return s, lost, file
}

// A submission of a queue in quarantine is unknown to no token that may see the queue, also to none that is bound to something: a producer
// might insert it once more. To a token that is bound to other queues it is not there.
func TestBehaviourQuarantinedIsNotUnknown(t *testing.T) {
	t.Parallel()
	s, lost, _ := newBroken(t)
	tokens := map[string]string{}
	for _, n := range []api.NewToken{
		{Name: "boss", Scopes: []string{"admin"}},
		{Name: "tenant", Scopes: []string{"produce", "read"}, Meta: api.Meta{"company": api.Int(7)}},
		{Name: "narrow", Scopes: []string{"produce", "read"}, Queues: []string{"broken"}},
		{Name: "elsewhere", Scopes: []string{"produce", "read"}, Queues: []string{"default"}},
	} {
		body, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		header := map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + tokens["boss"]}
		if tokens["boss"] == "" {
			delete(header, "Authorization")
		}
		var made api.Token
		got := send(s, s.client, s.address, call{method: "POST", path: "/v1/tokens", body: string(body), header: header})
		if got.decode(s, &made); got.status != 201 {
			t.Fatalf("token %s: %d %s", n.Name, got.status, got.body)
		}
		tokens[n.Name] = made.Token
	}
	for name, token := range tokens {
		header := map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + token}
		for _, c := range []call{
			{method: "GET", path: "/v1/submissions/" + lost.ID, header: header},
			{method: "POST", path: "/v1/submissions:wait", body: `{"ids":["` + lost.ID + `"]}`, header: header},
		} {
			got := send(s, s.client, s.address, c)
			if name == "elsewhere" {
				if strings.Contains(string(got.body), "quarantine") || got.status != 404 && !strings.Contains(string(got.body), `"unknown":["`+lost.ID) {
					t.Errorf("%s %s of %s: got %d %s, want that it is unknown", c.method, c.path, name, got.status, got.body)
				}
			} else if got.status != 503 || got.problem(s).Code != api.CodeQuarantined {
				t.Errorf("%s %s of %s: got %d %s, want 503", c.method, c.path, name, got.status, got.body)
			}
		}
	}
}

// A queue whose files are damaged does not serve, and the others do. Readiness, the list of queues, the metric and each refusal name it;
// deleted, it may be made again.
func TestBehaviourQuarantine(t *testing.T) {
	t.Parallel()
	s, lost, file := newBroken(t)
	s.wantCounts("", "ready 3")
	if got := s.reserve("", request("OldestFirst", 1)); len(got.Reservations) != 1 {
		t.Errorf("the other queue gives %+v, want a chunk", got)
	}
	for _, call := range [][2]string{
		{"GET", "/v1/queues/broken/stats"}, {"GET", "/v1/submissions/" + lost.ID}, {"DELETE", "/v1/queues/broken"},
		{"PUT", "/v1/queues/broken"}, {"POST", "/v1/queues/broken/reservations"}, {"GET", "/v1/events?topics=stats&queue=broken"},
	} {
		body := map[string]any{"PUT": api.PutQueueRequest{}, "POST": request("OldestFirst", 1)}[call[0]]
		if p := s.refused(call[0], call[1], body, 503); p.Code != api.CodeQuarantined || strings.Contains(p.Detail, s.dir) {
			t.Errorf("%s %s: %+v, want %s without a path of the server", call[0], call[1], p, api.CodeQuarantined)
		}
	}
	var q api.Queue
	s.do("GET", "/v1/queues/broken", nil, 200, &q)
	if q.Quarantined == nil || !strings.Contains(q.Quarantined.Reason, file) || !q.Quarantined.Since.Equal(s.now()) {
		t.Errorf("the queue: %+v, want that %s is damaged", q.Quarantined, file)
	}
	var ready api.Readiness
	s.do("GET", "/readyz?verbose", nil, 200, &ready)
	if !ready.Ready || len(ready.Checks) < 2 || ready.Checks[1].Name != "queue broken" || ready.Checks[1].OK {
		t.Errorf("readiness: %+v, want the server ready, and the queue not", ready)
	}
	for line, want := range map[string]bool{`quern_queue_quarantined{queue="broken"} 1`: true, `quern_queue_quarantined{queue="default"} 0`: true,
		`quern_chunks_ready{queue="broken"}`: false} {
		if got := s.call("GET", "/metrics", nil); strings.Contains(string(got.body), line) != want {
			t.Errorf("/metrics has %s: %v, want %v", line, !want, want)
		}
	}
	s.refused("DELETE", "/v1/queues/default?quarantined=true", nil, 409)
	s.do("DELETE", "/v1/queues/broken?quarantined=true", nil, 204, nil)
	s.refused("GET", "/v1/queues/broken", nil, 404)
	s.queue("broken", api.QueueSettingsInput{})
	s.wantCounts("broken", "")
}

// The audit log says in every form that it may lack entries of a queue in quarantine, unless the filter means another queue.
func TestAuditBesideAQuarantine(t *testing.T) {
	t.Parallel()
	s, _, _ := newBroken(t)
	for path, want := range map[string]string{"/v1/audit": "broken", "/v1/audit?queue=broken": "broken", "/v1/audit?queue=default": ""} {
		var page api.PageAuditEntry
		answer := s.do("GET", path, nil, http.StatusOK, &page)
		if got := answer.header.Get(headerIncomplete); got != want || strings.Join(page.Incomplete, ",") != want {
			t.Errorf("%s: incomplete %q, header %q; want %q", path, page.Incomplete, got, want)
		}
		lines := send(s, s.client, s.address, call{method: "GET", path: path, header: map[string]string{"Accept": contentLines}})
		if got := lines.header.Get(headerIncomplete); got != want {
			t.Errorf("%s as lines: the header says %q, want %q", path, got, want)
		}
	}
	c, err := client.New("http://" + s.address)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, err := range c.Audit(t.Context(), client.AuditFilter{Incomplete: func(queues []string) {
		if calls++; !slices.Equal(queues, []string{"broken"}) {
			t.Errorf("incomplete: got %q", queues)
		}
	}}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if calls != 1 {
		t.Errorf("the client heard of it %d times, want once", calls)
	}
}
