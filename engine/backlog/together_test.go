package backlog

import (
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// modelTogether is what other backlogs have in flight of the values of some keys, and what this one has said.
type modelTogether struct {
	others map[queue.MetaEntry]uint32
	said   map[queue.MetaEntry]uint32
}

// together has two keys counted together with other backlogs, whose counts change at random.
func (m *model) together() {
	x := &m.beside
	if m.b.Values.CountTogether(7, []queue.MetaKey{"a", "b"}) {
		x.others, x.said = map[queue.MetaEntry]uint32{}, map[queue.MetaEntry]uint32{}
	}
	if x.others == nil {
		m.fatalf("counts are known before anyone said them")
	}
	entry := queue.MetaEntry{Key: []string{"a", "b"}[m.r.IntN(2)], Value: queue.IntValue(int64(m.r.IntN(5)))}
	x.others[entry] = uint32(m.r.IntN(4))
	m.b.Values.CountOthers(OwnCount{entry, x.others[entry]})
	if m.r.IntN(3) > 0 {
		return
	}
	for _, n := range m.b.Values.OwnCounts(nil) {
		x.said[n.MetaEntry] = n.InFlight
	}
	for _, key := range []string{"a", "b"} {
		for value := range int64(5) {
			entry := queue.MetaEntry{Key: key, Value: queue.IntValue(value)}
			if want := m.inFlight(key, entry.Value) - x.others[entry]; x.said[entry] != want {
				m.fatalf("%s=%v is said to have %d in flight here, want %d", key, entry.Value, x.said[entry], want)
			}
		}
	}
}

// All counts are said again, if there were more changes than are remembered, or a backlog of another whole asks.
func TestCountsAreSaidAgain(t *testing.T) {
	t.Parallel()
	b := New()
	if !b.Values.CountTogether(1, []queue.MetaKey{"k"}) || b.Values.CountTogether(1, []queue.MetaKey{"k"}) {
		t.Fatal("the first call is to begin it, and the second is not")
	}
	for i := range changedMost + 2 {
		s := b.Insert(Spec{ID: queue.SubmissionID(i + 1), Seq: uint32(i + 1), Chunks: 1,
			Meta: queue.Meta{{Key: "k", Value: queue.IntValue(int64(i))}}})
		if !b.TakeChunk(s, 0) {
			t.Fatal("the chunk is not there")
		}
	}
	if n := len(b.Values.OwnCounts(nil)); n != 0 {
		t.Errorf("%d counts are said, although more changed than are remembered", n)
	}
	if !b.Values.CountTogether(1, []queue.MetaKey{"k"}) {
		t.Error("it does not begin again after too many changes")
	}
	if n := len(b.Values.OwnCounts(nil)); n != changedMost+2 {
		t.Errorf("%d counts are said, want all", n)
	}
	b.Values.CountOthers(OwnCount{queue.MetaEntry{Key: "k", Value: queue.IntValue(1)}, 5})
	if !b.Values.CountTogether(2, []queue.MetaKey{"k"}) {
		t.Error("another whole does not begin again")
	}
	if n := b.Values.Counts("k", queue.IntValue(1))[strategy.Simultaneous]; n != 1 {
		t.Errorf("%d chunks are counted as in flight after another whole began, want 1", n)
	}
}
