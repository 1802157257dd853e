package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// The figures of one single's life come out on a small scale, and are those of singles that were inserted, done, and are in the history.
func TestSinglesLifeOnASmallScale(t *testing.T) {
	t.Parallel()
	r := &run{options: options{dir: t.TempDir(), progress: func(string) {}}, report: &report{}}
	if err := singlesLife(t.Context(), r, 3000); err != nil {
		t.Fatal(err)
	}
	for _, got := range r.report.Results {
		if got.Value <= 0 && got.Name != "jobs_memory" { // other tests' memory is in that
			t.Errorf("%s is %g, want more than 0", got.Name, got.Value)
		}
	}
	if len(r.report.Results) != 3 {
		t.Errorf("there are %d figures, want 3", len(r.report.Results))
	}
}

// A floor reads the requests and repeats the server's answers. The figure is compared with it.
func TestFloorRepeatsAnswers(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked.Add(1)
		answer := fmt.Sprintf("%s got %d bytes", r.URL.Path, len(body))
		w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan error)
	go func() { ended <- serveFloor(ctx, write, repeatAnswers()) }()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	at := func(url string) *serveProcess {
		return &serveProcess{address: strings.TrimPrefix(strings.TrimSpace(url), "http://")}
	}
	ours, floor := at(server.URL), at(line)
	wrong := ""
	f := rated{name: "figure", unit: "calls/s", floor: "floor", clients: 2, paths: []string{"/a"}, work: func(s *serveProcess, more func() bool, count *atomic.Int64) error {
		l, err := s.dial()
		if err != nil {
			return err
		}
		defer l.close()
		for more() {
			answer, err := l.post("/a", []byte("four"))
			if err != nil {
				return err
			}
			if string(answer) != "/a got 4 bytes" {
				wrong = string(answer)
			}
			count.Add(1)
		}
		return nil
	}}
	if err := ours.teach(floor, &f); err != nil {
		t.Fatal(err)
	}
	before := asked.Load()
	calls := 0
	if err := f.work(floor, func() bool { calls++; return calls <= 10 }, new(atomic.Int64)); err != nil {
		t.Fatal(err)
	}
	if wrong != "" || asked.Load() != before {
		t.Errorf("the floor answers %q, and asked the server %d times", wrong, asked.Load()-before)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// An exchange that is answered with 503 is sent again with the same tokens, and counted. Chunks that the first one completed count as
// completed.
func TestExchangesRepeat(t *testing.T) {
	t.Parallel()
	answers := []struct {
		status int
		text   string
	}{
		{200, `{"complete":[],"reservations":[{"token":"one"}]}`},
		{503, `{"code":"commit_failed"}`},
		{200, `{"complete":[{"status":"already"}],"reservations":[{"token":"two"}]}`},
		{200, `{"complete":[{"status":"already"}],"reservations":[]}`},
	}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if token := []string{"", "one", "one", "two"}[asked]; !strings.Contains(string(body), token) {
			t.Errorf("exchange %d is %s; want the token %q", asked+1, body, token)
		}
		answer := answers[asked]
		asked++
		w.Header().Set("Content-Length", fmt.Sprint(len(answer.text)))
		w.WriteHeader(answer.status)
		fmt.Fprint(w, answer.text)
	}))
	defer server.Close()
	repeated, count := 0, atomic.Int64{}
	s := &serveProcess{address: strings.TrimPrefix(server.URL, "http://"), repeats: func() { repeated++ }}
	err := s.exchanges("/", 1, func() bool { return asked < len(answers) }, &count)
	if err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a completion that comes back as already without a 503 before it: %v", err)
	}
	if repeated != 1 || count.Load() != 1 || asked != len(answers) {
		t.Errorf("%d exchanges were repeated and %d chunks completed in %d; want 1, 1, %d", repeated, count.Load(), asked, len(answers))
	}
}
