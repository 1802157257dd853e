package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/archive"
	"github.com/quern-queue/quern/engine/queue"
)

// ledger is an oracle outside of the engine. It has all that was sent to the engine, and all that the engine acknowledged.
type ledger struct {
	mu          sync.Mutex
	inserts     sync.RWMutex                  // held for reading by inserts under way
	names       atomic.Uint64                 // how many the load has given
	more        chan struct{}                 // gets one when a chunk is done, unless one is in it
	sent, known map[string]queue.SubmissionID // by name; of those that are not acknowledged 0
	tried, done map[queue.ChunkID][]byte      // outputs
}

func newLedger() *ledger {
	return &ledger{more: make(chan struct{}, 1), sent: map[string]queue.SubmissionID{}, known: map[string]queue.SubmissionID{},
		tried: map[queue.ChunkID][]byte{}, done: map[queue.ChunkID][]byte{}}
}

const chunksOfEach = 3

// contentOf is the content of a chunk. Every fourth submission is so large that its contents are written before their op.
func contentOf(name string, index uint32) []byte {
	text := fmt.Appendf(nil, "%s, chunk %d", name, index)
	if strings.HasSuffix(name, "3") {
		text = append(text, bytes.Repeat([]byte{'x'}, 30_000)...)
	}
	return text
}

func outputOf(content []byte) []byte {
	out := append([]byte("done: "), content...)
	if len(content)%5 == 0 {
		out = append(out, bytes.Repeat([]byte{'y'}, 70_000)...)
	}
	return out
}

func (l *ledger) insert(e *Engine, queueName, name string) error {
	l.inserts.RLock()
	defer l.inserts.RUnlock()
	l.mu.Lock()
	l.sent[name] = 0
	l.mu.Unlock()
	n := queue.NewSubmission{Attachment: []byte(name)}
	for i := range uint32(chunksOfEach) {
		n.Chunks.Inline = append(n.Chunks.Inline, contentOf(name, i))
	}
	sub, _, err := queueAt(e, queueName).Insert(context.Background(), n)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.known[name] = sub.ID
	}
	return err
}

// work completes some chunks, and holds back others; it says how many it got.
func (l *ledger) work(e *Engine, queueName string, hold bool) (int, error) {
	plan, err := queueAt(e, queueName).Plan([]byte(`"Random"`))
	if err != nil {
		return 0, err
	}
	got, err := queueAt(e, queueName).Reserve(context.Background(), ReserveRequest{Max: 4, Plan: plan, Consumer: "worker"}, nil)
	if err != nil {
		return 0, err
	}
	for i, r := range got.Reservations {
		id := queue.ChunkID{Submission: r.Token.Submission, Index: r.Token.Index}
		if want := contentOf(string(r.Attachment), id.Index); !bytes.Equal(r.Content.Bytes, want) {
			return 0, fmt.Errorf("chunk %v of %s has content %.60q (%d bytes), want %.60q (%d)", id, r.Attachment, r.Content.Bytes,
				len(r.Content.Bytes), want, len(want))
		}
		if hold && i == 3 {
			continue
		}
		out := outputOf(r.Content.Bytes)
		l.mu.Lock()
		l.tried[id] = out
		l.mu.Unlock()
		results, err := queueAt(e, queueName).Complete(context.Background(), []queue.CompleteItem{{Token: r.Token, Output: out}}, nil)
		if err != nil || results[0].Outcome != queue.OutcomeOK {
			return 0, fmt.Errorf("complete: %+v, %w", results, err)
		}
		l.mu.Lock()
		l.done[id] = out
		l.mu.Unlock()
		select {
		case l.more <- struct{}{}:
		default:
		}
	}
	return len(got.Reservations), nil
}

// settled waits for the inserts that are under way, and calls fn while nothing changes.
func (l *ledger) settled(fn func()) {
	l.inserts.Lock()
	defer l.inserts.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	fn()
}

// until is the ledger of everything that was acknowledged up to now.
func (l *ledger) until() *ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &ledger{known: maps.Clone(l.known), done: maps.Clone(l.done)}
}

