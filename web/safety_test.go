package web

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine/queue"
)

// Only addresses that no one outside of this machine can reach count as such.
func TestReachable(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"127.0.0.1:7700": false, "127.5.4.3:0": false, "[::1]:7700": false, "localhost:7700": false, "LOCALHOST:1": false, "[::ffff:127.0.0.1]:1": false,
		":7700": true, "0.0.0.0:7700": true, "[::]:7700": true, "192.168.1.5:7700": true, "example.com:7700": true, "localhost.example.com:7700": true, "[::1%lo]:7700": true,
	} {
		if got, err := Reachable(address); got != want || err != nil {
			t.Errorf("Reachable(%q): got %v, %v; want %v", address, got, err, want)
		}
	}
	for _, address := range []string{"", "127.0.0.1", "7700", "::1:7700"} {
		if _, err := Reachable(address); err == nil {
			t.Errorf("Reachable(%q): no error", address)
		}
	}
}

// A request must name this server: a page that made its own name resolve to 127.0.0.1 does not.
func TestHosts(t *testing.T) {
	t.Parallel()
	client, address := &http.Client{}, serve(t, bareServer(t))
	for host, ok := range map[string]bool{
		"localhost": true, "localhost:80": true, "127.0.0.1:1": true, "[::1]:7700": true, "[::1]": true, "quern.example": true, "Quern.Example.:7700": true,
		"10.1.2.3:7700": true, "[fd00::1]:7700": true, // a literal address cannot be rebound
		"evil.example": false, "localhost.evil.example": false, "quern.example.evil": false, "0.0.0.0": false, "[::]:7700": false, "[::ffff:0.0.0.0]": false, "127.0.0.1.nip.io": false,
	} {
		got := send(t, client, address, call{method: "GET", path: "/livez", host: host})
		if ok != (got.status == 200) {
			t.Errorf("Host %q: got %d, want ok=%v: %s", host, got.status, ok, got.body)
		}
		if !ok && (got.status != 421 || got.problem(t).Code != string(codeHost)) {
			t.Errorf("Host %q: got %d %s, want 421 %s", host, got.status, got.body, codeHost)
		}
	}
	if _, err := newHosts([]string{"*.example.com"}); err == nil {
		t.Error("a wildcard among the allowed hosts was accepted")
	}
	if _, err := newHosts([]string{"http://example.com"}); err == nil {
		t.Error("a URL among the allowed hosts was accepted")
	}
}

const reservePath = "/v1/queues/default/reservations"

// refusal is a request and the problem that it must get. An empty pointer is not looked at.
type refusal struct {
	name    string
	call    call
	status  int
	code    queue.Code
	pointer string
}

