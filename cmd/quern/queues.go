package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// queueCommand is the parent of the commands on queues themselves.
func (a *app) queueCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "queue", Short: "Make, change, list and delete queues", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(a.queueSettingsCommand("put NAME", "Make a queue, or replace its settings: what is not given gets its default", true, (*client.Client).PutQueue),
		a.queueSettingsCommand("set NAME", "Change some settings of a queue: what is not given stays as it is", false, (*client.Client).ChangeQueue), a.queueGetCommand(), a.queueListCommand(), a.queueDeleteCommand())
	return c
}

// queueOptions are the flags of queue put and queue set.
type queueOptions struct {
	durability         string
	retryBackoff       string
	expiryBackoff      string
	consumerGrace      time.Duration
	restartGrace       time.Duration
	draining           bool
	maxAttempts        uint16
	onExhausted        string
	maxExpiries        uint8
	suspectShare       float64
	requeue            string
	reservationTimeout time.Duration
	maxReservation     time.Duration
	retention          time.Duration
	deadRetention      time.Duration
	deadLetterQueue    string
}

// defaultText is what a usage says of a default: put gives it, set does not.
var defaultText = regexp.MustCompile(` \(default[^)]*\)`)

func (a *app) queueSettingsCommand(use, short string, put bool, send func(*client.Client, context.Context, string, api.QueueSettingsInput) (*api.Queue, error)) *cobra.Command {
	var o queueOptions
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			settings, err := o.settings(cmd.Flags().Changed)
			if err != nil {
				return err
			}
			q, err := send(c, cmd.Context(), args[0], settings)
			if err != nil {
				return err
			}
			return printOne(a, *q, queueFields)
		},
	}
	a.clientFlags(c)
	a.formatFlag(c, formatTable, formatJSON, formatJSONL)
	f := c.Flags()
	f.StringVar(&o.durability, "durability", "", "full (default): every answer is on disk; relaxed: answers come before the sync, a power cut may undo the last moments")
	f.Uint16Var(&o.maxAttempts, "max-attempts", 0, "tries per chunk, up to 1000; 0: any number (default 10)")
	f.Uint8Var(&o.maxExpiries, "max-expiries", 0, "reservations of a chunk that may run out, up to 250; 0: any number (default 3)")
	f.StringVar(&o.onExhausted, "on-exhausted", "", "what a chunk out of attempts does: fail_submission (default), dead_letter or skip")
	f.DurationVar(&o.reservationTimeout, "reservation-timeout", 0, "how long a consumer may hold a chunk when it does not say (default 10m)")
	f.DurationVar(&o.maxReservation, "max-reservation", 0, "how long a consumer may hold a chunk at most, extensions included, up to 24h (default 24h)")
	f.StringVar(&o.retryBackoff, "retry-backoff", "", "the pause after a failed try: BASE[,FACTOR[,CAP]], such as 1s,2,5m; 0: none (default)")
	f.StringVar(&o.expiryBackoff, "expiry-backoff", "", "the pause after a try that ran out or was lost, in the same form (default 1s,2,5m)")
	f.DurationVar(&o.consumerGrace, "consumer-grace", 0, "how long an attached consumer may be away until what it holds is lost (default 30s)")
	f.DurationVar(&o.restartGrace, "restart-grace", 0, "how long after a start nothing is handed out that a limit counts (default: at once)")
	f.BoolVar(&o.draining, "draining", false, "refuse inserts; what is there is worked off")
	f.Float64Var(&o.suspectShare, "suspect-share", 0, "of the consumers' slots, how much chunks that ran out may have beside other work, 0 to 1 (default 0.3)")
	f.StringVar(&o.requeue, "requeue", "", "where a chunk is requeued after a failed attempt: head (default), its natural place; tail, behind all that is ready")
	f.StringVar(&o.deadLetterQueue, "dead-letter-queue", "", "the queue that dead letters go on to (default: they stay)")
	f.DurationVar(&o.retention, "retention", 0, "how long ended submissions are kept, as long as they have no dead letters (default 168h)")
	f.DurationVar(&o.deadRetention, "dead-retention", 0, "how long dead letters are kept (default: until they are redriven or discarded)")
	rangesOf(f, map[string]string{
		"max-attempts": "0 (no limit) to 1000", "max-expiries": "0 (no limit) to 250", "suspect-share": "0 (behind all other work) to 1 (no limit)",
		"reservation-timeout": "durations from 100ms to --max-reservation (at most 24h)", "max-reservation": "durations from 100ms to 24h",
		"consumer-grace": "durations from 0s (at once) to 1h", "restart-grace": "durations from 0s (none) to 10m",
		"retention": "durations from 0s (for ever) to 87600h", "dead-retention": "durations from 0s (until they are redriven or discarded) to 87600h",
	})
	if !put {
		f.VisitAll(func(flag *pflag.Flag) { flag.Usage = defaultText.ReplaceAllString(flag.Usage, "") })
	}
	return c
}

