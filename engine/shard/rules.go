package shard

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/rules"
	"github.com/quern-queue/quern/engine/store"
)

// The names under which the store keeps the rules, and those that have ended.
const (
	rulesName     = "rules"
	pastRulesName = "rules_past"
)

// Rules are the rules of a shard, as its callers see them.
type Rules struct{ s *Shard }

// Set sets a rule, durably: from its commit on nothing that it covers is handed out. Its ID and Since are drawn here. There is one rule
// for each action and match: a second one takes its place and keeps its id and beginning, and if it asks for the same nothing is
// written. created is false then. It is refused if its Until is not ahead, about a submission that is not open, and beyond MaxRules.
func (p *Rules) Set(r queue.Rule, acts ...queue.Act) (set queue.Rule, created bool, err error) {
	s := p.s
	s.ordering.Lock()
	defer s.ordering.Unlock()
	counted := p.draft(r.Match, func(now queue.Ruling) queue.Ruling { return max(now, r.Ruling()) })
	defer p.reconcile(counted)
	now := s.now()
	s.mu.Lock()
	m, part := s.m, s.parts.rules
	known, there := part.Find(r.Action, r.Match)
	switch err = s.usable(); {
	case err != nil:
	case r.Until != 0 && r.Until <= now:
		err = queue.Invalid("/until", "is not ahead of the server's time, %s", now.Std().Format(time.RFC3339))
	case r.Match.Submission != 0 && (m.Live(r.Match.Submission) == nil || m.Live(r.Match.Submission).Ending):
		err = &queue.Error{Code: queue.CodeUnknownSubmission,
			Message: fmt.Sprintf("There is no open submission %s in this queue.", r.Match.Submission)}
	case !there && part.Len() >= queue.MaxRules:
		err = &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The queue has %d rules already, the most "+
			"it keeps. Lift those that are not needed any more.", queue.MaxRules)}
	}
	if err != nil || there && known.Same(&r) {
		s.mu.Unlock()
		return known, false, err
	}
	var before *queue.Rule
	if there {
		before = &known
	}
	part.Encode(&r, before, now, acts)
	waits := commit.Set{First: m.Batch.Commit}
	s.mu.Unlock()
	if err := s.writer.wait(waits); err != nil {
		return queue.Rule{}, false, err
	}
	s.mu.Lock()
	set, found := s.parts.rules.Find(r.Action, r.Match)
	s.Worker.unpark(machine.Action{Kind: machine.KindRule, Rule: r.ID}) // another time may be what fixes it
	s.mu.Unlock()
	if !found {
		return r, true, nil // lifted again meanwhile
	}
	p.shelve(r.Match)
	if r.Revoke {
		p.revoke(set.ID)
	}
	return set, set.ID == r.ID && !there, nil
}

// revoke takes back the reservations of what a rule covers, slice by slice.
func (p *Rules) revoke(id queue.RuleID) {
	s := p.s
	for from, more := uint32(0), true; more; more = from != 0 {
		now := s.now()
		s.mu.Lock()
		if s.usable() != nil {
			s.mu.Unlock()
			return
		}
		from = s.parts.rules.Revokes(id, from, machine.TickMost)
		s.waiters.serve(now)
		s.mu.Unlock()
	}
}

// Lift ends a rule, durably; what it alone covered is handed out from then on, to those who wait at once. was is false if it had ended
// before: that is no mistake. An id that was never given is one. by is who asks, for Past.
func (p *Rules) Lift(id queue.RuleID, by string, acts ...queue.Act) (lifted queue.Rule, was bool, err error) {
	return p.lift(id, 0, queue.RuleLifted, by, acts...)
}

// endLarge ends a rule whose time is over and that covers too many submissions for one step, as an operator would. more: there may be
// others.
func (p *Rules) endLarge() (more bool) {
	s := p.s
	t, now := &s.Worker.kinds[machine.KindRule], s.now()
	s.mu.Lock()
	id, is := s.parts.rules.Large(now, s.Worker.parked)
	is = is && s.usable() == nil && t.may(now)
	s.mu.Unlock()
	if !is {
		return false
	}
	_, was, err := p.lift(id, now, queue.RuleOver, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		t.fail(err, now, s.options.Seed())
		s.Worker.blame(machine.Action{Kind: machine.KindRule, Rule: id}, err, now)
	case was:
		t.pass(now, 1)
		delete(s.Worker.blamed, machine.Action{Kind: machine.KindRule, Rule: id})
		s.Worker.slices++
	}
	s.Worker.assess()
	return err == nil && was
}

