package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// secure is a server over TLS that answers every call with okResults. It counts connections and those that resumed a session.
type secure struct {
	*httptest.Server
	opened, resumed, http1 atomic.Int32
	paths                  chan string
}

func newSecure(t *testing.T, config *tls.Config) *secure {
	t.Helper()
	s := &secure{paths: make(chan string, 100)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 {
			s.http1.Add(1)
		}
		if r.TLS.DidResume {
			s.resumed.Add(1)
		}
		s.paths <- r.URL.Path
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, okResults)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.opened.Add(1)
		}
	}
	s.TLS = config
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// trusting is the configuration of a client that trusts the server's certificate.
func (s *secure) trusting() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{RootCAs: roots}
}

// Over TLS the hot calls keep their own connections: one after the other they use a single one, below the path of the base
// address, and a new connection resumes the session of the one before.
func TestHotCallsOverTLS(t *testing.T) {
	t.Parallel()
	s := newSecure(t, nil)
	c := mustNew(t, s.URL+"/behind/a/proxy", WithTLS(s.trusting()))
	for range 10 {
		if err := release(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if got := <-s.paths; got != "/behind/a/proxy/v1/queues/default/reservations/release" {
			t.Fatalf("the server was asked for %s", got)
		}
	}
	if opened, http1 := s.opened.Load(), s.http1.Load(); opened != 1 || http1 != 10 {
		t.Errorf("%d connections and %d calls over HTTP/1.1; want 1 and 10", opened, http1)
	}
	c.Close()
	if err := release(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if s.opened.Load() != 2 || s.resumed.Load() != 1 {
		t.Errorf("after Close: %d connections, %d calls on resumed sessions; want 2 and 1", s.opened.Load(), s.resumed.Load())
	}
}

// A server whose certificate is not trusted, or is for another name, gets no call.
func TestServersThatAreNotTrustedGetNoCall(t *testing.T) {
	t.Parallel()
	s := newSecure(t, nil)
	other := s.trusting()
	other.ServerName = "other.example"
	for name, option := range map[string]Option{"authority": WithTLS(&tls.Config{}), "none given": WithRetries(0), "name": WithTLS(other)} {
		err := release(t.Context(), mustNew(t, s.URL, WithRetries(0), option))
		var unverified *tls.CertificateVerificationError
		if !errors.As(err, &unverified) {
			t.Errorf("%s: got %v, want that the certificate is refused", name, err)
		}
	}
	if n := len(s.paths); n != 0 {
		t.Errorf("the server got %d calls", n)
	}
}

// A server over TLS that is spoken to in the clear says so, and the client passes it on.
func TestTheWrongSchemeIsReported(t *testing.T) {
	t.Parallel()
	s := newSecure(t, nil)
	err := release(t.Context(), mustNew(t, strings.Replace(s.URL, "https", "http", 1), WithRetries(0)))
	if err == nil || !strings.Contains(err.Error(), "HTTP request to an HTTPS server") {
		t.Errorf("got %v, want what the server says", err)
	}
}

// The certificate of the client's configuration is shown to a server that asks for one. Without it the server's refusal is
// reported.
func TestClientCertificatesAreShown(t *testing.T) {
	t.Parallel()
	s := newSecure(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert})
	config := s.trusting()
	config.Certificates = s.TLS.Certificates
	if err := release(t.Context(), mustNew(t, s.URL, WithTLS(config))); err != nil {
		t.Error(err)
	}
	err := release(t.Context(), mustNew(t, s.URL, WithRetries(0), WithTLS(s.trusting())))
	if err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("without a certificate: %v, want that one is required", err)
	}
}
