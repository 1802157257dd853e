//quern:overlapping
package web

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// heard is a stream that is read to its end while the test goes on.
type heard struct {
	begun   chan struct{} // closed when the first event is there
	resumed chan struct{} // closed when it has a resume, or ends
	text    chan string   // all of it, at the end
}

// hear opens a stream with a token.
func (f *fixture) hear(token, path string) *heard {
	f.Helper()
	request, err := http.NewRequestWithContext(f.Context(), "GET", "http://"+f.address+path, nil)
	if err != nil {
		f.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK {
		f.Fatalf("%s: %v, %v", path, response, err)
	}
	h := &heard{begun: make(chan struct{}), resumed: make(chan struct{}), text: make(chan string, 1)}
	go func() {
		defer response.Body.Close()
		var all strings.Builder
		body := bufio.NewReader(response.Body)
		begun, resumed := sync.OnceFunc(func() { close(h.begun) }), sync.OnceFunc(func() { close(h.resumed) })
		for line, err := "", error(nil); err == nil; begun() {
			line, err = body.ReadString('\n')
			if all.WriteString(line); line == "event: resume\n" {
				resumed()
			}
		}
		resumed()
		h.text <- all.String()
	}()
	<-h.begun
	return h
}

// events are the names and data of a stream that has ended, without the signs of life.
func (h *heard) events() (list []string) {
	for line := range strings.Lines(<-h.text) {
		line = strings.TrimSpace(line)
		if name, is := strings.CutPrefix(line, "event: "); is {
			list = append(list, name)
		}
		if data, is := strings.CutPrefix(line, "data: "); is {
			list[len(list)-1] += " " + data
		}
	}
	return list
}

// The stream of a tenant's attached consumer has the orders to this consumer and the chunks that are taken from it, and
// nothing else: nothing of another tenant's consumer of the same name, which gets the same orders and loses chunks in
// every way, not even if the tenant asks for that one's full name.
func TestTenantsHearNothingOfOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, admin := f.token(engine.TokenRequest{Name: "boss", Scopes: access.Admin})
	const consumers = "/v1/queues/default/consumers/"
	tenants, streams, submissions, tokens := map[int64]string{}, map[int64]*heard{}, map[int64]string{}, map[int64][]string{}
	for _, company := range []int64{7, 8} {
		entry := queue.MetaEntry{Key: "company", Value: queue.IntValue(company)}
		_, tenants[company] = f.token(engine.TokenRequest{Name: fmt.Sprint("tenant ", company), Scopes: restrictableScopes, Restriction: access.Restriction{Entry: entry}})
		streams[company] = f.hear(tenants[company], consumers+"c/attach")
	}
	nosy := f.hear(tenants[7], consumers+"company=8%2Fc/attach")
	must := func(token, method, path, body string) answer {
		t.Helper()
		got := f.as(token, call{method: method, path: path, body: body})
		if got.status >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, got.status, got.body)
		}
		return got
	}
	// lose makes a tenant's consumer take two chunks and loses them to their submission's cancelling, and two more to a release by an operator,
	// between orders of every kind.
	lose := func(company int64) {
		t.Helper()
		known := consumers + url.PathEscape(fmt.Sprintf("company=%d/c", company))
		for _, how := range []string{"cancel", "release"} {
			var made api.Submission
			must(tenants[company], "POST", insertPath, fmt.Sprintf(`{"meta":{"company":%d},"chunks":{"count":2,"template":"x"}}`, company)).decode(t, &made)
			submissions[company] = made.ID
			var got api.ReserveResponse
			must(tenants[company], "POST", reservePath, `{"max":2,"consumer":"c"}`).decode(t, &got)
			if len(got.Reservations) != 2 {
				t.Fatalf("company %d reserved %+v, want 2 chunks", company, got)
			}
			for _, r := range got.Reservations {
				tokens[company] = append(tokens[company], r.Token)
			}
			if how == "cancel" {
				must(tenants[company], "POST", "/v1/submissions/"+made.ID+"/cancel", "")
			} else {
				must(admin, "POST", known+"/release", "")
				must(admin, "POST", "/v1/submissions/"+made.ID+"/cancel", "")
			}
		}
		for _, order := range []string{"drain", "quiet", "resume"} {
			must(admin, "POST", known+"/"+order, "")
		}
	}
	lose(8)
	lose(7)
	for _, company := range []int64{7, 8} {
		<-streams[company].resumed // an order that was not sent when the consumer leaves is not sent
		must(tenants[company], "POST", consumers+"c/detach", "")
	}
	must(tenants[7], "POST", consumers+"company=8%2Fc/detach", "")
	for company, stream := range streams {
		events := stream.events()
		all := strings.Join(events, "\n")
		if len(events) == 0 || !strings.Contains(events[0], fmt.Sprintf(`"consumer":"company=%d/c"`, company)) {
			t.Fatalf("company %d heard %v, want a hello by its name first", company, events)
		}
		for _, token := range tokens[company] {
			if strings.Count(all, token) != 1 {
				t.Errorf("company %d heard %d times of its chunk %s: %s", company, strings.Count(all, token), token, all)
			}
		}
		if !strings.Contains(all, "resume") {
			t.Errorf("company %d heard of no order: %s", company, all)
		}
		other := 15 - company
		for _, token := range append(tokens[other], submissions[other], fmt.Sprintf("company=%d", other)) {
			if strings.Contains(all, token) {
				t.Errorf("company %d heard of %s, which is the other's: %s", company, token, all)
			}
		}
	}
	if events := nosy.events(); len(events) != 1 || !strings.Contains(events[0], `"consumer":"company=7/company=8/c"`) {
		t.Errorf("attached by the name of the other's consumer one hears %v, want a hello as another", events)
	}
}

// The streams about a whole queue, or about the server, do not begin for a tenant, whatever topics it names and
// wherever it goes on.
func TestTenantsFollowNoQueue(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t)
	for _, topics := range []string{"", "stats", "keys", "consumers", "schedules", "stats,keys,consumers,schedules"} {
		for _, queue := range []string{"", "default", "elsewhere", "missing"} {
			query := url.Values{"topics": {topics}, "queue": {queue}}
			for name, values := range query {
				if values[0] == "" {
					delete(query, name)
				}
			}
			for _, last := range []string{"", "1"} {
				c := call{method: "GET", path: "/v1/events?" + query.Encode(), header: map[string]string{"Last-Event-ID": last, "Accept": contentEvents}}
				if got := n.as(n.mine, c); got.status != http.StatusForbidden || strings.Contains(string(got.body), marker) || strings.Contains(string(got.body), "data:") {
					t.Errorf("%s from %q: got %d %s, want 403", c.path, last, got.status, got.body)
				}
			}
		}
	}
	if got := n.as(n.mine, call{method: "GET", path: "/v1/audit", header: map[string]string{"Accept": contentEvents}}); got.status != http.StatusForbidden {
		t.Errorf("the audit log's stream: got %d %s, want 403", got.status, got.body)
	}
}
