package simtest

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/sqlitedb"
	"github.com/quern-queue/quern/engine/store"
)

// endOp is the op in the journal for the end of a submission by its dead_deadline.
func endOp(seq uint32) []byte {
	var e journal.Encoder
	e.Reset(1, 0)
	before := len(e.Bytes())
	e.End(journal.End{Seq: seq, State: queue.Expired, Reason: "its dead_deadline passed"})
	return bytes.Clone(e.Bytes()[before:])
}

// poisonLog is a journal that refuses batches with certain ops in them, with an error of unknown outcome.
type poisonLog struct {
	journal.Journal
	with *poisons
}

type poisons struct {
	mu  sync.Mutex
	ops [][]byte
	hit int // batches refused
}

func (p *poisons) set(ops ...[]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ops = ops
}

func (p *poisons) refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hit
}

func (l *poisonLog) Append(ctx context.Context, expect journal.Position, batch []byte) (journal.Position, error) {
	plain, err := journal.Unpack(batch)
	if err != nil {
		return 0, err
	}
	l.with.mu.Lock()
	for _, op := range l.with.ops {
		if bytes.Contains(plain, op) {
			l.with.hit++
			l.with.mu.Unlock()
			return 0, fmt.Errorf("test: poisoned: %w", journal.ErrUnknown)
		}
	}
	l.with.mu.Unlock()
	return l.Journal.Append(ctx, expect, batch)
}

// dying inserts n submissions with a dead_deadline in an hour. Their seqs are 1 to n.
func dying(t *testing.T, b *box, n int) (list []queue.Submission) {
	t.Helper()
	for range n {
		s := prefixed(2)
		s.DeadDeadline = b.clock.now().Add(time.Hour)
		list = append(list, mustInsert(t, b, s))
	}
	return list
}

// passes lets the worker pass every six seconds, which is longer than any pause, until `until`; it fails the test if that takes
// more than `most` passes. Between two passes, `between` is called.
func (b *box) passes(most int, between func(), until func(w shard.Work) bool) {
	b.t.Helper()
	for range most {
		b.shard.Worker.Tick()
		if between != nil {
			between()
		}
		if until(b.shard.Work()) {
			return
		}
		b.clock.pass(6 * time.Second)
	}
	b.t.Fatalf("after %d passes: %+v", most, b.shard.Work())
}

func oneParked(w shard.Work) bool { return len(w.Parked) == 1 }

// An action that the journal refuses is found by bisecting and parked, all others are done, callers' commits are not in its
// batches once it is under suspicion, and an operator has it tried again. The refusal is SQLite's own, by a trigger on one op.
func TestPoisonousActionIsParked(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	const n, bad = 30, 20 // few enough that the trigger finds the op in a batch that is not packed
	subs := dying(t, b, n)
	b.close()
	exec(t, filepath.Join(b.dir, "journal.db"), sqlitelog.Kind, fmt.Sprintf(
		"CREATE TRIGGER poison BEFORE INSERT ON batch WHEN instr(NEW.bytes, x'%s') BEGIN SELECT RAISE(ABORT, 'poisoned'); END", hex.EncodeToString(endOp(bad+1))))
	b.open()
	b.clock.pass(time.Hour)
	worked := 0
	b.passes(60, func() {
		sub := mustInsert(t, b, prefixed(1)) // calls go on
		held := mustReserve(t, b, "NewestFirst", 1)
		if results, err := b.shard.Complete(ctx, completions(held), nil); err != nil || results[0].Outcome != queue.OutcomeOK {
			t.Fatalf("a complete beside the poisonous action: %v %v", results, err)
		}
		b.wantCounts("a caller's own work", sub.ID, queue.Submission{State: queue.Completed, Done: 1})
		worked++
	}, oneParked)
	w := b.shard.Work()
	if p := w.Parked[0]; p.Kind != machine.KindDeadDeadline.String() || p.Submission != subs[bad].ID.String() || p.Error == "" || p.Since.IsZero() {
		t.Errorf("parked: got %+v, want the end of %s with its error", p, subs[bad].ID)
	}
	b.passes(60, nil, func(shard.Work) bool { return b.shard.Stats().SubmissionsOpen == 1 })
	b.wantCounts("the poisonous one", subs[bad].ID, queue.Submission{Ready: 2})
	k := b.shard.Work().Kinds[machine.KindDeadDeadline]
	if k.Done != n-1 || k.Parked != 1 || k.Failed == 0 || k.Failures != 0 || k.LastSuccessAt == nil {
		t.Errorf("the kind: got %+v, want all but one done, 1 parked, and no failure since", k)
	}
	if err := b.shard.Health(); err != nil {
		t.Errorf("with an action parked: %v, want healthy", err)
	}
	t.Logf("found after %d passes and %d failed slices", worked, k.Failed)

	b.close() // a start tries everything again
	exec(t, filepath.Join(b.dir, "journal.db"), sqlitelog.Kind, "DROP TRIGGER poison")
	b.open()
	b.tickAfter(0)
	b.wantCounts("fixed", subs[bad].ID, queue.Submission{State: queue.Expired, Skipped: 2})
}

