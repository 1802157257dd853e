package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// queueCommand is the parent of the commands on queues themselves.
func queueCommand(a *app) *cobra.Command {
	quarantined := false
	queues := resource[api.Queue]{
		parent: "queue", word: "NAME", row: queueRow, fields: queueFields, offer: func(q api.Queue) (string, string) { return q.Name, "" },
		header: []string{"NAME", "DURABILITY", "MAX ATTEMPTS", "MAX EXPIRIES", "RESERVATION", "RETENTION", "CREATED", "STATE"},
		list: does("list", "List the queues with their settings", func(ctx context.Context, c call) (all[api.Queue], error) {
			return c.Queues(ctx), nil
		}),
		one: []action[*api.Queue]{does("get NAME", "Show a queue's settings", func(ctx context.Context, c call) (*api.Queue, error) {
			return c.Queue(ctx, c.args[0])
		})},
		remove: does("delete NAME", "Delete a queue that has no open submissions", func(ctx context.Context, c call) (none, error) {
			switch {
			case quarantined:
				return none{}, c.DeleteQueue(ctx, c.args[0], client.Quarantined)
			case c.args[0] == "default":
				return none{}, usageError{errors.New("the queue named default always exists and cannot be deleted")}
			}
			return none{}, c.DeleteQueue(ctx, c.args[0])
		}).with(func(c *cobra.Command) {
			c.Flags().BoolVar(&quarantined, "quarantined", false, "delete a queue in quarantine with everything in it")
		}),
	}
	return parent(&cobra.Command{Use: "queue", Short: "Create, change, list and delete queues"}, append(queues.commands(a),
		queueSettingsCommand(a, "put NAME",
			"Create a queue, or replace its settings; settings that you leave out get their default, but --shards stays",
			true, (*client.Client).PutQueue),
		queueSettingsCommand(a, "set NAME", "Change some settings of a queue; others stay", false,
			(*client.Client).ChangeQueue))...)
}

// withDefaults are the settings whose defaults are known here: a cluster has another one for the restart grace.
func withDefaults(ctx context.Context, to *client.Client, now *api.QueueSettings) []*queue.Setting {
	without := func(all []*queue.Setting, name string) []*queue.Setting {
		return slices.DeleteFunc(all, func(d *queue.Setting) bool { return d.Name == name })
	}
	all := without(queue.AllSettings(), "shards") // it stays if it is not named
	if now.RestartGraceMS == queue.ClusterRestartGrace.Milliseconds() {
		for node, err := range to.Nodes(ctx) {
			if err == nil && slices.ContainsFunc(node.Queues, func(q api.NodeQueue) bool { return q.LeaseMS != nil }) {
				return without(all, "restart_grace_ms")
			}
		}
	}
	return all
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
				lost := resets(c.Flags(), withDefaults(ctx, to, &now.Settings), &now.Settings)
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
		c.Long = short + ".\n'quern queue set' changes only the settings that you name. For an existing queue, put " +
			"asks before it " +
			"resets other\nsettings. Without a terminal to ask, it needs --reset."
		reset = resetFlag(c.Flags(), "settings")
	}
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
	for _, text := range q.Warnings {
		out = append(out, [2]string{"warning", text})
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
		if v == 0 && d.Range.Zero != "" {
			return "0 (" + d.Range.Zero + ")"
		}
		if d.Range.Unit != 0 {
			return queue.ShortDuration(time.Duration(v) * d.Range.Unit)
		}
	case api.Backoff:
		return backoffText(v)
	}
	return fmt.Sprint(value)
}

func milliseconds(n int64) string { return queue.ShortDuration(time.Duration(n) * time.Millisecond) }
