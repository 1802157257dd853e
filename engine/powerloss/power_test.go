package powerloss

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/powerloss/disktest"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// fact is something that the engine acknowledged.
type fact struct {
	sub    queue.SubmissionID
	chunks [][]byte // inserted; nil: the chunk below was completed
	chunk  uint32
	output []byte
	value  queue.MetaEntry // a limit was set for it, if it has a key
	limit  uint32
}

// workload makes an engine do all kinds of work that reach the disk, and notes what it acknowledges.
type workload struct {
	e   *engine.Engine
	rnd *rand.Rand

	mu    sync.Mutex
	facts []fact
}

func (w *workload) acknowledged(f fact) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.facts = append(w.facts, f)
	disktest.Mark(len(w.facts))
}

// known is what was acknowledged up to now.
func (w *workload) known() []fact {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.facts)
}

// step makes one call. It returns the error of the engine; then nothing of the call is acknowledged.
func (w *workload) step(ctx context.Context, n int) error {
	switch n % 5 {
	case 0, 1, 2:
		return w.insert(ctx, n)
	case 3:
		return w.complete(ctx)
	}
	f := fact{value: queue.MetaEntry{Key: "n", Value: queue.IntValue(int64(n))}, limit: uint32(n)}
	_, _, err := queueAt(w.e, engine.DefaultQueue).Values.Put(ctx, f.value, queue.ValueSettings{Limit: f.limit}, nil)
	if err == nil {
		w.acknowledged(f)
	}
	return err
}

// insert inserts contents that go into the batch of their insert, and sometimes contents that are stored as blobs first.
func (w *workload) insert(ctx context.Context, n int) error {
	s := queue.NewSubmission{Meta: queue.Meta{{Key: "n", Value: queue.IntValue(int64(n % 7))}}}
	size := 1 + w.rnd.IntN(3000)
	if n%15 == 0 {
		size = 100_000
	}
	for c := range 3 {
		s.Chunks.Inline = append(s.Chunks.Inline, bytes.Repeat([]byte{byte(n), byte(c), byte(w.rnd.Uint32())}, 1+size/3))
	}
	sub, _, err := queueAt(w.e, engine.DefaultQueue).Insert(ctx, s)
	if err == nil {
		w.acknowledged(fact{sub: sub.ID, chunks: s.Chunks.Inline})
	}
	return err
}

func (w *workload) complete(ctx context.Context) error {
	plan, err := queueAt(w.e, engine.DefaultQueue).Plan([]byte(`"OldestFirst"`))
	if err != nil {
		return err
	}
	got, err := queueAt(w.e, engine.DefaultQueue).Reserve(ctx, engine.ReserveRequest{Max: 1 + w.rnd.IntN(6), Plan: plan}, nil)
	if err != nil {
		return err
	}
	var items []queue.CompleteItem
	for _, r := range got.Reservations {
		items = append(items, queue.CompleteItem{Token: r.Token, Output: bytes.Repeat([]byte{byte(w.rnd.Uint32())}, w.rnd.IntN(9000))})
	}
	results, err := queueAt(w.e, engine.DefaultQueue).Complete(ctx, items, nil)
	if err != nil {
		return err
	}
	for i, r := range results {
		if r.Outcome == queue.OutcomeOK {
			w.acknowledged(fact{sub: items[i].Token.Submission, chunk: items[i].Token.Index, output: items[i].Output})
		}
	}
	return nil
}

// holds says whether a fact is true of an engine.
func (f *fact) holds(ctx context.Context, e *engine.Engine) error {
	if f.value.Key != "" {
		v, err := queueAt(e, engine.DefaultQueue).Values.Get(ctx, f.value)
		if err == nil && (v.Limit == nil || *v.Limit != f.limit) {
			err = fmt.Errorf("the limit of %v is that of %+v, want %d", f.value, v, f.limit)
		}
		return err
	}
	sub, err := e.Submission(ctx, f.sub)
	if err != nil {
		return err
	}
	if f.chunks != nil {
		if int(sub.Chunks) != len(f.chunks) {
			return fmt.Errorf("submission %s has %d chunks, want %d", f.sub, sub.Chunks, len(f.chunks))
		}
		return nil
	}
	c, err := queueAt(e, engine.DefaultQueue).Submissions.Chunk(ctx, f.sub, f.chunk)
	if err == nil && (c.State != queue.ChunkDone || !bytes.Equal(c.Output, f.output)) {
		err = fmt.Errorf("chunk %s/%d is %s with an output of %d bytes; want it done, with %d", f.sub, f.chunk, c.State, len(c.Output), len(f.output))
	}
	return err
}

// open opens an engine that makes many checkpoints. A nil fatal panics.
func open(ctx context.Context, dir string, fatal func(error)) (*engine.Engine, error) {
	return engine.Open(ctx, engine.Options{Dir: dir, Now: time.Now, Seed: rand.Uint64, BallastBytes: -1, CheckpointBytes: 60_000,
		Fatal: fatal})
}

