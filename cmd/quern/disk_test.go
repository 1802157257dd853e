package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// On a really full disk inserts are refused with advice, completions still get through, and nothing that was answered is lost. Once there
// is room, inserts are taken again without a restart.
//
//quern:killing
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
	big := bigInsert()
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

// A server starts on a disk that is full to the last byte, also after it gave the room for completions away and was killed. It takes no
// inserts into that room then, completions go through, and whatever needs room that is not there says so: 507, not 500. When there is room
// all goes on without a restart.
//
//quern:killing
func TestStartOnFullDisk(t *testing.T) {
	t.Parallel()
	for name, disk := range map[string]func(*testing.T, string) string{"tmpfs": smallDisk, "ext4": smallExt4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			startOnFullDisk(t, disk(t, "48m"))
		})
	}
}

func startOnFullDisk(t *testing.T, disk string) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program = quernLink(t, program)
	start := func() (*server, diskUser) {
		s, err := startServer(program, os.Environ(), filepath.Join(disk, "data"), "--ballast-bytes", "8MiB")
		if err != nil {
			t.Fatal(err)
		}
		return s, diskUser{t, s.url + "/v1/queues/default"}
	}
	s, d := start()
	defer func() { _ = s.end(syscall.SIGTERM) }()
	d.must("/submissions", `{"chunks":{"count":1000,"template":"row {index}"}}`)
	filler := filepath.Join(disk, "filler")
	fill(t, filler)
	if status, answer := d.post("/submissions", bigInsert()); status != http.StatusInsufficientStorage {
		t.Fatalf("an insert on a full disk gave %d %.300s, want 507", status, answer)
	}
	d.finish(100) // with the ballast
	for _, last := range []bool{false, true} {
		if _ = s.end(syscall.SIGKILL); last {
			fill(t, filler+"2")
		}
		s, d = start()
		for range 3 {
			if status, answer := d.post("/submissions", `{"chunks":{"count":1,"prefix":"a"}}`); status != http.StatusInsufficientStorage {
				t.Errorf("an insert after a restart on the full disk gave %d %.300s, want 507", status, answer)
			}
		}
		d.finish(100)
	}
	fill(t, filler+"3")
	for _, put := range []struct{ method, path, body string }{
		{"PUT", "-other", `{}`},
		{"PUT", "/strategies/nightly", `{"strategy":"Random","about":"` + strings.Repeat("x", 5000) + `"}`},
		{"PUT", "/meta-keys/customer/values/7", `{"limit":3}`},
		{"POST", "/rules", `{"action":"pause","match":{"meta":{"customer":1}}}`},
		{"PUT", "/schedules/nightly", `{"every":"1h","submission":{"chunks":{"count":1,"prefix":"a"}}}`},
	} {
		if status, answer := d.send(put.method, put.path, put.body); status >= 500 && status != http.StatusInsufficientStorage {
			t.Errorf("%s %s on a full disk gave %d %.300s, want 507 if it cannot be done", put.method, put.path, status, answer)
		}
	}
	if status, answer := d.send("PUT", "-other", `{}`); status != http.StatusInsufficientStorage || !bytes.Contains(answer, []byte(`"code":"disk_full"`)) {
		t.Errorf("a new queue on a full disk gave %d %.300s, want 507 disk_full", status, answer)
	}
	for _, name := range []string{filler, filler + "2", filler + "3"} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	d.untilInserted()
	if status, answer := d.send("PUT", "-other", `{}`); status != http.StatusCreated {
		t.Errorf("a new queue on a disk with room gave %d %.300s, want 201", status, answer)
	}
}

// fill takes all room that is left.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for size := 1 << 20; size >= 512; size /= 2 {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, size))
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk ended with %v", err)
	}
}

// bigInsert is about a megabyte that cannot be compressed.
func bigInsert() string {
	contents := make([]string, 1000)
	for i := range contents {
		contents[i] = fmt.Sprintf("%q", noise(1000))
	}
	return fmt.Sprintf(`{"chunks":{"inline":[%s]}}`, strings.Join(contents, ","))
}

// noise is a text of digits and letters in which nothing comes again.
func noise(size int) string {
	text := make([]byte, size)
	for i := range text {
		text[i] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[rand.IntN(64)]
	}
	return string(text)
}

// smallExt4 mounts an ext4 in a file, which only root may do, where the kernel has loop devices.
func smallExt4(t *testing.T, size string) string {
	t.Helper()
	image := filepath.Join(t.TempDir(), "ext4")
	dir := t.TempDir()
	for _, command := range [][]string{{"truncate", "-s", size, image}, {"mkfs.ext4", "-q", "-m", "0", image}, {"mount", "-o", "loop,errors=remount-ro", image, dir}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no ext4 of its own can be mounted here (%s: %v %s)", command[0], err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	return dir
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

func (d diskUser) send(method, path, body string) (status int, answer []byte) {
	d.t.Helper()
	request, err := http.NewRequest(method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	return d.ask(http.DefaultClient.Do(request))
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

// untilInserted repeats a small insert until the server has noticed the room: it looks every second.
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

// A disk that the queue itself has filled has room again when the work is over: once it is cancelled and its retention is over, the files
// give back what they do not need, and inserts are taken again, without a restart.
//
//quern:killing
func TestFullDiskIsFreed(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "96m")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := startServer(quernLink(t, program), os.Environ(), filepath.Join(disk, "data"), "--ballast-bytes", "8MiB")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.end(syscall.SIGTERM) }()
	d := diskUser{t, s.url + "/v1/queues/default"}

	var ids []string
	big := bigInsert()
	status, answer := 0, []byte(nil)
	for range 120 {
		if status, answer = d.post("/submissions", big); status != http.StatusCreated {
			break
		}
		var inserted struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(answer, &inserted); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, inserted.ID)
	}
	if status != http.StatusInsufficientStorage {
		t.Fatalf("%d inserts of a megabyte end with %d %.200s, want 507", len(ids), status, answer)
	}
	full := fileBytes(t, filepath.Join(disk, "data"), "store.db")
	if status, answer := d.send("PATCH", "", `{"settings":{"retention_seconds":1}}`); status != http.StatusOK {
		t.Fatalf("a retention of a second gave %d %.200s", status, answer)
	}
	all := diskUser{t, s.url + "/v1"}
	for _, id := range ids {
		all.must("/submissions/"+id+"/cancel", "")
	}
	d.untilInserted()
	d.until("shorter", func() bool { return fileBytes(t, filepath.Join(disk, "data"), "store.db") < full/4 })
	for i := range len(ids) / 2 {
		if status, answer := d.post("/submissions", big); status != http.StatusCreated {
			t.Fatalf("of the %d inserts that fitted before, the %dth gave %d %.200s", len(ids), i, status, answer)
		}
	}
}

// fileBytes is how long the files of a name are, of all queues.
func fileBytes(t *testing.T, data, name string) (bytes int64) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(data, "shards", "*", name))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	return bytes
}
