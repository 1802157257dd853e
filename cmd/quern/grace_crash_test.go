package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// relay is an address that stays while servers come and go behind it.
type relay struct {
	listener net.Listener
	target   atomic.Pointer[string] // host:port
}

func newRelay(t *testing.T) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	r := &relay{listener: listener}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go r.pass(conn)
		}
	}()
	return r
}

func (r *relay) url() string { return "http://" + r.listener.Addr().String() }

// pass joins a connection with the server of the moment. When one end is gone, so is the other.
func (r *relay) pass(conn net.Conn) {
	defer conn.Close()
	target := r.target.Load()
	if target == nil {
		return
	}
	server, err := net.Dial("tcp", *target)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, conn)
		server.Close()
		conn.Close()
	}()
	_, _ = io.Copy(conn, server)
}

// truth records which chunks each worker really has, as only the workers know it.
type truth struct {
	t       *testing.T
	still   sync.RWMutex // held for writing while no handler may begin or end
	mu      sync.Mutex
	running map[int64]int // by company
	most    map[int64]int
	has     [graceWorkers]map[string]bool // chunks that a worker received and whose handler has not ended
	calls   *sync.WaitGroup               // that may bring chunks, of this life of the server
	done    int
}

const graceWorkers = 6

// begin notes that a handler works on a chunk of a company.
func (o *truth) begin(company int64) {
	o.still.RLock()
	defer o.still.RUnlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running[company]++
	o.most[company] = max(o.most[company], o.running[company])
	if o.running[company] > crashLimit {
		o.t.Errorf("%d chunks of company %d are worked on at once, the limit is %d", o.running[company], company, crashLimit)
	}
}

// end notes that a handler no longer works on it.
func (o *truth) end(worker int, chunk string, company int64) {
	o.still.RLock()
	defer o.still.RUnlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running[company]--
	delete(o.has[worker], chunk)
	o.done++
}

// ended waits for the calls of a life that is over. Afterwards each chunk that this life handed out and that its worker received is in has.
func (o *truth) ended() {
	o.mu.Lock()
	calls := o.calls
	o.calls = new(sync.WaitGroup)
	o.mu.Unlock()
	calls.Wait()
}

// receiver is the transport of a worker. It notes what an answer brings before the worker sees it: a chunk whose handler has yet to
// begin is the worker's already.
type receiver struct {
	*http.Transport
	o      *truth
	worker int
}

func (r *receiver) RoundTrip(request *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(request.URL.Path, "/reservations") && !strings.HasSuffix(request.URL.Path, "/exchange") {
		return r.Transport.RoundTrip(request)
	}
	r.o.mu.Lock()
	calls := r.o.calls
	calls.Add(1)
	r.o.mu.Unlock()
	defer calls.Done()
	response, err := r.Transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	var got crashReserved
	if response.StatusCode == http.StatusOK {
		if err := json.Unmarshal(body, &got); err != nil {
			return nil, err
		}
	}
	r.o.mu.Lock()
	defer r.o.mu.Unlock()
	for _, chunk := range got.Reservations {
		r.o.has[r.worker][chunkName(chunk.Submission, chunk.Index)] = true
	}
	return response, nil
}

func chunkName(submission string, index int) string { return fmt.Sprint(submission, "/", index) }

// With a restart grace a limit holds for the workers that really work, though the server is killed with SIGKILL again and again: they have
// their chunks again before anything that the limit counts is handed out.
//
//quern:killing
func TestLimitHoldsThroughKillNine(t *testing.T) {
	t.Parallel()
	rounds, seed := int(envNumber(t, "QUERN_GRACE_ROUNDS", 12)), envNumber(t, "QUERN_CRASH_SEED", rand.Uint64())
	if testing.Short() {
		rounds = 4
	}
	t.Logf("rounds %d, seed %d", rounds, seed)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program = quernLink(t, program)
	dir, front := t.TempDir(), newRelay(t)
	o := &truth{t: t, running: map[int64]int{}, most: map[int64]int{}, calls: new(sync.WaitGroup)}
	for worker := range o.has {
		o.has[worker] = map[string]bool{}
	}
	rnd := rand.New(rand.NewPCG(seed, 3))
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer stop()
	for round := range rounds {
		s, err := startServer(program, os.Environ(), dir, "--ballast-bytes", "1MiB")
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		address := s.url[len("http://"):]
		c, err := client.New(s.url)
		if err != nil {
			t.Fatal(err)
		}
		o.round(ctx, c, round)
		front.target.Store(&address)
		if round == 0 {
			for i := range graceWorkers {
				group.Go(func() { o.work(ctx, front.url(), i, seed) })
			}
		}
		if round > 0 {
			o.resume(ctx, c, round)
		}
		timer := time.NewTimer(time.Duration(100+rnd.IntN(400)) * time.Millisecond)
		<-timer.C
		o.grace(ctx, c, queue.MaxRestartGrace) // for the life after this one
		c.Close()
		if round == rounds-1 {
			stop()
			group.Wait()
		}
		o.still.Lock() // until the server knows of all of it again
		_ = s.end(syscall.SIGKILL)
		o.ended()
	}
	if o.done < rounds {
		t.Errorf("%d chunks were worked on in %d rounds: that shows nothing", o.done, rounds)
	}
	for company := range int64(3) {
		if o.most[company] != crashLimit {
			t.Errorf("of company %d at most %d chunks were worked on at once: the limit of %d was never tried", company, o.most[company], crashLimit)
		}
	}
}

