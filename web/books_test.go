package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
)

// After every call, the server counts as many held chunks as the clients have in their own books: in all, and of every
// value. No value is over the limit of the strategy, and no chunk is handed out twice. The clients close as soon as
// they have read an answer. A late answer's writer returns only after that, with an error, as happens by itself over
// HTTP/2.
func TestClientsBooks(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct {
		name string
		http int
		late bool
	}{
		{"HTTP1", 1, false},
		{"HTTP1 late", 1, true},
		{"HTTP2", 2, false},
		{"HTTP2 late", 2, true},
	} {
		for _, size := range []struct{ chunks, bytes int }{{1, 10}, {1, 9_000}, {200, 1_000}} {
			t.Run(fmt.Sprintf("%s, %d chunks of %d bytes", kind.name, size.chunks, size.bytes), func(t *testing.T) {
				t.Parallel()
				b := newBooks(t, kind.http, kind.late)
				for value := range (size.chunks + 1) / 2 {
					b.submit(value, 8, size.bytes)
				}
				for range 2 {
					b.reserve(size.chunks)
					b.compare()
					b.exchange(size.chunks)
					b.compare()
				}
			})
		}
	}
}

// A client that is gone before the first byte of its answer gets nothing, and the chunks that were reserved for it are
// ready at once.
func TestGoneBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	for below, body := range map[string]string{"": `{"max":3}`, "/exchange": `{"reserve":{"max":3}}`} {
		f := newFixture(t)
		f.insert(`{"chunks":{"count":5,"prefix":"a/"}}`)
		q := queueAt(f.engine, engine.DefaultQueue)
		leaves := leaving{t.Context(), func() bool { return q.Stats().Reserved > 0 }}
		r := httptest.NewRequestWithContext(leaves, "POST", "http://localhost"+reservePath+below, strings.NewReader(body))
		r.Header.Set("Content-Type", contentJSON)
		w := httptest.NewRecorder()
		f.server.Handler().ServeHTTP(w, r)
		if w.Code != statusClientGone || strings.Contains(w.Body.String(), "reservations") {
			t.Errorf("%s: got %d %s, want no answer", below, w.Code, w.Body)
		}
		if got := q.Stats(); got.Reserved != 0 || got.Ready != 5 || got.ReservedTotal != 3 || got.ReleasedTotal != 3 {
			t.Errorf("%s: got %+v, want 3 chunks reserved and given back", below, got)
		}
	}
}

// leaving is the context of a request whose client leaves at some moment.
type leaving struct {
	context.Context
	gone func() bool
}

func (l leaving) Err() error {
	if l.gone() {
		return context.Canceled
	}
	return nil
}

// On fresh servers under load, whose clients have a connection for each call and close it behind the answer, no limit is exceeded and no
// chunk is handed out twice.
//
//quern:overlapping
func TestFreshServers(t *testing.T) {
	t.Parallel()
	servers := 300
	if testing.Short() || raceDetector {
		servers = 30 // make guarantees has them all
	}
	for range servers {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			const values, each = 60, 20
			for i := range values {
				s.submit(fmt.Sprint(i), each)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var clients, others sync.WaitGroup
			for range 2 {
				others.Go(func() { s.load(ctx) })
			}
			ledger := &freshBooks{held: map[string]int{}, handed: map[string]bool{}}
			for range 4 {
				clients.Go(func() { ledger.consume(s) })
			}
			clients.Wait()
			cancel()
			others.Wait()
			if got := s.stats(); got.Reserved != uint64(len(ledger.handed)) || len(ledger.handed) != values*booksLimit {
				t.Errorf("clients hold %d chunks, the server says %d, want %d", len(ledger.handed), got.Reserved, values*booksLimit)
			}
		})
	}
}

// freshBooks are the chunks that the clients of one server hold.
type freshBooks struct {
	mu     sync.Mutex
	held   map[string]int // by value
	handed map[string]bool
}

// consume reserves until there is nothing more, with a connection for each call, which it closes as soon as it has the answer.
func (b *freshBooks) consume(s *shop) {
	for {
		transport := &http.Transport{}
		one := &shop{TB: s.TB, address: s.address, client: &http.Client{Transport: transport}}
		var got api.ReserveResponse
		err := one.ask(s.Context(), "POST", reservePath, request(booksStrategy, 40), &got)
		transport.CloseIdleConnections()
		if err != nil {
			s.Error(err)
		}
		if len(got.Reservations) == 0 {
			return
		}
		b.enter(s, got.Reservations)
	}
}

func (b *freshBooks) enter(s *shop, list []api.Reservation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range list {
		value, name := tenant(&list[i]), chunk(&list[i])
		if b.held[value]++; b.held[value] > booksLimit {
			s.Errorf("clients hold %d chunks of value %s; at most %d are allowed", b.held[value], value, booksLimit)
		}
		if b.handed[name] {
			s.Errorf("chunk %s was handed out twice", name)
		}
		b.handed[name] = true
	}
}

// load inserts into another queue and completes, until the context ends.
func (s *shop) load(ctx context.Context) {
	err := s.ask(ctx, "PUT", "/v1/queues/load", api.PutQueueRequest{}, nil)
	for err == nil {
		err = s.ask(ctx, "POST", "/v1/queues/load/submissions", submission(20), nil)
		var got api.ReserveResponse
		if err == nil {
			err = s.ask(ctx, "POST", "/v1/queues/load/reservations", request("Random", 20), &got)
		}
		var body api.CompleteRequest
		for i := range got.Reservations {
			body.Items = append(body.Items, api.CompleteItem{Token: got.Reservations[i].Token})
		}
		if err == nil && len(body.Items) > 0 {
			err = s.ask(ctx, "POST", "/v1/queues/load/reservations/complete", body, nil)
		}
	}
	if !errors.Is(err, context.Canceled) {
		s.Error(err)
	}
}

