package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// keysCommand is the parent of the commands on meta keys and their values.
func keysCommand(a *app) *cobra.Command {
	var (
		sort      string
		byDefault bool
	)
	keys := resource[api.MetaKey]{
		parent: "keys", word: "KEY", ofQueue: true,
		header: []string{"KEY", "VALUES", "SET", "DEFAULT LIMIT", "DEFAULT WEIGHT", "DEFAULT RATE"},
		offer:  func(k api.MetaKey) (string, string) { return k.Key, number(k.Values) + " values" },
		row: func(k api.MetaKey) []string {
			return []string{k.Key, number(k.Values), number(k.ValuesSet), ifAny(k.Limit, number), ifAny(k.Weight, decimal),
				ifAny(k.Rate, rateText)}
		},
		list: does("list", "List the meta keys of a queue with their number of values and their defaults",
			func(ctx context.Context, c call) (all[api.MetaKey], error) { return c.MetaKeys(ctx, c.queue), nil }),
	}
	values := resource[api.ValueCount]{
		parent: "keys", word: "VALUE", ofQueue: true, fields: valueFields,
		offer: func(v api.ValueCount) (string, string) { return metaText(v.Value), number(v.Ready) + " ready" },
		header: []string{"VALUE", "READY", "WAITING", "IN FLIGHT", "PAUSED", "DEAD", "DONE", "OLDEST READY", "SUBMISSIONS",
			"LIMIT", "AT IT SINCE", "WEIGHT", "RATE"},
		row: func(v api.ValueCount) []string {
			return []string{metaText(v.Value), number(v.Ready), number(v.Waiting), number(v.InFlight), number(v.Paused), number(v.Dead),
				number(v.Done), moment(v.OldestReadyAt), number(v.Submissions),
				ifAny(cmp.Or(v.Limit, v.DefaultLimit), number), ifAny(v.SaturatedSince, moment),
				ifAny(cmp.Or(v.Weight, v.DefaultWeight), decimal), ifAny(cmp.Or(v.Rate, v.DefaultRate), rateText)}
		},
		list: does("values KEY", "List the values of a meta key with their chunks, limit, weight and rate, at most 100",
			func(ctx context.Context, c call) (all[api.ValueCount], error) {
				return c.Values(ctx, c.queue, c.args[0], sort), nil
			},
		).with(func(c *cobra.Command) {
			c.Flags().StringVar(&sort, "sort", "", "the largest first by in_flight, ready, waiting, dead, "+
				"done, oldest (whose ready chunks were inserted longest ago), paused, blocked, submissions or weight (default in_flight)")
		}),
		one: []action[*api.ValueCount]{does("get KEY VALUE", "Show a value of a meta key: its chunks, limit, weight, rate and quota",
			func(ctx context.Context, c call) (*api.ValueCount, error) {
				return c.Value(ctx, c.queue, c.args[0], parseMetaValue(c.args[1]))
			})},
		remove: does("unset KEY VALUE", "Remove all settings of a value", func(ctx context.Context, c call) (none, error) {
			if byDefault {
				return none{}, client.DeleteMetaKey(ctx, c.Client, c.queue, c.args[0], client.Condition{})
			}
			return none{}, c.DeleteValue(ctx, c.queue, c.args[0], parseMetaValue(c.args[1]), client.Condition{})
		}).with(func(c *cobra.Command) { orDefault(c, &byDefault) }),
	}
	return parent(&cobra.Command{
		Use: "keys", Short: "List meta keys and values; set limits, weights, rates and quotas",
		Long: "List meta keys and values, and set limits, weights, rates and quotas. --default sets them for all values of a key. Write " +
			"VALUE as for --meta: 123 is the integer, s:123 the text.",
	}, append(append(keys.commands(a), values.commands(a)...), keysSetCommand(a))...)
}

// orDefault lets a command be about the default of all values, and then it takes no VALUE.
func orDefault(c *cobra.Command, byDefault *bool) {
	c.Flags().BoolVar(byDefault, "default", false, "for all values of KEY that have no such setting of their own; give no VALUE")
	c.Args = func(c *cobra.Command, args []string) error {
		if *byDefault {
			return cobra.ExactArgs(1)(c, args)
		}
		return cobra.ExactArgs(2)(c, args)
	}
}

