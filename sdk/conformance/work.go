package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// workScenarios are for workers. Their chunks say what a handler does, see README.md.
var workScenarios = []Scenario{
	{
		Name: "plain", Sequential: true,
		About:   "Work is done once, four at a time, and reported with its outputs; the worker attaches, and leaves in order.",
		Options: Options{Concurrency: 4, Prefetch: 4, Token: "qn_test_secret"},
		Chunks:  repeated("echo hello %d", 30),
		Play: func(s *stage) {
			s.await("the worker attaches", s.stands)
			s.awaitDone()
			s.do(func() {
				s.checkEach(1)
				for i, c := range s.chunks {
					s.check(string(c.output) == fmt.Sprintf("hello %d", i), "chunk %d has the output %q", i, c.output)
				}
				s.check(s.stands(), "it attached %d times, want once", s.attached)
			})
			s.leave()
		},
	},
	{
		Name: "outputs", Sequential: true,
		About:  "Outputs that are empty, or no text, or full of what JSON escapes, arrive as they are; no output is none.",
		Chunks: []string{"none", "echo ", "bytes ff00fe", "echo \"\\\u2028\u00e9\U0001F600\x01\x7f"},
		Play: func(s *stage) {
			s.awaitDone()
			s.do(func() {
				s.check(s.chunks[0].output == nil, "no output arrived as %q", s.chunks[0].output)
				s.check(s.chunks[1].output != nil && len(s.chunks[1].output) == 0, "an empty output arrived as %v", s.chunks[1].output)
				s.check(string(s.chunks[2].output) == "\xff\x00\xfe", "the bytes ff 00 fe arrived as % x", []byte(s.chunks[2].output))
				s.check(string(s.chunks[3].output) == strings.TrimPrefix(s.chunks[3].content, "echo "),
					"an odd text arrived as %q", s.chunks[3].output)
			})
			s.leave()
		},
	},
	{
		Name: "failures", Sequential: true,
		About:  "A handler's error fails the try with its text; a final one says so; one with a pause names it.",
		Chunks: []string{"fail went wrong", "fatal never again", "retry 200 later", "echo fine"},
		Play: func(s *stage) {
			s.awaitDone()
			s.do(func() {
				for i, want := range map[int]string{0: "went wrong", 1: "never again", 2: "later"} {
					fails := s.chunks[i].fails
					if len(fails) != 1 || !strings.Contains(fails[0].Error, want) || fails[0].Fatal != (i == 1) ||
						(fails[0].RetryAfterMS != nil) != (i == 2) {
						s.accuse("chunk %d failed as %+v, want once, with %q", i, fails, want)
					}
				}
				if f := s.chunks[2].fails; len(f) == 1 && f[0].RetryAfterMS != nil {
					s.check(*f[0].RetryAfterMS == 200, "the pause of chunk 2 is %d ms, want 200", *f[0].RetryAfterMS)
				}
			})
			s.leave()
		},
	},
	{
		Name: "snooze", Sequential: true,
		About: "A handler that cannot work yet gives its chunk back with a delay: no attempt fails, and " +
			"the chunk comes back with the same attempt.",
		Chunks: []string{"snooze 300", "snooze 0", "echo between"},
		Play: func(s *stage) {
			s.awaitDone()
			s.do(func() {
				for i, want := range []int64{300, 0} {
					c := s.chunks[i]
					s.check(slices.Equal(c.delays, []int64{want}), "chunk %d was given back with the delays %v ms, want %d once",
						i, c.delays, want)
					s.check(c.handed == 2 && c.attempt == 1, "chunk %d was handed out %d times and is in attempt %d, want twice and 1",
						i, c.handed, c.attempt)
					s.check(len(c.fails) == 0, "chunk %d was reported as failed: %+v", i, c.fails)
				}
			})
			s.leave()
		},
	},
	{
		Name: "concurrency", About: "Two handlers run at once, never more, while two chunks are held ahead.",
		Options: Options{Concurrency: 2, Prefetch: 2},
		Chunks:  repeated("wait {dir}/go %d", 6),
		Play: func(s *stage) {
			s.await("two handlers run and two chunks are held ahead", func() bool { return s.running() == 2 && s.heldNow() == 4 })
			s.open()
			s.finish(1)
		},
	},
	{
		Name: "extend", About: "A chunk whose handler takes longer than the reservation is extended in time, again and again.",
		Options: Options{Concurrency: 1, Prefetch: 1, TimeoutMS: 3000},
		Chunks:  []string{"wait {dir}/go", "echo after"},
		Play: func(s *stage) {
			s.await("the chunk and the one that waits behind it are extended three times",
				func() bool { return s.chunks[0].extended >= 3 && s.chunks[1].extended >= 3 })
			s.open()
			s.finish(1)
		},
	},
	{
		Name: "progress", About: "The last progress of each handler is sent soon, in few calls however often handlers " +
			"say it; and again to a server that was started since.",
		Options: Options{Concurrency: 2, Prefetch: 1},
		Chunks:  []string{"progress {dir}/go page \"3\" \u00e9", "progress {dir}/go " + strings.Repeat("\u00e9", 200), "wait {dir}/go"},
		Play: func(s *stage) {
			notes := []string{"page \"3\" \u00e9", strings.Repeat("\u00e9", 128)} // the longest that the server takes
			sent := func() bool {
				for i, note := range notes {
					if s.chunks[i].progress != 0.5 || s.chunks[i].note != note {
						return false
					}
				}
				return true
			}
			s.await("the last progress and note of both chunks", sent)
			s.await("a chunk is held ahead", func() bool { return s.heldNow() == 3 && s.attached == 1 })
			s.do(func() {
				for i := range notes {
					s.check(s.chunks[i].heard <= 20, "the progress of chunk %d came %d times, want some few", i, s.chunks[i].heard)
					s.chunks[i].progress = 0
				}
				s.forget(time.Now())
				for st := range s.streams {
					st.events <- s.hello()
				}
			})
			s.await("the progress of both again, after the hello", sent)
			s.do(func() { s.check(s.chunks[2].heard == 0, "a chunk whose handler said nothing has a progress") })
			s.open()
			s.finish(1)
		},
	},
	{
		Name: "epoch", About: "When the server says hello again, everything in hand is extended at once, in the consumer's name.",
		Options: Options{Concurrency: 2, Prefetch: 2},
		Chunks:  repeated("wait {dir}/go %d", 4),
		Play: func(s *stage) {
			s.await("two handlers run and two chunks are held ahead",
				func() bool { return s.running() == 2 && s.heldNow() == 4 && s.attached == 1 })
			s.do(func() {
				s.forget(time.Now())
				for st := range s.streams {
					st.events <- s.hello()
				}
			})
			s.await("all four are extended", func() bool { return s.heldNow() == 4 })
			s.open()
			s.finish(1)
		},
	},
	{
		Name: "revoked", About: "A handler whose reservation is revoked is cancelled, and what it returns is not " +
			"reported; one that has not begun does not begin.",
		Options: Options{Concurrency: 1, Prefetch: 1},
		Chunks:  []string{"wait {dir}/never", "wait {dir}/neither", "echo after"},
		Play: func(s *stage) {
			s.await("a handler runs and a chunk is held ahead",
				func() bool { return s.running() == 1 && s.heldNow() == 2 && s.attached == 1 })
			s.do(func() { s.revoke(api.RevokedEnded, 0, 1) })
			s.awaitLine("cancelled 0")
			s.awaitDone()
			s.await("the last handler ends", func() bool { return s.said("end 2") })
			s.do(func() {
				s.check(!s.said("begin 1"), "a handler began with chunk 1, which had been revoked")
			})
			s.leave()
		},
	},
	{
		Name: "lost", About: "An extend that is answered with lost cancels the handler; a completion that is " +
			"answered with lost is told and not repeated.",
		Options: Options{Concurrency: 2, Prefetch: 1, TimeoutMS: 3000},
		Chunks:  []string{"wait {dir}/never", "wait {dir}/go", "echo after"},
		Play: func(s *stage) {
			lost := api.Result{Status: api.StatusLost, Code: "reservation_lost", Detail: "someone else holds the chunk"}
			s.await("two handlers run", func() bool { return s.said("begin 0") && s.said("begin 1") })
			s.do(func() {
				s.orders["extend "+s.chunks[0].token] = lost
				s.orders["complete "+s.chunks[1].token] = lost
			})
			s.open()
			s.awaitLine("cancelled 0")
			s.awaitLine("lost 1")
			s.awaitDone()
			s.leave()
			s.do(func() {
				for i := range 2 {
					s.check(s.chunks[i].handed == 1, "chunk %d was handed out %d times", i, s.chunks[i].handed)
				}
			})
		},
	},
	{
		Name: "lost-result", Sequential: true,
		About: "A completion that is answered with lost is told and not repeated, and the " +
			"worker works on.",
		Chunks: []string{"wait {dir}/go", "echo after"},
		Play: func(s *stage) {
			s.await("a handler runs", func() bool { return s.running() == 1 })
			s.do(func() {
				s.orders["complete "+s.chunks[0].token] = api.Result{Status: api.StatusLost, Code: "reservation_lost",
					Detail: "someone else holds the chunk"}
			})
			s.open()
			s.awaitLine("lost 0")
			s.finish(1)
		},
	},
	{
		Name: "drain-reserve", Sequential: true,
		About: "A reserve that is answered with the reason draining ends the worker in order, " +
			"without another one.",
		Before: func(s *server) { s.draining = true },
		Play: func(s *stage) {
			s.awaitExit(0)
			s.do(func() {
				s.check(s.detached, "it left without detaching")
				s.check(s.count("reserve") == 1, "it reserved %d times, want once", s.count("reserve"))
			})
		},
	},
	{
		Name: "drain", About: "An operator's drain ends the worker: it finishes what handlers work on, gives back " +
			"the rest, detaches and leaves by itself.",
		Options: Options{Concurrency: 1, Prefetch: 2},
		Chunks:  repeated("wait {dir}/go %d", 3),
		Play: func(s *stage) {
			s.await("a handler runs and two chunks are held ahead",
				func() bool { return s.running() == 1 && s.heldNow() == 3 && s.attached == 1 })
			s.do(func() { s.tell(api.EventDrain, struct{}{}) })
			s.await("two chunks are given back", func() bool { return s.heldNow() == 1 })
			s.open()
			s.awaitExit(0)
			s.do(func() { s.checkLeft() })
		},
	},
	{
		Name: "signal", Sequential: true,
		About:   "SIGTERM ends the worker in the same way, and a poll that is under way does not keep it.",
		Options: Options{Concurrency: 1, Prefetch: 2},
		Chunks:  repeated("wait {dir}/go %d", 2),
		Play: func(s *stage) {
			s.await("a handler runs, a chunk is held ahead, and the worker waits for another", func() bool {
				return s.running() == 1 && s.heldNow() == min(2, s.capacity) && (s.polls == 1 || s.tier == Sequential)
			})
			s.terminate()
			if s.tier == Sequential { // nothing shows that it heard the signal
				s.pass(200 * time.Millisecond)
			}
			s.await("the chunk is given back", func() bool { return s.heldNow() == 1 })
			s.open()
			s.awaitExit(0)
			s.do(func() { s.checkLeft() })
		},
	},
}

