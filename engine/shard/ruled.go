package shard

import (
	"fmt"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/rules"
	"github.com/quern-queue/quern/engine/strategy"
)

// This file is what rules mean to the machine: who is covered, what happens when one is set or lifted, and whose dead_deadline waits.
// That nothing covered is handed out is the backlog's affair (engine/backlog/ruled.go).

// activeRules are the part of the machine that knows which rules there are, whom they cover, and which of those that ended are remembered.
type activeRules struct {
	m *machine
	*rules.Set
	drawn   queue.RuleID          // the last id that was drawn
	lifting map[queue.RuleID]bool // those whose end is on its way to the disk; true: by itself
	setting queue.RuleID          // the one of which a change is on its way there: its time is not known until then; 0: none
	changed bool                  // since they were stored last
	applied journal.Position      // up to which they were true when they were loaded: what is older is not to be replayed

	past        rules.Past // that have ended
	pastChanged bool       // since they were stored last

	// Submissions whose dead_deadline passed while a rule covered them. Below `again` they are to be looked at again: a rule was lifted.
	spared []*record
	again  int
}

func newActiveRules(m *machine) activeRules {
	return activeRules{m: m, Set: rules.New(), lifting: map[queue.RuleID]bool{}}
}

// apply sets or lifts a rule.
func (p *activeRules) apply(op journal.Rule) error {
	m := p.m
	if m.replay && m.applied <= p.applied {
		return nil
	}
	p.changed = true
	if op.Lift {
		itself := p.lifting[op.Rule.ID]
		r, was := p.Lift(op.Rule.ID, op.Grace)
		if was {
			if op.At != 0 {
				p.pass(queue.EndedRule{Rule: r, Ended: op.At, End: op.End, By: op.By})
			}
			p.reruled(r.Match)
		}
		if itself {
			m.lifecycle.acted(KindRule, was)
		}
		p.again = len(p.spared)
		return nil
	}
	if id := op.Rule.Match.Submission; id != 0 && !m.replay && m.live(id) == nil {
		p.SetLast(op.Rule.ID)
		return nil // it ended meanwhile
	}
	p.Put(op.Rule)
	p.reruled(op.Rule.Match)
	return nil
}

// pass notes a rule that has ended.
func (p *activeRules) pass(r queue.EndedRule) {
	if p.past.Add(r) {
		p.pastChanged = true
	}
}

// reruled tells the backlog what rules say now of what they match.
func (p *activeRules) reruled(match queue.RuleMatch) {
	m := p.m
	if m.replay {
		return // settle does
	}
	m.schedules.stirHeld()
	ruling := p.On(match)
	switch {
	case match.Whole():
		m.backlog.RuleAll(ruling)
	case match.Submission == 0:
		m.backlog.RuleValue(match.Entry, ruling)
	default:
		if sub := m.backlog.ByID(match.Submission); sub != nil {
			m.backlog.RuleSubmission(sub, ruling)
		}
	}
}

// settle ends a replay: before anything is offered the backlog knows all rules. Those about submissions that ended are gone.
func (p *activeRules) settle() {
	p.drawn = p.Last()
	for _, r := range p.List() {
		if id := r.Match.Submission; id != 0 && p.m.live(id) == nil {
			if p.Drop(id) {
				p.changed = true
			}
			continue
		}
		p.reruled(r.Match)
	}
}

// outlive ends the rules about a submission that ends.
func (p *activeRules) outlive(id queue.SubmissionID) {
	m := p.m
	if m.replay && m.applied <= p.applied {
		return // it may have been opened again since, and have new ones
	}
	for action := range queue.RuleAction(queue.RuleActions) {
		if r, is := p.Find(action, queue.RuleMatch{Submission: id}); is {
			p.pass(queue.EndedRule{Rule: r, Ended: m.now, End: queue.RuleOutlived})
		}
	}
	if p.Drop(id) {
		p.changed = true
	}
}

