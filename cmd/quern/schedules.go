package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// schedulesCommand is the parent of the commands on schedules.
func schedulesCommand(a *app) *cobra.Command {
	var reason string
	var when client.Condition
	schedules := resource[api.Schedule]{
		parent: "schedules", word: "NAME", ofQueue: true, fields: scheduleFields,
		offer:  func(s api.Schedule) (string, string) { return s.Name, s.Description },
		header: []string{"NAME", "STATE", "NEXT", "EMITTED", "SKIPPED", "DUE"},
		row: func(s api.Schedule) []string {
			return []string{s.Name, s.State, moment(s.NextAt), fmt.Sprint(s.Emitted),
				fmt.Sprint(s.SkippedMissed + s.SkippedLate + s.SkippedOverlap), s.Description}
		},
		list: does("list", "List the schedules of a queue", func(ctx context.Context, c call) (all[api.Schedule], error) {
			return c.Schedules(ctx, c.queue), nil
		}),
		one: []action[*api.Schedule]{
			does("show NAME", "Show a schedule and its state", func(ctx context.Context, c call) (*api.Schedule, error) {
				return c.Schedule(ctx, c.queue, c.args[0])
			}),
			does("pause NAME", "Pause a schedule", func(ctx context.Context, c call) (*api.Schedule, error) {
				return c.PauseSchedule(ctx, c.queue, c.args[0], reason)
			}).with(func(c *cobra.Command) {
				c.Flags().StringVar(&reason, "reason", "", "reason, shown to others")
			}),
			does("resume NAME", "Resume a paused schedule", func(ctx context.Context, c call) (*api.Schedule, error) {
				return c.ResumeSchedule(ctx, c.queue, c.args[0])
			}),
		},
		remove: does("delete NAME", "Delete a schedule; its submissions stay", func(ctx context.Context, c call) (none, error) {
			return none{}, c.DeleteSchedule(ctx, c.queue, c.args[0], when)
		}).with(func(c *cobra.Command) { conditionFlags(c, &when) }),
	}
	return parent(&cobra.Command{Use: "schedules", Short: "Insert submissions on a schedule"},
		append(schedules.commands(a), schedulesSetCommand(a), schedulesNextCommand(a), schedulesTriggerCommand(a),
			schedulesBackfillCommand(a))...)
}

// templateOptions are the flags that say what a schedule inserts.
type templateOptions struct {
	fields           api.ScheduleTemplate // those that are declared
	read             func() error         // gives them what the flags say
	count            int64
	template, prefix string
	inline           []string
	meta             []string
	attachment       string
}

func (o *templateOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.Int64Var(&o.count, "count", 0, "number of chunks, 1 to 4,294,967,295; goes with --template or --prefix")
	f.StringVar(&o.template, "template", "", "content of every chunk, with {index} and {scheduled_at} replaced")
	f.StringVar(&o.prefix, "prefix", "", "start of the object keys, with {scheduled_at} replaced")
	f.StringArrayVar(&o.inline, "chunk", nil, "content of one chunk, `TEXT` or @FILE; repeatable")
	f.StringArrayVarP(&o.meta, "meta", "m", nil,
		"metadata `KEY=VALUE`, repeatable; an integer when VALUE parses as one, KEY=s:VALUE forces text")
	f.StringVar(&o.attachment, "attachment", "", "`TEXT`, or @FILE, that goes out with every chunk")
	rangesOf(f, map[string]string{"count": "1 to 4,294,967,295"})
	o.read = fieldFlags(f, queue.SubmissionFields(), &o.fields, true, "operations_per_chunk")
}

func (o *templateOptions) request() (t api.ScheduleTemplate, err error) {
	if err := o.read(); err != nil {
		return t, err
	}
	t = o.fields
	t.Chunks = api.Chunks{Count: uint32(o.count), Template: o.template, Prefix: o.prefix}
	if o.count < 0 || o.count > queue.MaxChunks {
		return t, usageError{fmt.Errorf("--count is %d; it must be from 1 to %d", o.count, uint32(queue.MaxChunks))}
	}
	for _, text := range o.inline {
		chunk, err := textOrFile(text, queue.MaxScheduleBytes)
		if err != nil {
			return t, err
		}
		t.Chunks.Inline = append(t.Chunks.Inline, chunk)
	}
	if t.Meta, err = parseMeta(o.meta); err != nil {
		return t, err
	}
	if len(t.Meta) == 0 {
		t.Meta = nil
	}
	t.Attachment, err = textOrFile(o.attachment, queue.MaxAttachmentBytes)
	return t, err
}

