package client

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

func mustNew(t *testing.T, address string, options ...Option) *Client {
	t.Helper()
	c, err := New(address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

const okResults = `{"results":[{"status":"ok"}]}`

func release(ctx context.Context, c *Client) error {
	results, err := c.Release(ctx, "default", []api.ReleaseItem{{Token: "t"}})
	if err == nil && (len(results) != 1 || results[0].Status != "ok") {
		return errors.New("the results are not what was sent")
	}
	return err
}

// Every framing of an answer that HTTP/1.1 allows is read, however its bytes arrive, and the next call still works.
func TestAnswersOfEveryFraming(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"length":   "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 29\r\n\r\n" + okResults,
		"lower":    "HTTP/1.1 200\r\ncontent-length:29\r\nContent-Length: 29\r\n\r\n" + okResults,
		"chunked":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"res\r\n018;x=y\r\nults\":[{\"status\":\"ok\"}]}\r\n0\r\nTrailer: x\r\n\r\n",
		"interim":  "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 29\r\n\r\n" + okResults,
		"close":    "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + okResults,
		"http 1.0": "HTTP/1.0 200 OK\r\n\r\n" + okResults,
		"newlines": "HTTP/1.1 200 OK\nContent-Length: 29\n\n" + okResults,
	} {
		for _, piece := range []int{1, 7, 1 << 20} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				address, requests := script(t, piece, answer)
				c := mustNew(t, address)
				for range 3 {
					if err := release(t.Context(), c); err != nil {
						t.Fatalf("pieces of %d: %v", piece, err)
					}
				}
				if got := len(requests()); got != 3 {
					t.Errorf("the server saw %d requests, want 3", got)
				}
			})
		}
	}
}

// An answer that is not HTTP, or breaks off, is an error; nothing hangs and nothing is taken for an answer.
func TestBrokenAnswers(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"nonsense\r\n\r\n", "HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1.1 099 OK\r\n\r\n", "HTTP/1.1 200OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\n{}", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n{}  ",
		"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999\r\n\r\n{}", "HTTP/1.1 200 OK\r\nbroken\r\n\r\n{}", "HTTP/1.1 200 OK\r\n folded: x\r\n\r\n{}",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{]", "HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{\"results\":[]}",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 70_000) + "\r\n\r\n", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n", 2000) + "\r\n",
	} {
		address, _ := script(t, 1<<20, answer)
		c := mustNew(t, address, WithRetries(0), WithCallTimeout(20*time.Second))
		err := release(t.Context(), c)
		tooLong := strings.Contains(answer, "9999999999999") || strings.Contains(answer, "fffffffff\r\n")
		if err == nil || tooLong != errors.Is(err, errTooLong) {
			t.Errorf("%.60q: got %v", answer, err)
		}
	}
}

// An answer that breaks off in its body is not an answer, and the call is made again.
func TestAnswerBreaksOff(t *testing.T) {
	t.Parallel()
	address, requests := script(t, 1<<20, "HTTP/1.1 200 OK\r\nConnection: close\r\ncontent-length: 29\r\n\r\n{\"results", "HTTP/1.1 200 OK\r\nContent-Length: 29\r\n\r\n"+okResults)
	if err := release(t.Context(), mustNew(t, address)); err != nil {
		t.Fatal(err)
	}
	if got := len(requests()); got != 2 {
		t.Errorf("the server saw %d requests, want 2", got)
	}
}

