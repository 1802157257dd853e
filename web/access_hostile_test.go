package web

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
)

// attempt has the bytes that go over the wire, and the status of the first answer. No answer on the connection may be a
// success.
type attempt struct {
	name, request string
	status        int
}

// hostiles are the parts of requests: a token that is good for all, one that may only read, and tokens and cookies of
// open sessions and of none.
type hostiles struct {
	good, reader, foreign string // tokens
	cookie, foreignCookie string // session=value
	loggedOut, ended      string
}

// raw is a request with these header lines; Host is localhost unless one of them says otherwise.
func raw(line string, head ...string) string {
	hosted := false
	for _, h := range head {
		hosted = hosted || strings.HasPrefix(strings.ToLower(h), "host")
	}
	if !hosted {
		head = append([]string{"Host: localhost"}, head...)
	}
	if !strings.HasSuffix(line, "HTTP/1.0") && !strings.Contains(line, " HTTP/") {
		line += " HTTP/1.1"
	}
	return line + "\r\n" + strings.Join(head, "\r\n") + "\r\n\r\n"
}

const getQueues, toQueues = "GET /v1/queues", "/v1/queues HTTP/1.1\r\nHost: localhost\r\n"

// misplaced have a good token, but not where one belongs, or something beside it.
func (h *hostiles) misplaced() (list []attempt) {
	bearer, basic := "Bearer "+h.good, base64.StdEncoding.EncodeToString
	for _, head := range []string{
		"X-Api-Key: " + h.good, "Api-Key: " + h.good, "X-Auth-Token: " + h.good, "X-Access-Token: " + h.good, "Quern-Token: " + h.good, "Token: " + h.good, "X-Token: " + bearer,
		"Authentication: " + bearer, "Authorisation: " + bearer, "X-Forwarded-Authorization: " + bearer, "X-Original-Authorization: " + bearer, "Authorization_: " + bearer, "HTTP_AUTHORIZATION: " + bearer,
		"Cookie: Authorization=" + bearer, "Cookie: access_token=" + h.good, "Sec-WebSocket-Protocol: bearer, " + h.good, "X-Client-Certificate: CN=admin", "X-SSL-Client-S-DN: CN=admin", "X-Remote-User: admin", "Quern-On-Behalf-Of: admin",
		"Authorization: Basic " + basic([]byte("admin:"+h.good)), "Authorization: Basic " + basic([]byte(h.good+":")), "Authorization: Bearer " + basic([]byte(h.good)), "Authorization: Negotiate " + h.good,
		"Authorization: Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.", "Authorization: Bearer token=" + h.good, "Authorization: " + bearer + "; realm=x", "Authorization: " + bearer + " " + h.good, "Authorization: Bearer <" + h.good + ">",
		"Authorization: " + bearer + "\u200b", "Authorization: Bearer \ufeff" + h.good, "Authorization: Bearer\u00a0" + h.good, "Authorization: Bearer " + strings.Replace(h.good, "a", "\u0430", 1) + "\u0430", "Authorization: Bearer \uff51\uff4e" + h.good[2:],
		"Authorization: B\u0435arer " + h.good, "Authorization: Bearer " + h.foreign, "Authorization: Bearer " + h.ended, "Authorization: " + bearer + "\r\nauthorization: " + bearer, "Authorization: " + bearer + "\r\nAUTHORIZATION: Bearer",
		"Authorization: \r\nAuthorization: " + bearer, "Authorization: Bearer " + h.foreign + "\r\nAuthorization: " + bearer,
	} {
		list = append(list, attempt{"misplaced: " + head, raw(getQueues, head), 401})
	}
	for _, query := range []string{"api_key=" + h.good, "bearer_token=" + h.good, "auth=" + bearer[:6] + "+" + h.good, "session=" + h.cookie, "Authorization:Bearer%20" + h.good, "%0d%0aAuthorization:%20Bearer%20" + h.good} {
		list = append(list, attempt{"in the query: " + query, raw(getQueues + "?" + query), 401})
	}
	for name, bad := range map[string]string{
		"space before the colon": "Authorization : " + bearer, "no colon": "Authorization " + bearer, "NUL in the name": "Author\x00ization: " + bearer, "NUL in the value": "Authorization: Be\x00arer " + h.good,
		"bare CR": "X: y\rAuthorization: " + bearer, "empty name": ": " + bearer, "DEL": "Authorization: " + bearer + "\x7f", "escape": "Authorization: \x1b[0m" + bearer,
	} {
		list = append(list, attempt{name, raw(getQueues, bad), 400})
	}
	return append(list,
		attempt{"in the path", raw("GET /v1/queues/" + h.good), 401},
		attempt{"in the user of an absolute address", raw("GET http://" + h.good + "@localhost/v1/queues"), 401},
		attempt{"in the password of an absolute address", raw("GET http://admin:" + h.good + "@localhost/v1/queues"), 401},
		attempt{"in the body", "GET " + toQueues + "Content-Length: " + fmt.Sprint(len(h.good)) + "\r\n\r\n" + h.good, 401},
		attempt{"in a trailer", "POST " + toQueues + "Transfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n0\r\nAuthorization: " + bearer + "\r\n\r\n", 405},
		attempt{"in a trailer of an operation", raw("POST "+reservePath, "Content-Type: application/json", "Transfer-Encoding: chunked", "Trailer: Authorization") + "9\r\n{\"max\":1}\r\n0\r\nAuthorization: " + bearer + "\r\n\r\n", 401},
	)
}

