package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// A rule belongs to one queue. --all-queues sets and lifts it in each of them, and among the rules that new queues begin
// with. The latter comes first: a queue that is created meanwhile is in the list of queues after it, or begins with it.

// newQueues stands for the queues that will be created, in place of a name.
const newQueues = "(new queues)"

// queueRule is a rule, and the queue that it is of.
type queueRule struct {
	Queue string   `json:"queue"`
	Rule  api.Rule `json:"rule"`
}

// inAllQueues calls do for each queue, and for each shard of a queue that has several. An error names the queue; those before it are
// done.
func inAllQueues(ctx context.Context, c *client.Client, do func(name string) error) error {
	for q, err := range c.Queues(ctx) {
		if err != nil {
			return err
		}
		if _, shard := queue.CutShard(q.Name); shard > 0 {
			continue // its queue is in the list, too
		}
		names := []string{q.Name}
		if shards := int(q.Settings.Shards); shards > 1 {
			names = names[:0]
			for i := range shards {
				names = append(names, queue.ShardName(q.Name, i+1))
			}
		}
		for _, name := range names {
			if err := do(name); err != nil {
				return fmt.Errorf("queue %s: %w", name, err)
			}
		}
	}
	return nil
}

// ruleEverywhere sets a rule in all queues, and in those that will be created.
func ruleEverywhere(ctx context.Context, a *app, c *client.Client, r *api.RuleRequest) error {
	if r.Match.Submission != "" {
		return usageError{errors.New("--submission cannot be given with --all-queues: a submission is in one queue")}
	}
	var list []queueRule
	switch rule, err := client.SetInitialRule(ctx, c, r); {
	case err == nil:
		list = append(list, queueRule{newQueues, *rule})
	case client.CodeOf(err) != api.CodeForbidden: // a token that is bound to some queues has no others
		return err
	}
	err := inAllQueues(ctx, c, func(name string) error {
		rule, err := c.SetRule(ctx, name, r)
		if err == nil {
			list = append(list, queueRule{name, *rule})
		}
		return err
	})
	return errors.Join(printQueueRules(a, list), err)
}

// liftEverywhere lifts, in all queues and for new ones, the rules of this match: pauses, and blocks if the token may.
func liftEverywhere(ctx context.Context, a *app, c *client.Client, match api.RuleMatch, actor string) error {
	var list []queueRule
	for rule, err := range client.InitialRules(ctx, c) {
		if client.CodeOf(err) == api.CodeForbidden {
			break
		}
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(rule.Match, match) {
			continue
		}
		if err := client.LiftInitialRule(ctx, c, rule.ID, actor); err != nil {
			return err
		}
		list = append(list, queueRule{newQueues, rule})
	}
	err := inAllQueues(ctx, c, func(name string) error {
		for rule, err := range c.Rules(ctx, name) {
			if err != nil {
				return err
			}
			if !reflect.DeepEqual(rule.Match, match) {
				continue
			}
			if err := c.LiftRule(ctx, name, rule.ID, actor); err != nil {
				return err
			}
			list = append(list, queueRule{name, rule})
		}
		return nil
	})
	return errors.Join(printQueueRules(a, list), err)
}

func printQueueRules(a *app, list []queueRule) error {
	return printList(a, list, []string{"QUEUE", "ID", "ACTION", "MATCH", "UNTIL", "REASON"}, func(r queueRule) []string {
		return []string{r.Queue, r.Rule.ID, r.Rule.Action, matchText(&r.Rule.Match), moment(r.Rule.Until), r.Rule.Reason}
	})
}
