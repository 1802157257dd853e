package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// produced is what producers did, and how their submission is to end.
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
