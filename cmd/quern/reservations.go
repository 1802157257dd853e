package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// reserveOptions are the flags of reserve.
type reserveOptions struct {
	max      int
	strategy string
	consumer string
	wait     time.Duration
	timeout  time.Duration
	about    contextFlag
}

// reserveCommand reserves chunks for a script, which finishes them with complete or fail.
func reserveCommand(a *app) *cobra.Command {
	var o reserveOptions
	c := &cobra.Command{
		Use:   "reserve",
		Short: "Reserve chunks for a script, as JSON lines with token and content",
		Long: "Reserve chunks for a script, and print one JSON object per line, with token and content. The script must finish\n" +
			"each with 'quern complete TOKEN' or 'quern fail TOKEN' before its deadline. The exit code is 7 when there is\n" +
			"nothing to hand out now. To run a command per chunk, 'quern work' is simpler.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return reserveChunks(cmd.Context(), a, o) },
	}
	a.queueFlags(c)
	a.formatFlag(c, formatJSONL, formatJSON, formatTable)
	f := c.Flags()
	f.IntVarP(&o.max, "limit", "n", 1, "at most this many chunks, 1 to 1,000")
	limitWas(f, "max")
	f.StringVar(&o.strategy, "strategy", "Random", "which chunks, and in which order, such as "+
		"'OrElse(SelectOnly(\"mode\",\"preview\",Random), OldestFirst)'")
	f.StringVar(&o.consumer, "consumer", "", "name of this consumer (default: the host and the process id)")
	o.about.flag(c)
	f.DurationVar(&o.wait, "wait", 0, "how long to wait for work when there is none, up to 60s")
	f.DurationVar(&o.timeout, "timeout", 0, "time until the deadline (0: the queue's setting)")
	return c
}

func reserveChunks(ctx context.Context, a *app, o reserveOptions) error {
	strategy, err := strategyJSON(o.strategy)
	if err != nil {
		return err
	}
	about, err := o.about.read()
	if err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	if o.wait > 0 {
		if err := answers(ctx, c); err != nil {
			return err
		}
	}
	got, err := c.Reserve(ctx, a.queueName(), &api.ReserveRequest{
		Max: o.max, Strategy: strategy, Consumer: cmp.Or(o.consumer, defaultConsumer()), Context: about,
		WaitMS: o.wait.Milliseconds(), TimeoutMS: o.timeout.Milliseconds(),
	})
	if err != nil {
		return err
	}
	for _, w := range got.Warnings {
		say(a.err, "quern: warning: the strategy %s\n", w.Detail)
	}
	if len(got.Reservations) == 0 && a.format != formatJSON {
		return endedError{code: exitEmpty, text: emptyText(got)}
	}
	if err := printList(a, got.Reservations, []string{"TOKEN", "SUBMISSION", "INDEX", "ATTEMPT", "DEADLINE", "CONTENT"},
		reservationRow); err != nil {
		return err
	}
	if len(got.Reservations) == 0 {
		return endedError{code: exitEmpty, text: emptyText(got)}
	}
	return nil
}

// emptyText says why there was nothing.
func emptyText(got *api.ReserveResponse) string {
	reason := ""
	if got.Reason != nil {
		reason = *got.Reason
	}
	switch reason {
	case api.ReasonAllLimited:
		return "nothing to hand out now: limits hold everything back" + limitedText(got.Limited)
	case api.ReasonRateLimited:
		after := time.Duration(*got.RetryAfterMS) * time.Millisecond
		return fmt.Sprintf("nothing to hand out now: a rate holds everything back for %v", after)
	case api.ReasonPaused:
		return "nothing to hand out now: paused"
	case api.ReasonNotYetDue:
		return "nothing to hand out now: the open work is not due yet"
	}
	return "nothing to hand out now"
}

