//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
	"github.com/quern-queue/quern/web/certificate"
)

// proxyHost is the name that the examples of proxies have.
const proxyHost = "quern.example.com"

// The examples in deploy/proxy, unchanged except for addresses and files, do all that clients need of a proxy in front of a real
// server.
func TestProxiesInFront(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]struct {
		program, file string
		arguments     func(config string) []string
		adapt         func(text, listen, server, dir string, files certificate.Files) string
	}{
		"nginx": {"usr/sbin/nginx", "nginx.conf", func(config string) []string {
			return []string{"-e", "stderr", "-p", filepath.Dir(config), "-c", config}
		}, nginxHere},
		"caddy": {"usr/bin/caddy", "Caddyfile", func(config string) []string {
			return []string{"run", "--adapter", "caddyfile", "--config", config}
		}, caddyHere},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := proxyProgram(t, p.program)
			data := filepath.Join(t.TempDir(), "data")
			s, err := startServer(quernCopy(t), os.Environ(), data, "--insecure-behind-proxy",
				"--allowed-hosts", proxyHost)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.end(syscall.SIGKILL) }()
			dir, listen := t.TempDir(), freeAddress(t)
			files, err := certificate.SelfSigned(filepath.Join(dir, "tls"), []string{proxyHost}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			example, err := os.ReadFile(filepath.Join(deployDir, "proxy", p.file))
			if err != nil {
				t.Fatal(err)
			}
			config := filepath.Join(dir, p.file)
			text := p.adapt(string(example), listen, strings.TrimPrefix(s.url, "http://"), dir, files)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			startProxy(t, dir, program, p.arguments(config))
			through(t, listen, files, filepath.Join(data, "admin-token"))
		})
	}
}

// proxyProgram is an installed program, or one that make proxies has unpacked.
func proxyProgram(t *testing.T, path string) string {
	t.Helper()
	if found, err := exec.LookPath(filepath.Base(path)); err == nil {
		return found
	}
	unpacked, err := filepath.Abs(filepath.Join("../../bin/proxies", path))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(unpacked); err != nil {
		t.Skipf("%s is not here; make proxies fetches it", filepath.Base(path))
	}
	return unpacked
}

// nginxHere has the example listen elsewhere, within a configuration that needs no root.
func nginxHere(text, listen, server, dir string, files certificate.Files) string {
	text = strings.NewReplacer("443", listen, "127.0.0.1:7700", server, "/etc/ssl/quern.pem", files.Certificate,
		"/etc/ssl/quern.key", files.Key).Replace(text)
	var own strings.Builder
	own.WriteString("daemon off; pid " + dir + "/pid; events {}\nhttp {\naccess_log off;\n")
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		own.WriteString(kind + "_temp_path " + filepath.Join(dir, kind) + ";\n")
	}
	return own.String() + text + "}\n"
}

// caddyHere has the example listen elsewhere, with a certificate that is there.
func caddyHere(text, listen, server, _ string, files certificate.Files) string {
	host, port, _ := net.SplitHostPort(listen)
	text = strings.Replace(text, "\n"+proxyHost+" {", "\n"+proxyHost+":"+port+" {\n\tbind "+host+"\n\ttls "+files.Certificate+" "+files.Key, 1)
	return "{\n\tadmin off\n\tauto_https off\n}\n" + strings.Replace(text, "127.0.0.1:7700", server, 1)
}

func startProxy(t *testing.T, dir, program string, arguments []string) {
	t.Helper()
	proxy := exec.Command(program, arguments...)
	proxy.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	proxy.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said := &syncBuffer{}
	proxy.Stdout, proxy.Stderr = said, said
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-proxy.Process.Pid, syscall.SIGKILL) // nginx has workers
		_ = proxy.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
}

// through makes the calls that need something of a proxy, over TLS and HTTP/2 where the proxy speaks it.
func through(t *testing.T, listen string, files certificate.Files, tokenFile string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	chain, err := os.ReadFile(files.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(chain)
	h := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: proxyHost, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, listen)
		},
	}}
	c, err := client.New("https://"+proxyHost, client.WithHTTPClient(h), client.WithToken(strings.TrimSpace(string(token))), client.WithRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := becomesReady(ctx, c, true, 30*time.Second); err != nil {
		t.Fatalf("the proxy does not come up: %v", err)
	}

	// An insert near the limit of bodies, which is base64 on its way.
	large := &api.NewSubmission{Meta: api.Meta{"company": api.Int(1)}}
	for range 30 {
		large.Chunks.Inline = append(large.Chunks.Inline, bytes.Repeat([]byte("x"), 1<<20))
	}
	if _, err := c.Insert(ctx, "default", large); err != nil {
		t.Errorf("an insert of 30 MiB: %v", err)
	}

	if _, err := c.PutQueue(ctx, "mail", api.QueueSettingsInput{}); err != nil {
		t.Fatal(err)
	}

	// A stream sends events at once: they come before the stream ends.
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+proxyHost+"/v1/queues/mail/ends", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	stream, err := h.Do(request)
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatalf("the stream of ends: %v %v", stream, err)
	}
	defer stream.Body.Close()

	// A long poll is answered when there is work, and its chunk is completed: the stream reports it, and goes on.
	type polled struct {
		got *api.ReserveResponse
		err error
	}
	answer := make(chan polled, 1)
	go func() {
		got, err := c.Reserve(ctx, "mail", &api.ReserveRequest{Max: 1, WaitMS: 50_000})
		answer <- polled{got, err}
	}()
	inserted, err := c.Insert(ctx, "mail", &api.NewSubmission{Chunks: api.Chunks{Count: 1, Template: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	poll := <-answer
	if poll.err != nil || len(poll.got.Reservations) != 1 || poll.got.Reservations[0].Submission != inserted.ID {
		t.Fatalf("the long poll: %+v, %v", poll.got, poll.err)
	}

	results, err := c.Complete(ctx, "mail", []api.CompleteItem{{Token: poll.got.Reservations[0].Token}})
	if err != nil || results[0].Status != api.StatusOK {
		t.Fatalf("%+v, %v", results, err)
	}
	lines := bufio.NewScanner(stream.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if bytes.HasPrefix(lines.Bytes(), []byte("data: ")) && bytes.Contains(lines.Bytes(), []byte(`"completed"`)) {
			return
		}
	}
	t.Errorf("the stream ended without the end: %v", lines.Err())
}
