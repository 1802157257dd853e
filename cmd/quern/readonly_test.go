//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// unprivileged is an account that owns nothing, which stands in for the superuser: file modes do not bind that one.
const unprivileged = 65534

// A server refuses a directory that it may not write, names it, and leaves it as it was.
func TestReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	data := filepath.Join(root, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(root, "quern")
	copyProgram(t, program)
	if err := os.Chmod(data, 0o555); err != nil {
		t.Fatal(err)
	}
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) { // the account must get as far as the data
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{data, filepath.Join(data, "below")} {
		out, err := asUnprivileged(program, "serve", "--data", dir, "--listen", "127.0.0.1:0").CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitFailure || !strings.Contains(string(out), dir) {
			t.Errorf("serve on %s ended with %v and said %q; want exit code %d and the directory's name", dir, err, out, exitFailure)
		}
	}
	entries, err := os.ReadDir(data)
	if err != nil || len(entries) != 0 {
		t.Errorf("the directory has %v (%v), want it untouched", entries, err)
	}
}

// asUnprivileged is a command that file modes bind.
func asUnprivileged(args ...string) *exec.Cmd {
	c := exec.Command(args[0], args[1:]...)
	c.Dir = "/"
	if os.Geteuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
	}
	return c
}

// copyProgram copies this test binary, which is quern when it is called so. Another process does it: if this one held
// the file open for writing while a parallel test forks, running it would fail as busy.
func copyProgram(t *testing.T, to string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", self, to).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
}