// limitedText names the values that are in the way: those that the server named.
func limitedText(limited []api.Saturated) string {
	parts := make([]string, len(limited))
	for i, v := range limited {
		value := metaText(v.Value)
		if v.Missing {
			value = "(none)"
		}
		parts[i] = fmt.Sprintf("%s=%s %d/%d", v.Key, value, v.InFlight, v.Limit)
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func reservationRow(r api.Reservation) []string {
	content := r.Content.Key
	if !r.Content.IsKey {
		content = strconv.Quote(string(r.Content.Bytes))
	}
	if len(content) > 60 {
		content = content[:57] + "..."
	}
	return []string{r.Token, r.Submission, number(r.Index), number(r.Attempt), moment(r.Deadline), content}
}

// strategyJSON is a strategy as the server takes it: JSON as it is, anything else as the text form.
func strategyJSON(text string) (json.RawMessage, error) {
	if text == "" {
		return nil, nil
	}
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		if !json.Valid([]byte(text)) {
			return nil, usageError{fmt.Errorf("--strategy %q begins like JSON but is none", text)}
		}
		return json.RawMessage(text), nil
	}
	return json.Marshal(text)
}

// defaultConsumer names this process: the host and the process id.
func defaultConsumer() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	name := host + "-" + strconv.Itoa(os.Getpid())
	return name[max(0, len(name)-queue.MaxConsumerBytes):]
}

// completeCommand says that reserved chunks are done.
func completeCommand(a *app) *cobra.Command {
	var output, following string
	c := finishCommand(a, "complete TOKEN...", "Complete reserved chunks",
		func(ctx context.Context, c *client.Client, queueName string, tokens []string) ([]api.Result, error) {
			result, err := outputBytes(a, output)
			if err != nil {
				return nil, err
			}
			items := make([]api.CompleteItem, len(tokens))
			for i, token := range tokens {
				items[i] = api.CompleteItem{Token: token, Output: result}
			}
			if following != "" && len(tokens) > 1 {
				return nil, usageError{errors.New("--insert is for one TOKEN: what it inserts follows one chunk")}
			}
			if following != "" {
				if items[0].Insert, err = readSubmissions(following); err != nil {
					return nil, err
				}
			}
			return c.Complete(ctx, queueName, items)
		})
	c.Flags().StringVar(&following, "insert", "", "JSON lines in `FILE`, at most 100: the submissions to insert in the "+
		"commit of the completion, each as in the body of an insert")
	c.Flags().StringVar(&output, "output-text", "", "the chunks' output: `TEXT`, @FILE, or - for stdin (at most 1 MiB)")
	return c
}

// maxFollowingBytes is about what the server takes in one completion.
const maxFollowingBytes = 16 << 20

// readSubmissions reads a submission from each line of a file.
func readSubmissions(path string) (list []api.BatchSubmission, err error) {
	text, err := readAtMost(path, maxFollowingBytes)
	if err != nil {
		return nil, err
	}
	for i, line := range bytes.Split(text, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var one api.BatchSubmission
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&one); err != nil {
			return nil, usageError{fmt.Errorf("line %d of %s is not a submission: %w", i+1, path, err)}
		}
		list = append(list, one)
	}
	return list, nil
}

// outputBytes is the value of --output-text.
func outputBytes(a *app, text string) (api.Bytes, error) {
	if text != "-" {
		return textOrFile(text, queue.MaxOutputBytes)
	}
	b, err := io.ReadAll(io.LimitReader(a.in, queue.MaxOutputBytes+1))
	if err == nil && len(b) > queue.MaxOutputBytes {
		err = usageError{fmt.Errorf("stdin has more than %d bytes, the most an output may have", queue.MaxOutputBytes)}
	}
	return b, err
}

// failCommand says that a try did not succeed.
func failCommand(a *app) *cobra.Command {
	var (
		text       string
		fatal      bool
		retryAfter time.Duration
	)
	c := finishCommand(a, "fail TOKEN...", "Fail reserved chunks; the server retries them",
		func(ctx context.Context, c *client.Client, queueName string, tokens []string) ([]api.Result, error) {
			items := make([]api.FailItem, len(tokens))
			for i, token := range tokens {
				items[i] = api.FailItem{Token: token, Error: text, Fatal: fatal}
				if retryAfter > 0 {
					items[i].RetryAfterMS = new(retryAfter.Milliseconds())
				}
			}
			return c.Fail(ctx, queueName, items)
		})
	c.Flags().StringVar(&text, "error", "", "what went wrong (the first 1,000 bytes are kept)")
	c.Flags().BoolVar(&fatal, "fatal", false, "do not retry: the chunk is out of attempts now")
	c.Flags().DurationVar(&retryAfter, "retry-after", 0, "wait this long before the retry (0: the queue's back-off decides)")
	return c
}

