package main

import (
	"crypto/sha256"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/archive"
	"github.com/quern-queue/quern/sdk/api"
)

// filled starts a server with so many inserts of a megabyte each.
func filled(t *testing.T, program, data string, megabytes int) *server {
	t.Helper()
	s, err := startServer(program, os.Environ(), data, "--ballast-bytes", "1MiB")
	if err != nil {
		t.Fatal(err)
	}
	for range megabytes {
		if status, answer := (diskUser{t, s.url}).post("/v1/queues/default/submissions", bigInsert()); status != 201 {
			t.Fatalf("insert: %d %s", status, answer)
		}
	}
	return s
}

// holds says whether the server in a directory has so many submissions of a thousand chunks each.
func holds(t *testing.T, program, data string, submissions int) {
	t.Helper()
	s, err := startServer(program, os.Environ(), data, "--ballast-bytes", "1MiB")
	if err != nil {
		t.Fatal(err)
	}
	stats := statsUntil(t, program, s.url, func(api.Stats) bool { return true })
	if stats.Ready != uint64(submissions)*1000 {
		t.Errorf("%s has %d chunks ready, want %d", data, stats.Ready, submissions*1000)
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// whole says whether there is a backup at path. It fails the test if a file there is no backup.
func whole(t *testing.T, path string) bool {
	t.Helper()
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := archive.Read(f); err != nil {
		t.Errorf("%s: %v", path, err)
	}
	return true
}

// After kill -9 of the server at any moment of a backup there is a whole backup or none, and the server goes on without what was left of
// it. After kill -9 of a restore no server starts on the unfinished directory, and the same restore goes on to the end.
//
//quern:killing
func TestBackupCrash(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	program, dir := quernLink(t, quernCopy(t)), t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "all.tar")
	s := filled(t, program, data, 12)
	for round := range 6 {
		backup := launch(t, dir, program, "backup", file, "--server", s.url, "-q")
		<-time.NewTimer(time.Duration(random.IntN(80)) * time.Millisecond).C
		_ = s.end(syscall.SIGKILL)
		err := backup.Wait()
		if there := whole(t, file); there != (err == nil) {
			t.Errorf("round %d: the backup ended with %v, and a file is there: %t", round, err, there)
		}
		_ = os.Remove(file)
		if s, err = startServer(program, os.Environ(), data, "--ballast-bytes", "1MiB"); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(data, "backup.partial")); err == nil {
			t.Errorf("round %d: what was left of the backup is there after a start", round)
		}
	}
	launch(t, dir, program, "backup", file, "--server", s.url).ends(exitOK)
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	holds(t, program, data, 12)
	for round := range 6 {
		to := filepath.Join(dir, "restored")
		restore := launch(t, dir, program, "restore", file, "--data", to, "-q")
		<-time.NewTimer(time.Duration(random.IntN(40)) * time.Millisecond).C
		_ = restore.Process.Kill()
		_ = restore.Wait()
		if _, err := os.Stat(filepath.Join(to, "restoring")); err == nil {
			refusedHalf(t, program, to)
			launch(t, dir, program, "restore", file, "--data", to).ends(exitOK)
		} else if _, err := os.Stat(filepath.Join(to, "quern.db")); err != nil { // it did not come that far
			launch(t, dir, program, "restore", file, "--data", to).ends(exitOK)
		}
		holds(t, program, to, 12)
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(round, err)
		}
	}
}

// refusedHalf says that no server starts on a restore that is not finished.
func refusedHalf(t *testing.T, program, data string) {
	t.Helper()
	out, err := exec.Command(program, "serve", "--data", data, "--listen", "127.0.0.1:0").CombinedOutput()
	if err == nil || !strings.Contains(string(out), `Run "quern restore" again`) {
		t.Errorf("a server on half a restore: %v, %s; want it refused with what to do", err, out)
	}
}

