package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// troubleScenarios are for workers whose server or network has a bad day.
var troubleScenarios = []Scenario{
	{
		Name: "retry-after", Sequential: true,
		About:   "429 and 503 with Retry-After are waited for, as long as they say, and then the call is made again.",
		Options: Options{Concurrency: 2, Prefetch: 2},
		Chunks:  repeated("echo %d", 12),
		Before: func(s *server) {
			s.faults = []fault{refuse("reserve", 429, api.CodeOverloaded, 1),
				refuse("exchange", 429, api.CodeOverloaded, 1), refuse("exchange", 503, api.CodeUnavailable, 2)}
		},
		Play: func(s *stage) { s.finish(1) },
	},
	{
		Name: "unavailable", Sequential: true,
		About: "502, 503 and 504 without Retry-After are tried again, with pauses that grow: at " +
			"most 30 tries in three seconds.",
		Chunks: repeated("echo %d", 4),
		Before: func(s *server) {
			for range 1000 {
				for _, verb := range []string{"reserve", "exchange"} {
					s.faults = append(s.faults, refuse(verb, 502, "", 0), refuse(verb, 503, api.CodeUnavailable, 0),
						refuse(verb, 504, "", 0))
				}
			}
		},
		Play: func(s *stage) {
			s.await("the client has started", func() bool { return s.count("reserve") > 0 })
			s.pass(3 * time.Second)
			s.do(func() {
				tries := s.count("reserve") + s.count("exchange")
				s.check(tries >= 2, "it made %d calls in three seconds, want at least 2", tries)
				s.check(tries <= 30, "it made %d calls in three seconds to a server that is away, want at most 30", tries)
				s.faults = nil
			})
			s.awaitDone()
			s.leave()
		},
	},
	{
		Name: "cut-exchange", Sequential: true,
		About: "An answer that breaks off in the middle is no answer: the same results are " +
			"reported again, and already is as good as ok.",
		Options: Options{Concurrency: 2, Prefetch: 2, TimeoutMS: 4000},
		Chunks:  repeated("echo %d", 12),
		Before:  func(s *server) { s.faults = []fault{cut("exchange"), drop("exchange"), cut("exchange")} },
		Play: func(s *stage) {
			s.finish(2)
			s.do(func() { s.check(!s.complained(), "it told of trouble with results that count") })
		},
	},
	{
		Name: "cut-reserve", Sequential: true,
		About: "A reserve whose answer breaks off is made again; what it had handed out comes " +
			"back after its deadline.",
		Options: Options{Concurrency: 2, Prefetch: 2, TimeoutMS: 3000},
		Chunks:  repeated("echo %d", 6),
		Before:  func(s *server) { s.faults = []fault{cut("reserve"), drop("reserve")} },
		Play:    func(s *stage) { s.finish(2) },
	},
	{
		Name: "slow-poll", About: "A reserve that the server holds for as long as it was asked to is waited for; " +
			"there is one at a time, and results do not wait for it.",
		Options: Options{Concurrency: 1, Prefetch: 3, WaitMS: 3000},
		Chunks:  []string{"wait {dir}/go", "later"},
		Before:  func(s *server) { s.chunks[1].notBefore = time.Now().Add(time.Hour) },
		Play: func(s *stage) {
			s.await("a handler runs and the worker waits for more", func() bool { return s.running() == 1 && s.polls == 1 })
			before := 0
			s.do(func() { before = s.count("reserve") })
			s.open()
			s.await("the result comes while the worker waits", func() bool { return s.chunks[0].state == done })
			s.do(func() { s.check(s.count("reserve") == before, "the result came only after the poll") })
			s.await("the worker waits once more", func() bool { return s.count("reserve") > before && s.polls == 1 })
			s.do(func() {
				s.chunks[1].content = "echo late"
				s.chunks[1].notBefore = time.Now()
			})
			s.awaitDone()
			s.do(func() { s.check(s.abandoned == 0, "it broke off %d reserves that it had asked to wait", s.abandoned) })
			s.leave()
		},
	},
	{
		Name: "impatient", Sequential: true,
		About: "A server that answers at once that there is nothing is not asked in a tight loop: " +
			"it says retry_after_ms.",
		Before: func(s *server) { s.impatient = true },
		Play: func(s *stage) {
			s.await("eight reserves", func() bool { return s.count("reserve") >= 8 })
			s.do(func() {
				var before time.Time
				for _, c := range s.calls {
					if c.verb != "reserve" {
						continue
					}
					gap := c.at.Sub(before)
					s.check(gap >= idleMS*time.Millisecond,
						"a reserve came %d ms after one that was told to come again after %d ms", gap.Milliseconds(), idleMS)
					before = c.at
				}
			})
			s.leave()
		},
	},
	{
		Name: "restart", About: "A server that is killed and comes back is waited for: what is in hand is extended, " +
			"results are delivered, work goes on.",
		Options: Options{Concurrency: 2, Prefetch: 2},
		Chunks:  append(repeated("wait {dir}/go %d", 4), repeated("echo %d", 4)...),
		Play: func(s *stage) {
			s.await("two handlers run and two chunks are held ahead",
				func() bool { return s.running() == 2 && s.heldNow() == 4 && s.attached == 1 })
			s.do(func() { s.shut() })
			s.pass(1500 * time.Millisecond)
			s.do(func() {
				s.forget(time.Now())
				s.err = s.listen()
			})
			s.await("all four are extended", func() bool { return s.heldNow() == 4 })
			s.open()
			s.finish(1)
		},
	},
	{
		Name: "restart-first", About: "A server that is killed before the worker's stream ever stood has forgotten what the worker " +
			"holds as well: its first hello has everything in hand extended.",
		Options: Options{Concurrency: 2, Prefetch: 2},
		Chunks:  repeated("wait {dir}/go %d", 4),
		Before: func(s *server) {
			for range 1000 {
				s.faults = append(s.faults, refuse("attach", http.StatusServiceUnavailable, api.CodeUnavailable, 0))
			}
		},
		Play: func(s *stage) {
			s.await("two handlers run, two chunks are held ahead, and the stream was refused",
				func() bool { return s.running() == 2 && s.heldNow() == 4 && s.count("attach") > 0 })
			s.do(func() { s.shut() })
			s.do(func() {
				s.check(s.attached == 0, "its stream stood, so that this is no first hello")
				s.faults = nil
				s.forget(time.Now())
				s.err = s.listen()
			})
			s.await("all four are extended", func() bool { return s.heldNow() == 4 })
			s.open()
			s.finish(1)
		},
	},
	{
		Name: "incarnation", About: "A worker says which process it is, and reserves nothing before the server's " +
			"first hello: what its name holds until then is its predecessor's. It says the same when it comes back.",
		Options: Options{Concurrency: 2},
		Chunks:  repeated("wait {dir}/go %d", 2),
		Before:  func(s *server) { s.helloAfter = 700 * time.Millisecond },
		Play: func(s *stage) {
			s.await("two handlers run", func() bool { return s.running() == 2 && s.attached == 1 })
			s.do(func() {
				s.check(s.incarnation != "", "it does not say which process it is")
				for _, c := range s.calls {
					early := c.verb == "reserve" && c.at.Before(s.firstHello)
					s.check(!early, "it reserved before the server's first hello")
				}
				for st := range s.streams {
					close(st.end)
				}
			})
			s.await("it attaches again", func() bool { return s.attached == 2 })
			s.open()
			s.finish(1)
		},
	},
	{
		Name: "restart-idle", Sequential: true,
		About: "A worker that waits for work when its server is killed waits for the server, " +
			"and finds the work that came meanwhile.",
		Chunks: []string{"echo later"},
		Before: func(s *server) { s.chunks[0].notBefore = time.Now().Add(time.Hour) },
		Play: func(s *stage) {
			s.await("the worker waits for work", func() bool { return s.polls == 1 && s.stands() })
			s.do(func() { s.shut() })
			s.pass(time.Second)
			s.do(func() {
				s.epoch++
				s.chunks[0].notBefore = time.Now()
				s.err = s.listen()
			})
			s.awaitDone()
			s.leave()
		},
	},
	{
		Name: "silence", About: "A stream that says nothing for three heartbeats is dead: the worker attaches again.",
		Before: func(s *server) { s.beat = 300 * time.Millisecond },
		Play: func(s *stage) {
			s.await("the worker attaches", func() bool { return len(s.streams) == 1 })
			s.do(func() {
				for st := range s.streams {
					st.mute = true
				}
			})
			s.await("the worker attaches again", func() bool { return s.attached == 2 })
			s.leave()
		},
	},
	{
		Name: "moved", Sequential: true,
		About:   "503 with the code moved is waited for like any other.",
		Options: Options{Concurrency: 2, Prefetch: 2},
		Chunks:  repeated("echo %d", 8),
		Before: func(s *server) {
			s.faults = []fault{refuse("reserve", 503, "moved", 1), refuse("exchange", 503, "moved", 1), refuse("attach", 503, "moved", 1)}
		},
		Play: func(s *stage) { s.finish(1) },
	},
	{
		Name: "addresses", About: "With several addresses, one where no one listens and one that says moved are left " +
			"for the one that serves.",
		Options: Options{Addresses: []string{nowhere, elsewhere, here}, Concurrency: 2, Prefetch: 2},
		Chunks:  repeated("echo %d", 8),
		Before: func(s *server) { // a client that begins here has to go round, too
			s.faults = []fault{refuse("reserve", 503, api.CodeMoving, 0)}
		},
		Play: func(s *stage) {
			s.awaitDone()
			s.do(func() { s.checkEach(1) })
			s.await("the worker attaches where it works", func() bool { return s.attached >= 1 })
			s.leave()
		},
	},
	{
		Name: "owner", About: "A node that does not own the queue any more (421) is left at once for the owner that it names.",
		Options: Options{Addresses: []string{stale}, Concurrency: 2, Prefetch: 2},
		Chunks:  repeated("echo %d", 8),
		Play: func(s *stage) {
			s.await("the worker attaches at the owner", func() bool { return s.attached >= 1 })
			s.finish(1)
		},
	},
	{
		Name: "direct", About: "In direct mode calls go straight to the owner that the first answers name.",
		Options: Options{Addresses: []string{another}, Direct: true, Concurrency: 1, Prefetch: 1},
		Chunks:  repeated("echo %d", 20),
		Play: func(s *stage) {
			s.finish(1)
			const before = 4 // calls that may be under way before the first answer
			s.do(func() {
				passed := s.nodes[0].calls
				s.check(passed <= before, "%d calls went through another node, want at most %d", passed, before)
			})
		},
	},
	{
		Name: "node-dies", About: "When the node dies that a client uses, its stream and its calls go on at the other one.",
		Options: Options{Addresses: []string{another, third}, Concurrency: 2, Prefetch: 2},
		Chunks:  repeated("wait {dir}/go %d", 3),
		Play: func(s *stage) {
			s.await("three chunks are held, and a reserve waits for one more", func() bool {
				return s.attached == 1 && s.heldNow() == 3 && s.polls == 1
			})
			used, other := s.nodes[0], s.nodes[1]
			s.do(func() {
				if used.calls == 0 {
					used, other = other, used
				}
			})
			other.gate.Lock() // until the played server knows that the calls through the dead node are over
			kill(used.Server)
			s.await("the calls that were under way end", func() bool { return len(s.streams) == 0 && s.polls == 0 })
			other.gate.Unlock()
			s.await("it attaches and reserves again", func() bool { return s.attached == 2 && s.polls == 1 })
			s.open()
			s.finish(1)
		},
	},
	{
		Name: "too-large", Sequential: true,
		About: "Results that are refused for their size together are sent in smaller calls; one " +
			"output that is too large alone fails its chunk for good.",
		Options: Options{Concurrency: 8, Prefetch: 8},
		Chunks:  append(repeated("size 3000 %d", 8), "size 20000"),
		Before:  func(s *server) { s.limits.body = 10_000 },
		Play: func(s *stage) {
			s.awaitDone()
			s.do(func() {
				s.checkEach(1)
				for i, c := range s.chunks[:8] {
					s.check(len(c.output) == 3000, "the output of chunk %d has %d bytes, want 3000", i, len(c.output))
				}
				f := s.chunks[8].fails
				s.check(len(f) == 1 && f[0].Fatal, "chunk 8 failed as %+v, want for good", f)
			})
			s.leave()
		},
	},
	{
		Name: "token-revoked", Sequential: true,
		About: "When the access token is revoked while a handler runs, the worker ends with " +
			"the error: in a few calls, not in a loop.",
		Options: Options{Concurrency: 1, Prefetch: 2, Token: "qn_test_secret"},
		Chunks:  repeated("wait {dir}/go %d", 3),
		Play: func(s *stage) {
			s.await("a handler runs and two chunks are held ahead",
				func() bool { return s.running() == 1 && s.heldNow() == s.capacity })
			before := 0
			s.do(func() {
				s.locked = true
				before = len(s.calls)
			})
			s.open()
			s.awaitLine("error 401 unauthorized")
			s.awaitExit(1)
			s.do(func() {
				after := len(s.calls) - before
				s.check(after <= 10, "it made %d calls with a token that is not good any more, want at most 10", after)
			})
		},
	},
	{
		Name: "unknown-queue", Sequential: true,
		About: "A refusal for good ends the worker with the error, after one try.",
		Before: func(s *server) {
			for range 10 {
				s.faults = append(s.faults, refuse("reserve", http.StatusNotFound, api.CodeUnknownQueue, 0),
					refuse("attach", http.StatusNotFound, api.CodeUnknownQueue, 0))
			}
		},
		Play: func(s *stage) {
			s.awaitLine("error 404 unknown_queue")
			s.awaitExit(1)
			s.do(func() { s.check(s.count("reserve") == 1, "it reserved %d times, want once", s.count("reserve")) })
		},
	},
}

