package main

import (
	"bytes"
	"encoding/json"
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
)

// TestMain makes the test binary a client when it is asked to be one.
func TestMain(m *testing.M) {
	if os.Getenv("QUERN_NAIVE_CLIENT") != "" {
		naive(os.Args[1])
	}
	os.Exit(m.Run())
}

// The Go client passes every scenario.
func TestGoClientConforms(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "goclient")
	if out, err := exec.Command("go", "build", "-o", program, "./goclient").CombinedOutput(); err != nil {
		t.Fatalf("build the client: %v\n%s", err, out)
	}
	var report bytes.Buffer
	if failed := playAll(t.Context(), scenarios(), Full, 8, time.Minute, []string{program}, &report); failed > 0 { // they mostly wait: more at once than processors
		t.Errorf("%d scenarios failed:\n%s", failed, &report)
	}
}

// A client that works on one chunk at a time passes the tier sequential, and says so in the list of its scenarios.
func TestSequentialClientConforms(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("Python, which the example is written in, is not here")
	}
	var report bytes.Buffer
	if status := run(t.Context(), []string{"-tier", "sequential", "-at-once", "8", "-timeout", "1m", "python3", "sequential.py"}, &report, &report); status != 0 {
		t.Errorf("status %d:\n%s", status, &report)
	}
	passed := strings.Count(report.String(), "ok ")
	var all bytes.Buffer
	if status := run(t.Context(), []string{"-list"}, &all, &all); status != 0 || strings.Count(all.String(), " sequential ") != passed {
		t.Errorf("it passed %d scenarios; the list has\n%s", passed, &all)
	}
	if passed == 0 || strings.Count(all.String(), " full ") == 0 {
		t.Errorf("the tiers do not differ: %d passed\n%s", passed, &all)
	}
}

// A worker that does the least that brings work home (reserve, complete, again at once whatever the answer) fails the scenarios,
// each for the rule that it breaks.
func TestNaiveClientFails(t *testing.T) {
	t.Parallel()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"failures":       "chunk 1 failed as []",
		"snooze":         "want 300 once",
		"retry-after":    "before the end of the Retry-After",
		"impatient":      "a reserve came",
		"unavailable":    "calls in three seconds to a server that is away",
		"cut-exchange":   "the deadline of chunk",
		"unknown-queue":  "it reserved",
		"crash-reported": "chunk 0 failed as []",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, sc := range scenarios() {
				if sc.Name != name {
					continue
				}
				sc.Options.TimeoutMS = 500 // chunks that it loses come back soon
				err := play(t.Context(), &sc, Full, time.Minute, []string{"env", "QUERN_NAIVE_CLIENT=1", binary})
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want a judgement that has %q", err, want)
				}
			}
		})
	}
}

// naive is the client of TestNaiveClientFails.
func naive(argument string) {
	var o Options
	if json.Unmarshal([]byte(argument), &o) != nil {
		os.Exit(2)
	}
	post := func(path string, body, into any) int {
		text, err := json.Marshal(body)
		if err != nil {
			os.Exit(2)
		}
		request, err := http.NewRequest(http.MethodPost, o.Addresses[0]+"/v1/queues/default/"+path, bytes.NewReader(text))
		if err != nil {
			os.Exit(2)
		}
		request.Header.Set("Authorization", "Bearer "+o.Token)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0
		}
		defer answer.Body.Close()
		text, err = io.ReadAll(answer.Body)
		if err != nil || json.Unmarshal(text, into) != nil {
			return 0
		}
		return answer.StatusCode
	}
	for tries := 0; ; tries++ { // until it is killed
		var got api.ReserveResponse
		status := post("reservations", &api.ReserveRequest{Max: 1, Consumer: o.Consumer, WaitMS: 100, TimeoutMS: o.TimeoutMS}, &got)
		if status == http.StatusNotFound && tries > 5 {
			fmt.Println("error 404 unknown_queue")
			os.Exit(1)
		}
		for _, r := range got.Reservations {
			_, output, _ := strings.Cut(string(r.Content.Bytes), " ")
			done := api.ExchangeRequest{Complete: []api.CompleteItem{{Token: r.Token, Output: api.Bytes(output)}}}
			post("reservations/exchange", &done, &api.ExchangeResponse{})
		}
	}
}

// A client that hangs is given up after -timeout, not after the length of a scenario.
func TestClientThatHangs(t *testing.T) {
	t.Parallel()
	for _, sc := range scenarios() {
		if sc.Name != "plain" {
			continue
		}
		err := play(t.Context(), &sc, Full, 100*time.Millisecond, []string{"sh", "-c", "exec sleep 3600"})
		if err == nil || !strings.Contains(err.Error(), "waited too long") {
			t.Errorf("got %v, want that it waited too long", err)
		}
	}
	var said bytes.Buffer
	if status := run(t.Context(), []string{"-timeout", "0s", "client"}, io.Discard, &said); status != 2 || !strings.Contains(said.String(), "-timeout") {
		t.Errorf("a timeout of 0: status %d, %q", status, &said)
	}
	said.Reset()
	if status := run(t.Context(), []string{"-tier", "small", "client"}, io.Discard, &said); status != 2 || !strings.Contains(said.String(), "sequential") {
		t.Errorf("an unknown tier: status %d, %q", status, &said)
	}
}