// settings are the flags that were given.
func (o *queueOptions) settings(given func(string) bool) (s api.QueueSettingsInput, err error) {
	for _, b := range []struct {
		flag, text string
		to         **api.Backoff
	}{{"retry-backoff", o.retryBackoff, &s.RetryBackoff}, {"expiry-backoff", o.expiryBackoff, &s.ExpiryBackoff}} {
		if given(b.flag) {
			if *b.to, err = parseBackoff(b.flag, b.text); err != nil {
				return s, err
			}
		}
	}
	if given("consumer-grace") {
		s.ConsumerGraceMS = new(o.consumerGrace.Milliseconds())
	}
	if given("restart-grace") {
		s.RestartGraceMS = new(o.restartGrace.Milliseconds())
	}
	if given("draining") {
		s.Draining = &o.draining
	}
	if given("durability") {
		s.Durability = &o.durability
	}
	if given("max-attempts") {
		s.MaxAttempts = &o.maxAttempts
	}
	if given("max-expiries") {
		s.MaxExpiries = &o.maxExpiries
	}
	if given("on-exhausted") {
		s.OnExhausted = &o.onExhausted
	}
	if given("reservation-timeout") {
		s.ReservationTimeoutMS = new(o.reservationTimeout.Milliseconds())
	}
	if given("max-reservation") {
		s.MaxReservationMS = new(o.maxReservation.Milliseconds())
	}
	if given("suspect-share") {
		s.SuspectShare = &o.suspectShare
	}
	if given("requeue") {
		s.Requeue = &o.requeue
	}
	if given("dead-letter-queue") {
		s.DeadLetterQueue = &o.deadLetterQueue
	}
	if given("retention") {
		s.RetentionSeconds = new(int64(o.retention / time.Second))
	}
	if given("dead-retention") {
		s.DeadRetentionSeconds = new(int64(o.deadRetention / time.Second))
	}
	return s, nil
}

// parseBackoff reads BASE[,FACTOR[,CAP]]; what is left out is as in the default of expiries.
func parseBackoff(flag, text string) (*api.Backoff, error) {
	out := &api.Backoff{Factor: 2, CapMS: (5 * time.Minute).Milliseconds()}
	parts := strings.Split(text, ",")
	base, err := time.ParseDuration(parts[0])
	if err == nil && len(parts) > 1 {
		out.Factor, err = strconv.ParseFloat(parts[1], 64)
	}
	limit := max(5*time.Minute, base)
	if err == nil && len(parts) > 2 {
		limit, err = time.ParseDuration(parts[2])
	}
	if err != nil || len(parts) > 3 {
		return nil, usageError{fmt.Errorf("--%s is %q; write BASE[,FACTOR[,CAP]], such as 1s or 1s,2,5m, or 0 for no pause: a base of up to 24h, a factor of 1 to 100, a cap of up to 720h", flag, text)}
	}
	out.BaseMS, out.CapMS = base.Milliseconds(), limit.Milliseconds()
	return out, nil
}

func (a *app) queueGetCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "get NAME",
		Short: "Show a queue's settings",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			q, err := c.Queue(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return printOne(a, *q, queueFields)
		},
	}
	a.clientFlags(c)
	a.formatFlag(c, formatTable, formatJSON, formatJSONL)
	return c
}

func (a *app) queueListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "list",
		Short: "List the queues with their settings",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			var queues []api.Queue
			for q, err := range c.Queues(cmd.Context()) {
				if err != nil {
					return err
				}
				queues = append(queues, q)
			}
			return printList(a, queues, []string{"NAME", "DURABILITY", "MAX ATTEMPTS", "MAX EXPIRIES", "RESERVATION", "RETENTION", "CREATED"}, queueRow)
		},
	}
	a.clientFlags(c)
	a.formatFlag(c, formatTable, formatJSON, formatJSONL)
	return c
}

func (a *app) queueDeleteCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a queue that has no open submissions",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "default" {
				return usageError{errors.New("the queue named default always exists and cannot be deleted")}
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			return c.DeleteQueue(cmd.Context(), args[0])
		},
	}
	a.clientFlags(c)
	return c
}

func queueRow(q api.Queue) []string {
	return []string{
		q.Name, q.Settings.Durability, fmt.Sprint(q.Settings.MaxAttempts), fmt.Sprint(q.Settings.MaxExpiries),
		milliseconds(q.Settings.ReservationTimeoutMS), milliseconds(q.Settings.RetentionSeconds * 1000), moment(q.CreatedAt),
	}
}

func queueFields(q api.Queue) [][2]string {
	s := q.Settings
	return [][2]string{
		{"name", q.Name},
		{"durability", s.Durability},
		{"max attempts", fmt.Sprint(s.MaxAttempts)},
		{"max expiries", fmt.Sprint(s.MaxExpiries)},
		{"on exhausted", s.OnExhausted},
		{"suspect share", fmt.Sprint(s.SuspectShare)},
		{"requeue", s.Requeue},
		{"reservation timeout", milliseconds(s.ReservationTimeoutMS)},
		{"max reservation", milliseconds(s.MaxReservationMS)},
		{"retry back-off", backoffText(s.RetryBackoff)},
		{"expiry back-off", backoffText(s.ExpiryBackoff)},
		{"consumer grace", milliseconds(s.ConsumerGraceMS)},
		{"restart grace", milliseconds(s.RestartGraceMS)},
		{"draining", strconv.FormatBool(s.Draining)},
		{"dead letter queue", s.DeadLetterQueue},
		{"dead retention", milliseconds(s.DeadRetentionSeconds * 1000)},
		{"retention", milliseconds(s.RetentionSeconds * 1000)},
		{"created", moment(q.CreatedAt)},
	}
}

func milliseconds(n int64) string { return (time.Duration(n) * time.Millisecond).String() }

func backoffText(b api.Backoff) string {
	if b.BaseMS == 0 {
		return "none"
	}
	return fmt.Sprintf("%s × %g up to %s", milliseconds(b.BaseMS), b.Factor, milliseconds(b.CapMS))
}
