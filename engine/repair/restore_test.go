//quern:sequential

package repair

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/check"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// orders is a directory with a queue of three shards, each with the work of one group and its name.
type orders struct {
	*testing.T
	dir    string
	groups []string // by the number of the shard less one
}

func newOrders(t *testing.T) (o *orders, e *engine.Engine) {
	t.Helper()
	o = &orders{T: t, dir: filepath.Join(t.TempDir(), "data"), groups: make([]string, 3)}
	e = open(t, o.dir)
	settings := queue.DefaultSettings()
	settings.Shards, settings.RestartGrace = 3, 0
	if _, _, err := e.PutQueue(t.Context(), "orders", settings); err != nil {
		t.Fatal(err)
	}
	for i := 0; slices.Contains(o.groups, ""); i++ {
		name := fmt.Sprint("g", i)
		number, err := e.ShardOfGroup("orders", name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if o.groups[number-1] == "" {
			o.groups[number-1] = name
		}
	}
	return o, e
}

// runs opens the directory, and has the engine work until it is closed.
func (o *orders) runs() (e *engine.Engine, stop func()) {
	o.Helper()
	e = open(o.T, o.dir)
	ctx, done := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { e.Run(ctx) })
	return e, func() {
		o.Helper()
		done()
		running.Wait()
		closed(o.T, e)
	}
}

// insert puts submissions of one chunk into a shard.
func (o *orders) insert(e *engine.Engine, number, n int) (ids []queue.SubmissionID) {
	o.Helper()
	for range n {
		s := queue.NewSubmission{Group: o.groups[number-1]}
		s.Chunks.Inline = [][]byte{[]byte("work")}
		made, _, err := o.shard(e, number).Insert(o.Context(), s)
		if err != nil {
			o.Fatal(err)
		}
		ids = append(ids, made.ID)
	}
	return ids
}

func (o *orders) shard(e *engine.Engine, number int) *engine.Queue {
	o.Helper()
	q, err := e.Queue(queue.ShardName("orders", number))
	if err != nil {
		o.Fatal(err)
	}
	return q
}

// take reserves up to so many chunks of a shard.
func (o *orders) take(e *engine.Engine, number, most int) []queue.Reservation {
	o.Helper()
	q := o.shard(e, number)
	plan, err := q.Plan([]byte(`"OldestFirst"`))
	if err != nil {
		o.Fatal(err)
	}
	got, err := q.Reserve(o.Context(), engine.ReserveRequest{Max: most, Plan: plan}, nil)
	if err != nil {
		o.Fatal(err)
	}
	return got.Reservations
}

// complete completes chunks, and returns the answers.
func (o *orders) complete(e *engine.Engine, number int, list ...queue.Reservation) (results []queue.Result) {
	o.Helper()
	var items []queue.CompleteItem
	for i := range list {
		items = append(items, queue.CompleteItem{Token: list[i].Token})
	}
	results, err := o.shard(e, number).Complete(o.Context(), items, nil)
	if err != nil {
		o.Fatal(err)
	}
	return results
}

// backup makes a backup, in memory.
func (o *orders) backup(e *engine.Engine) *bytes.Reader {
	o.Helper()
	b, err := e.Storage().Backup(o.Context(), "test", "", nil)
	var text bytes.Buffer
	if err == nil {
		err = b.Write(&text)
	}
	if err != nil {
		o.Fatal(err)
	}
	return bytes.NewReader(text.Bytes())
}

// folder is that of a shard. The first queue is `default`.
func (o *orders) folder(number int) string {
	return filepath.Join(o.dir, "shards", fmt.Sprintf("%04d", number))
}

// damage cuts off the journal of a shard, and starts a server once, which quarantines it.
func (o *orders) damage(number int) {
	o.Helper()
	if err := os.Truncate(filepath.Join(o.folder(number), "journal.db"), 5000); err != nil {
		o.Fatal(err)
	}
	closed(o.T, open(o.T, o.dir))
}