func keysSetCommand(a *app) *cobra.Command {
	var (
		limit, weight, rate string
		quota               quotaFlags
		byDefault           bool
	)
	c := a.queueCommand(&cobra.Command{
		Use:   "set KEY VALUE",
		Short: "Set a limit, weight, rate or quota for a value of a meta key; other settings stay",
		Long: "Set a limit, weight, rate or quota for a value of a meta key, and leave its other settings unchanged. The limit\n" +
			"holds for every reservation of the queue from now on, whatever its strategy. Chunks in flight stay. The weight\n" +
			"is the value's share under Fair. The rate replaces the number in every MaxRate of the key with the same period.\n" +
			"The server refuses an insert that would exceed --most-waiting or --most-submissions.",
		Example: "  quern keys set company acme --limit 5\n  quern keys set company acme --weight 2.5 --limit none\n" +
			"  quern keys set company --default --limit 5\n  quern keys set company acme --rate 50/1m\n" +
			"  quern keys set company acme --most-waiting 10000",
		RunE: func(cmd *cobra.Command, args []string) error {
			given := cmd.Flags().Changed
			if !slices.ContainsFunc([]string{"limit", "weight", "rate", "most-waiting", "most-submissions", "most-bytes"}, given) {
				return usageError{errors.New("nothing is to be set: " +
					"give --limit, --weight, --rate, --most-waiting, --most-submissions or --most-bytes")}
			}
			change := func(s *api.ValueSettings) (err error) {
				if given("limit") {
					if s.Limit, err = parseLimit(limit); err != nil {
						return err
					}
				}
				if given("weight") {
					if s.Weight, err = parseWeight(weight); err != nil {
						return err
					}
				}
				if given("rate") {
					if s.Rate, err = parseRate(rate); err != nil {
						return err
					}
				}
				most := *cmp.Or(s.Quota, &api.GroupLimits{})
				err = quota.change(&most)
				if s.Quota = nil; most != (api.GroupLimits{}) {
					s.Quota = &most
				}
				return err
			}
			if byDefault {
				return setOn(a, ofKey(cmd.Context(), a.queueName(), args[0]), change)
			}
			return setOn(a, ofValue(cmd.Context(), a.queueName(), args[0], parseMetaValue(args[1])), change)
		},
	})
	orDefault(c, &byDefault)
	c.Flags().StringVar(&limit, "limit", "", "limit of chunks in flight: `N` from 0 (hand out nothing), or none")
	c.Flags().StringVar(&weight, "weight", "", "share under Fair: `W` from 0.001 to 1,000, or none, which counts as 1")
	c.Flags().StringVar(&rate, "rate", "", "reservations under MaxRate: `N/TIME` as in 50/1m, or none: strategies' own numbers hold")
	quota.flags(c)
	return c
}

// target has the settings: a value of a meta key, or all values of one.
type target[T any] struct {
	absent T // as what it is shown when there is nothing of it
	get    func(*client.Client) (*T, error)
	put    func(*client.Client, api.ValueSettings, client.Condition) (*T, error)
	remove func(*client.Client, client.Condition) error
	set    func(*T) (of api.ValueSettings, etag string)
	unset  func(*T) // as after a removal
	fields func(T) [][2]string
}

func ofValue(ctx context.Context, queue, key string, value api.MetaValue) target[api.ValueCount] {
	return target[api.ValueCount]{
		absent: api.ValueCount{Value: value}, fields: valueFields,
		get: func(c *client.Client) (*api.ValueCount, error) { return c.Value(ctx, queue, key, value) },
		put: func(c *client.Client, s api.ValueSettings, when client.Condition) (*api.ValueCount, error) {
			return c.PutValue(ctx, queue, key, value, s, when)
		},
		remove: func(c *client.Client, when client.Condition) error {
			return c.DeleteValue(ctx, queue, key, value, when)
		},
		set: func(v *api.ValueCount) (api.ValueSettings, string) {
			return api.ValueSettings{Limit: v.Limit, Weight: v.Weight, Rate: v.Rate, Quota: v.Quota}, v.ETag
		},
		unset: func(v *api.ValueCount) {
			v.Limit, v.Weight, v.Rate, v.Quota, v.Saturated, v.SaturatedSince = nil, nil, nil, nil, false, nil
			v.ETag, v.ChangedAt = "", api.Time{}
		},
	}
}

func ofKey(ctx context.Context, queue, key string) target[api.MetaKey] {
	return target[api.MetaKey]{
		absent: api.MetaKey{Key: key}, fields: keyFields,
		get: func(c *client.Client) (*api.MetaKey, error) { return client.MetaKey(ctx, c, queue, key) },
		put: func(c *client.Client, s api.ValueSettings, when client.Condition) (*api.MetaKey, error) {
			return client.PutMetaKey(ctx, c, queue, key, s, when)
		},
		remove: func(c *client.Client, when client.Condition) error {
			return client.DeleteMetaKey(ctx, c, queue, key, when)
		},
		set: func(k *api.MetaKey) (api.ValueSettings, string) {
			return api.ValueSettings{Limit: k.Limit, Weight: k.Weight, Rate: k.Rate, Quota: k.Quota}, k.ETag
		},
		unset: func(k *api.MetaKey) {
			k.Limit, k.Weight, k.Rate, k.Quota, k.ETag, k.ChangedAt = nil, nil, nil, nil, "", api.Time{}
		},
	}
}

