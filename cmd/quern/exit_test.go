package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// A server that is not Quern is named as such, in one line without its page; the submission that was asked for is not "not found".
func TestOtherServersAreNamed(t *testing.T) {
	t.Parallel()
	for status, text := range map[int]string{404: "<!DOCTYPE HTML>\n<html>", 501: "", 403: `{"message":"no"}`, 502: "bad gateway"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}))
		t.Cleanup(server.Close)
		var said strings.Builder
		a := &app{out: io.Discard, err: &said, env: func() []string { return []string{"QUERN_SERVER=" + server.URL} }}
		code := a.run(t.Context(), []string{"get", "7529572615950696448"})
		want := "quern: " + server.URL + " does not answer as a Quern server does: HTTP status "
		if code != exitUnreachable || !strings.HasPrefix(said.String(), want) || strings.Contains(said.String(), "<") ||
			!strings.Contains(said.String(), "--server") {
			t.Errorf("%d %q: exit code %d, want %d; it said: %s", status, text, code, exitUnreachable, said.String())
		}
	}
}

// A command that cannot print on a full disk says so: its command line was right.
func TestFullOutputIsNoUsageError(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = full.Close() })
	for _, line := range []string{"completion bash", "completion zsh", "completion fish", "completion powershell", "--version", "version"} {
		var said strings.Builder
		a := &app{out: full, err: &said, env: func() []string { return nil }}
		if code := a.run(t.Context(), strings.Fields(line)); code != exitFailure || !strings.Contains(said.String(), "Free some space") {
			t.Errorf("%s: exit code %d, want %d; it said: %s", line, code, exitFailure, said.String())
		}
	}
}

// A page in the place of a stream of events ends what follows it: it would be asked for again and again.
func TestAPageIsNoStream(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }))
	t.Cleanup(server.Close)
	for _, line := range [][]string{{"ends"}, {"audit", "--follow"}} {
		var said strings.Builder
		a := &app{out: io.Discard, err: &said, env: func() []string { return []string{"QUERN_SERVER=" + server.URL} }}
		if code := a.run(t.Context(), line); code != exitFailure || !strings.Contains(said.String(), "no stream of events") {
			t.Errorf("%v: exit code %d, want %d; it said: %s", line, code, exitFailure, said.String())
		}
	}
}

// Of several addresses, separated by commas, the one that serves is called; when none does all are named.
func TestSeveralServers(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"items":[]}`) }))
	t.Cleanup(server.Close)
	live := strings.TrimPrefix(server.URL, "http://")
	for servers, want := range map[string]int{"127.0.0.1:1, " + live + ",unix:/nowhere/quern.sock": exitOK, live: exitOK,
		"127.0.0.1:1,http://127.0.0.1:2/": exitUnreachable, live + ",": exitUsage} {
		for range 4 { // the order is drawn
			var said strings.Builder
			a := &app{out: io.Discard, err: &said, env: func() []string { return []string{"QUERN_SERVER=" + servers} }}
			code := a.run(t.Context(), []string{"queue", "list"})
			named := strings.HasPrefix(said.String(), "quern: no server answers at http://127.0.0.1:1,http://127.0.0.1:2: ")
			if code != want || named != (want == exitUnreachable) {
				t.Errorf("%s: exit code %d, want %d; it said: %s", servers, code, want, said.String())
			}
		}
	}
}
