package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/sdk/api"
)

// broken is how long these tests wait for something that a working server does at once.
const broken = time.Minute

// rivals are a token that takes all it can get, and one that wants to work beside it.
type rivals struct {
	*fixture
	greedy, modest string
}

func newRivals(t *testing.T, limits access.Limits) *rivals {
	f := newFixtureSeeded(t, 1, func(s *Server) { s.auth.limits = limits })
	f.client.Timeout = broken
	r := &rivals{fixture: f}
	scopes := access.Produce | access.Consume | access.Read | access.Operate
	_, r.greedy = f.token(engine.TokenRequest{Name: "greedy", Scopes: scopes})
	_, r.modest = f.token(engine.TokenRequest{Name: "modest", Scopes: scopes})
	return r
}

// exhaust sends requests with the greedy token until one is refused. The refusal must name the option and say when to
// come back. exhaust returns how many were answered before.
func (r *rivals) exhaust(option string, most int, request func(i int) call) (answered int) {
	r.Helper()
	for i := range most {
		got := r.as(r.greedy, request(i))
		if got.status < 300 {
			continue
		}
		r.refused(option, got)
		return i
	}
	r.Fatalf("%d requests of one token were answered, and none refused", most)
	return most
}

func (r *rivals) refused(option string, got answer) {
	r.Helper()
	if detail := got.problem(r).Detail; got.status != 429 || got.header.Get("Retry-After") == "" || !strings.Contains(detail, option) {
		r.Fatalf("got %d %s with Retry-After %q, want 429 that names %s", got.status, got.body, got.header.Get("Retry-After"), option)
	}
}

// works fails unless the token's request is answered.
func (r *rivals) works(what, token string, c call) answer {
	r.Helper()
	got := r.as(token, c)
	if got.status >= 300 {
		r.Errorf("%s: got %d %s", what, got.status, got.body)
	}
	return got
}

func insertOf(meta string) call {
	return call{method: "POST", path: insertPath, body: `{"meta":{` + meta + `},"chunks":{"count":1,"template":"x"}}`}
}

// One token cannot fill the server with open submissions; others insert beside it, and it does again when some of its own have ended.
func TestOneTokenCannotTakeAllSubmissions(t *testing.T) {
	t.Parallel()
	r := newRivals(t, access.Limits{Submissions: 3})
	if n := r.exhaust("token-submissions", 10, func(int) call { return insertOf("") }); n != 3 {
		t.Errorf("%d inserts were answered, want 3", n)
	}
	var first, again api.Submission
	keyed := insertOf("")
	keyed.header = map[string]string{"Idempotency-Key": "k"}
	r.refused("token-submissions", r.as(r.greedy, keyed))
	var other api.Submission
	r.works("another token's insert", r.modest, insertOf("")).decode(t, &other)
	r.works("cancel", r.modestAdmin(), call{method: "POST", path: "/v1/submissions/" + string(other.ID) + "/cancel"})
	r.refused("token-submissions", r.as(r.greedy, insertOf(""))) // it was not one of its own
	held := r.reserveAll(r.greedy)
	r.works("complete", r.greedy, call{method: "POST", path: reservePath + "/complete", body: `{"items":[{"token":"` + held[0] + `"}]}`})
	r.works("an insert after one has ended", r.greedy, keyed).decode(t, &first)
	r.refused("token-submissions", r.as(r.greedy, insertOf("")))
	if r.works("the same insert once more", r.greedy, keyed).decode(t, &again); again.ID != first.ID {
		t.Errorf("a repeated insert is answered with %s, want %s", again.ID, first.ID)
	}
}

// modestAdmin is a token that may cancel.
func (r *rivals) modestAdmin() string {
	_, text := r.token(engine.TokenRequest{Name: "operator", Scopes: access.Operate})
	return text
}

