//quern:sequential

package check

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

func open(t *testing.T, dir string) *engine.Engine {
	t.Helper()
	e, err := engine.Open(context.Background(), engine.Options{Dir: dir, Now: time.Now, Seed: rand.Uint64, BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func closed(t *testing.T, e *engine.Engine) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// work inserts submissions into both queues: with contents in the journal and in the store, and with outputs of half of their chunks.
func work(t *testing.T, e *engine.Engine, n int) {
	t.Helper()
	for _, name := range []string{"default", "other"} {
		if _, _, err := e.PutQueue(t.Context(), name, queue.DefaultSettings()); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			s := queue.NewSubmission{Attachment: fmt.Appendf(nil, "attached to %d", i), Meta: queue.Meta{{Key: "n", Value: queue.IntValue(int64(i))}}}
			for c := range 4 {
				s.Chunks.Inline = append(s.Chunks.Inline, bytes.Repeat(fmt.Appendf(nil, "%d of %d in %s. ", c, i, name), 1+i%3*2000))
			}
			if _, _, err := queueAt(e, name).Insert(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			plan, err := queueAt(e, name).Plan([]byte(`"OldestFirst"`))
			if err != nil {
				t.Fatal(err)
			}
			got, err := queueAt(e, name).Reserve(t.Context(), engine.ReserveRequest{Max: 2, Plan: plan}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var items []queue.CompleteItem
			for _, r := range got.Reservations {
				items = append(items, queue.CompleteItem{Token: r.Token, Output: append([]byte("done: "), r.Content.Bytes...)})
			}
			if _, err := queueAt(e, name).Complete(t.Context(), items, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// served is all that a server answers about a copy of the directory, or the error of the refusal.
func served(t *testing.T, dir string) (text string, err error) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(context.Background(), engine.Options{Dir: to, Now: time.Now, Seed: rand.Uint64, BallastBytes: -1})
	if err != nil {
		return "", err
	}
	defer e.Close() // of a directory that is damaged: it may well fail
	var b strings.Builder
	for _, q := range e.Queues() {
		if q.Quarantined != nil {
			return "", errors.New(q.Quarantined.Reason)
		}
		page, err := queueAt(e, q.Name).Submissions.List(t.Context(), engine.ListRequest{Limit: queue.MaxListLimit})
		if err != nil {
			return "", err
		}
		for _, s := range page.Items {
			fmt.Fprintln(&b, s.ID, s.State, s.Done, s.Ready, s.Dead, s.Meta)
			err := queueAt(e, q.Name).Submissions.Outputs(t.Context(), s.ID, func(index uint32, output []byte) error {
				_, err := fmt.Fprintf(&b, "  %d %q\n", index, output)
				return err
			})
			if err != nil {
				return "", err
			}
		}
		plan, err := queueAt(e, q.Name).Plan([]byte(`"OldestFirst"`))
		if err != nil {
			return "", err
		}
		got, err := queueAt(e, q.Name).Reserve(t.Context(), engine.ReserveRequest{Max: queue.MaxReserve, Plan: plan}, nil)
		if err != nil {
			return "", err
		}
		for _, r := range got.Reservations {
			fmt.Fprintf(&b, "%d %q %q\n", r.Token.Index, r.Content.Bytes, r.Attachment)
		}
	}
	return b.String(), nil
}

// sums are the checksums of all files of a directory.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, path))
		all[path] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func checked(t *testing.T, dir string) *Report {
	t.Helper()
	before := sums(t, dir)
	work := t.TempDir()
	r, err := Dir(t.Context(), dir, Options{Work: work, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if after := sums(t, dir); !maps.Equal(before, after) {
		t.Errorf("the check changed the directory")
	}
	if left, err := os.ReadDir(work); err != nil || len(left) > 0 {
		t.Errorf("the check left %v, %v", left, err)
	}
	return r
}

// A check finds no fault in a sound directory of a server that was stopped or killed. It reports everything in it, and changes nothing.
func TestWhole(t *testing.T) {
	t.Parallel()
	dir, killed := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "data")
	e := open(t, dir)
	work(t, e, 9)
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if r, err := Dir(t.Context(), dir, Options{Work: t.TempDir(), Now: time.Now}); err == nil || !strings.Contains(err.Error(), "in use by process") {
		t.Errorf("a directory in use: %+v, %v", r, err)
	}
	backup, err := e.Storage().Backup(t.Context(), "test", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var tar bytes.Buffer
	if err := errors.Join(backup.Write(&tar), backup.Close()); err != nil {
		t.Fatal(err)
	}
	closed(t, e)
	ofTar, err := Backup(t.Context(), Options{Work: t.TempDir(), Now: time.Now}, bytes.NewReader(tar.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*Report{"stopped": checked(t, dir), "killed": checked(t, killed), "a backup": ofTar} {
		if !r.Whole || r.Faults > 0 || len(r.Queues) != 2 || len(r.Files) != 5 {
			t.Errorf("%s: %+v", name, r)
		}
		for _, q := range r.Queues {
			if q.Submissions != 9 || q.Contents != 36 || q.Outputs != 18 || q.Attachments != 9 || q.Counters == 0 {
				t.Errorf("%s: %+v, want 9 submissions with 36 contents, 18 outputs and 9 attachments", name, q)
			}
		}
		if text, err := json.Marshal(r); err != nil || strings.Contains(string(text), "quern-check-") {
			t.Errorf("%s: the report tells of the copy: %s, %v", name, text, err)
		}
	}
	if _, err := Backup(t.Context(), Options{Work: t.TempDir(), Now: time.Now}, bytes.NewReader(tar.Bytes()[:tar.Len()/2])); err == nil {
		t.Error("half a backup was checked")
	}
	if _, err := Dir(t.Context(), t.TempDir(), Options{Work: t.TempDir(), Now: time.Now}); err == nil {
		t.Error("an empty folder was checked")
	}
}

// Each shard of a queue is read, and reported under its name in calls.
func TestShardsAreChecked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := open(t, dir)
	settings := queue.DefaultSettings()
	settings.Shards = 3
	_, _, err := e.PutQueue(t.Context(), "orders", settings)
	if err != nil {
		t.Fatal(err)
	}
	orders, err := e.Work("orders")
	if err != nil {
		t.Fatal(err)
	}
	const groups = 20
	var list []queue.Insertion
	for i := range groups {
		n := &queue.NewSubmission{Group: fmt.Sprint("group ", i), OperationsPerChunk: 1}
		n.Chunks.Inline = [][]byte{[]byte("work")}
		list = append(list, queue.Insertion{New: n})
	}
	if err := orders.InsertMany(t.Context(), list, false); err != nil {
		t.Fatal(err)
	}
	closed(t, e)
	r := checked(t, dir)
	var names []string
	submissions := uint64(0)
	for _, q := range r.Queues {
		names = append(names, q.Name)
		submissions += uint64(q.Submissions)
	}
	if want := []string{"default", "orders~1", "orders~2", "orders~3"}; !r.Whole || !slices.Equal(names, want) || submissions != groups {
		t.Errorf("%q with %d submissions, want %q with %d: %+v", names, submissions, want, groups, r)
	}

	listed := 0
	for _, name := range names[1:] {
		err := Submissions(t.Context(), dir, SubmissionOptions{Options: Options{Work: t.TempDir(), Now: time.Now}, Queue: name}, func(i Item) error {
			listed++
			if i.Kind == OpDamaged {
				t.Errorf("%s: %+v", name, i)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if listed != groups {
		t.Errorf("%d submissions are listed by their shards, want %d", listed, groups)
	}
	err = Submissions(t.Context(), dir, SubmissionOptions{Options: Options{Work: t.TempDir(), Now: time.Now}, Queue: "orders"}, nil)
	if err == nil || !strings.Contains(err.Error(), `"orders~1"`) {
		t.Errorf("the whole queue is asked: %v", err)
	}
}

// A finding names the damage: queue, submission and chunk, and file, table and row.
func TestFindingsName(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	e := open(t, dir)
	work(t, e, 6)
	page, err := queueAt(e, "other").Submissions.List(t.Context(), engine.ListRequest{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	newest := page.Items[0].ID.String() // the last of six: a blob with a page for each chunk, and one that is the attachment
	closed(t, e)
	db, err := sqlitedb.SQL(filepath.Join(dir, "shards", "0001", "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"UPDATE blob_page SET crc = crc + 1 WHERE k = (SELECT max(k) FROM blob_page WHERE k >> 32 < (SELECT max(n) FROM blob))",
		"DELETE FROM blob_page WHERE k >> 32 = (SELECT max(n) FROM blob)",
	} {
		if _, err := db.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r := checked(t, dir)
	var lines []string
	for _, f := range r.Findings {
		lines = append(lines, f.String())
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"queue other, submission " + newest + ", chunk 3: its content: ", "queue other, submission " + newest + ": its attachment: ",
		"shards/0001/store.db, table blob_page, row ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no finding says %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "queue default") || r.Whole {
		t.Errorf("what is damaged is in the queue other alone:\n%s", text)
	}
}

// harms are ways to damage a file.
func harms(rnd *rand.Rand) map[string]func([]byte) []byte {
	list := map[string]func([]byte) []byte{
		"empty":        func([]byte) []byte { return nil },
		"cut in half":  func(b []byte) []byte { return b[:len(b)/2] },
		"cut by pages": func(b []byte) []byte { return b[:max(len(b)-8192, 0)] },
		"zeroes":       func(b []byte) []byte { clear(b[len(b)*3/4:]); return b },
		"zeroes within": func(b []byte) []byte {
			at := rnd.IntN(len(b))
			clear(b[at:min(at+4096, len(b))])
			return b
		},
	}
	for i := range 3 {
		list[fmt.Sprint("flipped ", i)] = func(b []byte) []byte { b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8); return b }
	}
	return list
}

// A server serves all of a directory that a check calls whole. A check finds any damage that would make a server refuse or serve less,
// whichever file it is in, and it changes nothing.
func TestDamageIsFound(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	stopped, killed := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "data")
	e := open(t, stopped)
	work(t, e, 6)
	if err := os.CopyFS(killed, os.DirFS(stopped)); err != nil {
		t.Fatal(err)
	}
	closed(t, e)
	want, err := served(t, stopped)
	if err != nil {
		t.Fatal(err)
	}
	for state, from := range map[string]string{"stopped": stopped, "killed": killed} {
		names, err := dataFiles(from)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			for i, harm := range slices.Sorted(maps.Keys(harms(nil))) {
				t.Run(state+"/"+name+"/"+harm, func(t *testing.T) {
					t.Parallel()
					dir := filepath.Join(t.TempDir(), "data")
					if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
						t.Fatal(err)
					}
					b, err := os.ReadFile(filepath.Join(dir, name))
					if err != nil || len(b) == 0 {
						return
					}
					b = harms(rand.New(rand.NewPCG(seed, uint64(i))))[harm](b)
					if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
						t.Fatal(err)
					}
					r := checked(t, dir)
					if got, err := served(t, dir); r.Whole && (err != nil || got != want) {
						t.Errorf("seed %d: it is called whole, and a server says %v, or tells\n%s\nwant\n%s", seed, err, got, want)
					}
				})
			}
		}
	}
}

// queueAt is a queue that serves.
func queueAt(e *engine.Engine, name string) *engine.Queue {
	q, err := e.Queue(name)
	if err != nil {
		panic(err)
	}
	return q
}
