package web

// Pauses and blocks over HTTP. They take either of two scopes: consume, so that people who work
// with a queue can stop it, and operate. Only admin may block. The action is in the body, so the
// handler checks this, not the table.
//
// Setting a rule again replaces its reason, end and effects, and lifting it again changes nothing. So two operators
// who pause the same thing do not undo each other. An operator who does not want to replace the other's reason sends
// a condition. A lift has no condition: the rule that it ends is still listed, with its reason, and can be set
// again.

import (
	"context"
	"fmt"
	"reflect"
	"strconv"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	setRuleAbout = "From the answer on, no strategy hands out chunks that the rule covers; consumers may " +
		"finish the chunks that they hold. A block takes precedence over a pause, and each is set and lifted by " +
		"itself. There is one rule per action and match: the same rule again changes nothing and answers 200; " +
		"another reason, end or effect changes that rule. With If-Match, the server changes only a rule with this " +
		"ETag; with `If-None-Match: *` it only sets a new one; else the answer is 412. `effects.insert` refuses " +
		"inserts with 423 (it has no effect in a rule about a submission). `effects.revoke` releases reservations " +
		"without counting an attempt. " +
		"The scopes consume and operate may pause; only admin may block. Retries, run_at and deadlines of " +
		"reservations continue. A dead_deadline waits until the rule ends, and then for one reservation timeout more."
	liftRuleAbout = "From then on, the server hands out the chunks that no other rule covers, first to waiting " +
		"consumers. Lifting a rule that has ended answers the same. Only admin may lift a block."
	listRulesAbout = "Active rules, by ascending id. `state=ended` lists the last 1,000 rules that ended, the " +
		"latest first: how and when they ended, and who lifted them."
)

// rules are the handlers of pauses and blocks.
type rules struct{ engine *engine.Engine }

// routes are the part of the table about rules.
func (x rules) routes(r *router) {
	registerIn(r, operation{id: "list-rules",
		shards: rulesOverShards,
		method: "GET", path: "/v1/queues/{queue}/rules", scope: scopeRead,
		narrow: inQueue | inHandler, tag: tagRules, compress: true,
		summary: "List a queue's pauses and blocks", about: listRulesAbout}, x.list)
	registerIn(r, operation{id: "set-rule", shards: setRuleInShards, act: act{"rule.create", ""}, method: "POST",
		path:  "/v1/queues/{queue}/rules",
		scope: scopeConsume | scopeOperate, narrow: inQueue | inHandler, tag: tagRules,
		creates: reflect.TypeFor[api.Rule](),
		summary: "Pause or block a queue, a submission, or values of meta keys", about: setRuleAbout}, x.set)
	registerIn(r, operation{id: "get-rule",
		shards: ruleOverShards,
		method: "GET", path: "/v1/queues/{queue}/rules/{id}", scope: scopeRead,
		narrow: inQueue | inHandler, tag: tagRules,
		summary: "Read a rule"}, x.get)
	registerIn(r, operation{id: "lift-rule",
		shards: changedInAll(addNothing, true),
		act:    act{"rule.lift", "rule {id}"}, method: "DELETE",
		path:  "/v1/queues/{queue}/rules/{id}",
		scope: scopeConsume | scopeOperate, narrow: inQueue | inHandler, tag: tagRules,
		summary: "Lift a pause or a block", about: liftRuleAbout}, x.lift)
}

// listRulesInput has no filter. A queue has at most 10,000 rules in effect, and a reader wants the whole picture.
type listRulesInput struct {
	QueuePath
	Cursor
	State string `query:"state" enum:"active,ended" default:"active" doc:"active: in effect; ended: lifted or over"`
}

