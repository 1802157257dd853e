package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// reportedScenarios are for workers that go wrong: people can read of it without a callback, and the log stays
// short.
var reportedScenarios = []Scenario{
	{
		Name: "crash-reported", Sequential: true,
		About: "Of a handler that fails by a bug the server is told the text and the place; the client logs " +
			"the first failure and not all of them.",
		Options: Options{Concurrency: 4, Prefetch: 4, Log: true},
		Chunks:  repeated("crash "+oddities, 20),
		Play: func(s *stage) {
			s.awaitDone()
			s.do(func() {
				s.checkEach(2)
				for i, c := range s.chunks {
					if len(c.fails) != 1 {
						s.accuse("chunk %d failed as %+v, want once", i, c.fails)
						continue
					}
					for _, word := range []string{oddity(i), "crash"} {
						text := c.fails[0].Error
						s.check(strings.Contains(text, word), "chunk %d failed with %q, want %q in it", i, text, word)
					}
				}
			})
			s.leave()
			s.do(func() {
				logged := 0
				for i := range s.chunks {
					if s.logged(oddity(i)) > 0 {
						logged++
					}
				}
				s.check(logged == 1, "it logged the failures of %d chunks, want 1 of these %d, which are of one kind", logged,
					len(s.chunks))
			})
		},
	},
	{
		Name: "away-reported", Sequential: true,
		About: "A server that does not answer is waited for, and the client logs its address: once for each " +
			"kind of trouble and not for every try. A worker that never reached a server ends with the error.",
		Options: Options{Addresses: []string{nowhere}, Log: true},
		Play: func(s *stage) {
			s.await("the client logs the address", func() bool { return s.logged(s.nowhere) > 0 })
			s.pass(3 * time.Second)
			s.do(func() {
				n := s.logged(s.nowhere)
				s.check(n <= 3, "it logged the address %d times in three seconds, want at most 3", n)
			})
			s.terminate()
			s.awaitError()
		},
	},
	{
		Name: "untrusted", Sequential: true,
		About: "A server whose certificate is not trusted ends the worker with an error, after a few connections " +
			"and not in a loop.",
		Options: Options{Addresses: []string{untrusted}},
		Play: func(s *stage) {
			s.awaitError()
			s.do(func() {
				s.check(s.handshakes <= 4, "it connected %d times to a server that it does not trust, want at most 4", s.handshakes)
			})
		},
	},
	{
		Name: "wrong-strategy", Sequential: true,
		About: "A strategy that the server refuses ends the worker with the error, after one try.",
		Before: func(s *server) {
			for range 10 {
				s.faults = append(s.faults, refuse("reserve", http.StatusUnprocessableEntity, api.CodeInvalid, 0))
			}
		},
		Play: func(s *stage) {
			s.awaitLine("error 422 invalid")
			s.awaitExit(1)
			s.do(func() { s.check(s.count("reserve") == 1, "it reserved %d times, want once", s.count("reserve")) })
		},
	},
}

// oddities are the errors of handlers that crash: no one is a part of another.
const oddities = "oddity-%d."

func oddity(i int) string { return fmt.Sprintf(oddities, i) }

// strange is the untrusted server.
func (s *stage) strange() *httptest.Server {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it would print each handshake that fails
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.mu.Lock()
			s.handshakes++
			s.mu.Unlock()
		}
	}
	server.StartTLS()
	return server
}

// logged counts the lines of the client's standard error that have a text.
func (s *stage) logged(text string) (n int) {
	for line := range strings.Lines(s.stderr.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// awaitError waits until the worker has ended by itself with an error that is no answer of the server.
func (s *stage) awaitError() {
	s.await("the client says error", func() bool {
		return slices.ContainsFunc(s.lines, func(line string) bool { return strings.HasPrefix(line, "error ") })
	})
	s.awaitExit(1)
}
