//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
	"github.com/quern-queue/quern/sdk/api"
)

// Kill -9 of a restore into a cluster, at any moment: the same command goes on to the end, and a node then serves all that is in the backup.
//
//quern:killing
func TestKillNineOfRestoreIntoACluster(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	program, dir, database := quernLink(t, quernCopy(t)), t.TempDir(), pgtest.Begin(t)
	s := filled(t, program, filepath.Join(dir, "data"), 6)
	stats := func(url string) (got api.Stats) {
		_, _, _, text := answer(t, "GET", url+"/v1/queues/default/stats", "")
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return got
	}
	file := filepath.Join(dir, "quern.tar")
	launch(t, dir, program, "backup", file, "--server", s.url, "-q").ends(exitOK)
	want := stats(s.url)
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	restore := func(schema string) []string {
		return []string{program, "restore", file, "--cluster", database.URL(), "--accept-async", "--cluster-schema", schema, "-q"}
	}
	began := time.Now()
	launch(t, dir, restore("whole")...).ends(exitOK)
	most := max(time.Since(began), time.Millisecond)
	for round := range envNumber(t, keepRounds, 4) {
		schema := fmt.Sprint("killed", round)
		killedAt(t, random, most, dir, restore(schema)...)
		again := launch(t, dir, restore(schema)...)
		_ = again.Wait()
		if said := again.stderr.String(); again.ProcessState.ExitCode() != exitOK && !strings.Contains(said, "has queues already") {
			t.Fatalf("the restore again: %s", said)
		}
		n := launch(t, dir, program, "serve", "--cluster", database.URL(), "--cluster-schema", schema, "--accept-async", "--listen", "127.0.0.1:0",
			"--data", filepath.Join(dir, schema))
		url := n.url()
		waitForQueue(t, url)
		if got := stats(url); got.Ready != want.Ready || got.SubmissionsOpen != want.SubmissionsOpen || want.Ready == 0 {
			t.Errorf("%s has %+v, want %+v", schema, got, want)
		}
		n.tell(os.Interrupt)
		n.ends(exitOK)
	}
}
