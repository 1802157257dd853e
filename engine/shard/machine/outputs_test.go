package machine

import (
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// An output belongs to the completion behind it: a completion whose output does not stand before it, or that stands behind the output of
// another chunk, is damage, also where the completion itself has no effect any more.
func TestOutputStandsBeforeItsCompletion(t *testing.T) {
	t.Parallel()
	output := func(seq, index uint32) *journal.Output {
		return &journal.Output{Seq: seq, Index: index, Bytes: []byte("out")}
	}
	for name, c := range map[string]struct {
		before []*journal.Output
		kept   int // outputs that a replay gives to the store; -1: the op is refused
	}{
		"there":                 {[]*journal.Output{output(7, 3)}, 1},
		"none":                  {nil, -1},
		"of another chunk":      {[]*journal.Output{output(7, 4)}, -1},
		"of another submission": {[]*journal.Output{output(8, 3)}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := New(1, reserver.Key{}, queue.DefaultSettings(), 1)
			m.Recovery.History = history{Past: func(uint32) (*Past, error) { return nil, nil }}
			m.Replay = true
			kept := 0
			m.Storage.Output = func(o *journal.Output) {
				if kept++; o.Seq != 7 || o.Index != 3 {
					t.Errorf("the store is given the output of chunk %d of seq %d", o.Index, o.Seq)
				}
			}
			for _, o := range c.before {
				if err := m.ApplyPart(o); err != nil {
					t.Fatal(err)
				}
			}
			err := m.ApplyComplete(journal.Completed{Seq: 7, Index: 3, Epoch: 1, Sequence: 1, Output: true})
			if refused := c.kept < 0; (err != nil) != refused || kept != max(c.kept, 0) {
				t.Errorf("got %v and %d outputs for the store, want %d (-1: refused)", err, kept, c.kept)
			}
		})
	}
}
