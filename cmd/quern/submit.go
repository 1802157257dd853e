package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// submitOptions are the flags of submit.
type submitOptions struct {
	count      int64
	template   string
	prefix     string
	null       bool
	meta       []string
	attachment string
	fields     api.NewSubmission // those that are declared
	read       func() error      // gives them what the flags say
	key        string
	unique     api.Unique
	after      api.After
	wait       bool
	lines      lineOptions
}

// submitCommand inserts submissions.
func submitCommand(a *app) *cobra.Command {
	var o submitOptions
	c := a.queueCommand(&cobra.Command{
		Use:   "submit [FILE...]",
		Short: "Insert a submission, or with --jsonl one per line",
		Long: "Insert a submission. Its chunks are, in this order of precedence:\n" +
			"  --count N --template TEXT   N chunks whose content is TEXT with {index} replaced\n" +
			"  --count N --prefix KEY      N chunks whose content is in object storage under KEY followed by the index\n" +
			"  FILE...                     one chunk per file, with the file's bytes; with --upload they become objects first\n" +
			"  otherwise                   one chunk per line of stdin (an empty line is an empty chunk; --null for find " +
			"-print0)\n\n" +
			"If files or lines exceed one call, they become several submissions (" +
			strconv.Itoa(queue.MaxInlineChunks) + " chunks or about 63 MiB).\n" +
			"Consumers receive a trace from the environment (TRACEPARENT, TRACESTATE).\n" +
			"The command prints the id of each submission, and with --wait its final state.\n\n" + submitLinesHelp,
		Example: "  find . -name '*.jpg' | quern submit --meta company=123 --meta mode=preview --wait\n" +
			"  quern submit --count 1000000 --template 'row {index}' --priority 5\n" +
			"  quern submit --count 5000 --prefix s3://bucket/run-7/\n" +
			"  quern submit --upload 's3://work?region=eu-central-1' scans/*.tiff\n" +
			"  quern submit --jsonl jobs.jsonl --key-prefix monday",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.lines.check(cmd.Flags(), args); err != nil {
				return err
			}
			if o.lines.file != "" {
				return submitLines(traced(cmd.Context(), a), a, &o.lines)
			}
			return submitChunks(traced(cmd.Context(), a), a, &o, args)
		},
	})
	a.quietFlag(c)
	f := c.Flags()
	f.Int64Var(&o.count, "count", 0, "number of chunks, 1 to 4,294,967,295; goes with --template or --prefix")
	f.StringVar(&o.template, "template", "", "content of every chunk, with {index} replaced by its index, such as 'row {index}'")
	f.StringVar(&o.prefix, "prefix", "", "start of the object keys, such as s3://bucket/run-7/")
	f.BoolVarP(&o.null, "null", "0", false, "chunks on stdin end with a NUL byte instead of a line end")
	f.StringArrayVarP(&o.meta, "meta", "m", nil,
		"metadata `KEY=VALUE`, repeatable; an integer when VALUE parses as one, KEY=s:VALUE forces text")
	f.StringVar(&o.attachment, "attachment", "", "`TEXT`, or @FILE, that goes out with every chunk (at most 64 KiB)")
	o.read = fieldFlags(f, queue.SubmissionFields(), &o.fields, false, "operations_per_chunk")
	f.StringVar(&o.key, "idempotency-key", "", "the same key with the same request inserts only once within a day")
	f.StringVar(&o.unique.Key, "unique", "",
		"insert only if no other submission of the queue holds this `KEY`; otherwise print the one that does")
	f.StringVar(&o.unique.While, "unique-while", "", "how long the submission holds the key: open (until it ends), "+
		"or a duration from the insert on, such as 24h (default open)")
	f.StringVar(&o.unique.OnConflict, "on-conflict", "", "keep: insert nothing, and print the submission that holds the key; "+
		"replace: cancel that one and insert this, unless one of its chunks is reserved or finished (default keep)")
	f.StringSliceVar(&o.after.IDs, "after", nil, "hand out nothing before these submissions have ended: `IDS` of the same queue, at most "+
		strconv.Itoa(queue.MaxAfter))
	f.StringVar(&o.after.Until, "after-until", "", "completed: with --after, wait until all are completed; ended: wait until all have "+
		"ended in any way (default completed)")
	f.StringVar(&o.after.OnUnmet, "on-unmet", "", "if one ends without being completed: cancel this submission, run it all the same, or "+
		"make dead letters of its chunks (dead_letter; default cancel); not with --after-until ended")
	rangesOf(f, map[string]string{"count": "1 to 4,294,967,295"})
	f.BoolVarP(&o.wait, "wait", "w", false, "wait until the submission ends; the exit code is 6 if it did not complete")
	o.lines.flags(f)
	objectsFlag(a, c, "upload", "upload the files into this bucket first, such as s3://NAME?region=REGION, "+
		"gs://NAME, azblob://NAME or "+
		"file:///DIR (by the program "+objectsProgram+")")
	return c
}

