//quern:overlapping
package web

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/web/certificate"
)

// Over HTTP/2, where requests share a connection, a long poll and a stream end with their token, and when the server stops, as they do
// over HTTP/1.1; other requests of the connection go on.
func TestWaitsEndOverHTTP2(t *testing.T) {
	t.Parallel()
	files, err := certificate.SelfSigned(t.TempDir(), []string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	shown, err := certificate.Open(certificate.Options{Files: files, Now: time.Now, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixtureSeeded(t, 1, func(s *Server) { s.certificate = shown })
	_, admin := f.token(engine.TokenRequest{Name: "root", Scopes: access.Admin})
	worker, consume := f.token(engine.TokenRequest{Name: "worker", Scopes: access.Consume | access.Read})
	address := serveTLS(t, f.server)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, MaxConnsPerHost: 1}
	t.Cleanup(transport.CloseIdleConnections)
	ask := func(ctx context.Context, token, method, path, body string) (int, string) {
		request, err := http.NewRequestWithContext(ctx, method, "https://"+address+path, strings.NewReader(body))
		if err != nil {
			return 0, err.Error()
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", contentJSON)
		answer, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		if answer.ProtoMajor != 2 {
			return 0, "not over HTTP/2 but " + answer.Proto
		}
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			return answer.StatusCode, err.Error()
		}
		return answer.StatusCode, string(text)
	}
	type result struct {
		status int
		text   string
	}
	begin := func(token, method, path, body string) <-chan result {
		ended := make(chan result, 1)
		go func() {
			status, text := ask(context.Background(), token, method, path, body)
			ended <- result{status, text}
		}()
		return ended
	}
	poll := begin(consume, "POST", reservePath, `{"max":1,"wait_ms":60000}`)
	stream := begin(consume, "GET", "/v1/events", "")
	other := begin(admin, "POST", reservePath, `{"max":1,"wait_ms":60000}`)
	f.waiters(2)
	f.eventually("the stream is there too", func() bool { return f.server.streams.count() > 0 })
	if err := f.engine.Tokens().Revoke(t.Context(), access.ID(worker)); err != nil {
		t.Fatal(err)
	}
	f.server.auth.expel()
	if got := <-poll; got.status != http.StatusUnauthorized {
		t.Errorf("the long poll of a token that was revoked ended with %d %s, want 401", got.status, got.text)
	}
	if got := <-stream; got.status != http.StatusOK {
		t.Errorf("the stream of a token that was revoked ended with %d %s", got.status, got.text)
	}
	if status, text := ask(t.Context(), admin, "GET", "/v1/whoami", ""); status != http.StatusOK {
		t.Errorf("another request of the connection: %d %s", status, text)
	}
	f.waiters(1)
	f.server.Stop()
	if got := <-other; got.status != http.StatusOK || !strings.Contains(got.text, `"reservations":[]`) {
		t.Errorf("the long poll of a server that stops ended with %d %s, want an empty answer", got.status, got.text)
	}
}
