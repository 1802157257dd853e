package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// getCommand shows one submission.
func getCommand(a *app) *cobra.Command {
	return a.serverCommand(&cobra.Command{
		Use:   "get ID",
		Short: "Show a submission",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withSubmission(a, args[0], func(c *client.Client, id string) error {
				s, err := c.Get(cmd.Context(), id)
				return printAnswer(a, s, err, submissionFields)
			})
		},
	})
}

// cancelCommand ends submissions before they are done, or gives up single chunks.
func cancelCommand(a *app) *cobra.Command {
	return a.serverCommand(&cobra.Command{
		Use:   "cancel ID... | ID/INDEX...",
		Short: "Cancel submissions, or single chunks",
		Long: "Cancel submissions: unfinished chunks are skipped. With ID/INDEX, give up single chunks: each becomes skipped, no\n" +
			"attempt is counted, and its consumer loses it. The other chunks go on.",
		Args: cobra.MinimumNArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			if strings.Contains(args[0], "/") {
				return cancelChunks(ctx, a, c, args)
			}
			for _, id := range args { // before anything is cancelled
				if _, err := queue.ParseSubmissionID(id); err != nil {
					return usageError{err}
				}
			}
			var cancelled []api.Submission
			failed := eachOf(args, func(id string) error {
				s, err := c.Cancel(ctx, id)
				if err == nil {
					cancelled = append(cancelled, *s)
				}
				return err
			})
			if len(cancelled) == 0 {
				return failed
			}
			return errors.Join(printList(a, cancelled, submissionHeader(), submissionRow), failed)
		}),
	})
}

// cancelChunks gives chunks up, and shows what has become of them.
func cancelChunks(ctx context.Context, a *app, c *client.Client, args []string) error {
	for _, arg := range args { // before any chunk is given up
		if _, _, err := parseChunk(arg); err != nil {
			return err
		}
	}
	var chunks []api.Chunk
	failed := eachOf(args, func(arg string) error {
		id, index, _ := parseChunk(arg)
		chunk, err := c.CancelChunk(ctx, id, index)
		if err == nil {
			chunks = append(chunks, *chunk)
		}
		return err
	})
	if len(chunks) == 0 {
		return failed
	}
	return errors.Join(printList(a, chunks, []string{"INDEX", "STATE", "ATTEMPTS", "ERROR"}, func(c api.Chunk) []string {
		return []string{number(c.Index), c.State, number(c.Attempts), c.Error}
	}), failed)
}

// deleteCommand removes ended submissions before their retention is over.
func deleteCommand(a *app) *cobra.Command {
	var cancel bool
	c := a.serverCommand(&cobra.Command{
		Use:   "delete ID...",
		Short: "Delete ended submissions with their contents and outputs",
		Long: "Delete ended submissions with their meta, contents, outputs, attempts and dead letters, before the retention of\n" +
			"the queue would. This cannot be undone. Backups keep their copies. --cancel ends open submissions first.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return eachOf(args, func(arg string) error {
				return withSubmission(a, arg, func(c *client.Client, id string) error {
					return c.DeleteSubmission(cmd.Context(), id, cancel)
				})
			})
		},
	})
	c.Flags().BoolVar(&cancel, "cancel", false, "end open submissions first; consumers lose their chunks")
	return c
}

// priorityCommand changes the priority of a submission.
func priorityCommand(a *app) *cobra.Command {
	c := a.serverCommand(&cobra.Command{
		Use:   "priority ID NUMBER",
		Short: "Change the priority of an open submission",
		Long: "Change the priority of an open submission. The strategy CustomPriority hands out the largest priority first. Flags come\n" +
			"before the ID, so that a negative NUMBER is not taken for a flag.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			priority, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil {
				return usageError{errors.New("NUMBER must be a whole number")}
			}
			return withSubmission(a, args[0], func(c *client.Client, id string) error {
				s, err := c.SetPriority(cmd.Context(), id, priority)
				return printAnswer(a, s, err, submissionFields)
			})
		},
	})
	c.Flags().SetInterspersed(false) // so that a negative number is no flag
	return c
}

