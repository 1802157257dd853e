package web

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// Half of a surrogate pair is refused wherever text is read, with the pointer of the value (of a name, that of its object): as U+FFFD
// two tenants would become one. Whole pairs, and backslashes before a u, are text like any other.
func TestHalfSurrogatePairs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, test := range []struct{ method, path, body, pointer string }{
		{"POST", insertPath, `{"meta":{"t":"a\ud83d"},"chunks":{"count":1,"prefix":"a/"}}`, "/meta/t"},
		{"POST", insertPath, `{"meta":{"t\udc00":"a"},"chunks":{"count":1,"prefix":"a/"}}`, "/meta"},
		{"POST", insertPath, `{"meta":{"t":"\\\ud83d"},"chunks":{"count":1,"prefix":"a/"}}`, "/meta/t"},
		{"POST", insertPath, `{"chunks":{"inline":["a","\ud83d\ud83d\ude00"]}}`, "/chunks/inline/1"},
		{"POST", insertPath, `{"group":"\uDE00","chunks":{"count":1,"prefix":"a/"}}`, "/group"},
		{"POST", reservePath, `{"max":1,"consumer":"\ud83d x"}`, "/consumer"},
		{"POST", reservePath, `{"max":1,"context":{"zone":"\ud83d"}}`, "/context/zone"},
		{"POST", reservePath, `{"max":1,"strategy":{"type":"select_only","meta_field":"t","value":"\ud83d","underlying":"random"}}`, "/strategy/value"},
		{"POST", reservePath, `{"max":1,"strategy":"SelectOnly(\"t\", \"\ud83d\", Random)"}`, "/strategy"},
		{"POST", reservePath, `{"max":1,"strategy":{"name":"\ud83d"}}`, "/strategy/name"},
		{"POST", reservePath + "/complete", `{"items":[{"token":"x","output":"\ud83d"}]}`, "/items/0/output"},
		{"POST", reservePath + "/fail", `{"items":[{"token":"x","error":"\ud83d"}]}`, "/items/0/error"},
		{"POST", "/v1/queues/default/rules", `{"action":"pause","match":{"meta":{"t":"\ud83d"}},"reason":"r"}`, "/match/meta/t"},
		{"PUT", "/v1/queues/default/strategies/x", `{"strategy":"SelectOnly(\"t\", \"\ud83d\", Random)"}`, "/strategy"},
		{"PUT", "/v1/queues/default/schedules/x", `{"cron":"@hourly","submission":{"meta":{"t":"\ud83d"},"chunks":{"count":1,"prefix":"a/"}}}`, "/submission/meta/t"},
		{"POST", "/v1/queues/default/strategies/preview", `{"strategy":{"type":"select_only","meta_field":"t","value":"\ud83d","underlying":"random"}}`, "/strategy/value"},
	} {
		got := f.send(call{method: test.method, path: test.path, body: test.body})
		p := got.problem(t)
		if got.status != http.StatusUnprocessableEntity || len(p.Errors) != 1 || p.Errors[0].Pointer != test.pointer || !strings.Contains(p.Errors[0].Detail, "half a surrogate pair") {
			t.Errorf("%s %s %s: got %d %s, want 422 with the pointer %s", test.method, test.path, test.body, got.status, got.body, test.pointer)
		}
	}
	lines := f.send(call{method: "POST", path: insertPath, body: "{\"meta\":{\"t\":\"a\"}}\n\"b\"\n\"\\ud83d\"\n", header: map[string]string{"Content-Type": contentLines}})
	if p := lines.problem(t); lines.status != 422 || len(p.Errors) != 1 || p.Errors[0].Pointer != "/chunks/inline/1" {
		t.Errorf("a line with half a pair: got %d %s, want 422 with the pointer /chunks/inline/1", lines.status, lines.body)
	}
	s := f.insert(`{"meta":{"t":"\ud83d\ude00 \\ud83d"},"chunks":{"inline":["\\ud83d"]}}`)
	if want := `😀 \ud83d`; s.Meta["t"].Text() != want {
		t.Errorf("meta is %q, want %q", s.Meta["t"].Text(), want)
	}
}

// An output without bytes is an output, in every form; a completion without one has none.
func TestEmptyOutputs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for output, want := range map[string]bool{`{"base64":""}`: true, `{"text":""}`: true, `""`: true, `null`: false} {
		s := f.insert(`{"chunks":{"count":1,"prefix":"a/"}}`)
		r := f.reserveOne()
		if result := f.results("complete", `{"token":"`+string(r.Token)+`","output":`+output+`}`)[0]; result.Status != api.StatusOK {
			t.Fatalf("%s: %+v", output, result)
		}
		var chunk api.Chunk
		got := f.do("GET", "/v1/submissions/"+string(s.ID)+"/chunks/0", "", 200, &chunk)
		if (chunk.Output != nil) != want || len(chunk.Output) > 0 {
			t.Errorf("output %s: the chunk says %s, want an empty output: %v", output, got.body, want)
		}
	}
}

// A body whose chunks are malformed is the client's mistake, of operations that read it themselves and of huma's alike, and nothing to
// report. Behind a chunked body the connection is closed, as it may have had a Content-Length as well.
func TestChunkedBodies(t *testing.T) {
	t.Parallel()
	address := serve(t, openServer(t))
	for _, test := range []struct {
		head, body string
		status     int
	}{
		{"POST " + reservePath, "2\r\n{}\r\n0\r\n\r\n", 422},
		{"POST " + reservePath, "zz\r\n{}\r\n0\r\n\r\n", 400},
		{"POST " + reservePath, "2\r\n{}0\r\n\r\nxx", 400},
		{"PUT /v1/queues/x", "zz\r\n{}\r\n0\r\n\r\n", 400},
		{"POST " + insertPath, "-1\r\n{}\r\n0\r\n\r\n", 400},
		{"POST /v1/queues/default/strategies/preview", "zz\r\n{}\r\n0\r\n\r\n", 400},
	} {
		for _, length := range []string{"", "Content-Length: 5\r\n"} {
			connection, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { connection.Close() })
			request := test.head + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + length + "Transfer-Encoding: chunked\r\n\r\n" + test.body
			if _, err := io.WriteString(connection, request); err != nil {
				t.Fatal(err)
			}
			reader := bufio.NewReader(connection)
			response, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Errorf("%q: %v", request, err)
				continue
			}
			body, _ := io.ReadAll(response.Body)
			if response.StatusCode != test.status || test.status == 400 && !strings.Contains(string(body), string(codeMalformed)) || strings.Contains(string(body), string(queue.CodeUnavailable)) {
				t.Errorf("%q: got %d %s, want %d", request, response.StatusCode, body, test.status)
			}
			if _, err := reader.ReadByte(); !response.Close || err != io.EOF {
				t.Errorf("%q: the connection stays open (Connection: close %v, %v)", request, response.Close, err)
			}
		}
	}
}
