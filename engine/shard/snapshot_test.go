package shard

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/machine"
	"pgregory.net/rapid"
)

var updateGolden = flag.Bool("update", false, "write the golden files again")

// life is one submission in a machine whose ops are applied without a journal.
type life struct {
	m     *machine.Machine
	parts parts
	r     *machine.Record
}

const lifeStart = queue.Time(1_760_000_000_000)

func pureMachine(now queue.Time) *machine.Machine {
	settings := queue.DefaultSettings()
	settings.SuspectShare = 1 // expired chunks come back by themselves
	m := machine.New(0, reserver.Key{K0: 1, K1: 2}, settings, now)
	m.Now, m.Epoch = now, 3
	return m
}

func newLife(t rapid.TB, s *journal.Insert) *life {
	m := pureMachine(lifeStart)
	parts := join(m)
	m.AppliedAt = 1
	if err := m.ApplyInsert(s); err != nil {
		t.Fatal(err)
	}
	return &life{m: m, parts: parts, r: m.Live(s.ID)}
}

// hold reserves a chunk; false when it is not available.
func (l *life) hold(index uint32, state reserver.State) bool {
	if !l.m.Backlog.TakeChunk(l.r.Sub, index) {
		return false
	}
	l.m.Ready(l.r, -1)
	l.m.Holds.Add(&l.r.Holds, reserver.Hold{
		Sequence: l.m.Holds.NextSequence(), Epoch: l.m.Epoch, Seq: l.r.Seq, Index: index, State: state, Counted: true, Reserved: l.m.Now, Deadline: l.m.Now + 1000,
	}, "c")
	return true
}

func (l *life) complete(t rapid.TB, index uint32) {
	l.m.AppliedAt++
	output := index > 0
	if output {
		if err := l.m.ApplyPart(&journal.Output{Seq: l.r.Seq, Index: index}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.m.ApplyComplete(journal.Completed{Seq: l.r.Seq, Index: index, Epoch: 3, Sequence: uint64(l.m.AppliedAt), Output: output}); err != nil {
		t.Fatal(err)
	}
}

func (l *life) putBack(t rapid.TB, index uint32, reason journal.ReturnReason, notBefore queue.Time, text string) {
	l.m.AppliedAt++
	op := l.m.Tries.Count(l.r, index, reason, l.m.Now)
	op.Epoch, op.Sequence, op.NotBefore, op.Error = 3, uint64(l.m.AppliedAt), notBefore, text
	if err := l.m.ApplyReturn(op); err != nil {
		t.Fatal(err)
	}
}

// passes offers the chunks that waited until then.
func (l *life) passes(until queue.Time) {
	l.m.Now = until
	for l.m.Step(machine.KindRetry, until, machine.TickMost, nil, nil) == machine.TickMost {
	}
}

// restarted loads the row into a new machine.
func (l *life) restarted(t rapid.TB, state []byte) (*machine.Machine, *machine.Record) {
	m := pureMachine(l.m.Now)
	m.Replay = true
	if err := m.Recovery.Load(l.r.Spec(l.r.Sub.Meta()), state); err != nil {
		t.Fatalf("load of %x: %v", state, err)
	}
	return m, m.Live(l.r.ID)
}

func (l *life) step(t *rapid.T) {
	index := rapid.Uint32Max(l.r.Chunks-1).Draw(t, "index")
	switch rapid.IntRange(0, 8).Draw(t, "step") {
	case 0, 1:
		l.hold(index, reserver.State(rapid.IntRange(0, 1).Draw(t, "state")))
	case 2, 3: // held, late, or twice
		l.complete(t, index)
	case 4:
		if l.hold(index, reserver.Expiring) {
			l.putBack(t, index, journal.Expired, l.m.Now+queue.Time(rapid.Int64Range(-5, 50).Draw(t, "delay")), "the deadline passed")
		}
	case 5:
		if l.hold(index, reserver.Finishing) {
			l.putBack(t, index, journal.Failed, queue.Time(rapid.Int64Range(0, 1).Draw(t, "delayed"))*(l.m.Now+20), "failed")
		}
	case 6:
		if l.hold(index, reserver.Finishing) {
			l.putBack(t, index, rapid.SampledFrom([]journal.ReturnReason{journal.Dead, journal.Skipped}).Draw(t, "end"), 0, "given up")
		}
	case 8: // nothing happens unless it is dead
		l.m.AppliedAt++
		if err := l.m.ApplyPart(journal.Redrive{Seq: l.r.Seq, Indexes: []uint32{index}}); err != nil {
			t.Fatal(err)
		}
	case 7:
		l.passes(l.m.Now + queue.Time(rapid.Int64Range(0, 40).Draw(t, "passed")))
	}
}

// want is the state of a chunk after a restart: reservations are forgotten, and a chunk whose wait is longer than the
// restart goes on waiting.
func (l *life) want(index uint32) queue.Chunk {
	c := l.m.Chunk(l.r, index)
	if c.State == queue.ChunkReserved || c.State == queue.ChunkWaiting && c.NotBefore <= l.m.Now {
		c = queue.Chunk{Index: index, State: queue.ChunkReady, Attempts: c.Attempts, Error: c.Error}
	}
	return c
}

// A submission comes back from its row as it was, without its reservations; every chunk is available, done or dead in
// the row; and the restored submission has the same row.
func TestSnapshotRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint32Range(1, 40).Draw(t, "chunks")
		key := backlog.OrderKey(n, rapid.Uint64().Draw(t, "seed"))
		l := newLife(t, &journal.Insert{Seq: 7, ID: queue.MakeSubmissionID(lifeStart, 0, 0), Chunks: n, Key: key, Prefix: "p/"})
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if l.step(t); l.r.Sub == nil {
				checkEnded(t, l)
				return
			}
		}
		state := l.m.Snapshot(nil, l.r)
		m, r := l.restarted(t, state)
		if again := m.Snapshot(nil, r); !bytes.Equal(again, state) {
			t.Fatalf("the row of the restored submission is %x; want %x", again, state)
		}
		if got := uint64(r.Sub.Available()) + uint64(r.Done) + uint64(r.Dead) + uint64(r.Skips); got != uint64(n) {
			t.Fatalf("%d chunks are available, done or dead; want all %d", got, n)
		}
		m.Recovery.Replayed(l.m.Now)
		if r.Done != l.r.Done || r.Dead != l.r.Dead || r.Skips != l.r.Skips || r.AppliedAt != l.r.AppliedAt || r.Outputs != l.r.Outputs {
			t.Fatalf("restored: done %d, dead %d, applied %d, outputs %+v; want %d, %d, %d, %+v", r.Done, r.Dead, r.AppliedAt, r.Outputs, l.r.Done, l.r.Dead, l.r.AppliedAt, l.r.Outputs)
		}
		waiting := uint32(0)
		for index := range n {
			got, want := m.Chunk(r, index), l.want(index)
			if got.State == queue.ChunkWaiting {
				waiting++
			}
			if got.State != want.State || got.Attempts != want.Attempts || got.Error != want.Error || got.NotBefore != want.NotBefore {
				t.Fatalf("chunk %d is restored as %+v; want %+v (row %x)", index, got, want, state)
			}
		}
		if r.Waiting != waiting {
			t.Fatalf("%d chunks are counted as waiting; %d wait", r.Waiting, waiting)
		}
	})
}

