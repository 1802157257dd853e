package simtest

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/shard/inserts"
	"github.com/quern-queue/quern/engine/shard/views"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/engine/strategy"
)

const queueName = "default"

// oneSeed plays a single seed of the simulation again.
var oneSeed = flag.Uint64("seed", 0, "play only this seed of the simulation")

// clock is the time as the test sets it.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() queue.Time      { return queue.Time(c.ms.Load()) }
func (c *clock) std() time.Time       { return c.now().Std() }
func (c *clock) pass(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// start is some moment: Tuesday, 14 November 2023.
const start = 1_700_000_000_000

// box is a shard on real files, with its time and its chance in the test's hands.
type box struct {
	t        testing.TB
	dir      string
	clock    clock
	now      func() time.Time // the shard's time; nil: clock
	seeds    atomic.Uint64
	settings queue.Settings
	store    *store.Store
	shard    *shard.Shard
	wrap     func(journal.Journal) journal.Journal // puts something between the shard and its journal
	opening  func()                                // called before a journal is opened
	fatal    func(error)
	ballast  func() bool
	reported func(list []journal.Set, all bool) // gets the settings of operators
	scorers  strategy.Scorers
	live     *inserts.LiveLimit // nil: any number may be open
	views    *views.Memory      // nil: as much as is usual
	opBytes  int                // Options.OpBytes
	copies   string             // the folder of its snapshots; "": none are kept
	mostKeys int                // store.Options.Keys
	slotKeys int                // store.Options.SlotKeys
	born     queue.Time         // of the shard: with its number it identifies its outbox
}

func newBox(t testing.TB, settings queue.Settings) *box {
	b := &box{t: t, dir: t.TempDir(), settings: settings}
	b.clock.ms.Store(start)
	t.Cleanup(func() {
		if b.shard != nil {
			b.close()
		}
	})
	return b
}

// openBox is a box with its shard running.
func openBox(t testing.TB, settings queue.Settings) *box {
	b := newBox(t, settings)
	b.open()
	return b
}

// relaxed are the settings of most tests here. They wait neither for the disk (the file system keeps what a process wrote) nor
// for a back-off, and one exhausted chunk fails its submission: a test sees the effect of a failure in the same step.
func relaxed() queue.Settings {
	s := queue.DefaultSettings()
	s.Durability, s.RetryBackoff, s.OnExhausted = queue.Relaxed, queue.Backoff{}, queue.FailSubmission
	return s
}

func (b *box) open() {
	b.t.Helper()
	ctx := context.Background()
	b.remake()
	var err error
	if b.store, err = store.Open(ctx, filepath.Join(b.dir, "store.db"), store.Options{Durability: b.settings.Durability, Keys: b.mostKeys, SlotKeys: b.slotKeys}); err != nil {
		b.t.Fatal(err)
	}
	if b.shard, err = shard.Open(ctx, b.options()); err != nil {
		b.store.Close()
		b.t.Fatal(err)
	}
}

func (b *box) options() shard.Options {
	o := shard.Options{
		ID: 7, Queue: queueName, Settings: b.settings, Key: reserver.Key{K0: 1, K1: 2}, Store: b.store,
		Journal:   b.journalOf(b.settings.Durability),
		Now:       b.clock.std,
		Seed:      func() uint64 { return b.seeds.Add(1) * 0x9E3779B97F4A7C15 },
		Logger:    slog.New(slog.NewTextHandler(io.Discard, nil)),
		Committed: func(time.Duration, int, int) {},
		Fatal: func(err error) {
			if b.fatal == nil {
				b.t.Errorf("Fatal is called: %v", err)
				return
			}
			b.fatal(err)
		},
		FreeBallast:     func() bool { return b.ballast != nil && b.ballast() },
		Set:             b.reported,
		Scorers:         b.scorers,
		ViewMemory:      b.views,
		Live:            b.live,
		Born:            b.born,
		OpBytes:         b.opBytes,
		CheckpointItems: 6, // so that rows are taken in slices
		Copies:          shard.Copies{SnapshotBytes: -1},
	}
	if b.now != nil {
		o.Now = b.now
	}
	if b.copies != "" {
		o.Copies.Snapshots = b.snapshots()
		var err error
		if o.Copies.Blobs, err = b.snapshots().Blobs(); err != nil {
			b.t.Fatal(err)
		}
	}
	return o
}

// journalOf opens the journal, also in a goroutine of the shard, while a test may change the settings.
func (b *box) journalOf(durability queue.Durability) func(context.Context) (journal.Journal, error) {
	return func(ctx context.Context) (journal.Journal, error) {
		if b.opening != nil {
			b.opening()
		}
		log, err := sqlitelog.Open(ctx, filepath.Join(b.dir, "journal.db"), sqlitelog.Options{Durability: durability})
		if err != nil || b.wrap == nil {
			return log, err
		}
		return b.wrap(log), nil
	}
}

func (b *box) close() {
	b.t.Helper()
	if err := b.shard.Close(); err != nil {
		b.t.Errorf("close the shard: %v", err)
	}
	if err := b.store.Close(); err != nil {
		b.t.Errorf("close the store: %v", err)
	}
	b.shard, b.store = nil, nil
}

// copyFiles copies one of the two databases as it is on the disk now, as after a kill.
func (b *box) copyFiles(database, to string) {
	b.t.Helper()
	for _, name := range []string{database + "-shm", database, database + "-wal", database + "-journal"} {
		content, err := os.ReadFile(filepath.Join(b.dir, name))
		if os.IsNotExist(err) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), content, 0o600)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// settle waits for the writes on their way to the disk, on which a completion under an invalid token rests.
func (b *box) settle() error {
	_, err := b.shard.Complete(context.Background(), []queue.CompleteItem{{}}, nil)
	return err
}

func plan(t testing.TB, text string) *strategy.Plan {
	t.Helper()
	s, err := strategy.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s.Plan()
}

func newRand(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// failure is a failed comparison of a simulation: it unwinds to the test, which prints the seed and the last steps.
type failure struct{ text string }

// history keeps the last steps for the failure message.
type history struct{ lines []string }

func (h *history) add(format string, args ...any) {
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
}

func (h *history) String() string {
	return strings.Join(h.lines[max(0, len(h.lines)-25):], "\n  ")
}
