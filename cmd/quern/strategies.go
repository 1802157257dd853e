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
	return parent(&cobra.Command{Use: "strategy", Short: "Name, list, check and delete strategies"},
		strategyPutCommand(a), strategyGetCommand(a), strategyListCommand(a), strategyDeleteCommand(a),
		strategyValidateCommand(a), inUseCommand(a))
}

// conditionFlags are the flags that make a change depend on what is there.
func conditionFlags(c *cobra.Command, when *client.Condition) {
	c.Flags().StringVar(&when.ETag, "if-match", "", "only when the newest version has this ETag, as 'strategy get' shows it")
}

func strategyPutCommand(a *app) *cobra.Command {
	var when client.Condition
	c := a.queueCommand(&cobra.Command{
		Use:   "put NAME STRATEGY",
		Short: "Name a strategy, or change the one behind a name; STRATEGY - reads it from stdin",
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
	c.Flags().BoolVar(&when.Absent, "create", false, "only when there is none of this name yet")
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

func strategyGetCommand(a *app) *cobra.Command {
	var version uint32
	c := a.queueCommand(&cobra.Command{
		Use:   "get NAME",
		Short: "Show a named strategy, or an older version of it",
		Args:  cobra.ExactArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			s, err := c.Strategy(ctx, a.queueName(), args[0], version)
			return printAnswer(a, s, err, strategyFields)
		}),
	})
	c.Flags().Uint32Var(&version, "version", 0, "an older version; the last 100 are kept (default: the newest)")
	return c
}

func strategyListCommand(a *app) *cobra.Command {
	return a.queueCommand(&cobra.Command{
		Use:   "list",
		Short: "List the named strategies of a queue",
		Args:  cobra.NoArgs,
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			header := []string{"NAME", "VERSION", "CREATED", "STRATEGY"}
			return printAll(a, c.Strategies(ctx, a.queueName()), header, func(s api.NamedStrategy) []string {
				return []string{s.Name, fmt.Sprint(s.Version), moment(s.CreatedAt), s.Strategy}
			})
		}),
	})
}

func strategyDeleteCommand(a *app) *cobra.Command {
	var when client.Condition
	c := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a named strategy with all its versions",
		Args:  cobra.ExactArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			return c.DeleteStrategy(ctx, a.queueName(), args[0], when)
		}),
	}
	a.queueFlags(c)
	conditionFlags(c, &when)
	return c
}

func strategyValidateCommand(a *app) *cobra.Command {
	return a.queueCommand(&cobra.Command{
		Use:   "validate STRATEGY",
		Short: "Say what a strategy means, and what in it has no effect; - reads it from stdin",
		Args:  cobra.ExactArgs(1),
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

// inUseCommand lists what consumers reserve by.
func inUseCommand(a *app) *cobra.Command {
	return a.queueCommand(&cobra.Command{
		Use:   "in-use",
		Short: "List the strategies that consumers reserved by in the last hour, those that handed out most chunks first",
		Args:  cobra.NoArgs,
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			used, err := c.StrategiesInUse(ctx, a.queueName())
			if err != nil {
				return err
			}
			header := []string{"CONSUMERS", "RESERVES/S", "CHUNKS/S", "LAST USED", "STRATEGY"}
			return printList(a, used.Items, header, func(s api.StrategyUse) []string {
				return []string{fmt.Sprint(s.Consumers), fmt.Sprintf("%.1f", s.ReservesPerSecond), fmt.Sprintf("%.1f", s.ChunksPerSecond),
					moment(s.LastUsed), s.Strategy}
			})
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