// check compares an engine with what was acknowledged before its backup began, and with all that was ever sent.
func (l *ledger) check(t *testing.T, e *Engine, before *ledger, queues []string) {
	t.Helper()
	names := map[queue.SubmissionID]string{}
	for name, id := range l.known {
		names[id] = name
	}
	for name, id := range before.known {
		if _, err := e.Submission(t.Context(), id); err != nil {
			t.Errorf("%s was acknowledged before the backup: %v", name, err)
		}
	}
	for id := range before.done {
		if c, err := queueOf(e, id.Submission).Submissions.Chunk(t.Context(), id.Submission, id.Index); err != nil || c.State != queue.ChunkDone {
			t.Errorf("chunk %v was completed before the backup: %+v, %v", id, c, err)
		}
	}
	for _, name := range queues {
		for at, more := "", true; more; more = at != "" {
			page, err := queueAt(e, name).Submissions.List(t.Context(), ListRequest{Limit: queue.MaxListLimit, Cursor: at})
			if err != nil {
				t.Fatal(err)
			}
			for i := range page.Items {
				if _, was := names[page.Items[i].ID]; !was {
					t.Errorf("submission %s was never sent, or never acknowledged and not before the end", page.Items[i].ID)
				}
				l.compare(t, e, &page.Items[i])
			}
			at = page.Next
		}
	}
}

// compare compares the outputs and counts of a submission with the ones that were sent.
func (l *ledger) compare(t *testing.T, e *Engine, sub *queue.Submission) {
	t.Helper()
	seen := uint32(0)
	err := queueOf(e, sub.ID).Submissions.Outputs(t.Context(), sub.ID, func(index uint32, output []byte) error {
		seen++
		if want, sent := l.tried[queue.ChunkID{Submission: sub.ID, Index: index}]; !sent || !bytes.Equal(output, want) {
			t.Errorf("output of %s/%d is %.60q (%d bytes), want %.60q (%d)", sub.ID, index, output, len(output), want, len(want))
		}
		return nil
	})
	if err != nil || seen != sub.Done || sub.Ready+sub.Reserved+sub.Done != chunksOfEach {
		t.Errorf("submission %s has %d outputs, %v, and counts %d ready, %d reserved, %d done of %d", sub.ID, seen, err, sub.Ready,
			sub.Reserved, sub.Done, sub.Chunks)
	}
}

// settingsOf is all that operators have set, as a text.
func settingsOf(t *testing.T, e *Engine, queues []string) string {
	t.Helper()
	var out strings.Builder
	for _, name := range queues {
		info, err := e.QueueInfo(name)
		if err != nil {
			t.Fatal(err)
		}
		rules := queueAt(e, name).Rules.Held()
		strategies, err := queueAt(e, name).Strategies.List("", 100)
		if err != nil {
			t.Fatal(err)
		}
		schedules, err := queueAt(e, name).Schedules.List("", 100)
		if err != nil {
			t.Fatal(err)
		}
		values, err := queueAt(e, name).Values.List(t.Context(), "customer", "", 100)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%+v\n", info)
		for _, r := range rules {
			fmt.Fprintf(&out, "%+v\n", r.Rule)
		}
		for _, s := range strategies.Items {
			fmt.Fprintf(&out, "%s %d %v\n", s.Name, s.Version, s.CreatedAt)
		}
		for _, s := range schedules.Items {
			fmt.Fprintf(&out, "%s %+v\n", s.Name, s.Schedule)
		}
		versions, err := e.PluginStore().PluginVersions()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range versions {
			module, found, err := e.PluginStore().PluginModule(v.SHA256)
			fmt.Fprintf(&out, "%+v %x %t %v\n", v, module, found, err)
		}
		for _, v := range values {
			fmt.Fprintf(&out, "%s %v\n", v.ETag, v.ChangedAt)
		}
	}
	return out.String()
}

