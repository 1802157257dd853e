package web

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
)

// probes are the paths that ServeProbes answers: what a supervisor and Prometheus ask for. None takes a body or changes anything.
var probes = []string{"/livez", "/readyz", "/metrics"}

// probing is where the context of a request says that it came in by the listener for probes, which asks for no token.
type probing struct{}

// isProbe says whether a request came in by that listener.
func isProbe(r *http.Request) bool { return r.Context().Value(probing{}) != nil }

// ServeProbes answers the probes, and nothing else, on a listener of their own until ctx ends; it returns nil then. It serves
// plain HTTP and asks for no token, so that a supervisor and Prometheus need no secret: anyone who can reach the address can read the
// metrics. It owns the listener.
func (s *Server) ServeProbes(ctx context.Context, listener net.Listener) error {
	only := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(probes, r.URL.Path) {
			http.Error(w, "This address serves "+strings.Join(probes, ", ")+" only.", http.StatusNotFound)
			return
		}
		s.echo.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), probing{}, true)))
	})
	return s.serve(ctx, s.listening(only), listener, func() {})
}
