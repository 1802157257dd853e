package web

import (
	"crypto/tls"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/web/certificate"
)

// login opens a session with a token, and returns the Cookie header of its requests.
func (f *fixture) login(text string) string {
	f.Helper()
	got := f.send(call{method: "POST", path: "/v1/session", body: `{"token":"` + text + `"}`})
	cookie, _, _ := strings.Cut(got.header.Get("Set-Cookie"), ";")
	if got.status != 200 || !strings.HasPrefix(cookie, sessionCookie+"=") {
		f.Fatalf("login: %d %s, cookie %q", got.status, got.body, cookie)
	}
	return cookie
}

// holding sends a request with a cookie, and wants this status.
func (f *fixture) holding(cookie, what string, c call, status int) {
	f.Helper()
	header := map[string]string{"Cookie": cookie}
	maps.Copy(header, c.header)
	c.header = header
	if got := f.send(c); got.status != status {
		f.Errorf("%s: got %d %s, want %d", what, got.status, got.body, status)
	}
}

var whoami = call{method: "GET", path: "/v1/whoami"}

// A session ends after an hour without a request, and after twelve hours in any case.
func TestSessionsAreOver(t *testing.T) {
	t.Parallel()
	f := newClocked(t)
	_, text := f.token(engine.TokenRequest{Name: "ana", Scopes: access.Read})
	idle := f.login(text)
	at := func(d time.Duration) { f.later.Store(int64(d)) }
	at(59 * time.Minute)
	f.holding(idle, "after 59 minutes", whoami, 200)
	at(118 * time.Minute)
	f.holding(idle, "59 minutes after the last request", whoami, 200)
	at(179 * time.Minute)
	f.holding(idle, "61 minutes after the last request", whoami, 401)
	at(118 * time.Minute)
	busy := f.login(text)
	for passed := time.Duration(0); passed < 12*time.Hour; passed += 50 * time.Minute {
		at(118*time.Minute + passed)
		f.holding(busy, "busy for "+passed.String(), whoami, 200)
	}
	at(118*time.Minute + 12*time.Hour + time.Second)
	f.holding(busy, "busy for more than 12 hours", whoami, 401)
}

// A user who looks at a stream is there: the session goes on for as long as the stream is open. When the session ends,
// so does the stream.
//
//quern:overlapping
func TestOpenStreamKeepsSession(t *testing.T) {
	t.Parallel()
	f := newClocked(t)
	_, text := f.token(engine.TokenRequest{Name: "ana", Scopes: access.Read})
	looking, away := f.login(text), f.login(text)
	request, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+f.address+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Cookie", looking)
	stream, err := http.DefaultClient.Do(request)
	if err != nil || stream.StatusCode != 200 {
		t.Fatalf("the stream: %v, %v", stream, err)
	}
	defer stream.Body.Close()
	for passed := 50 * time.Minute; passed < 4*time.Hour; passed += 50 * time.Minute {
		f.later.Store(int64(passed))
		f.server.auth.expel()
	}
	f.holding(away, "200 minutes without a request or a stream", whoami, 401)
	f.holding(looking, "200 minutes with a stream", whoami, 200)
	f.later.Store(int64(12*time.Hour + time.Second))
	f.server.auth.expel()
	if _, err := io.Copy(io.Discard, stream.Body); err != nil {
		t.Errorf("the stream did not end with its session: %v", err)
	}
	f.holding(looking, "after 12 hours", whoami, 401)
}

// A session ends at the logout, and with the token or the secret that opened it; the others of the same server go on.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, admin := f.token(engine.TokenRequest{Name: "boss", Scopes: access.Admin})
	for what, end := range map[string]func(id, cookie string){
		"log out": func(_, cookie string) { f.holding(cookie, "log out", call{method: "DELETE", path: "/v1/session"}, 204) },
		"revoked": func(id, _ string) { f.as(admin, call{method: "DELETE", path: "/v1/tokens/" + id}) },
		"rotated": func(id, _ string) {
			f.as(admin, call{method: "POST", path: "/v1/tokens/" + id + "/rotate", body: "{}"})
		},
	} {
		id, text := f.token(engine.TokenRequest{Name: what, Scopes: access.Read})
		cookie, boss := f.login(text), f.login(admin)
		f.holding(cookie, what+": before", whoami, 200)
		end(id, cookie)
		f.holding(cookie, what+": after", whoami, 401)
		f.holding(boss, what+": another session", whoami, 200)
	}
	id, text := f.token(engine.TokenRequest{Name: "overlap", Scopes: access.Read})
	cookie := f.login(text)
	f.as(admin, call{method: "POST", path: "/v1/tokens/" + id + "/rotate", body: `{"overlap_seconds":60}`})
	f.holding(cookie, "rotated with an overlap", whoami, 200)
}

