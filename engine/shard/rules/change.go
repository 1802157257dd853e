package rules

import (
	"fmt"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// CountMost is how many submissions one hold of the mutex enters into a book.
const CountMost = 2000

// allows says why a rule cannot be set; nil: it can. there: a rule of its action and match exists.
func (p *Part) allows(r *queue.Rule, there bool, now queue.Time) error {
	switch sub := p.m.Live(r.Match.Submission); {
	case r.Until != 0 && r.Until <= now:
		return queue.Invalid("/until", "is not ahead of the server's time, %s", now.Std().Format(time.RFC3339))
	case r.Match.Submission != 0 && (sub == nil || sub.Ending):
		return &queue.Error{Code: queue.CodeUnknownSubmission,
			Message: fmt.Sprintf("There is no open submission %s in this queue.", r.Match.Submission)}
	case !there && r.Match.Several != "" && p.Several() >= queue.MaxSeveralRules:
		return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The queue has %d rules about several "+
			"values already, the most it keeps. Lift those that are not needed any more.", queue.MaxSeveralRules)}
	case !there && p.Len() >= queue.MaxRules:
		return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The queue has %d rules already, the most "+
			"it keeps. Lift those that are not needed any more.", queue.MaxRules)}
	}
	return nil
}

// Encode encodes a rule that is set, in the place of the known one if there is one. Its id
// and beginning are drawn here.
func (p *Part) Encode(r *queue.Rule, known *queue.Rule, now queue.Time, acts []queue.Act) {
	if known != nil {
		// the op has the id, so that a replay onto a younger row, in which it is lifted already, lifts it again
		r.ID, r.Since = known.ID, known.Since
	} else {
		p.drawn++
		r.ID, r.Since = p.drawn, now
	}
	p.m.Encode(now).Rule(journal.Rule{Rule: *r})
	if known != nil {
		p.setting = r.ID
		p.m.Batch.Intend(setting{p})
	}
	p.log(now, acts, known, r)
}

// EncodeLift encodes the end of a rule, and the name of the caller.
func (p *Part) EncodeLift(id queue.RuleID, now queue.Time, end queue.RuleEnd, by string, acts []queue.Act) {
	rule, _ := p.ByID(id)
	p.lifting[id] = end == queue.RuleOver
	p.m.Encode(now).Rule(journal.Rule{Lift: true, Rule: queue.Rule{ID: id},
		Grace: now.Add(p.m.Settings.ReservationTimeout), At: now, End: end, By: by})
	p.m.Batch.Intend(lifting{p, id})
	p.log(now, acts, &rule, nil)
}

// lifting is a rule whose end is on its way to the disk, setting one whose change is.
type (
	lifting struct {
		p  *Part
		id queue.RuleID
	}
	setting struct{ p *Part }
)

func (x lifting) Applied(*machine.Machine) { delete(x.p.lifting, x.id) }
func (x lifting) Undo(*machine.Machine)    { delete(x.p.lifting, x.id) }
func (x setting) Applied(*machine.Machine) { x.p.setting = 0 }
func (x setting) Undo(*machine.Machine)    { x.p.setting = 0 }

// Intended counts the marks of intents.
func (p *Part) Intended(count func(what string, n int)) {
	count("rules about to end", len(p.lifting))
	count("rules about to change", int(p.setting))
}

// Lifts says that the end of a rule is on its way to the disk.
func (p *Part) Lifts(id queue.RuleID) bool {
	_, on := p.lifting[id]
	return on
}

// Step ends rules whose time is over, and looks again at submissions that rules spared.
func (p *Part) Step(now queue.Time, most int, parked map[machine.Action]*machine.Parking) int {
	n, more := p.end(now, most, parked)
	if more {
		n = most
	}
	return max(n, p.reconsider(most, now))
}

// end encodes the end of rules whose time is over, at most `most`, and says how many, and whether there are more. All
// together they cover CountMost submissions at most: those of a larger rule are counted beforehand (Large). A rule that
// is just being set again may get another time, and is looked at again later.
func (p *Part) end(now queue.Time, most int, parked map[machine.Action]*machine.Parking) (n int, more bool) {
	room := CountMost
	for _, id := range p.over(now, parked) {
		size := p.sizeOf(id)
		switch {
		case size > CountMost:
			continue
		case n == most || size > room:
			return n, true
		}
		p.m.Lifecycle.Acting = action(id)
		p.EncodeLift(id, now, queue.RuleOver, "", nil)
		room -= size
		n++
	}
	return n, false
}

// Large is a rule whose time is over and that Step leaves alone for its size.
func (p *Part) Large(now queue.Time, parked map[machine.Action]*machine.Parking) (id queue.RuleID, is bool) {
	for _, id := range p.over(now, parked) {
		if p.sizeOf(id) > CountMost {
			return id, true
		}
	}
	return 0, false
}

// over are the rules whose time is over, without the parked ones and those with a change on its way.
func (p *Part) over(now queue.Time, parked map[machine.Action]*machine.Parking) (ids []queue.RuleID) {
	if next := p.NextUntil(); next == 0 || next > now {
		return nil
	}
	for _, id := range p.Due(now) {
		if !p.Lifts(id) && id != p.setting && parked[action(id)] == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// action is the life-cycle worker's end of a rule.
func action(id queue.RuleID) machine.Action { return machine.Action{Kind: machine.KindRule, Rule: id} }

// sizeOf is how many submissions have to be counted again when a rule is set or lifted.
func (p *Part) sizeOf(id queue.RuleID) int {
	switch r, is := p.ByID(id); {
	case is && r.Match.Entry.Key != "":
		return p.m.Backlog.Values.Having(r.Match.Entry)
	case is && r.Match.Several != "":
		return p.m.Backlog.Len()
	}
	return 0
}

// log notes a change in the audit log: before is nil when there was no such rule, after when it is lifted.
func (p *Part) log(now queue.Time, acts []queue.Act, before, after *queue.Rule) {
	var was, is any
	var id queue.RuleID
	if before != nil {
		was, id = state(before), before.ID
	}
	if after != nil {
		is, id = state(after), after.ID
		if before != nil {
			acts = machine.Named(acts, "rule.change")
		}
	}
	p.m.ActLog.Tell(now, machine.Aimed(acts, fmt.Sprintf("rule %d", id)), was, is)
}

// state is the form of a rule in the audit log, with the names of the HTTP API.
func state(r *queue.Rule) map[string]any {
	state := map[string]any{"action": r.Action.String(), "match": r.Match.String()}
	if r.Match.Several != "" {
		match := r.API().Match
		state["conditions"] = &match
	}
	if r.Reason != "" {
		state["reason"] = r.Reason
	}
	if r.Until != 0 {
		state["until"] = r.Until.Std().UTC()
	}
	if r.Insert || r.Revoke {
		state["effects"] = map[string]bool{"insert": r.Insert, "revoke": r.Revoke}
	}
	return state
}
