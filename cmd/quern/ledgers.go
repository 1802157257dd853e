package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// ledgersCommand shows the books of Fair blocks.
func ledgersCommand(a *app) *cobra.Command {
	var sort string
	var limit int
	c := a.queueCommand(&cobra.Command{
		Use: "ledgers [LEDGER]", Short: "List the Fair blocks in use, or the shares of the tenants of one", Args: cobra.MaximumNArgs(1),
		Long: "List the Fair blocks in use of a queue. With the id of one, list its tenants: how much each received, how much\n" +
			"an ideal division would have given it, and the difference, its lag. A tenant with a positive lag is behind, and\n" +
			"one with a negative lag is ahead.",
		Example: "  quern ledgers\n  quern ledgers 4f2a91c07be2d310 --sort behind",
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			if len(args) == 1 {
				l, err := c.LedgerTenants(ctx, a.queueName(), args[0], sort, limit)
				return printLaidOut(a, l, err, printLedger)
			}
			return printAll(a, c.Ledgers(ctx, a.queueName()), []string{"LEDGER", "KEY", "SHARED", "ACTIVE", "OWING", "BLOCKED", "BRANCH"},
				func(l api.Ledger) []string {
					return []string{l.ID, times("> ", l.Depth) + l.Key, l.Cost, strconv.Itoa(l.Active),
						strconv.Itoa(l.Owing), strconv.Itoa(l.Blocked), l.Branch}
				})
		}),
	})
	c.Flags().StringVar(&sort, "sort", "received", "with a ledger: which tenants come first: received, behind or ahead")
	c.Flags().IntVarP(&limit, "limit", "n", 100, "at most this many tenants of one ledger, 1 to 1,000")
	return c
}

func printLedger(a *app, l *api.LedgerTenants) error {
	amount := func(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }
	say(a.out, "%s, sum of lags %s, furthest behind %s, furthest ahead %s\n\n", several(l.Tenants, "tenant"),
		amount(l.Lag), amount(l.MostBehind), amount(l.MostAhead))
	return printList(a, l.Items, []string{"TENANT", "STATE", "WEIGHT", "SHARE", "RECEIVED", "ENTITLED", "LAG"},
		func(t api.LedgerTenant) []string {
			var path []string
			for i := range t.Around {
				path = append(path, tenantName(t.Around[i].Value))
			}
			path = append(path, tenantName(t.Value))
			return []string{strings.Join(path, " / "), t.State, strconv.FormatFloat(t.Weight, 'g', -1, 64),
				fmt.Sprintf("%.1f %%", 100*t.Share), amount(t.Received), amount(t.Entitled), amount(t.Lag)}
		})
}

func tenantName(v *api.MetaValue) string {
	if v == nil {
		return "(no value)"
	}
	return v.String()
}

// mapCommand shows where the chunks of a submission stand.
func mapCommand(a *app) *cobra.Command {
	var from, to uint32
	var cells int
	c := a.serverCommand(&cobra.Command{
		Use: "map SUBMISSION", Short: "Show the state of all chunks of a submission as a map", Args: cobra.ExactArgs(1),
		Long: "Show the state of all chunks of a submission as a row of cells, each for the same number of chunks. A cell shows\n" +
			"the first of these states that one of its chunks has: D dead, s skipped, R reserved, w waiting, r ready (p or b\n" +
			"if a rule pauses or blocks it), and . done.",
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			m, err := c.ChunkMap(ctx, args[0], from, to, cells)
			return printLaidOut(a, m, err, printMap)
		}),
	})
	f := c.Flags()
	f.Uint32Var(&from, "from", 0, "begin with this chunk")
	f.Uint32Var(&to, "to", 0, "end before this chunk (0: after the last one)")
	f.IntVar(&cells, "cells", 500, "at most this many cells")
	return c
}

func printMap(a *app, m *api.ChunkMap) error {
	const row = 50
	for first := 0; first < len(m.Done); first += row {
		var line strings.Builder
		for i := first; i < min(first+row, len(m.Done)); i++ {
			line.WriteByte(cellOf(m, i))
		}
		say(a.out, "%10d  %s\n", uint64(m.From)+uint64(first)*uint64(m.Each), line.String())
	}
	examined := ""
	if m.Every > 1 {
		examined = fmt.Sprintf("; one in %d was examined, a shorter range shows all", m.Every)
	}
	return say(a.out, "\n%d to %d of %d chunks, %d to a cell%s\n", m.From, m.To, m.Chunks, m.Each, examined)
}

// cellOf is the letter of a cell.
func cellOf(m *api.ChunkMap, i int) byte {
	ready := byte('r')
	if m.Ruling != "" {
		ready = m.Ruling[0]
	}
	for _, state := range []struct {
		counts []uint32
		letter byte
	}{{m.Dead, 'D'}, {m.Skipped, 's'}, {m.Reserved, 'R'}, {m.Waiting, 'w'}, {m.Ready, ready}} {
		if i < len(state.counts) && state.counts[i] > 0 {
			return state.letter
		}
	}
	return '.'
}

// viewsCommand shows what memory strategies take.
func viewsCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "views", Short: "List the indexes of strategies with their memory", Args: cobra.NoArgs,
		Long: "List the indexes that the strategies of a queue have in memory, the largest first. Each branch in use has one.\n" +
			"Indexes that only questions use (preview, explain, why, compare) have a limit of their own, a quarter of\n" +
			"view-memory.",
		Example: "  quern views\n  quern views --queue encode -o json",
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			all, err := c.Views(ctx, a.queueName())
			return printLaidOut(a, all, err, printViews)
		}),
	}
	a.queueFlags(c)
	a.formatFlag(c, formatTable, formatJSON)
	return c
}

func printViews(a *app, all *api.Views) error {
	say(a.out, "all queues: %s of %s are in use, and by questions %s of %s\n\n", inMiB(all.Bytes),
		inMiB(all.BytesMost), inMiB(all.QuestionBytes), inMiB(all.QuestionBytesMost))
	return printList(a, all.Items, []string{"MEMORY", "OF", "STATE", "BRANCH"}, func(v api.View) []string {
		of, state := "reserves", "built"
		if v.Question {
			of = "questions"
		}
		if !v.Built {
			state = "being built"
		}
		return []string{inMiB(v.Bytes), of, state, v.Branch}
	})
}

func inMiB(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
