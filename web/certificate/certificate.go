// Package certificate has the certificate of a server. The server reads it from files, which an operator
// may replace while the server runs, or makes one itself for a first try.
package certificate

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Files has the paths of the parts. All are PEM.
type Files struct {
	Certificate string // the server's certificate, followed by those between it and its authority
	Key         string // its private key
	ClientCA    string // the authorities whose clients are known by their certificate; "" for none
}

// Options has the parts of a Source. All fields are required.
type Options struct {
	Files      Files
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// lookEvery is how long ago the last look at the files may be when a connection begins.
const lookEvery = time.Second

// maxFileBytes bounds a file: a chain and a bundle of authorities are much smaller.
const maxFileBytes = 4 << 20

// Source gives every new connection the certificate that the files hold at that time.
// Connections that exist keep theirs.
//
// Files are looked at when a connection begins, once a second at most, and not by a watcher: a
// server without connections needs no certificate, and watchers behave differently on each file
// system. Halves that do not match, as between the two steps of a renewal, leave the current
// version in place.
type Source struct {
	files   Files
	now     func() time.Time
	log     *slog.Logger
	current atomic.Pointer[version]

	mu     sync.Mutex
	newest time.Time // that was seen
	looked time.Time
	seen   [3]stamp // what the files were like when they were last read
}

// version is the content of the files at one time.
type version struct {
	config *tls.Config
	leaf   *x509.Certificate
}

// stamp tells whether a file was replaced or written. Links are followed, so that swapping a link counts.
type stamp struct {
	modified time.Time
	size     int64
}

// Open reads the files. It fails when they cannot be read, do not belong together, or hold
// a certificate whose time is over.
func Open(o Options) (*Source, error) {
	s := &Source{files: o.Files, now: o.Now, log: o.Logger}
	read, err := s.read()
	if err != nil {
		return nil, err
	}
	if now := s.now(); now.After(read.leaf.NotAfter) {
		return nil, fmt.Errorf("certificate: %s is no longer valid since %s: put a newer one in its place",
			s.files.Certificate, read.leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	s.looked, s.seen = s.now(), s.stamps()
	s.current.Store(read)
	expiry := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "quern_tls_certificate_expiry_timestamp_seconds",
		Help: "Time at which the certificate for new connections expires, in seconds since 1970.",
	}, func() float64 { return float64(s.current.Load().leaf.NotAfter.Unix()) })
	if err := o.Registerer.Register(expiry); err != nil {
		return nil, fmt.Errorf("certificate: metrics: %w", err)
	}
	return s, nil
}

// Config is for the listening side. It offers HTTP/2 and HTTP/1.1, and TLS 1.2 or later.
func (s *Source) Config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.latest().config, nil },
	}
}

// Covers says whether the certificate is for host, a name or a literal address without
// port: then it is a name of this server.
func (s *Source) Covers(host string) bool { return s.current.Load().leaf.VerifyHostname(host) == nil }

// Fingerprint is the SHA-256 of the server's certificate, in hexadecimal, as `openssl x509
// -fingerprint -sha256` shows it but for the colons.
func (s *Source) Fingerprint() string {
	sum := sha256.Sum256(s.current.Load().leaf.Raw)
	return hex.EncodeToString(sum[:])
}

// latest looks at the files when the last look is lookEvery ago. If they cannot be used, the present
// version stays: the look may come while an operator has replaced only one of two files.
func (s *Source) latest() *version {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if now.Sub(s.looked) < lookEvery {
		return s.current.Load()
	}
	s.looked = now
	stamps := s.stamps()
	if stamps == s.seen {
		return s.current.Load()
	}
	s.seen = stamps
	read, err := s.read()
	if err != nil {
		s.log.Error("the files of the certificate changed and cannot be used; the certificate read before stays in use",
			"certificate", s.files.Certificate, "key", s.files.Key, "error", err)
		return s.current.Load()
	}
	s.current.Store(read)
	s.log.Info("the certificate was read again", "certificate", s.files.Certificate, "valid_until", read.leaf.NotAfter)
	return read
}

// latestTime is the latest time that was seen: a client's certificate that expired stays
// so when the clock is set back.
func (s *Source) latestTime() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Without the reading of the monotonic clock, which goes on whatever the wall clock does.
	if now := s.now().Round(0); now.After(s.newest) {
		s.newest = now
	}
	return s.newest
}

// stamps are those of the files as they are now; that of a file which is not there is zero.
func (s *Source) stamps() (out [3]stamp) {
	for i, path := range [...]string{s.files.Certificate, s.files.Key, s.files.ClientCA} {
		if info, err := os.Stat(path); err == nil {
			out[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return out
}

// read makes a version of the files.
func (s *Source) read() (*version, error) {
	chain, err := readFile(s.files.Certificate)
	if err != nil {
		return nil, err
	}
	key, err := readFile(s.files.Key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("certificate: %s and the key %s cannot be used: %w", s.files.Certificate, s.files.Key,
			err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{pair}, Time: s.latestTime}
	if s.files.ClientCA != "" {
		bundle, err := readFile(s.files.ClientCA)
		if err != nil {
			return nil, err
		}
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(bundle) {
			return nil, fmt.Errorf("certificate: %s holds no certificate of an authority in PEM", s.files.ClientCA)
		}
	}
	return &version{config, pair.Leaf}, nil
}

// readFile reads a file of at most maxFileBytes.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(content) > maxFileBytes {
		err = fmt.Errorf("%s has more than %d bytes, which no certificate has", path, maxFileBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return content, nil
}
