package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// On a really full disk inserts are refused with what to do, completions still get through, nothing that was answered is
// lost, and once there is room inserts are taken again without a restart.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "32m")
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := startServer(quernLink(t, program), os.Environ(), filepath.Join(disk, "data"), "--ballast-bytes", "4MiB")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.end(syscall.SIGTERM) }()
	d := diskUser{t, s.url + "/v1/queues/default"}

	d.must("/submissions", `{"chunks":{"count":1000,"template":"row {index}"}}`)
	big := fmt.Sprintf(`{"chunks":{"inline":[%s%q]}}`, strings.Repeat(fmt.Sprintf("%q,", strings.Repeat("x", 1000)), 999), "last")
	inserted := 1
	status, answer := 0, []byte(nil)
	for range 40 {
		if status, answer = d.post("/submissions", big); status != http.StatusCreated {
			break
		}
		inserted++
	}
	if status != http.StatusInsufficientStorage || !bytes.Contains(answer, []byte(`"code":"disk_full"`)) {
		t.Fatalf("an insert on a full disk gave %d %s, want 507 disk_full", status, answer)
	}
	for range 5 {
		d.finish(100)
	}
	if status, answer = d.post("/submissions", `{"chunks":{"count":1,"prefix":"a"}}`); status != http.StatusInsufficientStorage {
		t.Errorf("a small insert on the full disk gave %d %s, want 507", status, answer)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	d.untilInserted()
	var stats struct {
		Done      int `json:"done_total"`
		Submitted int `json:"submissions_inserted_total"`
	}
	d.get("/stats", &stats)
	if stats.Done != 500 || stats.Submitted != inserted+1 {
		t.Errorf("stats %+v, want 500 done and %d submissions", stats, inserted+1)
	}
}

// smallDisk mounts a file system of its own in memory, which only root may do.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("no file system of its own can be mounted here (%v): the full disk is tested by page limits only", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

type diskUser struct {
	t   *testing.T
	url string
}

func (d diskUser) post(path, body string) (status int, answer []byte) {
	d.t.Helper()
	return d.ask(http.Post(d.url+path, "application/json", strings.NewReader(body)))
}

func (d diskUser) ask(response *http.Response, err error) (status int, answer []byte) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	if answer, err = io.ReadAll(response.Body); err != nil {
		d.t.Fatal(err)
	}
	return response.StatusCode, answer
}

func (d diskUser) must(path, body string) []byte {
	d.t.Helper()
	status, answer := d.post(path, body)
	if status/100 != 2 {
		d.t.Fatalf("%s gave %d %s", path, status, answer)
	}
	return answer
}

func (d diskUser) get(path string, into any) {
	d.t.Helper()
	response, err := http.Get(d.url + path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		d.t.Fatal(err)
	}
}

// finish reserves and completes n chunks of the oldest submission.
func (d diskUser) finish(n int) {
	d.t.Helper()
	var got crashReserved
	if err := json.Unmarshal(d.must("/reservations", fmt.Sprintf(`{"max":%d,"strategy":"OldestFirst"}`, n)), &got); err != nil {
		d.t.Fatal(err)
	}
	var items []string
	for _, r := range got.Reservations {
		items = append(items, fmt.Sprintf(`{"token":%q,"output":"done"}`, r.Token))
	}
	answer := d.must("/reservations/complete", `{"items":[`+strings.Join(items, ",")+`]}`)
	if ok := bytes.Count(answer, []byte(`"ok"`)); ok != n {
		d.t.Errorf("%d of %d completions got through on a full disk: %.200s", ok, n, answer)
	}
}

// untilInserted repeats a small insert until the server has noticed that there is room: it looks every second.
func (d diskUser) untilInserted() {
	d.t.Helper()
	d.until("taking inserts", func() bool {
		status, answer := d.post("/submissions", `{"chunks":{"count":1,"prefix":"a"}}`)
		if status != http.StatusCreated && status != http.StatusInsufficientStorage {
			d.t.Fatalf("an insert gave %d %s", status, answer)
		}
		return status == http.StatusCreated
	})
}
