package rules

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
	"github.com/quern-queue/quern/engine/shard/trouble"
	"github.com/quern-queue/quern/engine/strategy"
)

var acme = queue.RuleMatch{Entry: queue.MetaEntry{Key: "customer", Value: queue.StringValue("acme")}}

// ruling is a shell whose machine has rules, and n submissions of three chunks of the customer acme.
func ruling(t *testing.T, n int) (*shelltest.Shell, *Rules) {
	s := shelltest.New(t)
	p := NewPart(s.Machine)
	joined := &s.Machine.Joined
	joined.Parts, joined.Rules, joined.Ended = []machine.Part{p}, p, []func(*machine.Record){p.Ended}
	q := s.Queue()
	r := Face(shelltest.Door(s, p), trouble.New(q.Logger, q.Seed))
	for range n {
		s.Insert(&queue.NewSubmission{Meta: queue.Meta{acme.Entry}, Chunks: queue.Chunks{Count: 3, Prefix: "p/"}})
	}
	return s, r
}

// want checks the ids of the rules, the paused chunks of the backlog, and that no op is on its way to the disk.
func (r *Rules) want(t *testing.T, s *shelltest.Shell, paused uint64, ids ...queue.RuleID) {
	t.Helper()
	var got []queue.RuleID
	for _, rule := range r.List() {
		got = append(got, rule.ID)
	}
	if fmt.Sprint(got) != fmt.Sprint(ids) {
		t.Errorf("rules %v, want %v", got, ids)
	}
	if n := s.Machine.Backlog.Rules.Amounts(); n.Paused != paused {
		t.Errorf("%d chunks are paused, want %d", n.Paused, paused)
	}
	r.Part().Intended(func(what string, n int) {
		if n != 0 {
			t.Errorf("%d %s", n, what)
		}
	})
	if err := r.Part().Audit(); err != nil {
		t.Error(err)
	}
}

// A rule covers from its commit until it is lifted. An equal rule writes nothing, a different one keeps the rule's id
// and beginning, and lifting it twice is no error.
func TestLifeOfARule(t *testing.T) {
	t.Parallel()
	s, r := ruling(t, 4)
	set, created, err := r.Set(queue.Rule{Action: queue.Pause, Match: acme, Reason: "late"}, nil)
	if err != nil || !created || set.ID != 1 || set.Since != s.Clock {
		t.Fatalf("set: %+v %t %v", set, created, err)
	}
	r.want(t, s, 12, 1)
	commits := len(s.Commits)
	if again, created, err := r.Set(set, nil); again != set || created || err != nil || len(s.Commits) != commits {
		t.Errorf("the same again: %+v %t %v, %d commits; want %d and no other rule", again, created, err, len(s.Commits), commits)
	}
	s.Clock = s.Clock.Add(time.Minute)
	changed, created, err := r.Set(queue.Rule{Action: queue.Pause, Match: acme, Reason: "later", Until: s.Clock.Add(time.Hour)}, nil)
	if err != nil || created || changed.ID != 1 || changed.Since != set.Since || changed.Reason != "later" {
		t.Errorf("changed: %+v %t %v, want id 1 since %d", changed, created, err, set.Since)
	}
	lifted, was, err := r.Lift(1, "ana")
	if lifted != changed || !was || err != nil {
		t.Errorf("lifted: %+v %t %v", lifted, was, err)
	}
	r.want(t, s, 0)
	if _, was, err := r.Lift(1, "bob"); was || err != nil {
		t.Errorf("lifted again: %t %v", was, err)
	}
	if past := r.Past(); len(past) != 1 || past[0].By != "ana" || past[0].End != queue.RuleLifted || past[0].Ended != s.Clock {
		t.Errorf("past: %+v, want the end that ana asked for", past)
	}
}

// An invalid rule is refused, and changes nothing.
func TestRulesAreRefused(t *testing.T) {
	t.Parallel()
	s, r := ruling(t, 1)
	refused := func(what string, code queue.Code, err error) {
		t.Helper()
		if queue.CodeOf(err) != code {
			t.Errorf("%s: %v, want %s", what, err, code)
		}
	}
	_, _, err := r.Set(queue.Rule{Match: acme, Until: s.Clock}, nil)
	refused("an end that is not ahead", queue.CodeInvalid, err)
	_, _, err = r.Set(queue.Rule{Match: queue.RuleMatch{Submission: 7}}, nil)
	refused("of no submission", queue.CodeUnknownSubmission, err)
	_, _, err = r.Lift(1, "")
	refused("never given", queue.CodeUnknownRule, err)
	for i := range queue.MaxRules {
		r.Part().Put(queue.Rule{ID: queue.RuleID(i + 1), Match: queue.RuleMatch{Entry: queue.MetaEntry{Key: "n", Value: queue.IntValue(int64(i))}}})
	}
	_, _, err = r.Set(queue.Rule{Match: acme}, nil)
	refused("one more", queue.CodeConflict, err)
	s.Refuse = &queue.Error{Code: queue.CodeUnavailable}
	_, _, err = r.Set(queue.Rule{Match: acme}, nil)
	refused("while the shard cannot work", queue.CodeUnavailable, err)
	if len(s.Commits) != 1 || r.Len() != queue.MaxRules {
		t.Errorf("%d commits, %d rules; want that of the insert and %d", len(s.Commits), r.Len(), queue.MaxRules)
	}
}

