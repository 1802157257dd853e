package shard

import (
	"testing"

	"github.com/quern-queue/quern/engine/shard/machine"
)

// A checkpoint is due when the journal has grown by as much as the options say, or as many submissions have ended.
func TestCheckpointDue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bytes int64
		ended int
		want  bool
	}{{99, 4, false}, {100, 0, true}, {101, 0, true}, {0, 5, true}, {0, 6, true}} {
		s := &Shard{m: &machine.Machine{}, options: Options{CheckpointBytes: 100, CheckpointEnded: 5}}
		s.m.Endings.InOrder = make([]*machine.Record, c.ended)
		s.checkpoints.init((*doors)(s), checkpointMeans{options: &s.options})
		s.checkpoints.bytes.Store(c.bytes)
		if got := s.checkpoints.due(); got != c.want {
			t.Errorf("%d of 100 bytes, %d of 5 ended: got %v, want %v", c.bytes, c.ended, got, c.want)
		}
	}
}