func refusals() []refusal {
	insert := "/v1/queues/default/submissions"
	long := strings.Repeat("x", maxBodyBytes+1)
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	return []refusal{
		{"unknown path", call{method: "GET", path: "/v1/nothing"}, 404, codeNotFound, ""},
		{"unknown method", call{method: "PATCH", path: "/v1/queues/default/stats"}, 405, codeMethod, ""},
		{"cross-site", call{method: "POST", path: reservePath, body: `{"max":1}`, header: map[string]string{"Sec-Fetch-Site": "cross-site"}}, 403, codeCrossOrigin, ""},
		{"foreign origin", call{method: "DELETE", path: "/v1/queues/x", header: map[string]string{"Origin": "https://evil.example"}}, 403, codeCrossOrigin, ""},
		{"no content type", call{method: "POST", path: reservePath, body: `{"max":1}`, header: map[string]string{"Content-Type": ""}}, 415, codeMediaType, ""},
		{"form", call{method: "POST", path: insert, body: `a=b`, header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}}, 415, codeMediaType, ""},
		{"text", call{method: "PUT", path: "/v1/queues/x", body: `{}`, header: map[string]string{"Content-Type": "text/plain"}}, 415, codeMediaType, ""},
		{"latin1", call{method: "POST", path: reservePath, body: `{"max":1}`, header: map[string]string{"Content-Type": "application/json; charset=latin1"}}, 415, codeMediaType, ""},
		{"compressed", call{method: "POST", path: reservePath, body: `{"max":1}`, header: map[string]string{"Content-Encoding": "gzip"}}, 415, codeMediaType, ""},
		{"lines to reserve", call{method: "POST", path: reservePath, body: `{"max":1}`, header: map[string]string{"Content-Type": contentLines}}, 415, codeMediaType, ""},
		{"too large", call{method: "POST", path: reservePath, body: long}, 413, queue.CodeTooLarge, ""},
		{"too large, cold", call{method: "PUT", path: "/v1/queues/x", body: long}, 413, queue.CodeTooLarge, ""},
		{"empty body", call{method: "POST", path: reservePath, header: map[string]string{"Content-Type": contentJSON}}, 400, codeMalformed, ""},
		{"empty body, cold", call{method: "PUT", path: "/v1/queues/x", header: map[string]string{"Content-Type": contentJSON}}, 400, codeMalformed, ""},
		{"truncated", call{method: "POST", path: reservePath, body: `{"max":1`}, 400, codeMalformed, ""},
		{"truncated, cold", call{method: "PUT", path: "/v1/queues/x", body: `{"settings":{`}, 400, codeMalformed, ""},
		{"two values", call{method: "POST", path: reservePath, body: `{"max":1}{}`}, 400, codeMalformed, ""},
		{"too deep", call{method: "POST", path: reservePath, body: `{"max":1,"strategy":` + deep + `}`}, 422, queue.CodeInvalid, ""},
		{"unknown field", call{method: "POST", path: reservePath, body: `{"max":1,"colour":2}`}, 422, queue.CodeInvalid, "/colour"},
		{"unknown field, cold", call{method: "PUT", path: "/v1/queues/x", body: `{"settings":{"Durability":"full"}}`}, 422, queue.CodeInvalid, "/settings/Durability"},
		{"wrong enum, cold", call{method: "PUT", path: "/v1/queues/x", body: `{"settings":{"durability":"maybe"}}`}, 422, queue.CodeInvalid, "/settings/durability"},
		{"negative duration", call{method: "PUT", path: "/v1/queues/x", body: `{"settings":{"retention_seconds":-1}}`}, 422, queue.CodeInvalid, "/settings/retention_seconds"},
		{"back-off", call{method: "PUT", path: "/v1/queues/x", body: `{"settings":{"retry_backoff":{"base_ms":-1,"factor":1,"cap_ms":1}}}`}, 422, queue.CodeInvalid, "/settings/retry_backoff/base_ms"},
		{"query on a hot call", call{method: "POST", path: reservePath + "?max=1", body: `{"max":1}`}, 422, queue.CodeInvalid, "/query"},
		{"unknown query", call{method: "GET", path: "/v1/queues/default?verbose=1"}, 422, queue.CodeInvalid, "/query/verbose"},
		{"unknown query of a list", call{method: "GET", path: "/v1/queues/default/submissions?colour=1"}, 422, queue.CodeInvalid, "/query/colour"},
		{"state that is none", call{method: "GET", path: "/v1/queues/default/submissions?state=open,half"}, 422, queue.CodeInvalid, "/query/state"},
		{"limit", call{method: "GET", path: "/v1/queues/default/submissions?limit=1001"}, 422, queue.CodeInvalid, "/query/limit"},
		{"meta key twice", call{method: "GET", path: "/v1/queues/default/submissions?meta.a=1&meta.a=2"}, 422, queue.CodeInvalid, "/query/meta.a"},
		{"meta number", call{method: "GET", path: "/v1/queues/default/submissions?meta.a=99999999999999999999"}, 422, queue.CodeInvalid, "/query/meta.a"},
		{"meta key", call{method: "GET", path: "/v1/queues/default/submissions?meta.%24a=1"}, 422, queue.CodeInvalid, "/query/meta.$a"},
		{"query that is none", call{method: "GET", path: "/v1/queues/default/submissions?a=%zz"}, 422, queue.CodeInvalid, "/query"},
		{"id", call{method: "GET", path: "/v1/submissions/x7"}, 422, queue.CodeInvalid, "/path/id"},
		{"index", call{method: "GET", path: "/v1/submissions/7/chunks/-1"}, 422, queue.CodeInvalid, "/path/index"},
		{"chunk state", call{method: "GET", path: "/v1/submissions/7/chunks?state=open"}, 422, queue.CodeInvalid, "/query/state"},
		{"prefer", call{method: "GET", path: "/v1/submissions/7", header: map[string]string{"Prefer": "respond-async, wait=soon"}}, 422, queue.CodeInvalid, "/header/Prefer"},
		{"sort", call{method: "GET", path: "/v1/queues/default/meta-keys/company/values?sort=size"}, 422, queue.CodeInvalid, "/query/sort"},
		{"idempotency key", call{method: "POST", path: insert, body: `{}`, header: map[string]string{"Idempotency-Key": strings.Repeat("k", 256)}}, 422, queue.CodeInvalid, "/header/Idempotency-Key"},
		{"a chunk that is not UTF-8", call{method: "POST", path: insert, body: "{\"chunks\":{\"inline\":[\"caf\xe9\"]}}"}, 400, codeMalformed, ""},
		{"a line that is not UTF-8", call{method: "POST", path: insert, body: "{}\n\"caf\xe9\"\n", header: map[string]string{"Content-Type": contentLines}}, 400, codeMalformed, ""},
		{"an output that is not UTF-8", call{method: "POST", path: reservePath + "/complete", body: "{\"items\":[{\"token\":\"t\",\"output\":\"\xff\"}]}"}, 400, codeMalformed, ""},
		{"no chunks", call{method: "POST", path: insert, body: `{"chunks":{}}`}, 422, queue.CodeInvalid, "/chunks"},
		{"zero chunks", call{method: "POST", path: insert, body: `{"chunks":{"count":0,"prefix":"p/"}}`}, 422, queue.CodeInvalid, "/chunks/count"},
		{"no inline chunk", call{method: "POST", path: insert, body: `{"chunks":{"inline":[]}}`}, 422, queue.CodeInvalid, "/chunks/inline"},
		{"too many chunks", call{method: "POST", path: insert, body: `{"chunks":{"count":4294967296,"prefix":"p/"}}`}, 422, queue.CodeInvalid, "/chunks/count"},
		{"two forms", call{method: "POST", path: insert, body: `{"chunks":{"inline":["a"],"prefix":"p/"}}`}, 422, queue.CodeInvalid, "/chunks"},
		{"meta of a wrong type", call{method: "POST", path: insert, body: `{"chunks":{"count":1,"prefix":"p/"},"meta":{"a":1.5}}`}, 422, queue.CodeInvalid, "/meta/a"},
		{"meta too large", call{method: "POST", path: insert, body: `{"chunks":{"count":1,"prefix":"p/"},"meta":{"a":"` + strings.Repeat("v", 257) + `"}}`}, 422, queue.CodeInvalid, "/meta/a"},
		{"on_exhausted", call{method: "POST", path: insert, body: `{"chunks":{"count":1,"prefix":"p/"},"on_exhausted":"explode"}`}, 422, queue.CodeInvalid, "/on_exhausted"},
		{"wait", call{method: "POST", path: reservePath, body: `{"max":1,"wait_ms":60001}`}, 422, queue.CodeInvalid, "/wait_ms"},
		{"timeout", call{method: "POST", path: reservePath, body: `{"max":1,"timeout_ms":86400001}`}, 422, queue.CodeInvalid, "/timeout_ms"},
		{"wait of an exchange", call{method: "POST", path: reservePath + "/exchange", body: `{"reserve":{"max":1,"wait_ms":-1}}`}, 422, queue.CodeInvalid, "/reserve/wait_ms"},
		{"too many items", call{method: "POST", path: reservePath + "/release", body: `{"items":[` + strings.Repeat(`{"token":"x"},`, queue.MaxBatch) + `{"token":"x"}]}`}, 422, queue.CodeInvalid, "/items"},
	}
}

