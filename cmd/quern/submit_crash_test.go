//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// The server is killed with SIGKILL while JSON lines are inserted, again and again. Run again with the same prefix of keys, each line is
// inserted exactly once, and the results that were printed before a kill still hold.
//
// QUERN_CRASH_SEED repeats a run's choices.
//
//quern:killing
func TestSubmitLinesKillNine(t *testing.T) {
	t.Parallel()
	const lines, kills = 6000, 4
	seed := envNumber(t, "QUERN_CRASH_SEED", rand.Uint64())
	t.Logf("seed %d", seed)
	rnd, program, dir := rand.New(rand.NewPCG(seed, 7)), quernCopy(t), t.TempDir()
	var text bytes.Buffer
	for n := range lines {
		fmt.Fprintf(&text, `{"meta":{"line":%d},"chunks":{"inline":["content of %d"]}}`+"\n", n+1, n+1)
	}
	file := filepath.Join(dir, "lines.jsonl")
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	ids := map[int]string{} // of the lines that were printed
	for round := range kills + 1 {
		server := launch(t, t.TempDir(), program, "serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0")
		url := server.url()
		submit := launch(t, t.TempDir(), program, "submit", "--jsonl", file, "--key-prefix", "monday", "--server", url, "-o", "jsonl")
		stop := lines
		if round < kills {
			stop = 1 + rnd.IntN(lines-1500) // a call later it would be done
		}
		decoder := json.NewDecoder(submit.lines)
		for n := range stop {
			var r submittedLine
			if err := decoder.Decode(&r); err != nil {
				t.Fatalf("line %d: %v; it said: %s", n+1, err, submit.stderr.String())
			}
			if r.Line != n+1 || r.Submission == nil || ids[r.Line] != "" && ids[r.Line] != r.Submission.ID {
				t.Fatalf("the result %d is %+v, want line %d as submission %q", n+1, r, n+1, ids[r.Line])
			}
			ids[r.Line] = r.Submission.ID
		}
		if round < kills {
			server.tell(syscall.SIGKILL)
			_ = server.Wait()
			submit.tell(syscall.SIGKILL) // it would go on asking for a while
			_ = submit.Wait()
			continue
		}
		submit.ends(exitOK)
		exactlyOnce(t, url, ids)
		server.tell(syscall.SIGKILL)
	}
}

// exactlyOnce checks that each line is the one submission that was printed for it, and that there are no others.
func exactlyOnce(t *testing.T, url string, ids map[int]string) {
	t.Helper()
	c, err := client.New(url)
	if err != nil {
		t.Fatal(err)
	}
	lines, found := map[string]int{}, 0
	for line, id := range ids {
		lines[id] = line
	}
	for s, err := range c.List(t.Context(), "default", client.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		found++
		if line := lines[s.ID]; line == 0 || s.Meta["line"] != api.Int(int64(line)) {
			t.Fatalf("there is the submission %s with %v, which was answered for line %d", s.ID, s.Meta, line)
		}
	}
	if found != len(ids) {
		t.Errorf("%d lines became %d submissions", len(ids), found)
	}
}
