package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// reservationsCommand lists who holds what.
func reservationsCommand(a *app) *cobra.Command {
	var (
		f     api.HeldFilter
		meta  []string
		sort  string
		limit limited
	)
	c := a.queueCommand(&cobra.Command{
		Use: "reservations", Short: "List the chunks that consumers hold, the longest held first",
		Example: "  quern reservations --overdue\n  quern reservations --meta company=7 -o json", Args: cobra.NoArgs,
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) (err error) {
			if f.Meta, err = parseMeta(meta); err != nil {
				return err
			}
			if f.ByDeadline = sort == "deadline"; sort != "age" && sort != "deadline" {
				return usageError{fmt.Errorf("--sort is %q: age or deadline", sort)}
			}
			f.Limit = limit.page()
			if f.Consumer+f.Submission == "" && !f.Overdue && len(f.Meta) == 0 {
				limit.total = a.counted(ctx, c, func(s *api.Stats) uint64 { return s.Reserved })
			}
			return printFirst(a, c.Reservations(ctx, a.queueName(), f), limit, heldHeader(), heldRow)
		}),
	})
	c.Flags().BoolVar(&f.Overdue, "overdue", false, "only what is held for longer than the queue's reservation timeout")
	c.Flags().StringVar(&f.Consumer, "consumer", "", "only what this consumer holds")
	c.Flags().StringVar(&f.Submission, "submission", "", "only chunks of this submission")
	c.Flags().StringArrayVarP(&meta, "meta", "m", nil, "only chunks of submissions with this meta, key=value (repeatable)")
	c.Flags().StringVar(&sort, "sort", "age", "age: the longest held first; deadline: the earliest deadline first")
	limit.flags(c, 1000, "chunks")
	return c
}

func heldHeader() []string {
	return []string{"CHUNK", "CONSUMER", "HELD", "OVERDUE", "ATTEMPT", "SINCE", "DEADLINE", "META"}
}

func heldRow(h api.HeldReservation) []string {
	overdue := ""
	if h.Overdue {
		overdue = "overdue"
	}
	age := (time.Duration(h.HeldMS) * time.Millisecond).Round(time.Second)
	return []string{h.Submission + "/" + number(h.Index), h.Consumer, age.String(), overdue, number(h.Attempt),
		moment(h.Since), moment(h.Deadline), metaLine(h.Meta)}
}

// releaseChunk takes one chunk back from the consumer that holds it.
func releaseChunk(ctx context.Context, a *app, submission string, index uint32, actor, reason string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	h, err := c.ReleaseChunk(ctx, submission, index, actor, reason)
	if err != nil {
		return err
	}
	return printList(a, []api.HeldReservation{*h}, heldHeader(), heldRow)
}