// If a request is refused before any use case is asked, its answer has the right status, code and pointer.
func TestRefusals(t *testing.T) {
	t.Parallel()
	client, address := &http.Client{}, serve(t, openServer(t))
	for _, test := range refusals() {
		got := send(t, client, address, test.call)
		p := got.problem(t)
		pointer := ""
		if len(p.Errors) > 0 {
			pointer = p.Errors[0].Pointer
		}
		if got.status != test.status || p.Code != string(test.code) || !strings.HasPrefix(pointer, test.pointer) || test.pointer != "" && pointer == "" {
			t.Errorf("%s: got %d %s at %q, want %d %s at %q\nbody: %s", test.name, got.status, p.Code, pointer, test.status, test.code, test.pointer, got.body)
		}
		if test.status == 405 && got.header.Get("Allow") == "" {
			t.Errorf("%s: no Allow header", test.name)
		}
	}
}

// A page of another site can open no stream, of those that the document has: neither by an image, which is sent without an Origin, nor by
// a script, nor from another port of this machine. A page of this server can, as can a client that is no browser.
func TestOtherSitesOpenNoStreams(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.insert(`{"chunks":{"count":1,"template":"x"}}`).ID
	var document struct {
		Paths map[string]map[string]struct {
			ID        string `json:"operationId"`
			Responses map[string]struct{ Content map[string]any }
		}
	}
	if err := json.Unmarshal(documentOf(t, f.server), &document); err != nil {
		t.Fatal(err)
	}
	site := func(name string) map[string]string {
		return map[string]string{"Sec-Fetch-Site": name, "Accept": contentEvents}
	}
	streams := 0
	for path, methods := range document.Paths {
		op := methods["get"]
		content := op.Responses["200"].Content
		if content[contentEvents] == nil && content[contentLines] == nil {
			continue
		}
		streams++
		path = strings.NewReplacer("{queue}", "default", "{consumer}", "ana", "{id}", id).Replace(path)
		for name, header := range map[string]map[string]string{
			"an image": site("cross-site"), "another port": site("same-site"), "a script of an old browser": {"Origin": "http://evil.example"},
		} {
			if got := f.send(call{method: "GET", path: path, header: header}); got.status != 403 || got.problem(t).Code != string(codeCrossOrigin) {
				t.Errorf("%s by %s: got %d, want 403 %s", op.ID, name, got.status, codeCrossOrigin)
			}
		}
		for name, header := range map[string]map[string]string{
			"a page of the server": site("same-origin"), "a person": site("none"), "no browser": {"Accept": contentEvents},
			"a page of the server in an old browser": {"Accept": contentEvents, "Origin": "http://" + f.address},
		} {
			if got := f.send(call{method: "GET", path: path, header: header}); got.status != 200 {
				t.Errorf("%s by %s: got %d, want 200", op.ID, name, got.status)
			}
		}
	}
	if streams < 5 {
		t.Errorf("the document has %d streams; want those of consumers, numbers, ends, outputs and the audit log", streams)
	}
}