// exec changes a file behind the server's back. It closes the file in good order, so that the next start does not miss its log.
func exec(t *testing.T, path string, kind sqlitedb.Kind, sql string) {
	t.Helper()
	conn, err := sqlitedb.Open(path, kind, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := conn.Identity()
	if err == nil {
		_, err = conn.Own(id)
	}
	if err := errors.Join(err, conn.Exec(sql), conn.Close()); err != nil {
		t.Fatal(err)
	}
}

// A parked action is tried again when an operator says so, not before, and succeeds only once its cause is fixed.
func TestParkedIsRetriedByAnOperator(t *testing.T) {
	t.Parallel()
	p := new(poisons)
	b := newBox(t, relaxed())
	b.wrap = func(inner journal.Journal) journal.Journal { return &poisonLog{inner, p} }
	b.open()
	subs := dying(t, b, 3)
	p.set(endOp(2))
	b.clock.pass(time.Hour)
	b.passes(30, nil, oneParked)
	if got := b.sub(subs[2].ID).State; got != queue.Expired {
		b.passes(30, nil, func(shard.Work) bool { return b.sub(subs[2].ID).State == queue.Expired })
	}
	hits := p.refused()
	p.set()
	b.tickAfter(time.Minute)
	if got := b.sub(subs[1].ID).State; got != queue.Open || p.refused() != hits {
		t.Fatalf("parked, and no one said retry: the submission is %s after %d refusals; want open after %d", got, p.refused(), hits)
	}
	if n := b.shard.Worker.Retry(); n != 1 {
		t.Errorf("RetryParked() = %d, want 1", n)
	}
	b.tickAfter(0)
	if w := b.shard.Work(); b.sub(subs[1].ID).State != queue.Expired || len(w.Parked) != 0 {
		t.Errorf("retried: %s, %+v; want expired and nothing parked", b.sub(subs[1].ID).State, w.Parked)
	}
}

// 42, 98: when one kind's commits fail again and again, the shard is not ready and accepts nothing new. Held chunks can be
// finished, the other kinds go on, and it recovers by itself.
func TestDegraded(t *testing.T) {
	t.Parallel()
	p := new(poisons)
	b := newBox(t, relaxed())
	b.wrap = func(inner journal.Journal) journal.Journal { return &poisonLog{inner, p} }
	b.open()
	const n = 40
	subs := dying(t, b, n)
	later := prefixed(1)
	later.RunAt = b.clock.now().Add(time.Hour + 20*time.Second)
	runs := mustInsert(t, b, later)
	work := mustInsert(t, b, prefixed(6))
	held := mustReserve(t, b, "NewestFirst", 4)
	var all [][]byte
	for i := range n {
		all = append(all, endOp(uint32(i+1)))
	}
	p.set(all...)
	b.clock.pass(time.Hour - time.Minute)
	for i := range held {
		if _, err := b.shard.Extend(ctx, []queue.ExtendItem{{Token: held[i].Token, Timeout: queue.Time(time.Hour.Milliseconds())}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	b.clock.pass(time.Minute)
	b.passes(20, nil, func(w shard.Work) bool { return w.Degraded })
	if err := b.shard.Health(); queue.CodeOf(err) != queue.CodeUnavailable {
		t.Errorf("Health() of a degraded shard = %v, want %s", err, queue.CodeUnavailable)
	}
	one := prefixed(1)
	if _, _, err := b.shard.Insert(ctx, &one); queue.CodeOf(err) != queue.CodeUnavailable {
		t.Errorf("insert: got %v, want %s", err, queue.CodeUnavailable)
	}
	completed, err := b.shard.Complete(ctx, completions(held[:1]), nil)
	if err != nil || completed[0].Outcome != queue.OutcomeOK {
		t.Errorf("complete: got %v %v, want ok", completed, err)
	}
	failed, err := b.shard.Fail(ctx, []queue.FailItem{{Token: held[1].Token, RetryAfter: 1000, HasRetry: true}}, nil)
	if err != nil || failed[0].Outcome != queue.OutcomeOK {
		t.Errorf("fail: got %v %v, want ok", failed, err)
	}
	extended, err := b.shard.Extend(ctx, []queue.ExtendItem{{Token: held[2].Token, Timeout: 1000}}, nil)
	if err != nil || extended[0].Outcome != queue.OutcomeOK {
		t.Errorf("extend: got %v %v, want ok", extended, err)
	}
	b.clock.pass(30 * time.Second)
	b.shard.Worker.Tick() // the others' work: a retry, a run_at, a deadline
	kinds := b.shard.Work().Kinds
	if kinds[machine.KindRetry].Done == 0 || kinds[machine.KindRunAt].Done == 0 || b.sub(runs.ID).Ready != 1 {
		t.Errorf("the other kinds: got %+v; want a retry and a run_at done", kinds)
	}
	if kinds[machine.KindDeadDeadline].Failed < 3 || kinds[machine.KindDeadDeadline].Error == "" {
		t.Errorf("the failing kind: got %+v, want its failures counted and the last one told", kinds[machine.KindDeadDeadline])
	}
	p.set()
	b.passes(20, nil, func(w shard.Work) bool {
		return b.shard.Stats().SubmissionsOpen == 2+uint64(len(w.Parked)) && !w.Degraded
	})
	b.shard.Worker.Retry()
	b.tickAfter(0)
	for _, sub := range subs {
		b.wantCounts("recovered", sub.ID, queue.Submission{State: queue.Expired, Skipped: 2})
	}
	if err := b.shard.Health(); err != nil {
		t.Errorf("recovered: %v, want healthy", err)
	}
	mustInsert(t, b, prefixed(1))
	if got := b.sub(work.ID); got.Done != 1 || got.State != queue.Open {
		t.Errorf("what was worked on meanwhile: got %+v, want 1 done", got)
	}
}

// A submission that cannot be removed from the history is parked, and the others go.
func TestPoisonousRetention(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	var ended []queue.Submission
	for i := range 30 {
		spec := prefixed(1)
		if i == 9 { // its contents, of more than one chunk and so in rows of their own, cannot be removed
			spec.Chunks = queue.Chunks{Count: 2, Inline: [][]byte{[]byte("one"), []byte("two")}}
		}
		sub := mustInsert(t, b, spec)
		ended = append(ended, sub)
		if _, err := b.shard.Submissions.Cancel(ctx, sub.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.shard.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	kind := store.Kind
	bad := ended[9].ID
	exec(t, filepath.Join(b.dir, "store.db"), kind, "CREATE TRIGGER poison BEFORE DELETE ON content BEGIN SELECT RAISE(ABORT, 'poisoned'); END")
	left := func() (n int) {
		list, _, err := b.shard.Submissions.List(ctx, everything, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	for pass := 0; left() > 1; pass++ {
		b.clock.pass(6 * time.Second)
		b.shard.Worker.Tick()
		if _, err := b.shard.Retention.Retain(ctx, b.clock.now(), 200); err == nil && left() > 1 && pass > 40 {
			t.Fatalf("after %d passes %d submissions are left, parked: %+v", pass, left(), b.shard.Work().Parked)
		}
	}
	w := b.shard.Work()
	if len(w.Parked) != 1 || w.Parked[0].Kind != machine.KindRetention.String() || w.Parked[0].Submission != bad.String() || w.Degraded {
		t.Fatalf("got %+v, degraded %v; want the removal of %s parked and nothing degraded", w.Parked, w.Degraded, bad)
	}
	exec(t, filepath.Join(b.dir, "store.db"), kind, "DROP TRIGGER poison")
	b.shard.Worker.Retry()
	if _, err := b.shard.Retention.Retain(ctx, b.clock.now(), 200); err != nil || left() != 0 {
		t.Errorf("fixed and retried: %v, %d left; want none", err, left())
	}
	if k := b.shard.Work().Kinds[machine.KindRetention]; k.Done != 30 || k.Parked != 0 || k.Failed < 3 {
		t.Errorf("the kind: got %+v, want 30 done and at least 3 failures", k)
	}
}