// ruled is told whenever in a book rules begin or cease to cover a shown submission.
func (p *activeRules) ruled(sub *backlog.Submission, book int, before, after queue.Ruling) {
	r := sub.Data.(*record)
	operations := uint64(sub.Available()) * uint64(r.details().operations)
	if before != queue.Unruled {
		p.m.stats.covered[book] -= operations
	}
	if after != queue.Unruled {
		p.m.stats.covered[book] += operations
	}
}

// cover counts operations of a shown submission that rules cover.
func (p *activeRules) cover(r *record, by uint64) {
	for book := range p.m.stats.covered {
		if r.sub.Counted(book) != queue.Unruled {
			p.m.stats.covered[book] += by
		}
	}
}

// operations are those of the chunks that are ready.
func (p *activeRules) operations() uint64 {
	m := p.m
	if m.backlog.Halted() {
		return 0
	}
	return m.stats.operations - m.stats.covered[m.backlog.Book()]
}

// covering is the rule that counts for a submission, false if none covers it.
func (p *activeRules) covering(r *record) (queue.Rule, bool) {
	if p.Len() == 0 {
		return queue.Rule{}, false
	}
	return p.Covering(r.id, r.meta())
}

// end encodes the end of rules whose time is over, at most `most`, and says how many, and whether there are more. All together they
// cover countMost submissions at most: those of a larger rule are counted beforehand (endLarge). One that is just being set again may get
// another time by that, and is looked at again.
func (p *activeRules) end(now queue.Time, most int, parked map[Action]*parking) (n int, more bool) {
	if next := p.NextUntil(); next == 0 || next > now {
		return 0, false
	}
	room := countMost
	for _, id := range p.Due(now) {
		a, size := Action{Kind: KindRule, Rule: id}, p.sizeOf(id)
		switch {
		case p.lifts(id) || id == p.setting || parked[a] != nil || size > countMost:
			continue
		case n == most || size > room:
			return n, true
		}
		p.m.lifecycle.acting = a
		p.lift(id, now, queue.RuleOver, "")
		room -= size
		n++
	}
	return n, false
}

// sizeOf is how many submissions have to be counted again when a rule is set or lifted.
func (p *activeRules) sizeOf(id queue.RuleID) int {
	if r, is := p.ByID(id); is && !r.Match.Whole() && r.Match.Submission == 0 {
		return p.m.backlog.Having(r.Match.Entry)
	}
	return 0
}

// large is a rule whose time is over and that end leaves alone for its size.
func (p *activeRules) large(now queue.Time, parked map[Action]*parking) (id queue.RuleID, is bool) {
	if next := p.NextUntil(); next == 0 || next > now {
		return 0, false
	}
	for _, id := range p.Due(now) {
		if !p.lifts(id) && id != p.setting && parked[Action{Kind: KindRule, Rule: id}] == nil && p.sizeOf(id) > countMost {
			return id, true
		}
	}
	return 0, false
}

// lift encodes the end of a rule, and who asked for it.
func (p *activeRules) lift(id queue.RuleID, now queue.Time, end queue.RuleEnd, by string) {
	m := p.m
	p.lifting[id] = end == queue.RuleOver
	m.encode(now).Rule(journal.Rule{Lift: true, Rule: queue.Rule{ID: id}, Grace: now.Add(m.settings.ReservationTimeout),
		At: now, End: end, By: by})
	m.intend(lifting(id))
}

// lifting is a rule whose end is on its way to the disk, setting one that is on its way to be another.
type (
	lifting queue.RuleID
	setting struct{}
)

func (id lifting) Applied(m *machine) { delete(m.rules.lifting, queue.RuleID(id)) }
func (id lifting) Undo(m *machine)    { delete(m.rules.lifting, queue.RuleID(id)) }
func (setting) Applied(m *machine)    { m.rules.setting = 0 }
func (setting) Undo(m *machine)       { m.rules.setting = 0 }

// lifts says that the end of a rule is on its way to the disk.
func (p *activeRules) lifts(id queue.RuleID) bool {
	_, on := p.lifting[id]
	return on
}