// A body of unknown length is bounded as one of known length is.
func TestChunkedBodyIsBounded(t *testing.T) {
	t.Parallel()
	address := serve(t, bareServer(t))
	request, err := http.NewRequest("POST", "http://"+address+reservePath, struct{ *strings.Reader }{strings.NewReader(strings.Repeat(" ", maxBodyBytes+1))})
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentJSON)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != 413 {
		t.Errorf("status: got %d, want 413", response.StatusCode)
	}
}

// The memory of all large bodies together is bounded, and given back.
func TestLargeBodiesAreBoundedTogether(t *testing.T) {
	t.Parallel()
	s := bareServer(t).bodies
	unannounced := httptest.NewRequest("POST", insertPath, nil)
	unannounced.ContentLength = -1
	body := s.buffers.take()
	for size := int64(2 * firstBody); size <= 4*maxBodyBytes; size *= 2 {
		if err := s.grow(unannounced, body, maxInsertBytes); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := s.held.Load(), heldBy(int64(cap(body.b))); got != want || got == 0 {
		t.Errorf("held: got %d, want the capacity, %d", got, want)
	}
	s.held.Add(maxHeldBytes)
	body.b = body.b[:cap(body.b)]
	if err := s.grow(unannounced, body, maxInsertBytes); queue.CodeOf(err) != queue.CodeOverloaded {
		t.Errorf("grow beyond the bound: got %v, want %s", err, queue.CodeOverloaded)
	}
	s.held.Add(-maxHeldBytes)
	s.free(body)
	if got := s.held.Load(); got != 0 {
		t.Errorf("held after the release: got %d, want 0", got)
	}
}

// Every answer, good or bad, carries the headers that keep a browser from misusing it, and a request id.
func TestHeadersOfEveryAnswer(t *testing.T) {
	t.Parallel()
	client, address := &http.Client{}, serve(t, bareServer(t))
	for _, c := range []call{
		{method: "GET", path: "/livez"}, {method: "HEAD", path: "/livez"}, {method: "GET", path: "/openapi.json"}, {method: "GET", path: "/docs"}, {method: "GET", path: "/version"},
		{method: "GET", path: "/metrics"}, {method: "GET", path: "/nothing"}, {method: "POST", path: "/livez"}, {method: "GET", path: "/livez", host: "evil.example"},
		{method: "POST", path: reservePath, body: "{"}, {method: "GET", path: "/v1/submissions/none"},
	} {
		got := send(t, client, address, c)
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Content-Security-Policy": "default-src 'none'", headerRequestID: "7-"} {
			if !strings.HasPrefix(got.header.Get(name), want) {
				t.Errorf("%s %s: %s is %q, want %q...", c.method, c.path, name, got.header.Get(name), want)
			}
		}
	}
	for id, kept := range map[string]bool{"abc-123_X.y": true, "a b": false, strings.Repeat("a", 65): false, "a\tb": false} {
		got := send(t, client, address, call{method: "GET", path: "/livez", header: map[string]string{headerRequestID: id}}).header.Get(headerRequestID)
		if (got == id) != kept {
			t.Errorf("request id %q: the answer has %q, want kept=%v", id, got, kept)
		}
	}
}