// cookies are of other servers, of ended sessions, or disagree with the header, which counts.
func (h *hostiles) cookies() []attempt {
	name, value, _ := strings.Cut(h.cookie, "=")
	get := func(what string, status int, head ...string) attempt {
		return attempt{"cookie " + what, raw(getQueues, head...), status}
	}
	post := func(what string, status int, head ...string) attempt {
		return attempt{"cookie " + what, raw("POST "+reservePath, append(head, "Content-Type: application/json", "Content-Length: 9")...) + `{"max":1}`, status}
	}
	return []attempt{
		get("of another server", 401, "Cookie: "+h.foreignCookie), get("that was logged out", 401, "Cookie: "+h.loggedOut), get("of another product", 401, "Cookie: JSESSIONID="+value), get("without a value", 401, "Cookie: "+name+"="),
		get("of another case", 401, "Cookie: "+strings.ToUpper(h.cookie)), get("cut off", 401, "Cookie: "+h.cookie[:len(h.cookie)-1]), get("with one more", 401, "Cookie: "+h.cookie+"a"), get("with the token", 401, "Cookie: "+name+"=Bearer "+h.good),
		get("as a prefix", 401, "Cookie: __Host-"+h.cookie), get("wrong one first", 401, "Cookie: "+name+"=x; "+h.cookie), get("and a wrong token", 401, "Cookie: "+h.cookie, "Authorization: Bearer "+h.foreign),
		get("and a revoked token", 401, "Cookie: "+h.cookie, "Authorization: Bearer "+h.ended), get("and another scheme", 401, "Cookie: "+h.cookie, "Authorization: Basic eDp5"), get("and an empty header", 401, "Cookie: "+h.cookie, "Authorization:"),
		get("from another site", 401, "Cookie: "+h.cookie, "Sec-Fetch-Site: cross-site"), get("from the same site only", 401, "Cookie: "+h.cookie, "Sec-Fetch-Site: same-site"), get("in Set-Cookie", 401, "Set-Cookie: "+h.cookie), get("in Cookie2", 401, "Cookie2: "+h.cookie),
		post("of a post from another site", 403, "Cookie: "+h.cookie, "Sec-Fetch-Site: cross-site"), post("of a post of another origin", 403, "Cookie: "+h.cookie, "Origin: https://evil.example"), post("of a post of no origin", 403, "Cookie: "+h.cookie, "Origin: null"),
		post("of a post of another port", 403, "Cookie: "+h.cookie, "Origin: http://localhost:1"), post("of a form", 415, "Cookie: "+h.cookie, "Content-Type: application/x-www-form-urlencoded"),
	}
}

