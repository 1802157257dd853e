package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
)

// reservationsCommand lists who holds what.
func reservationsCommand(a *app) *cobra.Command {
	var (
		f     api.HeldFilter
		meta  []string
		sort  string
		limit limited
	)
	held := resource[api.HeldReservation]{
		ofQueue: true, header: heldHeader(), row: heldRow, limit: &limit,
		list: does("reservations", "List the chunks that consumers hold, the longest held first",
			func(ctx context.Context, c call) (list all[api.HeldReservation], err error) {
				if f.Meta, err = parseMeta(meta); err != nil {
					return nil, err
				}
				if f.ByDeadline = sort == "deadline"; sort != "age" && sort != "deadline" {
					return nil, usageError{fmt.Errorf("--sort is %q: age or deadline", sort)}
				}
				f.Limit = limit.page()
				if f.Consumer+f.Submission == "" && !f.Overdue && len(f.Meta) == 0 {
					limit.total = a.counted(ctx, c.Client, func(s *api.Stats) uint64 { return s.Reserved })
				}
				return c.Reservations(ctx, c.queue, f), nil
			}),
	}
	c := held.commands(a)[0]
	c.Example = "  quern reservations --overdue\n  quern reservations --meta company=7 -o json"
	c.Flags().BoolVar(&f.Overdue, "overdue", false, "only chunks held longer than the queue's reservation timeout")
	c.Flags().StringVar(&f.Consumer, "consumer", "", "only chunks of this consumer")
	c.Flags().StringVar(&f.Submission, "submission", "", "only chunks of this submission")
	c.Flags().StringArrayVarP(&meta, "meta", "m", nil, "only chunks of submissions with this meta, key=value (repeatable)")
	c.Flags().StringVar(&sort, "sort", "age", "age: the longest held first; deadline: the earliest deadline first")
	limit.flags(c, 1000, "chunks")
	return c
}

func heldHeader() []string {
	return []string{"CHUNK", "CONSUMER", "HELD", "OVERDUE", "PROGRESS", "NOTE", "ATTEMPT", "SINCE", "DEADLINE", "META"}
}

func heldRow(h api.HeldReservation) []string {
	overdue := ""
	if h.Overdue {
		overdue = "overdue"
	}
	age := (time.Duration(h.HeldMS) * time.Millisecond).Round(time.Second)
	return []string{h.Submission + "/" + number(h.Index), h.Consumer, age.String(), overdue, percent(h.Progress), h.Note, number(h.Attempt),
		moment(h.Since), moment(h.Deadline), metaLine(h.Meta)}
}

// percent is what a consumer said of its progress; "" where it said nothing.
func percent(progress *float64) string {
	if progress == nil {
		return ""
	}
	return strconv.FormatFloat(100**progress, 'f', 0, 64) + " %"
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
