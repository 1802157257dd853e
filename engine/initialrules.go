package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// InitialRules are the rules that each new queue begins with. Existing queues have their own rules, so a rule that is to hold everywhere
// must be set in each of them as well. An operator may lift a rule in one queue. So a queue gets the initial rules once, when it is
// created, and never again.
//
//	create ─► journal of the queue: the initial rules ─► catalogue: the queue ─► rules that came meanwhile ─► it serves
//
// The catalogue orders both kinds of change, on all nodes of a cluster alike. If a rule comes into it before the queue, the queue gets it.
// If it comes later, the caller that sets it finds the queue in the list.
type InitialRules struct{ e *Engine }

// InitialRulesOf are those of the server, or of its cluster.
func InitialRulesOf(e *Engine) InitialRules { return InitialRules{e} }

// List lists them by ascending id, without those that are over.
func (x InitialRules) List() (list []queue.Rule, err error) {
	all, err := store.InitialRules(x.e.catalogue)
	now := queue.At(x.e.options.Now())
	for _, r := range all {
		if r.Until == 0 || r.Until > now {
			list = append(list, r)
		}
	}
	return list, err
}

// Get is one of them. CodeUnknownRule: there is none of this id, or it is over.
func (x InitialRules) Get(id queue.RuleID) (queue.Rule, error) {
	list, err := x.List()
	for _, r := range list {
		if r.ID == id {
			return r, err
		}
	}
	return queue.Rule{}, errors.Join(err, &queue.Error{Code: queue.CodeUnknownRule,
		Message: "New queues begin with no such rule. GET /v1/initial-rules lists those that they begin with."})
}

// Set gives each queue that is created from now on a rule, durably. There is one rule for each action and match: a second one replaces it,
// and created is false then.
func (x InitialRules) Set(ctx context.Context, r queue.Rule) (rule queue.Rule, created bool, err error) {
	if err := validInitialRule(&r); err != nil {
		return rule, false, err
	}
	x.e.changing.Lock()
	defer x.e.changing.Unlock()
	if err := x.e.nodes.CatchUp(); err != nil { // another node may have set it just now
		return rule, false, err
	}
	list, err := x.List()
	if err != nil {
		return rule, false, err
	}
	r.Since = queue.At(x.e.options.Now())
	if r.Until != 0 && r.Until <= r.Since {
		return rule, false, queue.Invalid("/until", "is in the past; give a time that is ahead, or leave it out")
	}
	before := ruleLike(list, &r)
	if before == nil && len(list) >= queue.MaxInitialRules {
		return rule, false, &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("New queues begin with %d rules "+
			"already, which is the most. Lift one with DELETE /v1/initial-rules/{id} first.", queue.MaxInitialRules)}
	}
	act := x.e.act(ctx, r.Actor, "initial_rule.set", "", "")
	act.Change(ruleState(before), ruleState(&r))
	if err := store.PutInitialRule(x.e.catalogue, &r, r.Since, act); err != nil {
		return rule, false, err
	}
	if list, err = x.List(); err == nil {
		if set := ruleLike(list, &r); set != nil { // nil: it is lifted again already
			r = *set
		}
	}
	return r, before == nil, err
}

// Lift removes an initial rule, durably. Queues that began with it keep it.
func (x InitialRules) Lift(ctx context.Context, id queue.RuleID, actor string) error {
	if err := validActor(actor); err != nil {
		return err
	}
	x.e.changing.Lock()
	defer x.e.changing.Unlock()
	list, err := x.List()
	if err != nil {
		return err
	}
	for i := range list {
		if r := &list[i]; r.ID == id {
			act := x.e.act(ctx, actor, "initial_rule.lift", "", fmt.Sprintf("initial rule %d", id))
			act.Change(ruleState(r), nil)
			return store.DropInitialRule(x.e.catalogue, id, act)
		}
	}
	return nil // it is lifted already
}

// begin gives a new queue the rules. It may be called again: a rule that is there already changes nothing. A further shard of a queue takes
// over the rules of the others instead (Sharded.inherit).
func (x InitialRules) begin(ctx context.Context, q *Queue) error {
	if _, number := queue.CutShard(q.name); number > 0 {
		return nil
	}
	list, err := x.List()
	if err != nil {
		return err
	}
	for _, r := range list {
		if _, _, err := q.shard.Rules.Set(r, nil, q.act(ctx, r.Actor, "rule.create", "")); err != nil {
			return fmt.Errorf("a rule that new queues begin with: %w", err)
		}
	}
	return nil
}

// validInitialRule checks a rule of a caller.
func validInitialRule(r *queue.Rule) error {
	if r.Match.Submission != 0 {
		return queue.Invalid("/match", "names a submission, which no new queue has; name values of meta keys, or the queue")
	}
	return validRule(r)
}

// ruleLike is the rule of the list with the same action and match; nil: there is none.
func ruleLike(list []queue.Rule, like *queue.Rule) *queue.Rule {
	for i := range list {
		if r := &list[i]; r.Action == like.Action && r.Match == like.Match {
			return r
		}
	}
	return nil
}

// ruleState is what the audit log shows of a rule; nil: there is none.
func ruleState(r *queue.Rule) any {
	if r == nil {
		return nil
	}
	shown := r.API()
	shown.ID = ""
	return shown
}
