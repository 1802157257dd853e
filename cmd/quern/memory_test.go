package main

import (
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The memory of the machine is read from the kernel's text, and any other text means no limit. The options that follow from memory
// are within their ranges.
func TestUsableMemory(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"MemTotal:       24117248 kB\nMemFree:         1 kB\n": 24117248 << 10,
		"MemFree:         1 kB\n":                              math.MaxInt64,
		"MemTotal: lots kB\n":                                  math.MaxInt64,
		"":                                                     math.MaxInt64,
	} {
		if got := totalMemory(text); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
	var c Config
	if err := setViewMemory(&c, auto); err != nil || c.ViewMemory < minViewMemory || c.ViewMemory > usableMemory() {
		t.Errorf("views may take %d of %d bytes: %v", c.ViewMemory, usableMemory(), err)
	}
	if err := setMaxLive(&c, auto); err != nil || c.MaxLive < 1000 || c.MaxLive*1000 > max(usableMemory(), 1_000_000) {
		t.Errorf("%d submissions of a kilobyte may be open in %d bytes: %v", c.MaxLive, usableMemory(), err)
	}
	if err := setMaxLive(&c, "0"); err != nil || c.MaxLive != 0 {
		t.Errorf("any number: %d, %v", c.MaxLive, err)
	}
	if err := setMemoryLimit(&c, auto); err != nil || c.MemoryLimit < minMemoryLimit || c.MemoryLimit > max(usableMemory(), minMemoryLimit) {
		t.Errorf("inserts may be taken up to %d of %d bytes: %v", c.MemoryLimit, usableMemory(), err)
	}
	if err := setMemoryLimit(&c, "0"); err != nil || c.MemoryLimit != 0 {
		t.Errorf("no limit: %d, %v", c.MemoryLimit, err)
	}
}

// Memory outside of Go's heap counts as well as live memory on it.
func TestResidentMemory(t *testing.T) {
	t.Parallel()
	page := int64(os.Getpagesize())
	for text, want := range map[string]int64{"9000 500 200 3 0 800 0\n": 300 * page, "1 2": 0, "a b c": 0, "": 0} {
		if got := residentMemory(text); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
	if used := usedMemory(); used < 1<<20 || used > usableMemory() {
		t.Errorf("the test uses %d bytes of %d", used, usableMemory())
	}
}

// Above the limit of its memory the server refuses inserts, with the numbers and advice, and does everything else. Once work has ended
// it takes inserts again.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	s, err := startServer(quernCopy(t), os.Environ(), filepath.Join(t.TempDir(), "data"), "--memory-limit", "64MiB", "--max-live-submissions", "0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.end(syscall.SIGTERM); err != nil || t.Failed() {
			t.Errorf("the server ended with %v; it said: %s", err, s.stderr.String())
		}
	}()
	user := diskUser{t, s.url}
	one := `{"chunks":{"count":1,"prefix":"a"},"meta":{"run":1}}`
	batch := `{"submissions":[` + strings.Repeat(one+",", 999) + one + `]}`
	var status, inserted int
	var answer []byte
	for inserted = 0; inserted < 1000; inserted++ {
		if status, answer = user.post("/v1/queues/default/submissions:batch", batch); status == http.StatusTooManyRequests {
			break
		} else if strings.Contains(string(answer), `"code":"overloaded"`) { // the batch met the limit on its way
			status, answer = user.post("/v1/queues/default/submissions", one)
			break
		}
	}
	if status != http.StatusTooManyRequests || !strings.Contains(string(answer), "memory-limit, 64 MiB") {
		t.Fatalf("after %d batches an insert gave %d %.300s, want 429 with the limit", inserted, status, answer)
	}
	t.Logf("%d batches were inserted", inserted)
	for path, body := range map[string]string{
		"/v1/queues/default/reservations": `{"max":1}`,
		"/v1/bulk-operations":             `{"action":"cancel","queue":"default","filter":{"meta":{"run":1}}}`,
	} {
		if status, answer := user.post(path, body); status/100 != 2 {
			t.Errorf("%s gave %d %.300s, want success", path, status, answer)
		}
	}
	until := time.Now().Add(time.Minute)
	for status = 0; status != http.StatusCreated && time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		status, answer = user.post("/v1/queues/default/submissions", one)
	}
	if status != http.StatusCreated {
		t.Errorf("after all was cancelled an insert gave %d %.300s, want 201", status, answer)
	}
}
