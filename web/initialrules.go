package web

// Rules that each new queue begins with. They are the server's, or the cluster's: any node answers, as the catalogue
// has them. A token that is bound to some queues or to a meta value can neither see nor set them: a queue that comes
// later may be one that the token is not for.
//
// They are a resource of their own and not an effect of the rules of a queue. An operator who lifts a rule in one queue
// does not mean future queues, and one who sets a rule for future queues does not touch present work. A caller that
// means both makes both calls, this one first, as `quern rules pause --all-queues` does: then a new queue either begins
// with the rule, or is in the list of queues that the caller reads next.

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
	setInitialRuleAbout = "Each queue that is created from the answer on begins with the rule. Existing queues stay " +
		"as they are: set the rule in each of them too if it is to hold everywhere. There is one initial rule per " +
		"action and match: setting it again changes its reason, end and effects, and answers 200. The match is the " +
		"queue, or values of meta keys. The scopes consume and operate may pause; only admin may block."
	liftInitialRuleAbout = "Queues that are created from then on begin without the rule. Queues that began with it " +
		"keep it until it is lifted in them. Lifting it again answers the same. Only admin may lift a block."
	listInitialRulesAbout = "By ascending id. A rule whose `until` has passed is not in the list."
)

// Initial rules are few, so a list is made from all. No condition of HTTP guards a change, because the audit log has
// the rule that another one replaced, with its reason and end.

// initialRules are the handlers of the rules that new queues begin with.
type initialRules struct{ rules engine.InitialRules }

// routes are the part of the table about initial rules.
func (x initialRules) routes(r *router) {
	const all, one = "/v1/initial-rules", "/v1/initial-rules/{id}"
	register(r, operation{id: "list-initial-rules", method: "GET", path: all, scope: scopeRead, tag: tagRules,
		compress: true, summary: "List the rules that new queues begin with", about: listInitialRulesAbout}, x.list)
	register(r, operation{id: "set-initial-rule", act: act{"initial_rule.set", ""}, brings: true, method: "POST",
		path: all, scope: scopeConsume | scopeOperate, tag: tagRules, creates: reflect.TypeFor[api.Rule](),
		summary: "Have new queues begin with a pause or a block", about: setInitialRuleAbout}, x.set)
	register(r, operation{id: "get-initial-rule", method: "GET", path: one, scope: scopeRead, tag: tagRules,
		summary: "Read a rule that new queues begin with"}, x.get)
	register(r, operation{id: "lift-initial-rule", act: act{"initial_rule.lift", "initial rule {id}"}, method: "DELETE",
		path: one, scope: scopeConsume | scopeOperate, tag: tagRules,
		summary: "Have new queues begin without a rule", about: liftInitialRuleAbout}, x.lift)
}

// list shows no chunks beside a rule: it holds back none, as its queues do not exist yet.
func (x initialRules) list(_ context.Context, in *Cursor) (*output[api.Page[api.Rule]], error) {
	list, err := x.rules.List()
	if err != nil {
		return nil, err
	}
	byID := func(r *queue.Rule) string { return fmt.Sprintf("%010d", r.ID) }
	return answeredList(list, *in, byID, (*queue.Rule).API)
}

type setInitialRuleInput struct {
	Body decoded[api.RuleRequest]
}

// set checks first whether the caller may use the action at all. The engine then refuses a rule about a submission,
// with the pointer that the same mistake has in a rule of a queue.
func (x initialRules) set(ctx context.Context, in *setInitialRuleInput) (*creation[api.Rule], error) {
	asked, err := ruleOf(&in.Body.value)
	if err != nil {
		return nil, err
	}
	if err := mayRule(ctx, asked.Action); err != nil {
		return nil, err
	}
	asked.Actor = access.Of(ctx).Actor(asked.Actor)
	rule, created, err := x.rules.Set(ctx, asked)
	out := rule.API()
	return answeredCreation(out, created, "/v1/initial-rules/"+out.ID, err)
}

// InitialRulePath names an initial rule; exported like QueuePath.
type InitialRulePath struct {
	ID string `path:"id" maxLength:"20" doc:"Id of the initial rule"`
}

// id is read here and not by the type of the field, so that the refusal says where ids come from.
func (p *InitialRulePath) id() (queue.RuleID, error) {
	id, err := strconv.ParseUint(p.ID, 10, 32)
	if err != nil || id == 0 {
		return 0, queue.Invalid("/path/id", "must be a whole number from 1 on, as setting the rule returned it")
	}
	return queue.RuleID(id), nil
}

// get finds no rule that is over, as new queues do not get it any more.
func (x initialRules) get(_ context.Context, in *InitialRulePath) (*output[api.Rule], error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	rule, err := x.rules.Get(id)
	return answered(rule, err, (*queue.Rule).API)
}

type liftInitialRuleInput struct {
	InitialRulePath
	Actor string `query:"actor" maxLength:"128" doc:"Name of the caller on an open server, kept in the audit log"`
}

// lift refuses to lift a block for a caller that may not block. A rule that is not there is lifted already, so a call
// whose answer was lost can be made again.
func (x initialRules) lift(ctx context.Context, in *liftInitialRuleInput) (*struct{}, error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	if rule, err := x.rules.Get(id); err == nil {
		if err := mayRule(ctx, rule.Action); err != nil {
			return nil, err
		}
	}
	return nil, x.rules.Lift(ctx, id, access.Of(ctx).Actor(in.Actor))
}