// Past rules are in the order of their ends, so the cursor has the time and, for ends in the same millisecond, the
// id.
func (x rules) list(ctx context.Context, q *engine.Queue, in *listRulesInput) (*output[api.Page[api.Rule]], error) {
	if in.State == "ended" {
		list := within(ctx, q.Rules.Past(), func(r *queue.EndedRule) bool { return x.covers(ctx, &r.Rule) })
		ended := func(r *queue.EndedRule) string { return downwards(uint64(r.Ended)) + "." + downwards(uint64(r.ID)) }
		return answeredList(list, in.Cursor, ended, func(r *queue.EndedRule) api.Rule {
			out := r.Rule.API()
			out.EndedAt, out.End, out.LiftedBy = r.Ended.API(), r.End.String(), r.By
			return out
		})
	}
	list := within(ctx, q.Rules.Held(), func(r *engine.HeldRule) bool { return x.covers(ctx, &r.Rule) })
	byID := func(r *engine.HeldRule) string { return fmt.Sprintf("%010d", r.Rule.ID) }
	return answeredList(list, in.Cursor, byID, func(r *engine.HeldRule) api.Rule {
		out := r.Rule.API()
		out.Chunks = r.Chunks
		return out
	})
}

type setRuleInput struct {
	QueuePath
	Conditions
	Body decoded[api.RuleRequest]
}

// The two checks have an order: whether the caller may use the action at all, then whether the rule is within the
// token's bounds. The second answers with the bounds, which the holder of the token knows.
func (x rules) set(ctx context.Context, q *engine.Queue, in *setRuleInput) (*taggedCreation[api.Rule], error) {
	asked, err := ruleOf(&in.Body.value)
	if err != nil {
		return nil, err
	}
	if err := mayRule(ctx, asked.Action); err != nil {
		return nil, err
	}
	if !x.covers(ctx, &asked) {
		return nil, tooWide(access.Of(ctx).Token)
	}
	asked.Actor = access.Of(ctx).Actor(asked.Actor)
	rule, created, err := q.Rules.Set(ctx, asked, in.ruleGuard)
	out := rule.API()
	return answeredTaggedCreation(out, ruleETag(&rule), created, "/v1/queues/"+in.Queue+"/rules/"+out.ID, err)
}

// ruleETag is the ETag of the fields that setting the rule again would replace. The id tells a rule from a later one
// with the same fields.
func ruleETag(r *queue.Rule) string {
	return queue.ETag(uint32(r.ID), fmt.Appendf(nil, "%d %t %t %s", r.Until, r.Insert, r.Revoke, r.Reason))
}

// ruleGuard is the engine's question before it sets a rule.
func (c *Conditions) ruleGuard(now *queue.Rule) error {
	if now == nil {
		return c.hold("rule of this action and match", 0, "")
	}
	return c.hold("rule of this action and match", uint32(now.ID), ruleETag(now))
}

// RulePath names a rule; exported like QueuePath.
type RulePath struct {
	QueuePath
	ID string `path:"id" maxLength:"20" doc:"Id of the rule"`

	id queue.RuleID
}

// Rules count from 1 in each queue; 0 would be read as "no rule" further down.
func (p *RulePath) locate(e *engine.Engine) (*engine.Queue, error) {
	if wholeRule(p.ID) {
		q, err := p.QueuePath.locate(e)
		if err == nil {
			if p.id = ruleOfWhole(q, p.ID); p.id == 0 {
				err = unknownRule()
			}
		}
		return q, err
	}
	id, err := strconv.ParseUint(p.ID, 10, 32)
	if err != nil || id == 0 {
		return nil, queue.Invalid("/path/id", "must be a whole number from 1 on, as setting the rule returned it")
	}
	p.id = queue.RuleID(id)
	return p.QueuePath.locate(e)
}

// get answers alike for a rule that does not exist and for one that the token does not cover.
func (x rules) get(ctx context.Context, q *engine.Queue, in *RulePath) (*tagged[api.Rule], error) {
	rule, err := q.Rules.Get(in.id)
	if !x.covers(ctx, &rule) { // also where there is none
		err = unknownRule()
	}
	return answeredTagged(rule.API(), ruleETag(&rule), err)
}

type liftRuleInput struct {
	RulePath
	Actor string `query:"actor" maxLength:"128" doc:"Name of the caller on an open server, kept with the ended rule"`
}