// checkEnded checks that the history row has the state of every chunk of an ended submission.
func checkEnded(t *rapid.T, l *life) {
	r, sub, err := machine.EndedRecord(new(l.r.EndedRow()))
	if err != nil {
		t.Fatal(err)
	}
	want := l.r.Info("q", l.r.Ended.Meta, 0)
	got := r.Info("q", r.Ended.Meta, 0)
	if got.State != want.State || got.Done != want.Done || got.Dead != want.Dead || got.Finished != want.Finished || got.Skipped != want.Skipped {
		t.Fatalf("the history tells %+v; want %+v", got, want)
	}
	for index := range r.Chunks {
		if sub.IsAvailable(index) {
			t.Fatalf("the history tells that chunk %d was never done, of a submission that ran to its end", index)
		}
	}
}

// A row is refused wherever it is cut off, and for every impossible number.
func TestSnapshotDamage(t *testing.T) {
	t.Parallel()
	l := goldenLife(t)
	state := l.m.Snapshot(nil, l.r)
	for cut := range state {
		if err := pureMachine(lifeStart).Recovery.Load(l.r.Spec(l.r.Sub.Meta()), state[:cut]); err == nil {
			t.Errorf("%d of %d bytes load without an error: %x", cut, len(state), state[:cut])
		}
	}
	for name, damaged := range map[string][]byte{
		"a byte too many":          append(slices.Clone(state), 0),
		"version 0":                append([]byte{0}, state[1:]...),
		"a newer version":          append([]byte{machine.SnapshotVersion + 1}, state[1:]...),
		"more done than chunks":    {1, 0, 1, 11, 0, 0, 1, 0, 0, 0, 0, 0},
		"more ended than chunks":   {1, 0, 1, 6, 5, 0, 1, 0, 0, 0, 0, 0},
		"done but nothing taken":   {1, 0, 1, 2, 0, 0, 1, 0, 0, 0, 0, 0},
		"taken but nothing done":   {1, 0, 1, 0, 0, 0, 1, 3, 0, 0, 0, 0},
		"dead without a try":       {1, 0, 1, 0, 1, 0, 1, 1, 0, 0, 0, 0},
		"dead and available":       {1, 0, 1, 0, 1, 1, 5, 3, 1, 0, 0, 3, 1, 0, 1, 1, 0, 0, 0, 0},
		"done and failed":          {1, 0, 1, 1, 0, 1, 1, 0, 1, 0, 0, 3, 1, 0, 1, 1, 0, 0, 0, 0},
		"a try of chunk 10 of 10":  {1, 0, 1, 0, 0, 1, 10, 0, 1, 0, 0, 3, 1, 0, 1, 0, 0, 0, 0, 0},
		"reason 4":                 {1, 0, 1, 0, 0, 1, 0, 4, 1, 0, 0, 3, 1, 0, 1, 0, 0, 0, 0, 0},
		"attempts beyond 16 bits":  {1, 0, 1, 0, 0, 1, 0, 0, 0x80, 0x80, 4, 0, 0, 3, 1, 0, 1, 0, 0, 0, 0, 0},
		"an error without its end": {1, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 3, 1, 99, 'a'},
	} {
		if err := pureMachine(lifeStart).Recovery.Load(l.r.Spec(l.r.Sub.Meta()), damaged); err == nil {
			t.Errorf("%s: %x loads without an error", name, damaged)
		}
	}
}

