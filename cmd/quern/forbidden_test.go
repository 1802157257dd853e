package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// A running server may not write one of its files any more, or all of them: writes say so, /readyz says degraded, and consumers keep their
// chunks. When the files are writable again all goes on by itself, with everything that was acknowledged. Only root can try it. The kernel
// refuses to make a file system read-only under files that are open for writing. The immutable flag of ext4 refuses writes through open
// files too, and does not last.
func TestWritesForbidden(t *testing.T) {
	t.Parallel()
	for name, files := range map[string][]string{
		"the log of the journal": {"journal.db-wal"},
		"all files of the queue": {"journal.db", "journal.db-wal", "store.db", "store.db-wal"}, // but the -shm, which are memory
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := smallExt4(t, "64m")
			immutable := func(flag string) error {
				command := exec.Command("chattr", append([]string{flag}, files...)...)
				command.Dir = filepath.Join(dir, "data", "shards", "0000")
				out, err := command.CombinedOutput()
				if err != nil {
					t.Logf("chattr %s: %v %s", flag, err, out)
				}
				return err
			}
			program, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			s, err := startServer(quernLink(t, program), os.Environ(), filepath.Join(dir, "data"), "--ballast-bytes", "1MiB")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.end(syscall.SIGTERM) }()
			d := diskUser{t, s.url + "/v1/queues/default"}
			d.must("/submissions", `{"chunks":{"count":100,"template":"x"}}`)
			var held crashReserved
			if err := json.Unmarshal(d.must("/reservations", `{"max":10}`), &held); err != nil || len(held.Reservations) != 10 {
				t.Fatalf("reserved %d, %v; want 10", len(held.Reservations), err)
			}
			if err := immutable("+i"); err != nil {
				t.Skip("writes cannot be forbidden here")
			}
			defer func() { _ = immutable("-i") }() // before the unmount
			d.until("degraded", func() bool {
				if status, answer := d.post("/submissions", `{"chunks":{"count":1,"prefix":"a"}}`); status != http.StatusServiceUnavailable {
					t.Fatalf("an insert that cannot be written gave %d %s, want 503", status, answer)
				}
				status, _ := d.ready(s.url)
				return status == http.StatusServiceUnavailable
			})
			if err := immutable("-i"); err != nil {
				t.Fatal(err)
			}
			d.until("ready again", func() bool { status, _ := d.ready(s.url); return status == http.StatusOK })
			for _, r := range held.Reservations {
				if answer := d.must("/reservations/complete", fmt.Sprintf(`{"items":[{"token":%q,"output":"x"}]}`, r.Token)); !bytes.Contains(answer, []byte(`"ok"`)) {
					t.Errorf("the completion of what was held before gave %s, want ok", answer)
				}
			}
			d.finish(90) // neither lost nor twice
			d.untilInserted()
		})
	}
}