// repeated makes n chunks of a pattern with a number. If the work does not depend on the number, it only tells the
// chunks apart.
func repeated(pattern string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(pattern, i)
	}
	return out
}

// running is how many handlers run now.
func (s *stage) running() (n int) {
	for _, line := range s.lines {
		switch {
		case strings.HasPrefix(line, "begin "):
			n++
		case strings.HasPrefix(line, "end "):
			n--
		}
	}
	return n
}

// checkEach looks whether every chunk was done after being handed out n times at most.
func (s *stage) checkEach(n int) {
	for i, c := range s.chunks {
		s.check(c.handed <= n, "chunk %d was handed out %d times, want at most %d", i, c.handed, n)
	}
}

// finish sees a worker through all chunks, each handed out n times at most, and has it leave in order.
func (s *stage) finish(n int) {
	s.awaitDone()
	s.do(func() { s.checkEach(n) })
	s.leave()
}

// checkLeft checks that a worker with the order to leave did the first chunk only and has nothing left in its hands.
func (s *stage) checkLeft() {
	s.check(s.detached, "it left without detaching")
	s.check(s.chunks[0].state == done, "the chunk of the handler that ran was not completed")
	for i, c := range s.chunks[1:] {
		s.check(c.state == ready && c.released == c.handed, "chunk %d, which no handler had begun, was not given back", i+1)
		s.check(!slices.ContainsFunc(c.delays, func(ms int64) bool { return ms != 0 }),
			"chunk %d, which no handler had begun, was given back with the delays %v ms, want none", i+1, c.delays)
		s.check(!s.said(fmt.Sprintf("begin %d", i+1)), "a handler began with chunk %d after the worker was told to leave", i+1)
	}
}
