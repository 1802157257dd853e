package web

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// token makes a token straight in the engine, as the first must be an admin's.
func (f *fixture) token(r engine.TokenRequest) (id, text string) {
	f.Helper()
	if !f.engine.Tokens().Table().Required() {
		if _, _, err := f.engine.Tokens().New(f.Context(), engine.TokenRequest{Name: "first", Scopes: access.Admin}); err != nil {
			f.Fatal(err)
		}
	}
	made, text, err := f.engine.Tokens().New(f.Context(), r)
	if err != nil {
		f.Fatal(err)
	}
	return string(made.ID), text
}

// clocked is a fixture whose face sees another time than the clock: later.
type clocked struct {
	*fixture
	later *atomic.Int64
}

func newClocked(t testing.TB) *clocked {
	later := new(atomic.Int64)
	f := newFixtureSeeded(t, 1, func(s *Server) {
		s.clock.now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	return &clocked{f, later}
}

// as sends a request with a token.
func (f *fixture) as(text string, c call) answer {
	f.Helper()
	header := map[string]string{"Authorization": "Bearer " + text}
	maps.Copy(header, c.header)
	c.header = header
	return f.send(c)
}

// refusal is the code of an answer that is a problem.
func (f *fixture) code(a answer) string {
	if a.header.Get("Content-Type") != contentProblem {
		return ""
	}
	return a.problem(f).Code
}

// Every operation asks for its scope: without a token it answers 401, and with another scope 403 and names the missing
// scope. It lets in each scope that it declares, and admin. It refuses before it looks at anything else.
func TestEveryOperationTakesItsScope(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := map[access.Scopes]string{}
	for _, name := range access.Names() {
		scope := access.ParseScope(name)
		_, tokens[scope] = f.token(engine.TokenRequest{Name: name, Scopes: scope})
	}
	asked := 0
	for path, methods := range f.server.operations {
		for method, op := range methods {
			c := call{method: method, path: filledIn(path, func(string) string { return "777" }), body: "{}"}
			switch {
			case method == "GET" || method == "HEAD" || method == "DELETE":
				c.body = ""
			}
			asked++
			got := f.send(c)
			if refused := got.status == 401; refused == op.public && op.id != "open-session" {
				t.Errorf("%s without a token: %d, want 401: %v", op.id, got.status, !op.public)
			}
			if got.status == 401 && got.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s without a token: no WWW-Authenticate", op.id)
			}
			if op.public || method == "HEAD" {
				continue
			}
			for scope, text := range tokens {
				got, code := f.as(text, c), ""
				if got.status >= 400 {
					code = f.code(got)
				}
				may := op.scope == access.None || scope&(op.scope|access.Admin) != 0
				if (code == "forbidden") == may || code == "unauthorized" {
					t.Errorf("%s (takes %s) with the scope %s: got %d %s, want it let in: %v", op.id, scopeText(*op), scope, got.status, code, may)
				}
				if !may {
					for _, name := range op.scope.Names() {
						if !strings.Contains(got.problem(t).Detail, name) {
							t.Errorf("%s with the scope %s: %q does not name %s", op.id, scope, got.problem(t).Detail, name)
						}
					}
				}
			}
		}
	}
	if asked < 90 {
		t.Errorf("asked %d operations; there are more", asked)
	}
}

// Every operation but those that need no token declares a scope, and only whoami is for any.
func TestEveryOperationDeclaresItsScope(t *testing.T) {
	t.Parallel()
	var public, any []string
	for _, methods := range bareServer(t).operations {
		for method, op := range methods {
			switch {
			case method == "HEAD":
			case op.public:
				public = append(public, op.id)
			case op.scope == access.None:
				any = append(any, op.id)
			}
		}
	}
	slices.Sort(public)
	if want := []string{"close-session", "dashboard", "dashboard-asset", "livez", "open-session", "readyz"}; !slices.Equal(public, want) {
		t.Errorf("operations without a token: got %v, want %v", public, want)
	}
	if want := []string{"whoami"}; !slices.Equal(any, want) {
		t.Errorf("operations for any token: got %v, want %v", any, want)
	}
}

// A request without a good token is refused before its body is read.
func TestRefusedBeforeTheBody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.token(engine.TokenRequest{Name: "x", Scopes: access.Read})
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60000000\r\n\r\n{", insertPath)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != 401 {
		t.Errorf("got %v, %v; want 401 with most of the body still to come", response, err)
	}
}