// outputsCommand prints what the chunks of submissions came to.
func outputsCommand(a *app) *cobra.Command {
	var null, joined bool
	var o listOptions
	c := &cobra.Command{
		Use:   "outputs [ID]",
		Short: "Print the outputs of one submission's chunks, or of many submissions",
		Long: "Print the outputs of a submission's chunks in the order of their indexes. Leave out chunks without an output.\n" +
			"Without an ID, print those of all submissions of the queue that match the flags, such as --meta batch=7, the newest\n" +
			"submission first.\n" +
			"raw prints one output per line, and adds a missing newline. -0 ends each with a NUL instead, for outputs that\n" +
			"contain newlines (xargs -0). --joined adds nothing, for the parts of one file. jsonl prints one\n" +
			"{\"index\":...,\"output\":...} per line, without an ID also with the submission. On a terminal, it escapes control\n" +
			"characters.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (null || joined) && a.format == formatJSONL || null && joined {
				return usageError{errors.New("--null, --joined and -o jsonl exclude each other")}
			}
			print := outputPrinter{a, func(output []byte) []byte {
				switch {
				case null:
					return append(output, 0)
				case joined || bytes.HasSuffix(output, []byte("\n")):
					return output
				}
				return append(output, '\n')
			}}
			named := slices.ContainsFunc([]string{"queue", "meta", "state", "schedule", "created-before", "created-after"},
				cmd.Flags().Changed)
			switch {
			case named == (len(args) == 1):
				return usageError{errors.New("give the ID of a submission, or flags such as --meta that say which submissions, " +
					"and not both")}
			case named:
				return print.many(cmd.Context(), o)
			}
			return withSubmission(a, args[0], func(c *client.Client, id string) error {
				return print.one(cmd.Context(), c, id)
			})
		},
	}
	a.queueFlags(c)
	a.formatFlag(c, formatRaw, formatJSONL)
	o.filterFlags(c)
	c.Flags().BoolVarP(&null, "null", "0", false, "write a NUL after each output, and leave the output unchanged")
	c.Flags().BoolVar(&joined, "joined", false, "write the outputs one after another, unchanged")
	return c
}

// withSubmission checks an id before it asks the server about it.
func withSubmission(a *app, text string, do func(c *client.Client, id string) error) error {
	if _, err := queue.ParseSubmissionID(text); err != nil {
		return usageError{err}
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	return do(c, text)
}

// listOptions are the flags of list.
type listOptions struct {
	largest  bool
	states   []string
	meta     []string
	schedule string
	before   string
	after    string
	limit    limited
}

// listCommand lists submissions.
func listCommand(a *app) *cobra.Command {
	var o listOptions
	c := a.queueCommand(&cobra.Command{
		Use:   "list",
		Short: "List a queue's submissions, newest first",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return listSubmissions(cmd.Context(), a, o) },
	})
	o.filterFlags(c)
	c.Flags().BoolVar(&o.largest, "largest", false, "only open submissions, the ones with the most chunks left first, at most 1,000")
	o.limit.flags(c, 100, "submissions")
	return c
}

// filterFlags makes the flags that choose submissions.
func (o *listOptions) filterFlags(c *cobra.Command) {
	c.Flags().StringSliceVar(&o.states, "state", nil, "only these states: "+strings.Join(queue.SubmissionStateNames(), ", "))
	c.Flags().StringArrayVarP(&o.meta, "meta", "m", nil, "only submissions with this metadata, `KEY=VALUE`, repeatable")
	c.Flags().StringVar(&o.schedule, "schedule", "", "only submissions of this schedule")
	c.Flags().StringVar(&o.before, "created-before", "", "only submissions inserted before this time, or longer ago than this (24h)")
	c.Flags().StringVar(&o.after, "created-after", "", "only submissions inserted after this time, or within this duration (1h)")
}

// filter is the list as the client is asked for it.
func (o *listOptions) filter() (filter client.ListOptions, err error) {
	filter = client.ListOptions{States: o.states, Schedule: o.schedule, Largest: o.largest}
	if filter.Meta, err = parseMeta(o.meta); err != nil {
		return filter, err
	}
	if err := checkStates(o.states); err != nil {
		return filter, err
	}
	for _, at := range []struct {
		flag, text string
		to         *time.Time
	}{{"--created-before", o.before, &filter.CreatedBefore}, {"--created-after", o.after, &filter.CreatedAfter}} {
		past, err := parsePast(at.flag, at.text, time.Now())
		if err != nil {
			return filter, err
		}
		*at.to = past.Time
	}
	return filter, nil
}

// checkStates refuses what is not a state of a submission.
func checkStates(states []string) error {
	for _, state := range states {
		if _, ok := queue.ParseSubmissionState(state); !ok {
			return usageError{fmt.Errorf("--state %q is not a state of a submission: %s", state,
				strings.Join(queue.SubmissionStateNames(), ", "))}
		}
	}
	return nil
}

func listSubmissions(ctx context.Context, a *app, o listOptions) error {
	filter, err := o.filter()
	if err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	filter.Limit = o.limit.page()
	open := len(o.states) == 1 && o.states[0] == api.StateOpen
	if all := len(o.states) == 0; (all || open) && len(o.meta) == 0 && o.schedule+o.before+o.after == "" {
		o.limit.total = a.counted(ctx, c, func(s *api.Stats) uint64 { return s.SubmissionsOpen })
		o.limit.least = all // those that have ended are counted nowhere
	}
	return printFirst(a, c.List(ctx, a.queueName(), filter), o.limit, submissionHeader(), submissionRow)
}

func submissionHeader() []string {
	return []string{"ID", "STATE", "CHUNKS", "READY", "WAITING", "RESERVED", "DONE", "DEAD", "CREATED", "META"}
}

func submissionRow(s api.Submission) []string {
	return []string{s.ID, s.State, number(s.Chunks), number(s.Ready), number(s.Waiting), number(s.Reserved),
		number(s.Done), number(s.Dead), moment(s.CreatedAt), metaLine(s.Meta)}
}

