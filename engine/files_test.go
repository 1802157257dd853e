package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/queue"
)

// A part of a data directory that is gone is refused by its name, and the directory stays as it is: an empty queue in the place of a full
// one would look like work that was done.
func TestMissingFilesAreRefused(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"quern.db", "shards/0000/store.db", "shards/0000/journal.db", "shards/0001/store.db", "shards/0001/journal.db", "shards/0001", "shards"} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "a", "data")
			e, err := openIn(t, dir)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := e.PutQueue(context.Background(), "second", queue.DefaultSettings()); err != nil {
				t.Fatal(err)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(dir, lost)); err != nil {
				t.Fatal(err)
			}
			before := names(t, dir)
			err = refusal(t, dir)
			if err == nil {
				t.Fatalf("the directory is served without %s", lost)
			}
			if want := filepath.Join(dir, lost); !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "is missing") {
				t.Errorf("the error does not say that %s is missing: %v", want, err)
			}
			if after := names(t, dir); !slices.Equal(before, after) {
				t.Errorf("the refused open left %q, want %q", after, before)
			}
		})
	}
}

// A second server on a directory is refused, told who holds it, and changes nothing; when the first has ended the directory is free.
func TestSecondServerIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := openIn(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := refusal(t, dir); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("is in use by process %d ", os.Getpid())) {
		t.Errorf("the second one: %v, want it refused with who holds the directory", err)
	}
	if _, _, err := first.PutQueue(context.Background(), "second", queue.DefaultSettings()); err != nil {
		t.Errorf("the first one after it: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := openIn(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// Half a restore is refused as such, also when it was cut off before its first file was whole: it says what to do.
func TestHalfARestoreIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{catalogueFile + Partial, "shards/1/store.db", "anything"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600),
			os.WriteFile(filepath.Join(dir, restoringFile), []byte("{}"), 0o600)); err != nil {
			t.Fatal(err)
		}
		if e, err := openIn(t, dir); err == nil || !strings.Contains(err.Error(), `Run "quern restore" again`) {
			t.Errorf("%s: %v, %v; want it refused as half a restore", name, e, err)
		}
		if content, err := os.ReadFile(path); err != nil || string(content) != "x" {
			t.Errorf("%s: the refused open left %q, %v", name, content, err)
		}
	}
}

// A folder of other files is refused and stays as it is. Files that a directory for a server may have do not matter.
func TestFoldersOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{"notes.txt": true, "photos/one.jpg": true, "store.db": true, "quern.yaml": false,
		".gitkeep": false, "lost+found/x": false, "tls/cert.pem": false, "lock": false} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600),
			os.MkdirAll(filepath.Join(dir, "copies"), 0o700)); err != nil {
			t.Fatal(err)
		}
		before := names(t, dir)
		e, err := openIn(t, dir)
		if err == nil {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
		first, _, _ := strings.Cut(name, "/")
		if refused && (err == nil || !strings.Contains(err.Error(), dir+" is no data directory, and not empty: it has "+first)) {
			t.Errorf("%s: %v, want it refused by its name", name, err)
		}
		if after := names(t, dir); refused && !slices.Equal(before, after) {
			t.Errorf("%s: the refused open left %q, want %q", name, after, before)
		}
		if !refused && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func openIn(t *testing.T, dir string) (*Engine, error) {
	t.Helper()
	return Open(context.Background(), Options{Dir: dir, Now: time.Now, Seed: rand.Uint64, Registerer: prometheus.NewRegistry(), BallastBytes: -1})
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		list = append(list, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Folders of shards that the catalogue does not know are refused, until someone moves them away. The folder of a queue that was being made
// or deleted when the server was killed is not refused.
func TestUnknownShards(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	e := openAt(t, dir)
	if _, _, err := e.PutQueue(t.Context(), "second", queue.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	closed(t, e)
	folder, lost := filepath.Join(dir, "shards", "0005"), filepath.Join(t.TempDir(), "0005")
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(dir, "shards", "0001"))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if e, err := openIn(t, dir); err == nil || !strings.Contains(err.Error(), folder) || !advises(err) {
			t.Fatalf("Open = %v, %v; want that %s is refused, and what to do", e, err, folder)
		}
	}
	if err := os.Rename(folder, lost); err != nil {
		t.Fatal(err)
	}
	e = openAt(t, dir)
	// As if the server had been killed while a queue is made, and while one is deleted.
	if err := e.catalogue.Leave(5); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(folder, os.DirFS(lost)); err != nil {
		t.Fatal(err)
	}
	if err := e.catalogue.DeleteQueue(queueAt(e, "second").row()); err != nil {
		t.Fatal(err)
	}
	closed(t, e)
	e = openAt(t, dir)
	defer closed(t, e)
	if list := e.Queues(); len(list) != 1 || list[0].Name != DefaultQueue {
		t.Errorf("the queues are %+v, want %q alone", list, DefaultQueue)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "shards")); err != nil || len(left) != 1 {
		t.Errorf("the folders are %v, %v; want one", left, err)
	}
	if info, created, err := e.PutQueue(t.Context(), "third", queue.DefaultSettings()); err != nil || !created {
		t.Errorf("a queue in the place of a deleted one: %+v, %v", info, err)
	}
}

// A file that cannot be written to the end does not appear, and the file that stood in its place stays.
func TestWriteFileIsWholeOrNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	wrong := errors.New("wrong")
	for i, row := range []struct {
		text string
		err  error
		want string
	}{{"one", nil, "one"}, {"two", wrong, "one"}, {"three", nil, "three"}} {
		err := WriteFile(path, func(w io.Writer) error {
			_, err := io.WriteString(w, row.text)
			return errors.Join(err, row.err)
		})
		got, read := os.ReadFile(path)
		if !errors.Is(err, row.err) || read != nil || string(got) != row.want {
			t.Errorf("%d: %q, %v, %v; want %q", i, got, err, read, row.want)
		}
		if _, err := os.Stat(path + Partial); err == nil {
			t.Errorf("%d: something is left", i)
		}
	}
}
