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

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

var updateGolden = flag.Bool("update", false, "write the golden files again")

// life is one submission in a machine whose ops are applied without a journal.
type life struct {
	unknown bool // completions are those of an older version
	m       *machine
	r       *record
}

const lifeStart = queue.Time(1_760_000_000_000)

func pureMachine(now queue.Time) *machine {
	settings := queue.DefaultSettings()
	settings.SuspectShare = 1 // what expired comes back by itself
	m := newMachine(0, reserver.Key{K0: 1, K1: 2}, settings, now)
	m.now, m.epoch = now, 3
	return m
}

func newLife(t rapid.TB, s *journal.Insert) *life {
	m := pureMachine(lifeStart)
	m.applied = 1
	if err := m.ApplyInsert(s); err != nil {
		t.Fatal(err)
	}
	return &life{m: m, r: m.live(s.ID)}
}

// hold reserves a chunk; false when it is not available.
func (l *life) hold(index uint32, state reserver.State) bool {
	if !l.m.backlog.TakeChunk(l.r.sub, index) {
		return false
	}
	l.m.ready(l.r, -1)
	l.m.holds.Add(&l.r.holds, reserver.Hold{
		Sequence: l.m.holds.NextSequence(), Epoch: l.m.epoch, Seq: l.r.seq, Index: index, State: state, Counted: true, Reserved: l.m.now, Deadline: l.m.now + 1000,
	}, "c")
	return true
}

func (l *life) complete(t rapid.TB, index uint32) {
	l.m.applied++
	if err := l.m.ApplyComplete(journal.Completed{Seq: l.r.seq, Index: index, Epoch: 3, Sequence: uint64(l.m.applied), Output: index > 0 && !l.unknown, OutputUnknown: l.unknown}); err != nil {
		t.Fatal(err)
	}
}

func (l *life) putBack(t rapid.TB, index uint32, reason journal.ReturnReason, notBefore queue.Time, text string) {
	l.m.applied++
	op := l.m.tried(l.r, index, reason, l.m.now)
	op.Epoch, op.Sequence, op.NotBefore, op.Error = 3, uint64(l.m.applied), notBefore, text
	if err := l.m.ApplyReturn(op); err != nil {
		t.Fatal(err)
	}
}

// passes promotes what waited until then.
func (l *life) passes(until queue.Time) {
	l.m.now = until
	for l.m.lifecycle.step(KindRetry, until, tickMost, nil, nil) == tickMost {
	}
}

// restarted loads the row into a new machine.
func (l *life) restarted(t rapid.TB, state []byte) (*machine, *record) {
	m := pureMachine(l.m.now)
	m.replay = true
	if err := m.load(l.r.spec(), state); err != nil {
		t.Fatalf("load of %x: %v", state, err)
	}
	return m, m.live(l.r.id)
}

func (l *life) step(t *rapid.T) {
	index := rapid.Uint32Max(l.r.chunks-1).Draw(t, "index")
	switch rapid.IntRange(0, 8).Draw(t, "step") {
	case 0, 1:
		l.hold(index, reserver.State(rapid.IntRange(0, 1).Draw(t, "state")))
	case 2, 3: // held, late, or twice
		l.complete(t, index)
	case 4:
		if l.hold(index, reserver.Expiring) {
			l.putBack(t, index, journal.Expired, l.m.now+queue.Time(rapid.Int64Range(-5, 50).Draw(t, "delay")), "the deadline passed")
		}
	case 5:
		if l.hold(index, reserver.Finishing) {
			l.putBack(t, index, journal.Failed, queue.Time(rapid.Int64Range(0, 1).Draw(t, "delayed"))*(l.m.now+20), "failed")
		}
	case 6:
		if l.hold(index, reserver.Finishing) {
			l.putBack(t, index, rapid.SampledFrom([]journal.ReturnReason{journal.Dead, journal.Skipped}).Draw(t, "end"), 0, "given up")
		}
	case 8: // nothing happens unless it is dead
		l.m.applied++
		if err := l.m.letters.applyRedrive(journal.Redrive{Seq: l.r.seq, Indexes: []uint32{index}}); err != nil {
			t.Fatal(err)
		}
	case 7:
		l.passes(l.m.now + queue.Time(rapid.Int64Range(0, 40).Draw(t, "passed")))
	}
}

// want is what becomes of a chunk over a restart: reservations are forgotten, and what waited longer than the restart took
// goes on waiting.
func (l *life) want(index uint32) queue.Chunk {
	c := l.m.chunk(l.r, index)
	if c.State == queue.ChunkReserved || c.State == queue.ChunkWaiting && c.NotBefore <= l.m.now {
		c = queue.Chunk{Index: index, State: queue.ChunkReady, Attempts: c.Attempts, Error: c.Error}
	}
	return c
}

