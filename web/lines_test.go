//quern:overlapping
package web

import (
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A client that is refused again and again writes ten lines to the log, then one a second, of each kind of refusal; the lines and the numbers
// in them add up to all refusals, but for those since the last line, and a metric counts the lines that were left out.
func TestRefusedCallsAreLoggedAtAPace(t *testing.T) {
	t.Parallel()
	log := new(lockedBuffer)
	s := openServer(t)
	s.log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	start := time.Now()
	var passed atomic.Int64
	s.clock.began, s.clock.now = start, func() time.Time { return start.Add(time.Duration(passed.Load())) }
	address := serve(t, s)
	refuse := func(path string, times int) {
		t.Helper()
		for range times {
			if got := send(t, &http.Client{}, address, call{method: "GET", path: path}); got.status < 400 {
				t.Fatalf("%s: %d", path, got.status)
			}
		}
	}
	leftOut := regexp.MustCompile(`left_out=(\d+)`)
	expect := func(when, path string, lines, left int) {
		t.Helper()
		n, sum := 0, 0
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "path="+path+" ") {
				n++
				if found := leftOut.FindStringSubmatch(line); found != nil {
					of, _ := strconv.Atoi(found[1])
					sum += of
				}
			}
		}
		if n != lines || sum != left {
			t.Errorf("%s: %d lines about %s, which left out %d; want %d and %d", when, n, path, sum, lines, left)
		}
	}
	const one, other = "/v1/queues/nope", "/v1/nothing"
	refuse(one, 50)
	expect("at once", one, 10, 0)
	refuse(other, 1)
	expect("another kind", other, 1, 0)
	passed.Store(int64(time.Second))
	refuse(one, 5)
	expect("a second later", one, 11, 40)
	passed.Store(int64(time.Hour))
	refuse(one, 1)
	expect("an hour later", one, 12, 44)
	const counted = "\nquern_log_lines_left_out_total 44\n"
	if got := send(t, &http.Client{}, address, call{method: "GET", path: "/metrics"}); !strings.Contains(string(got.body), counted) {
		t.Errorf("the metrics lack %q: %s", counted, got.body)
	}
}

// All kinds together have a bound, too. It does not leave out the failures of the server, which have their own.
func TestLinesOfAllKindsAreBounded(t *testing.T) {
	t.Parallel()
	l := newLines()
	for _, ours := range []bool{false, true} {
		written := 0
		for i := range 1000 {
			if _, ok := l.take(lineKind{"op", strconv.Itoa(i), ours}, time.Hour); ok {
				written++
			}
		}
		if written != int(linesBurst/linesEvery) {
			t.Errorf("%d lines of 1,000 kinds were written at once, want %d", written, int(linesBurst/linesEvery))
		}
	}
}
