package rules

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
	"github.com/quern-queue/quern/engine/strategy"
)

// liveOfTwo is about the customers 0 and 1 in the mode live.
func liveOfTwo(t *testing.T) queue.RuleMatch {
	c, err := queue.NewConditions([]queue.Condition{
		{Key: "mode", Values: []queue.MetaValue{queue.StringValue("live")}},
		{Key: "customer", Values: []queue.MetaValue{queue.IntValue(1), queue.IntValue(0)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return queue.MatchOf(c)
}

// mixed inserts a submission of three chunks: of customers 0 to 3, every other one of a customer is live.
func mixed(s *shelltest.Shell, i int) queue.SubmissionID {
	mode := [2]string{"live", "test"}[i/4%2]
	return s.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 3, Prefix: "p/"}, Meta: queue.Meta{
		{Key: "customer", Value: queue.IntValue(int64(i % 4))}, {Key: "mode", Value: queue.StringValue(mode)}}})
}

// between calls fn after each hold of the mutex.
type between struct {
	shell.Shell
	fn func()
}

func (b *between) Look(fn func(m *machine.Machine)) {
	b.Shell.Look(fn)
	if b.fn != nil {
		b.fn()
	}
}

// A rule about several values covers submissions that have one of each, also later ones, until it is lifted. With a
// rule about one of the submissions, the stronger of the two counts.
func TestSeveralValues(t *testing.T) {
	t.Parallel()
	s, r := ruling(t, 0)
	var ids []queue.SubmissionID
	for i := range 16 {
		ids = append(ids, mixed(s, i))
	}
	match := liveOfTwo(t)
	if text := match.String(); text != `customer in (0, 1), mode="live"` {
		t.Errorf("it reads %s", text)
	}
	if _, created, err := r.Set(queue.Rule{Action: queue.Pause, Match: match}, nil); err != nil || !created {
		t.Fatal(created, err)
	}
	r.want(t, s, 3*4, 1)
	mixed(s, 0)
	mixed(s, 4)
	r.want(t, s, 3*5, 1)
	if held := r.Held(); len(held) != 1 || held[0].Chunks != 15 {
		t.Errorf("it is said to keep %+v, want 15 chunks", held)
	}
	block := queue.Rule{Action: queue.Block, Reason: "why", Match: queue.RuleMatch{Submission: ids[0]}}
	if _, _, err := r.Set(block, nil); err != nil {
		t.Fatal(err)
	}
	r.want(t, s, 3*4, 1, 2)
	if _, _, err := r.Lift(2, ""); err != nil {
		t.Fatal(err)
	}
	r.want(t, s, 3*5, 1)
	woken := s.Woken
	if _, was, err := r.Lift(1, ""); !was || err != nil || s.Woken == woken {
		t.Errorf("lifted: %t %v, those who wait were woken %d times", was, err, s.Woken-woken)
	}
	r.want(t, s, 0)
}

// However many submissions it covers, no chunk of them is handed out from its commit on, and submissions inserted
// between two slices are covered, too. After the lift none is covered.
func TestSeveralValuesOfMany(t *testing.T) {
	t.Parallel()
	s, r := ruling(t, 0)
	const n = 2*CountMost + 8
	for i := range n {
		mixed(s, i)
	}
	oldest, err := strategy.Parse("OldestFirst")
	if err != nil {
		t.Fatal(err)
	}
	m := s.Machine
	views, unbuilt := m.Views(oldest.Plan(), nil)
	for unbuilt != nil && !unbuilt.Build(1000) {
	}
	match := liveOfTwo(t)
	conditions := match.Conditions()
	slices, after := 0, 0
	hook := &between{Shell: s}
	r.Shell = hook
	hook.fn = func() {
		slices++
		mixed(s, after) // live, of customer 0
		var picks []machine.Pick
		m.Reserve(&machine.Request{Plan: oldest.Plan()}, views, 40, s.Clock, &picks)
		for i := range picks {
			if r.Part().Len() > 0 && conditions.Cover(picks[i].R.Meta()) {
				t.Errorf("slice %d: chunk %d of %s was handed out under the rule", slices, picks[i].Token.Index, picks[i].R.ID)
			}
		}
		m.Undo(picks)
	}
	if _, _, err := r.Set(queue.Rule{Match: match}, nil); err != nil {
		t.Fatal(err)
	}
	set := slices
	hook.fn = nil
	r.want(t, s, uint64(3*(n/4+slices)), 1)
	hook.fn = func() { slices++; mixed(s, after) }
	if _, _, err := r.Lift(1, ""); err != nil || set < 4 || slices < set+3 {
		t.Errorf("%v; %d and %d holds of the mutex, want several", err, set, slices-set)
	}
	hook.fn = nil
	r.want(t, s, 0)
}

// A commit that fails leaves nothing of such a rule, and all of one that was to be lifted.
func TestSeveralValuesAndAFailedCommit(t *testing.T) {
	t.Parallel()
	s, r := ruling(t, 0)
	for i := range 16 {
		mixed(s, i)
	}
	broken := errors.New("broken")
	s.Fail = broken
	if _, _, err := r.Set(queue.Rule{Match: liveOfTwo(t)}, nil); !errors.Is(err, broken) {
		t.Errorf("set: %v", err)
	}
	r.want(t, s, 0)
	if _, _, err := r.Set(queue.Rule{Match: liveOfTwo(t)}, nil); err != nil {
		t.Fatal(err)
	}
	id := r.List()[0].ID
	s.Fail = broken
	if _, _, err := r.Lift(id, ""); !errors.Is(err, broken) {
		t.Errorf("lifted: %v", err)
	}
	r.want(t, s, 12, id)
	if _, was, err := r.Lift(id, ""); !was || err != nil {
		t.Errorf("lifted again: %t %v", was, err)
	}
	r.want(t, s, 0)
}

// A rule whose time is over ends by itself: a small one in a step of the worker, a large one in slices.
func TestSeveralValuesEnd(t *testing.T) {
	t.Parallel()
	for _, n := range []int{16, CountMost + 16} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			s, r := ruling(t, 0)
			for i := range n {
				mixed(s, i)
			}
			over := s.Clock.Add(time.Hour)
			if _, _, err := r.Set(queue.Rule{Match: liveOfTwo(t), Until: over}, nil); err != nil {
				t.Fatal(err)
			}
			r.want(t, s, uint64(3*n/4), 1)
			s.Clock = over
			if n > CountMost {
				r.EndLarge()
			} else if err := shell.Change(s, func(_ *machine.Machine, now queue.Time) error {
				r.Part().Step(now, machine.TickMost, nil)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			r.want(t, s, 0)
		})
	}
}

// There are at most so many of them: each insert looks at all.
func TestTooManyOfSeveralValues(t *testing.T) {
	t.Parallel()
	_, r := ruling(t, 0)
	for i := range queue.MaxSeveralRules + 1 {
		c, err := queue.NewConditions([]queue.Condition{{Key: "n", Values: []queue.MetaValue{queue.IntValue(int64(i)), queue.IntValue(-1)}}})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = r.Set(queue.Rule{Match: queue.MatchOf(c)}, nil)
		if is := queue.CodeOf(err) == queue.CodeConflict; is != (i == queue.MaxSeveralRules) {
			t.Fatalf("rule %d: %v", i+1, err)
		}
	}
	if _, _, err := r.Set(queue.Rule{Match: acme}, nil); err != nil {
		t.Errorf("one about a single value: %v", err)
	}
}