// A token with consume or operate may pause; only admin blocks and lifts blocks. A block counts before a pause, and stays when
// the pause is lifted.
func TestOnlyAdminBlocks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, consume := f.token(engine.TokenRequest{Name: "worker", Scopes: access.Consume})
	_, operate := f.token(engine.TokenRequest{Name: "operator", Scopes: access.Operate})
	_, both := f.token(engine.TokenRequest{Name: "all but admin", Scopes: access.All &^ access.Admin})
	_, admin := f.token(engine.TokenRequest{Name: "boss", Scopes: access.Admin})
	const path = "/v1/queues/default/rules"
	rule := func(text, action string, status int) api.Rule {
		t.Helper()
		var out api.Rule
		got := f.as(text, call{method: "POST", path: path, body: `{"action":"` + action + `","match":{"queue":true},"reason":"why"}`})
		if got.status != status {
			t.Fatalf("%s: got %d, want %d: %s", action, got.status, status, got.body)
		}
		if status < 300 {
			got.decode(t, &out)
		}
		return out
	}
	lift := func(text string, r api.Rule, status int) {
		t.Helper()
		if got := f.as(text, call{method: "DELETE", path: path + "/" + r.ID}); got.status != status {
			t.Errorf("lift %s: got %d, want %d: %s", r.Action, got.status, status, got.body)
		}
	}
	for _, text := range []string{consume, operate, both, admin} {
		lift(text, rule(text, "pause", 201), 204)
	}
	for _, text := range []string{consume, operate, both} {
		rule(text, "block", 403)
	}
	if got := f.as(admin, call{method: "GET", path: path}); strings.Contains(string(got.body), "block") {
		t.Errorf("a refused block is there: %s", got.body)
	}
	block := rule(admin, "block", 201)
	pause := rule(consume, "pause", 201)
	f.as(admin, call{method: "POST", path: insertPath, body: `{"chunks":{"count":1,"prefix":"x/"}}`})
	reserved := func(want string) {
		t.Helper()
		got := f.as(consume, call{method: "POST", path: reservePath, body: `{"max":1}`})
		if !strings.Contains(string(got.body), want) {
			t.Errorf("reserve: got %s, want %s in it", got.body, want)
		}
	}
	reserved(`"reservations":[]`)
	for _, text := range []string{consume, operate, both} {
		lift(text, block, 403)
	}
	lift(consume, pause, 204)
	reserved(`"reservations":[]`)
	pause = rule(consume, "pause", 201)
	lift(admin, block, 204)
	reserved(`"reason":"paused"`)
	lift(operate, pause, 204)
	reserved(`"index":0`)
	lift(consume, block, 204) // it has ended: nothing changes, and the answer is the same for all
}

