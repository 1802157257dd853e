package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// If a file is deleted, moved or replaced, or a journal is cut, under a running server, it stops acknowledging at the next look, and
// /readyz names the file. A file of a queue stops that queue, the catalogue all of them. Data that is there can still be read.
func TestFilesAreWatched(t *testing.T) {
	t.Parallel()
	replace := func(path string) error {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path+".copy", b, 0o600); err != nil {
			return err
		}
		return os.Rename(path+".copy", path)
	}
	for name, c := range map[string]struct {
		file   string
		harm   func(string) error
		others bool // other queues go on
	}{
		"journal deleted":   {"shards/0001/journal.db", os.Remove, true},
		"journal cut":       {"shards/0001/journal.db", func(path string) error { return os.Truncate(path, 2048) }, true},
		"store deleted":     {"shards/0001/store.db", os.Remove, true},
		"log deleted":       {"shards/0001/journal.db-wal", os.Remove, true},
		"store replaced":    {"shards/0001/store.db", replace, true},
		"folder deleted":    {"shards/0001", os.RemoveAll, true},
		"catalogue deleted": {"quern.db", os.Remove, false},
		"directory moved":   {"", func(path string) error { return os.Rename(path, filepath.Clean(path)+"-moved") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			e := openAt(t, dir)
			defer e.Close()
			if _, _, err := e.PutQueue(t.Context(), "work", queue.DefaultSettings()); err != nil {
				t.Fatal(err)
			}
			sub, _, err := queueAt(e, "work").Insert(t.Context(), queue.NewSubmission{Chunks: queue.Chunks{Count: 3, Prefix: "p/"}})
			if err != nil {
				t.Fatal(err)
			}
			held := reserveNewest(t, e, "work", 1)
			e.watch()
			if bad := notReady(e); len(bad) != 0 {
				t.Fatalf("before: %v", bad)
			}
			if err := c.harm(filepath.Join(dir, c.file)); err != nil {
				t.Fatal(err)
			}
			e.watch()
			for _, name := range []string{"work", DefaultQueue} {
				_, _, err := queueAt(e, name).Insert(t.Context(), queue.NewSubmission{Chunks: queue.Chunks{Count: 3, Prefix: "p/"}})
				if lost := name == "work" || !c.others; lost != (queue.CodeOf(err) == queue.CodeUnavailable) || !lost && err != nil {
					t.Errorf("insert into %s: %v", name, err)
				}
			}
			if _, err := queueAt(e, "work").Complete(t.Context(), []queue.CompleteItem{{Token: held[0].Token}}, nil); queue.CodeOf(err) != queue.CodeUnavailable {
				t.Errorf("complete: %v, want that it is not acknowledged", err)
			}
			if got, err := e.Submission(t.Context(), sub.ID); err != nil || got.Chunks != 3 || got.Done != 0 {
				t.Errorf("the submission reads %+v, %v", got, err)
			}
			bad := notReady(e)
			if want := 1; c.others && len(bad) != want || !strings.Contains(strings.Join(bad, "\n"), c.file) {
				t.Errorf("not ready are %q; want a word about %s", bad, c.file)
			}
			if _, _, err := e.PutQueue(t.Context(), "more", queue.DefaultSettings()); c.others != (err == nil) {
				t.Errorf("another queue: %v", err)
			}
		})
	}
}

func notReady(e *Engine) (list []string) {
	for _, c := range e.Ready() {
		if !c.OK {
			list = append(list, c.Name+": "+c.Detail)
		}
	}
	return list
}