// paths ask without a token, with paths written in many ways. A path that the server does not have gets 404, even if it
// looks like another one. Every path that leads to an operation needs a token.
func (h *hostiles) paths() (list []attempt) {
	for status, targets := range map[int][]string{
		404: {
			"//v1/queues", "/v1//queues", "/v1/queues/", "/v1/queues//", "/./v1/queues", "/v1/./queues", "/v1/../v1/queues", "/livez/../v1/queues",
			"/assets/../v1/queues", "/assets/..%2fv1%2fqueues", "/livez%2f..%2fv1/queues", "/livez/%2e%2e/v1/queues", "/%76%31/queues", "/v1%2fqueues", "/v1/queues%2f", "/v1/queues/%2e%2e/%2e%2e/livez",
			"/livez;/v1/queues", "/v1/queues;.css", "/v1/queues%00", "/v1/queues%00.css", "/v1/queues%20", "/v1/queues%0d%0a", "/v1/queues.", "/v1/queues.json",
			"/V1/QUEUES", "/v1/queues/default/stats/", "/\\v1\\queues", "/v1\\queues", "/v1/queues/default/reservations/../../../livez", "/debug/pprof/", "/debug/vars", "/.git/config",
			"/etc/passwd", "/admin-token", "/assets/../../admin-token", "/assets/..%2f..%2fadmin-token", "/assets/%2e%2e/%2e%2e/admin-token", "/assets/", "/server-status", "/metrics/",
		},
		401: {
			"/v1/queues/default%2fstats", "/v1/queues/default%252fstats", "/v1/queues/..%2f..%2flivez", "/v1/queues/default;livez", "/v1/queues?/livez", "/v1/queues/%ff", "/v1/queues/%c0%ae%c0%ae", "/v1/queues/d%65fault",
			"/metrics", "/openapi.json", "/docs",
		},
	} {
		for _, target := range targets {
			list = append(list, attempt{"path " + target, raw("GET " + target), status})
		}
	}
	return list
}

