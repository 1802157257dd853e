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

// This file has the calls about rules, and the worker's way to end rules that are too large for one step.

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

// Set sets a rule, durably: from its commit on no covered chunk is handed out. Set draws its ID and Since. There is one
// rule for each action and match: a second one takes the place of the first, and keeps its id and beginning; if the two
// are equal, nothing is written. created is false then. Set refuses a rule whose Until is not ahead, one about a
// submission that is not open, and one beyond MaxRules. It holds the lock ordering across all steps, so that drafts of
// two rules cannot mix; calls that only read do not need it. allow gets the existing rule, nil for none, and may refuse
// the change; nil: every change is allowed.
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
		r.book.Unpark(m, action(rule.ID)) // another time may fix it
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

// revoke takes back the reservations of covered chunks, slice by slice. The rule is in force already, so no covered
// chunk is reserved again behind the walk.
func (r *Rules) revoke(id queue.RuleID) {
	for from, more := uint32(0), true; more; more = from != 0 {
		err := r.Locked(func(_ *machine.Machine, now queue.Time) error {
			from = r.Part().Revokes(id, from, machine.TickMost)
			r.Wake(now)
			return nil
		})
		if err != nil {
			return // after a reload the tokens are refused
		}
	}
}

// Lift ends a rule, durably. Chunks that it alone covered are handed out from then on, at once to calls that wait. was
// is false if the rule had ended before, which is no error; an id that was never given is one. `by` is the name of the
// caller, for Past.
func (r *Rules) Lift(id queue.RuleID, by string, acts ...queue.Act) (lifted queue.Rule, was bool, err error) {
	return r.lift(id, 0, queue.RuleLifted, by, acts...)
}

// lift is Lift. With a time, it ends the rule only if that is over by then: someone may have set it again.
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

// draft prepares a change of a value's ruling to the one that fn returns: it counts the affected work beforehand, slice
// by slice, so that the change itself is one step. It returns the machine that has the draft, nil if there is none;
// reconcile has to follow.
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

// reconcile ends a draft, whether or not the change was made.
func (r *Rules) reconcile(in *machine.Machine) {
	r.slices(in, func(from int) int { return in.Backlog.Rules.Reconcile(from, CountMost) })
}

// shelve puts held-back submissions with a value behind shut gates, slice by slice, so that no reserve has to. It does
// not matter when this is done.
func (r *Rules) shelve(match queue.RuleMatch) {
	if match.Entry.Key == "" {
		return
	}
	var in *machine.Machine
	r.Look(func(m *machine.Machine) { in = m })
	r.slices(in, func(from int) int { return in.Backlog.Shelve(match.Entry, from, machine.ShelveMost) })
}

// slices calls fn in holds of the mutex, first with -1, then with its last result, until that is 0 or the machine is
// gone; a nil machine is gone.
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

// Held lists the rules by ascending id, each with the work that it keeps.
func (r *Rules) Held() (list []Held) {
	r.Look(func(*machine.Machine) { list = r.Part().Held(r.Part().List()) })
	return list
}

// Kept are some rules of the list, each with the work that it keeps.
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