// The reference page needs nothing from elsewhere, its style is allowed by its hash, and it speaks of every operation
// and every code.
func TestDocsPage(t *testing.T) {
	t.Parallel()
	s := bareServer(t)
	got := send(t, &http.Client{}, serve(t, s), call{method: "GET", path: "/docs/api"})
	page := string(got.body)
	if got.status != 200 || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
		t.Fatalf("got %d %s", got.status, got.header.Get("Content-Type"))
	}
	for _, bad := range []string{"http://", "https://", "<script", "<link", "<img", " style=", "@import", "url("} {
		if strings.Contains(page, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	_, rest, _ := strings.Cut(page, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	if want := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(got.header.Get("Content-Security-Policy"), want) {
		t.Errorf("policy %q does not allow the page's style, %s", got.header.Get("Content-Security-Policy"), want)
	}
	for _, methods := range s.operations {
		for _, op := range methods {
			if !strings.Contains(page, `id="`+op.id+`"`) {
				t.Errorf("the page has no section %q", op.id)
			}
		}
	}
	for _, k := range kinds() {
		if k.advice != "" && !strings.Contains(page, `id="`+string(k.code)+`"`) {
			t.Errorf("the page does not explain the code %q", k.code)
		}
	}
}

// The documents open on the page Start. The type of a problem, /docs#CODE, leads to its row below that page.
func TestDocsOpenOnStart(t *testing.T) {
	t.Parallel()
	got := send(t, &http.Client{}, serve(t, bareServer(t)), call{method: "GET", path: "/docs"})
	page := string(got.body)
	if got.status != 200 || !strings.Contains(page, "<title>Start · Quern</title>") {
		t.Errorf("got %d and %.300s, want the page Start", got.status, page)
	}
	for _, k := range kinds() {
		if k.advice != "" && strings.Count(page, `id="`+string(k.code)+`"`) != 1 {
			t.Errorf("the page has no one place for the code %q", k.code)
		}
	}
}

// Every code of the engine has its row in the table.
func TestEveryCodeHasAStatus(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../engine/queue/error.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Code") || len(spec.Values) != 1 {
			return true
		}
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		found++
		if k, ok := kindOf()[queue.Code(code)]; !ok || k.status < 400 || k.title == "" || k.advice == "" {
			t.Errorf("%s: the table has %+v", code, k)
		}
		return true
	})
	if found < 10 {
		t.Errorf("only %d codes were found in the source", found)
	}
	if p := newProblem("no_such_code", "x"); p.Status != 500 || p.Code != string(codeInternal) {
		t.Errorf("a code without a row: got %+v, want 500 internal", p)
	}
}

