package journal

import (
	"math"

	"github.com/quern-queue/quern/engine/queue"
)

// Rule sets or lifts a rule. Setting one replaces that of the same action and match, whose id and beginning stay; lifting one that is not
// there does nothing: so applying either twice is applying it once.
type Rule struct {
	Lift  bool
	Rule  queue.Rule // of a lift, only the id
	Grace queue.Time // of a lift: until then no dead_deadline of what was covered ends anything
	At    queue.Time // of a lift: when it was decided; 0: an older Quern wrote it, which did not say, nor the next two
	End   queue.RuleEnd
	By    string // who asked for the lift
}

// The flags of a Rule.
const (
	ruleLifts = 1 << iota
	ruleBlocks
	ruleOfValue
	ruleOfSubmission
	ruleInserts
	ruleRevokes
	ruleTells
	endOfRuleFlags
)

// Rule records that a rule is set or lifted.
func (e *Encoder) Rule(r Rule) {
	e.op(opRule)
	e.rule(r)
}

func (e *Encoder) rule(r Rule) {
	flags := uint64(0)
	for _, f := range []struct {
		on   bool
		flag uint64
	}{
		{r.Lift, ruleLifts}, {r.Rule.Action == queue.Block, ruleBlocks}, {r.Rule.Match.Entry.Key != "", ruleOfValue},
		{r.Rule.Match.Submission != 0, ruleOfSubmission}, {r.Rule.Insert, ruleInserts}, {r.Rule.Revoke, ruleRevokes},
		{r.Lift && r.At != 0, ruleTells},
	} {
		if f.on {
			flags |= f.flag
		}
	}
	e.uint(flags)
	e.uint(uint64(r.Rule.ID))
	if r.Lift {
		e.int(int64(r.Grace))
		if r.At != 0 {
			e.ruleEnd(r.At, r.End, r.By)
		}
		return
	}
	if flags&ruleOfValue != 0 {
		e.meta(queue.Meta{r.Rule.Match.Entry})
	}
	if flags&ruleOfSubmission != 0 {
		e.uint(uint64(r.Rule.Match.Submission))
	}
	e.int(int64(r.Rule.Since))
	e.int(int64(r.Rule.Until))
	e.text(r.Rule.Reason)
	e.text(r.Rule.Actor)
}

func (e *Encoder) ruleEnd(at queue.Time, end queue.RuleEnd, by string) {
	e.int(int64(at))
	e.buf = append(e.buf, byte(end))
	e.text(by)
}

func (d *decoder) ruleEnd() (at queue.Time, end queue.RuleEnd, by string) {
	at, end, by = queue.Time(d.int()), queue.RuleEnd(d.byte()), d.text()
	if end > queue.RuleOutlived {
		d.fail()
	}
	return at, end, by
}

func (d *decoder) rule() (r Rule) {
	flags := d.within(endOfRuleFlags - 1)
	r.Rule.ID = queue.RuleID(d.uint32())
	if r.Lift = flags&ruleLifts != 0; r.Lift {
		r.Grace = queue.Time(d.int())
		if flags&ruleTells != 0 {
			if r.At, r.End, r.By = d.ruleEnd(); r.At == 0 {
				d.fail()
			}
		}
		return r
	}
	if flags&ruleTells != 0 {
		d.fail()
	}
	if flags&ruleBlocks != 0 {
		r.Rule.Action = queue.Block
	}
	if flags&ruleOfValue != 0 {
		if meta := d.meta(); len(meta) == 1 {
			r.Rule.Match.Entry = meta[0]
		} else {
			d.fail()
		}
	}
	if flags&ruleOfSubmission != 0 {
		r.Rule.Match.Submission = queue.SubmissionID(d.within(math.MaxUint64))
	}
	r.Rule.Insert, r.Rule.Revoke = flags&ruleInserts != 0, flags&ruleRevokes != 0
	r.Rule.Since, r.Rule.Until = queue.Time(d.int()), queue.Time(d.int())
	r.Rule.Reason, r.Rule.Actor = d.text(), d.text()
	if match := r.Rule.Match; match.Entry.Key != "" && match.Submission != 0 {
		d.fail()
	}
	return r
}

// Rules is what is known of rules at one moment, as the store keeps it.
type Rules struct {
	Position Position     // up to which they are true; 0: not known, as in a row of version 1
	Last     queue.RuleID // the largest id that was ever given
	Rules    []queue.Rule
	Graces   []Grace
}

// Grace is a time before which no dead_deadline of what matches ends anything.
type Grace struct {
	Match queue.RuleMatch
	Until queue.Time
}

// rulesVersion is that of the row. Version 1 has no position.
const rulesVersion = 2

// endedRulesVersion is that of the row of rules that have ended.
const endedRulesVersion = 2

// AppendRules appends the encoding of rules. It is that of a version of its own, described in docs/formats/ops.md.
func AppendRules(dst []byte, r *Rules) []byte {
	e := Encoder{buf: append(dst, rulesVersion)}
	e.uint(uint64(r.Position))
	e.uint(uint64(r.Last))
	e.uint(uint64(len(r.Rules)))
	for i := range r.Rules {
		e.rule(Rule{Rule: r.Rules[i]})
	}
	e.uint(uint64(len(r.Graces)))
	for _, g := range r.Graces {
		e.rule(Rule{Rule: queue.Rule{Match: g.Match, Until: g.Until}})
	}
	return e.buf
}

// DecodeRules reads what AppendRules wrote; of nothing it makes no rules.
func DecodeRules(b []byte) (r Rules, err error) {
	if len(b) == 0 {
		return r, nil
	}
	if b[0] == 0 || b[0] > rulesVersion {
		return r, errDamaged
	}
	d := decoder{b: b[1:]}
	if b[0] > 1 {
		r.Position = Position(d.uint())
	}
	r.Last = queue.RuleID(d.uint32())
	for n := d.within(queue.MaxRules); n > 0 && !d.bad; n-- {
		r.Rules = append(r.Rules, d.rule().Rule)
	}
	for n := d.uint(); n > 0 && !d.bad; n-- {
		g := d.rule().Rule
		r.Graces = append(r.Graces, Grace{g.Match, g.Until})
	}
	if d.bad || len(d.b) > 0 {
		return Rules{}, errDamaged
	}
	return r, nil
}

// AppendEndedRules appends the encoding of rules that have ended, as the store keeps it. It is that of a version of its own, described in
// docs/formats/ops.md.
func AppendEndedRules(dst []byte, list []queue.EndedRule) []byte {
	e := Encoder{buf: append(dst, endedRulesVersion)}
	e.uint(uint64(len(list)))
	for i := range list {
		e.rule(Rule{Rule: list[i].Rule})
		e.ruleEnd(list[i].Ended, list[i].End, list[i].By)
	}
	return e.buf
}

// DecodeEndedRules reads what AppendEndedRules wrote; of nothing it makes none.
func DecodeEndedRules(b []byte) (list []queue.EndedRule, err error) {
	if len(b) == 0 {
		return nil, nil
	}
	if b[0] != endedRulesVersion {
		return nil, errDamaged
	}
	d := decoder{b: b[1:]}
	for n := d.within(queue.MaxEndedRules); n > 0 && !d.bad; n-- {
		r := queue.EndedRule{Rule: d.rule().Rule}
		r.Ended, r.End, r.By = d.ruleEnd()
		list = append(list, r)
	}
	if d.bad || len(d.b) > 0 {
		return nil, errDamaged
	}
	return list, nil
}
