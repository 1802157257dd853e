package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/archive"
	"github.com/quern-queue/quern/engine/queue"
)

// restoreRounds is how many backups TestBackupUnderLoad makes and restores.
func restoreRounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("QUERN_RESTORE_ROUNDS")
	if text == "" {
		return 4
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// loadOf keeps a server busy from four sides, until stop is called.
func loadOf(t *testing.T, e *Engine, l *ledger, queues []string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for ctx.Err() == nil {
				if err := l.insert(e, queues[i%2], fmt.Sprintf("%d of %d", l.names.Add(1), i)); err != nil {
					t.Errorf("insert: %v", err)
					return
				}
				if _, err := l.work(e, queues[i%2], true); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return func() {
		cancel()
		group.Wait()
	}
}

// operate changes a setting of each kind that operators set, deletes a queue and makes another one. It returns the text of a new token.
func operate(t *testing.T, e *Engine, round int) (token string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put(t, e, "default", "nightly", fmt.Sprintf(`{"type":"max_simultaneous","meta_field":"customer","max":%d,"underlying":"random"}`, 1000+round))
	entry := queue.MetaEntry{Key: "customer", Value: queue.IntValue(int64(round))}
	_, _, err := queueAt(e, "other").Values.Put(t.Context(), entry, queue.ValueSettings{Limit: uint32(1 + round), Weight: 2000}, nil)
	must(err)
	_, _, err = queueAt(e, "other").Rules.Set(t.Context(), queue.Rule{Action: queue.Block, Reason: "a test", Match: queue.RuleMatch{Entry: entry}}, nil)
	must(err)
	yearly := queue.DefaultSchedule()
	yearly.Spec, yearly.Template.Chunks = "0 0 1 1 *", queue.Chunks{Count: uint32(1 + round), Prefix: "a"}
	_, _, err = queueAt(e, "default").Schedules.Put(t.Context(), fmt.Sprint("yearly", round%3), yearly, nil)
	must(err)
	_, token, err = e.Tokens().New(t.Context(), TokenRequest{Name: fmt.Sprint("round ", round), Scopes: access.Admin})
	must(err)
	if round%2 == 1 {
		must(e.DeleteQueue(t.Context(), fmt.Sprint("passing", round-1), false))
	} else {
		_, _, err = e.PutQueue(t.Context(), fmt.Sprint("passing", round), queue.DefaultSettings())
		must(err)
	}
	return token
}

// A restored backup that was made under load has all that was acknowledged before it began, and nothing that was never sent: contents and
// outputs byte for byte, settings of operators, access tokens, and right counters. So has a backup with its increments, also if queues came
// and went. The restored server works off the rest; the original one goes on.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	e, token := loaded(t)
	queues := []string{"default", "other"}
	l := newLedger()
	stop := loadOf(t, e, l, queues)
	defer stop()
	var chain [][]byte
	for round := range restoreRounds(t) {
		for enough := len(l.until().done) + 60; len(l.until().done) < enough && !t.Failed(); {
			<-l.more
		}
		if round%4 == 0 {
			chain = nil
		}
		fresh := operate(t, e, round)
		set, before := settingsOf(t, e, queues), l.until()
		var last []byte
		if len(chain) > 0 {
			last = chain[len(chain)-1]
		}
		chain = append(chain, continued(t, e, last))
		l.settled(func() { // the load waits meanwhile: else each round would have more than the one before it
			restored := restoredOf(t, round, chain)
			l.check(t, restored, before, queues)
			if got := settingsOf(t, restored, queues); got != set {
				t.Errorf("restored settings:\n%swant\n%s", got, set)
			}
			if !proven(restored, token) || !proven(restored, fresh) {
				t.Error("an access token is not known to the restored server")
			}
			if want, got := len(e.Queues()), len(restored.Queues()); got != want {
				t.Errorf("round %d: %d queues were restored, want %d", round, got, want)
			}
			worksOff(t, restored, queues)
			closed(t, restored)
		})
		if t.Failed() {
			return
		}
	}
	if left, err := os.Stat(filepath.Join(e.options.Dir, backupDir)); err == nil {
		t.Errorf("%s is left of a backup", left.Name())
	}
}

// restoredOf is the engine of a directory that was restored from a backup and the increments behind it.
func restoredOf(t *testing.T, round int, chain [][]byte) *Engine {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "restored")
	readers, sizes := []io.Reader{}, []int{}
	for _, tar := range chain {
		readers, sizes = append(readers, bytes.NewReader(tar)), append(sizes, len(tar))
	}
	if _, err := Restore(t.Context(), dir, readers...); err != nil {
		t.Fatalf("round %d: %v", round, err)
	}
	t.Logf("round %d: backups of %v bytes", round, sizes)
	return openAt(t, dir)
}