// The head and the body are exactly what was meant, under a path and with a token.
func TestRequestBytes(t *testing.T) {
	t.Parallel()
	address, requests := script(t, 1<<20, "HTTP/1.1 200 OK\r\nContent-Length: 29\r\n\r\n"+okResults)
	c := mustNew(t, address+"/deep/er/", WithToken("secret-1"))
	if _, err := c.Release(t.Context(), "a b/c", []api.ReleaseItem{{Token: "tok\"en"}}); err != nil {
		t.Fatal(err)
	}
	want := "POST /deep/er/v1/queues/a%20b%2Fc/reservations/release HTTP/1.1\r\nHost: " + strings.TrimPrefix(address, "http://") +
		"\r\nUser-Agent: quern-go\r\nContent-Type: application/json\r\nAuthorization: Bearer secret-1\r\nContent-Length: 31\r\n\r\n" + `{"items":[{"token":"tok\"en"}]}`
	if got := requests()[0]; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Calls one after the other use one connection; calls at once use one each and keep them.
func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	f := newFake(t, 0, nil)
	c := f.client()
	for range 20 {
		if _, err := c.Reserve(t.Context(), "default", &api.ReserveRequest{Max: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.opened.Load(); got != 1 {
		t.Errorf("20 calls opened %d connections, want 1", got)
	}
}

// Connections that the server closed while they were idle cost nothing but a new one, and no call fails.
func TestStaleConnections(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	var waiting atomic.Int32
	f := newFake(t, 0, func(w http.ResponseWriter, r *http.Request) bool {
		if waiting.Add(1) == 8 {
			close(gate)
		}
		<-gate
		return false
	})
	c := f.client(WithRetries(0))
	for range 3 {
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				if _, err := c.Reserve(t.Context(), "default", &api.ReserveRequest{Max: 1}); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		f.server.CloseClientConnections()
	}
}

// A call ends with its context, in the middle of waiting for an answer, and says so.
func TestContextEndsCall(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	f := newFake(t, 0, func(w http.ResponseWriter, r *http.Request) bool {
		io.Copy(io.Discard, r.Body)
		close(entered)
		<-r.Context().Done() // ends when the client hangs up
		return true
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	go func() { <-entered; cancel(why) }()
	err := release(ctx, f.client())
	if !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
		t.Errorf("got %v, want context.Canceled with its cause", err)
	}
}

// A server that does not answer is given up after the call timeout.
func TestCallTimeout(t *testing.T) {
	t.Parallel()
	f := newFake(t, 0, func(w http.ResponseWriter, r *http.Request) bool {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return true
	})
	err := release(t.Context(), f.client(WithCallTimeout(50*time.Millisecond), WithRetries(1)))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want context.DeadlineExceeded", err)
	}
}

// Refusals carry the problem; those that pass are tried again under the same idempotency key, the others are not.
func TestRetries(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		status, retries, tries int
		want                   int // status of the error, 0: none
	}{{503, 5, 3, 0}, {429, 5, 3, 0}, {502, 5, 3, 0}, {503, 1, 2, 503}, {422, 5, 1, 422}, {500, 5, 1, 500}, {308, 5, 1, 308}} {
		var mu sync.Mutex
		var keys []string
		f := newFake(t, 0, func(w http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			keys = append(keys, r.Header.Get("Idempotency-Key"))
			if len(keys) <= 2 {
				w.Header().Set("Retry-After", "0")
				writeProblem(w, api.Problem{Title: "No", Detail: "Not now.", Status: row.status, Code: "some_code"})
				return true
			}
			w.WriteHeader(http.StatusCreated)
			io.WriteString(w, `{"id":"5","queue":"default","state":"open","chunks":1,"ready":1,"meta":{"a":1}}`)
			return true
		})
		s, err := f.client(WithRetries(row.retries)).Insert(t.Context(), "default", &api.NewSubmission{Chunks: api.Chunks{Count: 1, Prefix: "x"}})
		if len(keys) != row.tries || keys[0] != keys[len(keys)-1] || len(keys[0]) != 32 {
			t.Errorf("%+v: the server saw the keys %q", row, keys)
		}
		var refused *Error
		if row.want == 0 {
			if err != nil || s.ID != "5" || !reflect.DeepEqual(s.Meta, api.Meta{"a": api.Int(1)}) {
				t.Errorf("%+v: got %+v, %v", row, s, err)
			}
		} else if !errors.As(err, &refused) || refused.Status != row.want || CodeOf(err) != "some_code" || refused.Errors[0].Pointer != "/max" {
			t.Errorf("%+v: got %v", row, err)
		}
	}
}

// Retry-After is read as seconds and as a date, counted from the server's own clock.
func TestRetryAfterHeader(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		value, date string
		want        time.Duration
	}{
		{"", "", 0}, {"7", "", 7 * time.Second}, {"-1", "", 0}, {"soon", "", 0},
		{"Wed, 21 Oct 2026 07:28:30 GMT", "Wed, 21 Oct 2026 07:28:00 GMT", 30 * time.Second},
		{"Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:30 GMT", 0}, {"Wed, 21 Oct 2026 07:28:00 GMT", "", 0},
	} {
		if got := parseRetryAfter(row.value, row.date); got != row.want {
			t.Errorf("Retry-After %q at %q: got %v, want %v", row.value, row.date, got, row.want)
		}
	}
	address, _ := script(t, 1<<20, "HTTP/1.1 422 No\r\nRetry-After: 9\r\nContent-Length: 0\r\n\r\n")
	var refused *Error
	if err := release(t.Context(), mustNew(t, address)); !errors.As(err, &refused) || refused.RetryAfter != 9*time.Second {
		t.Errorf("got %v, want RetryAfter 9s", err)
	}
}

// A server that answers before it has read the whole body is heard.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	f := newFake(t, 0, func(w http.ResponseWriter, r *http.Request) bool {
		writeProblem(w, api.Problem{Title: "Too large", Status: 413, Code: api.CodeTooLarge})
		return true
	})
	big := api.NewSubmission{Chunks: api.Chunks{Inline: []api.Bytes{api.Bytes(strings.Repeat("x", 16<<20))}}}
	c := f.client(WithRetries(0))
	if _, err := c.Insert(t.Context(), "default", &big); CodeOf(err) != api.CodeTooLarge {
		// The system may throw the answer away together with the bytes that it could not deliver; then the connection broke.
		t.Logf("got %v", err)
		var refused *Error
		if err == nil || errors.As(err, &refused) {
			t.Errorf("got %v, want %s or a broken connection", err, api.CodeTooLarge)
		}
	}
	small := api.NewSubmission{Chunks: api.Chunks{Count: 1, Prefix: "x"}}
	if _, err := c.Insert(t.Context(), "default", &small); CodeOf(err) != api.CodeTooLarge {
		t.Errorf("the next call: got %v, want %s", err, api.CodeTooLarge)
	}
}

