package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// queueCommand is the parent of the commands on queues themselves.
func queueCommand(a *app) *cobra.Command {
	return parent(&cobra.Command{Use: "queue", Short: "Make, change, list and delete queues"},
		queueSettingsCommand(a, "put NAME",
			"Make a queue, or replace its settings: what is not given gets its default", true, (*client.Client).PutQueue),
		queueSettingsCommand(a, "set NAME", "Change some settings of a queue: what is not given stays as it is", false,
			(*client.Client).ChangeQueue), queueGetCommand(a), queueListCommand(a), queueDeleteCommand(a))
}

func queueSettingsCommand(a *app, use, short string, put bool,
	send func(*client.Client, context.Context, string, api.QueueSettingsInput) (*api.Queue, error)) *cobra.Command {
	var settings api.QueueSettingsInput
	var read func() error
	reset := new(true) // set resets nothing
	c := a.serverCommand(&cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
	})
	c.RunE = a.asking(func(ctx context.Context, to *client.Client, args []string) error {
		if err := read(); err != nil {
			return err
		}
		if !*reset {
			now, err := to.Queue(ctx, args[0])
			if err == nil {
				lost := resets(c.Flags(), queue.AllSettings(), &now.Settings)
				err = a.mayReset("queue "+args[0], lost, "'quern queue set' changes only what is named")
			}
			if err != nil && client.CodeOf(err) != api.CodeUnknownQueue { // which is made
				return err
			}
		}
		q, err := send(to, ctx, args[0], settings)
		return printAnswer(a, q, err, queueFields)
	})
	read = fieldFlags(c.Flags(), queue.AllSettings(), &settings, put)
	if put {
		c.Long = short + ".\n'quern queue set' changes only what is named. Of a queue that is there, put asks before it sets something " +
			"back that is\nnot named; where there is no terminal to ask, it is refused without --reset."
		reset = resetFlag(c.Flags(), "settings")
	}
	return c
}

func queueGetCommand(a *app) *cobra.Command {
	return a.serverCommand(&cobra.Command{
		Use:   "get NAME",
		Short: "Show a queue's settings",
		Args:  cobra.ExactArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			q, err := c.Queue(ctx, args[0])
			return printAnswer(a, q, err, queueFields)
		}),
	})
}

func queueListCommand(a *app) *cobra.Command {
	return a.serverCommand(&cobra.Command{
		Use:   "list",
		Short: "List the queues with their settings",
		Args:  cobra.NoArgs,
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			return printAll(a, c.Queues(ctx), []string{"NAME", "DURABILITY", "MAX ATTEMPTS", "MAX EXPIRIES", "RESERVATION",
				"RETENTION", "CREATED", "STATE"}, queueRow)
		}),
	})
}

func queueDeleteCommand(a *app) *cobra.Command {
	quarantined := false
	c := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a queue that has no open submissions",
		Args:  cobra.ExactArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			if args[0] == "default" && !quarantined {
				return usageError{errors.New("the queue named default always exists and cannot be deleted")}
			}
			if quarantined {
				return c.DeleteQueue(ctx, args[0], client.Quarantined)
			}
			return c.DeleteQueue(ctx, args[0])
		}),
	}
	a.clientFlags(c)
	c.Flags().BoolVar(&quarantined, "quarantined", false, "delete a queue that is in quarantine; what is in it is lost")
	return c
}

func queueRow(q api.Queue) []string {
	return []string{
		q.Name, q.Settings.Durability, fmt.Sprint(q.Settings.MaxAttempts), fmt.Sprint(q.Settings.MaxExpiries),
		milliseconds(q.Settings.ReservationTimeoutMS), milliseconds(q.Settings.RetentionSeconds * 1000), moment(q.CreatedAt), queueState(q),
	}
}

func queueState(q api.Queue) string {
	if q.Quarantined != nil {
		return "in quarantine"
	}
	return "serves"
}

func queueFields(q api.Queue) [][2]string {
	out := [][2]string{{"name", q.Name}}
	for _, d := range queue.AllSettings() {
		value, _ := d.In(&q.Settings)
		out = append(out, [2]string{settingTitle.Replace(d.FlagName()), settingText(d, value.Interface())})
	}
	out = append(out, [2]string{"created", moment(q.CreatedAt)}, [2]string{"state", queueState(q)})
	if q.Quarantined != nil {
		out = append(out, [2]string{"since", moment(q.Quarantined.Since)}, [2]string{"reason", q.Quarantined.Reason})
	}
	return out
}

var settingTitle = strings.NewReplacer("-", " ", "backoff", "back-off")

func settingText[T any](d *queue.Field[T], value any) string {
	switch v := value.(type) {
	case int64:
		return (time.Duration(v) * d.Range.Unit).String()
	case api.Backoff:
		return backoffText(v)
	}
	return fmt.Sprint(value)
}

func milliseconds(n int64) string { return (time.Duration(n) * time.Millisecond).String() }

func backoffText(b api.Backoff) string {
	if b.BaseMS == 0 {
		return "none"
	}
	return fmt.Sprintf("%s × %g up to %s", milliseconds(b.BaseMS), b.Factor, milliseconds(b.CapMS))
}