// hosts come with a good token, and are refused for the server that they name.
func (h *hostiles) hosts() (list []attempt) {
	authorized := "Authorization: Bearer " + h.good
	for status, names := range map[int][]string{
		421: {"evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "0.0.0.0", "[::]", "localhost%00.evil.example", "2130706433", "xn--lcalhost-7fb", "127.1", "localhost,evil.example", "localhost:7700:80", ""},
		400: {"localhost@evil.example", "localhost/evil", "localhost\r\n .evil.example"},
	} {
		for _, host := range names {
			list = append(list, attempt{"host " + host, raw(getQueues, "Host: "+host, authorized), status})
		}
	}
	return append(list,
		attempt{"absolute address of another", raw("GET http://evil.example/v1/queues", authorized), 421},
		attempt{"absolute address of another over TLS", raw("GET https://evil.example/v1/queues", authorized), 421},
		attempt{"forwarded for another", raw(getQueues, "Host: evil.example", "X-Forwarded-Host: localhost", "Forwarded: host=localhost", authorized), 421},
		attempt{"two hosts", raw(getQueues, "Host: localhost", "Host: evil.example", authorized), 400},
		attempt{"no host", "GET /v1/queues HTTP/1.1\r\n" + authorized + "\r\n\r\n", 400},
	)
}

// methods and versions that are not what they say.
func (h *hostiles) methods() []attempt {
	reader := "Authorization: Bearer " + h.reader
	return []attempt{
		{"TRACE", raw("TRACE /v1/queues", "Authorization: Bearer "+h.good), 405}, {"CONNECT", raw("CONNECT localhost:80", "Authorization: Bearer "+h.good), 404}, {"OPTIONS *", raw("OPTIONS *", "Host: evil.example"), 421},
		{"PROPFIND", raw("PROPFIND /v1/queues", reader), 405}, {"lower case", raw("get /v1/queues", reader), 405}, {"HEAD", raw("HEAD /v1/queues"), 401}, {"no method", raw(" /v1/queues"), 400}, {"a method of symbols", raw("(GET) /v1/queues"), 400},
		{"override of a probe", raw("POST /livez", "X-HTTP-Method-Override: GET"), 405}, {"override by a query", raw("GET /v1/queues?_method=DELETE", reader), 422}, {"override to a read", raw("DELETE /v1/queues/x", "X-HTTP-Method-Override: GET", reader), 403},
		{"rewritten to a probe", raw("DELETE /v1/queues/x", "X-Original-URL: /livez", "X-Rewrite-URL: /livez", reader), 403}, {"a subrequest", raw(getQueues, "X-Middleware-Subrequest: middleware", "X-Original-Method: OPTIONS"), 401},
		{"HTTP/1.0", raw("GET /v1/queues HTTP/1.0"), 401}, {"HTTP/1.0 kept alive", raw("GET /v1/queues HTTP/1.0", "Connection: keep-alive"), 401}, {"HTTP/2.0", raw("GET /v1/queues HTTP/2.0"), 505}, {"HTTP/3.0", raw("GET /v1/queues HTTP/3.0"), 505}, {"HTTP/1.10", raw("GET /v1/queues HTTP/1.10"), 400}, {"ICY", raw("GET /v1/queues ICY/1.1"), 400},
		{"preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 421}, {"upgrade to h2c", raw(getQueues, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"), 401}, {"upgrade to a web socket", raw(getQueues, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: eA==", "Sec-WebSocket-Version: 13"), 401},
		{"a probe of the loopback", raw(getQueues, "X-Forwarded-For: 127.0.0.1", "X-Real-IP: 127.0.0.1", "True-Client-IP: ::1"), 401}, {"TLS to a plain port", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 64) + "\r\n\r\n", 400},
		{"a long line", raw("GET /v1/queues?" + strings.Repeat("a", 2<<20)), 431}, {"a long token", raw(getQueues, "Authorization: Bearer qn_"+strings.Repeat("a", 2<<20)), 431}, {"many headers", raw(getQueues, strings.Repeat("X-Y: "+strings.Repeat("z", 100)+"\r\n", 20_000)+"X-Z: 1"), 431},
		{"a token of some length", raw(getQueues, "Authorization: Bearer qn_"+strings.Repeat("a", 10_000)), 401},
	}
}

// smuggled requests have lengths that do not agree, with another request behind the body that one reader sees. The
// first has a good token, and is refused for its lengths.
func (h *hostiles) smuggled() (list []attempt) {
	authorized := "Authorization: Bearer " + h.good
	inner := raw("DELETE /v1/queues/precious", authorized)
	for status, heads := range map[int]map[string]string{
		400: {
			"two lengths": "Content-Length: 9\r\nContent-Length: 0", "a list of lengths": "Content-Length: 9, 0", "a sign": "Content-Length: +9", "less than nothing": "Content-Length: -9", "hexadecimal": "Content-Length: 0x9", "a fraction": "Content-Length: 9.0",
			"too many": "Content-Length: 99999999999999999999", "a space in the name": "Content-Length : 9", "a vertical tab": "Transfer-Encoding: \x0bchunked", "a space before": "Transfer-Encoding : chunked",
		},
		501: {
			"an unknown coding": "Transfer-Encoding: xchunked", "chunked twice": "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "chunked and more": "Transfer-Encoding: chunked, identity", "gzip": "Transfer-Encoding: gzip, chunked",
		},
	} {
		for name, head := range heads {
			list = append(list, attempt{"length: " + name, raw("POST "+reservePath, authorized, "Content-Type: application/json", head) + `{"max":1}` + inner, status})
		}
	}
	for name, body := range map[string]string{
		"size of letters": "zz\r\n{\"max\":1}\r\n0\r\n\r\n", "size with a sign": "-9\r\n{\"max\":1}\r\n0\r\n\r\n", "size with 0x": "0x9\r\n{\"max\":1}\r\n0\r\n\r\n", "size of 17 digits": "fffffffffffffffff\r\n{\"max\":1}\r\n0\r\n\r\n", "no end of a chunk": "9\r\n{\"max\":1}0\r\n\r\n", "too short": "3\r\n{\"max\":1}\r\n0\r\n\r\n",
	} {
		list = append(list, attempt{"chunks: " + name, raw("POST "+reservePath, authorized, "Content-Type: application/json", "Transfer-Encoding: chunked") + body + inner, 400})
	}
	return append(list,
		attempt{"a request in the body of a refused one", raw("POST "+reservePath, "Content-Type: application/json", fmt.Sprint("Content-Length: ", len(inner))) + inner, 401},
		attempt{"a request in the body of a read", raw(getQueues, fmt.Sprint("Content-Length: ", len(inner))) + inner, 401},
		attempt{"a body that never ends", raw("POST "+reservePath, "Content-Type: application/json", "Transfer-Encoding: chunked") + "fffffff\r\n", 401},
		attempt{"a body that waits to be asked for", raw("POST "+reservePath, "Content-Type: application/json", "Content-Length: 9", "Expect: 100-continue"), 401},
	)
}

// over sends a request as it is and reads all answers of the connection.
func (f *fixture) over(request string) (statuses []int, all string) {
	f.Helper()
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		f.Fatal(err)
	}
	defer conn.Close()
	go func() {
		_, _ = io.WriteString(conn, request)
		_ = conn.(*net.TCPConn).CloseWrite() // no more requests: the server answers those that it has, and closes
	}()
	in := bufio.NewReader(conn)
	var text strings.Builder
	for {
		response, err := http.ReadResponse(in, nil)
		if err != nil {
			return statuses, text.String()
		}
		statuses = append(statuses, response.StatusCode)
		_ = response.Header.Write(&text)
		if _, err := io.Copy(&text, response.Body); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return statuses, text.String()
		}
	}
}

