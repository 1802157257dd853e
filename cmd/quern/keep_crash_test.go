package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// keepRounds is how many processes each test here kills.
const keepRounds = "QUERN_KEEP_ROUNDS"

// treeSums are the checksums of all files below a directory but its lock.
func treeSums(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "lock" {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// killedAt runs a command and kills it after a time of chance, up to the one that it took when it was left alone.
func killedAt(t *testing.T, random *rand.Rand, most time.Duration, tmp string, args ...string) {
	t.Helper()
	p := launch(t, tmp, args...)
	<-time.NewTimer(time.Duration(random.Int64N(int64(most)))).C
	_ = p.Process.Kill()
	_ = p.Wait()
}

// Kill -9 of a check or a repair at any moment leaves the directory as it was, byte for byte. A repaired copy is there whole or not at all.
// Run again, both come to their end, and a server goes on in the directory that was checked.
//
//quern:killing
func TestKillNineOfCheckAndRepair(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	program, dir := quernLink(t, quernCopy(t)), t.TempDir()
	data, broken, tmp := filepath.Join(dir, "data"), filepath.Join(dir, "broken"), filepath.Join(dir, "tmp")
	_ = filled(t, program, data, 12).end(syscall.SIGKILL)
	if err := os.CopyFS(broken, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"journal.db", "journal.db-wal", "journal.db-shm"} {
		if err := os.Remove(filepath.Join(broken, "shards", "0000", name)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	before, to := treeSums(t, data), filepath.Join(dir, "repaired")
	beforeBroken := treeSums(t, broken)
	check := []string{program, "check", "--data", data, "-q"}
	repair := []string{program, "repair", "--data", broken, "--to", to, "-q"}
	began := time.Now()
	launch(t, tmp, check...).ends(exitOK)
	launch(t, tmp, repair...).ends(exitDamaged)
	most := max(time.Since(began), 2*time.Millisecond)
	for round := range envNumber(t, keepRounds, 6) {
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		killedAt(t, random, most/2, tmp, check...)
		killedAt(t, random, most, tmp, repair...)
		if !maps.Equal(treeSums(t, data), before) || !maps.Equal(treeSums(t, broken), beforeBroken) {
			t.Fatalf("round %d, seed %d: a directory that was read only has changed", round, seed)
		}
		if _, err := os.Stat(to); err == nil { // the kill came late
			launch(t, tmp, program, "check", "--data", to, "-q").ends(exitOK)
		}
	}
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	launch(t, tmp, check...).ends(exitOK)
	launch(t, tmp, repair...).ends(exitDamaged)
	launch(t, tmp, program, "check", "--data", to, "-q").ends(exitOK)
	holds(t, program, data, 12)
}

// A restore of a backup with increments is killed with SIGKILL, at any moment. No server starts on the unfinished directory. The same
// command goes on to the end, with all that is in the last increment.
//
//quern:killing
func TestKillNineOfRestore(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	program, dir := quernLink(t, quernCopy(t)), t.TempDir()
	data, to := filepath.Join(dir, "data"), filepath.Join(dir, "restored")
	s := filled(t, program, data, 6)
	restore := []string{program, "restore"}
	for i := range 3 {
		file := filepath.Join(dir, fmt.Sprint(i, ".tar"))
		backup := []string{program, "backup", file, "--server", s.url, "-q"}
		if i > 0 {
			backup = append(backup, "--since", restore[len(restore)-1])
		}
		launch(t, dir, backup...).ends(exitOK)
		restore = append(restore, file)
		if i < 2 {
			if status, answer := (diskUser{t, s.url}).post("/v1/queues/default/submissions", bigInsert()); status != 201 {
				t.Fatalf("insert: %d %s", status, answer)
			}
		}
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	restore = append(restore, "--data", to, "-q")
	began := time.Now()
	launch(t, dir, restore...).ends(exitOK)
	most := max(time.Since(began), time.Millisecond)
	for range envNumber(t, keepRounds, 6) {
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		killedAt(t, random, most, dir, restore...)
		if _, err := os.Stat(filepath.Join(to, "restoring")); err == nil {
			refusedHalf(t, program, to)
		}
		if _, err := os.Stat(filepath.Join(to, "quern.db")); err != nil || isThere(filepath.Join(to, "restoring")) {
			launch(t, dir, restore...).ends(exitOK)
		}
		holds(t, program, to, 8)
	}
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Kill -9 of `backup --since`, or of the server that it asks, at any moment leaves a whole increment or none, and the earlier backup as it
// was. The next increment continues that backup, and the two restore everything.
//
//quern:killing
func TestKillNineOfIncrement(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	program, dir := quernLink(t, quernCopy(t)), t.TempDir()
	data, full, increment := filepath.Join(dir, "data"), filepath.Join(dir, "full.tar"), filepath.Join(dir, "increment.tar")
	s := filled(t, program, data, 6)
	launch(t, dir, program, "backup", full, "--server", s.url, "-q").ends(exitOK)
	before := treeSums(t, full)
	backup := func() []string {
		return []string{program, "backup", increment, "--since", full, "--server", s.url, "-q"}
	}
	insert := func() {
		t.Helper()
		if status, answer := (diskUser{t, s.url}).post("/v1/queues/default/submissions", bigInsert()); status != 201 {
			t.Fatalf("insert: %d %s", status, answer)
		}
	}
	insert()
	began := time.Now()
	launch(t, dir, backup()...).ends(exitOK)
	most := max(time.Since(began), time.Millisecond)
	rounds := int(envNumber(t, keepRounds, 6))
	for round := range rounds {
		if err := os.Remove(increment); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		insert()
		if round%2 == 0 {
			killedAt(t, random, most, dir, backup()...)
		} else {
			p := launch(t, dir, backup()...)
			<-time.NewTimer(time.Duration(random.Int64N(int64(most)))).C
			_ = s.end(syscall.SIGKILL)
			if err := p.Wait(); isThere(increment) != (err == nil) {
				t.Errorf("round %d: the backup ended with %v, and a file is there: %t", round, err, isThere(increment))
			}
			var err error
			if s, err = startServer(program, os.Environ(), data, "--ballast-bytes", "1MiB"); err != nil {
				t.Fatal(err)
			}
		}
		whole(t, increment)
		if !maps.Equal(treeSums(t, full), before) {
			t.Fatalf("round %d, seed %d: the earlier backup has changed", round, seed)
		}
	}
	launch(t, dir, backup()...).ends(exitOK)
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	to := filepath.Join(dir, "restored")
	launch(t, dir, program, "restore", full, increment, "--data", to, "-q").ends(exitOK)
	holds(t, program, to, 7+rounds)
}
