package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The kernel makes a file system read-only under a running server when it finds it damaged. Nothing is acknowledged from then on, reads go
// on, no start is possible, and once the file system is fixed a start has all that was acknowledged.
//
//quern:killing
func TestDiskTurnsReadOnly(t *testing.T) {
	t.Parallel()
	disk := smallExt4(t, "48m")
	trigger := filepath.Join("/sys/fs/ext4", deviceOf(t, disk), "trigger_fs_error")
	if _, err := os.Stat(trigger); err != nil {
		t.Skipf("this kernel cannot be asked to find a file system damaged: %v", err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, data := quernLink(t, program), filepath.Join(disk, "data")
	s, err := startServer(program, os.Environ(), data, "--ballast-bytes", "4MiB")
	if err != nil {
		t.Fatal(err)
	}
	d := diskUser{t, s.url + "/v1/queues/default"}
	d.must("/submissions", `{"chunks":{"count":1000,"template":"row {index}"}}`)
	d.finish(100)
	if err := os.WriteFile(trigger, []byte("a test"), 0o200); err != nil {
		t.Fatal(err)
	}
	refused := func(user diskUser) {
		t.Helper()
		for _, path := range []string{"/submissions", "/submissions", "/rules"} {
			status, answer := user.post(path, map[string]string{
				"/submissions": `{"chunks":{"count":1,"prefix":"a"}}`,
				"/rules":       `{"action":"pause","match":{"meta":{"customer":1}}}`,
			}[path])
			if status != http.StatusServiceUnavailable {
				t.Errorf("%s on a read-only disk gave %d %s, want 503", path, status, answer)
			}
		}
	}
	refused(d)
	var stats struct{ Ready, Done int }
	if d.get("/stats", &stats); stats.Ready != 900 {
		t.Errorf("read from a read-only disk: %+v, want 900 ready", stats)
	}
	if status, answer := d.ask(http.Get(s.url + "/readyz?verbose")); status != http.StatusServiceUnavailable ||
		!bytes.Contains(answer, []byte("queue default")) {
		t.Errorf("readyz on a read-only disk gave %d %s, want 503 that names the queue", status, answer)
	}
	_ = s.end(syscall.SIGKILL)
	if _, err := startServer(program, os.Environ(), data); err == nil || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("a start on a read-only disk: %v, want an error that says so", err)
	}
	fix(t, disk)
	if s, err = startServer(program, os.Environ(), data, "--ballast-bytes", "4MiB"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.end(syscall.SIGTERM) }()
	d = diskUser{t, s.url + "/v1/queues/default"}
	var kept struct {
		Ready       int
		Submissions int `json:"submissions_open"`
	}
	if d.get("/stats", &kept); kept.Ready != 900 || kept.Submissions != 1 {
		t.Errorf("after the disk was fixed: %+v, want 900 chunks of one submission", kept)
	}
	d.finish(100)
}

// A file cannot grow any further, because of its file system or a limit of the process. No write that failed is acknowledged, and
// acknowledged writes are there after a kill. When the limit is gone, inserts go on without a restart.
func TestFileTooLarge(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, data := quernLink(t, program), t.TempDir()
	s, err := startServer(program, os.Environ(), data, "--ballast-bytes", "1MiB")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.end(syscall.SIGTERM) }()
	var limit unix.Rlimit
	if err := unix.Prlimit(s.process.Process.Pid, unix.RLIMIT_FSIZE, nil, &limit); err != nil {
		t.Fatal(err)
	}
	small := unix.Rlimit{Cur: 3_000_000, Max: limit.Max}
	if err := unix.Prlimit(s.process.Process.Pid, unix.RLIMIT_FSIZE, &small, nil); err != nil {
		t.Fatal(err)
	}
	d := diskUser{t, s.url + "/v1/queues/default"}
	inserted, status, answer := 0, http.StatusCreated, []byte(nil)
	// The first refusal ends the loop: after it the server begins its log again, and then there is room for another insert or two.
	for range 40 {
		if status, answer = d.post("/submissions", bigInsert()); status != http.StatusCreated {
			break
		}
		inserted++
	}
	if status != http.StatusServiceUnavailable || inserted == 0 {
		t.Fatalf("%d inserts into files of limited size were taken, the last gave %d %.300s, want some, then 503", inserted, status, answer)
	}
	if err := unix.Prlimit(s.process.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	d.until("taking inserts", func() bool {
		status, answer = d.post("/submissions", bigInsert())
		return status == http.StatusCreated
	})
	_ = s.end(syscall.SIGKILL)
	if s, err = startServer(program, os.Environ(), data); err != nil {
		t.Fatal(err)
	}
	d = diskUser{t, s.url + "/v1/queues/default"}
	var stats struct {
		Open int `json:"submissions_open"`
	}
	if d.get("/stats", &stats); stats.Open != inserted+1 {
		t.Errorf("%d submissions are there after a kill, want the %d that were acknowledged", stats.Open, inserted+1)
	}
	d.finish(100)
}

// deviceOf is the name of the block device below the file system at dir.
func deviceOf(t *testing.T, dir string) string {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Stat(dir, &stat); err != nil {
		t.Fatal(err)
	}
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev)))
	if err != nil {
		t.Skipf("the device of %s is not known: %v", dir, err)
	}
	return filepath.Base(device)
}

// fix does what an operator does with an ext4 that turned read-only: unmount, check, mount.
func fix(t *testing.T, dir string) {
	t.Helper()
	device := "/dev/" + deviceOf(t, dir)
	out, err := exec.Command("losetup", "-n", "-O", "BACK-FILE", device).Output()
	if err != nil {
		t.Fatal(err)
	}
	image := string(bytes.TrimSpace(out))
	for _, command := range [][]string{{"umount", dir}, {"e2fsck", "-fy", image}, {"mount", "-o", "loop", image, dir}} {
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		exit, ended := errors.AsType[*exec.ExitError](err)
		fixed := ended && command[0] == "e2fsck" && exit.ExitCode() <= 2
		if err != nil && !fixed {
			t.Fatalf("%v: %v %s", command, err, out)
		}
	}
}
