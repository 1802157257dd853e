package web

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
)

// wallSetBack is a reading of the clocks as it is after someone set the wall clock back: only the monotonic clock went on. Package time
// cannot make one: the first word of a Time has the seconds of the wall clock above 30 bits of nanoseconds.
func wallSetBack(t time.Time, by time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) -= uint64(by/time.Second) << 30
	return t
}

// A clock that is set back by an hour keeps no token in use waiting. It does not let in a client that guesses tokens
// either, because waits count by the monotonic clock.
func TestPacesWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	start := time.Now()
	if back := wallSetBack(start, time.Hour); back.Sub(start) != 0 || start.UnixNano()-back.UnixNano() != int64(time.Hour) {
		t.Fatalf("wallSetBack: %v and %v", start, back)
	}
	var setBack atomic.Bool
	var passed atomic.Int64
	f := newFixtureSeeded(t, 1, func(s *Server) {
		s.auth.limits = access.Limits{PerSecond: 1}
		s.clock.began = start
		s.clock.now = func() time.Time {
			now := start.Add(time.Duration(passed.Load()))
			if setBack.Load() {
				now = wallSetBack(now, time.Hour)
			}
			return now
		}
	})
	_, text := f.token(engine.TokenRequest{Name: "ana", Scopes: access.Read})
	wrong := access.Text("aaaaaaaaaaaa", text[len(text)-52:])
	until := func(text string, status int) (last answer) {
		for range 100 {
			if last = f.as(text, whoami); last.status == status {
				return last
			}
		}
		t.Fatalf("no answer has the status %d; the last one: %d %s", status, last.status, last.body)
		return last
	}
	until(text, http.StatusTooManyRequests)
	until(wrong, http.StatusTooManyRequests)
	setBack.Store(true)
	for what, text := range map[string]string{"a token in use": text, "a wrong token": wrong} {
		got := f.as(text, whoami)
		if seconds, err := strconv.Atoi(got.header.Get("Retry-After")); got.status != http.StatusTooManyRequests || err != nil || seconds > 1 {
			t.Errorf("%s right after: %d, Retry-After %d, %v; want 429 and a second", what, got.status, seconds, err)
		}
	}
	passed.Store(int64(time.Second))
	if got := f.as(text, whoami); got.status != http.StatusOK {
		t.Errorf("a token in use a second later: %d %s", got.status, got.body)
	}
	if got := f.as(wrong, whoami); got.status != http.StatusUnauthorized {
		t.Errorf("a wrong token a second later: %d %s", got.status, got.body)
	}
}

// Nothing that was refused is let in once the clock is set back: an expired token, a rotated secret, a session that was over.
func TestWhatWasRefusedStaysRefused(t *testing.T) {
	t.Parallel()
	f := newClocked(t)
	id, rotated := f.token(engine.TokenRequest{Name: "boss", Scopes: access.Admin})
	_, expired := f.token(engine.TokenRequest{Name: "ana", Scopes: access.Read, Expires: queue.At(time.Now().Add(30 * time.Minute))})
	_, lasting := f.token(engine.TokenRequest{Name: "bo", Scopes: access.Read})
	session := f.login(lasting)
	if got := f.as(rotated, call{method: "POST", path: "/v1/tokens/" + id + "/rotate", body: "{}"}); got.status != 200 {
		t.Fatalf("rotate: %d %s", got.status, got.body)
	}
	check := func(when string, want map[string]int) {
		t.Helper()
		for text, want := range want {
			if got := f.as(text, whoami); got.status != want {
				t.Errorf("%s: the token %s: got %d, want %d", when, text[:15], got.status, want)
			}
		}
	}
	check("at first", map[string]int{expired: 200, rotated: 401, lasting: 200})
	f.later.Store(int64(2 * time.Hour))
	check("two hours later", map[string]int{expired: 401, rotated: 401, lasting: 200})
	f.holding(session, "two hours later", whoami, 401)
	f.later.Store(int64(-time.Hour))
	check("an hour before", map[string]int{expired: 401, rotated: 401, lasting: 200})
	f.holding(session, "an hour before", whoami, 401)
}

// A stream of the audit log goes on when the clock is set back: entries of the time from then on are sent, and not only those of the time
// after the last one.
func TestAuditStreamWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	f := newClocked(t)
	f.later.Store(int64(time.Hour))
	stream, err := auditing{engine: f.engine, clock: f.server.clock, nodes: f.server.forwarding}.newAuditStream(t.Context(), auditRequest{}, "")
	if err != nil {
		t.Fatal(err)
	}
	f.later.Store(0)
	f.do("PUT", "/v1/queues/late", `{}`, http.StatusCreated, nil)
	events, err := stream.next()
	if err != nil || len(events) == 0 {
		t.Errorf("after the clock was set back: %d bytes of events, %v; want the entry of the new queue", len(events), err)
	}
}