// A backup for which the disk has no room is refused, and the server goes on; a restore that fills the disk fails, no server starts on it,
// and with room it goes on to the end.
//
//quern:killing
func TestBackupOnFullDisk(t *testing.T) {
	t.Parallel()
	program, disk := quernLink(t, quernCopy(t)), smallDisk(t, "64m")
	dir := t.TempDir()
	data, file := filepath.Join(disk, "data"), filepath.Join(dir, "all.tar")
	s := filled(t, program, data, 12)
	filler := filepath.Join(disk, "filler")
	fill(t, filler)
	info, err := os.Stat(filler)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filler, info.Size()-9<<20); err != nil { // inserts go on with this, the copies do not fit
		t.Fatal(err)
	}
	backup := launch(t, dir, program, "backup", file, "--server", s.url)
	backup.ends(exitFailure)
	if !strings.Contains(backup.stderr.String(), "isk") || whole(t, file) {
		t.Errorf("without room: %s", backup.stderr.String())
	}
	if left, err := filepath.Glob(filepath.Join(data, "backup.partial", "*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left of a backup that was refused, %v", left, err)
	}
	if status, answer := (diskUser{t, s.url}).post("/v1/queues/default/submissions", `{"chunks":{"count":1,"prefix":"a"}}`); status != 201 {
		t.Errorf("an insert after a backup without room: %d %s", status, answer)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	launch(t, dir, program, "backup", file, "--server", s.url).ends(exitOK)
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	to := filepath.Join(smallDisk(t, "40m"), "restored")
	blocker := filepath.Join(filepath.Dir(to), "filler")
	fill(t, blocker)
	if info, err = os.Stat(blocker); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(blocker, info.Size()-6<<20); err != nil {
		t.Fatal(err)
	}
	restore := launch(t, dir, program, "restore", file, "--data", to)
	restore.ends(exitFailure)
	if !strings.Contains(restore.stderr.String(), "no space left") {
		t.Errorf("a restore to a full disk: %s", restore.stderr.String())
	}
	if err := os.Remove(blocker); err != nil {
		t.Fatal(err)
	}
	refusedHalf(t, program, to)
	launch(t, dir, program, "restore", file, "--data", to).ends(exitOK)
	s, err = startServer(program, os.Environ(), to, "--ballast-bytes", "1MiB")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// Kill -9 of the restore of a queue at any moment: the same restore goes on to the end, and the damaged files are kept.
//
//quern:killing
func TestKillNineOfQueueRestore(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	program, dir := quernLink(t, quernCopy(t)), t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "all.tar")
	s := filled(t, program, data, 6)
	if status, answer := (diskUser{t, s.url}).send("PUT", "/v1/queues/other", "{}"); status != 201 {
		t.Fatalf("%d %s", status, answer)
	}
	launch(t, dir, program, "backup", file, "--server", s.url, "-q").ends(exitOK)
	_ = s.end(syscall.SIGKILL)
	restore := []string{program, "restore", file, "--data", data, "--queue", "default", "--replace", "-q"}
	began := time.Now()
	launch(t, dir, restore...).ends(exitOK)
	most := max(time.Since(began), time.Millisecond)
	for round := range envNumber(t, keepRounds, 6) {
		journal := filepath.Join(data, "shards", "0000", "journal.db")
		if err := os.Truncate(journal, 5000); err != nil {
			t.Fatal(err)
		}
		killedAt(t, random, most, dir, restore...)
		launch(t, dir, restore...).ends(exitOK)
		holds(t, program, data, 6)
		kept, err := filepath.Glob(filepath.Join(data, "shards", "0000.before-*", "journal.db"))
		if err != nil {
			t.Fatal(err)
		}
		damaged := uint64(0)
		for _, path := range kept {
			if info, err := os.Stat(path); err == nil && info.Size() == 5000 {
				damaged++
			}
		}
		if damaged != round+1 {
			t.Errorf("round %d: %d damaged journals are kept in %v", round, damaged, kept)
		}
	}
}

// On a full disk, the restore of a queue says so, and leaves everything as it was. Once there is room it succeeds. The room grows by
// little, so that the restores end at different steps.
//
//quern:killing
func TestQueueRestoreOnFullDisk(t *testing.T) {
	t.Parallel()
	for name, disk := range map[string]func(*testing.T, string) string{"tmpfs": smallDisk, "ext4": smallExt4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, disk, dir := quernLink(t, quernCopy(t)), disk(t, "48m"), t.TempDir()
			data, file, filler := filepath.Join(disk, "data"), filepath.Join(dir, "all.tar"), filepath.Join(disk, "filler")
			s := filled(t, program, data, 3)
			launch(t, dir, program, "backup", file, "--server", s.url, "-q").ends(exitOK)
			_ = s.end(syscall.SIGKILL)
			if err := os.Truncate(filepath.Join(data, "shards", "0000", "store.db"), 5000); err != nil {
				t.Fatal(err)
			}
			fill(t, filler)
			before := sumsOf(t, data)
			info, err := os.Stat(filler)
			if err != nil {
				t.Fatal(err)
			}
			tar, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			refused := 0
			for room := int64(0); ; refused++ {
				if err := os.Truncate(filler, info.Size()-room); err != nil {
					t.Fatal(err)
				}
				restore := launch(t, dir, program, "restore", file, "--data", data, "--queue", "default", "--replace", "-q")
				if restore.ended() == exitOK {
					break
				}
				said := restore.stderr.String()
				if !strings.Contains(said, "Free some space") || strings.Contains(said, "restore the whole directory") {
					t.Errorf("with room for %d bytes: %s", room, said)
				}
				if after := sumsOf(t, data); !maps.Equal(before, after) {
					t.Errorf("with room for %d bytes the restore changed files: %v, they were %v", room, after, before)
				}
				room = max(room+32<<10, tar.Size()-256<<10) // little by little where the databases are opened
			}
			if refused < 5 {
				t.Errorf("%d restores met a full disk, want more", refused)
			}
			holds(t, program, data, 3)
		})
	}
}

// sumsOf are the checksums of all files in a directory.
func sumsOf(t *testing.T, dir string) map[string][sha256.Size]byte {
	t.Helper()
	sums := map[string][sha256.Size]byte{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		sums[path] = sha256.Sum256(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}
