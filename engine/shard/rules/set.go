package rules

import (
	"cmp"
	"maps"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
)

// scope is an action and a match, for which there is at most one rule.
type scope struct {
	match  queue.RuleMatch
	action queue.RuleAction
}

// Set is the rules of one queue. It is not safe for concurrent use.
type Set struct {
	by      map[scope]*queue.Rule
	byID    map[queue.RuleID]*queue.Rule
	last    queue.RuleID
	graces  map[queue.RuleMatch]queue.Time
	several []*several // the rules about several values
	next    queue.Time // NextUntil
	count   [queue.RuleActions]int
	list    []queue.Rule // List, until something changes; nil: not made yet
}

// New makes an empty set.
func New() *Set {
	return &Set{by: map[scope]*queue.Rule{}, byID: map[queue.RuleID]*queue.Rule{},
		graces: map[queue.RuleMatch]queue.Time{}}
}

// Len is how many rules there are.
func (s *Set) Len() int { return len(s.byID) }

// Count is how many of them have an action.
func (s *Set) Count(action queue.RuleAction) int { return s.count[action] }

// Last is the largest id that the set has ever held.
func (s *Set) Last() queue.RuleID { return s.last }

// SetLast is for ids of rules that were lifted before the set was made.
func (s *Set) SetLast(id queue.RuleID) { s.last = max(s.last, id) }

// Put sets a rule, in the place of the one with its action and match if there is one: that
// one's id and beginning stay.
func (s *Set) Put(r queue.Rule) {
	s.last = max(s.last, r.ID)
	at := scope{r.Match, r.Action}
	if known := s.by[at]; known != nil {
		r.ID, r.Since = known.ID, known.Since
		s.remove(known)
	}
	s.by[at], s.byID[r.ID], s.list = &r, &r, nil
	if r.Match.Several != "" {
		s.putSeveral(&r)
	}
	s.count[r.Action]++
	if r.Until != 0 && (s.next == 0 || r.Until < s.next) {
		s.next = r.Until
	}
}

// remove forgets a rule.
func (s *Set) remove(r *queue.Rule) {
	s.list = nil
	s.count[r.Action]--
	delete(s.byID, r.ID)
	delete(s.by, scope{r.Match, r.Action})
	if r.Match.Several != "" {
		s.removeSeveral(r.ID)
	}
	if r.Until != 0 && r.Until == s.next {
		s.plan()
	}
}

// Lift removes a rule. Until grace, no deadline ends a submission that it covered. It returns the rule; false if there
// was none.
func (s *Set) Lift(id queue.RuleID, grace queue.Time) (r queue.Rule, was bool) {
	known := s.byID[id]
	if known == nil {
		return r, false
	}
	s.remove(known)
	s.graces[known.Match] = max(s.graces[known.Match], grace)
	return *known, true
}

// Drop removes the rules and graces of a submission that has ended, and says whether there were any.
func (s *Set) Drop(id queue.SubmissionID) (any bool) {
	match := queue.RuleMatch{Submission: id}
	for _, action := range []queue.RuleAction{queue.Pause, queue.Block} {
		if r := s.by[scope{match, action}]; r != nil {
			s.remove(r)
			any = true
		}
	}
	_, graced := s.graces[match]
	delete(s.graces, match)
	return any || graced
}

// Find is the rule of an action and a match, false if there is none.
func (s *Set) Find(action queue.RuleAction, match queue.RuleMatch) (r queue.Rule, is bool) {
	if known := s.by[scope{match, action}]; known != nil {
		return *known, true
	}
	return r, false
}

// ByID is a rule by its id, false if there is none.
func (s *Set) ByID(id queue.RuleID) (r queue.Rule, is bool) {
	if known := s.byID[id]; known != nil {
		return *known, true
	}
	return r, false
}

// List is all rules by ascending id. It is made once for each change, and must not be changed.
func (s *Set) List() []queue.Rule {
	if s.list == nil {
		s.list = make([]queue.Rule, 0, len(s.byID))
		for _, id := range slices.Sorted(maps.Keys(s.byID)) {
			s.list = append(s.list, *s.byID[id])
		}
	}
	return s.list
}

// On is the ruling by the rules of exactly this match.
func (s *Set) On(match queue.RuleMatch) queue.Ruling {
	switch {
	case s.by[scope{match, queue.Block}] != nil:
		return queue.BlockedByRule
	case s.by[scope{match, queue.Pause}] != nil:
		return queue.PausedByRule
	}
	return queue.Unruled
}

