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
	return parent(&cobra.Command{Use: "rules", Short: "List, set and lift pauses and blocks"},
		rulesListCommand(a),
		rulesSetCommand(a, api.ActionPause, "Keep chunks from being handed out"),
		rulesSetCommand(a, api.ActionBlock, "Keep chunks from being handed out, also when pauses are lifted"),
		rulesLiftCommand(a))
}

func rulesListCommand(a *app) *cobra.Command {
	var past bool
	c := a.queueCommand(&cobra.Command{
		Use: "list", Short: "List the rules of the queue, the oldest first", Args: cobra.NoArgs,
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			if past {
				header := []string{"ID", "ACTION", "MATCH", "SINCE", "BY", "ENDED", "HOW", "LIFTED BY", "REASON"}
				return printAll(a, c.PastRules(ctx, a.queueName()), header, func(r api.Rule) []string {
					return []string{r.ID, r.Action, matchText(&r.Match), moment(r.Since), r.Actor, moment(r.EndedAt),
						strings.ReplaceAll(r.End, "_", " "), r.LiftedBy, r.Reason}
				})
			}
			header := []string{"ID", "ACTION", "MATCH", "SINCE", "UNTIL", "BY", "EFFECTS", "REASON"}
			return printAll(a, c.Rules(ctx, a.queueName()), header, func(r api.Rule) []string {
				return []string{r.ID, r.Action, matchText(&r.Match), moment(r.Since), moment(r.Until), r.Actor,
					effectsText(r.Effects), r.Reason}
			})
		}),
	})
	c.Flags().BoolVar(&past, "past", false, "those that were lifted or are over instead: the last 1,000, the one that ended last first")
	return c
}

// rulesSetCommand sets a pause or a block.
func rulesSetCommand(a *app, action, short string) *cobra.Command {
	r := api.RuleRequest{Action: action}
	var whole bool
	var meta, submission, until, actor string
	c := a.queueCommand(&cobra.Command{
		Use: action + " --all | --meta KEY=VALUE | --submission ID", Short: short, Args: cobra.NoArgs,
		Long: short + ": of the whole queue, of one value of a meta key, or of one submission. What is held already " +
			"may be finished, unless --revoke takes it back. " +
			"There is one " + action + " for each of these: to set it again changes its reason, end and effects.",
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
		"submissions with this meta: KEY=VALUE, where a whole number is the integer and KEY=s:VALUE the text")
	c.Flags().StringVar(&submission, "submission", "", "this submission")
	c.Flags().StringVar(&r.Reason, "reason", "", "why, for those who meet it (a block needs one)")
	c.Flags().StringVar(&until, "until", "", "when it ends by itself: a time like 2026-01-31T12:00:00Z, or from now on like 90m")
	c.Flags().BoolVar(&r.Effects.Insert, "refuse-inserts", false, "refuse inserts of what it matches")
	c.Flags().BoolVar(&r.Effects.Revoke, "revoke", false, "take back what is held; no try is counted")
	c.Flags().StringVar(&actor, "actor", "", "who sets it (default: the user's name)")
	return c
}

func rulesLiftCommand(a *app) *cobra.Command {
	var actor string
	c := &cobra.Command{
		Use: "lift ID...", Short: "End rules; one that has ended already is no mistake", Args: cobra.MinimumNArgs(1),
		RunE: a.each(func(ctx context.Context, c *client.Client, id string) error {
			return c.LiftRule(ctx, a.queueName(), id, a.actor(actor))
		}),
	}
	a.queueFlags(c)
	c.Flags().StringVar(&actor, "actor", "", "who lifts them (default: the user's name); rules list --past tells")
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
		return m, usageError{errors.New("say what the rule is about: --all for the whole queue, --meta KEY=VALUE or --submission ID")}
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
		return api.Time{}, usageError{fmt.Errorf("--until %q is neither a time like 2026-01-31T12:00:00Z nor a duration like 90m", text)}
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