// spare says that the dead_deadline of a submission ends nothing now: a rule covers it, or one that did was lifted so short a time ago
// that no one can have worked on it since.
func (p *activeRules) spare(r *record, now queue.Time) bool {
	if _, covered := p.covering(r); covered {
		p.spared = append(p.spared, r)
		return true
	}
	if grace := p.Grace(r.id, r.meta()); grace > now {
		p.m.lifecycle.schedule(KindDeadDeadline, due{at: grace, seq: r.seq})
		return true
	}
	return false
}

// reconsider looks at up to `most` of the submissions that were spared and may not be covered any more. It says how many.
func (p *activeRules) reconsider(most int, now queue.Time) (n int) {
	for ; n < most && p.again > 0; n++ {
		p.again--
		r := p.spared[p.again]
		if r.sub != nil {
			if _, covered := p.covering(r); covered {
				continue
			}
			p.m.lifecycle.schedule(KindDeadDeadline, due{at: max(now, p.Grace(r.id, r.meta())), seq: r.seq})
		}
		last := len(p.spared) - 1
		p.spared[p.again], p.spared[last] = p.spared[last], nil // the last was looked at before
		p.spared = p.spared[:last]
	}
	return n
}

// holdsBack says whether it is rules that keep something of the plan from being handed out.
func (p *activeRules) holdsBack(plan *strategy.Plan) bool {
	views, _ := p.m.views(plan, nil)
	for _, v := range views {
		if v != nil && v.HeldByRules() {
			return true
		}
	}
	const looked = 64
	n := 0
	for _, r := range p.List() {
		if r.Match.Submission == 0 {
			continue
		}
		if x := p.m.live(r.Match.Submission); x != nil && !x.parked && x.sub.Available() > 0 && matches(plan, x.meta()) {
			return true
		}
		if n++; n == looked {
			break
		}
	}
	return false
}

// revokes gives up to `most` reservations back that a rule takes back, from a slot on, and says from which one to go on; 0: that were
// all. No try is counted, as no one says that anything failed.
func (p *activeRules) revokes(id queue.RuleID, from uint32, most int) (next uint32) {
	m := p.m
	rule, is := p.ByID(id)
	if !is {
		return 0
	}
	for slot := from; slot < m.holds.Slots(); slot++ {
		if most--; most < 0 {
			return slot
		}
		h := m.holds.At(slot)
		if h == nil || h.State != reserver.Held {
			continue
		}
		if r := m.liveSeq(h.Seq); r != nil && !r.ending && covers(&rule.Match, r) {
			m.revoked(r.id, slot, queue.RevokedRule)
			m.unhold(r, slot)
			m.stats.released++
		}
	}
	return 0
}

// covers says whether a submission is under a match.
func covers(match *queue.RuleMatch, r *record) bool {
	switch {
	case match.Whole():
		return true
	case match.Submission != 0:
		return match.Submission == r.id
	}
	value, has := r.meta().Find(match.Entry.Key)
	return has && value == match.Entry.Value
}

// takenBack is the answer for a token whose reservation a rule took back, false if none did.
func (p *activeRules) takenBack(r *record) (queue.Result, bool) {
	if p.Len() == 0 {
		return queue.Result{}, false
	}
	rule, is := p.Revoking(r.id, r.meta())
	if !is {
		return queue.Result{}, false
	}
	return queue.Result{Outcome: queue.OutcomeLost, Code: "reservation_revoked",
		Detail: "an operator took the reservation back: " + describe(&rule)}, true
}

// describe is a rule as part of a sentence.
func describe(r *queue.Rule) string {
	text := fmt.Sprintf("a %s of %s (rule %d", r.Action, r.Match, r.ID)
	if r.Actor != "" {
		text += fmt.Sprintf(", set by %q", r.Actor)
	}
	if text += ")"; r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

// intended counts what intents have left.
func (p *activeRules) intended(count func(what string, n int)) {
	count("rules about to end", len(p.lifting))
	count("rules about to change", int(p.setting))
}
