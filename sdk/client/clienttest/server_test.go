//quern:tests processes

package clienttest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
	"github.com/quern-queue/quern/sdk/client/clienttest"
)

// The tests run the program of this tree, as those of a user run an installed one.
func TestMain(m *testing.M) { os.Exit(built(m)) }

func built(m *testing.M) int {
	dir, err := os.MkdirTemp("", "clienttest-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "quern")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/quern-queue/quern/cmd/quern").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	os.Setenv("QUERN", program)
	return m.Run()
}

// reserve asks for one chunk, without waiting.
func reserve(t *testing.T, c *client.Client, strategy string) *api.ReserveResponse {
	t.Helper()
	got, err := c.Reserve(t.Context(), "default", &api.ReserveRequest{Max: 1, Consumer: "ana", Strategy: []byte(strategy), TimeoutMS: 3_600_000})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func insert(t *testing.T, c *client.Client, n api.NewSubmission) *api.Submission {
	t.Helper()
	s, err := c.Insert(t.Context(), "default", &n)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stepped asserts that a reserve gives nothing until the clock has moved by almost d, and a chunk after that.
func stepped(t *testing.T, server *clienttest.Server, d time.Duration, strategy, what string) *api.Reservation {
	t.Helper()
	server.Advance(d - 10*time.Second) // real time goes on as well
	if early := reserve(t, server.Client, strategy); len(early.Reservations) > 0 {
		t.Fatalf("%s: a chunk came early: %+v", what, early.Reservations)
	}
	server.Advance(20 * time.Second) // after a timeout, a chunk waits for its back-off of up to a second
	got := reserve(t, server.Client, strategy)
	if len(got.Reservations) != 1 {
		t.Fatalf("%s: nothing, as %s, for %d ms; want a chunk", what, *got.Reason, *got.RetryAfterMS)
	}
	return &got.Reservations[0]
}

const random, rated = `"Random"`, `"MaxRate(1, \"1h\", Random)"`

// A reservation times out, a delay and a back-off are over, a deadline passes, and a rate and a schedule give the next chunk: each when the
// clock has moved that far, and not before.
func TestTimeThatTheTestMoves(t *testing.T) {
	t.Parallel()
	server := clienttest.Start(t)
	c, began := server.Client, time.Now()

	s := insert(t, c, api.NewSubmission{Chunks: api.Chunks{Count: 1, Template: "a"}, MaxAttempts: 9,
		RetryBackoff: &api.Backoff{Kind: api.BackoffList, DelaysMS: []int64{0, 7_200_000}, Jitter: api.JitterNone}})
	first := reserve(t, c, random).Reservations[0]
	again := stepped(t, server, time.Hour, random, "a timeout")
	if late, err := c.Complete(t.Context(), "default", []api.CompleteItem{{Token: first.Token}}); err != nil || late[0].Status == api.StatusOK {
		t.Errorf("completion with the token that has timed out: %+v %v", late, err)
	}
	if failed, err := c.Fail(t.Context(), "default", []api.FailItem{{Token: again.Token, Error: "no luck"}}); err != nil || failed[0].Status != api.StatusOK {
		t.Fatalf("failure: %+v %v", failed, err)
	}
	stepped(t, server, 2*time.Hour, random, "a back-off")
	if _, err := c.Cancel(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}

	now := server.Advance(0)
	insert(t, c, api.NewSubmission{Chunks: api.Chunks{Count: 1, Template: "b"}, RunAt: api.At(now.Add(24 * time.Hour))})
	if got := stepped(t, server, 24*time.Hour, random, "a delay"); got.Submission == s.ID {
		t.Errorf("got the chunk of the cancelled submission: %+v", got)
	}

	dying := insert(t, c, api.NewSubmission{Chunks: api.Chunks{Count: 1, Template: "c"}, Priority: -1,
		DeadDeadline: api.At(server.Advance(0).Add(time.Hour))})
	server.Advance(time.Hour)
	if got, err := c.Get(t.Context(), dying.ID); err != nil || got.State != api.StateExpired {
		t.Errorf("past its deadline: %+v %v, want it expired", got, err)
	}

	insert(t, c, api.NewSubmission{Chunks: api.Chunks{Count: 3, Template: "d"}})
	reserve(t, c, rated)
	stepped(t, server, time.Hour, rated, "a rate")

	if _, err := c.PutSchedule(t.Context(), "default", "hourly", &api.ScheduleDefinition{Spec: "@every 1h", Overlap: "allow",
		Template: api.ScheduleTemplate{Chunks: api.Chunks{Count: 1, Template: "{scheduled_at}"}, Meta: api.Meta{"of": api.Text("schedule")}}}, client.Condition{}); err != nil {
		t.Fatal(err)
	}
	stepped(t, server, time.Hour, `"SelectOnly(\"of\", \"schedule\", Random)"`, "a schedule")
	if took := time.Since(began); took > time.Minute {
		t.Errorf("%s of real time passed", took)
	}
}

// A call that waits for work gets it when the clock moves: delayed chunks, chunks that timed out, and chunks that a rate allows.
func TestWhoWaitsIsServedWhenTheClockMoves(t *testing.T) {
	t.Parallel()
	server := clienttest.Start(t)
	c := server.Client
	insert(t, c, api.NewSubmission{Chunks: api.Chunks{Count: 2, Template: "a"}})
	reserve(t, c, `"MaxRate(1, \"10m\", Random)"`)
	waited(t, server, 20*time.Minute, `"MaxRate(1, \"10m\", Random)"`, "a rate") // before anything times out
	for len(reserve(t, c, random).Reservations) > 0 {                            // those that timed out meanwhile are held again
	}
	waited(t, server, 2*time.Hour, random, "a timeout")
}

// waited asserts that a call that waits gets a chunk when the clock has moved by d.
func waited(t *testing.T, server *clienttest.Server, d time.Duration, strategy, what string) {
	t.Helper()
	got := make(chan *api.ReserveResponse, 1)
	go func() {
		r, err := server.Client.Reserve(t.Context(), "default", &api.ReserveRequest{Max: 1, Consumer: "bo", Strategy: []byte(strategy), WaitMS: 60_000})
		if err != nil {
			t.Error(err)
		}
		got <- r
	}()
	for waiting := uint64(0); waiting == 0 && len(got) == 0; {
		stats, err := server.Client.Stats(t.Context(), "default")
		if err != nil {
			t.Fatal(err)
		}
		waiting = stats.ConsumersWaiting
	}
	if len(got) > 0 {
		t.Fatalf("%s: %+v, want that it waits", what, <-got)
	}
	asked := time.Now()
	server.Advance(d)
	if r := <-got; r == nil || len(r.Reservations) != 1 || time.Since(asked) > 30*time.Second {
		t.Errorf("%s: %+v after %s, want a chunk at once", what, r, time.Since(asked))
	}
}

// The clock only goes forward, and only of a server that was started with it. A server that is for others has no such option.
func TestClockIsForTestsOnly(t *testing.T) {
	t.Parallel()
	server := clienttest.Start(t)
	move := func(address, body string) (int, string) {
		answer, err := http.Post(address+"/dev/clock", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	for body, want := range map[string]int{`{"advance_ms": -1}`: 422, `{}`: 422, `{"advance_ms": 9000000000000000}`: 422, "x": 400, `{"advance_ms": 0}`: 200} {
		if got, text := move(server.Address, body); got != want {
			t.Errorf("%s: %d %s, want %d", body, got, text, want)
		}
	}
	if said := server.Log(); !strings.Contains(said, "POST /dev/clock moves its clock") {
		t.Errorf("the server does not say that its clock can be moved: %s", said)
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	plain := exec.CommandContext(ctx, os.Getenv("QUERN"), "dev", "--listen", "127.0.0.1:0")
	out, err := plain.StdoutPipe()
	if err == nil {
		err = plain.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var said, address string
	if _, err := fmt.Fscanf(out, "quern: %s %s", &said, &address); err != nil {
		t.Fatal(err)
	}
	if got, text := move(address, `{"advance_ms": 1}`); got != http.StatusNotFound {
		t.Errorf("without the option: %d %s", got, text)
	}
	stop()
	_ = plain.Wait()
	for _, args := range [][]string{
		{"serve", "--test-clock", "--data", t.TempDir()}, {"dev", "--test-clock", "--cluster", "postgres://127.0.0.1:1/q"},
		{"demo", "--test-clock"}, {"dev", "--test-clock", "--listen", "0.0.0.0:0"},
	} {
		if out, err := exec.Command(os.Getenv("QUERN"), args...).CombinedOutput(); err == nil || !strings.Contains(string(out), "flag") && !strings.Contains(string(out), "loopback only") {
			t.Errorf("%v: %v %s, want a refusal", args, err, out)
		}
	}
}

// Each server has data of its own, and is gone with its data when its test has ended.
func TestServerEndsWithItsTest(t *testing.T) {
	t.Parallel()
	var addresses []string
	t.Run("two", func(t *testing.T) {
		one, two := clienttest.Start(t), clienttest.Start(t)
		addresses = []string{one.Address, two.Address}
		insert(t, one.Client, api.NewSubmission{Chunks: api.Chunks{Count: 1, Template: "a"}})
		if got := reserve(t, two.Client, random); len(got.Reservations) > 0 {
			t.Errorf("the other server has the work: %+v", got)
		}
	})
	for _, address := range addresses {
		if answer, err := http.Get(address + "/readyz"); err == nil {
			answer.Body.Close()
			t.Errorf("%s still answers", address)
		}
	}
}

// failing is a test that may fail.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}
func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	panic(f)
}

// A test without a server fails, and says what to do.
func TestNoServer(t *testing.T) {
	for program, want := range map[string]string{
		"/nowhere/quern": "name it in the environment variable QUERN",
		"/bin/echo":      "the server did not start:\ndev --listen",
	} {
		t.Setenv("QUERN", program)
		f := &failing{TB: t}
		func() {
			defer func() { _ = recover() }()
			clienttest.Start(f)
		}()
		if !strings.Contains(f.said, want) {
			t.Errorf("%s: %q, want %q in it", program, f.said, want)
		}
	}
}
