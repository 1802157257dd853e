package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// bulkCommand is the parent of the commands on bulk operations.
func bulkCommand(a *app) *cobra.Command {
	var actor string
	bulks := resource[api.BulkOperation]{
		parent: "bulk", word: "ID", fields: bulkFields, offer: func(b api.BulkOperation) (string, string) { return b.ID, b.Action },
		header: []string{"ID", "QUEUE", "ACTION", "STATE", "DRY RUN", "MATCHED", "DONE", "UNCHANGED", "REFUSED", "BY", "CREATED",
			"EXAMINED", "LEFT", "CANCELLED BY"},
		row: func(b api.BulkOperation) []string {
			return []string{b.ID, b.Queue, b.Action, b.State, strconv.FormatBool(b.DryRun), number(b.Matched),
				number(b.Done), number(b.Unchanged), number(b.Refused), b.Actor, moment(b.CreatedAt), examined(&b),
				remaining(&b), b.CancelledBy}
		},
		list: does("list", "List bulk operations of all queues, or of --queue, the newest first",
			func(ctx context.Context, c call) (all[api.BulkOperation], error) { return c.Bulks(ctx, a.queue), nil },
		).with(a.queueFlag),
		one: []action[*api.BulkOperation]{
			does("show ID", "Show the progress of a bulk operation", func(ctx context.Context, c call) (*api.BulkOperation, error) {
				return c.Bulk(ctx, c.args[0])
			}),
			does("cancel ID", "Stop a bulk operation; finished work stays done",
				func(ctx context.Context, c call) (*api.BulkOperation, error) {
					return c.CancelBulk(ctx, c.args[0], a.actor(actor))
				},
			).with(func(c *cobra.Command) {
				c.Flags().StringVar(&actor, "actor", "", "name of the person who cancels it (default: the user's name)")
			}),
		},
	}
	return parent(&cobra.Command{Use: "bulk", Short: "Apply an action to many dead letters, retries or submissions at once"},
		append(bulks.commands(a), bulkRunCommand(a))...)
}

// bulkOptions are the flags of bulk run.
type bulkOptions struct {
	api.BulkRequest
	meta                        []string
	createdBefore, createdAfter string
	diedBefore, diedAfter       string
	priority                    int64
	all, detach                 bool
}

func bulkRunCommand(a *app) *cobra.Command {
	o := new(bulkOptions)
	c := a.queueCommand(&cobra.Command{
		Use:   "run ACTION",
		Short: "Start a bulk operation and follow it to its end: " + strings.Join(queue.BulkActions(), ", "),
		Long: "Apply ACTION to everything in a queue that matches the flags. redrive, delete and forward apply to dead letters, " +
			"retry and give_up to chunks\n" +
			"that wait for a retry, cancel and reprioritize to open submissions. purge deletes submissions, open and ended, with " +
			"all that the server\n" +
			"has of them. retry also ends the delays of released chunks (snoozes). The operation continues after a restart of the " +
			"server. An\ninterrupt cancels it.",
		Example: "  quern bulk run forward --to rejects --meta customer=7\n  quern bulk run cancel --created-before 24h --dry-run\n" +
			"  quern bulk run purge --meta customer=7",
		Args: cobra.ExactArgs(1), ValidArgs: queue.BulkActions(),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := o.request(args[0], a.queueName(), cmd.Flags().Changed("priority"), time.Now())
			if err != nil {
				return err
			}
			r.Actor = a.actor(r.Actor)
			c, err := a.client()
			if err != nil {
				return err
			}
			b, err := c.StartBulk(cmd.Context(), r)
			if err != nil {
				return err
			}
			if o.detach {
				return printOne(a, *b, bulkFields)
			}
			return followBulk(cmd.Context(), a, c, b)
		},
	})
	f := c.Flags()
	f.BoolVar(&o.all, "all", false, "everything in the queue; required without another filter")
	f.StringVar(&o.Filter.Submission, "submission", "", "only from this submission")
	f.StringSliceVar(&o.Filter.States, "state", nil,
		"only from submissions in this state: open; for dead letters also completed_with_dead, for purge any; repeatable")
	f.StringArrayVar(&o.meta, "meta", nil, "only from submissions with this KEY=VALUE; repeatable")
	f.StringVar(&o.createdBefore, "created-before", "", "only from submissions inserted before this time, or "+
		"longer ago than this (24h)")
	f.StringVar(&o.createdAfter, "created-after", "", "only from submissions inserted after this time, or within "+
		"this duration (24h)")
	f.StringVar(&o.Filter.Fingerprint, "fingerprint", "", "only chunks whose last error has this fingerprint, as "+
		"dead groups and retries groups show it")
	f.StringVar(&o.diedBefore, "died-before", "", "only chunks whose last attempt ended before this time, or "+
		"longer ago than this (24h)")
	f.StringVar(&o.diedAfter, "died-after", "", "only chunks whose last attempt ended after this time, or within "+
		"this duration (24h)")
	f.Uint32Var(&o.Filter.Oldest, "oldest", 0, "at most this many dead letters, the ones that died first (0: all)")
	f.Uint32VarP(&o.Limit, "limit", "n", 0, "at most this many matches, of the newest submissions first (0: all)")
	f.StringVar(&o.To, "to", "", "forward: the queue to move dead letters to")
	f.Int64Var(&o.priority, "priority", 0, "reprioritize: the new priority")
	f.Uint32Var(&o.RatePerSecond, "rate", 0, "at most this many chunks or submissions per second (0: no limit)")
	f.BoolVar(&o.DryRun, "dry-run", false, "count what it would do, and change nothing")
	f.StringVar(&o.Actor, "actor", "", "name of the person who does it (default: the user's name)")
	f.BoolVar(&o.detach, "detach", false, "start it and return")
	return c
}