// reserveAll reserves all ready chunks and returns the tokens of the reservations.
func (r *rivals) reserveAll(token string) (held []string) {
	r.Helper()
	var out api.ReserveResponse
	r.works("reserve", token, call{method: "POST", path: reservePath, body: `{"max":100}`}).decode(r, &out)
	for _, reservation := range out.Reservations {
		held = append(held, string(reservation.Token))
	}
	return held
}

// One token cannot fill the server with values of meta keys. A value that is there costs it nothing, and one counts for as long as it is there.
func TestOneTokenCannotTakeAllMetaValues(t *testing.T) {
	t.Parallel()
	r := newRivals(t, access.Limits{Values: 4})
	r.works("a value of the other token", r.modest, insertOf(`"company":7`))
	company := func(i int) call { return insertOf(fmt.Sprintf(`"company":%d,"day":1`, 10+i)) }
	if n := r.exhaust("token-meta-values", 10, company); n != 3 {
		t.Errorf("%d inserts were answered, want 3: with the day they brought 4 values", n)
	}
	r.works("its own value once more", r.greedy, insertOf(`"company":10,"day":1`))
	r.works("the value of another", r.greedy, insertOf(`"company":7`))
	r.works("another token's new value", r.modest, insertOf(`"company":99`))
	for _, token := range r.reserveAll(r.greedy) {
		r.works("complete", r.greedy, call{method: "POST", path: reservePath + "/complete", body: `{"items":[{"token":"` + token + `"}]}`})
	}
	if n := r.exhaust("token-meta-values", 10, func(i int) call { return insertOf(fmt.Sprintf(`"company":%d`, 50+i)) }); n != 4 {
		t.Errorf("%d values fit after all submissions ended, want 4", n)
	}
}

// One token cannot attach all consumers that a queue takes; others attach beside it, and one that leaves makes room.
func TestOneTokenCannotTakeAllConsumers(t *testing.T) {
	t.Parallel()
	r := newRivals(t, access.Limits{Consumers: 2})
	const consumers = "/v1/queues/default/consumers/"
	r.attach(r.greedy, "a")
	r.attach(r.greedy, "b")
	r.attach(r.greedy, "a") // once more: it is one consumer
	third := call{method: "GET", path: consumers + "c/attach"}
	r.refused("token-consumers", r.as(r.greedy, third))
	r.attach(r.modest, "d")
	r.works("detach", r.greedy, call{method: "POST", path: consumers + "b/detach"})
	r.attach(r.greedy, "c")
	r.refused("token-consumers", r.as(r.greedy, call{method: "GET", path: consumers + "b/attach"}))
}

// attach attaches a consumer until the test ends.
func (r *rivals) attach(token, name string) {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r.Cleanup(cancel)
	defer time.AfterFunc(broken, cancel).Stop()
	request, err := http.NewRequestWithContext(ctx, "GET", "http://"+r.address+"/v1/queues/default/consumers/"+name+"/attach", nil)
	if err != nil {
		r.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := new(http.Transport).RoundTrip(request)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { response.Body.Close() })
	if line, err := bufio.NewReader(response.Body).ReadString('\n'); response.StatusCode != 200 || err != nil || line != "event: hello\n" {
		r.Fatalf("attach %s: got %d %q %v", name, response.StatusCode, line, err)
	}
}

