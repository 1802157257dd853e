package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// deadCommand is the parent of the commands on dead letters.
func deadCommand(a *app) *cobra.Command {
	return parent(&cobra.Command{Use: "dead", Short: "List, redrive, delete and forward chunks that are out of attempts"},
		deadListCommand(a), deadGroupsCommand(a), deadGetCommand(a),
		deadActCommand(a, api.BulkRedrive, "Offer dead chunks again, with no try counted"),
		deadActCommand(a, api.BulkDelete, "Give dead chunks up for good"),
		deadActCommand(a, api.BulkForward, "Have dead chunks go on to another queue"))
}

// deadFilter is the filter of dead letters as flags.
type deadFilter struct {
	submission, fingerprint, diedBefore, diedAfter string
	meta                                           []string
}

// many says that it means others than those that are named.
func (f *deadFilter) many() bool {
	return f.submission+f.fingerprint+f.diedBefore+f.diedAfter != "" || len(f.meta) > 0
}

func (f *deadFilter) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.submission, "submission", "", "only those of this submission")
	c.Flags().StringVar(&f.fingerprint, "fingerprint", "", "only those with this fingerprint, as dead groups shows it")
	c.Flags().StringVar(&f.diedBefore, "died-before", "", "only those that died before this time, or so long ago (24h)")
	c.Flags().StringVar(&f.diedAfter, "died-after", "", "only those that died since this time, or not longer ago (1h)")
	c.Flags().StringArrayVarP(&f.meta, "meta", "m", nil, "only those of submissions with this metadata, `KEY=VALUE`, repeatable")
}

func (f *deadFilter) api() (out api.DeadFilter, err error) {
	out = api.DeadFilter{Submission: f.submission, Fingerprint: f.fingerprint}
	if out.Meta, err = parseMeta(f.meta); err != nil {
		return out, err
	}
	now := time.Now()
	if out.DiedBefore, err = parsePast("--died-before", f.diedBefore, now); err != nil {
		return out, err
	}
	out.DiedAfter, err = parsePast("--died-after", f.diedAfter, now)
	return out, err
}

func deadListCommand(a *app) *cobra.Command {
	var f deadFilter
	var limit limited
	c := a.queueCommand(&cobra.Command{
		Use: "list", Short: "List dead letters, those of the newest submission first", Args: cobra.NoArgs,
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			filter, err := f.api()
			if err != nil {
				return err
			}
			if !f.many() {
				limit.total = a.counted(ctx, c, func(s *api.Stats) uint64 { return s.DeadLetters })
			}
			return printFirst(a, c.DeadLetters(ctx, a.queueName(), filter), limit, []string{"CHUNK", "DIED", "ATTEMPTS", "REDRIVES",
				"CONSUMER", "FINGERPRINT", "ERROR"}, func(d api.DeadLetter) []string {
				return []string{d.Submission + "/" + number(d.Index), moment(d.DiedAt), number(d.Attempts),
					number(d.Redrives), d.Consumer, d.Fingerprint, strconv.Quote(d.Error)}
			})
		}),
	})
	f.flags(c)
	limit.flags(c, 100, "dead letters")
	return c
}

func deadGroupsCommand(a *app) *cobra.Command {
	var f deadFilter
	c := a.queueCommand(&cobra.Command{
		Use: "groups", Short: "Group dead letters by the kind of their errors, the largest group first", Args: cobra.NoArgs,
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			filter, err := f.api()
			if err != nil {
				return err
			}
			got, err := c.DeadGroups(ctx, a.queueName(), filter)
			if err != nil {
				return err
			}
			if got.Others > 0 {
				say(a.err, "quern: %d more dead letters are in no group, as there are 10,000 groups already; "+
					"quern dead list shows each\n", got.Others)
			}
			return printList(a, got.Items, []string{"COUNT", "SUBMISSIONS", "LAST", "FINGERPRINT", "PATTERN"},
				func(g api.DeadGroup) []string {
					return []string{number(g.Count), number(g.Submissions), moment(g.LastDiedAt), g.Fingerprint, strconv.Quote(g.Pattern)}
				})
		}),
	})
	f.flags(c)
	return c
}

