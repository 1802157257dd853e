//quern:sequential

package check

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// items are the items of the queue "other" in a directory. To read them changes no file.
func items(t *testing.T, dir string, o SubmissionOptions) (list []Item, text string) {
	t.Helper()
	before := sums(t, dir)
	o.Queue, o.Work, o.Now = "other", t.TempDir(), time.Now
	err := Submissions(t.Context(), dir, o, func(i Item) error {
		list = append(list, i)
		text += i.String() + "\n"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(before, sums(t, dir)) {
		t.Error("looking at submissions changed the directory")
	}
	if left, err := os.ReadDir(o.Work); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	return list, text
}

// failOne reserves a chunk of "other" and has it fail, with no try left if fatal.
func failOne(t *testing.T, e *engine.Engine, fatal bool) queue.Token {
	t.Helper()
	q := queueAt(e, "other")
	plan, err := q.Plan([]byte(`"OldestFirst"`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := q.Reserve(t.Context(), engine.ReserveRequest{Max: 1, Plan: plan}, nil)
	if err != nil || len(got.Reservations) != 1 {
		t.Fatal(got, err)
	}
	token := got.Reservations[0].Token
	if _, err := q.Fail(t.Context(), []queue.FailItem{{Token: token, Error: "no such page", Fatal: fatal}}, nil); err != nil {
		t.Fatal(err)
	}
	return token
}

// Submissions are shown as a start would have them, with filters, and with the chunks that something happened to. Those of a queue that no
// server can open are shown as the last checkpoint wrote them, with the damage.
func TestSubmissionsAreShown(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	e := open(t, dir)
	work(t, e, 3)
	settings := queue.DefaultSettings()
	settings.OnExhausted, settings.RetryBackoff = queue.DeadLetter, queue.Backoff{Base: time.Hour, Factor: 1, Cap: time.Hour}
	if _, _, err := e.PutQueue(t.Context(), "other", settings); err != nil {
		t.Fatal(err)
	}
	if err := e.Storage().Checkpoint("other"); err != nil {
		t.Fatal(err)
	}
	dead, waits := failOne(t, e, true), failOne(t, e, false)
	killed := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	closed(t, e)

	all, text := items(t, killed, SubmissionOptions{})
	if len(all) != 3 || strings.Contains(text, OpDamaged) {
		t.Errorf("there are %d submissions, want 3:\n%s", len(all), text)
	}
	counts := map[string]uint32{}
	for _, i := range all {
		for _, name := range []string{"done", "dead", "waiting", "chunks"} {
			n, _ := i.Fields[name].(uint32)
			counts[name] += n
		}
	}
	if want := map[string]uint32{"done": 6, "dead": 1, "waiting": 1, "chunks": 12}; !maps.Equal(counts, want) {
		t.Errorf("the submissions have %v, want %v:\n%s", counts, want, text)
	}
	rows, text := items(t, killed, SubmissionOptions{Rows: true})
	if len(rows) != 3 || strings.Contains(text, `"dead":1`) || rows[0].Position == 0 {
		t.Errorf("the rows of the checkpoint have what came after it:\n%s", text)
	}
	two := queue.Meta{{Key: "n", Value: queue.IntValue(2)}}
	if some, text := items(t, killed, SubmissionOptions{Meta: two}); len(some) != 1 || some[0].Submission == all[0].Submission {
		t.Errorf("with n=2 there are\n%s", text)
	}
	if none, text := items(t, killed, SubmissionOptions{States: []queue.SubmissionState{queue.Failed}}); len(none) > 0 {
		t.Errorf("failed are\n%s", text)
	}
	chunks, text := items(t, killed, SubmissionOptions{Exceptions: true, Submission: dead.Submission.String()})
	if len(chunks) == 0 || *chunks[0].Chunk != dead.Index || chunks[0].Fields["state"] != "dead" || !strings.Contains(text, "no such page") {
		t.Errorf("exceptions:\n%s", text)
	}
	if _, text := items(t, killed, SubmissionOptions{Exceptions: true}); !strings.Contains(text, fmt.Sprintf("%s/%d", waits.Submission, waits.Index)) {
		t.Errorf("%v waits and is not among the exceptions:\n%s", waits, text)
	}
	damagedIsShown(t, killed, all)
}

// damagedIsShown damages the page of the open submissions, and the journal, and looks again.
func damagedIsShown(t *testing.T, dir string, all []Item) {
	t.Helper()
	for path, sql := range map[string]string{
		"store.db":   "UPDATE open_page SET crc = crc + 1",
		"journal.db": "DELETE FROM batch",
	} {
		db, err := sqlitedb.SQL(filepath.Join(dir, "shards", "0001", path))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(sql); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	list, text := items(t, dir, SubmissionOptions{})
	if len(list) != 3 || list[0].Kind != OpDamaged || !strings.Contains(text, "cannot be opened, so the following is what the last checkpoint") ||
		list[1].Kind != OpDamaged || !strings.Contains(text, "in table open_page") || list[2].Submission != all[2].Submission {
		t.Errorf("of a damaged queue there is\n%s", text)
	}
	// A page of the file is gone: the list shows the failure of SQLite.
	store := filepath.Join(dir, "shards", "0001", "store.db")
	b, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(b, []byte("submission"))
	clear(b[at/4096*4096 : min(at/4096*4096+4096, len(b))])
	if err := os.WriteFile(store, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if list, text := items(t, dir, SubmissionOptions{}); len(list) < 2 || !strings.Contains(text, OpDamaged) {
		t.Errorf("of a store with a page gone there is\n%s", text)
	}
}
