package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// fake speaks the server's fixed shapes over a pile of chunks in memory, without any of a queue's rules: it shows how the
// client behaves on the wire. The tests against the real server are elsewhere.
type fake struct {
	t       *testing.T
	server  *httptest.Server
	opened  atomic.Int32 // connections
	before  func(w http.ResponseWriter, r *http.Request) bool
	results map[string]string // status by verb and index ("complete 3"), "ok" unless there

	mu       sync.Mutex
	cond     *sync.Cond
	ready    []uint32
	held     map[uint32]int // index -> attempt
	max      int            // most held at once
	done     map[uint32]string
	failed   map[uint32]api.FailItem
	fails    map[uint32]int
	extended map[uint32]int
	released []uint32
	calls    map[string]int
	asked    map[string]int // by verb and index
	closed   bool
}

// newFake starts a server with n ready chunks. before may answer a call instead.
func newFake(t *testing.T, n int, before func(w http.ResponseWriter, r *http.Request) bool) *fake {
	t.Helper()
	f := &fake{t: t, before: before, held: map[uint32]int{}, done: map[uint32]string{}, failed: map[uint32]api.FailItem{}, fails: map[uint32]int{},
		extended: map[uint32]int{}, calls: map[string]int{}, asked: map[string]int{}, results: map[string]string{}}
	f.cond = sync.NewCond(&f.mu)
	for i := range n {
		f.ready = append(f.ready, uint32(i))
	}
	f.server = httptest.NewUnstartedServer(f)
	f.server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			f.opened.Add(1)
		}
	}
	f.server.Start()
	t.Cleanup(func() {
		f.mu.Lock()
		f.closed = true
		f.cond.Broadcast()
		f.mu.Unlock()
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}

func (f *fake) client(options ...Option) *Client {
	f.t.Helper()
	c, err := New(f.server.URL, options...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(c.Close)
	return c
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.before != nil && f.before(w, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	verb := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[verb]++
	f.cond.Broadcast()
	answer, err := f.answer(r.Context(), verb, body)
	switch {
	case err != nil:
		writeProblem(w, api.Problem{Title: "Invalid", Status: 422, Code: api.CodeInvalid, Detail: err.Error()})
	case answer == nil:
		w.WriteHeader(http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer.Append(nil))
		f.cond.Broadcast()
	}
}

// answer does one call; a verb that it does not know has no answer.
func (f *fake) answer(ctx context.Context, verb string, body []byte) (appender, error) {
	switch verb {
	case "reservations":
		var q wire.ReserveRequest
		err := q.Decode(body)
		if err == nil && q.WaitMS > 0 {
			f.await(ctx)
		}
		if ctx.Err() != nil {
			f.calls["broken off"]++
			f.cond.Broadcast()
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		answer := f.reserve(q.Max)
		return &answer, nil
	case "exchange":
		var q wire.ExchangeRequest
		if err := q.Decode(body); err != nil {
			return nil, err
		}
		answer := &wire.ExchangeResponse{Complete: f.complete(q.Complete), Fail: f.fail(q.Fail), Extend: f.extend(q.Extend)}
		if q.HasReserve {
			answer.ReserveResponse = f.reserve(q.Reserve.Max)
		}
		return answer, nil
	case "complete":
		var q wire.CompleteRequest
		err := q.Decode(body)
		return &wire.ResultsResponse{Results: f.complete(q.Items)}, err
	case "fail":
		var q wire.FailRequest
		err := q.Decode(body)
		return &wire.ResultsResponse{Results: f.fail(q.Items)}, err
	case "extend":
		var q wire.ExtendRequest
		err := q.Decode(body)
		return &wire.ResultsResponse{Results: f.extend(q.Items)}, err
	case "release":
		var q wire.ReleaseRequest
		err := q.Decode(body)
		return &wire.ResultsResponse{Results: f.release(q.Items)}, err
	}
	return nil, nil
}

// await waits for a ready chunk or the end of the call.
func (f *fake) await(ctx context.Context) {
	defer context.AfterFunc(ctx, func() {
		f.mu.Lock() // so that the broadcast cannot fall between the look at ctx and the wait
		defer f.mu.Unlock()
		f.cond.Broadcast()
	})()
	for len(f.ready) == 0 && !f.closed && ctx.Err() == nil {
		f.cond.Wait()
	}
}

func (f *fake) release(items []wire.ReleaseItem) (results []wire.Result) {
	for _, item := range items {
		index := tokenIndex(item.Token)
		delete(f.held, index)
		f.released = append(f.released, index)
		results = append(results, wire.Result{Status: "ok"})
	}
	return results
}

func (f *fake) reserve(most int) (answer wire.ReserveResponse) {
	for len(f.ready) > 0 && len(answer.Reservations) < most {
		index := f.ready[0]
		f.ready = f.ready[1:]
		f.held[index] = f.fails[index] + 1
		answer.Reservations = append(answer.Reservations, wire.Reservation{
			Token: token(index), Submission: 72057594037927936, Index: index, Attempt: uint32(f.held[index]), Deadline: 1_800_000_000_000,
			ReadyAt: 1_700_000_000_000,
			Content: fmt.Appendf(nil, "row %d", index), Meta: wire.AppendMetaEntry(nil, "company", api.Int(int64(index%3))), Priority: 7,
		})
	}
	f.max = max(f.max, len(f.held))
	if len(answer.Reservations) == 0 {
		answer.Reason = api.ReasonNothing
	}
	return answer
}

// token is a token that carries its index.
func token(index uint32) []byte { return fmt.Appendf(nil, "%043d", index) }

func tokenIndex(token []byte) uint32 {
	n, err := strconv.ParseUint(string(token), 10, 32)
	if err != nil || len(token) != 43 {
		return 1<<32 - 1
	}
	return uint32(n)
}

func (f *fake) status(verb string, index uint32) wire.Result {
	name := fmt.Sprintf("%s %d", verb, index)
	f.asked[name]++
	if status := f.results[name]; status != "" {
		return wire.Result{Status: status, Code: "reservation_lost", Detail: "as the test wants"}
	}
	if _, ok := f.held[index]; !ok {
		return wire.Result{Status: api.StatusUnknown, Code: "unknown_token"}
	}
	return wire.Result{Status: api.StatusOK}
}

func (f *fake) complete(items []wire.CompleteItem) (results []wire.Result) {
	for _, item := range items {
		index := tokenIndex(item.Token)
		result := f.status("complete", index)
		if result.Status == api.StatusOK {
			delete(f.held, index)
			f.done[index] = string(item.Output)
		}
		results = append(results, result)
	}
	return results
}

func (f *fake) fail(items []wire.FailItem) (results []wire.Result) {
	for _, item := range items {
		index := tokenIndex(item.Token)
		result := f.status("fail", index)
		if result.Status == api.StatusOK {
			delete(f.held, index)
			kept := api.FailItem{Error: string(item.Error), Fatal: item.Fatal}
			if item.HasRetryAfter {
				kept.RetryAfterMS = &item.RetryAfterMS
			}
			f.failed[index] = kept
			if f.fails[index]++; !item.Fatal {
				f.ready = append(f.ready, index)
			}
		}
		results = append(results, result)
	}
	return results
}

func (f *fake) extend(items []wire.ExtendItem) (results []wire.Result) {
	for _, item := range items {
		index := tokenIndex(item.Token)
		f.extended[index]++
		result := f.status("extend", index)
		if result.Status == api.StatusOK {
			result.Deadline = 1_800_000_060_000
		}
		results = append(results, result)
	}
	return results
}

// wait blocks until the condition holds; it is asked again after every call.
func (f *fake) wait(condition func() bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !condition() {
		f.cond.Wait()
	}
}

func writeProblem(w http.ResponseWriter, p api.Problem) {
	w.Header().Set("Content-Type", api.ProblemContentType)
	w.WriteHeader(p.Status)
	fmt.Fprintf(w, `{"type":"about:blank","title":%q,"status":%d,"code":%q,"detail":%q,"request_id":"r-1","errors":[{"pointer":"/max","detail":"is required"}]}`, p.Title, p.Status, p.Code, p.Detail)
}

// script is a server that answers connections byte for byte: the n-th request gets the n-th answer (the last one over and
// over), written in pieces of the given size. An empty answer closes the connection.
func script(t *testing.T, piece int, answers ...string) (address string, requests func() []string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var seen []string
	var running sync.WaitGroup
	t.Cleanup(func() { listener.Close(); running.Wait() })
	running.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer connection.Close()
				for {
					request := readRequest(connection)
					if request == "" {
						return
					}
					mu.Lock()
					answer := answers[min(len(seen), len(answers)-1)]
					seen = append(seen, request)
					mu.Unlock()
					if answer == "" {
						return
					}
					for rest := []byte(answer); len(rest) > 0; {
						n := min(piece, len(rest))
						if _, err := connection.Write(rest[:n]); err != nil {
							return
						}
						rest = rest[n:]
					}
					if !strings.Contains(answer, "Content-Length") && !strings.Contains(answer, "chunked") {
						return // such an answer ends with the connection
					}
				}
			})
		}
	})
	return "http://" + listener.Addr().String(), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), seen...)
	}
}

// readRequest reads one request with a Content-Length, "" at the end.
func readRequest(r io.Reader) string {
	var head []byte
	one := make([]byte, 1)
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		if _, err := io.ReadFull(r, one); err != nil {
			return ""
		}
		head = append(head, one[0])
	}
	_, after, _ := strings.Cut(string(head), "Content-Length: ")
	length, _, _ := strings.Cut(after, "\r\n")
	n, err := strconv.Atoi(length)
	if err != nil {
		return ""
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return ""
	}
	return string(head) + string(body)
}