// forget removes what restores of a shard put aside.
func (o *orders) forget(number int) {
	o.Helper()
	folders, err := filepath.Glob(o.folder(number) + beforeMark + "*")
	for _, folder := range folders {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	if err != nil {
		o.Fatal(err)
	}
}

func (o *orders) restore(name string, from *bytes.Reader) (Restored, error) {
	return o.restoreAt(time.Now(), name, from)
}

// restoreAt is a restore while the clock shows this.
func (o *orders) restoreAt(now time.Time, name string, from *bytes.Reader) (Restored, error) {
	if _, err := from.Seek(0, 0); err != nil {
		o.Fatal(err)
	}
	return (&Restore{Dir: o.dir, Queue: name, Now: func() time.Time { return now }}).Run(o.Context(), from)
}

// A shard comes back as it was at the backup, and the others keep their later work.
func TestOneShardIsRestored(t *testing.T) {
	t.Parallel()
	o, e := newOrders(t)
	early := o.insert(e, 2, 3)
	o.insert(e, 3, 3)
	from := o.backup(e)
	late := o.insert(e, 2, 1)
	for range 3 { // lives that the backup knows nothing of
		closed(t, e)
		e = open(t, o.dir)
	}
	held := o.take(e, 2, 2) // given out after the backup
	o.complete(e, 2, held[0])
	o.complete(e, 3, o.take(e, 3, 1)...)
	closed(t, e)
	o.damage(2)
	damaged, err := os.ReadFile(filepath.Join(o.folder(2), "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	done, err := o.restore("orders~2", from)
	if err != nil || len(done.Before) != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	if kept, err := os.ReadFile(filepath.Join(done.Before[0], "journal.db")); err != nil || !bytes.Equal(kept, damaged) {
		t.Errorf("the damaged journal was not kept: %v", err)
	}
	e = open(t, o.dir)
	if ready := o.shard(e, 3).Stats().Ready; ready != 2 {
		t.Errorf("shard 3 has %d ready chunks, want 2", ready)
	}
	if _, err := e.Submission(t.Context(), late[0]); queue.CodeOf(err) != queue.CodeUnknownSubmission {
		t.Errorf("what was inserted after the backup: %v", err)
	}
	again := o.take(e, 2, 10)
	var ids []queue.SubmissionID
	for i := range again {
		ids = append(ids, again[i].Token.Submission)
		for _, old := range held {
			if again[i].Token.Epoch <= old.Token.Epoch {
				t.Errorf("a token of epoch %d was given out after one of epoch %d", again[i].Token.Epoch, old.Token.Epoch)
			}
		}
	}
	if !slices.Equal(ids, early) {
		t.Errorf("it gives %v, want %v", ids, early)
	}
	for _, result := range o.complete(e, 2, held...) {
		if result.Outcome != queue.OutcomeLost {
			t.Errorf("a token from before the restore completed a chunk that someone else holds, or was not refused: %+v", result)
		}
	}
	closed(t, e)
	left, err := filepath.Glob(filepath.Join(o.dir, "restore*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// A backup of one shard brings that one back, also from increments. It is no backup of the whole directory, and goes on while another shard
// is damaged.
func TestBackupOfOneShard(t *testing.T) {
	t.Parallel()
	o, e := newOrders(t)
	early := o.insert(e, 2, 3)
	o.insert(e, 3, 3)
	closed(t, e)
	o.damage(3)
	e = open(t, o.dir)
	full := o.backupOf(e, "orders~2", nil)
	early = append(early, o.insert(e, 2, 2)...)
	more := o.backupOf(e, "orders~2", full)
	o.insert(e, 2, 1)
	for name, want := range map[string]queue.Code{"": queue.CodeConflict, "orders": queue.CodeConflict, "orders~3": queue.CodeConflict,
		"orders~4": queue.CodeUnknownQueue, "other": queue.CodeUnknownQueue} {
		if b, err := e.Storage().Backup(t.Context(), "test", name, nil); queue.CodeOf(err) != want {
			t.Errorf("a backup of %q: %v %v, want %s", name, b, err, want)
		}
	}
	if _, err := e.Storage().Backup(t.Context(), "test", "orders~1", bytes.NewReader(full)); queue.CodeOf(err) != queue.CodeConflict ||
		!strings.Contains(err.Error(), "orders~1") {
		t.Errorf("an increment of another shard's backup: %v", err)
	}
	closed(t, e)
	o.damage(2)
	if _, err := engine.Restore(t.Context(), t.TempDir(), bytes.NewReader(full)); err == nil || !strings.Contains(err.Error(), "--queue orders~2") {
		t.Errorf("restored as a whole: %v", err)
	}
	o.quarantined(2)
	for _, name := range []string{"orders~3", "orders"} {
		if _, err := (&Restore{Dir: o.dir, Queue: name, Now: time.Now}).Run(t.Context(), bytes.NewReader(full)); err == nil ||
			!strings.Contains(err.Error(), "does not have the queue") {
			t.Errorf("%s from it: %v", name, err)
		}
	}
	r := Restore{Dir: o.dir, Queue: "orders~2", Now: time.Now}
	if done, err := r.Run(t.Context(), bytes.NewReader(full), bytes.NewReader(more)); err != nil || len(done.Before) != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	e = open(t, o.dir)
	defer closed(t, e)
	var ids []queue.SubmissionID
	for _, one := range o.take(e, 2, 10) {
		ids = append(ids, one.Token.Submission)
	}
	if !slices.Equal(ids, early) {
		t.Errorf("it gives %v, want %v", ids, early)
	}
	for _, from := range [][]io.Reader{{bytes.NewReader(full)}, {bytes.NewReader(full), bytes.NewReader(more)}} {
		report, err := check.Backup(t.Context(), check.Options{Work: t.TempDir(), Now: time.Now}, from...)
		if err != nil || !report.Whole || len(report.Queues) != 1 || report.Queues[0].Name != "orders~2" {
			t.Errorf("a check of %d backups: %+v, %v", len(from), report, err)
		}
	}
}

// backupOf makes a backup of a shard, or with since an increment of it.
func (o *orders) backupOf(e *engine.Engine, name string, since []byte) []byte {
	o.Helper()
	var earlier io.Reader
	if since != nil {
		earlier = bytes.NewReader(since)
	}
	b, err := e.Storage().Backup(o.Context(), "test", name, earlier)
	if err != nil {
		o.Fatal(err)
	}
	var tar bytes.Buffer
	if err := errors.Join(b.Write(&tar), b.Close()); err != nil {
		o.Fatal(err)
	}
	return tar.Bytes()
}

// quarantined has a start find that a shard is damaged.
func (o *orders) quarantined(number int) {
	o.Helper()
	e := open(o.T, o.dir)
	if _, err := e.Queue(queue.ShardName("orders", number)); queue.CodeOf(err) != queue.CodeQuarantined {
		o.Fatalf("shard %d: %v", number, err)
	}
	closed(o.T, e)
}

// Dead letters of a restored shard reach their queue, although it knows their numbers from before the restore.
func TestRestoredShardForwards(t *testing.T) {
	t.Parallel()
	o, e := newOrders(t)
	closed(t, e)
	e, stop := o.runs()
	if _, _, err := e.PutQueue(t.Context(), "dead", queue.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	settings := queue.DefaultSettings()
	settings.Shards, settings.RestartGrace, settings.DeadLetterQueue, settings.MaxAttempts = 3, 0, "dead", 1
	if _, _, err := e.PutQueue(t.Context(), "orders", settings); err != nil {
		t.Fatal(err)
	}
	from := o.backup(e)
	die := func(n int, want uint64) {
		t.Helper()
		o.insert(e, 2, n)
		var items []queue.FailItem
		for _, r := range o.take(e, 2, n) {
			items = append(items, queue.FailItem{Token: r.Token, Error: "no"})
		}
		if _, err := o.shard(e, 2).Fail(t.Context(), items, nil); err != nil {
			t.Fatal(err)
		}
		for until := time.Now().Add(20 * time.Second); queueAt(e, "dead").Stats().Ready != want; {
			if time.Now().After(until) {
				t.Fatalf("%+v", queueAt(e, "dead").Stats())
			}
			time.Sleep(time.Millisecond)
		}
	}
	die(5, 5)
	for want := uint64(6); want <= 7; want++ { // the second restore is from the same backup
		stop()
		o.damage(2)
		if _, err := o.restoreAt(time.Now().Add(-time.Duration(want)*time.Hour), "orders", from); err != nil {
			t.Fatal(err)
		}
		e, stop = o.runs()
		die(1, want)
	}
	stop()
}

// Restores follow each other while the clock is set back and forth, and the journal is whole or lost. No epoch comes twice, so no token does.
func TestRestoresHaveEpochsOfTheirOwn(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	o, e := newOrders(t)
	o.insert(e, 2, 1)
	from := o.backup(e)
	newest, clock := uint32(0), time.Now()
	for i := range 12 {
		for range rnd.IntN(3) { // starts that give nothing out
			closed(t, e)
			e = open(t, o.dir)
		}
		epoch := o.take(e, 2, 1)[0].Token.Epoch
		if epoch <= newest {
			t.Fatalf("seed %d: life %d gives out a token of epoch %d after one of epoch %d", seed, i, epoch, newest)
		}
		newest = epoch
		closed(t, e)
		name := "journal.db"
		if rnd.IntN(2) == 0 { // an operator needs the older files no more
			name = "store.db"
			o.forget(2)
		}
		if err := os.Truncate(filepath.Join(o.folder(2), name), 5000); err != nil {
			t.Fatal(err)
		}
		closed(t, open(t, o.dir))
		clock = clock.Add(time.Duration(rnd.Int64N(int64(10*time.Second))) - 6*time.Second)
		if _, err := o.restoreAt(clock, "orders~2", from); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		e = open(t, o.dir)
	}
	closed(t, e)
}

// The audit log has what operators did to a shard before its restore and after it.
func TestRestoredShardIsAudited(t *testing.T) {
	t.Parallel()
	o, e := newOrders(t)
	from := o.backup(e)
	act := func() {
		t.Helper()
		if _, err := o.shard(e, 2).Bulks.Start(t.Context(), queue.BulkRequest{Action: queue.BulkRedrive}); err != nil {
			t.Fatal(err)
		}
	}
	closed(t, e)
	e, err := engine.Open(t.Context(), engine.Options{Dir: o.dir, Now: time.Now, Seed: rand.Uint64, BallastBytes: -1, CheckpointBytes: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	act()
	act()
	o.insert(e, 2, 300) // checkpoints give the acts to the log
	closed(t, e)
	o.damage(2)
	if _, err := o.restore("orders~2", from); err != nil {
		t.Fatal(err)
	}
	e = open(t, o.dir)
	act()
	closed(t, e)
	e = open(t, o.dir)
	defer closed(t, e)
	page, err := e.Audit(engine.AuditFilter{Queue: "orders~2", Action: "bulk.start"}, "", 100)
	if err != nil || len(page.Items) != 3 {
		t.Errorf("the log has %d acts, want 3: %+v, %v", len(page.Items), page.Items, err)
	}
}

// A restore that is refused changes nothing.
func TestRestoreOfAShardRefuses(t *testing.T) {
	t.Parallel()
	o, e := newOrders(t)
	closed(t, e)
	e, stop := o.runs()
	o.insert(e, 1, 1)
	from := o.backup(e)
	refused := func(name string, from *bytes.Reader, want string) {
		t.Helper()
		if done, err := o.restore(name, from); err == nil || !strings.Contains(err.Error(), want) || len(done.Queues) > 0 {
			t.Errorf("%s: %+v, %v, want %q", name, done, err, want)
		}
	}
	refused("orders~2", from, "is in use by")
	other, unlike := newOrders(t)
	foreign := other.backup(unlike)
	closed(t, unlike)
	if _, err := e.MoveGroup(t.Context(), "orders", o.groups[0], 3); err != nil {
		t.Fatal(err)
	}
	o.complete(e, 1, o.take(e, 1, 1)...)
	for number := 0; number != 3; time.Sleep(time.Millisecond) {
		var err error
		if number, err = e.ShardOfGroup("orders", o.groups[0], 0); err != nil || t.Context().Err() != nil {
			t.Fatal(number, err)
		}
	}
	stop()
	refused("orders~2", from, "not in quarantine")
	refused("orders~4", from, `has no queue "orders~4"`)
	o.damage(2)
	o.damage(3)
	refused("orders~2", foreign, "another data directory")
	refused("orders~3", from, "moved from shard 1 to shard 3")
	refused("orders", from, "moved from shard 1 to shard 3")
	cut := make([]byte, from.Size()-2000)
	if _, err := from.ReadAt(cut, 0); err != nil {
		t.Fatal(err)
	}
	refused("orders~2", bytes.NewReader(cut), "cut")
	if _, err := o.restore("orders~2", from); err != nil {
		t.Error(err)
	}
}

// A kill between the last two steps leaves a shard without files. A server quarantines it, and the same restore goes on.
func TestRestoreGoesOn(t *testing.T) {
	t.Parallel()
	o, e := newOrders(t)
	o.insert(e, 2, 3)
	from := o.backup(e)
	closed(t, e)
	o.damage(2)
	half := filepath.Join(o.dir, "restore.partial", "shards", "0002")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, "store.db"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(o.folder(2), o.folder(2)+".before-1"); err != nil {
		t.Fatal(err)
	}
	for served := range 2 { // the restore again at once, and after a start
		if served == 1 {
			if err := os.Rename(o.folder(2), o.folder(2)+".before-2"); err != nil {
				t.Fatal(err)
			}
			e = open(t, o.dir)
			o.insert(e, 3, 1)
			closed(t, e)
		}
		if _, err := o.restore("orders~2", from); err != nil {
			t.Fatal(err)
		}
	}
	e = open(t, o.dir)
	defer closed(t, e)
	if got := o.take(e, 2, 10); len(got) != 3 {
		t.Errorf("%d chunks are there, want 3", len(got))
	}
}

// A restore refuses a backup of a shard that was made again since, because it is another one, and a backup of a queue from before it was
// divided, because its groups may be elsewhere.
func TestRestoreOfAnotherTime(t *testing.T) {
	t.Parallel()
	now := known{rows: []store.QueueRow{{Name: "orders", Created: 1, Settings: queue.Settings{Shards: 2}}, {Name: "orders~2", Created: 3}}}
	divided := known{rows: []store.QueueRow{{Name: "orders", Created: 1, Settings: queue.Settings{Shards: 1}}}}
	again := known{rows: []store.QueueRow{now.rows[0], {Name: "orders~2", Created: 2}}}
	placed := now
	placed.groups = []store.GroupRow{{Name: "new", Shard: 2}}
	for name, c := range map[string]struct {
		row       int
		now, then *known
		want      string
	}{
		"same":                  {1, &now, &now, ""},
		"divided":               {0, &now, &divided, "had one shard when"},
		"made again":            {1, &now, &again, "was deleted after the backup"},
		"a group that is newer": {1, &placed, &now, ""},
	} {
		err := fits(&now.rows[c.row], c.now, c.then)
		if got := fmt.Sprint(err); (err == nil) != (c.want == "") || !strings.Contains(got, c.want) && err != nil {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
