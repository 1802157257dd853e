package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// busyQueues is a server on a disk of its own. Its queues work until the disk is full.
type busyQueues struct {
	t       *testing.T
	program string
	disk    string
	ballast string
	fillers int
}

func (b *busyQueues) start() *server {
	b.t.Helper()
	s, err := startServer(b.program, os.Environ(), filepath.Join(b.disk, "data"), "--ballast-bytes", b.ballast)
	if err != nil {
		b.t.Fatalf("start after %d kills on a full disk: %v", b.fillers, err)
	}
	return s
}

// killed ends the server and fills what room there is.
func (b *busyQueues) killed(s *server) {
	b.t.Helper()
	_ = s.end(syscall.SIGKILL)
	b.fillers++
	fill(b.t, filepath.Join(b.disk, fmt.Sprint("filler", b.fillers)))
}

// complete completes some chunks with outputs, and says whether the disk had room for that.
func (b *busyQueues) complete(d diskUser, output string) bool {
	b.t.Helper()
	var got crashReserved
	chunks := 10
	if len(output) < 1000 { // the disk is full sooner
		chunks = 50
	}
	if err := json.Unmarshal(d.must("/reservations", fmt.Sprintf(`{"max":%d,"strategy":"OldestFirst"}`, chunks)), &got); err != nil {
		b.t.Fatal(err)
	}
	var items []string
	for _, r := range got.Reservations {
		items = append(items, fmt.Sprintf(`{"token":%q,"output":%q}`, r.Token, output))
	}
	status, answer := d.post("/reservations/complete", `{"items":[`+strings.Join(items, ",")+`]}`)
	if status != http.StatusOK && status != http.StatusInsufficientStorage {
		b.t.Fatalf("a completion on a disk that fills gave %d %.300s", status, answer)
	}
	return status == http.StatusOK
}

// fillDisk has the queues work in turns until the disk is full for each of them.
func (b *busyQueues) fillDisk(s *server, queues, outputBytes int) {
	b.t.Helper()
	var busy []diskUser
	for i := range queues {
		d := diskUser{b.t, fmt.Sprintf("%s/v1/queues/busy%d", s.url, i)}
		if status, answer := d.send("PUT", "", `{}`); status != http.StatusCreated {
			b.t.Fatalf("a queue gave %d %.300s", status, answer)
		}
		d.must("/submissions", `{"chunks":{"count":1000000,"template":"row {index}"}}`)
		busy = append(busy, d)
	}
	output := noise(outputBytes)
	for rounds := 0; len(busy) > 0; rounds++ {
		if rounds == 100_000 {
			b.t.Fatal("the disk does not fill")
		}
		at := rounds % len(busy)
		if !b.complete(busy[at], output) {
			busy = append(busy[:at], busy[at+1:]...)
		}
	}
}

// A server that is killed on a full disk starts on it again, as often as docs/GUARANTEES.md says. Each time, a filler takes all the room
// that is left. The log of each queue is long by then, and there is no room to copy all logs into their files. Each start takes up to 9 KiB
// of the ballast for each queue, and nothing else. QUERN_FULL_DISKS=all tries every combination, as make soak does.
//
//quern:killing
func TestFullDiskStarts(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program = quernLink(t, program)
	for _, queues := range []int{1, 2, 4} {
		for _, ballast := range []int{1, 4, 8, 16, 64} {
			for _, output := range []int{500, 60_000} {
				usual := ballast == 4 && (output == 500) == (queues == 2) || ballast == 1 && queues == 4 && output == 500
				if !usual && os.Getenv("QUERN_FULL_DISKS") != "all" {
					continue
				}
				t.Run(fmt.Sprintf("%d queues, ballast %d MiB, outputs of %d", queues, ballast, output), func(t *testing.T) {
					t.Parallel()
					disk := smallDisk(t, fmt.Sprintf("%dm", 2*ballast+8+8*queues))
					b := &busyQueues{t: t, program: program, disk: disk, ballast: fmt.Sprintf("%dMiB", ballast)}
					s := b.start()
					filler := make([]byte, ballast<<20) // the disk is filled sooner
					if err := os.WriteFile(filepath.Join(disk, "filler"), filler, 0o600); err != nil {
						t.Fatal(err)
					}
					b.fillDisk(s, queues, output)
					for range min(ballast<<10/4/(9*queues), 8) {
						b.killed(s)
						s = b.start()
					}
					_ = s.end(syscall.SIGTERM)
				})
			}
		}
	}
}
