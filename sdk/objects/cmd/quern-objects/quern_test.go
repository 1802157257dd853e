package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/objects/internal/server"
)

// beside builds quern-objects beside quern, unless it is there.
var beside = sync.OnceValue(func() error {
	at := filepath.Join(filepath.Dir(server.Program), "quern-objects")
	if _, err := os.Stat(at); err == nil {
		return nil
	}
	if said, err := exec.Command("go", "build", "-o", at, ".").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, said)
	}
	return nil
})

// programs are quern and quern-objects, side by side.
func programs(t *testing.T) (quern string) {
	t.Helper()
	if err := beside(); err != nil {
		t.Fatal(err)
	}
	return server.Program
}

// submit --upload and work --fetch of quern are carried out by the quern-objects beside it, against a real server and a bucket of files.
func TestQuernUploadsAndFetches(t *testing.T) {
	t.Parallel()
	s, quern, file := newShell(t), programs(t), filepath.Join(t.TempDir(), "a b")
	if err := os.WriteFile(file, []byte("ash"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), quern, append(args, "--server", s.address)...).Output()
		if err != nil {
			t.Fatalf("quern %v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	id := run("submit", "--upload", s.bucket, "--meta", "company=5", file)
	work := exec.CommandContext(t.Context(), quern, "work", "--server", s.address, "--fetch", s.bucket, "-c", "2", "--", "sh", "-c",
		`tr a-z A-Z; echo " $QUERN_META_COMPANY"`)
	if err := work.Start(); err != nil {
		t.Fatal(err)
	}
	run("wait", id)
	key := run("outputs", id)
	object := filepath.Join(strings.TrimSuffix(strings.TrimPrefix(s.bucket, "file://"), "?no_tmp_dir=true"), key)
	if text, err := os.ReadFile(object); err != nil || string(text) != "ASH 5\n" {
		t.Errorf("the object %s: %q, %v; want ASH 5", key, text, err)
	}
	if err := work.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := work.Wait(); err != nil { // the signal reaches the program that took quern's place, which ends in order
		t.Errorf("work: %v", err)
	}
}

// A consumer that is killed takes its command with it on Linux: no one else works on the chunk.
func TestKilledWorkTakesItsCommand(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a child with its parent")
	}
	s, quern, file, gate := newShell(t), programs(t), filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "gate")
	if err := errors.Join(os.WriteFile(file, []byte("ash"), 0o600), syscall.Mkfifo(gate, 0o600)); err != nil {
		t.Fatal(err)
	}
	submit := exec.CommandContext(t.Context(), quern, "submit", "--server", s.address, "--upload", s.bucket, file)
	if said, err := submit.CombinedOutput(); err != nil {
		t.Fatalf("submit: %v: %s", err, said)
	}
	work := exec.CommandContext(t.Context(), quern, "work", "--server", s.address, "--fetch", s.bucket, "--", "sh", "-c", `exec sleep 60 > "$0"`, gate)
	if err := work.Start(); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(gate) // returns when the command has opened the other end
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := errors.Join(reader.SetReadDeadline(time.Now().Add(30*time.Second)), work.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%v, want the end of the file, which says that the command is gone", err)
	}
	_ = work.Wait() // it was killed
}
