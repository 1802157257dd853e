package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// rulesCommand is the parent of the commands on pauses and blocks.
func rulesCommand(a *app) *cobra.Command {
	var past bool
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
			if !past {
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
		}),
		remove: does("lift ID...", "Lift rules; lifting an ended one is no error", func(ctx context.Context, c call) (none, error) {
			return none{}, c.LiftRule(ctx, c.queue, c.args[0], a.actor(actor))
		}).with(func(c *cobra.Command) {
			c.Flags().StringVar(&actor, "actor", "", "name of the person who lifts them, shown by rules list --past "+
				"(default: the user's name)")
		}),
	}
	return parent(&cobra.Command{Use: "rules", Short: "List, set and lift pauses and blocks"}, append(rules.commands(a),
		rulesSetCommand(a, api.ActionPause, "Pause chunks: the server does not hand them out until the pause is lifted"),
		rulesSetCommand(a, api.ActionBlock, "Block chunks: the server does not hand them out, even if a pause is lifted"))...)
}

// rulesSetCommand sets a pause or a block.
func rulesSetCommand(a *app, action, short string) *cobra.Command {
	r := api.RuleRequest{Action: action}
	var whole bool
	var meta, submission, until, actor string
	c := a.queueCommand(&cobra.Command{
		Use: action + " --all | --meta KEY=VALUE | --submission ID", Short: short, Args: cobra.NoArgs,
		Long: short + ".\nThe rule covers the whole queue, one value of a meta key, or one submission. Each of these can have one\n" +
			action + ": setting it again changes its reason, end and effects. Consumers may finish the chunks that they\n" +
			"hold, unless --revoke takes them back.",
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			var err error
			if r.Match, err = parseMatch(whole, meta, submission); err != nil {
				return err
			}
			if r.Until, err = parseUntil(until, time.Now()); err != nil {
				return err
			}
			r.Actor = a.actor(actor)
			got, err := c.SetRule(ctx, a.queueName(), &r)
			return printAnswer(a, got, err, ruleFields)
		}),
	})
	c.Flags().BoolVar(&whole, "all", false, "the whole queue")
	c.Flags().StringVarP(&meta, "meta", "m", "",
		"submissions with this meta: KEY=VALUE; write KEY=s:7 for the text \"7\"")
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

// parseMatch reads what a rule is about: exactly one of the flags.
func parseMatch(whole bool, meta, submission string) (m api.RuleMatch, err error) {
	given := 0
	for _, is := range []bool{whole, meta != "", submission != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return m, usageError{errors.New("say what the rule is about: --all for the whole queue, --meta KEY=VALUE or " +
			"--submission ID")}
	}
	m.Queue, m.Submission = whole, submission
	if meta != "" {
		m.Meta, err = parseMeta([]string{meta})
	}
	return m, err
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
	case len(m.Meta) > 0:
		return metaLine(m.Meta)
	}
	return "queue"
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

// actor is who does something: as the flag says, or the user's name.
func (a *app) actor(flag string) string {
	return cmp.Or(flag, a.getenv("USER"), a.getenv("USERNAME"))
}