// booksLimit is how many chunks of a value may be held at once.
const booksLimit = 2

var booksStrategy = fmt.Sprintf(`MaxSimultaneous("t", %d, Random)`, booksLimit)

// books are the chunks that the clients of a server know that they hold.
type books struct {
	*fixture
	url    string
	client func() *http.Client
	ended  chan struct{} // receives when the handler of a reserve or an exchange has returned
	held   []api.Reservation
	handed map[string]bool // chunks
}

// newBooks serves over HTTP/1.1 or HTTP/2. The clients of HTTP/1.1 have a connection for each call, those of HTTP/2 share one.
func newBooks(t *testing.T, version int, late bool) *books {
	t.Helper()
	b := &books{fixture: newFixture(t), ended: make(chan struct{}, 1), handed: map[string]bool{}}
	server := b.server.listening(multiplexed(b.watch(late)))
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.url = "http://" + listener.Addr().String()
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	protocols := new(http.Protocols)
	protocols.SetHTTP1(version == 1)
	protocols.SetUnencryptedHTTP2(version == 2)
	fresh := func() *http.Client {
		transport := &http.Transport{Protocols: protocols}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	b.client = fresh
	if version == 2 {
		shared := fresh()
		b.client = func() *http.Client { return shared }
	}
	return b
}

// watch tells when the handlers of reserves and exchanges return.
func (b *books) watch(late bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if late {
			w = &lateWriter{w, r}
		}
		defer func() { b.ended <- struct{}{} }() // also when it cuts the connection
		b.server.echo.ServeHTTP(w, r)
	})
}

// lateWriter brings all of an answer to the client, and returns only when the client has gone.
type lateWriter struct {
	http.ResponseWriter
	r *http.Request
}

func (w *lateWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *lateWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	if err == nil {
		err = http.NewResponseController(w.ResponseWriter).Flush()
	}
	if err == nil {
		<-w.r.Context().Done()
		err = w.r.Context().Err()
	}
	return n, err
}

// submit inserts chunks of a value.
func (b *books) submit(value, chunks, size int) {
	b.Helper()
	content := make([]string, chunks)
	for i := range content {
		content[i] = fmt.Sprintf("%q", strings.Repeat("x", size))
	}
	b.insert(fmt.Sprintf(`{"meta":{"t":"%d"},"chunks":{"inline":[%s]}}`, value, strings.Join(content, ",")))
}

// reserve takes up to n chunks.
func (b *books) reserve(n int) {
	b.Helper()
	b.ask("", map[string]any{"max": n, "strategy": booksStrategy})
}

// exchange completes all that is held, and takes up to n chunks.
func (b *books) exchange(n int) {
	b.Helper()
	done := make([]api.CompleteItem, len(b.held))
	for i := range b.held {
		done[i].Token = b.held[i].Token
	}
	b.held = nil
	for i, result := range b.ask("/exchange", map[string]any{
		"complete": done, "reserve": map[string]any{"max": n, "strategy": booksStrategy},
	}).Complete {
		if result.Status != api.StatusOK {
			b.Errorf("complete of item %d: got %+v, want ok: the client held it", i, result)
		}
	}
}

// ask makes a call, closes as soon as the answer is read, and waits until the handler has noticed.
func (b *books) ask(below string, body any) (got api.ExchangeResponse) {
	b.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		b.Fatal(err)
	}
	client := b.client()
	response, err := client.Post(b.url+reservePath+below, contentJSON, bytes.NewReader(text))
	if err != nil {
		b.Fatal(err)
	}
	answer := make([]byte, response.ContentLength)
	if _, err := io.ReadFull(response.Body, answer); err != nil || response.StatusCode != http.StatusOK {
		b.Fatalf("%s: status %d, %v", below, response.StatusCode, err)
	}
	_ = response.Body.Close()
	if response.ProtoMajor == 1 {
		client.CloseIdleConnections()
	}
	<-b.ended
	if err := json.Unmarshal(answer, &got); err != nil {
		b.Fatal(err)
	}
	b.held = append(b.held, got.Reservations...)
	for i := range got.Reservations {
		name := chunk(&got.Reservations[i])
		if b.handed[name] {
			b.Errorf("chunk %s was handed out twice", name)
		}
		b.handed[name] = true
	}
	return got
}

// compare holds the books against what the server says.
func (b *books) compare() {
	b.Helper()
	held := map[string]uint64{}
	for i := range b.held {
		value := tenant(&b.held[i])
		if held[value]++; held[value] > booksLimit {
			b.Errorf("clients hold %d chunks of value %s; at most %d are allowed", held[value], value, booksLimit)
		}
	}
	var stats api.Stats
	b.do("GET", "/v1/queues/default/stats", "", 200, &stats)
	if stats.Reserved != uint64(len(b.held)) || len(b.held) == 0 {
		b.Errorf("clients hold %d chunks, the server says that %d are reserved", len(b.held), stats.Reserved)
	}
	var page api.Page[api.ValueCount]
	b.do("GET", "/v1/queues/default/meta-keys/t/values?limit=1000", "", 200, &page)
	for i := range page.Items {
		value := page.Items[i].Value.String()
		if page.Items[i].InFlight != held[value] {
			b.Errorf("clients hold %d chunks of value %s, the server says %d", held[value], value, page.Items[i].InFlight)
		}
	}
}
