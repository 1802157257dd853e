package rules

import (
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/trouble"
)

// This file is what callers ask of rules, and how the worker ends those that are too large for one step.

// Rules are the rules of a shard, as its callers see them.
type Rules struct {
	shell.Door[*Part]
	book     *trouble.Book                 // of the worker; the shard's mutex guards it
	ordering locks.Mutex[shell.InOrdering] // held while a rule is set or lifted
}

// Face is the rules of a shard, whose worker has the book.
func Face(door shell.Door[*Part], book *trouble.Book) *Rules {
	return &Rules{Door: door, book: book}
}

// Set sets a rule, durably: from its commit on nothing that it covers is handed out. Its ID and Since are drawn here.
// There is one rule for each action and match: a second one takes its place and keeps its id and beginning, and if it
// asks for the same nothing is written. created is false then. It is refused if its Until is not ahead, about a
// submission that is not open, and beyond MaxRules. The lock ordering is held across all steps, so that drafts of two
// rules cannot mix; calls that only read do not need it. allow is asked with the rule that is there, nil for none, and
// may refuse; nil: it may be any.
func (r *Rules) Set(rule queue.Rule, allow func(now *queue.Rule) error,
	acts ...queue.Act) (set queue.Rule, created bool, err error) {
	r.ordering.Lock()
	defer r.ordering.Unlock()
	defer r.finish(r.begin(rule.Match, &rule))
	defer r.reconcile(r.draft(rule.Match, func(now queue.Ruling) queue.Ruling { return max(now, rule.Ruling()) }))
	var known queue.Rule
	there, same := false, false
	err = shell.Change(r, func(m *machine.Machine, now queue.Time) error {
		known, there = r.Part().Find(rule.Action, rule.Match)
		if err := r.Part().allows(&rule, there, now); err != nil {
			return err
		}
		var before *queue.Rule
		if there {
			before = &known
		}
		if allow != nil {
			if err := allow(before); err != nil {
				return err
			}
		}
		if same = there && known.Same(&rule); same {
			return nil
		}
		r.Part().Encode(&rule, before, now, acts)
		return nil
	})
	if err != nil || same {
		return known, false, err
	}
	found := false
	r.Look(func(m *machine.Machine) {
		set, found = r.Part().Find(rule.Action, rule.Match)
		r.book.Unpark(m, action(rule.ID)) // another time may be what fixes it
	})
	if !found {
		return rule, true, nil // lifted again meanwhile
	}
	r.shelve(rule.Match)
	if rule.Revoke {
		r.revoke(set.ID)
	}
	return set, set.ID == rule.ID && !there, nil
}

// revoke takes back the reservations of what a rule covers, slice by slice. The rule is in force already, so nothing
// that it covers is reserved again behind the walk.
func (r *Rules) revoke(id queue.RuleID) {
	for from, more := uint32(0), true; more; more = from != 0 {
		err := r.Locked(func(_ *machine.Machine, now queue.Time) error {
			from = r.Part().Revokes(id, from, machine.TickMost)
			r.Wake(now)
			return nil
		})
		if err != nil {
			return // a reload has the tokens refused
		}
	}
}

// Lift ends a rule, durably; what it alone covered is handed out from then on, to those
// who wait at once. was is false if it had ended before: that is no mistake. An id that
// was never given is one. by is who asks, for Past.
func (r *Rules) Lift(id queue.RuleID, by string, acts ...queue.Act) (lifted queue.Rule, was bool, err error) {
	return r.lift(id, 0, queue.RuleLifted, by, acts...)
}

// lift is Lift; with a time, of a rule that is over by then only: someone may have set it again.
func (r *Rules) lift(id queue.RuleID, over queue.Time, end queue.RuleEnd, by string,
	acts ...queue.Act) (lifted queue.Rule, was bool, err error) {
	r.ordering.Lock()
	defer r.ordering.Unlock()
	if lifted, was = r.Get(id); was {
		if over != 0 && (lifted.Until == 0 || lifted.Until > over) {
			return lifted, false, nil
		}
		defer r.finish(r.begin(lifted.Match, nil))
		other := queue.Pause
		if lifted.Action == queue.Pause {
			other = queue.Block
		}
		defer r.reconcile(r.draft(lifted.Match, func(queue.Ruling) queue.Ruling {
			return r.Part().Only(other, lifted.Match)
		}))
	}
	err = shell.Change(r, func(_ *machine.Machine, now queue.Time) error {
		part := r.Part()
		lifted, was = part.ByID(id)
		switch {
		case !was && id > part.Last():
			return &queue.Error{Code: queue.CodeUnknownRule,
				Message: fmt.Sprintf("There never was a rule %d in this queue.", id)}
		case !was || part.Lifts(id):
		case r.book.Suspected(action(id)): // no one else is to fail with it again
			r.Seal()
			part.EncodeLift(id, now, end, by, acts)
			r.Seal()
		default:
			part.EncodeLift(id, now, end, by, acts)
		}
		return nil
	})
	if err != nil || !was {
		return lifted, was, err
	}
	r.Look(func(m *machine.Machine) { r.book.Unpark(m, action(id)) })
	r.shelve(lifted.Match)
	return lifted, true, nil
}