// worksOff completes all the work of a restored server, and has everything counted again and read.
func worksOff(t *testing.T, e *Engine, queues []string) {
	t.Helper()
	again := newLedger()
	for _, name := range queues {
		for n := 1; n > 0; {
			var err error
			if n, err = again.work(e, name, false); err != nil {
				t.Fatal(err)
			}
		}
		stats := queueAt(e, name).Stats()
		if stats.Ready+stats.Reserved+stats.SubmissionsOpen != 0 {
			t.Errorf("after all work was done: %+v", stats)
		}
		if _, err := e.Storage().Verify(t.Context(), name, func(f Fault) { t.Errorf("restored: %+v", f) }); err != nil {
			t.Error(err)
		}
	}
}

// An increment goes with the backup that it continues and with no other: not alone, not behind another one, not without one between, not
// twice. A refused chain leaves nothing behind. A backup of another directory, or one that is damaged, is not continued.
//
//quern:sequential
func TestChainsOfBackups(t *testing.T) {
	t.Parallel()
	e, _ := loaded(t)
	l := newLedger()
	full := backedUp(t, e)
	if err := l.insert(e, "default", "one"); err != nil {
		t.Fatal(err)
	}
	first := continued(t, e, full)
	if err := l.insert(e, "default", "two"); err != nil {
		t.Fatal(err)
	}
	second, another := continued(t, e, first), backedUp(t, e)
	if len(first) > len(full)/2 {
		t.Errorf("an increment with one insert has %d bytes, and the backup %d", len(first), len(full))
	}
	restore := func(dir string, tars ...[]byte) error {
		var readers []io.Reader
		for _, tar := range tars {
			readers = append(readers, bytes.NewReader(tar))
		}
		_, err := Restore(t.Context(), dir, readers...)
		return err
	}
	for name, c := range map[string]struct {
		tars [][]byte
		want string
	}{
		"alone":               {[][]byte{first}, "this is an increment"},
		"of another backup":   {[][]byte{another, first}, "the one before it is another"},
		"one is left out":     {[][]byte{full, second}, "the one before it is another"},
		"twice":               {[][]byte{full, first, first}, "the one before it is another"},
		"a full one behind":   {[][]byte{full, another}, "is a full one"},
		"all":                 {[][]byte{full, first, second}, ""},
		"the last one is cut": {[][]byte{full, first, second[:len(second)-1024]}, "cut"},
	} {
		dir := filepath.Join(t.TempDir(), "restored")
		err := restore(dir, c.tars...)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		_, left := os.Stat(dir)
		if strings.Contains(c.want, "the one before") && left == nil {
			t.Errorf("%s: something was written", name)
		}
		if name == "the last one is cut" { // then it goes on, or back to what is whole
			if _, err := openIn(t, dir); err == nil || !strings.Contains(err.Error(), "quern restore") {
				t.Errorf("a start on a restore that was cut off: %v", err)
			}
			if err := restore(dir, full, first); err != nil {
				t.Error(err)
			}
			restored := openAt(t, dir)
			if _, err := restored.Submission(t.Context(), l.known["one"]); err != nil {
				t.Error(err)
			}
			if _, err := restored.Submission(t.Context(), l.known["two"]); err == nil {
				t.Error("what came behind the last backup is there")
			}
			if _, err := restored.Storage().Backup(t.Context(), "test", "", bytes.NewReader(first)); queue.CodeOf(err) != queue.CodeConflict {
				t.Errorf("a backup of another directory was continued: %v", err)
			}
			closed(t, restored)
		}
	}
	head, err := manifestOf(t, full).HeadSize()
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < int(head); at += 97 {
		bad := bytes.Clone(full[:head])
		bad[at] ^= 1
		b, err := e.Storage().Backup(t.Context(), "test", "", bytes.NewReader(bad))
		if err != nil {
			continue
		}
		var out bytes.Buffer
		if err := errors.Join(b.Write(&out), b.Close()); err != nil {
			t.Fatal(err)
		}
		next, err := manifestOf(t, full).Next()
		if restored := restore(filepath.Join(t.TempDir(), "restored"), full, out.Bytes()); err != nil || *b.Manifest.Since == next && restored != nil {
			t.Errorf("byte %d of the earlier backup was another one, and the increment cannot be restored: %v", at, restored)
		}
	}
}

func manifestOf(t *testing.T, tar []byte) *archive.Manifest {
	t.Helper()
	a, err := archive.Open(bytes.NewReader(tar))
	if err != nil {
		t.Fatal(err)
	}
	return a.Manifest
}