// A submission comes back from its row as it was, less its reservations; every chunk is available, done or dead in it; and
// the row of what came back is the same row.
func TestSnapshotRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint32Range(1, 40).Draw(t, "chunks")
		key := backlog.OrderKey(n, rapid.Uint64().Draw(t, "seed"))
		l := newLife(t, &journal.Insert{Seq: 7, ID: queue.MakeSubmissionID(lifeStart, 0, 0), Chunks: n, Key: key, Prefix: "p/"})
		l.unknown = rapid.Bool().Draw(t, "unknown")
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if l.step(t); l.r.sub == nil {
				checkEnded(t, l)
				return
			}
		}
		state := l.m.snapshot(nil, l.r)
		m, r := l.restarted(t, state)
		if again := m.snapshot(nil, r); !bytes.Equal(again, state) {
			t.Fatalf("the row of the restored submission is %x; want %x", again, state)
		}
		if got := uint64(r.sub.Available()) + uint64(r.done) + uint64(r.dead) + uint64(r.skips); got != uint64(n) {
			t.Fatalf("%d chunks are available, done or dead; want all %d", got, n)
		}
		m.settle(l.m.now)
		if r.done != l.r.done || r.dead != l.r.dead || r.skips != l.r.skips || r.applied != l.r.applied || r.outputs != l.r.outputs {
			t.Fatalf("restored: done %d, dead %d, applied %d, outputs %+v; want %d, %d, %d, %+v", r.done, r.dead, r.applied, r.outputs, l.r.done, l.r.dead, l.r.applied, l.r.outputs)
		}
		waiting := uint32(0)
		for index := range n {
			got, want := m.chunk(r, index), l.want(index)
			if got.State == queue.ChunkWaiting {
				waiting++
			}
			if got.State != want.State || got.Attempts != want.Attempts || got.Error != want.Error || got.NotBefore != want.NotBefore {
				t.Fatalf("chunk %d is restored as %+v; want %+v (row %x)", index, got, want, state)
			}
		}
		if r.waiting != waiting {
			t.Fatalf("%d chunks are counted as waiting; %d wait", r.waiting, waiting)
		}
	})
}

// checkEnded: the history row tells of every chunk of an ended submission.
func checkEnded(t *rapid.T, l *life) {
	r, sub, err := endedRecord(l.r.endedRow())
	if err != nil {
		t.Fatal(err)
	}
	want := l.r.info("q", l.r.ended.meta, 0)
	got := r.info("q", r.ended.meta, 0)
	if got.State != want.State || got.Done != want.Done || got.Dead != want.Dead || got.Finished != want.Finished || got.Skipped != want.Skipped {
		t.Fatalf("the history tells %+v; want %+v", got, want)
	}
	for index := range r.chunks {
		if sub.IsAvailable(index) {
			t.Fatalf("the history tells that chunk %d was never done, of a submission that ran to its end", index)
		}
	}
}

// A row is refused whichever byte is cut off, and whichever number cannot be.
func TestSnapshotDamage(t *testing.T) {
	t.Parallel()
	l := goldenLife(t)
	state := l.m.snapshot(nil, l.r)
	for cut := range state {
		if err := pureMachine(lifeStart).load(l.r.spec(), state[:cut]); err == nil {
			t.Errorf("%d of %d bytes load without an error: %x", cut, len(state), state[:cut])
		}
	}
	for name, damaged := range map[string][]byte{
		"a byte too many":          append(slices.Clone(state), 0),
		"version 0":                append([]byte{0}, state[1:]...),
		"a newer version":          append([]byte{snapshotVersion + 1}, state[1:]...),
		"more done than chunks":    {1, 0, 1, 11, 0, 0, 1, 0, 0, 0, 0},
		"more ended than chunks":   {1, 0, 1, 6, 5, 0, 1, 0, 0, 0, 0},
		"done but nothing taken":   {1, 0, 1, 2, 0, 0, 1, 0, 0, 0, 0},
		"taken but nothing done":   {1, 0, 1, 0, 0, 0, 1, 3, 0, 0, 0},
		"dead without a try":       {1, 0, 1, 0, 1, 0, 1, 1, 0, 0, 0},
		"dead and available":       {1, 0, 1, 0, 1, 1, 5, 3, 1, 0, 0, 3, 1, 0, 1, 1, 0, 0, 0},
		"done and failed":          {1, 0, 1, 1, 0, 1, 1, 0, 1, 0, 0, 3, 1, 0, 1, 1, 0, 0, 0},
		"a try of chunk 10 of 10":  {1, 0, 1, 0, 0, 1, 10, 0, 1, 0, 0, 3, 1, 0, 1, 0, 0, 0, 0},
		"reason 4":                 {1, 0, 1, 0, 0, 1, 0, 4, 1, 0, 0, 3, 1, 0, 1, 0, 0, 0, 0},
		"attempts beyond 16 bits":  {1, 0, 1, 0, 0, 1, 0, 0, 0x80, 0x80, 4, 0, 0, 3, 1, 0, 1, 0, 0, 0, 0},
		"an error without its end": {1, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 3, 1, 99, 'a'},
	} {
		if err := pureMachine(lifeStart).load(l.r.spec(), damaged); err == nil {
			t.Errorf("%s: %x loads without an error", name, damaged)
		}
	}
}