// EndLarge ends the rules whose time is over and that cover too many submissions for one step, as an operator would.
// A parked rule is not among them, so the loop ends.
func (r *Rules) EndLarge() {
	for r.endLarge() {
	}
}

// endLarge ends one. more: there may be others.
func (r *Rules) endLarge() (more bool) {
	kind := &r.book.Kinds[machine.KindRule]
	var id queue.RuleID
	var over queue.Time
	is := false
	err := r.Locked(func(_ *machine.Machine, now queue.Time) error {
		id, is = r.Part().Large(now, r.book.Parked)
		is, over = is && kind.May(now), now
		return nil
	})
	if err != nil || !is {
		return false
	}
	_, was, err := r.lift(id, over, queue.RuleOver, "")
	r.Look(func(*machine.Machine) {
		switch {
		case err != nil:
			r.book.Fail(machine.KindRule, err, over)
			r.book.Blame(action(id), err, over)
		case was:
			kind.Pass(over, 1)
			r.book.Clear(action(id))
			r.book.Slices++
		}
		r.book.Assess()
	})
	return err == nil && was
}

// draft counts beforehand, slice by slice, what a value comes under if what rules say of
// it becomes what fn says, so that the change itself is one step. It returns the machine
// that has the draft, nil if there is none; reconcile has to follow.
func (r *Rules) draft(match queue.RuleMatch, fn func(now queue.Ruling) queue.Ruling) (in *machine.Machine) {
	if match.Entry.Key == "" {
		return nil
	}
	err := r.Locked(func(m *machine.Machine, _ queue.Time) error {
		now := r.Part().On(match)
		if ruling := fn(now); ruling != now {
			in = m
			m.Backlog.Rules.Draft(match.Entry, ruling)
		}
		return nil
	})
	if err != nil {
		return nil
	}
	r.slices(in, func(from int) int { return in.Backlog.Rules.Prepare(from, CountMost) })
	return in
}

// reconcile ends a draft, whether or not it came to anything.
func (r *Rules) reconcile(in *machine.Machine) {
	r.slices(in, func(from int) int { return in.Backlog.Rules.Reconcile(from, CountMost) })
}

// shelve puts what has a value, and is held back, behind shut gates, slice by slice, so
// that no reserve has to: nothing depends on when it is done.
func (r *Rules) shelve(match queue.RuleMatch) {
	if match.Entry.Key == "" {
		return
	}
	var in *machine.Machine
	r.Look(func(m *machine.Machine) { in = m })
	r.slices(in, func(from int) int { return in.Backlog.Shelve(match.Entry, from, machine.ShelveMost) })
}

// slices calls fn in holds of the mutex, first with -1, then with what it returned, until
// that is 0 or the machine is gone; nil is.
func (r *Rules) slices(in *machine.Machine, fn func(from int) (next int)) {
	for from, more := -1, in != nil; more; more = from != 0 {
		r.Look(func(m *machine.Machine) {
			if m != in {
				from = 0
				return
			}
			from = fn(from)
		})
	}
}

// List lists the rules by ascending id. The list must not be changed.
func (r *Rules) List() (list []queue.Rule) {
	r.Look(func(*machine.Machine) { list = r.Part().List() })
	return list
}

// Len is how many rules there are.
func (r *Rules) Len() int { return len(r.List()) }

// Held lists the rules by ascending id, each with what it keeps.
func (r *Rules) Held() (list []Held) {
	r.Look(func(*machine.Machine) { list = r.Part().Held(r.Part().List()) })
	return list
}

// Kept are some rules of the list, each with what it keeps.
func (r *Rules) Kept(some []queue.Rule) (list []Held) {
	r.Look(func(*machine.Machine) { list = r.Part().Held(some) })
	return list
}

// Past lists the last queue.MaxEndedRules rules that have ended, the last one first.
func (r *Rules) Past() (list []queue.EndedRule) {
	r.Look(func(*machine.Machine) { list = r.Part().past.List() })
	slices.Reverse(list)
	return list
}

// Get is a rule by its id, false if there is none.
func (r *Rules) Get(id queue.RuleID) (rule queue.Rule, is bool) {
	r.Look(func(*machine.Machine) { rule, is = r.Part().ByID(id) })
	return rule, is
}