// Only is the ruling by the rule of this action and match, if there is one.
func (s *Set) Only(action queue.RuleAction, match queue.RuleMatch) queue.Ruling {
	if r := s.by[scope{match, action}]; r != nil {
		return r.Ruling()
	}
	return queue.Unruled
}

// matches calls fn for every match that covers a submission with this meta, until fn returns false. id may be 0: not
// inserted yet.
func matches(id queue.SubmissionID, meta queue.Meta, fn func(queue.RuleMatch) bool) {
	if !fn(queue.RuleMatch{}) || id != 0 && !fn(queue.RuleMatch{Submission: id}) {
		return
	}
	for _, entry := range meta {
		if !fn(queue.RuleMatch{Entry: entry}) {
			return
		}
	}
}

// Covering is the rule that counts for a submission: a block before a pause; among several the widest: the queue before
// a submission before a value before several values. False if none covers it. id is 0 for a submission that is not
// inserted yet.
func (s *Set) Covering(id queue.SubmissionID, meta queue.Meta) (r queue.Rule, covered bool) {
	return s.first(id, meta, func(*queue.Rule) bool { return true })
}

// Refusing is the rule that forbids inserts with this meta, false if none does.
func (s *Set) Refusing(meta queue.Meta) (r queue.Rule, refused bool) {
	return s.first(0, meta, func(r *queue.Rule) bool { return r.Insert })
}

// Revoking is the rule by which reservations of a submission are taken back, false if there is none.
func (s *Set) Revoking(id queue.SubmissionID, meta queue.Meta) (r queue.Rule, revoked bool) {
	return s.first(id, meta, func(r *queue.Rule) bool { return r.Revoke })
}

func (s *Set) first(id queue.SubmissionID, meta queue.Meta, counts func(*queue.Rule) bool) (r queue.Rule, is bool) {
	if len(s.byID) == 0 {
		return r, false
	}
	for _, action := range []queue.RuleAction{queue.Block, queue.Pause} {
		matches(id, meta, func(match queue.RuleMatch) bool {
			if known := s.by[scope{match, action}]; known != nil && counts(known) {
				r, is = *known, true
			}
			return !is
		})
		if !is {
			is = s.covering(meta, &r, func(r *queue.Rule) bool { return r.Action == action && counts(r) })
		}
		if is {
			break
		}
	}
	return r, is
}

// Due lists the rules that end by themselves by now, the earliest first.
func (s *Set) Due(now queue.Time) (ids []queue.RuleID) {
	for id, r := range s.byID {
		if r.Until != 0 && r.Until <= now {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b queue.RuleID) int {
		return cmp.Or(cmp.Compare(s.byID[a].Until, s.byID[b].Until), cmp.Compare(a, b))
	})
	return ids
}

// NextUntil is when the next rule ends by itself, 0 if none does.
func (s *Set) NextUntil() queue.Time { return s.next }

// plan recomputes NextUntil.
func (s *Set) plan() {
	s.next = 0
	for _, r := range s.byID {
		if r.Until != 0 && (s.next == 0 || r.Until < s.next) {
			s.next = r.Until
		}
	}
}

// Grace is a time until which no deadline ends a submission, because a rule that covered it was lifted; 0 if there is
// none. It also holds for a submission that is younger than the lifting, which does no harm, and is simpler.
func (s *Set) Grace(id queue.SubmissionID, meta queue.Meta) (until queue.Time) {
	if len(s.graces) > 0 {
		matches(id, meta, func(match queue.RuleMatch) bool {
			until = max(until, s.graces[match])
			return true
		})
		until = max(until, s.severalGrace(meta))
	}
	return until
}

// SetGrace sets a grace, for a set that is rebuilt.
func (s *Set) SetGrace(match queue.RuleMatch, until queue.Time) {
	s.graces[match] = max(s.graces[match], until)
}

// Graces calls fn for the graces that are not over by now, in a fixed order, and forgets the others.
func (s *Set) Graces(now queue.Time, fn func(match queue.RuleMatch, until queue.Time)) {
	maps.DeleteFunc(s.graces, func(_ queue.RuleMatch, until queue.Time) bool { return until <= now })
	for _, match := range slices.SortedFunc(maps.Keys(s.graces), compareMatches) {
		fn(match, s.graces[match])
	}
}

func compareMatches(a, b queue.RuleMatch) int {
	return cmp.Or(cmp.Compare(a.Submission, b.Submission), cmp.Compare(a.Entry.Key, b.Entry.Key),
		a.Entry.Value.Compare(b.Entry.Value), cmp.Compare(a.Several, b.Several))
}
