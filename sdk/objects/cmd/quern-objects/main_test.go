package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gocloud.dev/blob"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
	"github.com/quern-queue/quern/sdk/objects/internal/server"
)

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

// shell runs command lines against one server and one bucket of files.
type shell struct {
	t       *testing.T
	address string
	bucket  string
}

func newShell(t *testing.T) shell {
	t.Helper()
	address, end, err := server.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Errorf("ending the server: %v", err)
		}
	})
	return shell{t, address, "file://" + t.TempDir() + "?no_tmp_dir=true"}
}

// run runs a command line with in as its standard input.
func (s shell) run(ctx context.Context, in string, args ...string) (code int, out, said string) {
	var stdout bytes.Buffer
	var stderr sharedBuffer
	a := &app{in: strings.NewReader(in), out: &stdout, err: &stderr, getenv: func(name string) string {
		return map[string]string{"QUERN_SERVER": "http://127.0.0.1:1," + s.address}[name] // no one listens at the first
	}}
	code = a.run(ctx, args)
	return code, stdout.String(), stderr.String()
}

// sharedBuffer takes the messages of a command while it works, and the logs of the client beside
// it.
type sharedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *sharedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *sharedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// ok runs a command line that must succeed, and returns what it printed.
func (s shell) ok(in string, args ...string) string {
	s.t.Helper()
	code, out, said := s.run(s.t.Context(), in, args...)
	if code != 0 {
		s.t.Fatalf("%q: exit code %d: %s", args, code, said)
	}
	return strings.TrimSpace(out)
}

// working runs a consumer until the submission has ended.
func (s shell) working(id string, command ...string) *api.Submission {
	s.t.Helper()
	c, err := client.New(s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	ctx, stop := context.WithCancel(s.t.Context())
	defer stop()
	codes := make(chan string, 1)
	go func() {
		code, _, said := s.run(ctx, "", append([]string{"work", "--bucket", s.bucket, "--"}, command...)...)
		if code == 0 {
			said = ""
		}
		codes <- said
	}()
	ended, err := c.Wait(ctx, id)
	if err != nil {
		s.t.Fatal(err)
	}
	stop()
	if said := <-codes; said != "" {
		s.t.Errorf("work: %s", said)
	}
	return ended
}

// Files go through a command and come out as objects. A sweep leaves the objects that submissions
// on the server name.
func TestSubmitWorkSweep(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	dir := t.TempDir()
	var names []string
	for name, text := range map[string]string{"a": "ash", "b": "beech"} {
		names = append(names, filepath.Join(dir, name))
		if err := os.WriteFile(names[len(names)-1], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	id := s.ok("", append([]string{"submit", "--bucket", s.bucket, "--meta", "company=5", "--idempotency-key", "k", "--"}, names...)...)
	if again := s.ok(strings.Join(names, "\n"), "submit", "--bucket", s.bucket, "--meta", "company=5", "--idempotency-key", "k", "--files-from", "-"); again != id {
		t.Errorf("under the same key: got the submission %s, want %s", again, id)
	}
	if ended := s.working(id, "sh", "-c", `tr a-z A-Z; echo " $QUERN_META_COMPANY"`); ended.Done != 2 {
		t.Errorf("got %+v, want 2 done chunks", ended)
	}
	bucket, err := blob.OpenBucket(t.Context(), s.bucket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bucket.Close() }()
	if err := bucket.WriteAll(t.Context(), "quern/outputs/of-no-submission/0", nil, nil); err != nil {
		t.Fatal(err)
	}
	if out := s.ok("", "sweep", "--bucket", s.bucket, "--older-than", time.Hour.String()); out != "0 folders removed" {
		t.Errorf("a sweep of what is old: got %q", out)
	}
	var found []string
	for all := bucket.List(&blob.ListOptions{Prefix: "quern/outputs/" + id + "/"}); ; {
		object, err := all.Next(t.Context())
		if err == io.EOF {
			break
		}
		text, errRead := bucket.ReadAll(t.Context(), object.Key)
		if err != nil || errRead != nil {
			t.Fatal(err, errRead)
		}
		found = append(found, string(text))
	}
	if got := strings.Join(found, ""); len(found) != 2 || !strings.Contains(got, "ASH 5\n") || !strings.Contains(got, "BEECH 5\n") {
		t.Errorf("got the outputs %q, want ASH 5 and BEECH 5", found)
	}
}

// A command that exits with 100 ends its chunk, and the reason is the last line that it said.
func TestFatalCommand(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	dir := t.TempDir()
	file, tries := filepath.Join(dir, "file"), filepath.Join(dir, "tries")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(s.address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ChangeQueue(t.Context(), "default", api.QueueSettingsInput{OnExhausted: new("fail_submission")}); err != nil {
		t.Fatal(err)
	}
	id := s.ok("", "submit", "--bucket", s.bucket, file)
	ended := s.working(id, "sh", "-c", "echo x >>"+tries+"; echo first >&2; echo no luck >&2; exit 100")
	if ended.State != api.StateFailed || !strings.Contains(ended.Failure, "no luck (exit status 100)") ||
		strings.Contains(ended.Failure, "first") || strings.Contains(ended.Failure, "Error") {
		t.Errorf("got %s %q, want the submission failed by the last line alone", ended.State, ended.Failure)
	}
	if made, err := os.ReadFile(tries); err != nil || string(made) != "x\n" {
		t.Errorf("got the tries %q, %v; want one", made, err)
	}
	if code, _, said := s.run(t.Context(), "", "submit", "--bucket", s.bucket, file+"-missing"); code != 1 || !strings.Contains(said, "no such file") {
		t.Errorf("a file that is not there: got %d %q", code, said)
	}
}

// A wrong command line ends with exit code 2, and with advice.
func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	s := shell{t: t, address: "http://127.0.0.1:1"}
	for want, args := range map[string][]string{
		"quern-objects submit --bucket URL": {"push"},
		"--bucket is missing":               {"sweep"},
		"a command is missing":              {"work", "--bucket", "file:///tmp"},
		"cannot be run":                     {"work", "--bucket", "file:///tmp", "--", "no-such-command-anywhere"},
		"name the files":                    {"submit", "--bucket", "file:///tmp"},
		"must be KEY=VALUE":                 {"submit", "--bucket", "file:///tmp", "--meta", "x", "f"},
		"no arguments":                      {"sweep", "--bucket", "file:///tmp", "x"},
	} {
		if code, _, said := s.run(t.Context(), "", args...); code != 2 || !strings.Contains(said, want) {
			t.Errorf("%q: got %d %q, want 2 and %q", args, code, said, want)
		}
	}
	if code, out, _ := s.run(t.Context(), "", "--help"); code != 0 || !strings.Contains(out, "sweep") {
		t.Errorf("--help: got %d %q", code, out)
	}
}
