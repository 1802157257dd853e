package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// rulesCommand is the parent of the commands on pauses and blocks.
func rulesCommand(a *app) *cobra.Command {
	var past, initial bool
	var actor string
	var rules *resource[api.Rule]
	rules = &resource[api.Rule]{
		parent: "rules", word: "ID", ofQueue: true, offer: func(r api.Rule) (string, string) { return r.ID, r.Action + " " + r.Reason },
		header: []string{"ID", "ACTION", "MATCH", "SINCE", "UNTIL", "BY", "EFFECTS", "REASON"},
		row: func(r api.Rule) []string {
			return []string{r.ID, r.Action, matchText(&r.Match), moment(r.Since), moment(r.Until), r.Actor,
				effectsText(r.Effects), r.Reason}
		},
		list: does("list", "List the rules of the queue, the oldest first", func(ctx context.Context, c call) (all[api.Rule], error) {
			switch {
			case initial && past:
				return nil, usageError{errors.New("--past and --new-queues cannot be given together: a queue keeps its past rules")}
			case initial:
				return client.InitialRules(ctx, c.Client), nil
			case !past:
				return c.Rules(ctx, c.queue), nil
			}
			rules.header = []string{"ID", "ACTION", "MATCH", "SINCE", "BY", "ENDED", "HOW", "LIFTED BY", "REASON"}
			rules.row = func(r api.Rule) []string {
				return []string{r.ID, r.Action, matchText(&r.Match), moment(r.Since), r.Actor, moment(r.EndedAt),
					strings.ReplaceAll(r.End, "_", " "), r.LiftedBy, r.Reason}
			}
			return c.PastRules(ctx, c.queue), nil
		}).with(func(c *cobra.Command) {
			c.Flags().BoolVar(&past, "past", false,
				"list the last 1,000 ended rules instead, the latest first")
			c.Flags().BoolVar(&initial, "new-queues", false, "list the rules that each new queue begins with instead")
		}),
		remove: does("lift ID...", "Lift rules; lifting an ended one is no error", func(ctx context.Context, c call) (none, error) {
			return none{}, c.LiftRule(ctx, c.queue, c.args[0], a.actor(actor))
		}).with(func(c *cobra.Command) {
			c.Flags().StringVar(&actor, "actor", "", "name of the person who lifts them, shown by rules list --past "+
				"(default: the user's name)")
		}),
	}
	commands := rules.commands(a)
	liftsEverywhere(a, commands, &actor)
	return parent(&cobra.Command{Use: "rules", Short: "List, set and lift pauses and blocks"}, append(commands,
		rulesSetCommand(a, api.ActionPause, "Pause chunks: the server does not hand them out until the pause is lifted"),
		rulesSetCommand(a, api.ActionBlock, "Block chunks: the server does not hand them out, even if a pause is lifted"))...)
}

// rulesSetCommand sets a pause or a block.
func rulesSetCommand(a *app, action, short string) *cobra.Command {
	r := api.RuleRequest{Action: action}
	var of ruleAbout
	var submission, until, actor string
	c := a.queueCommand(&cobra.Command{
		Use: action + " --all | --meta KEY=VALUE... | --submission ID", Short: short, Args: cobra.NoArgs,
		Long: short + ".\nThe rule covers the whole queue, values of meta keys, or one submission. Each of these can have one\n" +
			action + ": setting it again changes its reason, end and effects. Consumers may finish the chunks that they\n" +
			"hold, unless --revoke takes them back. --meta may be repeated: a submission must have a value of every key\n" +
			"that you name, and any of the values that you name for one key.",
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			var err error
			if r.Match, err = of.match(submission); err != nil {
				return err
			}
			if r.Until, err = parseUntil(until, time.Now()); err != nil {
				return err
			}
			r.Actor = a.actor(actor)
			if of.everywhere {
				return ruleEverywhere(ctx, a, c, &r)
			}
			got, err := c.SetRule(ctx, a.queueName(), &r)
			return printAnswer(a, got, err, ruleFields)
		}),
	})
	of.flags(c, "set the rule in each queue, and have each new queue begin with it")
	c.Flags().StringVar(&submission, "submission", "", "this submission")
	about := "reason, shown to everyone affected"
	if action == api.ActionBlock {
		about += " (required)"
	}
	c.Flags().StringVar(&r.Reason, "reason", "", about)
	c.Flags().StringVar(&until, "until", "",
		"when it ends by itself: a time such as 2026-01-31T12:00:00Z, or a duration from now such as 90m")
	c.Flags().BoolVar(&r.Effects.Insert, "refuse-inserts", false, "refuse inserts that match")
	c.Flags().BoolVar(&r.Effects.Revoke, "revoke", false, "take back held chunks without counting an attempt")
	c.Flags().StringVar(&actor, "actor", "", "name of the person who sets it (default: the user's name)")
	return c
}

