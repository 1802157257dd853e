package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// auditCommand reads the audit log.
func auditCommand(a *app) *cobra.Command {
	var (
		f            client.AuditFilter
		since, until string
		limit        limited
		follow       bool
	)
	c := a.serverCommand(&cobra.Command{
		Use: "audit", Short: "Show who changed what, the latest first", Args: cobra.NoArgs,
		Long: "Show who changed what, the latest first. \"-o jsonl\" with \"--limit 0\" exports every match. Changes to the server\n" +
			"as a whole have no queue. Give times as RFC 3339, or as a duration before now: -90m. \"--follow\" prints new\n" +
			"entries, the oldest first, from \"--since\" or from now on. It continues after a lost connection or a restart of\n" +
			"the server, and prints each entry once.",
		Example: "  quern audit --since -1h\n  quern audit --actor ana --action rule\n  quern audit --limit 0 -o " +
			"jsonl > audit.jsonl\n" +
			"  quern audit --follow --outcome refused",
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case follow && until != "":
				return usageError{errors.New("--until cannot be given with --follow: a log that is followed has no end")}
			case follow && (cmd.Flags().Changed("limit") || cmd.Flags().Changed("all")):
				return usageError{errors.New("--limit and --all cannot be given with --follow: a log that is followed has no end")}
			}
			for to, text := range map[*time.Time]string{&f.Since: since, &f.Until: until} {
				if text == "" {
					continue
				}
				at, err := parseMoment(text, time.Now())
				if err != nil {
					return usageError{err}
				}
				*to = at.Time
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if follow {
				return followAudit(cmd.Context(), a, c, f)
			}
			f.Incomplete = func(queues []string) {
				_ = say(a.err, "quern: the latest entries may be missing of queues in quarantine, or whose node does not answer: %s\n",
					strings.Join(queues, ", "))
			}
			header := []string{"AT", "ACTOR", "ACTION", "QUEUE", "TARGET", "BEFORE", "AFTER", "OUTCOME"}
			return printFirst(a, c.Audit(cmd.Context(), f), limit, header, auditRow)
		},
	})
	flags := c.Flags()
	flags.StringVar(&since, "since", "", "only entries from this time on (RFC 3339), or -1h for an hour ago")
	flags.StringVar(&until, "until", "", "only entries before this time, or -1h for an hour ago")
	flags.StringVar(&f.Actor, "actor", "", "only changes by this actor")
	flags.StringVar(&f.Action, "action", "", "only this action, such as rule.create, or all of a resource, such as rule")
	flags.StringVarP(&f.Queue, "queue", "Q", "", "only changes in this queue")
	flags.StringVar(&f.Target, "target", "", "only changes to this target, such as \"rule 7\"")
	flags.StringVar(&f.Outcome, "outcome", "", "only this outcome: ok, or refused for lack of permission")
	limit.flags(c, 100, "entries")
	flags.BoolVarP(&follow, "follow", "f", false, "print entries as they come, the oldest first, until interrupted")
	return c
}

// followAudit prints entries as they come: with -o json and -o jsonl one object a line, else a line each without a header.
func followAudit(ctx context.Context, a *app, c *client.Client, f client.AuditFilter) error {
	for e, err := range c.FollowAudit(ctx, f) {
		switch {
		case err != nil:
			return err
		case a.format == formatTable:
			err = say(a.out, "%s\n", strings.Join(auditRow(e), "  "))
		default:
			err = printJSON(a.out, e, "")
		}
		if err != nil {
			return err
		}
	}
	return nil // being interrupted is how following ends
}

func auditRow(e api.AuditEntry) []string {
	actor := e.Actor
	if e.OnBehalfOf != "" {
		actor += " for " + e.OnBehalfOf
	}
	return []string{moment(e.At), actor, e.Action, e.Queue, e.Target, string(e.Before), string(e.After), e.Outcome}
}