// A token that is revoked, rotated or over ends the long polls, streams and sessions that use it. Those of other tokens
// go on.
//
//quern:overlapping
func TestWhatWaitsEndsWithItsToken(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(f *clocked, id string){
		"revoked": func(f *clocked, id string) {
			_, admin := f.token(engine.TokenRequest{Name: "boss", Scopes: access.Admin})
			if got := f.as(admin, call{method: "DELETE", path: "/v1/tokens/" + id}); got.status != 204 {
				f.Errorf("revoke: %d %s", got.status, got.body)
			}
		},
		"rotated": func(f *clocked, id string) {
			_, admin := f.token(engine.TokenRequest{Name: "boss", Scopes: access.Admin})
			if got := f.as(admin, call{method: "POST", path: "/v1/tokens/" + id + "/rotate", body: "{}"}); got.status != 200 {
				f.Errorf("rotate: %d %s", got.status, got.body)
			}
		},
		"over": func(f *clocked, id string) {
			f.later.Store(int64(2 * time.Hour))
			f.server.auth.expel()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newClocked(t)
			id, text := f.token(engine.TokenRequest{Name: "short", Scopes: access.Read | access.Consume, Expires: queue.At(time.Now().Add(time.Hour))})
			_, other := f.token(engine.TokenRequest{Name: "other", Scopes: access.Read | access.Consume})
			type opened struct {
				what     string
				response *http.Response
			}
			var streams []opened
			for _, path := range []string{"/v1/events", "/v1/queues/default/consumers/c1/attach"} {
				request, _ := http.NewRequest("GET", "http://"+f.address+path, nil)
				request.Header.Set("Authorization", "Bearer "+text)
				response, err := http.DefaultClient.Do(request)
				if err != nil || response.StatusCode != 200 {
					t.Fatalf("%s: %v, %v", path, response, err)
				}
				defer response.Body.Close()
				streams = append(streams, opened{path, response})
			}
			answers := make(chan answer, 2)
			for _, with := range []string{text, other} {
				go func() {
					answers <- f.as(with, call{method: "POST", path: reservePath, body: `{"max":1,"wait_ms":60000}`})
				}()
			}
			f.waiters(2)
			end(f, id)
			for _, s := range streams {
				if _, err := io.Copy(io.Discard, s.response.Body); err != nil {
					t.Errorf("%s: %v", s.what, err)
				}
			}
			if got := <-answers; got.status != 401 {
				t.Errorf("the long poll answered %d %s, want 401", got.status, got.body)
			}
			if name == "over" {
				f.server.Stop()
			} else {
				_, admin := f.token(engine.TokenRequest{Name: "producer", Scopes: access.Produce})
				f.as(admin, call{method: "POST", path: insertPath, body: `{"chunks":{"count":1,"prefix":"x/"}}`})
			}
			if got := <-answers; got.status != 200 {
				t.Errorf("the other's long poll answered %d %s, want 200", got.status, got.body)
			}
		})
	}
}

// An act is recorded under the token's name, even if the request names another actor. Without tokens, the actor is the
// one that the request names.
func TestActorIsTheToken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const rule = `{"action":"pause","match":{"meta":{"k":%d}},"actor":"eve"}`
	var got api.Rule
	f.do("POST", "/v1/queues/default/rules", fmt.Sprintf(rule, 1), 201, &got)
	if got.Actor != "eve" {
		t.Errorf("without tokens: actor %q, want what the request says", got.Actor)
	}
	_, text := f.token(engine.TokenRequest{Name: "ops desk", Scopes: access.Operate | access.Read})
	check := func(what string, c call, status int, field string) {
		t.Helper()
		a := f.as(text, c)
		if a.status != status || field != "" && !strings.Contains(string(a.body), `"`+field+`":"ops desk"`) || strings.Contains(string(a.body), "eve") {
			t.Errorf("%s: got %d %s; want %d with %s the token's name", what, a.status, a.body, status, field)
		}
	}
	check("rule", call{method: "POST", path: "/v1/queues/default/rules", body: fmt.Sprintf(rule, 2)}, 201, "actor")
	check("lift", call{method: "DELETE", path: "/v1/queues/default/rules/2?actor=eve"}, 204, "")
	if a := f.as(text, call{method: "GET", path: "/v1/queues/default/rules?state=ended"}); !strings.Contains(string(a.body), `"lifted_by":"ops desk"`) {
		t.Errorf("lifted: %s", a.body)
	}
	const bulk = `{"action":"retry","queue":"default","filter":{},"actor":"eve"}`
	check("bulk", call{method: "POST", path: "/v1/bulk-operations", body: bulk}, 202, "actor")
	for _, wrong := range []string{strings.Repeat("x", 129), "\xff"} {
		if a := f.as(text, call{method: "GET", path: "/v1/queues", header: map[string]string{headerOnBehalfOf: wrong}}); a.status != 422 {
			t.Errorf("%s: %q: got %d, want a refusal", headerOnBehalfOf, wrong, a.status)
		}
	}
	check("on behalf of", call{method: "POST", path: "/v1/queues/default/rules", body: fmt.Sprintf(rule, 3), header: map[string]string{headerOnBehalfOf: "adam"}}, 201, "actor")
	if log := f.log.String(); !strings.Contains(log, `actor="ops desk" on_behalf_of=adam`) {
		t.Error("the log does not say who acted on whose behalf")
	}
}

