package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
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

// truth is who really works on what, as only the workers know it.
type truth struct {
	t       *testing.T
	still   sync.RWMutex // held for writing while nobody may begin or end
	mu      sync.Mutex
	running map[int64]int // by company
	most    map[int64]int
	by      map[int]int // by worker
	done    int
}

// change notes that a worker begins a chunk of a company (1), or no longer works on it (-1).
func (o *truth) change(worker int, company int64, change int) {
	o.still.RLock()
	defer o.still.RUnlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running[company] += change
	o.by[worker] += change
	o.most[company] = max(o.most[company], o.running[company])
	if o.running[company] > crashLimit {
		o.t.Errorf("%d chunks of company %d are worked on at once, the limit is %d", o.running[company], company, crashLimit)
	}
	if change < 0 {
		o.done++
	}
}

// now is how many chunks each worker works on, and how many were worked on before.
func (o *truth) now() (by map[int]int, done int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.by), o.done
}

// With a restart grace a limit holds for who really works, though the server is killed with SIGKILL again and again: workers that
// go on have their chunks again before anything that the limit counts is handed out.
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
	o := &truth{t: t, running: map[int64]int{}, most: map[int64]int{}, by: map[int]int{}}
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
			for i := range 6 {
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
	}
	if _, done := o.now(); done < rounds {
		t.Errorf("%d chunks were worked on in %d rounds: that shows nothing", done, rounds)
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

// resume waits until the server knows again of all that is worked on, and then cuts the grace short. A worker extends all it has in
// one call.
func (o *truth) resume(ctx context.Context, c *client.Client, round int) {
	by, _ := o.now()
	for worker, running := range by {
		for running > 0 {
			d, err := c.Consumer(ctx, "default", workerName(worker), "", 0)
			if err != nil && client.CodeOf(err) != api.CodeUnknownConsumer {
				o.t.Fatalf("round %d: %v", round, err)
			}
			if err == nil && d.State == api.ConsumerAttached && d.Reserved >= uint64(running) {
				break
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
	c, err := client.New(url)
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
		o.change(number, company, 1)
		defer o.change(number, company, -1)
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
