package web

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/web/certificate"
)

// authority signs certificates of clients.
type authority struct {
	t      *testing.T
	key    *ecdsa.PrivateKey
	raw    []byte
	serial int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, key: key}
	a.raw = a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, &key.PublicKey)
	return a
}

func (a *authority) sign(c *x509.Certificate, of *ecdsa.PublicKey) []byte {
	a.t.Helper()
	a.serial++
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(a.serial), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent := c
	if a.raw != nil {
		var err error
		if parent, err = x509.ParseCertificate(a.raw); err != nil {
			a.t.Fatal(err)
		}
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, of, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return raw
}

// client makes a certificate for a name of acme.
func (a *authority) client(name string) tls.Certificate {
	return a.named(pkix.Name{CommonName: name, Organization: []string{"acme"}})
}

func (a *authority) named(subject pkix.Name) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	raw := a.sign(&x509.Certificate{Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, &key.PublicKey)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

// mutual is a server that knows clients by their certificates.
type mutual struct {
	*fixture
	trusted *authority
	address string
	later   atomic.Int64 // by how much the clock of the certificates has gone on
}

func newMutual(t *testing.T) *mutual {
	t.Helper()
	m, dir := &mutual{trusted: newAuthority(t)}, t.TempDir()
	bundle := filepath.Join(dir, "clients.pem")
	if err := os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.trusted.raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := certificate.SelfSigned(dir, []string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	files.ClientCA = bundle
	now := func() time.Time { return time.Now().Add(time.Duration(m.later.Load())) }
	shown, err := certificate.Open(certificate.Options{Files: files, Now: now, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	m.fixture = newFixtureSeeded(t, 1, func(s *Server) { s.certificate = shown })
	m.address = serveTLS(t, m.server)
	return m
}

// ask says as which token the server sees a client with these certificates and this header; the status is 0 if the
// handshake fails.
func (m *mutual) ask(certs []tls.Certificate, header string) (status int, who string) {
	m.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certs}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(m.Context(), "GET", "https://"+m.address+"/v1/whoami", nil)
	if err != nil {
		m.Fatal(err)
	}
	if header != "" {
		request.Header.Set("Authorization", "Bearer "+header)
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	var as api.Whoami
	if answer.StatusCode == http.StatusOK {
		if err := json.NewDecoder(answer.Body).Decode(&as); err != nil {
			m.Fatal(err)
		}
	}
	return answer.StatusCode, as.Name
}

// A client certificate of a trusted authority stands for the token with its subject, with the token's scopes and name, and no longer than
// the token is good. One of another authority, or with another subject, stands for nothing; a token in the header counts before it.
func TestACertificateStandsForAToken(t *testing.T) {
	t.Parallel()
	m, other := newMutual(t), newAuthority(t)
	m.token(engine.TokenRequest{Name: "root", Scopes: access.Admin})
	id, _ := m.token(engine.TokenRequest{Name: "worker", Scopes: access.Consume, Subject: "CN=worker,O=acme"})
	_, reader := m.token(engine.TokenRequest{Name: "reader", Scopes: access.Read})
	worker := []tls.Certificate{m.trusted.client("worker")}
	for name, try := range map[string]struct {
		certs  []tls.Certificate
		header string
		status int
		who    string
	}{
		"certificate":       {worker, "", 200, "worker"},
		"none":              {nil, "", 401, ""},
		"another subject":   {[]tls.Certificate{m.trusted.client("stranger")}, "", 401, ""},
		"header counts":     {worker, reader, 200, "reader"},
		"wrong header":      {worker, "qn_wrong", 401, ""},
		"another authority": {[]tls.Certificate{other.client("worker")}, "", 0, ""},
	} {
		status, who := m.ask(try.certs, try.header)
		if status != try.status || status == 200 && who != try.who {
			t.Errorf("%s: %d as %q, want %d as %q", name, status, who, try.status, try.who)
		}
	}
	if err := m.engine.Tokens().Revoke(t.Context(), access.ID(id)); err != nil {
		t.Fatal(err)
	}
	if status, who := m.ask(worker, ""); status != http.StatusUnauthorized {
		t.Errorf("after the token was revoked: %d as %q, want 401", status, who)
	}
}

// A certificate stands for a token only with the same attributes in the same order: not with one of them twice, and not with another order.
// The refusal says how its subject is written, and with that a token can be made.
func TestACertificateHasAllOfTheSubject(t *testing.T) {
	t.Parallel()
	m := newMutual(t)
	m.token(engine.TokenRequest{Name: "worker", Scopes: access.Consume, Subject: "CN=worker"})
	cn, o := asn1.ObjectIdentifier{2, 5, 4, 3}, asn1.ObjectIdentifier{2, 5, 4, 10}
	for subject, names := range map[string][]pkix.AttributeTypeAndValue{
		"CN=worker,CN=evil": {{Type: cn, Value: "evil"}, {Type: cn, Value: "worker"}},
		"CN=evil,CN=worker": {{Type: cn, Value: "worker"}, {Type: cn, Value: "evil"}},
		"O=acme,CN=worker":  {{Type: cn, Value: "worker"}, {Type: o, Value: "acme"}},
	} {
		certificate := []tls.Certificate{m.trusted.named(pkix.Name{ExtraNames: names})}
		if status, who := m.ask(certificate, ""); status != http.StatusUnauthorized {
			t.Errorf("%s: %d as %q, want 401", subject, status, who)
		}
		m.token(engine.TokenRequest{Name: subject, Scopes: access.Read, Subject: subject})
		if status, who := m.ask(certificate, ""); status != http.StatusOK || who != subject {
			t.Errorf("%s with a token of its own: %d as %q, want 200", subject, status, who)
		}
	}
	for _, subject := range []string{"worker", "cn=other", "CN=other, O=acme", "/CN=other"} {
		_, _, err := m.engine.Tokens().New(t.Context(), engine.TokenRequest{Name: "n", Scopes: access.Read, Subject: subject})
		refused, is := errors.AsType[*queue.Error](err)
		if !is || len(refused.Problems) == 0 || refused.Problems[0].Pointer != "/certificate_subject" {
			t.Errorf("a token for %q, which no certificate has: %v, want an error at /certificate_subject", subject, err)
		}
	}
}

// A client's certificate that was refused as it had expired is refused when the clock is set back, too.
func TestAnExpiredCertificateStaysExpired(t *testing.T) {
	t.Parallel()
	m := newMutual(t)
	m.token(engine.TokenRequest{Name: "worker", Scopes: access.Consume, Subject: "CN=worker,O=acme"})
	worker := []tls.Certificate{m.trusted.client("worker")} // for an hour
	for _, step := range []struct {
		later  time.Duration
		status int
	}{{0, 200}, {2 * time.Hour, 0}, {0, 0}} {
		m.later.Store(int64(step.later))
		if status, who := m.ask(worker, ""); status != step.status {
			t.Errorf("%v later: %d as %q, want %d", step.later, status, who, step.status)
		}
	}
}

// serveTLS serves on a free port, over TLS with the server's certificate.
func serveTLS(t *testing.T, s *Server) string {
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
