//go:build unix

package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// A server that may open 256 files answers /livez and serves clients with a token, while a client without one opens 400 connections and
// sends on each what is refused.
func TestFilesAreKeptForThoseWithAToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := quernCopy(t)
	p := launch(t, t.TempDir(), "sh", "-c", `ulimit -n 256; exec "$0" "$@"`, program, "serve", "--auth", "--data", dir, "--listen", "127.0.0.1:0")
	url := p.url()
	token, err := os.ReadFile(dir + "/admin-token")
	if err != nil {
		t.Fatal(err)
	}
	for range 400 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET /v1/whoami HTTP/1.1\r\nHost: localhost\r\n\r\n") // the server may have closed it already
	}
	patient := &http.Client{Timeout: time.Minute, Transport: &http.Transport{}} // without it the test would wait for ever for an answer
	for path, header := range map[string]string{"/livez": "", "/v1/whoami": "Bearer " + strings.TrimSpace(string(token))} {
		request, err := http.NewRequestWithContext(t.Context(), "GET", url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", header)
		answer, err := patient.Do(request)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %d, want 200", path, answer.StatusCode)
		}
	}
}

// Most files are for connections where there are many, and half of them where there are few.
func TestMostConnections(t *testing.T) {
	t.Parallel()
	for files, want := range map[int]int{0: 0, 256: 128, 1024: 512, 8192: 4096, 65536: 61440} {
		if got := mostConnections(files); got != want {
			t.Errorf("of %d files %d are for connections, want %d", files, got, want)
		}
	}
}
