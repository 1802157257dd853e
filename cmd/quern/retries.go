package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
)

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
		list: does("list", "List chunks that failed and will be tried again, those of the newest submission first",
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
		list: does("groups", "Group chunks that failed and will be tried again by error, the largest group first",
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
					say(a.err, "quern: %d more chunks are in no group, as there are 1,000 groups already; "+
						"quern retries list shows each\n", got.Others)
				}
				return listed(got.Items), nil
			}).with(onlyMeta),
	}
	return parent(&cobra.Command{Use: "retries", Short: "Show what failed and will be tried again; `quern bulk run retry` tries it now"},
		append(list.commands(a), groups.commands(a)...)...)
}
