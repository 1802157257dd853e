package web

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
)

// serve runs s on a loopback port until the test ends and returns its address, "127.0.0.1:PORT".
func serve(t testing.TB, s *Server) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return listener.Addr().String()
}

// call is one request of a test. Header values override the defaults.
type call struct {
	method, path string
	body         string
	header       map[string]string
	host         string
}

// answer is the answer to a call, read to the end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) problem(t testing.TB) api.Problem {
	t.Helper()
	var p api.Problem
	if got := a.header.Get("Content-Type"); got != contentProblem {
		t.Errorf("Content-Type: got %q, want %q; status %d, body %s", got, contentProblem, a.status, a.body)
	}
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Errorf("problem: %v in %s", err, a.body)
	}
	if p.Status != a.status {
		t.Errorf("problem status: got %d, want that of the answer, %d", p.Status, a.status)
	}
	if p.RequestID == "" || p.RequestID != a.header.Get(headerRequestID) {
		t.Errorf("request_id: got %q, want %q as in the header", p.RequestID, a.header.Get(headerRequestID))
	}
	return p
}

func (a answer) decode(t testing.TB, into any) {
	t.Helper()
	if err := json.Unmarshal(a.body, into); err != nil {
		t.Fatalf("decode %T: %v in %s", into, err, a.body)
	}
}

func send(t testing.TB, client *http.Client, address string, c call) answer {
	t.Helper()
	var body io.Reader
	if c.body != "" {
		body = strings.NewReader(c.body)
	}
	request, err := http.NewRequest(c.method, "http://"+address+c.path, body)
	if err != nil {
		t.Fatal(err)
	}
	if c.body != "" {
		request.Header.Set("Content-Type", contentJSON)
	}
	for name, value := range c.header {
		if value == "" {
			request.Header.Del(name)
		} else {
			request.Header.Set(name, value)
		}
	}
	if c.host != "" {
		request.Host = c.host
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", c.method, c.path, err)
	}
	defer response.Body.Close()
	if isStream(response) {
		return answer{status: response.StatusCode, header: response.Header}
	}
	var out bytes.Buffer
	if _, err := out.ReadFrom(response.Body); err != nil {
		t.Fatalf("%s %s: read the answer: %v", c.method, c.path, err)
	}
	return answer{status: response.StatusCode, header: response.Header, body: out.Bytes()}
}