// A commit that fails leaves nothing of a rule that was set, and all of one that was lifted; both can be asked for again.
func TestFailedCommitOfARule(t *testing.T) {
	t.Parallel()
	s, r := ruling(t, 4)
	broken := errors.New("broken")
	s.Fail = broken
	if _, created, err := r.Set(queue.Rule{Match: acme}, nil); created || !errors.Is(err, broken) {
		t.Errorf("set: %t %v", created, err)
	}
	r.want(t, s, 0)
	if _, created, err := r.Set(queue.Rule{Match: acme}, nil); !created || err != nil {
		t.Fatalf("set again: %t %v", created, err)
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

// A rule about a submission ends with it.
func TestRuleEndsWithItsSubmission(t *testing.T) {
	t.Parallel()
	s, r := ruling(t, 0)
	id := s.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 3, Prefix: "p/"}})
	if _, _, err := r.Set(queue.Rule{Action: queue.Block, Match: queue.RuleMatch{Submission: id}, Reason: "why"}, nil); err != nil {
		t.Fatal(err)
	}
	s.Machine.EndSubmission(s.Machine.Live(id), queue.Cancelled, "", s.Clock)
	if _, _, err := r.Set(queue.Rule{Match: queue.RuleMatch{Submission: id}}, nil); queue.CodeOf(err) != queue.CodeUnknownSubmission {
		t.Errorf("about one that is about to end: %v", err)
	}
	s.Seal()
	if _, _, err := r.Set(queue.Rule{Match: acme}, nil); err != nil { // and waits for the sealed batch
		t.Fatal(err)
	}
	r.want(t, s, 0, 2)
	if past := r.Past(); len(past) != 1 || past[0].ID != 1 || past[0].End != queue.RuleOutlived {
		t.Errorf("past: %+v, want the block", past)
	}
}

// A rule whose time is over, and that covers too much for a step of the worker, is ended by itself. When that fails
// again and again, it is parked. When an operator gives it another time, it is tried again.
func TestLargeRuleEnds(t *testing.T) {
	t.Parallel()
	s, r := ruling(t, CountMost+1)
	all := uint64(3 * (CountMost + 1))
	over := s.Clock.Add(time.Hour)
	rule, _, err := r.Set(queue.Rule{Match: acme, Until: over}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.EndLarge(); r.Len() != 1 {
		t.Fatal("it ended before its time")
	}
	s.Clock = over
	if n := r.Part().Step(s.Clock, machine.TickMost, nil); n != 0 {
		t.Errorf("a step ended %d rules, want the large one left alone", n)
	}
	for range trouble.ParkAfter + 1 {
		s.Fail = errors.New("broken")
		r.EndLarge()
		r.want(t, s, all, rule.ID)
		s.Clock = s.Clock.Add(time.Minute) // the pause after a failure is over
	}
	if r.book.Parked[action(rule.ID)] == nil {
		t.Fatalf("it is not parked: %+v", r.book.Kinds[machine.KindRule])
	}
	commits := len(s.Commits)
	if r.EndLarge(); len(s.Commits) != commits {
		t.Error("a parked rule was tried")
	}
	later := s.Clock.Add(time.Hour)
	if _, _, err := r.Set(queue.Rule{Match: acme, Until: later}, nil); err != nil {
		t.Fatal(err)
	}
	if _, was, err := r.lift(rule.ID, s.Clock, queue.RuleOver, ""); was || err != nil {
		t.Errorf("one that is over no longer was ended: %t %v", was, err)
	}
	s.Clock = later
	r.EndLarge()
	r.want(t, s, 0)
	if past := r.Past(); len(past) != 1 || past[0].End != queue.RuleOver {
		t.Errorf("past: %+v, want it over", past)
	}
}

// The end of a rule that failed by itself shares its commit with no other call.
func TestSuspectedLiftIsAlone(t *testing.T) {
	t.Parallel()
	s, r := ruling(t, 1)
	rule, _, err := r.Set(queue.Rule{Match: acme}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.book.Suspect(action(rule.ID))
	before := len(s.Commits)
	if _, err := r.Begin(func(m *machine.Machine, now queue.Time) error { // another call, in the open batch
		m.Insert(m.Draw(&queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "p/"}}, now), nil, now)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, was, err := r.Lift(rule.ID, ""); !was || err != nil || len(s.Commits) != before+2 {
		t.Errorf("lifted: %t %v, in %d commits; want one of the other call and one of the lift", was, err, len(s.Commits)-before)
	}
}

// A rule that revokes takes back the reservations of covered chunks; others stay, and calls that wait are served.
func TestRuleRevokes(t *testing.T) {
	t.Parallel()
	s, r := ruling(t, 2)
	s.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 3, Prefix: "other/"}})
	oldest, err := strategy.Parse("OldestFirst")
	if err != nil {
		t.Fatal(err)
	}
	m := s.Machine
	views, unbuilt := m.Views(oldest.Plan(), nil)
	for unbuilt != nil && !unbuilt.Build(1000) {
	}
	var picks []machine.Pick
	if n := m.Reserve(&machine.Request{Plan: oldest.Plan()}, views, 8, s.Clock, &picks); n != 8 || m.Holds.Len() != 8 {
		t.Fatalf("%d reserved, %d held", n, m.Holds.Len())
	}
	woken := s.Woken
	if _, _, err := r.Set(queue.Rule{Match: acme, Revoke: true}, nil); err != nil || m.Holds.Len() != 2 || s.Woken == woken {
		t.Errorf("%v, %d are held, want the 2 of another customer; woken %d times", err, m.Holds.Len(), s.Woken-woken)
	}
	if _, revoked := r.Part().TakenBack(picks[0].R); !revoked {
		t.Error("the token of a reservation that was taken back gets no answer that says so")
	}
}

