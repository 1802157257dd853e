//quern:sequential

package repair

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/check"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
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

// work inserts n submissions of three chunks, and completes one chunk after each, so that every call has a batch of its own.
func work(t *testing.T, e *engine.Engine, name string, n int) (first queue.Token) {
	t.Helper()
	if _, _, err := e.PutQueue(t.Context(), name, queue.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		var s queue.NewSubmission
		for c := range 3 {
			s.Chunks.Inline = append(s.Chunks.Inline, bytes.Repeat(fmt.Appendf(nil, "%d of %d. ", c, i), 20))
		}
		if _, _, err := queueAt(e, name).Insert(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		got := reserve(t, e, name, 1)
		if i == 0 {
			first = got[0].Token
			continue // it is held until the end
		}
		output := bytes.Repeat([]byte("done"), 1+i%2<<15) // a large one is in the store before its op is in the journal
		if _, err := queueAt(e, name).Complete(t.Context(), []queue.CompleteItem{{Token: got[0].Token, Output: output}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	return first
}

func reserve(t *testing.T, e *engine.Engine, name string, most int) []queue.Reservation {
	t.Helper()
	plan, err := queueAt(e, name).Plan([]byte(`"OldestFirst"`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := queueAt(e, name).Reserve(t.Context(), engine.ReserveRequest{Max: most, Plan: plan}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return got.Reservations
}

// facts are each submission of a queue, and each chunk that is done.
func facts(t *testing.T, e *engine.Engine, name string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	page, err := queueAt(e, name).Submissions.List(t.Context(), engine.ListRequest{Limit: queue.MaxListLimit})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range page.Items {
		all[s.ID.String()] = true
		for c := range s.Chunks {
			if chunk, err := queueAt(e, name).Submissions.Chunk(t.Context(), s.ID, c); err != nil {
				t.Fatal(err)
			} else if chunk.State == queue.ChunkDone {
				all[fmt.Sprintf("%s/%d", s.ID, c)] = true
			}
		}
	}
	return all
}

// factsOf are the facts of a directory that is not in use.
func factsOf(t *testing.T, dir, name string) map[string]bool {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	e := open(t, to)
	defer closed(t, e)
	return facts(t, e, name)
}

// positions say which batch each fact came with.
func positions(t *testing.T, dir, name string) map[string]uint64 {
	t.Helper()
	at := map[string]uint64{}
	o := check.JournalOptions{Options: check.Options{Work: t.TempDir(), Now: time.Now}, Queue: name}
	err := check.Journal(t.Context(), dir, o, func(op check.Op) error {
		switch op.Op {
		case "insert":
			at[op.Submission] = op.Position
		case "complete":
			index, _ := op.Fields["index"].(uint32)
			at[fmt.Sprintf("%s/%d", op.Submission, index)] = op.Position
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// killed is a directory of a server that was killed, with the token of a reservation that it had given out. The queue `other` has work
// behind its last checkpoint, or none of its work is in the store yet.
func killed(t *testing.T, checkpointed bool) (dir string, token queue.Token) {
	t.Helper()
	live, dir := filepath.Join(t.TempDir(), "live"), filepath.Join(t.TempDir(), "data")
	e := open(t, live)
	work(t, e, "default", 2)
	token = work(t, e, "other", 6)
	if checkpointed {
		closed(t, e) // which makes a checkpoint
		e = open(t, live)
		work(t, e, "other", 6)
	}
	if err := os.CopyFS(dir, os.DirFS(live)); err != nil {
		t.Fatal(err)
	}
	closed(t, e)
	return dir, token
}

func sqlIn(t *testing.T, path, text string, args ...any) {
	t.Helper()
	db, err := sqlitedb.SQL(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(text, args...)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// harm is a way to damage a journal.
type harm func(t *testing.T, path string)

func harms(rnd *rand.Rand, newest uint64) map[string]harm {
	at := func(t *testing.T, path string, change func([]byte) []byte) {
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, change(b), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]harm{
		"no log":     func(t *testing.T, path string) { _ = os.Remove(path + "-wal"); _ = os.Remove(path + "-shm") },
		"no file":    func(t *testing.T, path string) { _ = os.Remove(path) },
		"empty":      func(t *testing.T, path string) { at(t, path, func([]byte) []byte { return nil }) },
		"half a log": func(t *testing.T, path string) { at(t, path+"-wal", func(b []byte) []byte { return b[:len(b)/2] }) },
		"a log of dust": func(t *testing.T, path string) {
			at(t, path+"-wal", func(b []byte) []byte { clear(b[len(b)/3:]); return b })
		},
	}
	for n := uint64(1); n <= newest; n += 1 + rnd.Uint64N(6) {
		all[fmt.Sprint("batch ", n, " changed")] = func(t *testing.T, path string) {
			sqlIn(t, path, "UPDATE batch SET crc = crc + 1 WHERE n = ?", n)
		}
		all[fmt.Sprint("batch ", n, " gone")] = func(t *testing.T, path string) { sqlIn(t, path, "DELETE FROM batch WHERE n = ?", n) }
	}
	return all
}

// A repaired directory opens and works, and what is missing in it is exactly what was reported: by submission and chunk where the batch
// could be read, and by the batch where it could not. Everything that is left is as it was.
func TestNothingIsLostUnreported(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, checkpointed := range []bool{false, true} {
		dir, token := killed(t, checkpointed)
		before, at := factsOf(t, dir, "other"), positions(t, dir, "other")
		for name, do := range harms(rnd, slices.Max(append([]uint64{20}, values(at)...))) {
			t.Run(fmt.Sprintf("checkpoint %v, %s", checkpointed, name), func(t *testing.T) {
				t.Parallel()
				damaged, to := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "repaired")
				if err := os.CopyFS(damaged, os.DirFS(dir)); err != nil {
					t.Fatal(err)
				}
				do(t, filepath.Join(damaged, "shards", "0001", "journal.db"))
				r, err := Dir(t.Context(), damaged, to, check.Options{Work: t.TempDir(), Now: time.Now})
				if err != nil {
					t.Fatal(err)
				}
				if r.To == "" { // the harm did nothing: there was no such batch
					if !r.Check.Whole || r.Losses > 0 {
						t.Fatalf("nothing was repaired: %+v", r)
					}
					return
				}
				if !r.Check.Whole || len(r.Journals) != 1 || r.Journals[0].Queue != "other" {
					t.Errorf("%+v, %+v", r.Journals, r.Check.Findings)
				}
				if last := tail(t, to); last <= slices.Max(append([]uint64{0}, values(at)...)) {
					t.Errorf("the journal ends at %d: the next batches get positions that others had", last)
				}
				e := open(t, to)
				defer closed(t, e)
				compare(t, r, before, facts(t, e, "other"), at)
				goesOn(t, e, before, token)
			})
		}
	}
}

func values(of map[string]uint64) (all []uint64) {
	for _, n := range of {
		all = append(all, n)
	}
	return all
}

// tail is the last position of the journal of the queue `other`.
func tail(t *testing.T, dir string) (last uint64) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	err := sqlitelog.Salvage(t.Context(), filepath.Join(to, "shards", "0001", "journal.db"), 0, func(b sqlitelog.Batch) error {
		last = uint64(b.Position)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// compare compares the reported losses with the real ones.
func compare(t *testing.T, r *Report, before, after map[string]bool, at map[string]uint64) {
	t.Helper()
	reported, nameless := map[string]bool{}, map[string]bool{}
	unknown := func(position uint64) bool { return false }
	for i := range r.Lost {
		l := &r.Lost[i]
		switch {
		case l.Op == "insert":
			reported[l.Submission] = true
		case l.Op == "complete" && l.Submission != "":
			reported[fmt.Sprintf("%s/%d", l.Submission, *l.Chunk)] = true
		case l.Op == "complete": // of a submission whose insert was in a batch that cannot be read
			nameless[fmt.Sprintf("%d/%d", l.Position, *l.Chunk)] = true
		case l.Op == check.OpDamaged:
			more, from := unknown, l.Position
			rest := strings.Contains(fmt.Sprint(l.Fields), "missing") || strings.Contains(fmt.Sprint(l.Fields), "if anything was") ||
				strings.Contains(fmt.Sprint(l.Fields), "cannot be read: ")
			unknown = func(position uint64) bool { return more(position) || position == from || rest && position >= from }
		}
	}
	for fact := range before {
		id, chunk, _ := strings.Cut(fact, "/")
		orphan := unknown(at[id]) && nameless[fmt.Sprintf("%d/%s", at[fact], chunk)]
		if !after[fact] && !reported[fact] && !unknown(at[fact]) && !orphan {
			t.Errorf("%s of batch %d is gone, and was not reported", fact, at[fact])
		}
	}
	for fact := range reported {
		if after[fact] {
			t.Errorf("%s was reported lost, and is there", fact)
		}
		if !before[fact] {
			t.Errorf("%s was reported lost, and was never there", fact)
		}
	}
	for fact := range after {
		if !before[fact] {
			t.Errorf("%s was made up", fact)
		}
	}
}

// goesOn inserts into a repaired queue and reserves from it. The queue uses no id of the old one again, its tokens are of a later epoch,
// and new submissions get nothing from lost ones.
func goesOn(t *testing.T, e *engine.Engine, before map[string]bool, old queue.Token) {
	t.Helper()
	added := map[queue.SubmissionID]bool{}
	for range 12 {
		sub, _, err := queueAt(e, "other").Insert(t.Context(), queue.NewSubmission{Chunks: queue.Chunks{Inline: [][]byte{[]byte("new")}}})
		if err != nil {
			t.Fatal(err)
		}
		if before[sub.ID.String()] {
			t.Errorf("the id %s was given out again", sub.ID)
		}
		added[sub.ID] = true
	}
	for _, x := range reserve(t, e, "other", queue.MaxReserve) {
		if x.Token.Epoch <= old.Epoch {
			t.Errorf("a token of epoch %d, and such were given out up to epoch %d", x.Token.Epoch, old.Epoch)
		}
		if added[x.Token.Submission] && string(x.Content.Bytes) != "new" {
			t.Errorf("the new submission has the content %q", x.Content.Bytes)
		}
		if _, err := queueAt(e, "other").Complete(t.Context(), []queue.CompleteItem{{Token: x.Token}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for id := range added {
		err := queueAt(e, "other").Submissions.Outputs(t.Context(), id, func(index uint32, _ []byte) error { return fmt.Errorf("chunk %d has one", index) })
		if err != nil {
			t.Errorf("the outputs of a new submission, completed without any: %v", err)
		}
	}
}

// The store may be ahead of a cut, by a checkpoint that was cut off. The rows that it has are not lost.
func TestWhatIsThereIsNotLost(t *testing.T) {
	t.Parallel()
	e := open(t, filepath.Join(t.TempDir(), "data"))
	defer closed(t, e)
	held := work(t, e, "default", 3)
	page, err := queueAt(e, "default").Submissions.List(t.Context(), engine.ListRequest{Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range page.Items {
		for c := range s.Chunks {
			chunk, err := queueAt(e, "default").Submissions.Chunk(t.Context(), s.ID, c)
			if err != nil {
				t.Fatal(err)
			}
			l := Lost{Op: "complete", Submission: s.ID.String(), Chunk: &c}
			if done := chunk.State == queue.ChunkDone; has(t.Context(), e, &l) != done {
				t.Errorf("chunk %d of %s: done is %v", c, s.ID, done)
			}
		}
		if !has(t.Context(), e, &Lost{Op: "insert", Submission: s.ID.String()}) {
			t.Errorf("%s is there", s.ID)
		}
	}
	if has(t.Context(), e, &Lost{Op: "insert", Submission: (held.Submission + 1<<30).String()}) {
		t.Error("a submission that was never inserted is there")
	}
	if has(t.Context(), e, &Lost{Op: "priority", Submission: held.Submission.String()}) || has(t.Context(), e, &Lost{Op: "complete"}) {
		t.Error("what cannot be told is not lost")
	}
}

// A repair leaves a journal of another moment, or a target that exists, as it is, and says so. It does not copy a directory that is whole.
func TestLeftAsItIs(t *testing.T) {
	t.Parallel()
	dir, _ := killed(t, true)
	o := check.Options{Work: t.TempDir(), Now: time.Now}
	parent := t.TempDir()
	to := filepath.Join(parent, "repaired")
	if r, err := Dir(t.Context(), dir, to, o); err != nil || r.To != "" || !r.Check.Whole || r.Losses > 0 {
		t.Errorf("of a directory that is whole: %+v, %v", r, err)
	}
	if _, err := Dir(t.Context(), dir, parent, o); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("into a folder that is there: %v", err)
	}
	older := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(older, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		closed(t, open(t, older))
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		name := filepath.Join("shards", "0001", "journal.db"+suffix)
		_ = os.Remove(filepath.Join(older, name))
		if b, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			if err := os.WriteFile(filepath.Join(older, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, err := Dir(t.Context(), older, to, o)
	if err != nil || r.To != "" || r.Check.Whole || !strings.Contains(fmt.Sprint(r.Check.Findings), "older copy") {
		t.Errorf("of a journal of another moment: %+v, %v", r, err)
	}
	if strings.Contains(fmt.Sprint(r.Check.Findings), "partial") {
		t.Errorf("the findings name the copy: %v", r.Check.Findings)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
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

// A directory is repaired in its place, with the files beside its databases. The damaged one is at the path that was given.
func TestInPlace(t *testing.T) {
	t.Parallel()
	dir, _ := killed(t, true)
	if err := os.WriteFile(filepath.Join(dir, "admin-token"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(dir, "shards", "0001", "journal.db")
	sqlIn(t, damaged, "UPDATE batch SET crc = crc + 1")
	before, err := os.ReadFile(damaged)
	if err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(t.TempDir(), "old")
	r, err := InPlace(t.Context(), dir, old, check.Options{Work: t.TempDir(), Now: time.Now})
	if err != nil || r.To != dir || r.Old != old || len(r.Journals) != 1 || !r.Check.Whole {
		t.Fatalf("%+v, %v", r, err)
	}
	if b, err := os.ReadFile(filepath.Join(old, "shards", "0001", "journal.db")); err != nil || !bytes.Equal(b, before) {
		t.Errorf("the damaged journal is not what it was: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "admin-token")); err != nil || string(b) != "secret" {
		t.Errorf("%q, %v", b, err)
	}
	closed(t, open(t, dir))
	if r, err := InPlace(t.Context(), dir, old, check.Options{Work: t.TempDir(), Now: time.Now}); err == nil {
		t.Errorf("%s was overwritten: %+v", old, r)
	}
}

// A queue that does not open although its files can be read is emptied, and the report names all that it had. The others stay.
func TestClosedQueueIsEmptied(t *testing.T) {
	t.Parallel()
	dir, _ := killed(t, true)
	folder := filepath.Join(dir, "shards", "0001")
	before := factsOf(t, dir, "other")
	e := open(t, dir)
	closed(t, e)
	// a whole row that no start can read, and a journal that has to be cut: the repair takes both over, and the queue does not open
	sqlIn(t, filepath.Join(folder, "store.db"), "INSERT OR REPLACE INTO aside (kind, key, crc, bytes) VALUES (10, 0, ?, ?)",
		crcOf("\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x00\x00\x00\x00\x00\x00\xff"), []byte{0xff}) // the rules
	sqlIn(t, filepath.Join(folder, "journal.db"), "UPDATE batch SET crc = crc + 1 WHERE n = (SELECT max(n) FROM batch)")
	to := filepath.Join(t.TempDir(), "repaired")
	r, err := Dir(t.Context(), dir, to, check.Options{Work: t.TempDir(), Now: time.Now})
	if err != nil || !r.Check.Whole {
		t.Fatalf("%+v, %v", r, err)
	}
	named := map[string]bool{}
	emptied := false
	for i := range r.Lost {
		named[r.Lost[i].Submission] = true
		emptied = emptied || r.Lost[i].Op == "queue" && r.Lost[i].Queue == "other"
	}
	for fact := range before {
		if id, _, _ := strings.Cut(fact, "/"); !named[id] {
			t.Errorf("%s is gone, and was not named", id)
		}
	}
	e = open(t, to)
	defer closed(t, e)
	if left := facts(t, e, "other"); len(left) > 0 || !emptied || len(facts(t, e, "default")) == 0 {
		t.Errorf("emptied %v, with %v", emptied, left)
	}
	goesOn(t, e, before, queue.Token{})
}

func crcOf(text string) int32 {
	return int32(crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)))
}