func schedulesSetCommand(a *app) *cobra.Command {
	var (
		flags    api.ScheduleDefinition
		read     func() error
		template templateOptions
		paused   bool
		file     string
		must     client.Condition
	)
	c := a.queueCommand(&cobra.Command{
		Use:   "set NAME",
		Short: "Create a schedule, or replace its definition",
		Long: "Create a schedule, or replace its definition; parts that you leave out get their default. With --file, read the " +
			"definition as JSON, as\n" +
			"'show -o json' prints it in \"definition\"; - reads stdin.",
		Example: "  quern schedules set nightly --spec '30 2 * * *' --tz Europe/Amsterdam --count 100 --prefix " +
			"'s3://reports/{scheduled_at}/'\n" +
			"  quern schedules set ping --spec '@every 90s' --chunk ping --overlap skip",
		Args: cobra.ExactArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			d, err := readDefinition(a, file, &flags, &template, read)
			if err != nil {
				return err
			}
			if file == "" && paused {
				d.Enabled = new(false)
			}
			s, err := c.PutSchedule(ctx, a.queueName(), args[0], d, must)
			return printAnswer(a, s, err, scheduleFields)
		}),
	})
	template.flags(c)
	f := c.Flags()
	read = fieldFlags(f, queue.ScheduleFields(), &flags, true, "enabled")
	f.BoolVar(&paused, "paused", false, "create it paused")
	f.StringVarP(&file, "file", "f", "", "read the whole definition as JSON from this `FILE`, or - for stdin")
	conditionFlags(c, &must)
	f.BoolVar(&must.Absent, "create", false, "fail if the name exists already")
	c.MarkFlagsMutuallyExclusive("create", "if-match")
	c.MarkFlagsMutuallyExclusive("file", "spec")
	return c
}

// maxDefinition bounds a definition as JSON: base64 takes a third more.
const maxDefinition = 4 * queue.MaxScheduleBytes

// readDefinition reads the definition from the flags or the file.
func readDefinition(a *app, file string, flags *api.ScheduleDefinition, template *templateOptions,
	read func() error) (*api.ScheduleDefinition, error) {
	if file != "" {
		return readDefinitionFile(a, file)
	}
	if flags.Spec == "" {
		return nil, usageError{errors.New("--spec says when, or --file the whole definition")}
	}
	if err := read(); err != nil {
		return nil, err
	}
	deadAfter := flags.Template.DeadAfterMS // the one field of the template that is a schedule's
	var err error
	flags.Template, err = template.request()
	flags.Template.DeadAfterMS = deadAfter
	return flags, err
}

func readDefinitionFile(a *app, file string) (*api.ScheduleDefinition, error) {
	var text []byte
	var err error
	if file == "-" {
		if text, err = io.ReadAll(io.LimitReader(a.in, maxDefinition+1)); err == nil && len(text) > maxDefinition {
			err = fmt.Errorf("the definition on stdin is longer than %d bytes", maxDefinition)
		}
	} else {
		text, err = readAtMost(file, maxDefinition)
	}
	if err != nil {
		return nil, err
	}
	d := new(api.ScheduleDefinition)
	if err := json.Unmarshal(text, d); err != nil {
		return nil, usageError{fmt.Errorf("the definition in %s is not one: %w", file, err)}
	}
	return d, nil
}

func schedulesTriggerCommand(a *app) *cobra.Command {
	var key string
	c := a.queueCommand(&cobra.Command{
		Use: "trigger NAME", Short: "Insert the work of a schedule once, now, and print the id", Args: cobra.ExactArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			s, err := c.TriggerSchedule(ctx, a.queueName(), args[0], key)
			if err != nil {
				return err
			}
			return printSubmitted(a, []api.Submission{*s})
		}),
	})
	c.Flags().StringVar(&key, "idempotency-key", "", "the same key inserts only once within a day")
	return c
}

