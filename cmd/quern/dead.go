package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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
	return parent(&cobra.Command{Use: "dead", Short: "List, redrive, delete and forward dead letters: chunks out of attempts"},
		append(append(deadLetters(a).commands(a), deadGroups(a).commands(a)...),
			deadEditCommand(a),
			deadActCommand(a, api.BulkRedrive, "Offer dead letters again with their attempts reset"),
			deadActCommand(a, api.BulkDelete, "Delete dead letters for good"),
			deadActCommand(a, api.BulkForward, "Move dead letters to another queue"))...)
}

func deadLetters(a *app) *resource[api.DeadLetter] {
	var f deadFilter
	var limit limited
	return &resource[api.DeadLetter]{
		parent: "dead", word: "ID/INDEX", ofQueue: true, fields: deadFields, limit: &limit,
		offer:  func(d api.DeadLetter) (string, string) { return d.Submission + "/" + number(d.Index), "" },
		header: []string{"CHUNK", "DIED", "ATTEMPTS", "REDRIVES", "CONSUMER", "FINGERPRINT", "ERROR"},
		row: func(d api.DeadLetter) []string {
			return []string{d.Submission + "/" + number(d.Index), moment(d.DiedAt), number(d.Attempts),
				number(d.Redrives), d.Consumer, d.Fingerprint, strconv.Quote(d.Error)}
		},
		list: does("list", "List dead letters, those of the newest submission first",
			func(ctx context.Context, c call) (all[api.DeadLetter], error) {
				filter, err := f.api()
				if err != nil {
					return nil, err
				}
				if !f.many() {
					limit.total = a.counted(ctx, c.Client, func(s *api.Stats) uint64 { return s.DeadLetters })
				}
				return c.DeadLetters(ctx, c.queue, filter), nil
			}).with(func(c *cobra.Command) {
			f.flags(c)
			limit.flags(c, 100, "dead letters")
		}),
		one: []action[*api.DeadLetter]{does("get ID/INDEX", "Show a dead letter with its last 10 attempts",
			func(ctx context.Context, c call) (*api.DeadLetter, error) {
				id, index, err := parseChunk(c.args[0])
				if err != nil {
					return nil, err
				}
				return c.DeadLetter(ctx, c.queue, id, index)
			})},
	}
}

func deadGroups(a *app) *resource[api.DeadGroup] {
	var f deadFilter
	return &resource[api.DeadGroup]{
		parent: "dead", ofQueue: true, header: []string{"COUNT", "SUBMISSIONS", "LAST", "FINGERPRINT", "PATTERN"},
		row: func(g api.DeadGroup) []string {
			return []string{number(g.Count), number(g.Submissions), moment(g.LastDiedAt), g.Fingerprint, strconv.Quote(g.Pattern)}
		},
		list: does("groups", "Group dead letters by error, the largest group first",
			func(ctx context.Context, c call) (all[api.DeadGroup], error) {
				filter, err := f.api()
				if err != nil {
					return nil, err
				}
				got, err := c.DeadGroups(ctx, c.queue, filter)
				if err != nil {
					return nil, err
				}
				if got.Others > 0 {
					say(a.err, "quern: there are already 10,000 groups, so no group has the other %s. quern dead list shows each\n",
						several(got.Others, "dead letter"))
				}
				return listed(got.Items), nil
			}).with(f.flags),
	}
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
	c.Flags().StringVar(&f.submission, "submission", "", "only those from this submission")
	c.Flags().StringVar(&f.fingerprint, "fingerprint", "", "only those with this fingerprint, as dead groups shows it")
	c.Flags().StringVar(&f.diedBefore, "died-before", "", "only those that died before this time, or longer ago than this (24h)")
	c.Flags().StringVar(&f.diedAfter, "died-after", "", "only those that died after this time, or within this duration (1h)")
	c.Flags().StringArrayVarP(&f.meta, "meta", "m", nil, "only those from submissions with this metadata, "+
		"`KEY=VALUE`; repeatable")
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

// deadActCommand redrives, deletes or forwards dead letters: the named ones, or, as a bulk operation, all that match the flags.
func deadActCommand(a *app, action, short string) *cobra.Command {
	var f deadFilter
	var all, dryRun bool
	var rate, oldest uint32
	var to, actor string
	c := a.queueCommand(&cobra.Command{
		Use: action + " [ID/INDEX...]", Short: short + ": the named ones, or many with --all or filters",
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
			return eachOf(args, func(arg string) error { return actOnDead(ctx, c, a.queueName(), action, to, arg) })
		}),
	})
	f.flags(c)
	c.Flags().BoolVar(&all, "all", false, "all dead letters of the queue")
	c.Flags().Uint32Var(&oldest, "oldest", 0, "at most this many, the ones that died first")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "with --all or filters: only count")
	c.Flags().Uint32Var(&rate, "rate", 0, "at most this many chunks per second (0: no limit)")
	c.Flags().StringVar(&actor, "actor", "", "with --all or filters: name of the person who does it (default: the user's name)")
	if action == api.BulkForward {
		c.Flags().StringVar(&to, "to", "", "the queue to move them to")
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

// deadEditCommand gives a dead letter another content.
func deadEditCommand(a *app) *cobra.Command {
	var path string
	c := a.queueCommand(&cobra.Command{
		Use:   "edit ID/INDEX",
		Short: "Replace the inline content of a dead letter, before you redrive it",
		Long: "Replace the content of a dead letter with that of a file, or of standard input. 'quern dead get ID/INDEX -o json' shows\n" +
			"the current content. The chunk stays dead: redrive or forward it afterwards.",
		Example: "  quern dead edit 7130316829368545284/12 --file fixed.json",
		Args:    cobra.ExactArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			id, index, err := parseChunk(args[0])
			if err != nil {
				return err
			}
			in := a.in
			if path != "-" {
				file, err := os.Open(path)
				if err != nil {
					return usageError{err}
				}
				defer file.Close()
				in = file
			}
			content, err := io.ReadAll(io.LimitReader(in, queue.MaxReplacedContent+1)) // the server refuses one more
			if err != nil {
				return err
			}
			_, err = c.SetDeadLetterContent(ctx, a.queueName(), id, index, append(api.Bytes{}, content...))
			return err
		}),
	})
	c.Flags().StringVar(&path, "file", "-", "the file with the content; -: the standard input")
	return c
}