// One token cannot take all memory for views by strategies that it makes up, also not by waiting and in exchanges; another makes one beside it,
// and those of the first that are in use go on.
func TestOneTokenCannotTakeAllViews(t *testing.T) {
	t.Parallel()
	for what, request := range map[string]func(i int) call{
		"reserve": func(i int) call {
			return call{method: "POST", path: reservePath, body: fmt.Sprintf(`{"max":1,"strategy":"SelectOnly(\"company\", %d, Random)"}`, i)}
		},
		"exchange": func(i int) call {
			return call{method: "POST", path: reservePath + "/exchange", body: fmt.Sprintf(`{"reserve":{"max":1,"strategy":"SelectOnly(\"company\", %d, Random)"}}`, i)}
		},
		"explain": func(i int) call {
			return call{method: "POST", path: "/v1/queues/default/strategies/preview", body: fmt.Sprintf(`{"strategy":"SelectOnly(\"company\", %d, Random)"}`, i)}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRivals(t, access.Limits{Views: 16 << 10}) // so few that none is idle before they are exhausted
			n := r.exhaust("token-view-memory", 1000, request)
			if n < 2 {
				t.Errorf("%d strategies fit", n)
			}
			r.works("the strategy that the greedy token used a moment ago", r.greedy, request(n-1)) // the first may have been dropped as idle by now
			r.works("another token's strategy", r.modest, request(10_000))
			if views := queueAt(r.engine, "default").Views().Items; len(views) > n+3 {
				t.Errorf("%d views stand after %d strategies", len(views), n)
			}
		})
	}
}

// Large bodies of one token that are being sent leave room for those of others, and give theirs back when they end.
//
//quern:overlapping
func TestOneTokenCannotTakeAllBodies(t *testing.T) {
	t.Parallel()
	r := newRivals(t, access.Limits{Bodies: 6 << 20})
	const large = 5 << 20
	body := `{"chunks":{"inline":["` + strings.Repeat("x", 1<<20-10) + `"` + strings.Repeat(`,"`+strings.Repeat("y", 1<<20-10)+`"`, 4) + `]}}`
	insert := call{method: "POST", path: insertPath, body: body}
	connection, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", insertPath, r.greedy, len(body))
	if _, err := io.WriteString(connection, head+body[:large-1000]); err != nil {
		t.Fatal(err)
	}
	token, _ := access.ProofOf(r.greedy)
	kept, _ := r.engine.Tokens().Token(token.ID)
	r.eventually("all of the first body is held", func() bool { return kept.Bodies.Load() > int64(len(body)) })
	r.refused("token-body-memory", r.as(r.greedy, insert))
	r.works("another token's large body", r.modest, insert)
	connection.Close()
	r.eventually("nothing is held", func() bool { return kept.Bodies.Load() == 0 && r.server.bodies.held.Load() == 0 })
	r.works("a large body after that", r.greedy, insert)
}

// eventually waits until something is so.
func (f *fixture) eventually(what string, so func() bool) {
	f.Helper()
	over := time.After(broken)
	for !so() {
		select {
		case <-over:
			f.Fatalf("in %v this did not become so: %s", broken, what)
		case <-time.After(time.Millisecond):
		}
	}
}

// One token cannot take all sessions: another logs in beside it, and it does again when one of its own has ended. A login counts as a request
// of the token that it is made with.
//
//quern:overlapping
func TestOneTokenCannotTakeAllSessions(t *testing.T) {
	t.Parallel()
	r := newRivals(t, access.Limits{AtOnce: 1})
	login := func(text string) answer {
		return r.send(call{method: "POST", path: "/v1/session", body: `{"token":"` + text + `"}`})
	}
	var last answer
	opened := 0
	for last = login(r.greedy); last.status == http.StatusOK && opened < maxSessions; last = login(r.greedy) {
		opened++
	}
	if detail := last.problem(t).Detail; last.status != 429 || last.header.Get("Retry-After") == "" || !strings.Contains(detail, "session") {
		t.Errorf("after %d logins: got %d %s, want 429 that says why", opened, last.status, last.body)
	}
	cookie := r.login(r.modest)
	r.holding(cookie, "the other token's session", whoami, 200)
	r.holding(cookie, "the other logs out", call{method: "DELETE", path: "/v1/session"}, 204)
	if got := login(r.greedy); got.status != 429 {
		t.Errorf("the end of another token's session made room: got %d %s", got.status, got.body)
	}
	r.server.auth.sessions.drop(func(*session) bool { return false })
	r.login(r.greedy)

	ended := make(chan answer, 1)
	go func() {
		ended <- r.as(r.greedy, call{method: "POST", path: reservePath, body: `{"max":1,"wait_ms":60000}`})
	}()
	r.waiters(1)
	if got := login(r.greedy); got.status != 429 {
		t.Errorf("a login beside as many requests as the token may have: got %d %s, want 429", got.status, got.body)
	}
	r.server.Stop()
	<-ended
}

