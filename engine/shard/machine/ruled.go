package machine

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
	m *Machine
	*rules.Set
	Drawn   queue.RuleID          // the last id that was drawn
	lifting map[queue.RuleID]bool // those whose end is on its way to the disk; true: by itself
	Setting queue.RuleID          // the one of which a change is on its way there: its time is not known until then; 0: none
	Changed bool                  // since they were stored last
	Applied journal.Position      // up to which they were true when they were loaded: what is older is not to be replayed

	Past        rules.Past // that have ended
	PastChanged bool       // since they were stored last

	// Submissions whose dead_deadline passed while a rule covered them. Below `again` they are to be looked at again: a rule was lifted.
	spared []*Record
	again  int
}

func newActiveRules(m *Machine) activeRules {
	return activeRules{m: m, Set: rules.New(), lifting: map[queue.RuleID]bool{}}
}

// apply sets or lifts a rule.
func (p *activeRules) apply(op journal.Rule) error {
	m := p.m
	if m.Replay && m.AppliedAt <= p.Applied {
		return nil
	}
	p.Changed = true
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
			m.Lifecycle.acted(KindRule, was)
		}
		p.again = len(p.spared)
		return nil
	}
	if id := op.Rule.Match.Submission; id != 0 && !m.Replay && m.Live(id) == nil {
		p.SetLast(op.Rule.ID)
		return nil // it ended meanwhile
	}
	p.Put(op.Rule)
	p.reruled(op.Rule.Match)
	return nil
}

// pass notes a rule that has ended.
func (p *activeRules) pass(r queue.EndedRule) {
	if p.Past.Add(r) {
		p.PastChanged = true
	}
}

// reruled tells the backlog what rules say now of what they match.
func (p *activeRules) reruled(match queue.RuleMatch) {
	m := p.m
	if m.Replay {
		return // settle does
	}
	for _, ruled := range m.Joined.Ruled {
		ruled()
	}
	ruling := p.On(match)
	switch {
	case match.Whole():
		m.Backlog.RuleAll(ruling)
	case match.Submission == 0:
		m.Backlog.RuleValue(match.Entry, ruling)
	default:
		if sub := m.Backlog.ByID(match.Submission); sub != nil {
			m.Backlog.RuleSubmission(sub, ruling)
		}
	}
}

// settle ends a replay: before anything is offered the backlog knows all rules. Those about submissions that ended are gone.
func (p *activeRules) settle() {
	p.Drawn = p.Last()
	for _, r := range p.List() {
		if id := r.Match.Submission; id != 0 && p.m.Live(id) == nil {
			if p.Drop(id) {
				p.Changed = true
			}
			continue
		}
		p.reruled(r.Match)
	}
}

// outlive ends the rules about a submission that ends.
func (p *activeRules) outlive(id queue.SubmissionID) {
	m := p.m
	if m.Replay && m.AppliedAt <= p.Applied {
		return // it may have been opened again since, and have new ones
	}
	for action := range queue.RuleAction(queue.RuleActions) {
		if r, is := p.Find(action, queue.RuleMatch{Submission: id}); is {
			p.pass(queue.EndedRule{Rule: r, Ended: m.Now, End: queue.RuleOutlived})
		}
	}
	if p.Drop(id) {
		p.Changed = true
	}
}

// Ruled is told whenever in a book rules begin or cease to cover a shown submission.
func (p *activeRules) Ruled(sub *backlog.Submission, book int, before, after queue.Ruling) {
	r := sub.Data.(*Record)
	operations := uint64(sub.Available()) * uint64(r.Details().Operations)
	if before != queue.Unruled {
		p.m.Stats.Covered[book] -= operations
	}
	if after != queue.Unruled {
		p.m.Stats.Covered[book] += operations
	}
}

// cover counts operations of a shown submission that rules cover.
func (p *activeRules) cover(r *Record, by uint64) {
	for book := range p.m.Stats.Covered {
		if r.Sub.Counted(book) != queue.Unruled {
			p.m.Stats.Covered[book] += by
		}
	}
}

// Operations are those of the chunks that are ready.
func (p *activeRules) Operations() uint64 {
	m := p.m
	if m.Backlog.Halted() {
		return 0
	}
	return m.Stats.Operations - m.Stats.Covered[m.Backlog.Book()]
}

// CoveringRecord is the rule that counts for a submission, false if none covers it.
func (p *activeRules) CoveringRecord(r *Record) (queue.Rule, bool) {
	if p.Len() == 0 {
		return queue.Rule{}, false
	}
	return p.Covering(r.ID, r.Meta())
}

// end encodes the end of rules whose time is over, at most `most`, and says how many, and whether there are more. All together they
// cover countMost submissions at most: those of a larger rule are counted beforehand (endLarge). One that is just being set again may get
// another time by that, and is looked at again.
func (p *activeRules) end(now queue.Time, most int, parked map[Action]*Parking) (n int, more bool) {
	if next := p.NextUntil(); next == 0 || next > now {
		return 0, false
	}
	room := CountMost
	for _, id := range p.Due(now) {
		a, size := Action{Kind: KindRule, Rule: id}, p.sizeOf(id)
		switch {
		case p.Lifts(id) || id == p.Setting || parked[a] != nil || size > CountMost:
			continue
		case n == most || size > room:
			return n, true
		}
		p.m.Lifecycle.Acting = a
		p.EncodeLift(id, now, queue.RuleOver, "")
		room -= size
		n++
	}
	return n, false
}

