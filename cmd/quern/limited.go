package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/cmd/quern/top"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// limited is how much of a list is printed: --limit and --all. Its zero value is everything.
type limited struct {
	most  int           // 0: all
	total func() uint64 // how many there are; 0: unknown. nil: nothing counts them
	least bool          // total counts only some of them
}

// flags adds --limit, with its default, and --all.
func (l *limited) flags(c *cobra.Command, most int, what string) {
	c.Flags().IntVarP(&l.most, "limit", "n", most, "at most this many "+what+" (0: all)")
	c.Flags().BoolFunc("all", "list all "+what+", like --limit 0", func(string) error {
		l.most = 0
		return nil
	})
	c.MarkFlagsMutuallyExclusive("limit", "all")
	before := c.PreRunE
	c.PreRunE = func(cmd *cobra.Command, args []string) error {
		if l.most < 0 {
			return fmt.Errorf("--limit is %d; it must not be negative", l.most)
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
}

// ask is how many values to ask for, 0 for all: one more than are printed, to know whether there are more.
func (l limited) ask() int {
	if l.most == 0 {
		return 0
	}
	return l.most + 1
}

// page is how many values to ask for at once.
func (l limited) page() int { return min(cmp.Or(l.ask(), queue.MaxListLimit), queue.MaxListLimit) }

// sayMore says that what was printed is not all.
func (l limited) sayMore(a *app) error {
	total := uint64(0)
	if l.total != nil {
		total = l.total()
	}
	switch {
	case total <= uint64(l.most): // not known, or of another moment
		return say(a.err, "quern: these are the first %d; --all shows all\n", l.most)
	case l.least:
		return say(a.err, "quern: these are %d of at least %s; --all shows all\n", l.most, top.Thousands(total))
	}
	return say(a.err, "quern: these are %d of %s; --all shows all\n", l.most, top.Thousands(total))
}

// counted is the total of a list that one of the queue's numbers counts.
func (a *app) counted(ctx context.Context, c *client.Client, count func(*api.Stats) uint64) func() uint64 {
	return func() uint64 {
		s, err := c.Stats(ctx, a.queueName())
		if err != nil {
			return 0 // the list was printed; only its length is not known
		}
		return count(s)
	}
}
