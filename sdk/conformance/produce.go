package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// texts are the contents that producers insert.
var texts = []string{"one", "two \"\\\u2028\u00e9\U0001F600", "three"}

// produceScenarios are for producers, which insert, wait for the end and read the outputs.
var produceScenarios = []Scenario{
	{
		Name: "insert", Sequential: true,
		About: "A submission is inserted under a key that the client made, waited for through " +
			"several answers that it is still open, and its outputs are read.",
		Options: Options{Role: "produce", Chunks: texts, Token: "qn_test_secret"},
		Before:  func(s *server) { s.endAfter = 2 },
		Play: func(s *stage) {
			s.awaitExit(0)
			s.do(func() {
				s.checkInserts(1, false)
				s.check(s.count("wait") == 3, "it asked %d times for the end, want 3", s.count("wait"))
				s.checkOutputs()
			})
		},
	},
	{
		Name: "insert-cut", Sequential: true,
		About:   "An insert whose answer is lost is made again under the same key.",
		Options: Options{Role: "produce", Chunks: texts},
		Before:  func(s *server) { s.faults = []fault{cut("insert"), drop("insert"), cut("wait")} },
		Play: func(s *stage) {
			s.awaitExit(0)
			s.do(func() {
				s.checkInserts(2, false)
				s.checkOutputs()
			})
		},
	},
	{
		Name: "insert-busy", Sequential: true,
		About:   "An insert that is refused for now is made again after the Retry-After, under the same key.",
		Options: Options{Role: "produce", Chunks: texts},
		Before: func(s *server) {
			s.faults = []fault{refuse("insert", 429, api.CodeOverloaded, 1), refuse("insert", 503, "moved", 1),
				refuse("wait", 429, api.CodeOverloaded, 1)}
		},
		Play: func(s *stage) {
			s.awaitExit(0)
			s.do(func() {
				s.checkInserts(1, false)
				s.check(s.count("insert") == 3, "it inserted %d times, want 3", s.count("insert"))
				s.checkOutputs()
			})
		},
	},
	{
		Name: "insert-refused", Sequential: true,
		About:   "An insert that is wrong is an error with status and code, after one try.",
		Options: Options{Role: "produce", Chunks: texts},
		Before: func(s *server) {
			s.faults = []fault{refuse("insert", http.StatusUnprocessableEntity, api.CodeInvalid, 0)}
		},
		Play: func(s *stage) {
			s.awaitExit(1)
			s.do(func() {
				s.check(s.said("error 422 invalid"), "it did not say that the insert was refused with 422 invalid")
				s.check(s.count("insert") == 1, "it inserted %d times, want once", s.count("insert"))
			})
		},
	},
	{
		Name: "unauthorized", Sequential: true,
		About:   "A wrong access token is an error with status and code, after one try.",
		Options: Options{Role: "produce", Chunks: texts, Token: "qn_old_secret"},
		Before: func(s *server) {
			s.faults = []fault{refuse("insert", http.StatusUnauthorized, api.CodeUnauthorized, 0)}
		},
		Play: func(s *stage) {
			s.awaitExit(1)
			s.do(func() {
				s.check(s.said("error 401 unauthorized"), "it did not say that the insert was refused with 401 unauthorized")
				s.check(s.count("insert") == 1, "it inserted %d times, want once", s.count("insert"))
			})
		},
	},
	{
		Name: "insert-many", About: "Many submissions are inserted by one call, each with a key that the client made. The answer " +
			"is lost, then refused for now: the call is made again with the same keys. One submission is refused, and the others are " +
			"told of in order.",
		Options: Options{Role: "many", Chunks: []string{"one", "two", refusedText, "three"}},
		Before: func(s *server) {
			s.faults = []fault{cut("insert-many"), refuse("insert-many", 503, "moved", 1)}
		},
		Play: func(s *stage) {
			s.awaitExit(0)
			s.do(func() { s.checkMany() })
		},
	},
	{
		Name: "stream", About: "A submission is inserted as JSON lines, one per chunk.",
		Options: Options{Role: "stream", Chunks: texts},
		Play: func(s *stage) {
			s.awaitExit(0)
			s.do(func() {
				s.checkInserts(1, true)
				s.checkOutputs()
			})
		},
	},
	{
		Name: "busy-outputs", Sequential: true,
		About:   "Outputs that are refused for now are asked for again after the Retry-After.",
		Options: Options{Role: "produce", Chunks: texts},
		Before: func(s *server) {
			s.faults = []fault{refuse("outputs", 503, "moved", 1), drop("outputs"), refuse("outputs", 429, api.CodeOverloaded, 0)}
		},
		Play: func(s *stage) {
			s.awaitExit(0)
			s.do(func() {
				s.check(s.count("outputs") == 4, "it asked %d times for the outputs, want 4", s.count("outputs"))
				s.checkOutputs()
			})
		},
	},
	{
		Name: "cut-outputs", Sequential: true,
		About: "Outputs that break off in the middle are an error, or are read to their end by " +
			"asking again: never taken for all.",
		Options: Options{Role: "produce", Chunks: texts},
		Before:  func(s *server) { s.faults = []fault{cut("outputs")} },
		Play: func(s *stage) {
			if s.err == nil {
				<-s.exited
			}
			s.do(func() {
				s.checkInserts(1, false)
				s.check(s.count("outputs") > 0, "it did not read the outputs")
				if s.process.ProcessState.ExitCode() == 0 {
					s.checkOutputs()
				}
			})
		},
	},
}