// setOn changes what is set for a target, on the condition that no other client does meanwhile.
func setOn[T any](a *app, of target[T], change func(*api.ValueSettings) error) error {
	if err := change(new(api.ValueSettings)); err != nil { // says what is wrong before anything is asked
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	now, err := of.get(c)
	switch {
	case client.CodeOf(err) == api.CodeUnknownValue:
		now = &of.absent
	case err != nil:
		return err
	}
	settings, etag := of.set(now)
	if err := change(&settings); err != nil {
		return err
	}
	when := client.Condition{ETag: etag, Absent: etag == ""}
	switch {
	case settings != api.ValueSettings{}:
		now, err = of.put(c, settings, when)
	case etag != "": // the last setting goes
		if err = of.remove(c, when); err == nil {
			of.unset(now)
		}
	}
	if err != nil {
		return err
	}
	return printOne(a, *now, of.fields)
}

const noSetting = "none" // of --limit, --weight and --rate

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

// parseRate reads a number and a time, as strategies have it: 50/1m.
func parseRate(text string) (*api.Rate, error) {
	if text == noSetting {
		return nil, nil
	}
	digits, per, _ := strings.Cut(text, "/")
	n, err := strconv.ParseUint(digits, 10, 32)
	in, known := strategy.ParsePer(per)
	if err != nil || n < 1 || n > queue.MaxRate || !known {
		return nil, usageError{fmt.Errorf("--rate %q is neither a number from 1 to %d with a time from 10ms to 7d, as in 50/1m, nor none",
			text, queue.MaxRate)}
	}
	return &api.Rate{Max: uint32(n), PerMS: in.Milliseconds()}, nil
}

func rateText(r api.Rate) string {
	return strategy.Limit{Max: r.Max, Per: time.Duration(r.PerMS) * time.Millisecond}.Rate()
}

// quotaText is as "at most 10000 waiting chunks, 50 open submissions".
func quotaText(q api.GroupLimits) string {
	var parts []string
	if q.Waiting != nil {
		parts = append(parts, queue.Exactly(uint64(*q.Waiting), "waiting chunk"))
	}
	if q.Submissions != nil {
		parts = append(parts, queue.Exactly(uint64(*q.Submissions), "open submission"))
	}
	if q.Bytes != nil {
		parts = append(parts, queue.Exactly(uint64(*q.Bytes), "byte"))
	}
	return "at most " + strings.Join(parts, ", ")
}

func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func keyFields(k api.MetaKey) [][2]string {
	return present([][2]string{
		{"key", k.Key},
		{"values", number(k.Values)},
		{"values with settings", number(k.ValuesSet)},
		{"default limit", ifAny(k.Limit, number)},
		{"default weight", ifAny(k.Weight, decimal)},
		{"default rate", ifAny(k.Rate, rateText)},
		{"default quota", ifAny(k.Quota, quotaText)},
		{"etag", k.ETag},
		{"changed", moment(k.ChangedAt)},
	})
}

func valueFields(v api.ValueCount) [][2]string {
	return present([][2]string{
		{"value", metaText(v.Value)},
		{"ready", number(v.Ready)},
		{"waiting", number(v.Waiting)},
		{"in flight", number(v.InFlight)},
		{"paused", number(v.Paused)},
		{"blocked", number(v.Blocked)},
		{"dead", number(v.Dead)},
		{"done", number(v.Done)},
		{"oldest ready since", moment(v.OldestReadyAt)},
		{"submissions", number(v.Submissions)},
		{"limit", ifAny(v.Limit, number)},
		{"at limit since", ifAny(v.SaturatedSince, moment)},
		{"weight", ifAny(v.Weight, decimal)},
		{"rate", ifAny(v.Rate, rateText)},
		{"quota", ifAny(v.Quota, quotaText)},
		{"default limit", ifAny(v.DefaultLimit, number)},
		{"default weight", ifAny(v.DefaultWeight, decimal)},
		{"default rate", ifAny(v.DefaultRate, rateText)},
		{"default quota", ifAny(v.DefaultQuota, quotaText)},
		{"etag", v.ETag},
		{"changed", moment(v.ChangedAt)},
	})
}