// Requests that are forged, misplaced, smuggled or not HTTP are refused each with its status, and no answer shows or changes anything.
func TestHostileRequestsAreRefused(t *testing.T) {
	t.Parallel()
	patient := func(s *Server) {
		var asked atomic.Int64
		start := time.Now()
		s.clock.now = func() time.Time { return start.Add(time.Duration(asked.Add(1)) * 2 * time.Second) } // no caller has to wait
	}
	f, other := newFixtureSeeded(t, 1, patient), newFixtureSeeded(t, 2)
	f.do("PUT", "/v1/queues/precious", `{}`, 201, nil)
	h := f.arm(other)
	cases := 0
	for _, list := range [][]attempt{h.misplaced(), h.cookies(), h.paths(), h.hosts(), h.methods(), h.smuggled()} {
		for _, c := range list {
			cases++
			statuses, all := f.over(c.request)
			if len(statuses) == 0 || statuses[0] != c.status {
				t.Errorf("%.80q: got %v, want %d first: %.300s", c.name, statuses, c.status, all)
			}
			for _, status := range statuses {
				if status < 400 {
					t.Errorf("%.80q: an answer of %d: %.300s", c.name, status, all)
				}
			}
			for _, secret := range []string{h.good[15:], h.reader[15:], h.cookie[len(sessionCookie)+1:], "precious", "goroutine ", ".go:"} {
				if strings.Contains(all, secret) {
					t.Errorf("%.80q: the answer shows %.20s: %s", c.name, secret, all)
				}
			}
		}
	}
	preflight := raw("OPTIONS /v1/queues", "Origin: https://evil.example", "Access-Control-Request-Method: DELETE", "Access-Control-Request-Headers: authorization")
	if statuses, all := f.over(preflight); len(statuses) != 1 || strings.Contains(all, "Access-Control-") {
		t.Errorf("a preflight of another origin: %v %s, want nothing allowed to it", statuses, all)
	}
	if got := f.as(h.good, call{method: "GET", path: "/v1/queues/precious"}); got.status != 200 {
		t.Errorf("afterwards the queue is gone: %d %s", got.status, got.body)
	}
	t.Logf("%d cases", cases)
	if cases < 190 {
		t.Errorf("%d cases; there were more", cases)
	}
}