// checkInserts looks whether one submission was inserted, by n calls that came through, with the chunks that were asked for.
func (s *stage) checkInserts(n int, streamed bool) {
	s.check(len(s.inserts) == n, "%d inserts came through, want %d", len(s.inserts), n)
	for _, made := range s.inserts {
		s.check(made.key == s.inserts[0].key, "the inserts have the keys %q and %q, want one", s.inserts[0].key, made.key)
		s.check(slices.Equal(made.chunks, texts), "the chunks %q were inserted, want %q", made.chunks, texts)
		s.check(made.streamed == streamed, "an insert came as JSON lines: %v, want %v", made.streamed, streamed)
	}
	s.check(s.said("inserted "+submissionID), "it did not say which submission it inserted")
	s.check(s.said("ended "+api.StateCompleted), "it did not say how the submission ended")
}

// checkMany looks whether the submissions were inserted once each, by the same call twice.
func (s *stage) checkMany() {
	s.check(s.count("insert") == 0, "it made %d inserts of one submission, want one of many", s.count("insert"))
	s.check(len(s.batches) == 2, "%d inserts of many came through, want 2: one whose answer was lost, and that again", len(s.batches))
	for _, keys := range s.batches {
		s.check(slices.Equal(keys, s.batches[0]), "the call came with the keys %q and again with %q, want the same", s.batches[0], keys)
		different := map[string]bool{}
		for _, key := range keys {
			different[key] = true
		}
		s.check(len(different) == 4, "the keys are %q, want one for each of 4 submissions", keys)
	}
	s.check(len(s.inserts) == 3, "%d submissions were inserted, want 3", len(s.inserts))
	want := []string{"inserted one", "inserted two", "refused invalid /chunks", "inserted three"}
	s.check(slices.Equal(s.lines, want), "it said %q, want %q", s.lines, want)
}

// checkOutputs looks whether the client said all outputs once, in hexadecimal.
func (s *stage) checkOutputs() {
	var want, got []string
	for i, output := range s.outputs() {
		want = append(want, fmt.Sprintf("output %d %x", i, []byte(output)))
	}
	for _, line := range s.lines {
		if len(line) > 7 && line[:7] == "output " {
			got = append(got, line)
		}
	}
	s.check(slices.Equal(got, want), "it said %q, want %q", got, want)
}

// produced is the record of a producer's calls, and the end of its submission.
type produced struct {
	inserts  []insert
	batches  [][]string // the keys of each insert of many that came through
	endAfter int        // waits that are answered before the submission ends
}

// insert is one call that inserted, or would have.
type insert struct {
	key      string
	chunks   []string
	streamed bool
}

// insert answers an insert: all of them with one key are one.
func (s *server) insert(r *http.Request, body []byte) (int, any) {
	var q wire.InsertRequest
	streamed := r.Header.Get("Content-Type") == "application/x-ndjson"
	read := q.Decode
	if streamed {
		read = q.DecodeLines
	}
	if err := read(body); err != nil {
		s.accuse("the body of an insert is refused: %v: %.200s", err, body)
		return problem(http.StatusUnprocessableEntity, api.CodeInvalid, err.Error())
	}
	made := insert{key: r.Header.Get("Idempotency-Key"), streamed: streamed}
	for _, chunk := range q.Inline {
		made.chunks = append(made.chunks, string(chunk))
	}
	if made.key == "" {
		s.accuse("an insert has no Idempotency-Key")
	}
	status := http.StatusCreated
	for _, before := range s.inserts {
		if before.key == made.key {
			status = http.StatusOK
		}
	}
	s.inserts = append(s.inserts, made)
	return status, s.submission(api.StateOpen)
}