// submitChunks inserts, prints what was inserted, and waits when asked to.
func submitChunks(ctx context.Context, a *app, o *submitOptions, files []string) error {
	if err := o.read(); err != nil {
		return err
	}
	request, err := o.request()
	if err != nil {
		return err
	}
	source, err := chunkSource(a, o, files)
	if err != nil {
		return err
	}
	c, err := a.client(client.WithCallTimeout(longTimeout))
	if err != nil {
		return err
	}
	var inserted []api.Submission
	err = o.each(request, source, func(request api.NewSubmission, key string) error {
		var options []client.InsertOption
		if key != "" {
			options = append(options, client.WithKey(key))
		}
		s, err := c.Insert(ctx, a.queueName(), &request, options...)
		if err == nil {
			inserted = append(inserted, *s)
		}
		if err == nil && s.Existing && request.Unique != nil && !a.quiet {
			say(a.err, "quern: nothing was inserted: submission %s holds the unique key %q\n", s.ID, request.Unique.Key)
		}
		return err
	})
	if err != nil && len(inserted) > 0 {
		err = fmt.Errorf("%w; before that it inserted %s, the last one is %s", err, several(len(inserted), "submission"),
			inserted[len(inserted)-1].ID)
	}
	if err == nil && o.wait {
		return submitWait(ctx, a, c, inserted)
	}
	if printed := printSubmitted(a, inserted); err == nil {
		err = printed
	}
	return err
}

// traced is ctx with the trace of the environment.
func traced(ctx context.Context, a *app) context.Context {
	trace := a.getenv("TRACEPARENT")
	if state := a.getenv("TRACESTATE"); state != "" {
		trace += ";" + state
	}
	return client.WithTraceContext(ctx, trace)
}

// request is the submission without its chunks, or with them when they are a count.
func (o *submitOptions) request() (api.NewSubmission, error) {
	meta, err := parseMeta(o.meta)
	if err != nil {
		return api.NewSubmission{}, err
	}
	n := o.fields
	n.Meta = meta
	if o.unique.Key != "" {
		n.Unique = &o.unique
	} else if o.unique.While != "" || o.unique.OnConflict != "" {
		return n, usageError{errors.New("--unique-while and --on-conflict go with --unique")}
	}
	if len(o.after.IDs) > 0 {
		n.After = &o.after
	} else if o.after.Until != "" || o.after.OnUnmet != "" {
		return n, usageError{errors.New("--after-until and --on-unmet go with --after")}
	}
	if n.Attachment, err = textOrFile(o.attachment, queue.MaxAttachmentBytes); err != nil {
		return api.NewSubmission{}, err
	}
	switch {
	case o.count == 0 && o.template == "" && o.prefix == "":
	case o.count < 1 || o.count > queue.MaxChunks:
		return api.NewSubmission{}, usageError{fmt.Errorf("--count is %d; it must be from 1 to %d", o.count, uint32(queue.MaxChunks))}
	case (o.template == "") == (o.prefix == ""):
		return api.NewSubmission{}, usageError{errors.New("--count needs either --template or --prefix")}
	default:
		n.Chunks = api.Chunks{Count: uint32(o.count), Template: o.template, Prefix: o.prefix}
	}
	return n, nil
}