// request puts the flags together.
func (o *bulkOptions) request(action, queueName string, prioritized bool, now time.Time) (*api.BulkRequest, error) {
	if !slices.Contains(queue.BulkActions(), action) {
		return nil, usageError{fmt.Errorf("there is no action %q: it must be one of %s", action, strings.Join(queue.BulkActions(), ", "))}
	}
	r := o.BulkRequest
	r.Queue, r.Action = queueName, action
	var err error
	if r.Filter.Meta, err = parseMeta(o.meta); err != nil {
		return nil, err
	}
	for _, at := range []struct {
		flag, text string
		to         *api.Time
	}{{"--created-before", o.createdBefore, &r.Filter.CreatedBefore},
		{"--created-after", o.createdAfter, &r.Filter.CreatedAfter}, {"--died-before", o.diedBefore, &r.Filter.DiedBefore},
		{"--died-after", o.diedAfter, &r.Filter.DiedAfter}} {
		if *at.to, err = parsePast(at.flag, at.text, now); err != nil {
			return nil, err
		}
	}
	if prioritized {
		r.Priority = &o.priority
	}
	f := &r.Filter
	narrow := f.Submission != "" || len(f.States) > 0 || len(f.Meta) > 0 || f.Fingerprint != "" ||
		!f.CreatedBefore.IsZero() || !f.CreatedAfter.IsZero() || !f.DiedBefore.IsZero() || !f.DiedAfter.IsZero() || f.Oldest > 0
	if narrow == o.all {
		return nil, usageError{errors.New("choose with flags such as --meta and --submission, or give --all")}
	}
	return &r, nil
}

// parsePast reads a time, or how long ago it was; "" is no time.
func parsePast(flag, text string, now time.Time) (api.Time, error) {
	if text == "" {
		return api.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return api.At(now.Add(-d)), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return api.Time{}, usageError{fmt.Errorf("%s %q is neither a duration such as 24h nor a time such as "+
			"2026-01-31T12:00:00Z", flag, text)}
	}
	return api.At(t), nil
}

// examined is how much of its work an operation has walked over; "" when it does not say.
func examined(b *api.BulkOperation) string {
	if b.Examined == nil || b.ToExamine == nil || b.Percent == nil {
		return ""
	}
	return fmt.Sprintf("%d of %d (%d %%)", *b.Examined, *b.ToExamine, *b.Percent)
}

// remaining is how long an operation still takes; "" when that is not known.
func remaining(b *api.BulkOperation) string {
	if b.RemainingMS == 0 {
		return ""
	}
	return "about " + max((time.Duration(b.RemainingMS)*time.Millisecond).Round(time.Second), time.Second).String()
}

// bulkPoll is how often a running operation is asked about.
const bulkPoll = 200 * time.Millisecond

// followBulk waits for the end of a bulk operation and shows it. When it is interrupted, the operation is cancelled.
func followBulk(ctx context.Context, a *app, c *client.Client, b *api.BulkOperation) error {
	for b.State == api.BulkRunning {
		timer := time.NewTimer(bulkPoll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			if _, err := c.CancelBulk(stopping, b.ID, a.actor("")); err != nil {
				return err
			}
			return ctx.Err()
		}
		now, err := c.Bulk(ctx, b.ID)
		switch {
		case err == nil:
			b = now
		case ctx.Err() == nil:
			return err
		}
	}
	if err := printOne(a, *b, bulkFields); err != nil {
		return err
	}
	if b.State == api.BulkFailed {
		return errors.New("the bulk operation failed: " + b.Failure)
	}
	return nil
}

func bulkFields(b api.BulkOperation) [][2]string {
	return [][2]string{
		{"id", b.ID}, {"queue", b.Queue}, {"action", b.Action}, {"to", b.To}, {"by", b.Actor}, {"state", b.State},
		{"cancelled by", b.CancelledBy}, {"dry run", strconv.FormatBool(b.DryRun)},
		{"matched", number(b.Matched)}, {"done", number(b.Done)}, {"unchanged", number(b.Unchanged)},
		{"refused", number(b.Refused)}, {"failure", b.Failure},
		{"examined", examined(&b)}, {"left", remaining(&b)},
	}
}