// Lifting twice is no error, so an ended rule has to be found as well. After the last 1,000 it is forgotten, and
// the answer is that there is no such rule.
func (x rules) lift(ctx context.Context, q *engine.Queue, in *liftRuleInput) (*struct{}, error) {
	rule, err := q.Rules.Get(in.id)
	if err != nil { // one that has ended is lifted already, if it is one that the token covers
		for _, ended := range q.Rules.Past() {
			if ended.ID == in.id {
				rule = ended.Rule
			}
		}
	}
	if !x.covers(ctx, &rule) { // also where there is none
		return nil, unknownRule()
	}
	if err == nil {
		if err := mayRule(ctx, rule.Action); err != nil {
			return nil, err
		}
	}
	_, _, err = q.Rules.Lift(ctx, in.id, access.Of(ctx).Actor(in.Actor))
	return nil, err
}

// covers says whether a rule is within the token's restriction: about its entry, or about a submission that it
// covers. A pause of the whole queue affects a tenant but is not the tenant's: its token can neither see nor lift
// it.
func (x rules) covers(ctx context.Context, r *queue.Rule) bool {
	token := tenantOf(ctx)
	return token == nil || about(&r.Match, token.Entry) || r.Match.Submission != 0 &&
		coverage(ctx, x.engine, &token.Restriction, r.Match.Submission) == nil
}

// about says that a match is about a value, or about a part of the submissions with that value.
func about(match *queue.RuleMatch, entry queue.MetaEntry) bool {
	values := match.Conditions().Values(entry.Key)
	return len(values) == 1 && values[0] == entry.Value
}

func unknownRule() error {
	return uncovered(queue.CodeUnknownRule, "such rule")
}

// mayRule refuses blocks to all but admins: people who work with the queue may pause it, but not block it. Lifts are
// checked as well: a caller that may not block may not end a block.
func mayRule(ctx context.Context, action queue.RuleAction) error {
	token := access.Of(ctx).Token
	if token == nil || action != queue.Block || token.Scopes.Allow(scopeAdmin) {
		return nil
	}
	return missingScope(token, scopeAdmin)
}

// ruleOf reads a rule as JSON has it. Meta and any are one match, and both have to hold. Of
// the others exactly one is given.
func ruleOf(in *api.RuleRequest) (r queue.Rule, err error) {
	action, ok := queue.ParseRuleAction(in.Action)
	if !ok {
		return r, queue.Invalid("/action", "must be pause or block")
	}
	// The engine checks the rest, such as that a block has a reason, and names the field with the same pointers.
	r = queue.Rule{Action: action, Reason: in.Reason, Actor: in.Actor, Insert: in.Effects.Insert,
		Revoke: in.Effects.Revoke, Until: queue.At(in.Until.Time)}
	given := 0
	if in.Match.Queue {
		given++
	}
	if in.Match.Meta != nil || in.Match.Any != nil {
		given++
		if r.Match, err = conditionsOf(&in.Match); err != nil {
			return r, err
		}
	}
	if in.Match.Submission != "" {
		given++
		if r.Match.Submission, err = submissionAt("/match/submission", in.Match.Submission); err != nil {
			return r, err
		}
	}
	if given != 1 {
		return r,
			queue.Invalid("/match", `must be one of {"queue":true}, {"submission":"ID"} and {"meta":{"KEY":VALUE}}, `+
				`the last also with "any":{"KEY":[VALUE,...]}`)
	}
	return r, nil
}

// conditionsOf reads the meta conditions of a match.
func conditionsOf(in *api.RuleMatch) (queue.RuleMatch, error) {
	var list []queue.Condition
	for key, value := range in.Meta {
		list = append(list, queue.Condition{Key: key, Values: []queue.MetaValue{value}})
	}
	for key, values := range in.Any {
		if _, both := in.Meta[key]; both {
			return queue.RuleMatch{}, queue.Invalid("/match/any",
				"has the key %q, and meta has it too: give it once", key)
		}
		if len(values) == 0 {
			return queue.RuleMatch{}, queue.Invalid("/match/any", "has no value of %q; 1 to %d are allowed", key,
				queue.MaxConditionValues)
		}
		list = append(list, queue.Condition{Key: key, Values: values})
	}
	conditions, err := queue.NewConditions(list)
	if err != nil {
		return queue.RuleMatch{}, err
	}
	return queue.MatchOf(conditions), nil
}