// complained says whether the client reported results that did not count.
func (s *stage) complained() bool {
	for i := range s.chunks {
		if s.said(fmt.Sprintf("lost %d", i)) {
			return true
		}
	}
	return false
}

// refuse answers a call with an error, without doing it. after is the Retry-After in seconds, 0 for none: until it is over the call
// must not be made again.
func refuse(verb string, status int, code string, after int) fault {
	return fault{verb, func(s *server, w http.ResponseWriter, _ func() (int, any)) {
		if after > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(after))
			s.mu.Lock()
			s.away[verb] = time.Now().Add(time.Duration(after) * time.Second)
			s.mu.Unlock()
		}
		_, value := problem(status, code, "As the scenario wants.")
		write(w, status, value)
	}}
}

// drop breaks the connection without doing the call.
func drop(verb string) fault {
	return fault{verb, func(_ *server, w http.ResponseWriter, _ func() (int, any)) {
		connection, _ := hijack(w)
		connection.Close()
	}}
}

// cut does a call and breaks the connection in the middle of the answer.
func cut(verb string) fault {
	return fault{verb, func(s *server, w http.ResponseWriter, answer func() (int, any)) {
		status, value := answer()
		s.forgetDelivery(value)
		body, media := encode(status, value)
		connection, buffered := hijack(w)
		fmt.Fprintf(buffered, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", status,
			http.StatusText(status), media, len(body), body[:len(body)/2])
		buffered.Flush()
		connection.Close()
	}}
}

// forgetDelivery notes that the client cannot know of reservations.
func (s *server) forgetDelivery(value any) {
	var lost []api.Reservation
	switch answer := value.(type) {
	case *api.ReserveResponse:
		lost = answer.Reservations
	case *api.ExchangeResponse:
		lost = answer.Reservations
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range lost {
		s.tokens[r.Token].unheard = true
	}
}

func hijack(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter) {
	connection, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err) // HTTP/1.1 connections can always be taken over
	}
	return connection, buffered
}