// A replay passes over ops that the row already has: a submission that ended, was opened again and has a new rule keeps
// it. Ops behind the row are done.
func TestReplayOntoAYoungerRow(t *testing.T) {
	t.Parallel()
	s, r := ruling(t, 0)
	if _, _, err := r.Set(queue.Rule{Match: acme}, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Lift(1, "ana"); err != nil {
		t.Fatal(err)
	}
	about := queue.RuleMatch{Submission: 7}
	r.Part().Put(queue.Rule{ID: 2, Match: about})
	row := r.Part().Row(0)
	if changed := s.Machine.Asides.Take(machine.AsideRules); len(changed) != 1 || changed[0] != (machine.Aside{Kind: machine.AsideRules}) {
		t.Errorf("rows to be written: %v, want that of the rules", changed)
	}

	m := shelltest.New(t).Machine
	again := NewPart(m)
	m.Joined.Parts = []machine.Part{again}
	if err := again.Load(0, row); err != nil {
		t.Fatal(err)
	}
	m.Replay = true
	for i, batch := range s.Commits {
		m.AppliedAt = journal.Position(i + 1)
		if err := journal.Decode(batch, func(at queue.Time) { m.Now = at }, m); err != nil {
			t.Fatal(err)
		}
		again.Ended(&machine.Record{ID: about.Submission})
	}
	if got := again.Row(0); !bytes.Equal(got, row) {
		t.Errorf("after the replay the row is\n%x, was\n%x", got, row)
	}
	m.AppliedAt++
	again.Ended(&machine.Record{ID: about.Submission})
	if past := again.past.List(); again.Len() != 0 || len(past) != 2 || past[0].By != "ana" || past[1].End != queue.RuleOutlived {
		t.Errorf("behind the row: %d rules, past %+v; want none, and the ends of both", again.Len(), past)
	}
	if err := again.Load(0, row[:len(row)-1]); err == nil {
		t.Error("a row that is cut off is read")
	}
}

// Chunks that are handed out while a rule is being prepared are not counted as covered when it comes into effect.
func TestReserveBesideARule(t *testing.T) {
	t.Parallel()
	s, r := ruling(t, 3)
	id := s.Insert(&queue.NewSubmission{Meta: queue.Meta{acme.Entry}, Chunks: queue.Chunks{Count: 3, Prefix: "p/"}, OperationsPerChunk: 5})
	other := s.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 2, Prefix: "p/"}, OperationsPerChunk: 7})
	in := r.draft(acme, func(queue.Ruling) queue.Ruling { return queue.PausedByRule })
	s.Take(id, 1)
	s.Take(other, 1)
	m := s.Machine
	if got := m.Stats.OperationsReady(m.Backlog); got != 9+10+7 {
		t.Errorf("before the rule %d operations are ready, want 26", got)
	}
	m.Backlog.Rules.SetValue(acme.Entry, queue.PausedByRule)
	if got := m.Stats.OperationsReady(m.Backlog); got != 7 {
		t.Errorf("under the rule %d operations are ready, want the 7 of the other submission", got)
	}
	r.reconcile(in)
	m.Backlog.Rules.SetValue(acme.Entry, queue.Unruled)
	if got := m.Stats.OperationsReady(m.Backlog); got != 26 || m.Stats.Covered != [2]uint64{} {
		t.Errorf("after the rule %d operations are ready, and %d covered; want 26 and none", got, m.Stats.Covered)
	}
}