// round inserts work and, from the second life on, sees that the limit keeps everything back.
func (o *truth) round(ctx context.Context, c *client.Client, round int) {
	if round == 0 {
		for company := range int64(3) {
			_, err := c.Insert(ctx, "default", &api.NewSubmission{Meta: api.Meta{"company": api.Int(company)}, Chunks: api.Chunks{Count: 1_000_000, Template: "{index}"}})
			if err != nil {
				o.t.Fatal(err)
			}
		}
		return
	}
	got, err := c.Reserve(ctx, "default", &api.ReserveRequest{Max: 1, Strategy: []byte(graceStrategy)})
	if err != nil || len(got.Reservations) != 0 || *got.Reason != api.ReasonRestartGrace || got.RetryAfterMS == nil {
		o.t.Fatalf("round %d: a reserve under the limit got %+v, %v; want none, because of the restart grace", round, got, err)
	}
}

const graceStrategy = `"MaxSimultaneous(\"company\", 3, Random)"`

// resume waits until the server knows again of all chunks that workers have, and then cuts the grace short. Meanwhile no handler ends, and
// the grace hands out nothing, so that the workers' chunks stay the same.
func (o *truth) resume(ctx context.Context, c *client.Client, round int) {
	patient := time.Now().Add(2 * time.Minute)
	for worker, has := range o.has {
		for len(has) > 0 {
			d, err := c.Consumer(ctx, "default", workerName(worker), "", 0)
			if err != nil && client.CodeOf(err) != api.CodeUnknownConsumer {
				o.t.Fatalf("round %d: %v", round, err)
			}
			if err == nil && d.State == api.ConsumerAttached && d.Reserved == uint64(len(has)) {
				break
			}
			if time.Now().After(patient) {
				o.still.Unlock()
				o.t.Fatalf("round %d: %s has %v, and the server knows of %+v (%v)", round, workerName(worker), has, d, err)
			}
		}
	}
	o.grace(ctx, c, 0)
	o.still.Unlock()
}

func workerName(number int) string { return fmt.Sprint("worker-", number) }

func (o *truth) grace(ctx context.Context, c *client.Client, d time.Duration) {
	ms := d.Milliseconds()
	if _, err := c.PutQueue(ctx, "default", api.QueueSettingsInput{RestartGraceMS: &ms}); err != nil {
		o.t.Fatal(err)
	}
}

// work is one worker, which lives through all of it.
func (o *truth) work(ctx context.Context, url string, number int, seed uint64) {
	transport := &receiver{Transport: &http.Transport{}, o: o, worker: number}
	defer transport.CloseIdleConnections()
	c, err := client.New(url, client.WithHTTPClient(&http.Client{Transport: transport}))
	if err != nil {
		o.t.Error(err)
		return
	}
	defer c.Close()
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, uint64(number)))
	working, end := context.WithCancel(ctx)
	defer end()
	err = c.Work(working, client.WorkOptions{
		Consumer: workerName(number), Concurrency: 3, Prefetch: -1, Strategy: `MaxSimultaneous("company", 3, Random)`, Timeout: time.Hour, Grace: time.Millisecond,
	}, func(ctx context.Context, chunk *client.Chunk) ([]byte, error) {
		company := chunk.Meta["company"].Int()
		o.begin(company)
		defer o.end(number, chunkName(chunk.Submission, int(chunk.Index)), company)
		mu.Lock()
		timer := time.NewTimer(time.Duration(20+rnd.IntN(600)) * time.Millisecond)
		mu.Unlock()
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	if err != nil && ctx.Err() == nil {
		o.t.Errorf("worker %d: %v", number, err)
	}
}
