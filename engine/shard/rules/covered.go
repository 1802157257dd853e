package rules

import (
	"fmt"
	"time"

	"github.com/quern-queue/quern/engine/marks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// covers says that a rule covers a submission.
func (p *Part) covers(r *machine.Record) bool {
	if p.Len() == 0 {
		return false
	}
	_, covered := p.Covering(r.ID, r.Meta())
	return covered
}

// Spares says that the dead_deadline of a submission does not end it now: a rule covers it, or was lifted so recently
// that no one can have worked on it since. A pause must not let a customer's work expire, because no chunk is handed
// out while it lasts. When it ends, one reservation timeout is left for the work.
func (p *Part) Spares(r *machine.Record, now queue.Time) bool {
	if p.covers(r) {
		marks.Hit("a dead_deadline passes under a pause")
		p.spared = append(p.spared, r)
		return true
	}
	if grace := p.Grace(r.ID, r.Meta()); grace > now {
		marks.Hit("a dead_deadline passes a moment after a pause")
		p.m.Lifecycle.Schedule(machine.KindDeadDeadline, machine.Due{At: grace, Seq: r.Seq})
		return true
	}
	return false
}

// reconsider looks at up to `most` of the spared submissions that may no longer be covered. It says how many. It goes
// down from the last one, so that a submission swapped into a free place was already looked at.
func (p *Part) reconsider(most int, now queue.Time) (n int) {
	for ; n < most && p.again > 0; n++ {
		p.again--
		r := p.spared[p.again]
		if r.Sub != nil {
			if p.covers(r) {
				continue
			}
			p.m.Lifecycle.Schedule(machine.KindDeadDeadline,
				machine.Due{At: max(now, p.Grace(r.ID, r.Meta())), Seq: r.Seq})
		}
		last := len(p.spared) - 1
		p.spared[p.again], p.spared[last] = p.spared[last], nil // the last was looked at before
		p.spared = p.spared[:last]
	}
	return n
}

// HoldsBack says whether rules keep chunks of the plan from being handed out. Counters of views answer for rules about
// values and the whole queue. Rules about single submissions are looked at one by one, and at most 64: the answer only
// explains an empty reserve.
func (p *Part) HoldsBack(plan *strategy.Plan) bool {
	if p.Len() == 0 {
		return false
	}
	views, _ := p.m.Views(plan, nil)
	for _, v := range views {
		if v != nil && v.HeldByRules() {
			return true
		}
	}
	if p.severalHold(plan) {
		return true
	}
	const looked = 64
	n := 0
	for _, r := range p.List() {
		if r.Match.Submission == 0 {
			continue
		}
		if x := p.m.Live(r.Match.Submission); x != nil && !x.Parked && x.Sub.Available() > 0 &&
			machine.Matches(plan, x.Meta()) {
			return true
		}
		if n++; n == looked {
			break
		}
	}
	return false
}

// Revokes gives back up to `most` reservations that a rule takes back, from a slot on, and says from which one to go
// on; 0: there are no more. No try is counted, as nothing failed. It is called in slices by slot. Reservations that
// begin meanwhile are of chunks that the rule does not cover, because it is in force already.
func (p *Part) Revokes(id queue.RuleID, from uint32, most int) (next uint32) {
	m := p.m
	rule, is := p.ByID(id)
	if !is {
		return 0
	}
	conditions := rule.Match.Conditions()
	for slot := from; slot < m.Holds.Slots(); slot++ {
		if most--; most < 0 {
			return slot
		}
		h := m.Holds.At(slot)
		if h == nil || h.State != reserver.Held {
			continue
		}
		if r := m.LiveSeq(h.Seq); r != nil && !r.Ending && covers(&rule.Match, conditions, r) {
			m.Revoked(r.ID, slot, queue.RevokedRule)
			m.Unhold(r, slot)
			m.Stats.Released++
		}
	}
	return 0
}

// covers says whether a match, with these conditions, covers a submission.
func covers(match *queue.RuleMatch, conditions queue.Conditions, r *machine.Record) bool {
	if match.Submission != 0 {
		return match.Submission == r.ID
	}
	return match.Whole() || conditions.Cover(r.Meta())
}

// TakenBack is the answer for a token whose reservation a rule took back, false if none did.
func (p *Part) TakenBack(r *machine.Record) (queue.Result, bool) {
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

// Refusal is why a submission with this meta may not be inserted now, nil if it may. The mutex is held.
func (p *Part) Refusal(meta queue.Meta) error {
	rule, refused := p.Refusing(meta)
	if !refused {
		return nil
	}
	text := describe(&rule)
	if rule.Until != 0 {
		text += fmt.Sprintf(". It ends at %s", rule.Until.Std().Format(time.RFC3339))
	}
	return &queue.Error{Code: queue.CodeRefusedByRule, Message: "Inserts are refused by " + text + ".",
		Err: &queue.RefusedBy{Rule: rule}}
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

// Held is a rule that holds, with the chunks that it keeps from being handed out. Several
// rules may keep the same ones.
type Held struct {
	queue.Rule
	Chunks uint64
}

// Held are some rules, each with the chunks that it keeps.
func (p *Part) Held(list []queue.Rule) []Held {
	held := make([]Held, len(list))
	several := p.severalKept()
	for i := range list {
		held[i] = Held{Rule: list[i], Chunks: several[list[i].ID]}
		if list[i].Match.Several == "" {
			held[i].Chunks = p.keptBy(&list[i].Match)
		}
	}
	return held
}

// keptBy counts the chunks under a match that would be available without any rules.
func (p *Part) keptBy(match *queue.RuleMatch) uint64 {
	m := p.m
	switch {
	case match.Whole():
		n := m.Backlog.Rules.Amounts()
		return n.Paused + n.Blocked
	case match.Submission == 0:
		n := m.Backlog.Values.Of(match.Entry.Key, match.Entry.Value)
		return n.Paused + n.Blocked
	}
	if r := m.Record(match.Submission); r != nil {
		sub := machine.Info(r, "")
		return uint64(sub.Paused) + uint64(sub.Blocked)
	}
	return 0
}
