package web

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// endsOf opens a stream of ends and returns a function that reads the next event which has a name.
func (s *scene) endsOf(queue, query, last string) (next func() (name, id, data string), hangUp func()) {
	s.Helper()
	request, err := http.NewRequest(http.MethodGet, "http://"+s.address+queuePath(queue, "/ends"+query), nil)
	if err != nil {
		s.Fatal(err)
	}
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	response, err := s.client.Do(request)
	if err != nil || response.StatusCode != http.StatusOK {
		s.Fatalf("%s: %v %v", query, response, err)
	}
	s.Cleanup(func() { response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	return func() (name, id, data string) {
		s.Helper()
		for lines.Scan() {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case field == "event":
				name = value
			case field == "id":
				id = value
			case field == "data":
				data = value
			case lines.Text() == "" && name != "":
				return name, id, data
			}
		}
		return "", "", ""
	}, func() { response.Body.Close() }
}

// The stream sends each end once, goes on behind the last id, begins with all or with now, and reports ends that
// retention has removed.
//
//quern:overlapping
func TestEndsAreStreamed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("", api.QueueSettingsInput{RetentionSeconds: new(int64(3600))})
	ended := func(tenant string) string {
		t.Helper()
		sub := s.insert("", submission(1, "t", tenant))
		s.do("POST", "/v1/submissions/"+sub.ID+"/cancel", nil, http.StatusOK, nil)
		return sub.ID
	}
	first := ended("a")
	next, hangUp := s.endsOf("", "", "")
	all, _ := s.endsOf("", "?after=0", "")
	narrow, _ := s.endsOf("", "?after=0&state=cancelled&meta.t="+url.QueryEscape("b"), "")
	second, third := ended("a"), ended("b")
	var last string
	want := func(who string, next func() (string, string, string), ids ...string) {
		t.Helper()
		for _, wanted := range ids {
			name, id, data := next()
			var sub api.Submission
			if err := json.Unmarshal([]byte(data), &sub); err != nil || name != api.EventEnd || sub.ID != wanted || sub.State != api.StateCancelled {
				t.Errorf("%s: got %s %s %s (%v), want the end of %s", who, name, id, data, err, wanted)
			}
			last = id
		}
	}
	want("from now on", next, second)
	hangUp()
	want("all", all, first, second, third)
	want("narrowed", narrow, third)
	s.reopen(time.Minute)
	again, _ := s.endsOf("", "", last)
	fourth := ended("b")
	want("who comes back", again, fourth)
	s.advance(2 * time.Hour) // and retention removes them
	late, _ := s.endsOf("", "", "0-1-1-1")
	if name, _, data := late(); name != api.EventGap || !strings.Contains(data, `"after":"0-1-1-1"`) {
		t.Errorf("after retention: got %s %s, want a gap behind 0-1-1-1", name, data)
	}
	fresh, _ := s.endsOf("", "?after=0", "")
	fifth := ended("b")
	want("with all that is kept, which is no gap", fresh, fifth)
	want("behind the gap", late, fifth)
}

// A client whose last end was lost by a restore hears of it, and then gets all ends of the restored server, also when these have passed the
// place of the lost one.
//
//quern:overlapping
func TestEndsAfterARestore(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const orders = "orders"
	s.queue(orders, api.QueueSettingsInput{})
	ended := func() string {
		t.Helper()
		sub := s.insert(orders, submission(1))
		s.do("POST", "/v1/submissions/"+sub.ID+"/cancel", nil, http.StatusOK, nil)
		return sub.ID
	}
	// follow reads events until an end of each submission has come in their order, and returns the gaps before them and the last id.
	follow := func(from string, ids ...string) (gaps int, last string) {
		t.Helper()
		next, hangUp := s.endsOf(orders, "?after="+from, "")
		defer hangUp()
		for len(ids) > 0 {
			name, id, data := next()
			switch {
			case name == api.EventGap:
				gaps++
			case name == api.EventEnd && strings.Contains(data, ids[0]):
				ids, last = ids[1:], id
			default:
				t.Fatalf("after %s: got %s %s, want the end of %s", from, name, data, ids[0])
			}
		}
		return gaps, last
	}
	kept := ended()
	copied := s.call("POST", "/v1/backup", nil)
	if copied.status != http.StatusOK {
		t.Fatalf("the backup: %d %s", copied.status, copied.body)
	}
	_, before := follow("0", kept)
	s.killed(time.Second) // it counts its starts, and so does the restored server
	lost := []string{ended(), ended(), ended()}
	_, after := follow(before, lost...)
	s.stop()
	s.dir = filepath.Join(t.TempDir(), "restored")
	if _, err := engine.Restore(t.Context(), s.dir, bytes.NewReader(copied.body)); err != nil {
		t.Fatal(err)
	}
	s.start()
	news := []string{ended(), ended(), ended(), ended(), ended()}
	if gaps, _ := follow(after, news...); gaps != 1 {
		t.Errorf("a client that has lost ends heard of %d gaps", gaps)
	}
	gaps, last := follow(before, news...)
	if gaps != 0 {
		t.Errorf("a client that has none of the lost ends heard of %d gaps", gaps)
	}
	s.killed(time.Second)
	news = append(news, ended())
	if gaps, _ := follow(last, news[5:]...); gaps != 0 {
		t.Errorf("after the restore: %d gaps", gaps)
	}
	s.do("DELETE", queuePath(orders, ""), nil, http.StatusNoContent, nil)
	s.queue(orders, api.QueueSettingsInput{})
	if gaps, _ := follow(last, ended()); gaps != 1 {
		t.Errorf("of another queue with the same name: %d gaps", gaps)
	}
}

