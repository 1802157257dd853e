package machine

import (
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/durations"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// A replay measures no run, and leaves none behind for the first commit after it: measurements begin with the server,
// whatever the journal has of earlier lives.
func TestReplayMeasuresNoRun(t *testing.T) {
	t.Parallel()
	m := New(0, reserver.Key{}, queue.DefaultSettings(), 1)
	m.Runs.Lately = new(durations.Kept)
	if err := m.ApplyInsert(&journal.Insert{Seq: 1, ID: queue.SubmissionID(1), Chunks: 1000, Key: 1, Prefix: "x"}); err != nil {
		t.Fatal(err)
	}
	r := m.LiveSeq(1)
	end := func(replay bool, index uint32) uint64 {
		slot := m.Holds.Add(&r.Holds, reserver.Hold{Sequence: uint64(index) + 1, Seq: 1, Index: index, Counted: true, Reserved: m.Now}, "c")
		m.Now = m.Now.Add(time.Second)
		m.Replay = replay
		m.timed(r, slot)
		m.Replay = false
		m.Runs.Measure(m.Now) // by the next commit
		return m.Runs.Lately.Of(nil, m.Now).Run.Count
	}
	if n := end(true, 0); n != 0 {
		t.Errorf("a replay measured %d runs", n)
	}
	if n := end(false, 1); n != 1 {
		t.Errorf("a result that was reported then measured %d runs, want 1", n)
	}
}