// goldenLife is ten chunks: 0 and 4 done, 5 waiting after a failure, 6 dead, 7 reserved, 8 failed once and ready again.
func goldenLife(t rapid.TB) *life {
	l := newLife(t, &journal.Insert{Seq: 300, ID: queue.MakeSubmissionID(lifeStart, 0, 0), Chunks: 10, Key: 0x8529630741, Prefix: "in/"})
	for _, index := range []uint32{0, 4, 5, 6, 7, 8} {
		if !l.hold(index, reserver.Finishing) {
			t.Fatalf("chunk %d is not available", index)
		}
	}
	l.complete(t, 0)
	l.complete(t, 4)
	l.putBack(t, 5, journal.Failed, lifeStart+30_000, "oops")
	l.putBack(t, 6, journal.Dead, 0, "bad")
	l.putBack(t, 8, journal.Failed, 0, "")
	return l
}

// The format cannot change unnoticed, and docs/formats/ops.md shows it.
func TestSnapshotGolden(t *testing.T) {
	t.Parallel()
	l := goldenLife(t)
	state := hex.EncodeToString(l.m.Snapshot(nil, l.r))
	path := filepath.Join("testdata", "state-1.hex")
	if *updateGolden {
		if err := os.WriteFile(path, []byte(state+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSpace(string(stored))
	if state != want {
		t.Errorf("%s: the format of a row's state changed; data directories hold the old one, so it needs a new SnapshotVersion and a reader for both.\ngot  %s\nwant %s", path, state, want)
	}
	document, err := os.ReadFile(filepath.Join("..", "..", "docs", "formats", "ops.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(document), "<!-- state -->")
	section, _, _ = strings.Cut(section, "<!-- end of state -->")
	shown := ""
	for line := range strings.Lines(section) {
		if bytes, _, isHex := strings.Cut(line, " |"); isHex {
			shown += strings.ReplaceAll(bytes, " ", "")
		}
	}
	if shown != want {
		t.Errorf("docs/formats/ops.md shows the state\n%s\nwant\n%s", shown, want)
	}
	b, err := hex.DecodeString(want)
	if err != nil {
		t.Fatal(err)
	}
	m, r := l.restarted(t, b)
	m.Recovery.Replayed(lifeStart)
	states := ""
	for index := range r.Chunks {
		states += m.Chunk(r, index).State.String() + " "
	}
	if want := "done ready ready ready done waiting dead ready ready ready "; states != want {
		t.Errorf("the golden row is restored as %swant %s", states, want)
	}
	if outputs := (machine.OutputCount{Chunks: 1, Sum: 4}); r.Outputs != outputs {
		t.Errorf("the golden row is restored with the outputs %+v, want %+v", r.Outputs, outputs)
	}
}

// FuzzSnapshotRestore checks that no row makes the loading panic, and that a loaded row is sane: its submission has the
// same row again, and can be worked off to its end.
func FuzzSnapshotRestore(f *testing.F) {
	l := goldenLife(f)
	f.Add(l.r.Spec(l.r.Sub.Meta()), l.m.Snapshot(nil, l.r))
	fresh := newLife(f, &journal.Insert{Seq: 1, ID: 1 << 30, Chunks: 3, Key: 0x201})
	f.Add(fresh.r.Spec(fresh.r.Sub.Meta()), fresh.m.Snapshot(nil, fresh.r))
	f.Fuzz(func(t *testing.T, spec, state []byte) {
		m := pureMachine(lifeStart)
		m.Replay = true
		if m.Recovery.Load(spec, state) != nil {
			return
		}
		var r *machine.Record
		m.Backlog.Each(func(sub *backlog.Submission) bool { r = sub.Data.(*machine.Record); return true })
		again := m.Snapshot(nil, r)
		if err := pureMachine(lifeStart).Recovery.Load(r.Spec(r.Sub.Meta()), again); err != nil {
			t.Fatalf("spec %x, state %x load, but their own row %x does not: %v", spec, state, again, err)
		}
		m.Recovery.Replayed(lifeStart)
		if r.Chunks > 1000 {
			return
		}
		for index := range r.Chunks {
			if r.Sub == nil {
				break
			}
			if err := m.ApplyComplete(journal.Completed{Seq: r.Seq, Index: index, Epoch: 3, Sequence: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if r.Done+r.Dead+r.Skips != r.Chunks || r.State == queue.Open && r.Chunks > 0 && r.Dead+r.Skips < r.Chunks {
			t.Fatalf("spec %x, state %x: after completing all of %d chunks %d are done, %d dead, state %v", spec, state, r.Chunks, r.Done, r.Dead, r.State)
		}
	})
}
