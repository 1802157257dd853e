package engine

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/sdk/api"
)

// refusal is why a directory, or a queue in it, is not served.
func refusal(t *testing.T, dir string) error {
	t.Helper()
	e, err := openIn(t, dir)
	if err != nil {
		return err
	}
	defer closed(t, e)
	var reasons []error
	for _, q := range e.Queues() {
		if q.Quarantined != nil {
			reasons = append(reasons, errors.New(q.Quarantined.Reason))
		}
	}
	return errors.Join(reasons...)
}

// broken is a directory with the queues default, work and other. work cannot be opened; fix repairs it.
func broken(t *testing.T) (dir string, id queue.SubmissionID, fix func()) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	e := openAt(t, dir)
	for _, name := range []string{"work", "other"} {
		if _, _, err := e.PutQueue(t.Context(), name, queue.DefaultSettings()); err != nil {
			t.Fatal(err)
		}
		put(t, e, name, "nightly", `"Random"`)
	}
	someWork(t, e, "before", 3)
	page, err := queueAt(e, "work").Submissions.List(t.Context(), ListRequest{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	id = page.Items[0].ID
	closed(t, e)
	file := filepath.Join(dir, "shards", "0001", journalFile)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, id, func() {
		t.Helper()
		if err := os.WriteFile(file, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// One damaged queue keeps no other from serving, over any number of starts. Its calls are refused by name, readiness and the list of queues say
// why, and once its files are back it serves all that it had.
func TestDamagedQueueIsQuarantined(t *testing.T) {
	t.Parallel()
	dir, id, fix := broken(t)
	var since api.Time
	for range 3 {
		e := openAt(t, dir)
		info, err := e.QueueInfo("work")
		if err != nil || info.Quarantined == nil || !strings.Contains(info.Quarantined.Reason, filepath.Join("0001", journalFile)) {
			t.Fatalf("the damaged queue: %+v, %v; want the file that is damaged", info, err)
		}
		if since.IsZero() {
			since = info.Quarantined.Since
		}
		if info.Quarantined.Since != since {
			t.Errorf("it is in quarantine since %v, want %v: since the first start", info.Quarantined.Since, since)
		}
		names := []string{}
		for _, q := range e.Queues() {
			names = append(names, q.Name)
		}
		if !slices.Equal(names, []string{"default", "other", "work"}) {
			t.Errorf("the queues are %v", names)
		}
		someWork(t, e, "beside", 2)
		if err := refusesQuarantined(t, e, id); err != nil {
			t.Error(err)
		}
		checks := 0
		for _, c := range e.Ready() {
			if c.Aside {
				checks++
			}
			if c.OK == c.Aside || c.Aside && (c.Name != "queue work" || !strings.Contains(c.Detail, journalFile)) {
				t.Errorf("readiness: %+v", c)
			}
		}
		if checks != 1 {
			t.Errorf("%d checks are about queues in quarantine, want one", checks)
		}
		closed(t, e)
	}
	fix()
	e := openAt(t, dir)
	defer closed(t, e)
	if info, err := e.QueueInfo("work"); err != nil || info.Quarantined != nil {
		t.Fatalf("the queue with its files back: %+v, %v", info, err)
	}
	if sub, err := e.Submission(t.Context(), id); err != nil || sub.Done != 2 {
		t.Errorf("a submission of it: %+v, %v; want two chunks done", sub, err)
	}
	if s, err := queueAt(e, "work").Strategies.Get("nightly", 0); err != nil || s.Version != 1 {
		t.Errorf("its strategy: %+v, %v", s, err)
	}
}

// refusesQuarantined makes calls of each kind for the queue work.
func refusesQuarantined(t *testing.T, e *Engine, id queue.SubmissionID) error {
	t.Helper()
	var errs []error
	for what, call := range map[string]func() error{
		"find":                 func() error { _, err := e.Queue("work"); return err },
		"find by a submission": func() error { _, err := e.QueueOf(id); return err },
		"read":                 func() error { _, err := e.Submission(t.Context(), id); return err },
		"list bulk":            func() error { _, err := e.Bulks("work"); return err },
		"set":                  func() error { _, _, err := e.PutQueue(t.Context(), "work", queue.DefaultSettings()); return err },
		"delete":               func() error { return e.DeleteQueue(t.Context(), "work", false) },
	} {
		if err := call(); queue.CodeOf(err) != queue.CodeQuarantined {
			errs = append(errs, errors.New(what+": "+errors.Join(err).Error()))
		}
	}
	backup, err := e.Storage().Backup(t.Context(), "test", "", nil)
	if queue.CodeOf(err) != queue.CodeConflict {
		errs = append(errs, errors.Join(errors.New("a backup without the queue was made"), err))
	}
	if backup != nil {
		errs = append(errs, backup.Close())
	}
	return errors.Join(errs...)
}

// A queue in quarantine can be deleted, damaged as it is; the default queue comes back empty. Nothing else is deleted so.
func TestQuarantinedQueueIsDeleted(t *testing.T) {
	t.Parallel()
	dir, _, _ := broken(t)
	if err := os.Remove(filepath.Join(dir, "shards", "0000", storeFile)); err != nil {
		t.Fatal(err)
	}
	e := openAt(t, dir)
	for name, want := range map[string]queue.Code{"work": "", "default": "", "other": queue.CodeConflict, "none": queue.CodeUnknownQueue} {
		if err := e.DeleteQueue(t.Context(), name, true); queue.CodeOf(err) != want || want == "" && err != nil {
			t.Errorf("delete %s: %v, want %q", name, err, want)
		}
	}
	for range 2 {
		for _, q := range e.Queues() {
			if q.Name == "work" || q.Quarantined != nil {
				t.Errorf("after the deletion there is %+v", q)
			}
		}
		if s := queueAt(e, DefaultQueue).Stats(); s.SubmissionsOpen != 0 {
			t.Errorf("the default queue: %+v; want an empty one", s)
		}
		closed(t, e)
		e = openAt(t, dir)
	}
	closed(t, e)
}

// A file of an older moment is refused, also in the place of a damaged one. A file of a newer version keeps the whole server from starting,
// because an older program cannot fix it.
func TestQuarantineKnowsItsFiles(t *testing.T) {
	t.Parallel()
	dir, _, fix := broken(t)
	e := openAt(t, dir)
	closed(t, e)
	fix()
	older := snapshot(t, dir)
	e = openAt(t, dir)
	someWork(t, e, "later", 1)
	closed(t, e)
	for _, name := range []string{journalFile, storeFile} {
		b, err := os.ReadFile(filepath.Join(older, "shards", "0001", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "shards", "0001", name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := refusal(t, dir); err == nil || !strings.Contains(err.Error(), "older") {
		t.Errorf("older files: %v, want that they are refused", err)
	}
	file := filepath.Join(dir, "shards", "0002", storeFile)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint32(b[60:], 99) // the version, as SQLite's file format has it
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if e, err := openIn(t, dir); err == nil || !strings.Contains(err.Error(), "version 99") {
		t.Errorf("a file of a newer version: %v, %v; want that the start is refused", e, err)
	}
}

// A queue that a start lost to another server does not serve, but is not damaged. Its calls say that it has moved, and no one deletes files
// of the other server. The next start that gets the queue serves it.
func TestMovedQueueDoesNotServe(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	e := openAt(t, dir)
	if _, _, err := e.PutQueue(t.Context(), "work", queue.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	someWork(t, e, "before", 3)
	page, err := queueAt(e, "work").Submissions.List(t.Context(), ListRequest{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	id := page.Items[0].ID
	closed(t, e)

	e = openAt(t, dir)
	work := queueAt(e, "work")
	rows, err := e.catalogue.Queues()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(rows, func(row store.QueueRow) bool { return row.Name == "work" })
	if err := work.close(); err != nil {
		t.Fatal(err)
	}
	delete(e.queues, work.name)
	delete(e.shards, work.id)
	lost := &queue.Error{Code: queue.CodeMoved, Message: "Another server has it.", Err: journal.ErrConflict}
	if err := (&opening{e}).putInQuarantine(rows[at], lost); err != nil {
		t.Fatal(err)
	}
	_, byName := e.Queue("work")
	_, byID := e.Submission(t.Context(), id)
	_, _, put := e.PutQueue(t.Context(), "work", queue.DefaultSettings())
	for call, err := range map[string]error{
		"the queue": byName, "a submission": byID, "a change of it": put, "its deletion": e.DeleteQueue(t.Context(), "work", true),
	} {
		if queue.CodeOf(err) != queue.CodeMoved {
			t.Errorf("%s = %v; want the code moved", call, err)
		}
	}
	if info, err := e.QueueInfo("work"); err != nil || info.Quarantined == nil || !strings.Contains(info.Quarantined.Reason, "moved") {
		t.Errorf("the queue's own answer: %+v, %v; want that it has moved", info, err)
	}
	said := func() string {
		for _, check := range e.Ready() {
			if check.Name == "queue work" {
				return check.Detail
			}
		}
		return ""
	}
	// The server tries again to open it, without success while the other server has its files.
	file := e.identity.ForShard(rows[at].Shard).Opened()
	other, err := sqlitelog.Open(t.Context(), filepath.Join(e.shardDir(rows[at].Shard), journalFile), sqlitelog.Options{Identity: file})
	if err != nil {
		t.Fatal(err)
	}
	e.retake(t.Context())
	if got := said(); !strings.HasPrefix(got, "moved; it is asked for again") {
		t.Errorf("/readyz says %q; want that it has moved", got)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	e.retake(t.Context())
	if sub, err := e.Submission(t.Context(), id); err != nil || sub.Done != 2 || said() != "serving" {
		t.Errorf("when the other server is gone: %+v, %v, %q; want two chunks done", sub, err, said())
	}
	closed(t, e)

	e = openAt(t, dir)
	defer closed(t, e)
	if sub, err := e.Submission(t.Context(), id); err != nil || sub.Done != 2 {
		t.Errorf("at the next start: %+v, %v; want two chunks done", sub, err)
	}
}