// extendCommand asks for more time.
func extendCommand(a *app) *cobra.Command {
	var (
		timeout  time.Duration
		progress float64
		note     string
	)
	var c *cobra.Command
	c = finishCommand(a, "extend TOKEN...", "Extend the deadline of reserved chunks",
		func(ctx context.Context, server *client.Client, queueName string, tokens []string) ([]api.Result, error) {
			items := make([]api.ExtendItem, len(tokens))
			for i, token := range tokens {
				items[i] = api.ExtendItem{Token: token, TimeoutMS: timeout.Milliseconds(), Note: note}
				if c.Flags().Changed("progress") {
					items[i].Progress = &progress
				}
			}
			return server.Extend(ctx, queueName, items)
		})
	c.Flags().DurationVar(&timeout, "timeout", 0, "new time until the deadline, from now (0: the queue's setting)")
	c.Flags().Float64Var(&progress, "progress", 0, "how much of the work is done, 0 to 1, for people to see")
	c.Flags().StringVar(&note, "note", "", "what the consumer is doing, at most 256 bytes, for people to see")
	return c
}

// releaseCommand gives chunks back unworked: those of tokens, or one that a consumer holds.
func releaseCommand(a *app) *cobra.Command {
	var delay time.Duration
	c := finishCommand(a, "release TOKEN... | ID/INDEX", "Release reserved chunks without counting an attempt",
		func(ctx context.Context, c *client.Client, queueName string, tokens []string) ([]api.Result, error) {
			items := make([]api.ReleaseItem, len(tokens))
			for i, token := range tokens {
				items[i] = api.ReleaseItem{Token: token, DelayMS: delay.Milliseconds()}
			}
			return c.Release(ctx, queueName, items)
		})
	byToken := c.RunE
	var actor, reason string
	c.RunE = func(cmd *cobra.Command, args []string) error {
		id, index, err := parseChunk(strings.Join(args, "/")) // ID INDEX was its form
		if err != nil {
			return byToken(cmd, args)
		}
		if delay != 0 {
			return usageError{errors.New("--delay is for tokens: a chunk that is taken back by ID/INDEX is offered at once")}
		}
		return releaseChunk(cmd.Context(), a, id, index, a.actor(actor), reason)
	}
	c.Long = "Release reserved chunks without counting an attempt. A consumer names its tokens. An operator names a chunk, which\n" +
		"takes it away from the consumer that holds it. 'quern reservations' shows who holds which chunk."
	c.Example = "  quern release 72057594037927936/17 --reason 'host-3 hangs'"
	c.Flags().DurationVar(&delay, "delay", 0, "with TOKEN: how long the chunks wait before they are offered again, at most 30 days")
	c.Flags().StringVar(&actor, "actor", "", "with ID/INDEX: name of the person who takes it back, for the audit "+
		"log (default: the user's name)")
	c.Flags().StringVar(&reason, "reason", "", "with ID/INDEX: reason, for the audit log")
	return c
}

// finishCommand is the common part of complete, fail, extend and release: tokens in, one result each out.
func finishCommand(a *app, use, short string,
	do func(context.Context, *client.Client, string, []string) ([]api.Result, error)) *cobra.Command {
	return a.queueCommand(&cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.MinimumNArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, tokens []string) error {
			for _, token := range tokens {
				if _, ok := queue.ParseToken([]byte(token)); !ok {
					return usageError{fmt.Errorf("%q is not a token: it is the %d characters that "+
						"'quern reserve' printed", token, queue.TokenChars)}
				}
			}
			results, err := do(ctx, c, a.queueName(), tokens)
			if err != nil {
				return err
			}
			return printResults(a, tokens, results)
		}),
	})
}

// tokenResult is the answer for one token.
type tokenResult struct {
	Token string `json:"token"`
	api.Result
}