// Over https everything goes through net/http, with the same results.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	var token atomic.Value
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token.Store(r.Header.Get("Authorization"))
		io.WriteString(w, okResults)
	}))
	t.Cleanup(server.Close)
	c := mustNew(t, server.URL, WithHTTPClient(server.Client()), WithToken("secret"))
	if err := release(t.Context(), c); err != nil || token.Load() != "Bearer secret" {
		t.Errorf("got %v with the header %v", err, token.Load())
	}
}

// Invalid addresses, tokens and keys are refused before anything is sent.
func TestRefusedLocally(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "localhost:7700", "ftp://x", "http://", "http://x?y=1", "http://u:p@x", "http://x#y", "http://[x"} {
		if c, err := New(address); err == nil {
			t.Errorf("New(%q): got %v, want an error", address, c.addresses.all[0].base)
		}
	}
	if _, err := New("http://x", WithToken("a\r\nb: c")); err == nil {
		t.Error("a token with a line break: got no error")
	}
	c := mustNew(t, "http://127.0.0.1:1")
	for _, option := range []InsertOption{WithKey("a\r\nb: c"), WithKey(strings.Repeat("x", 256)), WithTrace("a\nb")} {
		if _, err := c.Insert(t.Context(), "q", &api.NewSubmission{}, option); err == nil || errors.As(err, new(*Error)) {
			t.Errorf("got %v, want a refusal", err)
		}
	}
}

// Every try draws its pause and its keys from the given source, so they can be repeated.
func TestRandomIsGiven(t *testing.T) {
	t.Parallel()
	draw := func() string {
		c := mustNew(t, "http://127.0.0.1:1", WithRandom(strings.NewReader(strings.Repeat("0123456789abcdef", 4))))
		key, err := c.random.key()
		if err != nil {
			t.Fatal(err)
		}
		return key + c.random.upTo(time.Hour).String()
	}
	if a, b := draw(), draw(); a != b {
		t.Errorf("got %s and %s from the same source", a, b)
	}
	if _, err := New("http://x", WithRandom(strings.NewReader("short"))); err == nil {
		t.Error("an empty source: got no error")
	}
}

// brokenOff is a connection that takes a part of what is written and then no more. The server's answers still come.
type brokenOff struct {
	net.Conn
	left int
}

func (b *brokenOff) Write(p []byte) (int, error) {
	if len(p) <= b.left {
		b.left -= len(p)
		return b.Conn.Write(p)
	}
	n, _ := b.Conn.Write(p[:b.left])
	b.left = 0
	return n, syscall.EPIPE
}