// A token that asks for more than one may is answered 429 with Retry-After, and the others are not.
//
//quern:overlapping
func TestOneTokenCannotTakeAll(t *testing.T) {
	t.Parallel()
	f := newFixtureSeeded(t, 1, func(s *Server) {
		s.auth.limits = access.Limits{PerSecond: 5, AtOnce: 2}
		at := time.Now()
		s.clock.now = func() time.Time { return at } // nothing is earned while the test runs
	})
	_, greedy := f.token(engine.TokenRequest{Name: "greedy", Scopes: access.Consume | access.Read})
	_, modest := f.token(engine.TokenRequest{Name: "modest", Scopes: access.Consume | access.Read})
	parked := make(chan answer, 2)
	for range 2 {
		go func() {
			parked <- f.as(greedy, call{method: "POST", path: reservePath, body: `{"max":1,"wait_ms":60000}`})
		}()
	}
	f.waiters(2)
	refused := func(what string) {
		t.Helper()
		if got := f.as(greedy, call{method: "GET", path: "/v1/queues"}); got.status != 429 || got.header.Get("Retry-After") == "" {
			t.Errorf("%s: got %d %s, want 429 with Retry-After", what, got.status, got.body)
		}
	}
	refused("a third at once")
	f.server.Stop()
	for range 2 {
		<-parked
	}
	for range 8 { // with the two that waited, twice five
		if got := f.as(greedy, call{method: "GET", path: "/v1/queues"}); got.status != 200 {
			t.Fatalf("within the burst: got %d %s", got.status, got.body)
		}
	}
	refused("after the burst")
	if got := f.as(modest, call{method: "GET", path: "/v1/queues"}); got.status != 200 {
		t.Errorf("another token: got %d %s", got.status, got.body)
	}
}

// misspelt is a token with another letter: not one of the last, of which not all bits count.
func misspelt(token string) string {
	text := []byte(token)
	if at := len(text) - 6; text[at] != 'a' {
		text[at] = 'a'
	} else {
		text[at] = 'b'
	}
	return string(text)
}

// Senders of wrong tokens from one address have to wait after a while; good tokens from there are let in.
func TestWrongTokensAreSlow(t *testing.T) {
	t.Parallel()
	f := newFixtureSeeded(t, 1, func(s *Server) {
		at := time.Now()
		s.clock.now = func() time.Time { return at }
	})
	_, good := f.token(engine.TokenRequest{Name: "good", Scopes: access.Read})
	wrong := misspelt(good)
	for i := range 40 {
		want := 401
		if i >= 30 {
			want = 429
		}
		c := call{method: "GET", path: "/v1/queues", header: map[string]string{"Authorization": "Bearer " + wrong}}
		if i%2 == 1 {
			c = call{method: "POST", path: "/v1/session", body: `{"token":"` + wrong + `"}`}
		}
		if got := f.send(c); got.status != want || want == 429 && got.header.Get("Retry-After") == "" {
			t.Fatalf("wrong token %d: got %d %s, want %d", i, got.status, got.body, want)
		}
	}
	if got := f.as(good, call{method: "GET", path: "/v1/queues"}); got.status != 200 {
		t.Errorf("a good token from there: got %d %s", got.status, got.body)
	}
}