// chunkSource is where the chunks come from, nil when they are a count.
func chunkSource(a *app, o *submitOptions, files []string) (chunkReader, error) {
	switch {
	case o.count != 0 && len(files) > 0:
		return nil, usageError{errors.New("--count and files exclude each other")}
	case o.count != 0:
		return nil, nil
	case len(files) > 0:
		return &fileReader{paths: files}, nil
	case isTerminal(a.in):
		return nil, usageError{errors.New("nothing to submit: give files, lines on stdin, or --count with --template or --prefix")}
	case o.null:
		return newLineReader(a.in, 0), nil
	}
	return newLineReader(a.in, '\n'), nil
}

// each calls insert once per submission. The second and later ones get a key of their own.
func (o *submitOptions) each(request api.NewSubmission, source chunkReader, insert func(api.NewSubmission, string) error) error {
	if source == nil {
		return insert(request, o.key)
	}
	cut := portions{from: source, chunks: portionChunks, bytes: portionBytes}
	for n := 0; ; n++ {
		portion, err := cut.next()
		if errors.Is(err, io.EOF) {
			if n == 0 {
				return usageError{errors.New("nothing to submit: the input is empty")}
			}
			return nil
		}
		if err != nil {
			return err
		}
		request.Chunks = api.Chunks{Inline: make([]api.Bytes, len(portion))}
		for i, chunk := range portion {
			request.Chunks.Inline[i] = chunk
		}
		key := o.key
		if key != "" && n > 0 {
			key += "/" + strconv.Itoa(n)
		}
		if request.Unique != nil && n > 0 {
			part := o.unique
			part.Key += "/" + strconv.Itoa(n)
			request.Unique = &part
		}
		if err := insert(request, key); err != nil {
			return err
		}
	}
}

// submitWait waits for all submissions and prints how they ended; the worst end makes the exit code.
func submitWait(ctx context.Context, a *app, c *client.Client, inserted []api.Submission) error {
	var total int64
	for _, s := range inserted {
		total += int64(s.Chunks)
	}
	bar := a.newProgress("chunks", total, time.Now)
	var before int64
	var bad error
	for i := range inserted {
		s, err := followSubmission(ctx, c, inserted[i].ID, func(s api.Submission) {
			bar.Set(before+int64(s.Done), submissionNote(s))
		})
		if err != nil {
			bar.End()
			say(a.err, "quern: everything was inserted, but this command cannot wait for it\n")
			if printed := printSubmitted(a, inserted); printed != nil {
				return printed
			}
			return err
		}
		inserted[i] = *s
		before += int64(s.Done)
		if bad == nil {
			bad = endError(*s)
		}
	}
	bar.End()
	if err := printSubmitted(a, inserted); err != nil {
		return err
	}
	return bad
}

// printSubmitted prints ids alone for people and shells, everything as JSON.
func printSubmitted(a *app, inserted []api.Submission) error {
	if a.format == formatTable {
		for _, s := range inserted {
			if err := say(a.out, "%s\n", s.ID); err != nil {
				return err
			}
		}
		return nil
	}
	if a.format == formatJSON && len(inserted) == 1 {
		return printJSON(a.out, inserted[0], "  ")
	}
	return printList(a, inserted, nil, nil)
}

// textOrFile is a flag's text, or the bytes of the file named after '@'; nil when the flag is empty.
func textOrFile(text string, most int) (api.Bytes, error) {
	if text == "" {
		return nil, nil
	}
	if path, ok := strings.CutPrefix(text, "@"); ok {
		return readAtMost(path, most)
	}
	return api.Bytes(text), nil
}

// parseMoment reads a time, or a duration from now.
func parseMoment(text string, now time.Time) (api.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return api.At(now.Add(d)), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return api.Time{}, fmt.Errorf("%q is neither a time such as 2026-01-31T12:00:00Z nor a duration such as 10m", text)
	}
	return api.At(t), nil
}