func schedulesBackfillCommand(a *app) *cobra.Command {
	var from, to, key string
	var limit uint32
	var dry bool
	c := a.queueCommand(&cobra.Command{
		Use: "backfill NAME", Short: "Insert the work of past ticks, and print the ids", Args: cobra.ExactArgs(1),
		Example: "  quern schedules backfill nightly --from 2026-01-01T00:00:00Z --to 2026-01-07T23:59:59Z " +
			"--idempotency-key january",
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			r := &api.BackfillRequest{Limit: limit, DryRun: dry}
			var err error
			if r.From, err = parseMoment(from, time.Now()); err != nil {
				return usageError{fmt.Errorf("--from %w", err)}
			}
			if r.To, err = parseMoment(cmp.Or(to, "0s"), time.Now()); err != nil {
				return usageError{fmt.Errorf("--to %w", err)}
			}
			made, err := c.BackfillSchedule(ctx, a.queueName(), args[0], r, key)
			if err != nil {
				return err
			}
			if dry {
				return printOne(a, *made, backfilledFields)
			}
			return printList(a, made.Submissions, []string{"SUBMISSION"}, func(id string) []string { return []string{id} })
		}),
	})
	f := c.Flags()
	f.StringVar(&from, "from", "", "ticks from this time (RFC 3339), or this long ago (-48h)")
	f.StringVar(&to, "to", "", "ticks up to this time (RFC 3339), or this long ago (-1h) (default: now)")
	f.Uint32Var(&limit, "limit", 0, "refuse more ticks than this, 1 to 1,000 (default: 100)")
	f.BoolVar(&dry, "dry-run", false, "count the ticks only")
	f.StringVar(&key, "idempotency-key", "", "the same key inserts each tick only once within a day")
	return c
}

func backfilledFields(b api.Backfilled) [][2]string {
	fields := [][2]string{{"ticks", fmt.Sprint(b.Ticks)}}
	if !b.FirstAt.IsZero() {
		fields = append(fields, [2]string{"first", moment(b.FirstAt)})
	}
	return fields
}

func schedulesNextCommand(a *app) *cobra.Command {
	var ask api.SchedulePreviewRequest
	var read func() error
	c := a.queueCommand(&cobra.Command{
		Use: "next [NAME]", Short: "Explain in words when a schedule, or a --spec, is due, and list its next ticks",
		Args:    cobra.MaximumNArgs(1),
		Example: "  quern schedules next nightly -n 3\n  quern schedules next --spec '30 2 29 2 *' --tz Europe/Amsterdam",
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			if (len(args) == 1) == (ask.Spec != "") {
				return usageError{errors.New("give the name of a schedule, or a --spec")}
			}
			if err := read(); err != nil {
				return err
			}
			if len(args) == 1 {
				p, err := c.ScheduleTicks(ctx, a.queueName(), args[0], int(ask.N))
				return printAnswer(a, p, err, previewFields)
			}
			p, err := c.PreviewSchedule(ctx, a.queueName(), &ask)
			return printAnswer(a, p, err, previewFields)
		}),
	})
	read = fieldFlags(c.Flags(), queue.ScheduleFields(), &ask, false)
	c.Flags().Uint32VarP(&ask.N, "limit", "n", 5, "at most this many ticks, 1 to 100")
	limitWas(c.Flags(), "number")
	rangesOf(c.Flags(), map[string]string{"limit": "1 to 100"})
	return c
}

func previewFields(p api.SchedulePreview) [][2]string {
	fields := [][2]string{{"due", p.Description}}
	for i, tick := range p.Ticks {
		fields = append(fields, [2]string{fmt.Sprintf("tick %d", i+1), tick.Local})
	}
	return fields
}

func scheduleFields(s api.Schedule) [][2]string {
	d := &s.Definition
	jitter := ""
	if d.JitterMS > 0 {
		jitter = (time.Duration(d.JitterMS) * time.Millisecond).String()
	}
	return present([][2]string{
		{"name", s.Name}, {"state", s.State}, {"reason", s.Reason}, {"due", s.Description}, {"spec", d.Spec}, {"tz", d.TZ},
		{"next", moment(s.NextAt)}, {"waiting", moment(s.WaitingAt)}, {"last", moment(s.LastAt)},
		{"last submission", s.LastSubmission}, {"recent", recentLine(s.Recent)},
		{"missed", d.Missed}, {"overlap", d.Overlap}, {"jitter", jitter}, {"meta", metaLine(d.Template.Meta)},
		{"emitted", fmt.Sprint(s.Emitted)},
		{"skipped", fmt.Sprintf("%d missed, %d late, %d overlapping", s.SkippedMissed, s.SkippedLate, s.SkippedOverlap)},
		{"version", fmt.Sprint(s.Version)}, {"etag", s.ETag}, {"changed", moment(s.ChangedAt)},
	})
}

// recentLine counts the last submissions of a schedule by their states.
func recentLine(recent []api.Emission) string {
	states := map[string]int{}
	for _, e := range recent {
		states[e.State]++
	}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(states)) {
		parts = append(parts, fmt.Sprintf("%d %s", states[state], strings.ReplaceAll(state, "_", " ")))
	}
	return strings.Join(parts, ", ")
}
