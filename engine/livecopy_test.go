package engine

import (
	"context"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// copyFiles copies the files of a data directory one after the other, as cp does, in an order of chance.
func copyFiles(t *testing.T, random *rand.Rand, from string) (to string) {
	t.Helper()
	to = filepath.Join(t.TempDir(), "copy")
	var names []string
	err := fs.WalkDir(os.DirFS(from), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Base(path) != "lock" {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(from, name))
		if os.IsNotExist(err) {
			continue
		}
		path := filepath.Join(to, name)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o700)
		}
		if err == nil {
			err = os.WriteFile(path, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// A file-by-file copy of a working server is refused at a start, with advice, or it has all that was acknowledged before the copy began,
// byte for byte. It is never served with less.
func TestCopyOfALiveDirectory(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	e, _ := loaded(t)
	queues := []string{"default", "other"}
	l := newLedger()
	stop := loadOf(t, e, l, queues)
	defer stop()
	refused := 0
	for round := range restoreRounds(t) * 2 {
		for enough := len(l.until().done) + 40; len(l.until().done) < enough && !t.Failed(); {
			<-l.more
		}
		before := l.until()
		dir := copyFiles(t, random, e.options.Dir)
		copied, err := Open(context.Background(), Options{Dir: dir, Now: time.Now, Seed: rand.Uint64, BallastBytes: -1})
		if err != nil {
			refused++
			if text := err.Error(); !strings.Contains(text, "backup") && !strings.Contains(text, "together") {
				t.Errorf("round %d: it is refused without what to do: %v", round, err)
			}
			continue
		}
		set := 0
		for _, q := range copied.Queues() {
			if q.Quarantined != nil {
				set++
			}
		}
		if set > 0 {
			refused++
		} else {
			l.settled(func() { l.check(t, copied, before, queues) })
		}
		_ = copied.Close() // of a copy that may be damaged
		if t.Failed() {
			t.Fatalf("round %d, seed %d", round, seed)
		}
	}
	t.Logf("%d copies were refused", refused)
}
