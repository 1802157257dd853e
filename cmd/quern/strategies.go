package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// strategyCommand is the parent of the commands on named strategies.
func strategyCommand(a *app) *cobra.Command {
	var version uint32
	var when client.Condition
	named := resource[api.NamedStrategy]{
		parent: "strategy", word: "NAME", ofQueue: true, fields: strategyFields,
		offer:  func(s api.NamedStrategy) (string, string) { return s.Name, s.Strategy },
		header: []string{"NAME", "VERSION", "CREATED", "STRATEGY"},
		row: func(s api.NamedStrategy) []string {
			return []string{s.Name, fmt.Sprint(s.Version), moment(s.CreatedAt), s.Strategy}
		},
		list: does("list", "List the named strategies of a queue", func(ctx context.Context, c call) (all[api.NamedStrategy], error) {
			return c.Strategies(ctx, c.queue), nil
		}),
		one: []action[*api.NamedStrategy]{does("get NAME", "Show a named strategy, or an older version of it",
			func(ctx context.Context, c call) (*api.NamedStrategy, error) {
				return c.Strategy(ctx, c.queue, c.args[0], version)
			},
		).with(func(c *cobra.Command) {
			c.Flags().Uint32Var(&version, "version", 0, "an older version; the last 100 are kept (default: the newest)")
		})},
		remove: does("delete NAME", "Delete a named strategy with all its versions", func(ctx context.Context, c call) (none, error) {
			return none{}, c.DeleteStrategy(ctx, c.queue, c.args[0], when)
		}).with(func(c *cobra.Command) { conditionFlags(c, &when) }),
	}
	used := resource[api.StrategyUse]{
		parent: "strategy", ofQueue: true, header: []string{"CONSUMERS", "RESERVES/S", "CHUNKS/S", "LAST USED", "STRATEGY"},
		row: func(s api.StrategyUse) []string {
			return []string{fmt.Sprint(s.Consumers), fmt.Sprintf("%.1f", s.ReservesPerSecond), fmt.Sprintf("%.1f", s.ChunksPerSecond),
				moment(s.LastUsed), s.Strategy}
		},
		list: does("in-use", "List the strategies of reserves in the last hour, the ones with most chunks first",
			func(ctx context.Context, c call) (all[api.StrategyUse], error) {
				used, err := c.StrategiesInUse(ctx, c.queue)
				if err != nil {
					return nil, err
				}
				return listed(used.Items), nil
			}),
	}
	return parent(&cobra.Command{Use: "strategy", Short: "Store strategies under names; list, check and delete them"},
		append(append(named.commands(a), used.commands(a)...), strategyPutCommand(a), strategyValidateCommand(a))...)
}

// conditionFlags are the flags that make a change depend on the present version.
func conditionFlags(c *cobra.Command, when *client.Condition) {
	c.Flags().StringVar(&when.ETag, "if-match", "", "only when the newest version has this ETag, as -o json shows it")
}

func strategyPutCommand(a *app) *cobra.Command {
	var when client.Condition
	c := a.queueCommand(&cobra.Command{
		Use:   "put NAME STRATEGY",
		Short: "Store a strategy under a name, or change it",
		Long:  "Store a strategy under a name, or change it. \"-\" as STRATEGY reads it from standard input.",
		Example: "  quern strategy put nightly 'OrElse(SelectOnly(\"mode\", \"preview\", Random), OldestFirst)'\n" +
			"  quern work --strategy '{\"name\":\"nightly\"}' -- ./render",
		Args: cobra.ExactArgs(2),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			text, err := strategyArgument(a, args[1])
			if err != nil {
				return err
			}
			s, err := c.PutStrategy(ctx, a.queueName(), args[0], text, when)
			return printAnswer(a, s, err, strategyFields)
		}),
	})
	conditionFlags(c, &when)
	c.Flags().BoolVar(&when.Absent, "create", false, "fail if the name exists already")
	c.MarkFlagsMutuallyExclusive("create", "if-match")
	return c
}

// strategyArgument is a strategy as it stands on the command line, or on stdin for "-".
func strategyArgument(a *app, text string) (string, error) {
	if text == "-" {
		b, err := io.ReadAll(io.LimitReader(a.in, strategy.MaxBytes+1))
		if err != nil {
			return "", fmt.Errorf("stdin cannot be read: %w", err)
		}
		if len(b) > strategy.MaxBytes {
			return "", usageError{fmt.Errorf("the strategy on stdin is longer than %d bytes", strategy.MaxBytes)}
		}
		text = string(b)
	}
	if strings.TrimSpace(text) == "" {
		return "", usageError{errors.New("the strategy is empty")}
	}
	_, err := strategyJSON(text)
	return text, err
}

func strategyValidateCommand(a *app) *cobra.Command {
	return a.queueCommand(&cobra.Command{
		Use:   "validate STRATEGY",
		Short: "Show what a strategy means, and which parts have no effect",
		Long: "Show the branches of a strategy, and the parts that have no effect. \"-\" as STRATEGY reads it from standard\n" +
			"input.",
		Args: cobra.ExactArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			text, err := strategyArgument(a, args[0])
			if err != nil {
				return err
			}
			v, err := c.ValidateStrategy(ctx, a.queueName(), text)
			return printAnswer(a, v, err, validFields)
		}),
	})
}

func strategyFields(s api.NamedStrategy) [][2]string {
	return [][2]string{
		{"name", s.Name},
		{"version", fmt.Sprint(s.Version)},
		{"strategy", s.Strategy},
		{"etag", s.ETag},
		{"created", moment(s.CreatedAt)},
	}
}

func validFields(v api.ValidStrategy) [][2]string {
	fields := [][2]string{{"strategy", v.Strategy}, {"json", string(v.Tree)}}
	for i, branch := range v.Branches {
		fields = append(fields, [2]string{fmt.Sprintf("branch %d", i+1), branch})
	}
	for _, w := range v.Warnings {
		fields = append(fields, [2]string{"warning", w.Pointer + " " + w.Detail})
	}
	return fields
}