// ruleAbout are the flags that say what a rule is about.
type ruleAbout struct {
	whole, everywhere bool
	meta              []string
}

func (f *ruleAbout) flags(c *cobra.Command, everywhere string) {
	c.Flags().BoolVar(&f.whole, "all", false, "the whole queue")
	c.Flags().StringArrayVarP(&f.meta, "meta", "m", nil,
		"submissions with this meta: `KEY=VALUE`, repeatable; write KEY=s:7 for the text \"7\"")
	c.Flags().BoolVar(&f.everywhere, "all-queues", false, everywhere)
}

// match is the match of the rule: exactly one of the flags says it.
func (f *ruleAbout) match(submission string) (m api.RuleMatch, err error) {
	given := 0
	for _, is := range []bool{f.whole, len(f.meta) > 0, submission != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return m, usageError{errors.New("say what the rule is about: --all for the whole queue, --meta KEY=VALUE or " +
			"--submission ID")}
	}
	m.Queue, m.Submission = f.whole, submission
	if len(f.meta) == 0 {
		return m, nil
	}
	var list []queue.Condition
	for _, pair := range f.meta {
		key, text, ok := strings.Cut(pair, "=")
		if !ok {
			return m, usageError{fmt.Errorf("--meta %q is not KEY=VALUE", pair)}
		}
		list = append(list, queue.Condition{Key: key, Values: []queue.MetaValue{parseMetaValue(text)}})
	}
	conditions, err := queue.NewConditions(list)
	if err != nil {
		return m, usageError{fmt.Errorf("--meta is wrong: %w", err)}
	}
	rule := queue.Rule{Match: queue.MatchOf(conditions)}
	return rule.API().Match, nil
}

// liftsEverywhere lets the command lift take --all-queues with --all or --meta, in place of ids.
func liftsEverywhere(a *app, commands []*cobra.Command, actor *string) {
	var of ruleAbout
	lift := commands[slices.IndexFunc(commands, func(c *cobra.Command) bool { return c.Name() == "lift" })]
	of.flags(lift, "lift the rules about what --all or --meta says, in each queue, and have new queues begin without them")
	lift.Use = "lift ID... | --all-queues --all | --all-queues --meta KEY=VALUE..."
	byID, ids := lift.RunE, lift.Args
	lift.Args = func(c *cobra.Command, args []string) error {
		switch {
		case !of.everywhere && (of.whole || len(of.meta) > 0):
			return usageError{errors.New("--all and --meta go with --all-queues; in one queue, name the rules by their ids")}
		case !of.everywhere:
			return ids(c, args)
		case len(args) > 0:
			return usageError{errors.New("name no ids with --all-queues: each queue has its own; give --all or --meta")}
		}
		return nil
	}
	lift.RunE = func(c *cobra.Command, args []string) error {
		if !of.everywhere {
			return byID(c, args)
		}
		match, err := of.match("")
		if err != nil {
			return err
		}
		return a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			return liftEverywhere(ctx, a, c, match, a.actor(*actor))
		})(c, args)
	}
}

// parseUntil reads a time, or how long from now on; "" is none.
func parseUntil(text string, now time.Time) (api.Time, error) {
	if text == "" {
		return api.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return api.At(now.Add(d)), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return api.Time{}, usageError{fmt.Errorf("--until %q is neither a time like 2026-01-31T12:00:00Z nor a "+
			"duration like 90m", text)}
	}
	return api.At(at), nil
}

func matchText(m *api.RuleMatch) string {
	switch {
	case m.Submission != "":
		return "submission " + m.Submission
	case m.Queue:
		return "queue"
	}
	parts := []string{metaLine(m.Meta)}
	for _, key := range slices.Sorted(maps.Keys(m.Any)) {
		values := make([]string, len(m.Any[key]))
		for i, value := range m.Any[key] {
			values[i] = metaText(value)
		}
		parts = append(parts, key+"="+strings.Join(values, "|"))
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

func effectsText(e api.RuleEffects) string {
	switch {
	case e.Insert && e.Revoke:
		return "refuses inserts, revokes"
	case e.Insert:
		return "refuses inserts"
	case e.Revoke:
		return "revokes"
	}
	return ""
}

func ruleFields(r api.Rule) [][2]string {
	return [][2]string{
		{"id", r.ID}, {"action", r.Action}, {"match", matchText(&r.Match)}, {"since", moment(r.Since)}, {"until", moment(r.Until)},
		{"by", r.Actor}, {"effects", effectsText(r.Effects)}, {"reason", r.Reason},
	}
}

// actor names the person who acts: as the flag says, or the user's name.
func (a *app) actor(flag string) string {
	return cmp.Or(flag, a.getenv("USER"), a.getenv("USERNAME"))
}
