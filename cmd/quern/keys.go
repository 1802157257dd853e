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
	var sort string
	keys := resource[api.MetaKey]{
		parent: "keys", word: "KEY", ofQueue: true, header: []string{"KEY", "VALUES", "SET"},
		offer: func(k api.MetaKey) (string, string) { return k.Key, number(k.Values) + " values" },
		row:   func(k api.MetaKey) []string { return []string{k.Key, number(k.Values), number(k.ValuesSet)} },
		list: does("list", "List the meta keys of a queue with their number of values",
			func(ctx context.Context, c call) (all[api.MetaKey], error) { return c.MetaKeys(ctx, c.queue), nil }),
	}
	values := resource[api.ValueCount]{
		parent: "keys", word: "VALUE", ofQueue: true, fields: valueFields,
		offer:  func(v api.ValueCount) (string, string) { return metaText(v.Value), number(v.Ready) + " ready" },
		header: []string{"VALUE", "READY", "IN FLIGHT", "SUBMISSIONS", "LIMIT", "AT IT SINCE", "WEIGHT"},
		row: func(v api.ValueCount) []string {
			return []string{metaText(v.Value), number(v.Ready), number(v.InFlight), number(v.Submissions),
				ifAny(v.Limit, number), ifAny(v.SaturatedSince, moment), ifAny(v.Weight, decimal)}
		},
		list: does("values KEY", "List the values of a meta key with ready chunks, chunks in flight, limit and weight, at most 100",
			func(ctx context.Context, c call) (all[api.ValueCount], error) {
				return c.Values(ctx, c.queue, c.args[0], sort), nil
			},
		).with(func(c *cobra.Command) {
			c.Flags().StringVar(&sort, "sort", "", "the largest first by in_flight or ready (default in_flight)")
		}),
		one: []action[*api.ValueCount]{does("get KEY VALUE", "Show a value of a meta key: ready chunks, chunks in "+
			"flight, limit and weight",
			func(ctx context.Context, c call) (*api.ValueCount, error) {
				return c.Value(ctx, c.queue, c.args[0], parseMetaValue(c.args[1]))
			})},
		remove: does("unset KEY VALUE", "Remove the limit and the weight of a value", func(ctx context.Context, c call) (none, error) {
			return none{}, c.DeleteValue(ctx, c.queue, c.args[0], parseMetaValue(c.args[1]), client.Condition{})
		}),
	}
	return parent(&cobra.Command{
		Use: "keys", Short: "List meta keys and values; set limits and weights",
		Long: "List meta keys and values, and set limits and weights. Write VALUE as for --meta: 123 is the integer, s:123 the " +
			"text.",
	}, append(append(keys.commands(a), values.commands(a)...), keysSetCommand(a))...)
}

func keysSetCommand(a *app) *cobra.Command {
	var limit, weight string
	c := a.queueCommand(&cobra.Command{
		Use:   "set KEY VALUE",
		Short: "Limit or weigh a value of a meta key; other settings stay",
		Long: "Limit or weigh a value of a meta key; other settings stay. The limit holds for every reservation of the queue, " +
			"with any strategy, from\n" +
			"the next one on. Chunks in flight stay. The weight is the value's share under Fair.",
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
	c.Flags().StringVar(&limit, "limit", "", "limit of chunks in flight: `N` from 0 (hand out nothing), or none")
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

const noSetting = "none" // of --limit and --weight

func parseLimit(text string) (*uint32, error) {
	if text == noSetting {
		return nil, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n > queue.MaxValueLimit {
		return nil, usageError{fmt.Errorf("--limit %q is neither a whole number from 0 to %d nor none", text, queue.MaxValueLimit)}
	}
	return new(uint32(n)), nil
}

func parseWeight(text string) (*float64, error) {
	if text == noSetting {
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
