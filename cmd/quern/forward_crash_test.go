//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Chunks of the queue "work" fail for good while the server is killed with SIGKILL again and again; each goes on to the queue
// "dead", and a bulk operation carries some of another queue there. In the end every chunk that failed has exactly one copy.
//
// QUERN_CRASH_ROUNDS sets how often (default 8), QUERN_CRASH_SEED repeats a run's choices.
//
//quern:killing
func TestForwardKillNine(t *testing.T) {
	t.Parallel()
	rounds, seed := envNumber(t, "QUERN_CRASH_ROUNDS", 8), envNumber(t, "QUERN_CRASH_SEED", rand.Uint64())
	t.Logf("rounds %d, seed %d", rounds, seed)
	f := &forwarder{t: t, rnd: rand.New(rand.NewPCG(seed, 2)), program: quernProgram(t), dir: t.TempDir(), sent: map[string]bool{}, failed: map[string]bool{}}
	f.start()
	f.must("PUT", "/v1/queues/dead", `{}`, nil)
	for name, to := range map[string]string{"work": "dead", "kept": ""} {
		f.must("PUT", "/v1/queues/"+name, fmt.Sprintf(`{"settings":{"on_exhausted":"dead_letter","max_attempts":1,"dead_letter_queue":%q}}`, to), nil)
	}
	for round := range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for _, name := range []string{"work", "work", "kept"} {
			group.Go(func() { f.work(ctx, name) })
		}
		group.Go(func() { f.bulk(ctx) })
		pause := time.NewTimer(time.Duration(10+f.draw(120)) * time.Millisecond)
		<-pause.C
		_ = f.server.end(syscall.SIGKILL) // the exit status is "killed"
		cancel()
		group.Wait()
		if t.Failed() {
			t.Fatalf("seed %d, round %d", seed, round)
		}
		f.start()
	}
	f.settle()
	_ = f.server.end(syscall.SIGKILL)
}

// forwarder fails chunks and knows which failures were sent and acknowledged.
type forwarder struct {
	t       *testing.T
	program string
	dir     string
	server  *server
	mu      sync.Mutex
	rnd     *rand.Rand
	sent    map[string]bool // queue/submission/index, before the answer
	failed  map[string]bool // after it
	n       int
}

func (f *forwarder) start() {
	s, err := startServer(f.program, os.Environ(), f.dir, "--fold-bytes", "64KiB", "--ballast-bytes", "1MiB")
	if err != nil {
		f.t.Fatal(err)
	}
	f.server = s
}

func (f *forwarder) draw(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rnd.IntN(n)
}

// work inserts, reserves and fails for good.
func (f *forwarder) work(ctx context.Context, name string) {
	for ctx.Err() == nil {
		f.mu.Lock()
		f.n++
		chunks := fmt.Sprintf(`{"count":%d,"template":"row {index} of %d"}`, 1+f.rnd.IntN(8), f.n)
		if f.rnd.IntN(3) == 0 {
			chunks = fmt.Sprintf(`{"inline":["a %d","b %d"]}`, f.n, f.n)
		}
		f.mu.Unlock()
		if f.send(ctx, "POST", "/v1/queues/"+name+"/submissions", `{"chunks":`+chunks+`,"attachment":"with all of it"}`, nil) != nil {
			return
		}
		var got crashReserved
		if f.send(ctx, "POST", "/v1/queues/"+name+"/reservations", `{"max":20}`, &got) != nil {
			return
		}
		for _, r := range got.Reservations {
			chunk := fmt.Sprintf("%s/%s/%d", name, r.Submission, r.Index)
			f.note(f.sent, chunk)
			var answer struct{ Results []struct{ Status string } }
			if f.send(ctx, "POST", "/v1/queues/"+name+"/reservations/fail", fmt.Sprintf(`{"items":[{"token":%q,"error":"no","fatal":true}]}`, r.Token), &answer) != nil {
				return
			}
			if answer.Results[0].Status == "ok" {
				f.note(f.failed, chunk)
			}
		}
	}
}

func (f *forwarder) note(set map[string]bool, chunk string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set[chunk] = true
}

// bulk forwards the dead letters of "kept", a few at a time.
func (f *forwarder) bulk(ctx context.Context) {
	_ = f.send(ctx, "POST", "/v1/bulk-operations", `{"queue":"kept","action":"forward","to":"dead","rate_per_second":300}`, nil)
}

// send asks the server; a refusal but for too many operations fails the test.
func (f *forwarder) send(ctx context.Context, method, path, body string, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, f.server.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 && response.StatusCode != http.StatusServiceUnavailable && response.StatusCode != http.StatusTooManyRequests {
		f.t.Errorf("%s %s %s gave %s: %s", method, path, body, response.Status, text)
	}
	if into == nil || response.StatusCode/100 != 2 {
		return nil
	}
	return json.Unmarshal(text, into)
}

func (f *forwarder) must(method, path, body string, into any) {
	f.t.Helper()
	if err := f.send(f.t.Context(), method, path, body, into); err != nil {
		f.t.Fatal(err)
	}
}

// settle lets everything arrive and compares.
func (f *forwarder) settle() {
	for running := true; running; {
		running = false
		for _, name := range []string{"work", "kept"} {
			var s struct {
				Outgoing    uint64
				DeadLetters uint64 `json:"dead_letters"`
				Running     uint64 `json:"bulk_operations_running"`
			}
			f.must("GET", "/v1/queues/"+name+"/stats", "", &s)
			running = running || s.Outgoing > 0 || s.Running > 0 || s.DeadLetters > 0
			if name == "kept" && s.DeadLetters > 0 && s.Running == 0 { // those before took what had died when they were started
				f.must("POST", "/v1/bulk-operations", `{"queue":"kept","action":"forward","to":"dead"}`, nil)
			}
		}
	}
	copies, cursor := map[string]int{}, ""
	for {
		var page struct {
			Next  string
			Items []struct {
				ID            string
				ForwardedFrom struct {
					Queue, Submission string
					Index             int
				} `json:"forwarded_from"`
			}
		}
		f.must("GET", "/v1/queues/dead/submissions?limit=1000&cursor="+cursor, "", &page)
		for _, s := range page.Items {
			copies[fmt.Sprintf("%s/%s/%d", s.ForwardedFrom.Queue, s.ForwardedFrom.Submission, s.ForwardedFrom.Index)]++
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	for chunk := range f.failed {
		if copies[chunk] != 1 {
			f.t.Errorf("chunk %s, whose failure was acknowledged, has %d copies, want 1", chunk, copies[chunk])
		}
	}
	for chunk, n := range copies {
		if n != 1 || !f.sent[chunk] {
			f.t.Errorf("chunk %s has %d copies (its failure was sent: %v), want 1", chunk, n, f.sent[chunk])
		}
	}
	f.t.Logf("%d failures acknowledged, %d copies", len(f.failed), len(copies))
}