// A guess is answered and counted alike whatever is wrong with it: an unknown id, a wrong secret, a token that is over, was revoked or rotated
// away. After a burst of them, of any mix, their sender has to wait.
func TestGuessesAreAlike(t *testing.T) {
	t.Parallel()
	f := newFixtureSeeded(t, 1, func(s *Server) {
		at := time.Now().Add(time.Hour)
		s.clock.now = func() time.Time { return at }
	})
	_, admin := f.token(engine.TokenRequest{Name: "boss", Scopes: access.Admin})
	make := func(name string, expires queue.Time) (id, text string) {
		return f.token(engine.TokenRequest{Name: name, Scopes: access.Read, Expires: expires})
	}
	_, good := make("good", 0)
	_, over := make("over", queue.At(time.Now().Add(time.Minute)))
	revokedID, revoked := make("revoked", 0)
	rotatedID, rotated := make("rotated", 0)
	f.as(admin, call{method: "DELETE", path: "/v1/tokens/" + revokedID})
	if got := f.as(admin, call{method: "POST", path: "/v1/tokens/" + rotatedID + "/rotate", body: "{}"}); got.status != 200 {
		t.Fatalf("rotate: %d %s", got.status, got.body)
	}
	unknown := "qn_" + strings.Repeat("a", 12) + good[15:]
	guesses := []string{unknown, misspelt(good), over, revoked, rotated}
	var first string
	for i := range 8 * len(guesses) {
		want := 401
		if i >= 30 {
			want = 429
		}
		got := f.as(guesses[i%len(guesses)], call{method: "GET", path: "/v1/queues", header: map[string]string{headerRequestID: "same"}})
		if got.status != want {
			t.Fatalf("guess %d, of kind %d: got %d %s, want %d", i, i%len(guesses), got.status, got.body, want)
		}
		got.header.Del("Date")
		shown := fmt.Sprint(got.header, string(got.body))
		if i == 0 || i == 30 {
			first = shown
		}
		if shown != first {
			t.Errorf("guess %d, of kind %d, is answered\n%s\nand the first\n%s", i, i%len(guesses), shown, first)
		}
	}
}

// No secret reaches the log, an answer to another caller, a metric, or a trace: tokens of every kind are used, well and badly, and then looked for.
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	f, traces := traced(t)
	_, admin := f.token(engine.TokenRequest{Name: "boss", Scopes: access.Admin})
	id, text := f.token(engine.TokenRequest{Name: "canary", Scopes: access.Read})
	f.as(text, call{method: "GET", path: "/v1/queues"})
	f.as(text, call{method: "POST", path: insertPath, body: "{"})
	f.as(text+"x", call{method: "GET", path: "/v1/queues/" + text})
	f.send(call{method: "GET", path: "/v1/queues?token=" + text, header: map[string]string{"Authorization": text}})
	for _, by := range []string{admin, text} { // it stands where its id should
		f.as(by, call{method: "DELETE", path: "/v1/tokens/" + text})
		f.as(by, call{method: "PUT", path: "/v1/queues/" + text, body: "{}"})
		f.as(by, call{method: "PUT", path: "/v1/queues/default/strategies/" + text, body: `{"strategy":"Random"}`})
		f.as(by, call{method: "POST", path: "/v1/queues/" + text + "/submissions", body: `{"chunks":{"count":1,"prefix":"x"}}`})
		f.as(by, call{method: "POST", path: "/v1/queues/" + text + "/consumers/" + text + "/drain"})
	}
	opened := f.send(call{method: "POST", path: "/v1/session", body: `{"token":"` + text + `"}`})
	cookie, _, _ := strings.Cut(strings.TrimPrefix(opened.header.Get("Set-Cookie"), sessionCookie+"="), ";")
	if got := f.send(call{method: "GET", path: "/v1/whoami", header: map[string]string{"Cookie": sessionCookie + "=" + cookie}}); got.status != 200 || cookie == "" {
		t.Fatalf("the session: %d %s", got.status, got.body)
	}
	var shown strings.Builder
	for _, path := range []string{"/v1/tokens", "/v1/tokens/" + id, "/metrics", "/v1/config", "/v1/audit", "/v1/whoami"} {
		got := f.as(admin, call{method: "GET", path: path})
		shown.Write(got.body)
	}
	shown.WriteString(f.log.String())
	spans := traces()
	if len(spans) == 0 {
		t.Error("no request was traced: that shows nothing of traces")
	}
	fmt.Fprintf(&shown, "%+v", spans)
	for what, secret := range map[string]string{"token": text[len("qn_")+12:], "cookie": cookie, "admin's token": admin[len("qn_")+12:]} {
		if strings.Contains(shown.String(), secret) {
			at := strings.Index(shown.String(), secret)
			t.Errorf("the %s is shown: %s", what, shown.String()[max(0, at-200):at+len(secret)])
		}
	}
}