// A connection on which only a part of a body was written is not used again: the server would take the next request for the rest of it.
func TestHalfWrittenBody(t *testing.T) {
	t.Parallel()
	const answer = "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}"
	for _, left := range []int{10, 2000, math.MaxInt} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		go func() {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			defer connection.Close()
			io.WriteString(connection, answer) // before anything of the request has been read
			io.Copy(io.Discard, connection)
		}()
		c := mustNew(t, "http://"+listener.Addr().String())
		raw, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		q := request{method: "POST", path: "/v1/x", buffer: make([]byte, gap+4000)}
		var r reply
		started, err := newConn(c.addresses.all[0].lean, &brokenOff{raw, left}).roundTrip(t.Context(), &q, &r)
		if err != nil || !started || r.status != 413 {
			t.Fatalf("%d bytes written: got started %v, status %d, %v; the answer is 413", left, started, r.status, err)
		}
		c.addresses.all[0].lean.mu.Lock()
		idle := len(c.addresses.all[0].lean.idle)
		c.addresses.all[0].lean.mu.Unlock()
		if want := map[bool]int{true: 1, false: 0}[left == math.MaxInt]; idle != want {
			t.Errorf("%d of the bytes written: %d connections are kept, want %d", left, idle, want)
		}
		raw.Close()
	}
}

// A client follows no redirect: it sends its token and its calls only to addresses that it was given.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var others atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { others.Add(1); io.WriteString(w, okResults) }))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		server := httptest.NewServer(http.RedirectHandler(other.URL+"/v1/x", status))
		t.Cleanup(server.Close)
		c := mustNew(t, server.URL, WithToken("secret"), WithRetries(0))
		_, cold := c.Stats(t.Context(), "default")
		for name, err := range map[string]error{"stats": cold, "release": release(t.Context(), c)} {
			var refused *Error
			if !errors.As(err, &refused) || refused.Status != status {
				t.Errorf("%s: a redirect with %d gave %v, want an error with its status", name, status, err)
			}
		}
	}
	if n := others.Load(); n > 0 {
		t.Errorf("the other address got %d calls", n)
	}
}

// A client asks for no compressed answer and unpacks none: a small one could fill the memory.
func TestAnswersAreNotUnpacked(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	w.Write([]byte(`{"ready":1}`))
	w.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked := r.Header.Get("Accept-Encoding"); asked != "" {
			t.Errorf("the client asks for answers in %s", asked)
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(packed.Bytes())
	}))
	t.Cleanup(server.Close)
	if _, err := mustNew(t, server.URL).Stats(t.Context(), "default"); err == nil {
		t.Error("a compressed answer was unpacked")
	}
}

// Bytes behind an answer are not the answer to the next call.
func TestASecondAnswerIsDropped(t *testing.T) {
	t.Parallel()
	first := "HTTP/1.1 200 OK\r\nContent-Length: 29\r\n\r\n" + okResults
	address, _ := script(t, 1<<20, first+"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", first)
	c := mustNew(t, address, WithRetries(0))
	for range 2 {
		if err := release(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
}

// An answer that is no object is an error, not an answer full of zeros.
func TestAnswersAreObjects(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"null", " null", "[]", "7", `"x"`, ""} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }))
		t.Cleanup(server.Close)
		if s, err := mustNew(t, server.URL).Stats(t.Context(), "default"); err == nil || !strings.Contains(err.Error(), "interface") {
			t.Errorf("%q was read as %v, %v", body, s, err)
		}
	}
}

// A list ends at a page that names itself as the next one, whether it is read item by item or whole.
func TestPageBehindItself(t *testing.T) {
	t.Parallel()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		io.WriteString(w, `{"items":[{}],"next":"b"}`)
	}))
	t.Cleanup(server.Close)
	c, items := mustNew(t, server.URL), 0
	var err error
	for _, err = range c.Rules(t.Context(), "q") {
		if err == nil {
			items++
		}
	}
	_, whole := c.StrategiesInUse(t.Context(), "q")
	for _, err := range []error{err, whole} {
		if err == nil || !strings.Contains(err.Error(), `behind the page "b" comes the same page`) {
			t.Errorf("got %v", err)
		}
	}
	if items != 2 || asked != 4 {
		t.Errorf("%d items of a list came, and %d pages were read; want 2 and 4", items, asked)
	}
}