func printResults(a *app, tokens []string, results []api.Result) error {
	if len(results) != len(tokens) {
		return errors.New("the server answered for another number of tokens than it was asked about")
	}
	rows := make([]tokenResult, len(results))
	lost := 0
	for i, result := range results {
		rows[i] = tokenResult{tokens[i], result}
		if result.Status != api.StatusOK && result.Status != api.StatusAlready {
			lost++
		}
	}
	err := printList(a, rows, []string{"TOKEN", "STATUS", "DEADLINE", "DETAIL"}, func(r tokenResult) []string {
		detail := r.Detail
		if detail == "" && len(r.Inserted) > 0 {
			detail = "inserted " + strings.Join(r.Inserted, ", ")
		}
		return []string{r.Token, r.Status, moment(r.Deadline), detail}
	})
	if err == nil && lost > 0 {
		return endedError{code: exitLost, text: fmt.Sprintf("%d of %d did not succeed", lost, len(results))}
	}
	return err
}

// reservationsCommand lists reservations with their consumers.
func reservationsCommand(a *app) *cobra.Command {
	var (
		f     api.HeldFilter
		meta  []string
		sort  string
		limit limited
	)
	held := resource[api.HeldReservation]{
		ofQueue: true, header: heldHeader(), row: heldRow, limit: &limit,
		list: does("reservations", "List the chunks that consumers hold, the longest held first",
			func(ctx context.Context, c call) (list all[api.HeldReservation], err error) {
				if f.Meta, err = parseMeta(meta); err != nil {
					return nil, err
				}
				if f.ByDeadline = sort == "deadline"; sort != "age" && sort != "deadline" {
					return nil, usageError{fmt.Errorf("--sort is %q: age or deadline", sort)}
				}
				f.Limit = limit.page()
				if f.Consumer+f.Submission == "" && !f.Overdue && len(f.Meta) == 0 {
					limit.total = a.counted(ctx, c.Client, func(s *api.Stats) uint64 { return s.Reserved })
				}
				return c.Reservations(ctx, c.queue, f), nil
			}),
	}
	c := held.commands(a)[0]
	c.Example = "  quern reservations --overdue\n  quern reservations --meta company=7 -o json"
	c.Flags().BoolVar(&f.Overdue, "overdue", false, "only chunks held longer than the queue's reservation timeout")
	c.Flags().StringVar(&f.Consumer, "consumer", "", "only chunks of this consumer")
	c.Flags().StringVar(&f.Submission, "submission", "", "only chunks of this submission")
	c.Flags().StringArrayVarP(&meta, "meta", "m", nil, "only chunks of submissions with this meta, key=value (repeatable)")
	c.Flags().StringVar(&sort, "sort", "age", "age: the longest held first; deadline: the earliest deadline first")
	limit.flags(c, 1000, "chunks")
	return c
}

func heldHeader() []string {
	return []string{"CHUNK", "CONSUMER", "HELD", "OVERDUE", "PROGRESS", "NOTE", "ATTEMPT", "SINCE", "DEADLINE", "META"}
}

func heldRow(h api.HeldReservation) []string {
	overdue := ""
	if h.Overdue {
		overdue = "overdue"
	}
	age := (time.Duration(h.HeldMS) * time.Millisecond).Round(time.Second)
	return []string{h.Submission + "/" + number(h.Index), h.Consumer, age.String(), overdue, percent(h.Progress), h.Note, number(h.Attempt),
		moment(h.Since), moment(h.Deadline), metaLine(h.Meta)}
}

// percent is the progress that a consumer reported; "" if it reported none.
func percent(progress *float64) string {
	if progress == nil {
		return ""
	}
	return strconv.FormatFloat(100**progress, 'f', 0, 64) + " %"
}

// releaseChunk takes one chunk back from the consumer that holds it.
func releaseChunk(ctx context.Context, a *app, submission string, index uint32, actor, reason string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	h, err := c.ReleaseChunk(ctx, submission, index, actor, reason)
	if err != nil {
		return err
	}
	return printList(a, []api.HeldReservation{*h}, heldHeader(), heldRow)
}