// loaded opens an engine with small checkpoints and puts something of every kind into it.
func loaded(t *testing.T) (e *Engine, token string) {
	t.Helper()
	e, err := Open(context.Background(), Options{Dir: filepath.Join(t.TempDir(), "data"), Now: time.Now, Seed: rand.Uint64, BallastBytes: -1,
		CheckpointBytes: 128 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e, fillSettings(t, e)
}

// fillSettings makes a second queue, and sets something of every kind. It returns the text of an access token.
func fillSettings(t *testing.T, e *Engine) (token string) {
	t.Helper()
	if _, _, err := e.PutQueue(t.Context(), "other", queue.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	put(t, e, "default", "nightly", `"NewestFirst"`)
	entry := queue.MetaEntry{Key: "customer", Value: queue.IntValue(7)}
	if _, _, err := queueAt(e, "default").Values.Put(t.Context(), entry, queue.ValueSettings{Limit: 5}, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := queueAt(e, "other").Rules.Set(t.Context(), queue.Rule{Action: queue.Pause, Match: queue.RuleMatch{Entry: entry}}, nil); err != nil {
		t.Fatal(err)
	}
	yearly := queue.DefaultSchedule()
	yearly.Spec, yearly.Template.Chunks = "0 0 1 1 *", queue.Chunks{Count: 3, Prefix: "a"}
	if _, _, err := queueAt(e, "other").Schedules.Put(t.Context(), "yearly", yearly, nil); err != nil {
		t.Fatal(err)
	}
	module := []byte("a module of a plugin")
	version := queue.PluginVersion{SHA256: sha256.Sum256(module), Name: "order", Version: "1.0.0", State: "ready", Size: int64(len(module)),
		Manifest: []byte("{}"), Report: []byte("{}")}
	if err := e.PluginStore().PutPluginVersion(version, module); err != nil {
		t.Fatal(err)
	}
	_, token, err := e.Tokens().New(t.Context(), TokenRequest{Name: "root", Scopes: access.Admin})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func backedUp(t *testing.T, e *Engine) []byte {
	t.Helper()
	return continued(t, e, nil)
}

// continued is an increment of the backup in before; nil: a full backup.
func continued(t *testing.T, e *Engine, before []byte) []byte {
	t.Helper()
	var since io.Reader
	if before != nil {
		since = bytes.NewReader(before)
	}
	b, err := e.Storage().Backup(t.Context(), "test", "", since)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := b.Write(&out); err != nil {
		t.Fatal(err)
	}
	if int64(out.Len()) != b.Size {
		t.Errorf("the backup has %d bytes, and was announced with %d", out.Len(), b.Size)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The restored server refuses a token of a reservation of the old one, and neither server takes files of the other.
func TestRestoredIsAnother(t *testing.T) {
	t.Parallel()
	e, _ := loaded(t)
	l := newLedger()
	if err := l.insert(e, "default", "one"); err != nil {
		t.Fatal(err)
	}
	held := reserveNewest(t, e, "default", 1)
	tar := backedUp(t, e)
	dir := filepath.Join(t.TempDir(), "restored")
	if _, err := Restore(t.Context(), dir, bytes.NewReader(tar)); err != nil {
		t.Fatal(err)
	}
	restored := openAt(t, dir)
	results, err := queueAt(restored, "default").Complete(t.Context(), []queue.CompleteItem{{Token: held[0].Token}}, nil)
	if err != nil || results[0].Outcome == queue.OutcomeOK || results[0].Outcome == queue.OutcomeAlready {
		t.Errorf("a token of the old server, at the restored one: %+v, %v", results, err)
	}
	results, err = queueAt(e, "default").Complete(t.Context(), []queue.CompleteItem{{Token: held[0].Token}}, nil)
	if err != nil || results[0].Outcome != queue.OutcomeOK {
		t.Errorf("the token at the old server: %+v, %v", results, err)
	}
	closed(t, restored)
	closed(t, e)
	for _, name := range []string{storeFile, journalFile} {
		mixed := snapshot(t, dir)
		foreign, err := os.ReadFile(filepath.Join(e.shardDir(0), name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(mixed, "shards", "0000", name), foreign, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := refusal(t, mixed); err == nil || !strings.Contains(err.Error(), "belongs to another data directory") {
			t.Errorf("a restored directory with %s of the old one: %v", name, err)
		}
	}
}

// failing ends with an error behind so many bytes.
type failing struct {
	r    io.Reader
	left int
}

func (f *failing) Read(b []byte) (int, error) {
	if f.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := f.r.Read(b[:min(len(b), f.left)])
	f.left -= n
	return n, err
}

// A restore that is cut off anywhere is refused at a start, and goes on with the same backup, and only with that.
//
//quern:sequential
func TestRestoreCutOff(t *testing.T) {
	t.Parallel()
	e, _ := loaded(t)
	l := newLedger()
	for _, name := range []string{"1", "2", "3"} {
		if err := l.insert(e, "default", name); err != nil {
			t.Fatal(err)
		}
	}
	tar, before := backedUp(t, e), l.until()
	another := backedUp(t, e)
	for _, at := range []int{0, 100, 3000, len(tar) / 3, len(tar) / 2, len(tar) - 1025, len(tar) - 1024, len(tar) - 1} {
		dir := filepath.Join(t.TempDir(), "restored")
		if _, err := Restore(t.Context(), dir, &failing{bytes.NewReader(tar), at}); err == nil {
			t.Fatalf("a backup that is cut at byte %d of %d was restored", at, len(tar))
		}
		if _, err := os.Stat(filepath.Join(dir, restoringFile)); err == nil {
			if _, err := openIn(t, dir); err == nil || !strings.Contains(err.Error(), "quern restore") {
				t.Errorf("cut at %d: a start says %v; want it refused with what to do", at, err)
			}
			if _, err := Restore(t.Context(), dir, bytes.NewReader(another)); err == nil || !strings.Contains(err.Error(), "another backup") {
				t.Errorf("cut at %d: another backup: %v; want it refused", at, err)
			}
		}
		if _, err := Restore(t.Context(), dir, bytes.NewReader(tar)); err != nil {
			t.Fatalf("cut at %d, and then to the end: %v", at, err)
		}
		restored := openAt(t, dir)
		l.check(t, restored, before, []string{"default", "other"})
		closed(t, restored)
		if _, err := Restore(t.Context(), dir, bytes.NewReader(tar)); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("into a directory with data: %v; want it refused", err)
		}
	}
}

// A backup with any one byte changed is refused, and no server starts on a restore of it.
func TestDamagedBackup(t *testing.T) {
	t.Parallel()
	e, _ := loaded(t)
	tar := backedUp(t, e)
	for at := 0; at < len(tar); at += 1 + len(tar)/150 {
		bad := bytes.Clone(tar)
		bad[at] ^= 0x10
		m, err := archive.Read(bytes.NewReader(bad))
		if err != nil {
			continue
		}
		if same, err := archive.Read(bytes.NewReader(tar)); err != nil || fmt.Sprint(same) != fmt.Sprint(m) {
			t.Errorf("byte %d of %d is another one, and nothing was said", at, len(tar))
		}
	}
}

// handOver passes written bytes on to a function, with their total so far.
type handOver struct {
	n  int64
	at func(n int64)
}

func (h *handOver) Write(b []byte) (int, error) {
	h.n += int64(len(b))
	h.at(h.n)
	return len(b), nil
}

// The reader of a backup can begin the next one, full or an increment, as soon as it has the last byte. Earlier reads do not prevent it.
func TestBackupsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	fatal(t, newLedger().insert(e, DefaultQueue, "one"))
	b, err := e.Storage().Backup(t.Context(), "test", "", nil)
	fatal(t, err)
	for n := range 4 {
		var next *Backup
		tar := new(bytes.Buffer)
		fatal(t, b.Write(io.MultiWriter(tar, &handOver{at: func(n int64) {
			if n < b.Size || next != nil {
				return
			}
			if next, err = e.Storage().Backup(t.Context(), "test", "", bytes.NewReader(tar.Bytes())); err != nil {
				t.Fatalf("the next backup at the last byte of %d: %v", n, err)
			}
		}})))
		if next == nil || int64(tar.Len()) != b.Size {
			t.Fatalf("backup %d has %d bytes, want %d", n, tar.Len(), b.Size)
		}
		fatal(t, b.Close())
		b = next
	}
	fatal(t, b.Close())
}

// A backup for which there is no room says how much it needs and how much there is.
func TestBackupWithoutRoom(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	e := openAt(t, dir)
	defer closed(t, e)
	log := filepath.Join(dir, "shards", "0000", storeFile+"-wal")
	whole, err := os.Stat(log)
	fatal(t, err)
	fatal(t, os.Truncate(log, 1<<42)) // a hole: it takes no room, and SQLite does not read behind the frames
	_, err = e.Storage().Backup(t.Context(), "test", "", nil)
	if queue.CodeOf(err) != queue.CodeDiskFull || !regexp.MustCompile(`made: \d{7,} MiB, and \d+ MiB are free`).MatchString(err.Error()) {
		t.Errorf("got %v, want a full disk with both numbers", err)
	}
	fatal(t, os.Truncate(log, whole.Size()))
}
