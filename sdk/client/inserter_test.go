package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// gate is a server that shows each call of many to the test, and answers when it is told how.
type gate struct {
	calls  chan []string // the lines of a call
	answer chan func(w http.ResponseWriter, lines []string)
}

func newGate(t *testing.T) (*gate, *Inserter) {
	t.Helper()
	g := &gate{calls: make(chan []string), answer: make(chan func(http.ResponseWriter, []string))}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		lines := strings.Split(string(body), "\n")
		g.calls <- lines
		(<-g.answer)(w, lines)
	}))
	t.Cleanup(server.Close)
	c, err := New(server.URL, WithRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return g, NewInserter(c, "default")
}

// echo answers each line with a submission whose queue is the line's template, and one whose template is "bad" as invalid.
func echo(w http.ResponseWriter, lines []string) {
	body := wire.AppendInsertResults(nil, len(lines), func(i int) wire.InsertResult {
		text := templateOf(lines[i])
		if text == "bad" {
			pointer := fmt.Sprintf("/submissions/%d/chunks", i)
			return wire.InsertResult{Status: api.InsertInvalid, Code: api.CodeInvalid, Detail: "is bad", Pointer: pointer}
		}
		return wire.InsertResult{Status: api.InsertCreated, Submission: wire.Submission{ID: uint64(i), Queue: text, State: "open"}}
	})
	w.Write(body)
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
func (g *gate) begin(ctx context.Context, i *Inserter, text string) <-chan error {
	done := make(chan error, 1)
	go func() {
		s, err := i.Insert(ctx, templated(text))
		if err == nil && s.Queue != text {
			err = fmt.Errorf("the submission %q got the result of %q", text, s.Queue)
		}
		done <- err
	}()
	return done
}

// await lets others run until n callers wait for the next call.
func (i *Inserter) await(n int) {
	for {
		i.mu.Lock()
		waiting := len(i.waiting)
		i.mu.Unlock()
		if waiting == n {
			return
		}
		runtime.Gosched()
	}
}

// While one call is under way the next gathers all who come, up to a thousand, and each gets its own result or error.
func TestInserterGathers(t *testing.T) {
	t.Parallel()
	g, i := newGate(t)
	results := []<-chan error{g.begin(t.Context(), i, "first")}
	if lines := <-g.calls; len(lines) != 1 {
		t.Fatalf("the first call has %d submissions, want 1: no caller waits for others", len(lines))
	}
	const n = gatherCount + 200
	for k := range n {
		results = append(results, g.begin(t.Context(), i, fmt.Sprint("text ", k)))
	}
	bad := g.begin(t.Context(), i, "bad")
	i.await(n + 1)
	for _, want := range []int{gatherCount, n + 1 - gatherCount} {
		g.answer <- echo
		if lines := <-g.calls; len(lines) != want {
			t.Errorf("a call has %d submissions, want %d", len(lines), want)
		}
	}
	g.answer <- echo
	for _, done := range results {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	var e *Error
	want := []api.ProblemError{{Pointer: "/chunks", Detail: "is bad"}}
	if err := <-bad; !errors.As(err, &e) || e.Code != api.CodeInvalid || !slices.Equal(e.Errors, want) {
		t.Errorf("the invalid one got %v, want /chunks is bad", err)
	}
	i.Close()
}

// Large submissions share a call only up to its bytes.
func TestInserterBoundsBytes(t *testing.T) {
	t.Parallel()
	g, i := newGate(t)
	results := []<-chan error{g.begin(t.Context(), i, "first")}
	<-g.calls
	for k := range 3 {
		results = append(results, g.begin(t.Context(), i, strings.Repeat(string(rune('a'+k)), gatherBytes/2-1000)))
	}
	i.await(3)
	for _, want := range []int{2, 1} {
		g.answer <- echo
		if lines := <-g.calls; len(lines) != want {
			t.Errorf("a call has %d submissions, want %d", len(lines), want)
		}
	}
	g.answer <- echo
	for _, done := range results {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// One who leaves before the call begins is not in it; one who leaves while it is under way harms no other. A call that fails fails for
// all who share it, and the next one does not notice. Close waits for those who are there and refuses others.
func TestInserterLeaveAndClose(t *testing.T) {
	t.Parallel()
	g, i := newGate(t)
	sent, leaveSent := context.WithCancel(t.Context())
	early, leaveEarly := context.WithCancel(t.Context())
	first := g.begin(sent, i, "first")
	<-g.calls
	gone, stays := g.begin(early, i, "gone"), g.begin(t.Context(), i, "stays")
	i.await(2)
	leaveEarly()
	leaveSent()
	for _, done := range []<-chan error{gone, first} {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("one who left got %v, want %v", err, context.Canceled)
		}
	}
	g.answer <- echo
	if lines := <-g.calls; len(lines) != 1 || templateOf(lines[0]) != "stays" {
		t.Errorf("the second call has %q, want the one who stays", lines)
	}
	last := g.begin(t.Context(), i, "last")
	i.await(1)
	closed := make(chan struct{})
	go func() { i.Close(); close(closed) }()
	g.answer <- func(w http.ResponseWriter, _ []string) {
		writeProblem(w, api.Problem{Status: http.StatusServiceUnavailable, Code: api.CodeCommitFailed})
	}
	<-g.calls
	if err := <-stays; CodeOf(err) != api.CodeCommitFailed {
		t.Errorf("one whose call failed got %v, want %s", err, api.CodeCommitFailed)
	}
	g.answer <- echo
	if err := <-last; err != nil {
		t.Errorf("one who came before Close got %v", err)
	}
	<-closed
	if _, err := i.Insert(t.Context(), templated("late")); !errors.Is(err, ErrInserterClosed) {
		t.Errorf("after Close: %v, want %v", err, ErrInserterClosed)
	}
}

// Sixty-four goroutines insert one after the other each, singly and through an Inserter, into a server that answers from memory.
func BenchmarkInserter64(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasSuffix(r.URL.Path, ":batch") {
			echo(w, strings.Split(string(body), "\n"))
			return
		}
		s := wire.Submission{ID: 1, Queue: "default", State: "open"}
		w.Write(s.Append(nil))
	}))
	defer server.Close()
	c, err := New(server.URL)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	i := NewInserter(c, "default")
	defer i.Close()
	for name, insert := range map[string]func() error{
		"singly":   func() error { _, err := c.Insert(b.Context(), "default", templated("x")); return err },
		"gathered": func() error { _, err := i.Insert(b.Context(), templated("x")); return err },
	} {
		b.Run(name, func(b *testing.B) {
			var group sync.WaitGroup
			for k := range 64 {
				group.Go(func() {
					for range (b.N + k) / 64 {
						if err := insert(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
		})
	}
}