// originText is where a forwarded submission came from.
func originText(o *api.Origin) string {
	if o == nil {
		return ""
	}
	return fmt.Sprintf("%s, chunk %s/%d, after %s: %s", o.Queue, o.Submission, o.Index, several(o.Attempts, "attempt"), o.Error)
}

// submissionFields is everything about a submission that is not empty.
func submissionFields(s api.Submission) [][2]string {
	return present([][2]string{
		{"id", s.ID},
		{"queue", s.Queue},
		{"state", s.State},
		{"failure", s.Failure},
		{"failed chunk", ifAny(s.FailedChunk, number)},
		{"chunks", number(s.Chunks)},
		{"ready", number(s.Ready)},
		{"paused", nonZero(int64(s.Paused))},
		{"blocked", nonZero(int64(s.Blocked))},
		{"waiting", number(s.Waiting)},
		{"reserved", number(s.Reserved)},
		{"done", number(s.Done)},
		{"dead", number(s.Dead)},
		{"skipped", nonZero(int64(s.Skipped))},
		{"forwarded", nonZero(int64(s.Forwarded))},
		{"meta", metaLine(s.Meta)},
		{"priority", nonZero(s.Priority)},
		{"group", s.Group},
		{"shard", nonZero(int64(s.Shard))},
		{"prefix", s.Prefix},
		{"template", s.Template},
		{"run at", moment(s.RunAt)},
		{"dead deadline", moment(s.DeadDeadline)},
		{"max attempts", nonZero(int64(s.MaxAttempts))},
		{"on exhausted", s.OnExhausted},
		{"retry back-off", ownBackoff(s.RetryBackoff)},
		{"unique key", uniqueText(s.Unique)},
		{"after", afterText(s.After)},
		{"waits for", strings.Join(s.WaitsFor, ", ")},
		{"max failed chunks", nonZero(int64(s.MaxFailedChunks))},
		{"timeout of an attempt", span(s.TimeoutMS)},
		{"created", moment(s.CreatedAt)},
		{"finished", moment(s.FinishedAt)},
		{"trace", s.Trace},
		{"forwarded from", originText(s.ForwardedFrom)},
	})
}

// ownBackoff is the back-off that a submission brings; "" for none.
func ownBackoff(b *api.Backoff) string {
	if b == nil {
		return ""
	}
	return backoffText(*b)
}

// uniqueText is a unique key, and how long it is held; "" for none.
func uniqueText(u *api.Unique) string {
	if u == nil {
		return ""
	}
	return strconv.Quote(u.Key) + " while " + u.While
}

// afterText are the submissions that one waits for, or waited for, and until when; "" for none.
func afterText(a *api.After) string {
	if a == nil {
		return ""
	}
	text := strings.Join(a.IDs, ", ") + ", until " + a.Until
	if a.OnUnmet != "" {
		text += "; else " + a.OnUnmet
	}
	return text
}

func number[N uint32 | uint64 | int](n N) string { return strconv.FormatUint(uint64(n), 10) }

// ifAny is the text of a value that may be missing; "" if it is.
func ifAny[T any](value *T, text func(T) string) string {
	if value == nil {
		return ""
	}
	return text(*value)
}

// span is a time in milliseconds; "" for none.
func span(ms int64) string {
	if ms == 0 {
		return ""
	}
	return milliseconds(ms)
}

func nonZero(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func moment(t api.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// submissionNote is where a submission stands, in a few words beside a bar.
func submissionNote(s api.Submission) string {
	var parts []string
	for _, part := range []struct {
		n    uint32
		name string
	}{{s.Ready, "ready"}, {s.Reserved, "reserved"}, {s.Paused, "paused"}, {s.Blocked, "blocked"},
		{s.Waiting, "waiting"}, {s.Dead, "dead"}} {
		if part.n > 0 {
			parts = append(parts, number(part.n)+" "+part.name)
		}
	}
	if s.State != api.StateOpen {
		return s.State
	}
	return strings.Join(parts, ", ")
}

// outputPrinter prints outputs as they come.
type outputPrinter struct {
	*app
	record func(output []byte) []byte // the bytes that raw prints of an output
}

// one prints the outputs of a submission.
func (p outputPrinter) one(ctx context.Context, c *client.Client, id string) error {
	return printOutputs(p, c.Outputs(ctx, id), func(o *api.Output) []byte { return o.Output })
}

// many prints the outputs of the submissions that a filter matches.
func (p outputPrinter) many(ctx context.Context, o listOptions) error {
	filter, err := o.filter()
	if err != nil {
		return err
	}
	c, err := p.client()
	if err != nil {
		return err
	}
	filter.Limit = queue.MaxListLimit
	return printOutputs(p, c.OutputsOf(ctx, p.queueName(), filter), func(o *api.SubmissionOutput) []byte { return o.Output })
}

func printOutputs[T any](p outputPrinter, all iter.Seq2[T, error], output func(*T) []byte) error {
	for out, err := range all {
		if err != nil {
			return err
		}
		if p.format == formatJSONL {
			err = printJSON(p.out, out, "")
		} else {
			_, err = p.raw().Write(p.record(output(&out)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
