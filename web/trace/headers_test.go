package trace

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Headers are read as OpenTelemetry's own variable has them, and no error repeats a value.
func TestParseHeaders(t *testing.T) {
	t.Parallel()
	list, err := ParseHeaders(" authorization = Bearer%20s3cret%2C7 ,x-scope=a=b,")
	if err != nil || len(list) != 2 || list[0] != (Header{"Authorization", "Bearer s3cret,7"}) || list[1] != (Header{"X-Scope", "a=b"}) {
		t.Errorf("got %v, %v; want Authorization and X-Scope", list, err)
	}
	if list, err := ParseHeaders(""); err != nil || len(list) != 0 {
		t.Errorf("of nothing: got %v, %v", list, err)
	}
	for text, want := range map[string]string{
		"s3cret": "part 1", "a=1,=s3cret": "part 2", "a b=s3cret": "part 1", "a=%zzs3cret": "escape", "a=s3cret%0d%0ab": "may not have", "a=": "empty",
		"Host=s3cret": "sets itself", "a=" + strings.Repeat("s3cret", 2000): "longer than", strings.Repeat("a=s3cret,", 17): "at most 16",
	} {
		if _, err := ParseHeaders(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%.40q: got %v, want an error about %q without the value", text, err, want)
		}
	}
}

// The headers go out with every request, and the log never has them, not even when the collector repeats them.
func TestHeadersAreSentAndNeverLogged(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case got <- r.Header:
		default:
		}
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, "no such token: "+r.Header.Get("Authorization")+" ("+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")+")")
	}))
	defer collector.Close()
	headers, err := ParseHeaders("Authorization=Bearer%20s3cret-t0ken")
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	tracer, err := New(Options{Endpoint: collector.URL, Headers: headers, Ratio: 1, Now: time.Now, Seed: rand.Uint64, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	tracer.Start("one", Internal, Context{}).End()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracer.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if h := <-got; h.Get("Authorization") != "Bearer s3cret-t0ken" || h.Get("Content-Type") != "application/json" {
		t.Errorf("the collector got %v", h)
	}
	if text := log.String(); !strings.Contains(text, "no such token: (hidden)") || strings.Contains(text, "s3cret") {
		t.Errorf("the log says %q, want what the collector said, without the token", text)
	}
}
