package simtest

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// restarted closes the shard in order and opens it again after a while.
func (b *box) restarted(down time.Duration) {
	b.t.Helper()
	b.close()
	b.clock.pass(down)
	b.open()
}

// A planned restart takes nothing from anyone: a held chunk stays held, with its token, consumer, age and the time that was left, and a
// limit counts it at once, without a grace. A second restart, with no calls before it, keeps it too.
func TestPlannedRestartKeepsWhatIsHeld(t *testing.T) {
	t.Parallel()
	settings := relaxed()
	settings.RestartGrace = 30 * time.Second
	b := openBox(t, settings)
	mustInsert(t, b, prefixed(5, number("company", 1)))
	limited := `MaxSimultaneous("company", 2, OldestFirst)`
	held := mustReserve(t, b, limited, 5)
	if len(held) != 2 {
		t.Fatalf("got %d chunks, want 2", len(held))
	}
	began := b.clock.now()
	b.clock.pass(4 * time.Minute)
	for _, down := range []time.Duration{time.Hour, 0} {
		b.restarted(down)
		if got := mustReserve(t, b, limited, 5); len(got) != 0 {
			t.Fatalf("after a restart %d chunks are handed out over the limit", len(got))
		}
		if until := b.shard.Work().Grace; until != 0 {
			t.Errorf("a grace until %d, although all that is held is known", until)
		}
		c, err := b.shard.Submissions.Chunk(ctx, held[0].Token.Submission, held[0].Token.Index)
		if want := b.clock.now().Add(56 * time.Minute); err != nil || c.State != queue.ChunkReserved || c.Deadline != want {
			t.Errorf("the chunk is %s until %d (%v), want it reserved with 56 minutes left, until %d", c.State, c.Deadline, err, want)
		}
	}
	list, _, err := b.shard.Consumers.List(ctx, "", 10)
	if err != nil || len(list) != 1 || list[0].Reserved != 2 || list[0].Oldest != began {
		t.Errorf("consumers: got %+v %v, want one that holds 2 chunks since %d", list, err, began)
	}
	results, err := b.shard.Complete(ctx, completions(held[:1]), nil)
	if err != nil || results[0].Outcome != queue.OutcomeOK {
		t.Fatalf("complete with a token of two lives before: got %+v %v, want ok", results, err)
	}
	if got := mustReserve(t, b, limited, 5); len(got) != 1 {
		t.Errorf("when one is done %d are handed out, want 1", len(got))
	}
	b.tickAfter(56*time.Minute + time.Second)
	c, err := b.shard.Submissions.Chunk(ctx, held[1].Token.Submission, held[1].Token.Index)
	if err != nil || c.State == queue.ChunkReserved || c.Attempts != 1 {
		t.Errorf("when the time that was left is over the chunk is %s after %d tries (%v), want its deadline passed", c.State, c.Attempts, err)
	}
}

// Reservations that a planned restart kept do not survive a later kill: then the server knows no more than after any kill.
func TestKillAfterAPlannedRestart(t *testing.T) {
	t.Parallel()
	settings := relaxed()
	settings.RestartGrace = 30 * time.Second
	b := openBox(t, settings)
	mustInsert(t, b, prefixed(3, number("company", 1)))
	mustReserve(t, b, "Random", 2)
	b.restarted(0)
	b.crashed(0)
	if b.shard.Work().Grace == 0 {
		t.Error("there is no grace after a kill, want one: what was held may have changed")
	}
	if got := mustReserve(t, b, "Random", 5); len(got) != 3 {
		t.Errorf("after a kill %d chunks are ready, want all 3", len(got))
	}
}

