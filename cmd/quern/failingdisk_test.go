package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// While no file may grow, as under a limit of the file size, completions with outputs answer that their commit failed, consumers keep what they hold,
// limits go on counting it, and /readyz says that the queue is degraded; when writes come through again it all goes on by itself.
func TestWritesFail(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := startServer(quernLink(t, program), os.Environ(), filepath.Join(t.TempDir(), "data"), "--ballast-bytes", "1MiB")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.end(syscall.SIGTERM) }()
	d := diskUser{t, s.url + "/v1/queues/default"}
	d.must("/submissions", `{"chunks":{"count":9,"prefix":"p/"},"meta":{"customer":1}}`)
	const limited = `{"max":9,"strategy":"MaxSimultaneous(\"customer\", 3, OldestFirst)"}`
	var got crashReserved
	if err := json.Unmarshal(d.must("/reservations", limited), &got); err != nil || len(got.Reservations) != 3 {
		t.Fatalf("reserve: %d chunks, %v; want 3", len(got.Reservations), err)
	}
	items := func(output string) string {
		list := ""
		for _, r := range got.Reservations {
			list += fmt.Sprintf(`,{"token":%q%s}`, r.Token, output)
		}
		return `{"items":[` + list[1:] + `]}`
	}
	d.limitFiles(s.process.Process.Pid, 1)
	large := `,"output":"` + strings.Repeat("x", 30_000) + `"`
	for _, code := range []string{"commit_failed", "unavailable", "unavailable"} { // the queue cannot be read again, so it says no at once
		status, answer := d.post("/reservations/complete", items(large))
		if status != http.StatusServiceUnavailable || !bytes.Contains(answer, []byte(`"code":"`+code+`"`)) {
			t.Errorf("a completion with output gave %d %s, want 503 %s", status, answer, code)
		}
	}
	if status, answer := d.ready(s.url); status != http.StatusServiceUnavailable || !bytes.Contains(answer, []byte("degraded")) {
		t.Errorf("after a failed commit /readyz gave %d %s, want 503 and the word degraded", status, answer)
	}
	if status, answer := d.post("/reservations/complete", items("")); status != http.StatusServiceUnavailable {
		t.Errorf("a completion whose journal write fails gave %d %s, want 503", status, answer)
	}
	d.limitFiles(s.process.Process.Pid, unix.RLIM_INFINITY)
	d.until("ready again", func() bool { status, _ := d.ready(s.url); return status == http.StatusOK })
	var more crashReserved
	if err := json.Unmarshal(d.must("/reservations", limited), &more); err != nil || len(more.Reservations) != 0 {
		t.Errorf("%d chunks of a customer that has 3 of 3 were handed out (%v)", len(more.Reservations), err)
	}
	if answer := d.must("/reservations/complete", items(`,"output":"done"`)); bytes.Count(answer, []byte(`"ok"`)) != 3 {
		t.Errorf("the repeated completions: %s, want three times ok", answer)
	}
}

// While only the log of the journal may not grow, the journal can be closed and its log copied into it, but the server cannot write that it
// is closed. When writes come through, it is opened again all the same, by the server itself or by the next one after a kill or a stop.
func TestJournalLogFails(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"goes on": 0, "killed": syscall.SIGKILL, "stopped": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			program = quernLink(t, program)
			data := filepath.Join(t.TempDir(), "data")
			start := func() (*server, diskUser) {
				s, err := startServer(program, os.Environ(), data, "--ballast-bytes", "1MiB")
				if err != nil {
					t.Fatal(err)
				}
				return s, diskUser{t, s.url + "/v1/queues/default"}
			}
			s, d := start()
			defer func() { _ = s.end(syscall.SIGTERM) }()
			inserted := d.grow(filepath.Join(data, "shards", "0000", "journal.db-wal"), s.process.Process.Pid)
			for range 3 { // the writes that fail after the first one, and the reloads after them
				if status, answer := d.post("/submissions", `{"chunks":{"count":1,"prefix":"a"}}`); status != http.StatusServiceUnavailable {
					t.Errorf("an insert whose journal write fails gave %d %s, want 503", status, answer)
				}
			}
			if signal == 0 {
				d.limitFiles(s.process.Process.Pid, unix.RLIM_INFINITY)
			} else {
				_ = s.end(signal)
				s, d = start()
			}
			d.until("ready again", func() bool { status, _ := d.ready(s.url); return status == http.StatusOK })
			d.untilInserted()
			d.finish(inserted)
		})
	}
}

// grow has no file grow past what the log has now, and inserts submissions until that is used up, as the first refusal says.
func (d diskUser) grow(log string, pid int) (inserted int) {
	d.t.Helper()
	for range 40 {
		d.must("/submissions", `{"chunks":{"count":1,"prefix":"a"}}`)
		inserted++
	}
	info, err := os.Stat(log)
	if err != nil {
		d.t.Fatal(err)
	}
	d.limitFiles(pid, uint64(info.Size()))
	for ; inserted < 1000; inserted++ {
		if status, _ := d.post("/submissions", `{"chunks":{"count":1,"prefix":"a"}}`); status != http.StatusCreated {
			return inserted
		}
	}
	d.t.Fatalf("%d inserts fitted into a log of %d bytes", inserted, info.Size())
	return 0
}

// limitFiles bounds the files of a process, from now on.
func (d diskUser) limitFiles(pid int, bytes uint64) {
	d.t.Helper()
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil); err != nil {
		d.t.Fatal(err)
	}
}

func (d diskUser) ready(url string) (status int, answer []byte) {
	d.t.Helper()
	return d.ask(http.Get(url + "/readyz"))
}

// until asks again and again until something is so.
func (d diskUser) until(what string, is func() bool) {
	d.t.Helper()
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for range 300 {
		if is() {
			return
		}
		<-pause.C
	}
	d.t.Fatalf("after 30 seconds it is still not %s", what)
}