// sizeOf is how many submissions have to be counted again when a rule is set or lifted.
func (p *activeRules) sizeOf(id queue.RuleID) int {
	if r, is := p.ByID(id); is && !r.Match.Whole() && r.Match.Submission == 0 {
		return p.m.Backlog.Having(r.Match.Entry)
	}
	return 0
}

// Large is a rule whose time is over and that end leaves alone for its size.
func (p *activeRules) Large(now queue.Time, parked map[Action]*Parking) (id queue.RuleID, is bool) {
	if next := p.NextUntil(); next == 0 || next > now {
		return 0, false
	}
	for _, id := range p.Due(now) {
		if !p.Lifts(id) && id != p.Setting && parked[Action{Kind: KindRule, Rule: id}] == nil && p.sizeOf(id) > CountMost {
			return id, true
		}
	}
	return 0, false
}

// EncodeLift encodes the end of a rule, and who asked for it.
func (p *activeRules) EncodeLift(id queue.RuleID, now queue.Time, end queue.RuleEnd, by string) {
	m := p.m
	p.lifting[id] = end == queue.RuleOver
	m.Encode(now).Rule(journal.Rule{Lift: true, Rule: queue.Rule{ID: id}, Grace: now.Add(m.Settings.ReservationTimeout),
		At: now, End: end, By: by})
	m.Intend(lifting(id))
}

// lifting is a rule whose end is on its way to the disk, setting one that is on its way to be another.
type (
	lifting queue.RuleID
	Setting struct{}
)

func (id lifting) Applied(m *Machine) { delete(m.Rules.lifting, queue.RuleID(id)) }

func (id lifting) Undo(m *Machine) { delete(m.Rules.lifting, queue.RuleID(id)) }

// Applied: the rule holds.
func (Setting) Applied(m *Machine) { m.Rules.Setting = 0 }

// Undo: no rule is on its way any more.
func (Setting) Undo(m *Machine) { m.Rules.Setting = 0 }

// Lifts says that the end of a rule is on its way to the disk.
func (p *activeRules) Lifts(id queue.RuleID) bool {
	_, on := p.lifting[id]
	return on
}

// spare says that the dead_deadline of a submission ends nothing now: a rule covers it, or one that did was lifted so short a time ago
// that no one can have worked on it since.
func (p *activeRules) spare(r *Record, now queue.Time) bool {
	if _, covered := p.CoveringRecord(r); covered {
		p.spared = append(p.spared, r)
		return true
	}
	if grace := p.Grace(r.ID, r.Meta()); grace > now {
		p.m.Lifecycle.Schedule(KindDeadDeadline, Due{At: grace, Seq: r.Seq})
		return true
	}
	return false
}

// reconsider looks at up to `most` of the submissions that were spared and may not be covered any more. It says how many.
func (p *activeRules) reconsider(most int, now queue.Time) (n int) {
	for ; n < most && p.again > 0; n++ {
		p.again--
		r := p.spared[p.again]
		if r.Sub != nil {
			if _, covered := p.CoveringRecord(r); covered {
				continue
			}
			p.m.Lifecycle.Schedule(KindDeadDeadline, Due{At: max(now, p.Grace(r.ID, r.Meta())), Seq: r.Seq})
		}
		last := len(p.spared) - 1
		p.spared[p.again], p.spared[last] = p.spared[last], nil // the last was looked at before
		p.spared = p.spared[:last]
	}
	return n
}

// holdsBack says whether it is rules that keep something of the plan from being handed out.
func (p *activeRules) holdsBack(plan *strategy.Plan) bool {
	views, _ := p.m.Views(plan, nil)
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
		if x := p.m.Live(r.Match.Submission); x != nil && !x.Parked && x.Sub.Available() > 0 && matches(plan, x.Meta()) {
			return true
		}
		if n++; n == looked {
			break
		}
	}
	return false
}

// Revokes gives up to `most` reservations back that a rule takes back, from a slot on, and says from which one to go on; 0: that were
// all. No try is counted, as no one says that anything failed.
func (p *activeRules) Revokes(id queue.RuleID, from uint32, most int) (next uint32) {
	m := p.m
	rule, is := p.ByID(id)
	if !is {
		return 0
	}
	for slot := from; slot < m.Holds.Slots(); slot++ {
		if most--; most < 0 {
			return slot
		}
		h := m.Holds.At(slot)
		if h == nil || h.State != reserver.Held {
			continue
		}
		if r := m.LiveSeq(h.Seq); r != nil && !r.Ending && covers(&rule.Match, r) {
			m.Revoked(r.ID, slot, queue.RevokedRule)
			m.Unhold(r, slot)
			m.Stats.Released++
		}
	}
	return 0
}

// covers says whether a submission is under a match.
func covers(match *queue.RuleMatch, r *Record) bool {
	switch {
	case match.Whole():
		return true
	case match.Submission != 0:
		return match.Submission == r.ID
	}
	value, has := r.Meta().Find(match.Entry.Key)
	return has && value == match.Entry.Value
}

// takenBack is the answer for a token whose reservation a rule took back, false if none did.
func (p *activeRules) takenBack(r *Record) (queue.Result, bool) {
	if p.Len() == 0 {
		return queue.Result{}, false
	}
	rule, is := p.Revoking(r.ID, r.Meta())
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
	count("rules about to change", int(p.Setting))
}
