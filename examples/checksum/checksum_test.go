package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// The whole source of Go's commands goes through four consumer processes, one of which is killed half-way, and every checksum is right.
func TestGoSourceTree(t *testing.T) {
	t.Parallel()
	root := goSource(t)
	files := countFiles(t, root)
	if files < 3000 {
		t.Fatalf("%s has %d files; Go's commands have more than 3,000", root, files)
	}
	quern := build(t)
	server, url := serve(t, quern)
	var workers []*exec.Cmd
	for _, strategy := range []string{
		"Random",
		"OldestFirst",
		`OrElse(SelectOnly("kind", "go", Random), NewestFirst)`,
		`OrElse(SelectOnly("top", "go", OldestFirst), SelectOnly("top", "compile", Random), Random)`,
	} {
		workers = append(workers, start(t, quern, "work", "--server", url, "--quiet", "--concurrency", "4", "--timeout", "5s", "--strategy", strategy, "--", "sha256sum", "{}"))
	}
	victim := workers[0]
	killed := make(chan error, 1)
	go func() { killed <- killHalfWay(t.Context(), victim, quern, url, uint64(files/2)) }()

	var report bytes.Buffer
	if err := run(t.Context(), url, "default", root, &report); err != nil {
		t.Fatalf("%v\n%s", err, report.String())
	}
	if err := <-killed; err != nil {
		t.Fatalf("kill half-way: %v", err)
	}
	if want := fmt.Sprintf("all %d checksums are equal\n", files); !strings.HasSuffix(report.String(), want) {
		t.Errorf("the report ends in %q, want %q", report.String(), want)
	}
	stats := statsOf(t, url)
	if stats.DoneTotal != uint64(files) || stats.SubmissionsOpen != 0 || stats.Ready != 0 || stats.Dead != 0 {
		t.Errorf("stats = %+v, want %d done and nothing left", stats, files)
	}
	if stats.ExpiredTotal == 0 {
		t.Errorf("no reservation ran out, though a consumer was killed while it held chunks")
	}
	var exit *exec.ExitError
	if err := victim.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the killed consumer ended with %v, want SIGKILL", err)
	}
	for i, process := range append(workers[1:], server) {
		if err := errors.Join(process.Process.Signal(syscall.SIGTERM), process.Wait()); err != nil {
			t.Errorf("process %d (%s) did not end well: %v", i+1, process.Args[1], err)
		}
	}
}

// A file that changes between the consumer's look and the direct one is found out.
func TestDifferenceIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.txt")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	quern := build(t)
	_, url := serve(t, quern)
	start(t, quern, "work", "--server", url, "--quiet", "--", "echo", "0000  {}")
	var report bytes.Buffer
	err := run(t.Context(), url, "default", dir, &report)
	if err == nil || err.Error() != "1 of 1 checksums differ" || !strings.Contains(report.String(), `a.txt: got "0000", want "ed7002b4`) {
		t.Errorf("got %v and the report:\n%s", err, report.String())
	}
}

// killHalfWay kills the process as soon as half of the chunks are done, by the numbers that quern watch prints.
func killHalfWay(ctx context.Context, victim *exec.Cmd, quern, url string, half uint64) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watch := exec.CommandContext(ctx, quern, "watch", "--server", url, "--every", "100ms", "-o", "jsonl")
	out, err := watch.StdoutPipe()
	if err != nil {
		return err
	}
	if err := watch.Start(); err != nil {
		return err
	}
	decoder := json.NewDecoder(out)
	for {
		var stats api.Stats
		if err := decoder.Decode(&stats); err != nil {
			return err
		}
		if stats.DoneTotal >= half {
			err := victim.Process.Kill()
			stop()
			_ = watch.Wait() // it was killed just now
			return err
		}
	}
}

// build makes the real binary, once for all tests.
func build(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "quern-checksum-"); built.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-o", filepath.Join(built.dir, "quern"), "github.com/quern-queue/quern/cmd/quern").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "quern")
}

var built struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := os.RemoveAll(built.dir); err != nil { // "" when nothing was built
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// serve starts a server on a free port and a fresh directory, and returns its address when it is ready.
func serve(t *testing.T, quern string) (*exec.Cmd, string) {
	t.Helper()
	process := exec.Command(quern, "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0")
	stdout, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	launch(t, process)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the server ended before it was ready: %v", err)
	}
	for word := range strings.FieldsSeq(line) {
		if strings.HasPrefix(word, "http://") {
			return process, word
		}
	}
	t.Fatalf("the server's first line %q has no address", line)
	return nil, ""
}

// start starts a process that runs until the test ends it, at the latest at the end of the test.
func start(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	process := exec.Command(args[0], args[1:]...)
	launch(t, process)
	return process
}

func launch(t *testing.T, process *exec.Cmd) {
	t.Helper()
	stderr := &tail{}
	process.Stderr = stderr
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill() // usually it ended long ago
		if t.Failed() {
			t.Logf("%s said: %s", process.Args[1], stderr)
		}
	})
}

// tail keeps the output of a process, for the report of a failure.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *tail) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *tail) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func statsOf(t *testing.T, url string) *api.Stats {
	t.Helper()
	c, err := client.New(url)
	if err != nil {
		t.Fatal(err)
	}
	stats, err := c.Stats(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

// goSource is the source tree of the Go toolchain that runs this test.
func goSource(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("go env GOROOT: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "src", "cmd")
}

func countFiles(t *testing.T, root string) int {
	t.Helper()
	groups, err := walk(root)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range groups {
		n += len(g.paths)
	}
	return n
}
