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
		Use: "audit", Short: "Tell who changed what, the latest first", Args: cobra.NoArgs,
		Long: "Tell who changed what, the latest first; \"-o jsonl\" with \"--limit 0\" exports all that match. What " +
			"happened in the server as a whole has no\n" +
			"queue. Times are RFC 3339, or as far from now as a duration says: -90m. " +
			"\"--follow\" prints entries as they come, the oldest first, from\n" +
			"\"--since\" or from now on, and continues after a cut or a restart of the server, with none missed and none twice.",
		Example: "  quern audit --since -1h\n  quern audit --actor ana --action rule\n  quern audit --limit 0 -o jsonl > audit.jsonl\n" +
			"  quern audit --follow --outcome refused",
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case follow && until != "":
				return usageError{errors.New("--until cannot be given with --follow: what is followed has no end")}
			case follow && (cmd.Flags().Changed("limit") || cmd.Flags().Changed("all")):
				return usageError{errors.New("--limit and --all cannot be given with --follow: what is followed has no end")}
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
				_ = say(a.err, "quern: the latest entries of queues in quarantine may be missing: %s\n", strings.Join(queues, ", "))
			}
			header := []string{"AT", "ACTOR", "ACTION", "QUEUE", "TARGET", "BEFORE", "AFTER", "OUTCOME"}
			return printFirst(a, c.Audit(cmd.Context(), f), limit, header, auditRow)
		},
	})
	flags := c.Flags()
	flags.StringVar(&since, "since", "", "only what happened at this time (RFC 3339) or later, or within this long (-1h)")
	flags.StringVar(&until, "until", "", "only what happened before this time, or longer ago than this (-1h)")
	flags.StringVar(&f.Actor, "actor", "", "only what this actor did")
	flags.StringVar(&f.Action, "action", "", "only this action, such as rule.create, or all of a resource, such as rule")
	flags.StringVarP(&f.Queue, "queue", "Q", "", "only what was done in this queue")
	flags.StringVar(&f.Target, "target", "", "only what was done to this, such as \"rule 7\"")
	flags.StringVar(&f.Outcome, "outcome", "", "only what went so: ok, or refused, which is what a token did not allow")
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