// One token cannot set all rules that a queue keeps: another pauses beside it, and an admin can still block. A present
// rule may be changed, and a lifted one makes room.
func TestOneTokenCannotTakeAllRules(t *testing.T) {
	t.Parallel()
	r := newRivals(t, access.Limits{Rules: 3})
	_, admin := r.token(engine.TokenRequest{Name: "boss", Scopes: access.Admin})
	const rules = "/v1/queues/default/rules"
	rule := func(action string, company int, reason string) call {
		return call{method: "POST", path: rules, body: fmt.Sprintf(`{"action":%q,"match":{"meta":{"company":%d}},"reason":%q}`, action, company, reason)}
	}
	var first api.Rule
	r.works("the first", r.greedy, rule("pause", 99, "")).decode(t, &first)
	if n := r.exhaust("rules", 10, func(i int) call { return rule("pause", i, "") }); n != 2 {
		t.Errorf("%d more rules were set, want 2", n)
	}
	r.works("another reason of one that is there", r.greedy, rule("pause", 1, "again"))
	r.works("another token's rule", r.modest, rule("pause", 50, ""))
	for company := range 5 {
		r.works("a block of an admin", admin, rule("block", company, "stop"))
	}
	r.refused("rules", r.as(r.greedy, rule("pause", 51, "")))
	r.works("lift", r.greedy, call{method: "DELETE", path: rules + "/" + first.ID})
	r.works("a rule after one was lifted", r.greedy, rule("pause", 51, ""))
}

// One token cannot have all bulk operations that a queue runs; another starts one beside it, and it does again when one of its own has ended.
func TestOneTokenCannotTakeAllBulkOperations(t *testing.T) {
	t.Parallel()
	r := newRivals(t, access.Limits{Bulks: 2})
	for range 100 { // at one a second, they run as long as this test
		r.works("insert", r.modest, insertOf(""))
	}
	slow := call{method: "POST", path: "/v1/bulk-operations", body: `{"queue":"default","action":"reprioritize","priority":1,"rate_per_second":1}`}
	var last api.BulkOperation
	r.works("the first", r.greedy, slow).decode(t, &last)
	if n := r.exhaust("bulk operations", 10, func(int) call { return slow }); n != 1 {
		t.Errorf("%d more were started, want 1", n)
	}
	r.works("another token's", r.modest, slow)
	r.refused("bulk operations", r.as(r.greedy, slow))
	r.works("cancel", r.greedy, call{method: "POST", path: "/v1/bulk-operations/" + last.ID + "/cancel"})
	r.works("one after one was cancelled", r.greedy, slow)
}

// One token cannot open all event streams; others look beside it, and one that is closed makes room.
//
//quern:overlapping
func TestOneTokenCannotTakeAllEventStreams(t *testing.T) {
	t.Parallel()
	r := newRivals(t, access.Limits{})
	open := func(token string) *http.Response {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+r.address+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	var streams []*http.Response
	last := open(r.greedy)
	for ; last.StatusCode == http.StatusOK && len(streams) < maxSubscribers; last = open(r.greedy) {
		streams = append(streams, last)
	}
	if last.StatusCode != http.StatusTooManyRequests || last.Header.Get("Retry-After") == "" {
		t.Errorf("after %d streams: got %s, want 429 with Retry-After", len(streams), last.Status)
	}
	if got := open(r.modest); got.StatusCode != http.StatusOK {
		t.Errorf("another token's stream beside %d: got %s", len(streams), got.Status)
	}
	streams[0].Body.Close()
	r.eventually("a stream that was closed makes room", func() bool { return open(r.greedy).StatusCode == http.StatusOK })
}
