package client

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/wire"
)

// BenchmarkExchange100 measures the client's share of a cycle of 100 chunks, over its own connections and over
// net/http. The server only reads the request and writes the same bytes each time.
func BenchmarkExchange100(b *testing.B) {
	answer := new(wire.ExchangeResponse)
	request := &wire.ExchangeRequest{HasReserve: true, Reserve: wire.ReserveRequest{Max: 100}}
	for i := range uint32(100) {
		request.Complete = append(request.Complete, wire.CompleteItem{Token: token(i)})
		answer.Complete = append(answer.Complete, wire.Result{Status: "ok"})
		answer.Reservations = append(answer.Reservations, wire.Reservation{Token: token(i), Submission: 1 << 56, Index: i, Attempt: 1, Deadline: 1_800_000_000_000, ReadyAt: wire.InsertedAt(1 << 56), Content: []byte(strings.Repeat("x", 100))})
	}
	body := answer.Append(nil)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Write(body)
	})
	server, secured := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer server.Close()
	defer secured.Close()
	trusting := WithTLS(secured.Client().Transport.(*http.Transport).TLSClientConfig)
	for name, on := range map[string]struct {
		url    string
		option Option
	}{
		"lean": {server.URL, WithRetries(0)}, "net_http": {server.URL, WithHTTPClient(server.Client())},
		"lean_tls": {secured.URL, trusting}, "net_http_tls": {secured.URL, WithHTTPClient(secured.Client())},
	} {
		b.Run(name, func(b *testing.B) {
			c, err := New(on.url, on.option)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			var out Exchanged
			b.ReportAllocs()
			for b.Loop() {
				if err := c.ExchangeInto(b.Context(), "default", request, &out); err != nil {
					b.Fatal(err)
				}
			}
			if len(out.Reservations) != 100 {
				b.Fatalf("got %d reservations", len(out.Reservations))
			}
		})
	}
}
