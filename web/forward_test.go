//quern:overlapping
package web

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
)

// between is a node that sends every call on to owner.
func between(t *testing.T, owner http.HandlerFunc) (address, ownerURL string, failed chan error) {
	t.Helper()
	f := newFixtureOn(t, nil, 1)
	f.server.auth.hops = &hops{key: make([]byte, 32)}
	at := httptest.NewServer(owner)
	t.Cleanup(at.Close)
	through, failed := newForwarding(nil, f.server.auth, slog.New(slog.DiscardHandler)), make(chan error, 100)
	e := echo.New()
	e.Any("/*", func(c echo.Context) error {
		err := through.send(c, &engine.Elsewhere{Node: "owner", URL: at.URL}, strings.HasSuffix(c.Request().URL.Path, "/explain"))
		failed <- err
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		return nil
	})
	front := httptest.NewServer(e)
	t.Cleanup(front.Close)
	return strings.TrimPrefix(front.URL, "http://"), at.URL, failed
}

// A client's request comes to the owner as it is, without the headers about the connection or for this node alone. So
// does the answer.
func TestForwardedAsItIs(t *testing.T) {
	t.Parallel()
	type heard struct {
		line, body string
		header     http.Header
	}
	got := make(chan heard, 1)
	address, owner, _ := between(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- heard{r.Method + " " + r.RequestURI, string(body), r.Header}
		w.Header().Set("Connection", "X-Link")
		w.Header().Set("X-Link", "one")
		w.Header()["X-Kept"] = []string{"two", "three"}
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(body)
	})
	for _, body := range []string{"", "small", strings.Repeat("large", smallBody)} {
		for _, chunked := range []bool{false, true} {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			length := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
			if chunked && body != "" {
				length = fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
			}
			const path = "/v1/a%2Fb?x=1;y=%20&z"
			go fmt.Fprint(conn, "POST "+path+" HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer x\r\nCookie: a=b\r\nX-Forwarded-For: ::1\r\n"+
				"Forwarded: for=a\r\nConnection: X-Link\r\nX-Link: one\r\nTe: trailers\r\nQuern-Hop: forged\r\nX-Kept: two\r\nX-Kept: three\r\n"+length)
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != http.StatusTeapot || string(text) != body || answer.Header.Get("X-Link") != "" ||
				!slices.Equal(answer.Header["X-Kept"], []string{"two", "three"}) || answer.Header.Get(headerOwner) != owner {
				t.Errorf("the answer is %s with %d bytes and %v, %v; want %d bytes", answer.Status, len(text), answer.Header, err, len(body))
			}
			asked := <-got
			if asked.line != "POST "+path || asked.body != body || !slices.Equal(asked.header["X-Kept"], []string{"two", "three"}) ||
				!strings.Contains(asked.header.Get(headerHop), ".") || len(asked.header[headerHop]) != 1 {
				t.Errorf("the owner was asked for %s with %d bytes and %v; want %d bytes", asked.line, len(asked.body), asked.header, len(body))
			}
			for _, name := range []string{"Authorization", "Cookie", "X-Forwarded-For", "Forwarded", "Connection", "X-Link", "Te", "User-Agent"} {
				if asked.header[name] != nil {
					t.Errorf("the owner got %s: %q", name, asked.header[name])
				}
			}
		}
	}
}

// A stream arrives piece by piece, and an answer that breaks off fails the call: no client takes half of it for the whole.
func TestForwardedAnswers(t *testing.T) {
	t.Parallel()
	read := make(chan struct{})
	address, _, failed := between(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/half") {
			w.Header().Set("Content-Length", "100")
		}
		_, _ = w.Write([]byte("one"))
		_ = http.NewResponseController(w).Flush()
		if strings.HasPrefix(r.URL.Path, "/half") {
			panic(http.ErrAbortHandler)
		}
		<-read
		_, _ = w.Write([]byte("two"))
	})
	answer, err := http.Get("http://" + address + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	piece := make([]byte, 3)
	if _, err := io.ReadFull(answer.Body, piece); err != nil || string(piece) != "one" {
		t.Fatalf("the first piece is %q, %v", piece, err)
	}
	close(read)
	if rest, err := io.ReadAll(answer.Body); err != nil || string(rest) != "two" || <-failed != nil {
		t.Errorf("the rest is %q, %v", rest, err)
	}

	for path, want := range map[string]queue.Code{"/half": codeUnknownOutcome, "/half/explain": queue.CodeMoving} { // the second only reads
		answer, err = http.Post("http://"+address+path, contentJSON, bytes.NewReader([]byte("{}")))
		if err == nil {
			_, err = io.ReadAll(answer.Body)
			answer.Body.Close()
		}
		var p *problem
		if reason := <-failed; err == nil || queue.CodeOf(reason) != want && (!errors.As(reason, &p) || p.Code != string(want)) {
			t.Errorf("half an answer at %s is taken for a whole one: %v, %v", path, err, reason)
		}
	}
}
