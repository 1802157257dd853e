package values

import (
	"testing"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
)

func number(n int64) queue.MetaEntry {
	return queue.MetaEntry{Key: "n", Value: queue.IntValue(n)}
}

// slowly is a shell that counts holds of the mutex, and calls a function after one of them.
type slowly struct {
	*shelltest.Shell
	holds  int
	behind func(hold int)
}

func (s *slowly) Look(fn func(m *machine.Machine)) {
	s.Shell.Look(fn)
	s.holds++
	s.behind(s.holds)
}

// All values of a key are listed in slices, each once with its count, also those that come and go meanwhile; a list that has room for no
// more says so.
func TestList(t *testing.T) {
	t.Parallel()
	s := &slowly{Shell: shelltest.New(t), behind: func(int) {}}
	v := Values{s}
	insert := func(n int64) {
		s.Insert(&queue.NewSubmission{Meta: queue.Meta{number(n)}, Chunks: queue.Chunks{Count: 2, Prefix: "p/"}})
	}
	const all = 2*slice + 10
	for n := range int64(all) {
		insert(n)
	}
	s.behind = func(hold int) {
		if hold == 1 {
			for n := range int64(50) {
				insert(n)
				insert(all + n)
			}
		}
	}
	list, whole := v.List("n", all+100, nil)
	seen := map[queue.MetaValue]backlog.ValueCount{}
	for _, c := range list {
		if _, twice := seen[c.Value]; twice {
			t.Errorf("%v is listed twice", c.Value)
		}
		seen[c.Value] = c
	}
	for n := range int64(all) {
		if c := seen[number(n).Value]; c.Available != 2 && c.Available != 4 {
			t.Errorf("%d has %d ready, want 2, or 4 if it was counted behind the second insert", n, c.Available)
		}
	}
	if !whole || s.holds < 3 {
		t.Errorf("whole %t, in %d holds of the mutex; want all of it, in three or more", whole, s.holds)
	}
	if list, whole := v.List("n", 7, make([]backlog.ValueCount, 1)); whole || len(list) != 8 {
		t.Errorf("of 7 at most, behind one: %d, whole %t", len(list), whole)
	}
	if keys := v.Keys(); len(keys) != 1 || keys[0] != "n" {
		t.Errorf("keys: %v", keys)
	}
}

// A value that no submission has counts nothing, but its settings are known.
func TestGet(t *testing.T) {
	t.Parallel()
	s := shelltest.New(t)
	v := Values{s}
	if c := v.Get(number(1)); c.Available != 0 || c.Submissions != 0 || v.Settings(number(1)).Limit != queue.NoLimit {
		t.Errorf("%+v, set %+v; want nothing", c, v.Settings(number(1)))
	}
	s.Machine.ValueLimits.Set(queue.ValueTarget{MetaEntry: number(1)}, queue.ValueSettings{Limit: 3})
	s.Insert(&queue.NewSubmission{Meta: queue.Meta{number(1)}, Chunks: queue.Chunks{Count: 2, Prefix: "p/"}})
	if c := v.Get(number(1)); c.Available != 2 || c.Submissions != 1 || v.Settings(number(1)).Limit != 3 {
		t.Errorf("%+v, set %+v; want two ready of one submission, and a limit of 3", c, v.Settings(number(1)))
	}
}