// lockedBuffer is a log that many goroutines write and one reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A panic answers 500, says nothing of its cause to the client and all of it to the log; the server goes on.
func TestPanicLeaksNothing(t *testing.T) {
	t.Parallel()
	log := new(lockedBuffer)
	s := bareServer(t)
	s.log = slog.New(slog.NewTextHandler(log, nil))
	s.echo.GET("/panic", func(echo.Context) error { panic("canary-7") })
	s.echo.GET("/late", func(c echo.Context) error {
		if err := c.String(200, strings.Repeat("x", 1<<16)); err != nil {
			return err
		}
		panic("canary-8")
	})
	address := serve(t, s)
	got := send(t, &http.Client{}, address, call{method: "GET", path: "/panic"})
	p := got.problem(t)
	if got.status != 500 || p.Code != string(codeInternal) || strings.Contains(string(got.body), "canary") || strings.Contains(string(got.body), ".go") {
		t.Errorf("got %d %s, want 500 without a trace of the cause", got.status, got.body)
	}
	if text := log.String(); !strings.Contains(text, "canary-7") || !strings.Contains(text, "safety_test.go") || !strings.Contains(text, p.RequestID) {
		t.Errorf("the log lacks the cause, the stack or the request id: %s", text)
	}
	// Half an answer must not look whole: the connection is cut.
	response, err := http.Get("http://" + address + "/late")
	if err == nil {
		_, err = new(bytes.Buffer).ReadFrom(response.Body)
		response.Body.Close()
	}
	if err == nil {
		t.Error("an answer that panicked half-way was read to a clean end")
	}
	if text := log.String(); !strings.Contains(text, "level=ERROR msg=request method=GET path=/late") || !strings.Contains(text, "canary-8") {
		t.Errorf("the log has no error that says why the answer was cut off: %s", text)
	}
	if got := send(t, &http.Client{}, address, call{method: "GET", path: "/livez"}); got.status != 200 {
		t.Errorf("after the panics: got %d, want 200", got.status)
	}
}

// Nothing that a client sends beside the path gets into the log.
func TestLogHasNoSecrets(t *testing.T) {
	t.Parallel()
	log := new(lockedBuffer)
	s := bareServer(t)
	s.log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	address := serve(t, s)
	const canary = "canary-4711"
	for _, c := range []call{
		{method: "GET", path: "/livez?token=" + canary},
		{method: "GET", path: "/v1/queues/default/submissions?meta.a=1&x=" + canary},
		{method: "POST", path: reservePath, body: `{"max":"` + canary + `"}`, header: map[string]string{"Authorization": "Bearer " + canary, "Cookie": canary, "User-Agent": canary, "Idempotency-Key": canary}},
		{method: "POST", path: reservePath, body: `{"` + canary},
		{method: "PUT", path: "/v1/queues/x", body: `{"settings":"` + canary + `"}`},
	} {
		send(t, &http.Client{}, address, c)
	}
	text := log.String()
	if strings.Contains(text, canary) {
		t.Errorf("the log has the canary: %s", text)
	}
	if strings.Count(text, "msg=request") != 5 {
		t.Errorf("want 5 lines of access log, got: %s", text)
	}
}

