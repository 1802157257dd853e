//go:build unix

package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/web/certificate"
)

// Options about listening that contradict each other, or would let other machines reach a server in the clear by oversight, are
// refused. Others are accepted.
func TestListening(t *testing.T) {
	t.Parallel()
	pair := []string{"--tls-cert", "a.crt", "--tls-key", "a.key"}
	for _, try := range []struct {
		args []string
		want string // "": accepted
	}{
		{[]string{"--listen", "[::1]:7700"}, ""},
		{[]string{"--listen", "0.0.0.0:7700"}, "tls-self-signed for a first try"},
		{[]string{"--listen", "queue.example:7700"}, "which other machines can reach"},
		{[]string{"--listen", ":7700", "--tls-self-signed"}, ""},
		{[]string{"--listen", ":7700", "--tls-self-signed=false"}, "which other machines can reach"},
		{append([]string{"--listen", "10.0.0.1:7700"}, pair...), ""},
		{[]string{"--listen", "10.0.0.1:7700", "--insecure-behind-proxy"}, ""},
		{pair, ""},
		{pair[:2], "belong together"},
		{pair[2:], "belong together"},
		{append([]string{"--tls-self-signed"}, pair...), "only one of them"},
		{append([]string{"--insecure-behind-proxy"}, pair...), "only one of them"},
		{[]string{"--cluster", "postgres://db/quern", "--tls-self-signed"}, "other nodes of a cluster do not trust"},
		{append([]string{"--cluster", "postgres://db/quern"}, pair...), ""},
		{[]string{"--tls-self-signed=yes"}, "must be true or false"},
		{[]string{"--metrics-listen", "0.0.0.0:9090"}, ""},
		{[]string{"--metrics-listen", "9090"}, "HOST:PORT"},
	} {
		_, err := load(t, "", nil, try.args)
		if (err == nil) != (try.want == "") || err != nil && !strings.Contains(err.Error(), try.want) {
			t.Errorf("%v: got %v, want %q", try.args, err, try.want)
		}
	}
}

// Where others than those on this machine can make requests, they need a token from the first start on.
func TestReachableServersAreGuarded(t *testing.T) {
	t.Parallel()
	for _, try := range []struct {
		args []string
		want bool
	}{
		{nil, false},
		{[]string{"--auth"}, true},
		{[]string{"--auth=false"}, false},
		{[]string{"--tls-self-signed"}, false},
		{[]string{"--listen", ":7700", "--tls-self-signed"}, true},
		{[]string{"--listen", "queue.example:7700", "--tls-self-signed", "--auth=false"}, true},
		{[]string{"--insecure-behind-proxy"}, true},
		{[]string{"--metrics-listen", "0.0.0.0:9090"}, false},
	} {
		config, err := load(t, "", nil, try.args)
		if err != nil || config.guarded() != try.want {
			t.Errorf("%v: guarded %v, %v; want %v", try.args, config.guarded(), err, try.want)
		}
	}
}

// A server over TLS of its own making serves the command line by its fingerprint and by its certificate, keeps both over a restart,
// says what is wrong to clients that do not trust it or speak plain HTTP, and answers probes at their own address and nothing else.
func TestServeOverTLS(t *testing.T) {
	t.Parallel()
	program, data := quernProgram(t), t.TempDir()
	fingerprint := ""
	for range 2 {
		server := launch(t, t.TempDir(), program, "serve", "--data", data, "--listen", "127.0.0.1:0", "--tls-self-signed", "--metrics-listen", "127.0.0.1:0")
		at, probes, known := word(t, server.line(), "https://"), word(t, server.line(), "http://"), server.line()
		_, print, _ := strings.Cut(known, "fingerprint ")
		print, _, _ = strings.Cut(print, ";")
		if len(print) != 64 || fingerprint != "" && fingerprint != print {
			t.Fatalf("fingerprint %q, before the restart %q", print, fingerprint)
		}
		fingerprint = print
		stats := func(want int, said string, args ...string) {
			t.Helper()
			p := launch(t, t.TempDir(), append([]string{program, "stats"}, args...)...)
			p.ends(want)
			if !strings.Contains(p.stderr.String(), said) {
				t.Errorf("stats %v said %q, want %q", args, p.stderr.String(), said)
			}
		}
		host := strings.TrimPrefix(at, "https://")
		stats(exitOK, "", "--server", host, "--server-fingerprint", print)
		stats(exitOK, "", "--server", at, "--server-ca", filepath.Join(data, tlsFolder, "self-signed.crt"))
		stats(exitUnreachable, "Say whom to trust", "--server", at)
		stats(exitUnreachable, "not the one of --server-fingerprint", "--server", at, "--server-fingerprint", strings.Repeat("0", 64))
		stats(exitUsage, "not a SHA-256", "--server", at, "--server-fingerprint", "12")
		stats(exitUnreachable, "HTTP request to an HTTPS server", "--server", "http://"+host)
		for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/metrics": 200, "/v1/queues": 404, "/": 404, "/livez/": 404} {
			answer, err := http.Get(probes + path)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err != nil || answer.StatusCode != want || path == "/metrics" && !strings.Contains(string(body), "quern_tls_certificate_expiry_timestamp_seconds 1") {
				t.Errorf("%s at the address for probes: %d (%v), want %d", path, answer.StatusCode, err, want)
			}
		}
		server.tell(syscall.SIGTERM)
		server.ends(exitOK)
	}
}

// word finds the word of a line that begins with prefix.
func word(t *testing.T, line, prefix string) string {
	t.Helper()
	for w := range strings.FieldsSeq(line) {
		if strings.HasPrefix(w, prefix) {
			return w
		}
	}
	t.Fatalf("there is no %s in %q", prefix, line)
	return ""
}

// A certificate of the server's own making is for the names by which clients may address it.
func TestSelfSignedNames(t *testing.T) {
	t.Parallel()
	names := selfSignedNames(Config{Listen: "10.1.2.3:7700", AllowedHosts: []string{"queue.example", "localhost"}})
	for _, want := range []string{"localhost", "127.0.0.1", "::1", "10.1.2.3", "queue.example"} {
		if !slices.Contains(names, want) {
			t.Errorf("%v lacks %s", names, want)
		}
	}
	all := selfSignedNames(Config{Listen: "[::]:7700"})
	for _, want := range machineAddresses() {
		if !slices.Contains(all, want) {
			t.Errorf("%v lacks this machine's address %s", all, want)
		}
	}
	config := Config{Data: t.TempDir()}
	if shown, err := openCertificate(config, certificate.Options{}); shown != nil || err != nil {
		t.Errorf("without options about TLS: %v, %v; want no certificate", shown, err)
	}
	if entries, err := os.ReadDir(config.Data); err != nil || len(entries) > 0 {
		t.Errorf("it wrote %v (%v)", entries, err)
	}
}