// arm makes the tokens and sessions, of this server and of another one.
func (f *fixture) arm(other *fixture) *hostiles {
	f.Helper()
	session := func(f *fixture, token string) string {
		f.Helper()
		got := f.send(call{method: "POST", path: "/v1/session", body: `{"token":"` + token + `"}`})
		cookie, _, _ := strings.Cut(got.header.Get("Set-Cookie"), ";")
		if got.status != 200 || !strings.HasPrefix(cookie, sessionCookie+"=") {
			f.Fatalf("session: %d %s", got.status, got.body)
		}
		return cookie
	}
	h := &hostiles{}
	_, h.good = f.token(engine.TokenRequest{Name: "good", Scopes: access.All})
	_, h.reader = f.token(engine.TokenRequest{Name: "reader", Scopes: access.Read})
	id, revoked := f.token(engine.TokenRequest{Name: "revoked", Scopes: access.All})
	f.as(h.good, call{method: "DELETE", path: "/v1/tokens/" + id})
	h.ended = revoked
	_, h.foreign = other.token(engine.TokenRequest{Name: "foreign", Scopes: access.All})
	h.cookie, h.foreignCookie, h.loggedOut = session(f, h.good), session(other, h.foreign), session(f, h.reader)
	f.send(call{method: "DELETE", path: "/v1/session", header: map[string]string{"Cookie": h.loggedOut}})
	return h
}

// A token that is revoked while the body of a call comes does nothing with it. Else a thief could keep calls half
// open, and make a new token when the leaked one is revoked.
func TestTokenEndsWhileABodyComes(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	f := newFixtureSeeded(t, 1, func(s *Server) {
		s.clock.wall = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		s.auth.limits.AtOnce = 12 // as many as the calls below
	})
	f.insert(`{"chunks":{"count":1,"prefix":"x/"}}`)
	id, leaked := f.token(engine.TokenRequest{Name: "leaked", Scopes: access.Admin})
	ops := []struct{ op, media, body string }{
		{"POST /v1/tokens", "application/json", `{"name":"heir","scopes":["admin"]}`},
		{"PUT /v1/queues/heir", "application/json", `{"max_attempts":3}`},
		{"POST /v1/bulk-operations", "application/json", `{"queue":"default","action":"purge"}`},
		{"POST /v1/queues/default/rules", "application/json", `{"action":"pause","match":{"queue":true}}`},
		{"POST /v1/queues/default/submissions", "application/json", `{"chunks":{"count":1,"prefix":"x/"}}`},
		{"POST /v1/queues/default/submissions", "application/x-ndjson", "{}\n\"x\"\n"},
		{"POST /v1/queues/default/submissions:batch", "application/x-ndjson", `{"chunks":{"count":1,"prefix":"x/"}}`},
		{"POST /v1/queues/default/reservations", "application/json", `{"max":1}`},
		{"POST /v1/queues/default/reservations/exchange", "application/json", `{"reserve":{"max":1}}`},
		{"POST /v1/plugins", "application/wasm", "\x00asm\x01\x00\x00\x00"},
		{"POST /v1/submissions:wait", "application/json", `{"ids":["1"]}`},
		{"POST /v1/backup", contentTar, strings.Repeat("x", 2000)},
	}
	var open []net.Conn
	for _, op := range ops {
		conn, err := net.Dial("tcp", f.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", strings.TrimSuffix(raw(op.op, "Authorization: Bearer "+leaked,
			"Content-Type: "+op.media), "\r\n"), len(op.body), op.body[:len(op.body)-1])
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	for f.as(leaked, call{method: "GET", path: "/v1/whoami"}).status != http.StatusTooManyRequests { // until all are let in
		time.Sleep(time.Millisecond)
	}
	if err := f.engine.Tokens().Revoke(t.Context(), access.ID(id)); err != nil {
		t.Fatal(err)
	}
	later.Store(int64(2 * swiftBody))
	for i, conn := range open {
		_, _ = conn.Write([]byte(ops[i].body[len(ops[i].body)-1:])) // the answer shows whether it came
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", ops[i].op, err)
		}
		if answer.StatusCode != http.StatusUnauthorized {
			body, _ := io.ReadAll(answer.Body)
			t.Errorf("%s: got %s %.200s, want 401", ops[i].op, answer.Status, body)
		}
		_ = answer.Body.Close()
	}
	if stats := queueAt(f.engine, "default").Stats(); stats.Ready != 1 || stats.Reserved != 0 {
		t.Errorf("%d ready and %d reserved, want the one chunk as it was", stats.Ready, stats.Reserved)
	}
}
