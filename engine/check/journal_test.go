//quern:sequential

package check

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// ops are the operations of a journal, with the count of each kind.
func ops(t *testing.T, dir, queueName, submission string) (list []Op, kinds map[string]int) {
	t.Helper()
	before := sums(t, dir)
	kinds = map[string]int{}
	o := JournalOptions{Options: Options{Work: t.TempDir(), Now: time.Now}, Queue: queueName, Submission: submission}
	err := Journal(t.Context(), dir, o, func(op Op) error {
		list = append(list, op)
		kinds[op.Op]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if after := sums(t, dir); len(after) != len(before) || after["shards/0001/store.db"] != before["shards/0001/store.db"] {
		t.Error("looking at the journal changed the directory")
	}
	return list, kinds
}

// The journal of a queue is shown in order, with the submissions that its operations are about; also one with a damaged batch, in a queue
// that a server puts in quarantine, and nothing in the directory changes.
func TestJournalIsShown(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	e := open(t, dir)
	work(t, e, 3)
	page, err := queueAt(e, "other").Submissions.List(t.Context(), engine.ListRequest{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	newest := page.Items[0].ID.String()
	killed := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	closed(t, e)
	list, kinds := ops(t, killed, "other", "")
	if kinds["insert"] != 3 || kinds["complete"] != 6 || kinds["output"] == 0 || kinds["damaged"] != 0 {
		t.Errorf("the journal has %v, want 3 inserts and 6 completions", kinds)
	}
	for i, op := range list {
		if i > 0 && (op.Position < list[i-1].Position || op.At.Before(list[i-1].At)) {
			t.Errorf("%v comes behind %v", op, list[i-1])
		}
		if (op.Op == "insert" || op.Op == "complete") && op.Submission == "" {
			t.Errorf("%v is about no submission", op)
		}
	}
	of, kinds := ops(t, killed, "other", newest)
	if kinds["insert"] != 1 || kinds["complete"] != 0 || !strings.Contains(of[0].String()+of[len(of)-1].String(), newest) {
		t.Errorf("of the newest submission the journal has %v, %v", kinds, of)
	}
	db, err := sqlitedb.SQL(filepath.Join(killed, "shards", "0001", "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("UPDATE batch SET crc = crc + 1 WHERE n = (SELECT min(n) + 2 FROM batch)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	all, kinds := ops(t, killed, "other", "")
	if kinds["damaged"] != 1 || len(all) < len(list)/2 {
		t.Errorf("with a damaged batch there are %v, want that one and those behind it", kinds)
	}
	enough := errors.New("enough")
	err = Journal(t.Context(), killed, JournalOptions{Options: Options{Work: t.TempDir()}, Queue: "other"}, func(Op) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("an error of the caller: %v", err)
	}
	if err := Journal(t.Context(), killed, JournalOptions{Options: Options{Work: t.TempDir()}, Queue: "none"}, nil); err == nil {
		t.Error("a queue that there is not was shown")
	}
}
