package shard

import (
	"testing"

	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// Waiters that go away leave the lines of all views of their plan, and the last one ends the watching: nothing of them is kept. The line that
// is being walked along keeps its places until the walk ends.
func TestUnparkLeavesAllLines(t *testing.T) {
	t.Parallel()
	withShard(t, t.TempDir(), func(s *Shard) {
		parsed, err := strategy.Parse(`OrElse(SelectOnly("a", 1, Random), SelectOnly("a", 2, Random))`)
		if err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		q := machine.Request{Plan: parsed.Plan()}
		want := func(when string, watched bool, lengths ...int) (lines []*line) {
			t.Helper()
			machine.EachStanding(q.Plan, func(br *strategy.Branch) {
				v := s.m.Backlog.Views.Of(br)
				l := v.Data.(*line)
				if n := lengths[len(lines)]; len(l.waiters) != n || v.Watch != watched && n == 0 {
					t.Errorf("%s: the line of %s has %d waiters, watched: %v; want %d", when, br.Key(), len(l.waiters), v.Watch, n)
				}
				lines = append(lines, l)
			})
			return lines
		}
		waiters := []*waiter{s.waiters.park(&q), s.waiters.park(&q), s.waiters.park(&q), s.waiters.park(&q)}
		lines := want("four came", true, 4, 4)
		s.waiters.unpark(waiters[0], nil)
		s.waiters.unpark(waiters[1], nil)
		want("two went", true, 2, 2)
		s.waiters.unpark(waiters[2], lines[0])
		want("one was served along the first line", true, 2, 1)
		s.waiters.unpark(waiters[3], nil)
		want("all went", false, 0, 0)
	})
}