// retriesCommand is the parent of the commands on chunks that failed and will be tried again.
func retriesCommand(a *app) *cobra.Command {
	var kind string
	var meta []string
	var limit limited
	onlyMeta := func(c *cobra.Command) {
		c.Flags().StringArrayVarP(&meta, "meta", "m", nil, "only those from submissions with this metadata, "+
			"`KEY=VALUE`; repeatable")
	}
	list := resource[api.Retry]{
		parent: "retries", ofQueue: true, limit: &limit,
		header: []string{"CHUNK", "FAILED", "ATTEMPTS", "NEXT", "FINGERPRINT", "ERROR"},
		row: func(x api.Retry) []string {
			return []string{x.Submission + "/" + number(x.Index), moment(x.FailedAt), number(x.Attempts), moment(x.NextAt),
				x.Fingerprint, strconv.Quote(x.Error)}
		},
		list: does("list", "List chunks that wait for a retry, those of the newest submission first",
			func(ctx context.Context, c call) (all[api.Retry], error) {
				m, err := parseMeta(meta)
				return c.Retries(ctx, c.queue, kind, m), err
			}).with(func(c *cobra.Command) {
			c.Flags().StringVar(&kind, "fingerprint", "", "only those whose last error has this fingerprint, as retries groups shows it")
			onlyMeta(c)
			limit.flags(c, 100, "chunks")
		}),
	}
	groups := resource[api.RetryGroup]{
		parent: "retries", ofQueue: true, header: []string{"COUNT", "SUBMISSIONS", "TRIES", "NEXT", "FINGERPRINT", "PATTERN"},
		row: func(g api.RetryGroup) []string {
			tries := make([]string, len(g.Tries))
			for i, t := range g.Tries {
				tries[i] = number(t.Tries) + "x" + number(t.Count)
			}
			return []string{number(g.Count), number(g.Submissions), strings.Join(tries, " "), moment(g.NextAt), g.Fingerprint,
				strconv.Quote(g.Pattern)}
		},
		list: does("groups", "Group chunks that wait for a retry by error, the largest group first",
			func(ctx context.Context, c call) (all[api.RetryGroup], error) {
				m, err := parseMeta(meta)
				if err != nil {
					return nil, err
				}
				got, err := c.RetryGroups(ctx, c.queue, m)
				if err != nil {
					return nil, err
				}
				if got.Others > 0 {
					say(a.err, "quern: there are already 1,000 groups, so no group has the other %s. quern retries list shows each\n",
						several(got.Others, "chunk"))
				}
				return listed(got.Items), nil
			}).with(onlyMeta),
	}
	return parent(&cobra.Command{Use: "retries", Short: "Show chunks that wait for a retry; `quern bulk run retry` makes them ready now"},
		append(list.commands(a), groups.commands(a)...)...)
}
