package main

import (
	"bufio"
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The program does its work against a real server: every row of both kinds comes back changed.
func TestRun(t *testing.T) {
	t.Parallel()
	var report bytes.Buffer
	if err := run(t.Context(), serve(t), 2000, &report); err != nil {
		t.Fatalf("%v\n%s", err, report.String())
	}
	if want := "preview: completed, 200 outputs\nfull: completed, 2000 outputs\n"; report.String() != want {
		t.Errorf("got %q, want %q", report.String(), want)
	}
}

// Without a server it says so and ends.
func TestNoServer(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), "http://127.0.0.1:1", 1, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v, want a refused connection", err)
	}
}

// serve starts the real server on a free port and returns its address. The server gets the signal to end, and must
// end well, when the test is over.
func serve(t *testing.T) string {
	t.Helper()
	quern := filepath.Join(t.TempDir(), "quern")
	if out, err := exec.Command("go", "build", "-o", quern, "github.com/quern-queue/quern/cmd/quern").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	process := exec.Command(quern, "dev", "--listen", "127.0.0.1:0")
	stdout, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	process.Stderr = &stderr
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("the server had ended by itself: %v", err)
		}
		if err := process.Wait(); err != nil {
			t.Errorf("the server did not end well: %v; it said: %s", err, stderr.String())
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the server ended before it was ready: %v", err)
	}
	for word := range strings.FieldsSeq(line) {
		if strings.HasPrefix(word, "http://") {
			return word
		}
	}
	t.Fatalf("the server's first line %q has no address", line)
	return ""
}