// Long answers of cold operations are compressed on request, hot ones never are.
func TestCompression(t *testing.T) {
	t.Parallel()
	client, address := &http.Client{Transport: &http.Transport{DisableCompression: true}}, serve(t, bareServer(t))
	for path, want := range map[string]string{"/openapi.json": "gzip", "/docs": "gzip", "/livez": "", "/version": ""} {
		got := send(t, client, address, call{method: "GET", path: path, header: map[string]string{"Accept-Encoding": "gzip"}})
		if got.status != 200 || got.header.Get("Content-Encoding") != want {
			t.Errorf("%s: got %d, Content-Encoding %q, want 200, %q", path, got.status, got.header.Get("Content-Encoding"), want)
		}
		if want != "" && len(got.body) > len(send(t, client, address, call{method: "GET", path: path}).body)/2 {
			t.Errorf("%s: compression did not halve it", path)
		}
	}
}

// Requests are measured by operation and status. Requests that match no operation share one route.
func TestMetrics(t *testing.T) {
	t.Parallel()
	client, address := &http.Client{}, serve(t, openServer(t))
	send(t, client, address, call{method: "GET", path: "/livez"})
	send(t, client, address, call{method: "GET", path: "/random-path"})
	send(t, client, address, call{method: "POST", path: reservePath, body: "{"})
	text := string(send(t, client, address, call{method: "GET", path: "/metrics"}).body)
	for _, want := range []string{
		`quern_http_request_seconds_count{code="200",route="livez"} 1`,
		`quern_http_request_seconds_count{code="404",route="_unmatched"} 1`,
		`quern_http_request_seconds_count{code="400",route="reserve"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s:\n%s", want, text)
		}
	}
	if strings.Contains(text, "random-path") {
		t.Error("a path became a route")
	}
}

// Headers are bounded.
//
//quern:overlapping
func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	address := serve(t, bareServer(t))
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	go func() {
		// The server may answer and close before all is written.
		_, _ = connection.Write([]byte("GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 2*maxHeaderBytes) + "\r\n\r\n"))
	}()
	head := make([]byte, 12)
	if _, err := connection.Read(head); err != nil || string(head) != "HTTP/1.1 431" {
		t.Errorf("got %q, %v, want HTTP/1.1 431", head, err)
	}
}

// A body that does not come in time is given up with 408, whatever the operation.
//
//quern:overlapping
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	s := bareServer(t)
	s.clock.patience.read, s.clock.patience.upload = 50*time.Millisecond, 50*time.Millisecond
	address := serve(t, s)
	for _, head := range []string{
		"POST " + reservePath + " HTTP/1.1\r\nContent-Length: 100",
		"POST " + reservePath + " HTTP/1.1\r\nTransfer-Encoding: chunked",
		"POST /v1/queues/default/submissions HTTP/1.1\r\nContent-Length: 60000000",
	} {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { connection.Close() })
		if _, err := connection.Write([]byte(head + "\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n{")); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(connection), nil)
		if err != nil {
			t.Errorf("%s: %v, want an answer", head, err)
			continue
		}
		var body bytes.Buffer
		if _, err := body.ReadFrom(response.Body); err != nil || response.StatusCode != 408 || !strings.Contains(body.String(), string(codeSlow)) {
			t.Errorf("%s: got %d %s, %v, want 408 %s", head, response.StatusCode, &body, err, codeSlow)
		}
	}
}

// A connection whose headers do not come in time, or that stays open without a request, is closed: it takes nothing from other clients.
//
//quern:overlapping
func TestSlowConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		patience func(p *patience)
		sends    string
		answers  int
	}{
		"half of the headers": {func(p *patience) { p.header = 50 * time.Millisecond }, "GET /livez HTTP/1.1\r\nHost: localhost\r\n", 0},
		"nothing at all":      {func(p *patience) { p.header, p.idle = 50*time.Millisecond, 50*time.Millisecond }, "", 0},
		"a second request":    {func(p *patience) { p.idle = 50 * time.Millisecond }, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := bareServer(t)
			c.patience(&s.clock.patience)
			connection, err := net.Dial("tcp", serve(t, s))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { connection.Close() })
			if _, err := io.WriteString(connection, c.sends); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(connection) // until it is closed
			if n := strings.Count(string(got), "HTTP/1.1 200"); err != nil || n != c.answers {
				t.Errorf("got %q, %v; want %d answers and the end", got, err, c.answers)
			}
		})
	}
}
