package engine

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/rules"
)

// Set sets a pause or a block, durably: chunks that it covers are not handed out from then on. Set draws ID and Since. If there is a rule
// with the same action and match, Set changes that one, or nothing if it says the same already, and created is false. allow is asked with
// the rule that is there, nil for none, and no other change comes between; a nil allow permits all.
func (p Rules) Set(ctx context.Context, r queue.Rule, allow func(now *queue.Rule) error) (rule queue.Rule, created bool, err error) {
	if err := validRule(&r); err != nil {
		return rule, false, err
	}
	if err := ruleShare(ctx, p.q, &r); err != nil {
		return rule, false, err
	}
	rule, created, err = p.q.shard.Rules.Set(r, allow, p.q.act(ctx, r.Actor, "rule.create", ""))
	if err == nil {
		p.q.e.options.Logger.Info("rule set", "queue", p.q.name, "rule", rule.ID, "action", rule.Action, "match",
			rule.Match, "actor", r.Actor, "reason", r.Reason, "new", created)
	}
	return rule, created, err
}

// Lift ends a rule, durably, and returns it. A rule that ended before is no mistake: was is false. CodeUnknownRule: there never was one of
// this id.
func (p Rules) Lift(ctx context.Context, id queue.RuleID, actor string) (rule queue.Rule, was bool, err error) {
	if err := validActor(actor); err != nil {
		return rule, false, err
	}
	rule, was, err = p.q.shard.Rules.Lift(id, actor, p.q.act(ctx, actor, "rule.lift", ""))
	if err == nil && was {
		p.q.e.options.Logger.Info("rule lifted", "queue", p.q.name, "rule", rule.ID, "action", rule.Action, "match",
			rule.Match, "actor", actor)
	}
	return rule, was, err
}

// HeldRule is a rule with the chunks that it keeps from being handed out.
type HeldRule = rules.Held

// Held lists the rules by ascending id, each with what it keeps.
func (p Rules) Held() []HeldRule { return p.q.shard.Rules.Held() }

// Past lists the last queue.MaxEndedRules rules that have ended, the last one first.
func (p Rules) Past() []queue.EndedRule { return p.q.shard.Rules.Past() }

// Get is a rule of the queue. CodeUnknownRule: there is none of this id, or it has ended.
func (p Rules) Get(id queue.RuleID) (queue.Rule, error) {
	r, is := p.q.shard.Rules.Get(id)
	if !is {
		return r, &queue.Error{Code: queue.CodeUnknownRule, Message: "There is no such rule in this queue, or it has ended."}
	}
	return r, nil
}

// validRule checks a rule of a caller.
func validRule(r *queue.Rule) error {
	switch {
	case (r.Match.Entry.Key != "" || r.Match.Several != "") && r.Match.Submission != 0:
		return queue.Invalid("/match", "names values and a submission; a rule is about one of them, or about the queue")
	case r.Action == queue.Block && strings.TrimSpace(r.Reason) == "":
		return queue.Invalid("/reason", "is needed for a block: say why, for those who meet it")
	case len(r.Reason) > queue.MaxRuleReasonBytes:
		return queue.Invalid("/reason", "has %d bytes; at most %d are allowed", len(r.Reason), queue.MaxRuleReasonBytes)
	case !utf8.ValidString(r.Reason):
		return queue.Invalid("/reason", "is not UTF-8")
	case r.Until < 0:
		return queue.Invalid("/until", "is before 1970")
	}
	if err := validActor(r.Actor); err != nil {
		return err
	}
	if r.Match.Whole() || r.Match.Submission != 0 {
		return nil
	}
	_, err := queue.NewConditions(r.Match.Conditions())
	return err
}

// validActor checks the name of an actor.
func validActor(actor string) error {
	switch {
	case len(actor) > queue.MaxActorBytes:
		return queue.Invalid("/actor", "has %d bytes; at most %d are allowed", len(actor), queue.MaxActorBytes)
	case !utf8.ValidString(actor):
		return queue.Invalid("/actor", "is not UTF-8")
	}
	return nil
}