// lift is Lift; with a time, of a rule that is over by then only: someone may have set it again.
func (p *Rules) lift(id queue.RuleID, over queue.Time, end queue.RuleEnd, by string,
	acts ...queue.Act) (lifted queue.Rule, was bool, err error) {
	s := p.s
	s.ordering.Lock()
	defer s.ordering.Unlock()
	stands := func(r *queue.Rule) bool { return over != 0 && (r.Until == 0 || r.Until > over) }
	if lifted, was = p.Get(id); was && stands(&lifted) {
		return lifted, false, nil
	}
	if was {
		other := queue.Pause
		if lifted.Action == queue.Pause {
			other = queue.Block
		}
		defer p.reconcile(p.draft(lifted.Match, func(queue.Ruling) queue.Ruling { return s.parts.rules.Only(other, lifted.Match) }))
	}
	now := s.now()
	s.mu.Lock()
	lifted, was = s.parts.rules.ByID(id)
	var waits commit.Set
	switch err = s.usable(); {
	case err != nil:
	case !was && id > s.parts.rules.Last():
		err = &queue.Error{Code: queue.CodeUnknownRule, Message: fmt.Sprintf("There never was a rule %d in this queue.", id)}
	case !was:
	case s.parts.rules.Lifts(id):
		waits.Add(s.writer.pending())
	default:
		alone := s.Worker.blamed[machine.Action{Kind: machine.KindRule, Rule: id}] > 0 // no one else is to fail with it again
		if alone {
			s.writer.seal()
		}
		s.parts.rules.EncodeLift(id, now, end, by, acts)
		waits.Add(s.m.Batch.Commit)
		if alone {
			s.writer.seal()
		}
	}
	s.mu.Unlock()
	if err != nil {
		return queue.Rule{}, false, err
	}
	if err := s.writer.wait(waits); err != nil || !was {
		return lifted, was, err
	}
	s.mu.Lock()
	s.Worker.unpark(machine.Action{Kind: machine.KindRule, Rule: id})
	s.mu.Unlock()
	p.shelve(lifted.Match)
	return lifted, was, nil
}

// draft counts beforehand, slice by slice, what a value comes under if what rules say of it becomes what fn says, so that the change itself
// is one step. It returns the machine that has the draft, nil if there is none; reconcile has to follow.
func (p *Rules) draft(match queue.RuleMatch, fn func(now queue.Ruling) queue.Ruling) (in *machine.Machine) {
	s := p.s
	if match.Whole() || match.Submission != 0 {
		return nil
	}
	s.mu.Lock()
	if s.usable() == nil {
		now := s.parts.rules.On(match)
		if ruling := fn(now); ruling != now {
			in = s.m
			in.Backlog.Rules.Draft(match.Entry, ruling)
		}
	}
	s.mu.Unlock()
	p.slicesOf(in, func(from int) int { return in.Backlog.Rules.Prepare(from, rules.CountMost) })
	return in
}

// reconcile ends a draft, whether or not it came to anything.
func (p *Rules) reconcile(in *machine.Machine) {
	p.slicesOf(in, func(from int) int { return in.Backlog.Rules.Reconcile(from, rules.CountMost) })
}

// slicesOf calls fn in holds of the mutex, first with -1, then with what it returned, until that is 0 or the machine is gone; nil is.
func (p *Rules) slicesOf(in *machine.Machine, fn func(from int) (next int)) {
	s := p.s
	for from, more := -1, in != nil; more; more = from != 0 {
		s.mu.Lock()
		if s.m != in {
			s.mu.Unlock()
			return
		}
		from = fn(from)
		s.mu.Unlock()
	}
}

// shelve puts what has a value, and is held back, behind shut gates, slice by slice, so that no reserve has to: nothing depends on
// when it is done.
func (p *Rules) shelve(match queue.RuleMatch) {
	s := p.s
	if match.Whole() || match.Submission != 0 {
		return
	}
	s.mu.Lock()
	in := s.m
	s.mu.Unlock()
	p.slicesOf(in, func(from int) int { return in.Backlog.Shelve(match.Entry, from, machine.ShelveMost) })
}

// List lists the rules by ascending id. The list must not be changed.
func (p *Rules) List() []queue.Rule {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts.rules.List()
}

// Len is how many rules there are.
func (p *Rules) Len() int {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts.rules.Len()
}

// Held lists the rules by ascending id, each with what it keeps.
func (p *Rules) Held() []rules.Held {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts.rules.Held()
}

// Past lists the last queue.MaxEndedRules rules that have ended, the last one first.
func (p *Rules) Past() []queue.EndedRule {
	s := p.s
	s.mu.Lock()
	list := s.parts.rules.Ends()
	s.mu.Unlock()
	slices.Reverse(list)
	return list
}

// Get is a rule by its id, false if there is none.
func (p *Rules) Get(id queue.RuleID) (queue.Rule, bool) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts.rules.ByID(id)
}

// Covering is the rule that counts for submissions with this meta, also for those that are not inserted yet; false if none covers them.
func (p *Rules) Covering(meta queue.Meta) (queue.Rule, bool) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts.rules.Covering(0, meta)
}

// store writes the rows that changed: first what ended, so that nothing is in neither row. What is in both ends again in the replay.
func (p *Rules) store(ctx context.Context, part *rules.Part, rows rules.Rows) error {
	s := p.s
	put := func(name string, row []byte) error {
		if row == nil {
			return nil
		}
		return s.disk.write(func() error { return s.store.PutStanding(ctx, name, row) })
	}
	err := put(pastRulesName, rows.Past)
	if err == nil {
		err = put(rulesName, rows.Standing)
	}
	if err != nil {
		s.mu.Lock()
		part.Unstored(rows)
		s.mu.Unlock()
	}
	return err
}

// loadRules reads what store wrote.
func loadRules(ctx context.Context, from *store.Store, part *rules.Part) error {
	standing, err := from.Standing(ctx, rulesName)
	if err != nil {
		return err
	}
	past, err := from.Standing(ctx, pastRulesName)
	if err != nil {
		return err
	}
	return part.Load(rules.Rows{Standing: standing, Past: past})
}
