package main

import (
	"io"
	"net/http"
	"net/http/httptest"
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
