package waiters

import (
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
	"github.com/quern-queue/quern/engine/strategy"
)

// waiting is a shell and its line, in which a waiter has to ask again when stale says so.
func waiting(t *testing.T, stale func(*machine.Request) error) (*shelltest.Shell, *Waiters) {
	s := shelltest.New(t)
	seed := uint64(0)
	return s, New(func() *machine.Machine { return s.Machine }, stale, func() uint64 { seed++; return seed },
		Rates{Advance: func() {}, Arm: func() {}})
}

func never(*machine.Request) error { return nil }

// request is a reserve call by a strategy whose views are built.
func request(t *testing.T, s *shelltest.Shell, text string, most int) *machine.Request {
	t.Helper()
	parsed, err := strategy.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	q := &machine.Request{Plan: parsed.Plan(), Max: most}
	for {
		_, unbuilt := s.Machine.Views(q.Plan, nil)
		if unbuilt == nil {
			return q
		}
		for !unbuilt.Build(1000) {
		}
	}
}

// got is how many chunks a waiter got; -1: nothing yet, 0: it is to ask again.
func got(x *Waiter) int {
	select {
	case picks := <-x.Served:
		return len(picks)
	default:
		return -1
	}
}

// Work goes to the waiters in the order in which they came, as much as each wants, and no other waiter is woken.
func TestFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	s, w := waiting(t, never)
	first, second, third := w.Park(request(t, s, "Random", 2)), w.Park(request(t, s, "OldestFirst", 5)), w.Park(request(t, s, "Random", 1))
	s.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 4, Prefix: "p/"}})
	w.Serve(s.Clock)
	total, woken := 0, 0
	for _, x := range []*Waiter{first, second, third} {
		if n := got(x); n > 0 {
			total, woken = total+n, woken+1
		} else if n == 0 {
			t.Error("woken without success")
		}
	}
	if total != 4 || w.Len() != 3-woken {
		t.Errorf("%d chunks were handed out to %d, and %d wait; want all 4", total, woken, w.Len())
	}
	if n := got(first); n != -1 {
		t.Error("served twice")
	}
}

// A waiter that has to ask again gets a sign, and takes nothing from those behind it.
func TestStaleWaitersAskAgain(t *testing.T) {
	t.Parallel()
	s, w := waiting(t, func(q *machine.Request) error {
		if q.Consumer == "quiet" {
			return &queue.Error{Code: queue.CodeUnavailable}
		}
		return nil
	})
	quiet, other := request(t, s, "Random", 3), request(t, s, "Random", 3)
	quiet.Consumer, other.Consumer = "quiet", "busy"
	a, b := w.Park(quiet), w.Park(other)
	if !w.Waits("quiet") || w.Waits("no one") {
		t.Error("who waits is not known")
	}
	s.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 3, Prefix: "p/"}})
	if w.Serve(s.Clock); got(a) != 0 || got(b) != 3 || w.Len() != 0 {
		t.Errorf("%d wait", w.Len())
	}
	c := w.Park(other)
	if w.Recall("busy"); got(c) != 0 {
		t.Error("a consumer that was recalled is not told to ask again")
	}
	d := w.Park(other)
	w.Dismiss()
	if _, open := <-d.Served; open || w.Len() != 0 {
		t.Error("a wait outlives the shard")
	}
}

// Waiters that go away leave the lines of all views of their plan, and the last one ends the watching: nothing of them is kept. The line that
// is being walked along keeps its places until the walk ends.
func TestUnparkLeavesAllLines(t *testing.T) {
	t.Parallel()
	s, w := waiting(t, never)
	q := request(t, s, `OrElse(SelectOnly("a", 1, Random), SelectOnly("a", 2, Random))`, 1)
	want := func(when string, watched bool, lengths ...int) (lines []*line) {
		t.Helper()
		machine.EachStanding(q.Plan, func(br *strategy.Branch) {
			v := s.Machine.Backlog.Views.Of(br)
			l := v.Data.(*line)
			if n := lengths[len(lines)]; len(l.waiters) != n || v.Watch != watched && n == 0 {
				t.Errorf("%s: the line of %s has %d waiters, watched: %v; want %d", when, br.Key(), len(l.waiters), v.Watch, n)
			}
			lines = append(lines, l)
		})
		return lines
	}
	four := []*Waiter{w.Park(q), w.Park(q), w.Park(q), w.Park(q)}
	lines := want("four came", true, 4, 4)
	w.Unpark(four[0])
	w.Unpark(four[1])
	want("two went", true, 2, 2)
	w.unpark(four[2], lines[0])
	want("one was served along the first line", true, 2, 1)
	w.Unpark(four[3])
	want("all went", false, 0, 0)
}