// refusedText is the content of a submission that is refused.
const refusedText = "refused"

// insertMany answers an insert of many: each is a submission of its own, once per key.
func (s *server) insertMany(body []byte) (int, any) {
	var q wire.InsertManyRequest
	if err := q.Decode(body); err != nil {
		s.accuse("the body of an insert of many is refused: %v: %.200s", err, body)
		return problem(http.StatusUnprocessableEntity, api.CodeInvalid, err.Error())
	}
	var keys []string
	answer := &api.InsertManyResponse{}
	for i, text := range q.Submissions {
		var one wire.InsertRequest
		if err := one.DecodeNext(text); err != nil {
			s.accuse("the submission %d of an insert of many is refused: %v: %.200s", i, err, text)
		}
		key := string(one.IdempotencyKey)
		keys = append(keys, key)
		if key == "" {
			s.accuse("the submission %d of an insert of many has no idempotency_key", i)
		}
		if len(one.Inline) == 1 && string(one.Inline[0]) == refusedText {
			answer.Results = append(answer.Results, api.InsertResult{Status: api.InsertInvalid, Code: api.CodeInvalid, Detail: "is refused",
				Pointer: fmt.Sprintf("/submissions/%d/chunks", i)})
			continue
		}
		answer.Results = append(answer.Results, s.insertOne(key, one.Inline))
	}
	s.batches = append(s.batches, keys)
	return http.StatusOK, answer
}

// insertOne inserts one of many. Its id is its content, so that results that are mixed up are seen.
func (s *server) insertOne(key string, inline [][]byte) api.InsertResult {
	result := api.InsertResult{Status: api.InsertCreated}
	for _, before := range s.inserts {
		if before.key == key {
			result.Status = api.InsertReplayed
		}
	}
	made := insert{key: key}
	for _, chunk := range inline {
		made.chunks = append(made.chunks, string(chunk))
	}
	if result.Status == api.InsertCreated {
		s.inserts = append(s.inserts, made)
	}
	result.Submission = &api.Submission{ID: strings.Join(made.chunks, " "), Queue: "default", State: api.StateOpen,
		Chunks: uint32(len(inline)), Ready: uint32(len(inline)), CreatedAt: api.At(time.Now())}
	return result
}

func (s *server) submission(state string) *api.Submission {
	n := uint32(0)
	if len(s.inserts) > 0 {
		n = uint32(len(s.inserts[0].chunks))
	}
	out := &api.Submission{ID: submissionID, Queue: "default", State: state, Chunks: n, CreatedAt: api.At(time.Now())}
	if state == api.StateOpen {
		out.Ready = n
	} else {
		out.Done = n
	}
	return out
}

// answerWait holds its answer as long as it is asked to, endAfter times; then the submission has ended.
func (s *server) answerWait(r *http.Request) (int, any) {
	seconds, err := strconv.Atoi(strings.TrimPrefix(r.Header.Get("Prefer"), "wait="))
	if err != nil || seconds < 1 {
		s.accuse("a wait for the end of a submission has the header Prefer %q, want wait= and seconds", r.Header.Get("Prefer"))
	}
	if s.endAfter == 0 {
		return http.StatusOK, s.submission(api.StateCompleted)
	}
	s.endAfter--
	for until := time.Now().Add(min(time.Duration(seconds)*time.Second, time.Second)); time.Now().Before(until) &&
		r.Context().Err() == nil; {
		s.rest(r.Context())
	}
	return http.StatusOK, s.submission(api.StateOpen)
}

// outputs are every chunk's content in capitals, but for the second, which has bytes that are no text.
func (s *server) outputs() []api.Bytes {
	var out []api.Bytes
	for i, content := range s.inserts[0].chunks {
		output := api.Bytes(strings.ToUpper(content))
		if i == 1 {
			output = api.Bytes{0xff, 0x00, 0xfe}
		}
		out = append(out, output)
	}
	return out
}

func (s *server) outputLines() []byte {
	var lines bytes.Buffer
	for i, output := range s.outputs() {
		line, err := json.Marshal(api.Output{Index: uint32(i), Output: output})
		if err != nil {
			panic(err) // our own types always encode
		}
		fmt.Fprintf(&lines, "%s\n", line)
	}
	return lines.Bytes()
}
