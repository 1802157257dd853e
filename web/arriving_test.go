package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// withBodies are the method, the path and the type of all operations that read a body.
func (f *fixture) withBodies() (list [][3]string) {
	f.Helper()
	var document struct {
		Paths map[string]map[string]struct {
			RequestBody struct{ Content map[string]any }
		}
	}
	if err := json.Unmarshal(documentOf(f.TB, f.server), &document); err != nil {
		f.Fatal(err)
	}
	fill := strings.NewReplacer("{queue}", "default", "{id}", "7", "{submission}", "7", "{index}", "0", "{version}", "1", "{shard}", "1", "{", "", "}", "")
	for path, methods := range document.Paths {
		for method, op := range methods {
			for media := range op.RequestBody.Content {
				list = append(list, [3]string{strings.ToUpper(method), fill.Replace(path), media})
			}
		}
	}
	if len(list) < 40 {
		f.Fatalf("%d operations have a body; want all of them", len(list))
	}
	return list
}

// ended waits until so many calls are in the access log, and fails for each that counts as a failure of the server.
func (f *fixture) ended(calls int) {
	f.Helper()
	for begun := time.Now(); strings.Count(f.log.String(), "msg=request") < calls; time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			f.Fatalf("%d of %d calls ended within a minute", strings.Count(f.log.String(), "msg=request"), calls)
		}
	}
	for _, line := range regexp.MustCompile(`.*(level=ERROR|status=5\d\d).*`).FindAllString(f.log.String(), -1) {
		f.Error(line)
	}
}

// A client that stops in the middle of a body is told so if it can still read, and is no failure of the server, whatever
// the operation and the protocol.
func TestBodiesThatEndEarly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.alone()
	list, malformed := f.withBodies(), 0
	for _, op := range list {
		for _, length := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
			connection, err := net.Dial("tcp", f.address)
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close()
			fmt.Fprintf(connection, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\n%s\r\n\r\n5\r\n{", op[0], op[1], op[2], length)
			_ = connection.(*net.TCPConn).CloseWrite()
			answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
			if err != nil {
				t.Fatalf("%v with %s: %v", op, length, err)
			}
			if text, _ := io.ReadAll(answer.Body); strings.Contains(string(text), string(codeMalformed)) {
				malformed++
			}
		}
	}
	if malformed < len(list) {
		t.Errorf("%d of %d calls are refused as malformed; want most", malformed, 2*len(list))
	}
	for _, op := range list {
		connection, err := net.Dial("tcp", f.address)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(connection, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n", op[0], op[1], op[2])
		_ = connection.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := connection.Read(make([]byte, 12)); err != nil { // the server now waits for the body, or has refused the call
			t.Errorf("%v: %v", op, err)
		}
		_ = connection.(*net.TCPConn).SetLinger(0)
		connection.Close()
	}
	f.ended(3 * len(list))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestBodiesThatEndEarly over HTTP/2, where a client resets its stream.
func TestStreamsResetInABody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.alone()
	over, list := f.overHTTP2(), f.withBodies()
	for _, op := range list {
		ctx, stop := context.WithCancel(t.Context())
		body := io.MultiReader(strings.NewReader(`{"a":`), readerFunc(func([]byte) (int, error) {
			stop()
			return 0, ctx.Err()
		}))
		r, err := http.NewRequestWithContext(ctx, op[0], over.URL+op[1], body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", op[2])
		if answer, err := over.Client().Do(r); err == nil {
			answer.Body.Close()
		}
		stop()
	}
	f.ended(len(list))
}

// An answer of shards that has no text is whole over HTTP/2 as well.
func TestShardsAnswerWithoutATextOverHTTP2(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.alone()
	f.do("PUT", "/v1/queues/orders", `{"settings":{"shards":2}}`, http.StatusCreated, nil)
	f.do("PUT", "/v1/queues/orders/strategies/mine", `{"strategy":"Random"}`, http.StatusCreated, nil)
	over := f.overHTTP2()
	r, err := http.NewRequestWithContext(t.Context(), "DELETE", over.URL+"/v1/queues/orders/strategies/mine", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := over.Client().Do(r)
	if err != nil || answer.StatusCode != http.StatusNoContent || answer.ProtoMajor != 2 {
		t.Fatalf("DELETE = %v, %v; want 204 over HTTP/2", answer, err)
	}
	answer.Body.Close()
	f.ended(3)
}