// goldenLife is ten chunks: 0 and 4 done, 5 waiting after a failure, 6 dead, 7 reserved, 8 failed once and ready again.
func goldenLife(t rapid.TB) *life {
	l := newLife(t, &journal.Insert{Seq: 300, ID: queue.MakeSubmissionID(lifeStart, 0, 0), Chunks: 10, Mul: 3, Add: 1, Prefix: "in/"})
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

// The format cannot drift unnoticed, and docs/formats/ops.md shows it as it is.
func TestSnapshotGolden(t *testing.T) {
	t.Parallel()
	l := goldenLife(t)
	state := hex.EncodeToString(l.m.snapshot(nil, l.r))
	path := filepath.Join("testdata", "state-1-outputs.hex")
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
		t.Errorf("%s: the format of a row's state changed; data directories hold the old one, so it needs a new snapshotVersion and a reader for both.\ngot  %s\nwant %s", path, state, want)
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
	checkGoldenState(t, l, want, outputCount{chunks: 1, sum: 4})
	for _, older := range []string{"state-1.hex", "state-1-past.hex"} { // without the past of tries, and without how many outputs there are
		text, err := os.ReadFile(filepath.Join("testdata", older))
		if err != nil {
			t.Fatal(err)
		}
		checkGoldenState(t, l, strings.TrimSpace(string(text)), outputCount{unknown: true})
	}
}

func checkGoldenState(t *testing.T, l *life, text string, outputs outputCount) {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	m, r := l.restarted(t, b)
	m.settle(lifeStart)
	states := ""
	for index := range r.chunks {
		states += m.chunk(r, index).State.String() + " "
	}
	if want := "done ready ready ready done waiting dead ready ready ready "; states != want {
		t.Errorf("the golden row is restored as %swant %s", states, want)
	}
	if r.outputs != outputs {
		t.Errorf("the golden row is restored with the outputs %+v, want %+v", r.outputs, outputs)
	}
}

// FuzzSnapshotRestore: no row makes the loading panic, and what loads is sane: its row is the same again, and a submission
// of it can be worked off to its end.
func FuzzSnapshotRestore(f *testing.F) {
	l := goldenLife(f)
	f.Add(l.r.spec(), l.m.snapshot(nil, l.r))
	fresh := newLife(f, &journal.Insert{Seq: 1, ID: 1 << 30, Chunks: 3, Mul: 2, Add: 1})
	f.Add(fresh.r.spec(), fresh.m.snapshot(nil, fresh.r))
	f.Fuzz(func(t *testing.T, spec, state []byte) {
		m := pureMachine(lifeStart)
		m.replay = true
		if m.load(spec, state) != nil {
			return
		}
		var r *record
		m.backlog.Each(func(sub *backlog.Submission) bool { r = sub.Data.(*record); return true })
		again := m.snapshot(nil, r)
		if err := pureMachine(lifeStart).load(r.spec(), again); err != nil {
			t.Fatalf("spec %x, state %x load, but their own row %x does not: %v", spec, state, again, err)
		}
		m.settle(lifeStart)
		if r.chunks > 1000 {
			return
		}
		for index := range r.chunks {
			if r.sub == nil {
				break
			}
			if err := m.ApplyComplete(journal.Completed{Seq: r.seq, Index: index, Epoch: 3, Sequence: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if r.done+r.dead+r.skips != r.chunks || r.state == queue.Open && r.chunks > 0 && r.dead+r.skips < r.chunks {
			t.Fatalf("spec %x, state %x: after completing all of %d chunks %d are done, %d dead, state %v", spec, state, r.chunks, r.done, r.dead, r.state)
		}
	})
}
