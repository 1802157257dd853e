package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/quern-queue/quern/sdk/api"
)

// longestPauseMS is the longest pause that a real server gives a chunk.
const longestPauseMS = 30 * 24 * 3600 * 1000

// limits are the limits of a call. Like a real server the played one refuses the whole call for the first item over them, points at it,
// and does nothing of the call.
type limits struct {
	body      int             // bytes of a call
	output    int             // bytes of one output
	pauseMS   int64           // of a retry_after_ms
	forbidden map[string]bool // reservation tokens that the access token may not name any more
}

// realLimits are those of a real server.
func realLimits() limits {
	return limits{body: 16 << 20, output: 1 << 20, pauseMS: longestPauseMS, forbidden: map[string]bool{}}
}

// refuseItem is the answer to a call with an item that is refused; nil: there is none. The pointers begin with prefix, or with the name of
// the list when that is "". The caller holds the lock.
func (s *server) refuseItem(prefix string, complete []api.CompleteItem, fail []api.FailItem, extend []api.ExtendItem) (int, any) {
	below := func(list string, i int, field string) string {
		if prefix != "" {
			list = prefix
		}
		return fmt.Sprintf("%s/%d/%s", list, i, field)
	}
	for i := range complete {
		if s.limits.forbidden[complete[i].Token] {
			return forbiddenItem(below("/complete", i, "token"))
		}
	}
	for i := range fail {
		if s.limits.forbidden[fail[i].Token] {
			return forbiddenItem(below("/fail", i, "token"))
		}
	}
	for i := range extend {
		if s.limits.forbidden[extend[i].Token] {
			return forbiddenItem(below("/extend", i, "token"))
		}
	}
	for i := range complete {
		if n := len(complete[i].Output); n > s.limits.output {
			return invalidItem(below("/complete", i, "output"),
				fmt.Sprintf("has %d bytes; at most %d are allowed: keep large results in object storage", n, s.limits.output))
		}
	}
	for i := range fail {
		if after := fail[i].RetryAfterMS; after != nil && (*after < 0 || *after > s.limits.pauseMS) {
			return invalidItem(below("/fail", i, "retry_after_ms"), fmt.Sprintf("is %d; 0 to %d are allowed", *after, s.limits.pauseMS))
		}
	}
	return 0, nil
}

func invalidItem(pointer, detail string) (int, any) {
	return pointed(http.StatusUnprocessableEntity, api.CodeInvalid, "The request is not valid.", pointer, detail)
}

func forbiddenItem(pointer string) (int, any) {
	return pointed(http.StatusForbidden, api.CodeForbidden, "The token is bound to company=7. Nothing of this request was done.", pointer,
		"is not that of a reservation within it")
}

func pointed(status int, code, text, pointer, detail string) (int, any) {
	_, value := problem(status, code, text)
	value.(*api.Problem).Errors = []api.ProblemError{{Pointer: pointer, Detail: detail}}
	return status, value
}

// refusalScenarios are for workers one of whose results is refused.
var refusalScenarios = []Scenario{
	{
		Name: "output-refused", Sequential: true,
		About: "An output of 1 MiB and a byte is refused with 422 and a pointer to it: its chunk " +
			"fails for good with what the server said, and the worker works on.",
		Options: Options{Concurrency: 4, Prefetch: 4},
		Chunks:  append([]string{"size 1048577"}, repeated("echo %d", 7)...),
		Play:    func(s *stage) { s.finishButFirst("1048577 bytes") },
	},
	{
		Name: "item-refused", Sequential: true,
		About: "Of results that share a call one is refused: its chunk fails for good, the others are " +
			"reported again and count, and nothing runs twice.",
		Options: Options{Concurrency: 8, Prefetch: 8},
		Chunks:  append([]string{"size 5000"}, repeated("echo %d", 7)...),
		Before:  func(s *server) { s.limits.output = 1000 },
		Play:    func(s *stage) { s.finishButFirst("5000 bytes") },
	},
	{
		Name: "pause-refused", Sequential: true,
		About: "A pause that the server does not take fails its chunk for good, with the pause and the " +
			"handler's error, and leaves the other results alone.",
		Options: Options{Concurrency: 4, Prefetch: 4},
		Chunks:  append([]string{"retry 5000 went wrong"}, repeated("echo %d", 7)...),
		Before:  func(s *server) { s.limits.pauseMS = 1000 },
		Play:    func(s *stage) { s.finishButFirst("5000", "went wrong") },
	},
	{
		Name: "long-pause", Sequential: true,
		About:  "A pause of more than 30 days, the longest that a server takes, is one of 30 days.",
		Chunks: []string{"retry 3000000000 later", "echo fine"},
		Play: func(s *stage) {
			s.await("the try fails", func() bool { return len(s.chunks[0].fails) > 0 })
			s.do(func() {
				after := s.chunks[0].fails[0].RetryAfterMS
				s.check(after != nil && *after == longestPauseMS, "the pause is %v ms, want %d", s.chunks[0].fails[0], longestPauseMS)
				s.chunks[0].state = dead // it comes back in 30 days
			})
			s.finish(1)
		},
	},
	{
		Name: "forbidden-item", About: "A chunk that the access token may not name any more is lost: its handler is cancelled, its " +
			"result is told and not repeated, and the rest of the call is made again.",
		Options: Options{Concurrency: 2, Prefetch: 1, TimeoutMS: 3000, Token: "qn_test_secret"},
		Chunks:  []string{"wait {dir}/never", "wait {dir}/go", "echo after"},
		Play: func(s *stage) {
			s.await("two handlers run and the stream stands",
				func() bool { return s.running() == 2 && s.heldNow() == 3 && s.attached == 1 })
			forbid := func(i int) {
				s.limits.forbidden[s.chunks[i].token] = true
				s.chunks[i].state = dead
			}
			before := 0
			s.do(func() {
				forbid(0)
				before = s.chunks[1].extended
			})
			s.awaitLine("cancelled 0")
			s.await("the other chunk is extended", func() bool { return s.chunks[1].extended > before })
			s.do(func() { forbid(1) })
			s.open()
			s.awaitLine("lost 1")
			s.finish(1)
		},
	},
}

// finishButFirst sees a worker through all chunks. The first is to fail once, for good, with an error that has these words.
func (s *stage) finishButFirst(words ...string) {
	s.awaitDone()
	s.do(func() {
		s.checkEach(1)
		fails := s.chunks[0].fails
		if len(fails) != 1 || !fails[0].Fatal {
			s.accuse("chunk 0 failed as %+v, want once and for good", fails)
			return
		}
		for _, word := range words {
			s.check(strings.Contains(fails[0].Error, word), "chunk 0 failed with %q, want %q in it", fails[0].Error, word)
		}
		for i, c := range s.chunks[1:] {
			s.check(c.state == done && string(c.output) == fmt.Sprint(i), "chunk %d has the output %q, want %q", i+1,
				c.output, fmt.Sprint(i))
		}
	})
	s.leave()
}
