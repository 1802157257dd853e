package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// clock is a time that a test sets.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.at.Store(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Unix())
	return c
}

func (c *clock) now() time.Time        { return time.Unix(c.at.Load(), 0) }
func (c *clock) pass(by time.Duration) { c.at.Add(int64(by / time.Second)) }

func open(t *testing.T, files Files, c *clock, log io.Writer) *Source {
	t.Helper()
	s, err := Open(Options{Files: files, Now: c.now, Logger: slog.New(slog.NewTextHandler(log, nil)), Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func selfSigned(t *testing.T, dir string, c *clock, names ...string) Files {
	t.Helper()
	files, err := SelfSigned(dir, names, c.now())
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A certificate of the server's own making is kept over starts, and made again when it does not cover a name, is near its end, or
// is damaged. Its key is for its owner only.
func TestSelfSignedIsKeptWhileItWillDo(t *testing.T) {
	t.Parallel()
	c, dir := newClock(), filepath.Join(t.TempDir(), "tls")
	print := func() string {
		return open(t, selfSigned(t, dir, c, "localhost", "10.1.2.3", "::1"), c, io.Discard).Fingerprint()
	}
	first := print()
	if c.pass(300 * 24 * time.Hour); print() != first {
		t.Error("after 300 days it was made again")
	}
	c.pass(80 * 24 * time.Hour)
	second := print()
	if second == first {
		t.Error("17 days before its end it was kept")
	}
	files := selfSigned(t, dir, c, "localhost", "queue.example")
	s := open(t, files, c, io.Discard)
	if s.Fingerprint() == second || !s.Covers("queue.example") || s.Covers("10.1.2.3") || s.Covers("other.example") {
		t.Error("it does not follow the names")
	}
	for _, path := range []string{files.Certificate, files.Key} {
		if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
		if open(t, selfSigned(t, dir, c, "localhost"), c, io.Discard).Fingerprint() == s.Fingerprint() {
			t.Errorf("%s was damaged and the certificate stayed", path)
		}
	}
	if info, err := os.Stat(files.Key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key has mode %v (%v), want 0600", info.Mode(), err)
	}
}

// New connections get the certificate that the files hold. A pair that does not belong together, or a file that is
// gone, changes nothing and is logged once. No call fails meanwhile.
func TestFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	c, log := newClock(), new(bytes.Buffer)
	mine, other := selfSigned(t, t.TempDir(), c, "127.0.0.1"), selfSigned(t, t.TempDir(), c, "127.0.0.1", "other.example")
	s := open(t, mine, c, log)
	first, second := s.Fingerprint(), open(t, other, c, io.Discard).Fingerprint()
	copyOver := func(from, to string) {
		t.Helper()
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := replaceFile(to, append(content, '\n')); err != nil { // another size: times may be equal
			t.Fatal(err)
		}
	}
	shown := func() string {
		t.Helper()
		c.pass(2 * time.Second)
		if _, err := s.Config().GetConfigForClient(nil); err != nil {
			t.Fatal(err)
		}
		return s.Fingerprint()
	}
	copyOver(other.Certificate, mine.Certificate)
	again := shown()
	if shown() != first || again != first || strings.Count(log.String(), "cannot be used; the certificate read before stays") != 1 {
		t.Errorf("a certificate without its key was taken, or not told of once:\n%s", log)
	}
	copyOver(other.Key, mine.Key)
	if shown() != second || !s.Covers("other.example") || strings.Count(log.String(), "was read again") != 1 {
		t.Errorf("the pair was not taken:\n%s", log)
	}
	if err := os.Remove(mine.Key); err != nil {
		t.Fatal(err)
	}
	if shown() != second {
		t.Error("without its key the certificate in use was dropped")
	}
}

// Clients connect all the time while the files are replaced again and again: each is answered.
func TestReplacingUnderLoadFailsNoCall(t *testing.T) {
	t.Parallel()
	c := newClock()
	a, b, used := selfSigned(t, t.TempDir(), c, "127.0.0.1"), selfSigned(t, t.TempDir(), c, "127.0.0.1"), t.TempDir()
	files := Files{Certificate: filepath.Join(used, "crt"), Key: filepath.Join(used, "key")}
	roots, padding := x509.NewCertPool(), ""
	use := func(from Files) {
		for _, move := range [][2]string{{from.Certificate, files.Certificate}, {from.Key, files.Key}} {
			content, err := os.ReadFile(move[0])
			if err != nil {
				t.Fatal(err)
			}
			roots.AppendCertsFromPEM(content)
			if err := replaceFile(move[1], append(content, padding...)); err != nil {
				t.Fatal(err)
			}
		}
		padding += "\n"
	}
	use(b)
	use(a)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
	server.TLS = open(t, files, c, io.Discard).Config()
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range 50 {
				transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Time: c.now}, ForceAttemptHTTP2: true}
				answer, err := (&http.Client{Transport: transport}).Get(server.URL)
				if err != nil {
					t.Errorf("a call failed: %v", err)
					return
				}
				if answer.ProtoMajor != 2 {
					t.Errorf("the call went over %s, want HTTP/2", answer.Proto)
				}
				answer.Body.Close()
				transport.CloseIdleConnections()
				c.pass(2 * time.Second)
			}
		})
	}
	for i := range 40 {
		use([]Files{b, a}[i%2])
		c.pass(2 * time.Second)
	}
	clients.Wait()
}

// Open refuses files that cannot be used, with the file's name.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	c := newClock()
	good, other := selfSigned(t, t.TempDir(), c, "localhost"), selfSigned(t, t.TempDir(), c, "localhost")
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	late := newClock()
	late.pass(400 * 24 * time.Hour)
	for name, try := range map[string]struct {
		files Files
		clock *clock
		want  string
	}{
		"no certificate": {Files{Certificate: good.Certificate + ".not", Key: good.Key}, c, "self-signed.crt.not"},
		"no key":         {Files{Certificate: good.Certificate, Key: empty}, c, "empty.pem"},
		"foreign key":    {Files{Certificate: good.Certificate, Key: other.Key}, c, other.Key},
		"no authority":   {Files{Certificate: good.Certificate, Key: good.Key, ClientCA: empty}, c, "empty.pem holds no certificate"},
		"expired":        {good, late, "no longer valid since 2031"},
	} {
		_, err := Open(Options{Files: try.files, Now: try.clock.now, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
		if err == nil || !strings.Contains(err.Error(), try.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, try.want)
		}
	}
}
