package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// gate is a server that shows each insert to the test, and answers as the test says.
type gate struct {
	client *Client
	calls  chan []string // the submissions of a call
	answer chan func(w http.ResponseWriter, r *http.Request, lines []string)
}

func newGate(t *testing.T, options ...Option) *gate {
	t.Helper()
	g := &gate{calls: make(chan []string), answer: make(chan func(http.ResponseWriter, *http.Request, []string))}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		lines := strings.Split(string(body), "\n")
		g.calls <- lines
		(<-g.answer)(w, r, lines)
	}))
	t.Cleanup(server.Close)
	var err error
	if g.client, err = New(server.URL, append([]Option{WithRetries(0)}, options...)...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.client.Close)
	return g
}

// echo answers each submission with one whose queue is its template, and one whose template is "bad" as invalid.
func echo(w http.ResponseWriter, r *http.Request, lines []string) {
	if !strings.HasSuffix(r.URL.Path, ":batch") {
		if text := templateOf(lines[0]); text != "bad" {
			s := wire.Submission{ID: 1, Queue: text, State: "open"}
			w.Write(s.Append(nil))
			return
		}
		writeProblem(w, api.Problem{Status: http.StatusUnprocessableEntity, Code: api.CodeInvalid})
		return
	}
	w.Write(wire.AppendInsertResults(nil, len(lines), func(i int) wire.InsertResult {
		text := templateOf(lines[i])
		if text == "bad" {
			return wire.InsertResult{Status: api.InsertInvalid, Code: api.CodeInvalid, Detail: "is bad", Pointer: fmt.Sprintf("/submissions/%d/chunks", i)}
		}
		return wire.InsertResult{Status: api.InsertCreated, Submission: wire.Submission{ID: uint64(i), Queue: text, State: "open"}}
	}))
}

// unavailable answers that the server cannot do it now.
func unavailable(w http.ResponseWriter, _ *http.Request, _ []string) {
	writeProblem(w, api.Problem{Status: http.StatusServiceUnavailable, Code: api.CodeCommitFailed})
}

func templateOf(line string) string {
	_, text, _ := strings.Cut(line, `"template":"`)
	text, _, _ = strings.Cut(text, `"`)
	return text
}

func templated(text string) *api.NewSubmission {
	return &api.NewSubmission{Chunks: api.Chunks{Count: 1, Template: text}}
}

// begin inserts in a goroutine of its own.
func (g *gate) begin(ctx context.Context, text string) <-chan error {
	done := make(chan error, 1)
	go func() {
		s, err := g.client.Insert(ctx, "default", templated(text))
		if err == nil && s.Queue != text {
			err = fmt.Errorf("the submission %q got the result of %q", text, s.Queue)
		}
		done <- err
	}()
	return done
}

// await lets others run until n inserts wait for the next call.
func (g *gate) await(n int) {
	for {
		g.client.shared.mu.Lock()
		waiting := len(g.client.shared.of["default"])
		g.client.shared.mu.Unlock()
		if waiting == n {
			return
		}
		runtime.Gosched()
	}
}