// A cookie counts for pages of this server only, and neither stands for the other: a session's id is no token, a token no session's id.
func TestCookieIsForPagesOfThisServer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, text := f.token(engine.TokenRequest{Name: "boss", Scopes: access.Admin})
	cookie := f.login(text)
	post := func(name, value string) call {
		return call{method: "PUT", path: "/v1/queues/made", body: "{}", header: map[string]string{name: value}}
	}
	f.holding(cookie, "cross-site", post("Sec-Fetch-Site", "cross-site"), 403)
	f.holding(cookie, "same-site: another port or host", post("Sec-Fetch-Site", "same-site"), 403)
	f.holding(cookie, "a foreign origin", post("Origin", "https://evil.example"), 403)
	f.holding(cookie, "what was refused is not there", call{method: "GET", path: "/v1/queues/made"}, 404)
	f.holding(cookie, "same-origin", post("Sec-Fetch-Site", "same-origin"), 201)
	f.holding(cookie, "reading from another port", call{method: "GET", path: "/v1/whoami", header: map[string]string{"Sec-Fetch-Site": "same-site"}}, 401)
	id := strings.TrimPrefix(cookie, sessionCookie+"=")
	for _, bearer := range []string{id, "qn_" + id, text[:len("qn_")+13] + id} {
		if got := f.as(bearer, whoami); got.status != 401 {
			t.Errorf("a session's id as a token: got %d %s, want 401", got.status, got.body)
		}
	}
	for _, value := range []string{text, text[len(text)-sessionIDLength:], ""} {
		f.holding(sessionCookie+"="+value, "a token as a session's id", whoami, 401)
	}
}

// No script reads the cookie and no other site sends it; over TLS, the server's own or a proxy's, it stays on TLS.
func TestCookieAttributes(t *testing.T) {
	t.Parallel()
	files, err := certificate.SelfSigned(t.TempDir(), []string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	shown, err := certificate.Open(certificate.Options{Files: files, Now: time.Now, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	secured := newFixtureSeeded(t, 1, func(s *Server) { s.certificate = shown })
	ana := engine.TokenRequest{Name: "ana", Scopes: access.Read}
	_, text := f.token(ana)
	_, other := secured.token(ana)
	address := serveTLS(t, secured.server)
	over := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(over.CloseIdleConnections)
	for what, c := range map[string]struct {
		url, forwarded string
		client         *http.Client
		secure         bool
	}{
		"plain":             {"http://" + f.address, "", http.DefaultClient, false},
		"behind a proxy":    {"http://" + f.address, "https", http.DefaultClient, true},
		"a proxy without":   {"http://" + f.address, "http", http.DefaultClient, false},
		"the server's TLS":  {"https://" + address, "", over, true},
		"TLS and a wrong X": {"https://" + address, "http", over, true},
	} {
		for _, method := range []string{"POST", "DELETE"} {
			token := text
			if c.client == over {
				token = other
			}
			request, err := http.NewRequestWithContext(t.Context(), method, c.url+"/v1/session", strings.NewReader(`{"token":"`+token+`"}`))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", contentJSON)
			if c.forwarded != "" {
				request.Header.Set("X-Forwarded-Proto", c.forwarded)
			}
			response, err := c.client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			cookies := response.Cookies()
			if len(cookies) != 1 {
				t.Fatalf("%s, %s: %s with %d cookies, want one", what, method, response.Status, len(cookies))
			}
			got := cookies[0]
			if !got.HttpOnly || got.SameSite != http.SameSiteStrictMode || got.Secure != c.secure || got.Path != "/" || got.Domain != "" {
				t.Errorf("%s, %s: %s; want HttpOnly, SameSite=Strict, Path=/, no Domain, Secure: %v", what, method, got, c.secure)
			}
			if over := method == "DELETE"; over != (got.MaxAge < 0) || !over && got.MaxAge != int(sessionMost/time.Second) {
				t.Errorf("%s, %s: it stays for %d seconds", what, method, got.MaxAge)
			}
		}
	}
}
