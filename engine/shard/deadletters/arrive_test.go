package deadletters

import (
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Inserts of dead letters that are on their way to the disk fail, the newest first. Each letter is then expected again,
// and the ones before it are not: they may still arrive.
func TestUndoneArrivalsAreExpected(t *testing.T) {
	t.Parallel()
	m := machine.New(0, reserver.Key{K0: 1, K1: 2}, queue.DefaultSettings(), 1)
	p := New(m)
	const source = 7
	for number := uint64(1); number <= 3; number++ {
		p.arrives(&queue.Origin{Source: source, Number: number})
	}
	pending := m.Batch.Intents.List
	for left := 3; left >= 0; left-- {
		for number := uint64(1); number <= 3; number++ {
			o := &queue.Origin{Source: source, Number: number}
			if got := p.expects(o); got != (number > uint64(left)) {
				t.Errorf("with %d on their way, number %d is expected: %v", left, number, got)
			}
		}
		if left > 0 {
			pending[left-1].Undo(m)
		}
	}
	if len(p.arriving) != 0 {
		t.Errorf("%v is kept, want nothing", p.arriving)
	}
}