func deadGetCommand(a *app) *cobra.Command {
	return a.queueCommand(&cobra.Command{
		Use: "get ID/INDEX", Short: "Show a dead letter with the history of its last 10 tries", Args: cobra.ExactArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			id, index, err := parseChunk(args[0])
			if err != nil {
				return err
			}
			d, err := c.DeadLetter(ctx, a.queueName(), id, index)
			return printAnswer(a, d, err, deadFields)
		}),
	})
}

func deadFields(d api.DeadLetter) [][2]string {
	fields := [][2]string{
		{"chunk", d.Submission + "/" + number(d.Index)},
		{"submission is", d.SubmissionState},
		{"died", moment(d.DiedAt)},
		{"attempts", number(d.Attempts)},
		{"expiries", number(d.Expiries)},
		{"redrives", number(d.Redrives)},
		{"fingerprint", d.Fingerprint},
		{"error", d.Error},
	}
	for i, try := range d.History {
		held := time.Duration(try.HeldMS) * time.Millisecond
		fields = append(fields, [2]string{"try " + strconv.Itoa(i+1),
			fmt.Sprintf("%s  %s  held %s  %s", moment(try.EndedAt), try.Consumer, held, try.Error)})
	}
	return fields
}

// parseChunk reads SUBMISSION/INDEX.
func parseChunk(text string) (id string, index uint32, err error) {
	id, number, _ := strings.Cut(text, "/")
	n, err := strconv.ParseUint(number, 10, 32)
	if _, wrong := queue.ParseSubmissionID(id); wrong != nil || err != nil {
		return "", 0, usageError{fmt.Errorf("%q is not a chunk: give the submission's id and the index, such as "+
			"7130316829368545284/12", text)}
	}
	return id, uint32(n), nil
}

// deadActCommand redrives, deletes or forwards dead letters: those named, or, as a bulk operation, all that the flags mean.
func deadActCommand(a *app, action, short string) *cobra.Command {
	var f deadFilter
	var all, dryRun bool
	var rate, oldest uint32
	var to, actor string
	c := a.queueCommand(&cobra.Command{
		Use: action + " [ID/INDEX...]", Short: short + ": those named, or with --all or flags that say which, many at once",
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			many := all || f.many() || oldest > 0
			if many == (len(args) > 0) {
				return usageError{errors.New("name dead chunks as ID/INDEX, or give --all, or flags that say which, " +
					"such as --submission and --meta")}
			}
			if action == api.BulkForward && to == "" {
				return usageError{errors.New("say with --to which queue they go on to")}
			}
			if many {
				filter, err := f.api()
				if err != nil {
					return err
				}
				b, err := c.StartBulk(ctx, &api.BulkRequest{
					Queue: a.queueName(), Action: action, To: to,
					Filter: api.BulkFilter{Submission: filter.Submission, Fingerprint: filter.Fingerprint, Meta: filter.Meta,
						DiedBefore: filter.DiedBefore, DiedAfter: filter.DiedAfter, Oldest: oldest},
					RatePerSecond: rate, DryRun: dryRun, Actor: a.actor(actor),
				})
				if err != nil {
					return err
				}
				return followBulk(ctx, a, c, b)
			}
			for _, arg := range args {
				if err := actOnDead(ctx, c, a.queueName(), action, to, arg); err != nil {
					return err
				}
			}
			return nil
		}),
	})
	f.flags(c)
	c.Flags().BoolVar(&all, "all", false, "all dead letters of the queue")
	c.Flags().Uint32Var(&oldest, "oldest", 0, "at most so many, those that died first")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only count; with --all, or flags that say which")
	c.Flags().Uint32Var(&rate, "rate", 0, "at most so many chunks per second (0: as fast as it goes)")
	c.Flags().StringVar(&actor, "actor", "", "who does it (default: the user's name); with --all, or flags that say which")
	if action == api.BulkForward {
		c.Flags().StringVar(&to, "to", "", "the queue that they go on to")
	}
	return c
}

func actOnDead(ctx context.Context, c *client.Client, queueName, action, to, chunk string) error {
	id, index, err := parseChunk(chunk)
	if err != nil {
		return err
	}
	switch action {
	case api.BulkDelete:
		return c.DeleteDeadLetter(ctx, queueName, id, index)
	case api.BulkForward:
		_, err = c.ForwardDeadLetter(ctx, queueName, id, index, to)
		return err
	}
	_, err = c.Redrive(ctx, queueName, id, index)
	return err
}