// The streams of a queue end with a problem when it is deleted.
//
//quern:overlapping
func TestEndsOfADeletedQueue(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("q", api.QueueSettingsInput{})
	response, err := s.client.Get("http://" + s.address + queuePath("q", "/ends"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	s.do("DELETE", "/v1/queues/q", nil, http.StatusNoContent, nil)
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() && lines.Text() != "event: problem" {
	}
	if !lines.Scan() || !strings.Contains(lines.Text(), `"code":"unknown_queue"`) {
		t.Errorf("the stream ended with %q, want the problem that the queue is not there", lines.Text())
	}
}

// A tenant's stream has the tenant's ends and no others: each next event is of its own, although another tenant's end
// came before it.
func TestTenantsSeeTheirEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.token(engine.TokenRequest{Name: "boss", Scopes: access.Admin})
	tokens := map[int64]string{}
	for _, company := range []int64{7, 8} {
		entry := queue.MetaEntry{Key: "company", Value: queue.IntValue(company)}
		_, tokens[company] = f.token(engine.TokenRequest{Name: fmt.Sprint("tenant ", company), Scopes: restrictableScopes, Restriction: access.Restriction{Entry: entry}})
	}
	end := func(company int64) string {
		var made api.Submission
		f.as(tokens[company], call{method: "POST", path: insertPath, body: fmt.Sprintf(`{"meta":{"company":%d},"chunks":{"count":2,"template":"x"}}`, company)}).decode(t, &made)
		if got := f.as(tokens[company], call{method: "POST", path: "/v1/submissions/" + made.ID + "/cancel"}); got.status != http.StatusOK {
			t.Fatalf("cancel: %d %s", got.status, got.body)
		}
		return made.ID
	}
	want := map[int64][]string{}
	for _, company := range []int64{7, 8, 7, 8, 8, 7} {
		want[company] = append(want[company], end(company))
	}
	for company, ids := range want {
		request, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+f.address+queuePath("", "/ends?after=0"), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+tokens[company])
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", response, err)
		}
		defer response.Body.Close()
		lines := bufio.NewScanner(response.Body)
		for _, id := range ids {
			for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
			}
			if !strings.Contains(lines.Text(), id) {
				t.Errorf("company %d hears %s, want the end of %s", company, lines.Text(), id)
			}
		}
	}
}

// Only a few streams read ends at the same time, as the memory for them does not count before they are read. The others wait, unless their
// clients go.
//
//quern:overlapping
func TestFewStreamsReadAtOnce(t *testing.T) {
	t.Parallel()
	r := newRivals(t, access.Limits{})
	var made api.Submission
	r.as(r.modest, call{method: "POST", path: insertPath, body: `{"chunks":{"count":1,"prefix":"x/"}}`}).decode(t, &made)
	r.works("cancel", r.modest, call{method: "POST", path: "/v1/submissions/" + made.ID + "/cancel"})
	reading := r.server.streams.reading
	for range cap(reading) {
		reading <- struct{}{}
	}
	gone, _ := r.unread(r.modest, "GET", queuePath("", "/ends?after=0"), "")
	conn, _ := r.unread(r.modest, "GET", queuePath("", "/ends?after=0"), "")
	var free atomic.Bool
	came := make(chan bool)
	go func() {
		lines := bufio.NewScanner(conn)
		for lines.Scan() && lines.Text() != "event: "+api.EventEnd {
		}
		came <- free.Load()
	}()
	_ = gone.Close()
	for r.server.streams.count() > 1 {
		r.works("another call", r.greedy, call{method: "GET", path: queuePath("", "")})
	}
	free.Store(true)
	<-reading
	if !<-came {
		t.Error("the end came while as many streams as may were reading")
	}
}