// A consumer that was attached when the server stopped is missed from the start on: its chunks go to others after the grace, unless it
// comes back. One that never was keeps its chunks until their deadline.
func TestPlannedRestartMissesWhoWasAttached(t *testing.T) {
	t.Parallel()
	settings := relaxed()
	settings.ConsumerGrace, settings.ReservationTimeout = 30*time.Second, time.Hour
	b := openBox(t, settings)
	mustInsert(t, b, prefixed(4))
	for _, name := range []string{"stays away", "comes back", "stopped by the server"} {
		a := b.attach(t, name)
		b.heldAs(t, name, 1)
		if name == "stopped by the server" {
			a.Close(false)
		}
	}
	b.heldAs(t, "never attached", 1)
	b.restarted(time.Hour)
	defer b.attach(t, "comes back").Close(false)
	b.tickAfter(29 * time.Second)
	if got := mustReserve(t, b, "Random", 5); len(got) != 0 {
		t.Fatalf("within the grace %d chunks go to others, want none", len(got))
	}
	b.tickAfter(2 * time.Second)
	list, _, err := b.shard.Consumers.List(ctx, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range list {
		if c.Reserved == 1 {
			names = append(names, c.Name)
		}
	}
	if got, want := strings.Join(names, ", "), "comes back, never attached"; got != want {
		t.Errorf("chunks are still held by %s, want %s", got, want)
	}
}

// Many reservations of one consumer come back in their order, however many ops they take.
func TestPlannedRestartOfManyReservations(t *testing.T) {
	t.Parallel()
	const n = 3*journal.MaxHeld + 1
	b := openBox(t, relaxed())
	mustInsert(t, b, prefixed(n))
	held := b.heldAs(t, "it", n)
	b.restarted(0)
	_, got, _, more, err := b.shard.Consumers.Get("it", reserver.Place{}, n)
	if err != nil || more || len(got) != n {
		t.Fatalf("got %d chunks, more=%v, %v; want %d", len(got), more, err, n)
	}
	for i := range got {
		if want := (queue.ChunkID{Submission: held[i].Token.Submission, Index: held[i].Token.Index}); got[i].Chunk != want {
			t.Fatalf("reservation %d is of %v, want %v", i, got[i].Chunk, want)
		}
	}
}

// When the reservations cannot be written, the shard closes all the same, and the next start knows as much as after a kill.
func TestPlannedRestartOnAFullDisk(t *testing.T) {
	t.Parallel()
	settings := relaxed()
	settings.RestartGrace = 30 * time.Second
	b := newBox(t, settings)
	full := false
	b.wrap = func(inner journal.Journal) journal.Journal { return fullLog{inner, &full} }
	b.open()
	mustInsert(t, b, prefixed(2))
	mustReserve(t, b, "Random", 2)
	full = true
	b.close()
	full = false
	b.open()
	if b.shard.Work().Grace == 0 {
		t.Error("there is no grace, want one: what was held is not known")
	}
	if got := mustReserve(t, b, "Random", 5); len(got) != 2 {
		t.Errorf("%d chunks are ready, want both", len(got))
	}
}

// A stop that wrote only some of the reservations does not count: restoring a part of them would let limits be exceeded.
func TestUnfinishedStopCountsForNothing(t *testing.T) {
	t.Parallel()
	settings := relaxed()
	settings.RestartGrace = 30 * time.Second
	b := openBox(t, settings)
	mustInsert(t, b, prefixed(2))
	b.close()
	log, err := sqlitelog.Open(ctx, filepath.Join(b.dir, "journal.db"), sqlitelog.Options{Durability: settings.Durability})
	if err != nil {
		t.Fatal(err)
	}
	tail, err := log.Tail(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var enc journal.Encoder
	enc.Reset(2, b.clock.now())
	enc.Epoch(2)
	enc.Held(&journal.Held{Consumer: "it", Chunks: []journal.HeldChunk{{Seq: 1, Index: 0, Epoch: 2, Sequence: 1, Deadline: b.clock.now().Add(time.Hour)}}})
	if _, err := log.Append(ctx, tail, enc.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	b.open()
	if b.shard.Work().Grace == 0 {
		t.Error("there is no grace, want one: not all that was held is known")
	}
	if got := mustReserve(t, b, "Random", 5); len(got) != 2 {
		t.Errorf("%d chunks are ready, want both", len(got))
	}
}

// fullLog is a journal on a disk that is full at times.
type fullLog struct {
	journal.Journal
	full *bool
}

func (l fullLog) Append(ctx context.Context, expect journal.Position, batch []byte) (journal.Position, error) {
	if *l.full {
		return 0, journal.ErrFull
	}
	return l.Journal.Append(ctx, expect, batch)
}
