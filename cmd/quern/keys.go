package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// keysCommand is the parent of the commands on meta keys and their values.
func keysCommand(a *app) *cobra.Command {
	return parent(&cobra.Command{
		Use: "keys", Short: "List meta keys and values; limit and weigh values",
		Long: "List meta keys and values; limit and weigh values. VALUE is written as for --meta: 123 is the integer, s:123 the text.",
	}, keysListCommand(a), keysValuesCommand(a), keysGetCommand(a), keysSetCommand(a), keysUnsetCommand(a))
}

func keysListCommand(a *app) *cobra.Command {
	return a.queueCommand(&cobra.Command{
		Use:   "list",
		Short: "List the meta keys of a queue with how many values they have",
		Args:  cobra.NoArgs,
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			return printAll(a, c.MetaKeys(ctx, a.queueName()), []string{"KEY", "VALUES", "SET"}, func(k api.MetaKey) []string {
				return []string{k.Key, number(k.Values), number(k.ValuesSet)}
			})
		}),
	})
}

func keysValuesCommand(a *app) *cobra.Command {
	var sort string
	c := a.queueCommand(&cobra.Command{
		Use:   "values KEY",
		Short: "List the values of a meta key with what is ready, in flight and set, at most 100",
		Args:  cobra.ExactArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			header := []string{"VALUE", "READY", "IN FLIGHT", "SUBMISSIONS", "LIMIT", "AT IT SINCE", "WEIGHT"}
			return printAll(a, c.Values(ctx, a.queueName(), args[0], sort), header, func(v api.ValueCount) []string {
				return []string{metaText(v.Value), number(v.Ready), number(v.InFlight), number(v.Submissions),
					ifAny(v.Limit, number), ifAny(v.SaturatedSince, moment), ifAny(v.Weight, decimal)}
			})
		}),
	})
	c.Flags().StringVar(&sort, "sort", "", "the largest first by in_flight or ready (default in_flight)")
	return c
}

func keysGetCommand(a *app) *cobra.Command {
	return a.queueCommand(&cobra.Command{
		Use:   "get KEY VALUE",
		Short: "Show a value of a meta key: what is ready, in flight and set",
		Args:  cobra.ExactArgs(2),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			v, err := c.Value(ctx, a.queueName(), args[0], parseMetaValue(args[1]))
			return printAnswer(a, v, err, valueFields)
		}),
	})
}

func keysSetCommand(a *app) *cobra.Command {
	var limit, weight string
	c := a.queueCommand(&cobra.Command{
		Use:   "set KEY VALUE",
		Short: "Limit a value of a meta key, or weigh it; what is not given stays as it is",
		Long: "Limit a value of a meta key, or weigh it; what is not given stays as it is. The limit holds for every " +
			"reservation of the queue,\n" +
			"with any strategy, from the next one on; what is in flight stays. The weight is the value's share under Fair.",
		Example: "  quern keys set company acme --limit 5\n  quern keys set company acme --weight 2.5 --limit none",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			given := cmd.Flags().Changed
			if !given("limit") && !given("weight") {
				return usageError{errors.New("nothing is to be set: give --limit, --weight or both")}
			}
			return setValue(a, cmd, args[0], parseMetaValue(args[1]), func(s *api.ValueSettings) (err error) {
				if given("limit") {
					if s.Limit, err = parseLimit(limit); err != nil {
						return err
					}
				}
				if given("weight") {
					s.Weight, err = parseWeight(weight)
				}
				return err
			})
		},
	})
	c.Flags().StringVar(&limit, "limit", "", "most chunks in flight: `N` from 0 (hand out nothing), or none")
	c.Flags().StringVar(&weight, "weight", "", "share under Fair: `W` from 0.001 to 1000, or none, which counts as 1")
	return c
}

// setValue changes what is set for a value, on the condition that no other client does meanwhile.
func setValue(a *app, cmd *cobra.Command, key string, value api.MetaValue, change func(*api.ValueSettings) error) error {
	var settings api.ValueSettings
	if err := change(&settings); err != nil { // says what is wrong before anything is asked
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	now, err := c.Value(cmd.Context(), a.queueName(), key, value)
	switch {
	case client.CodeOf(err) == api.CodeUnknownValue:
		now = &api.ValueCount{Value: value}
	case err != nil:
		return err
	}
	settings = api.ValueSettings{Limit: now.Limit, Weight: now.Weight}
	if err := change(&settings); err != nil {
		return err
	}
	when := client.Condition{ETag: now.ETag, Absent: now.ETag == ""}
	switch {
	case settings != api.ValueSettings{}:
		now, err = c.PutValue(cmd.Context(), a.queueName(), key, value, settings, when)
	case now.ETag != "": // the last setting goes
		if err = c.DeleteValue(cmd.Context(), a.queueName(), key, value, when); err == nil {
			now.Limit, now.Weight, now.Saturated, now.SaturatedSince, now.ETag, now.ChangedAt = nil, nil, false, nil, "", api.Time{}
		}
	}
	if err != nil {
		return err
	}
	return printOne(a, *now, valueFields)
}

func keysUnsetCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "unset KEY VALUE",
		Short: "Remove the limit and the weight of a value",
		Args:  cobra.ExactArgs(2),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			return c.DeleteValue(ctx, a.queueName(), args[0], parseMetaValue(args[1]), client.Condition{})
		}),
	}
	a.queueFlags(c)
	return c
}

const none = "none" // of --limit and --weight

func parseLimit(text string) (*uint32, error) {
	if text == none {
		return nil, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n > queue.MaxValueLimit {
		return nil, usageError{fmt.Errorf("--limit %q is neither a whole number from 0 to %d nor none", text, queue.MaxValueLimit)}
	}
	return new(uint32(n)), nil
}

func parseWeight(text string) (*float64, error) {
	if text == none {
		return nil, nil
	}
	w, err := strconv.ParseFloat(text, 64)
	if err != nil || !(w > 0 && w <= queue.MaxWeight/queue.DefaultWeight) {
		return nil, usageError{fmt.Errorf("--weight %q is neither a number from 0.001 to %d nor none", text,
			queue.MaxWeight/queue.DefaultWeight)}
	}
	return &w, nil
}

func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func valueFields(v api.ValueCount) [][2]string {
	return present([][2]string{
		{"value", metaText(v.Value)},
		{"ready", number(v.Ready)},
		{"in flight", number(v.InFlight)},
		{"submissions", number(v.Submissions)},
		{"limit", ifAny(v.Limit, number)},
		{"at limit since", ifAny(v.SaturatedSince, moment)},
		{"weight", ifAny(v.Weight, decimal)},
		{"etag", v.ETag},
		{"changed", moment(v.ChangedAt)},
	})
}