// scratch is a folder in memory, if there is one with room. Bytes that the trace calls durable need not be so here.
func scratch(t *testing.T) string {
	t.Helper()
	if engine.Spare("/dev/shm") < 1<<30 {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "quern-power-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// boots gives the machine a new boot after each power failure.
func boots(name string) { sqlitedb.Boot = func() string { return name } }

// number is the number in an environment variable, or else the usual one.
func number(t *testing.T, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want a number", variable, text)
	}
	return n
}

// After a power failure at any moment, whichever unsynced writes reached the disk, the server starts and has all that it acknowledged.
// QUERN_POWER_STATES is the number of states to try, QUERN_POWER_SEED selects them.
//
//quern:killing
func TestPowerLoss(t *testing.T) {
	states, seed := number(t, "QUERN_POWER_STATES", 1000), uint64(number(t, "QUERN_POWER_SEED", int(rand.Uint32()>>1)+1))
	t.Logf("QUERN_POWER_SEED=%d", seed)
	all := states
	const perTrace = 250
	for round := 0; states > 0; round++ {
		n := min(states, perTrace)
		states -= n
		powerLoss(t, n, rand.New(rand.NewPCG(seed, uint64(round))))
		if t.Failed() {
			return
		}
	}
	t.Logf("counted: %d states of the disk after a failure of power", all)
}

func powerLoss(t *testing.T, states int, rnd *rand.Rand) {
	ctx := t.Context()
	work := scratch(t)
	dir, before := filepath.Join(work, "data"), filepath.Join(work, "before")
	boots("before")
	e, err := open(ctx, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(before, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := disktest.Begin(dir + "/"); err != nil {
		t.Fatal(err)
	}
	w := &workload{rnd: rnd}
	if w.e, err = open(ctx, dir, nil); err != nil {
		t.Fatal(err)
	}
	for n := range 100 {
		if err := w.step(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.e.Close(); err != nil {
		t.Fatal(err)
	}
	trace := disktest.End()
	t.Logf("%d writes, %d syncs and %d deletions of %d files; %d facts", trace.Count(disktest.Write), trace.Count(disktest.Sync),
		trace.Count(disktest.Delete), len(trace.Names), len(w.facts))
	if len(trace.Names) != 6 || trace.Count(disktest.Write) < 100 { // three databases and their logs
		t.Fatal("the disk did not see what the engine writes")
	}
	image, err := disktest.ImageOf(before, &trace)
	if err != nil {
		t.Fatal(err)
	}
	moments := map[int]int{}
	for range states {
		moments[rnd.IntN(len(trace.Ops))]++
	}
	boots("after")
	known := 0
	for i, op := range trace.Ops {
		image.Apply(op)
		if op.Kind == disktest.Marked {
			known = int(op.At)
		}
		for range moments[i] {
			loss := disktest.Loss(rnd.IntN(int(disktest.Losses)))
			after := filepath.Join(work, "after")
			if err := os.RemoveAll(after); err != nil {
				t.Fatal(err)
			}
			if err := image.Crash(after, loss, rnd); err != nil {
				t.Fatal(err)
			}
			if err := survives(ctx, after, w.facts[:known]); err != nil {
				t.Errorf("operation %d of %d, loss %d, %d facts acknowledged: %v", i, len(trace.Ops), loss, known, err)
				return
			}
		}
	}
}

// survives says whether a server starts in a folder, and has what was acknowledged.
func survives(ctx context.Context, dir string, facts []fact) error {
	e, err := open(ctx, dir, nil)
	if err != nil {
		return err
	}
	defer e.Close()
	for i := range facts {
		if err := facts[i].holds(ctx, e); err != nil {
			return fmt.Errorf("fact %d: %w", i, err)
		}
	}
	var fault error
	_, err = e.Storage().Verify(ctx, engine.DefaultQueue, func(f engine.Fault) { fault = fmt.Errorf("%+v", f) })
	if err == nil {
		err = fault
	}
	if err == nil {
		err = contents(ctx, e, facts)
	}
	return err
}

// contents compares the contents of all chunks that are not done.
func contents(ctx context.Context, e *engine.Engine, facts []fact) error {
	want := map[queue.SubmissionID][][]byte{}
	for i := range facts {
		if facts[i].chunks != nil {
			want[facts[i].sub] = facts[i].chunks
		}
	}
	plan, err := queueAt(e, engine.DefaultQueue).Plan([]byte(`"OldestFirst"`))
	if err != nil {
		return err
	}
	got, err := queueAt(e, engine.DefaultQueue).Reserve(ctx, engine.ReserveRequest{Max: queue.MaxReserve, Plan: plan}, nil)
	if err != nil {
		return err
	}
	for _, r := range got.Reservations {
		if list := want[r.Token.Submission]; list != nil && !bytes.Equal(list[r.Token.Index], r.Content.Bytes) {
			return fmt.Errorf("chunk %s/%d has another content", r.Token.Submission, r.Token.Index)
		}
	}
	return nil
}

// queueAt is a queue that serves.
func queueAt(e *engine.Engine, name string) *engine.Queue {
	q, err := e.Queue(name)
	if err != nil {
		panic(err)
	}
	return q
}
