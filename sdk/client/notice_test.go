package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Each kind of trouble is logged once a minute, and then with how much more of it there was. Kinds are bounded.
func TestNoticesOncePerMinute(t *testing.T) {
	t.Parallel()
	var n notices
	now := time.Unix(1_000_000, 0)
	for step, want := range []struct {
		kind   string
		after  time.Duration
		missed int
		due    bool
	}{
		{"a", 0, 0, true}, {"a", time.Second, 0, false}, {"b", 0, 0, true}, {"a", 58 * time.Second, 0, false},
		{"a", time.Second, 2, true}, {"a", 0, 0, false}, {"a", time.Minute, 1, true}, {"a", time.Hour, 0, true},
	} {
		now = now.Add(want.after)
		if missed, due := n.due(want.kind, now); missed != want.missed || due != want.due {
			t.Errorf("step %d: got %d missed, due %t; want %+v", step, missed, due, want)
		}
	}
	logged := 0
	for i := range 10 * noticeKinds {
		if _, due := n.due(fmt.Sprint(i), now); due {
			logged++
		}
	}
	if logged > noticeKinds || len(n.kinds) > noticeKinds+1 {
		t.Errorf("of %d kinds in one moment %d were logged and %d are kept, want at most %d", 10*noticeKinds, logged, len(n.kinds), noticeKinds)
	}
	if _, due := n.due("new", now.Add(time.Minute)); !due || len(n.kinds) != 1 {
		t.Errorf("a minute later: due %t, with %d kinds kept; want true and 1", due, len(n.kinds))
	}
}

// Without an OnError a handler that always fails is logged, once, and its error cannot forge a line.
func TestWorkLogsByDefault(t *testing.T) {
	t.Parallel()
	f := newFake(t, 20, nil)
	var log bytes.Buffer // one goroutine writes at a time, and none after Work
	c := f.client(WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	stop := work(t, c, WorkOptions{Concurrency: 4, NoAttach: true}, func(_ context.Context, chunk *Chunk) ([]byte, error) {
		return nil, Permanent(errors.New("out of order\nlevel=ERROR msg=forged"))
	})
	f.wait(func() bool { return len(f.failed) == 20 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), `the handler failed: out of order\nlevel`) {
		t.Errorf("got %d lines, want 1 with the error quoted: %s", lines, &log)
	}
}

// A certificate that is not trusted ends the worker with its error, after one try and not in a loop. The error differs from that of a
// server that is away.
func TestWorkEndsByCertificate(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]*tls.Config{"the server's": nil, "none of ours": {ClientAuth: tls.RequireAnyClientCert}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSecure(t, config)
			trust := &tls.Config{}
			if config != nil {
				trust = s.trusting()
			}
			c := mustNew(t, s.URL, WithTLS(trust))
			err := c.Work(t.Context(), WorkOptions{OnError: func(error) {}}, nil)
			if !errors.Is(err, ErrNotTrusted) {
				t.Errorf("got %v, want ErrNotTrusted", err)
			}
			// A reserve and the stream take three. Over TLS 1.3 the server refuses a client after the client's
			// handshake, and on a busy machine its reset can overtake its alert: then the client tries again.
			if opened := s.opened.Load(); opened > 20 {
				t.Errorf("%d connections were made, want a few", opened)
			}
		})
	}
}

// A worker that is to end before any server has answered says so: it is not as if it had worked.
func TestWorkNeverReachedAServer(t *testing.T) {
	t.Parallel()
	c := mustNew(t, "http://127.0.0.1:1", WithRetries(0))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen errorsSeen
	err := c.Work(ctx, WorkOptions{OnError: func(err error) {
		seen.add(err)
		cancel()
	}}, nil)
	if err == nil || !strings.Contains(err.Error(), "the server never answered") || len(seen.all) == 0 {
		t.Errorf("got %v after %v, want that the server never answered", err, &seen)
	}
}