// While one call is under way the next gathers all inserts that come, up to a thousand, and each gets its own result. One that is refused
// in a shared call gets the refusal of a single insert.
func TestInsertsShareCalls(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	results := []<-chan error{g.begin(t.Context(), "first")}
	if lines := <-g.calls; len(lines) != 1 {
		t.Fatalf("the first call has %d submissions, want 1: no caller waits for others", len(lines))
	}
	const n = shareCount + 200
	for k := range n {
		results = append(results, g.begin(t.Context(), fmt.Sprint("text ", k)))
	}
	bad := g.begin(t.Context(), "bad")
	g.await(n + 1)
	for _, want := range []int{shareCount, n + 1 - shareCount} {
		g.answer <- echo
		lines := <-g.calls
		for len(lines) == 1 { // the bad one alone may come between
			g.answer <- echo
			lines = <-g.calls
		}
		if len(lines) != want {
			t.Errorf("a call has %d submissions, want %d", len(lines), want)
		}
	}
	go func() {
		g.answer <- echo
		for range g.calls { // the bad one alone, if it did not come before
			g.answer <- echo
		}
	}()
	t.Cleanup(func() { close(g.calls) })
	for _, done := range results {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	var e *Error
	if err := <-bad; !errors.As(err, &e) || e.Code != api.CodeInvalid || e.RequestID == "" {
		t.Errorf("the invalid one got %v, want the refusal of a single insert", err)
	}
}

// Many submissions share a call only up to its bytes, and a large one waits for no other.
func TestSharedCallsAreBounded(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	results := []<-chan error{g.begin(t.Context(), "first")}
	<-g.calls
	large := g.begin(t.Context(), strings.Repeat("x", shareLarge))
	if lines := <-g.calls; len(lines) != 1 || len(lines[0]) < shareLarge {
		t.Errorf("a call of %d submissions goes beside the first one, want the large one alone", len(lines))
	}
	const each = shareLarge - 1000
	fit := shareBytes / (each + 100)
	for range fit + 20 {
		results = append(results, g.begin(t.Context(), strings.Repeat("y", each)))
	}
	g.await(fit + 20)
	g.answer <- echo
	g.answer <- echo
	if err := <-large; err != nil {
		t.Error(err)
	}
	lines := <-g.calls
	if size := len(strings.Join(lines, "\n")); len(lines) == fit+20 || size > shareBytes || size < shareBytes*9/10 {
		t.Errorf("a call has %d submissions of %d bytes in all, want nearly %d bytes", len(lines), size, shareBytes)
	}
	g.answer <- echo
	if rest := <-g.calls; len(rest)+len(lines) != fit+20 {
		t.Errorf("the next call has %d submissions, want %d", len(rest), fit+20-len(lines))
	}
	g.answer <- echo
	for _, done := range results {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// An insert whose caller leaves before the call begins is not in it. A caller that leaves while the call is under way harms no other
// insert. A call that fails fails for all that share it, and the next one does not notice.
func TestSharedCallsAndContexts(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	first := g.begin(t.Context(), "first")
	<-g.calls
	early, leave := context.WithCancel(t.Context())
	gone, stays := g.begin(early, "gone"), g.begin(t.Context(), "stays")
	g.await(2)
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("one whose caller left got %v, want %v", err, context.Canceled)
	}
	g.answer <- echo
	if err := <-first; err != nil {
		t.Error(err)
	}
	if lines := <-g.calls; len(lines) != 1 || templateOf(lines[0]) != "stays" {
		t.Errorf("the second call has %q, want the one whose caller stays", lines)
	}
	late, leaveLate := context.WithCancel(t.Context())
	under, last := g.begin(late, "under"), g.begin(t.Context(), "last")
	g.await(2)
	g.answer <- unavailable
	if err := <-stays; CodeOf(err) != api.CodeCommitFailed {
		t.Errorf("one whose call failed got %v, want %s", err, api.CodeCommitFailed)
	}
	<-g.calls
	leaveLate()
	if err := <-under; !errors.Is(err, context.Canceled) {
		t.Errorf("one whose caller left got %v, want %v", err, context.Canceled)
	}
	g.answer <- echo
	if err := <-last; err != nil {
		t.Errorf("one whose call another one left got %v", err)
	}
}

// A call that has to be tried again holds up no inserts: those that wait go on meanwhile.
func TestCallThatIsTriedAgainHoldsUpNone(t *testing.T) {
	t.Parallel()
	g := newGate(t, WithRetries(5))
	first := g.begin(t.Context(), "first")
	<-g.calls
	waits := g.begin(t.Context(), "waits")
	g.await(1)
	g.answer <- unavailable
	for got := false; !got; {
		lines := <-g.calls
		if got = templateOf(lines[0]) == "waits"; got {
			g.answer <- echo
		} else {
			g.answer <- unavailable // the first one again
		}
	}
	if err := <-waits; err != nil {
		t.Error(err)
	}
	go func() {
		for range g.calls {
			g.answer <- echo
		}
	}()
	t.Cleanup(func() { close(g.calls) })
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// Sixty-four goroutines insert one after the other each into a server that answers from memory, by calls of their own and shared.
func BenchmarkInsert64(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		echo(w, r, strings.Split(string(body), "\n"))
	}))
	defer server.Close()
	c, err := New(server.URL)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	var group sync.WaitGroup
	for k := range 64 {
		group.Go(func() {
			for range (b.N + k) / 64 {
				if _, err := c.Insert(b.Context(), "default", templated("x")); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// Answers are read with memory of answers before. None changes what was read before, or has anything of it.
func TestReadSubmissionKeepsNothing(t *testing.T) {
	t.Parallel()
	const long = `{"id":"7","queue":"a\u0062","state":"open","created_at":"2026-11-30T12:00:00Z","chunks":3,"priority":9,` +
		`"group":"g\n","meta":{"k\t":"v\u0021","n":5},"retry_backoff":{"initial_ms":5}}`
	first, err := readSubmission([]byte(long))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%+v", *first)
	for range 100 {
		if _, err := readSubmission([]byte(`{"id":"8","queue":"zz\u007a","state":"\u0063losed","meta":{"other\u0020":"\u0078\u0079"}`)); err == nil {
			t.Fatal("half an answer is no submission")
		}
		short, err := readSubmission([]byte(`{"id":"9","created_at":"2026-11-30T12:00:00Z"}`))
		if err != nil {
			t.Fatal(err)
		}
		if short.ID != "9" || short.Queue+short.State+short.Group != "" || short.Meta != nil || short.RetryBackoff != nil || short.Chunks+uint32(short.Priority) != 0 {
			t.Fatalf("an answer with an id alone is read as %+v", *short)
		}
	}
	if got := fmt.Sprintf("%+v", *first); got != want {
		t.Errorf("the first submission was %s and is now %s", want, got)
	}
}
