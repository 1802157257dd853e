package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// InsertOption changes one insert.
type InsertOption func(*request)

// WithKey sets the idempotency key (1 to 255 visible ASCII characters) instead of a random one. Within a day, only
// the first insert with a key inserts; the others return its submission.
func WithKey(key string) InsertOption { return func(q *request) { q.key = key } }

// WithTrace sets the trace context of the submission, instead of that of the call's context (WithTraceContext): a W3C
// traceparent, optionally followed by ';' and the tracestate.
func WithTrace(trace string) InsertOption { return func(q *request) { q.setTrace(trace) } }

const (
	mediaJSON  = "application/json"
	mediaLines = "application/x-ndjson"
)

// Insert inserts a submission and returns it. The client repeats a failed call with the same idempotency key, so it
// inserts once. If you pass the key of an earlier insert, it returns that submission in its present state.
// Overlapping inserts share calls: those that begin during a call go together in the next one, each with its own
// result or error. If ctx ends before that call begins, nothing is inserted.
func (c *Client) Insert(ctx context.Context, queue string, n *api.NewSubmission, options ...InsertOption) (*api.Submission, error) {
	q, err := insertRequest(c, queue, mediaJSON, options)
	if err != nil {
		return nil, err
	}
	buffer, answer := c.lend(), c.buffers.Get()
	defer c.buffers.Put(buffer)
	defer c.buffers.Put(answer)
	buffer.B = wire.AppendInsert(buffer.B, n)
	q.buffer, q.safe, q.traced = buffer.B, true, n.Trace != ""
	return insert(ctx, c, queue, q, answer)
}

func insertRequest(c *Client, queue, media string, options []InsertOption) (*request, error) {
	q := &request{method: http.MethodPost, path: queuePath(queue, "/submissions"), media: media}
	for _, option := range options {
		option(q)
	}
	if q.key == "" {
		key, err := c.random.key()
		if err != nil {
			return nil, err
		}
		q.key = key
	}
	if len(q.key) > 255 || !validHeader(q.key) {
		return nil, fmt.Errorf("quern: insert: the idempotency key %q is not 1 to 255 visible ASCII characters", q.key)
	}
	return q, nil
}

// answered are submissions that were read from answers, for the next: most answers have the same queue and state.
var answered = sync.Pool{New: func() any { return new(wire.Submission) }}

// readSubmission reads a submission object by hand; its strings are its own.
func readSubmission(data []byte) (*api.Submission, error) {
	w := answered.Get().(*wire.Submission)
	defer func() {
		*w = wire.Submission{Queue: w.Queue, State: w.State}
		answered.Put(w)
	}()
	if err := w.Decode(data); err != nil {
		return nil, fmt.Errorf("quern: the answer is not a submission: %w", err)
	}
	s := &api.Submission{
		ID: strconv.FormatUint(w.ID, 10), Queue: w.Queue, State: w.State, Chunks: w.Chunks, Ready: w.Ready,
		Paused: w.Paused, Blocked: w.Blocked, Waiting: w.Waiting,
		Reserved: w.Reserved, Done: w.Done, Dead: w.Dead, Forwarded: w.Forwarded, Skipped: w.Skipped,
		CreatedAt: moment(w.CreatedAt), Priority: w.Priority,
		Group: w.Group, Shard: int(w.Shard), OperationsPerChunk: w.OperationsPerChunk,
		Prefix: w.Prefix, Template: w.Template, HasAttachment: w.HasAttachment,
		RunAt: moment(w.RunAt), DeadDeadline: moment(w.DeadDeadline), FinishedAt: moment(w.FinishedAt), MaxAttempts: w.MaxAttempts,
		OnExhausted: w.OnExhausted, MaxFailedChunks: w.MaxFailedChunks, TimeoutMS: int64(w.TimeoutMS),
		Failure: w.Failure, FailedChunk: w.FailedChunk,
		Trace: w.Trace, Schedule: w.Schedule, ScheduledAt: moment(w.ScheduledAt), RetryBackoff: w.RetryBackoff, Unique: w.Unique,
		After: w.After, WaitsFor: w.WaitsFor,
		Existing: w.Existing,
	}
	if len(w.Meta) > 0 {
		var err error
		if s.Meta, err = wire.DecodeMeta(w.Meta); err != nil {
			return nil, fmt.Errorf("quern: the answer is not a submission: %w", err)
		}
	}
	return s, nil
}

// InsertStream inserts a submission whose chunks come one by one, at most 100,000 and 64 MiB in all, without holding
// them all in memory. It ignores n.Chunks. An error from chunks ends the insert, and nothing is inserted. The client
// can read chunks only once, so it never repeats the call by itself. To repeat it yourself, use the same key
// (WithKey).
func (c *Client) InsertStream(ctx context.Context, queue string, n *api.NewSubmission, chunks iter.Seq2[[]byte, error],
	options ...InsertOption) (*api.Submission, error) {
	q, err := insertRequest(c, queue, mediaLines, options)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reader, writer := io.Pipe()
	q.endpoint = c.addresses.of(q)
	h, err := c.cold.build(ctx, q, reader)
	if err != nil {
		return nil, fmt.Errorf("quern: insert: %w", err)
	}
	done := make(chan error, 1)
	go func() {
		err := writeLines(writer, n, chunks)
		writer.CloseWithError(err) // nil is the end of the body; an error breaks it off, so that the server inserts nothing
		done <- err
	}()
	answer, err := c.cold.http.Do(h)
	if err == nil {
		defer answer.Body.Close()
	}
	reader.CloseWithError(errAnswered) // lets the writer go when the server answered early
	if fault := <-done; fault != nil && !errors.Is(fault, errAnswered) && !errors.Is(fault, io.ErrClosedPipe) {
		return nil, fmt.Errorf("quern: insert: %w", fault)
	}
	var r reply
	if err == nil {
		err = r.read(answer)
	}
	if err != nil {
		err = trouble("insert", err)
		c.addresses.leave(q, err)
		return nil, err
	}
	c.addresses.heard(q, &r)
	if r.status >= 300 {
		refused := refusal(&r)
		c.addresses.leave(q, refused)
		return nil, refused
	}
	return readSubmission(r.body)
}

var errAnswered = errors.New("the server answered before the end of the chunks")

// writeLines writes the submission and its chunks as JSON lines, in pieces of some kilobytes.
func writeLines(w io.Writer, n *api.NewSubmission, chunks iter.Seq2[[]byte, error]) error {
	const piece = 32 << 10
	buffer := bytes.NewBuffer(make([]byte, 0, 2*piece))
	line := append(wire.AppendInsertHead(nil, n), '\n')
	buffer.Write(line)
	for chunk, err := range chunks {
		if err != nil {
			return err
		}
		line = append(wire.AppendChunk(line[:0], chunk), '\n')
		buffer.Write(line)
		if buffer.Len() >= piece {
			if _, err := buffer.WriteTo(w); err != nil {
				return err
			}
		}
	}
	_, err := buffer.WriteTo(w)
	return err
}

// InsertMany inserts up to 10,000 submissions in one call and one commit. It returns one result per submission, in
// order. An invalid or refused submission does not prevent the others, unless atomic is true: then nothing is
// inserted. The client gives a key to each submission without an IdempotencyKey. So it can repeat the call if the
// answer is lost, and still insert each once.
func (c *Client) InsertMany(ctx context.Context, queue string, list []api.BatchSubmission, atomic bool) ([]api.InsertResult, error) {
	key, err := c.random.key()
	if err != nil {
		return nil, err
	}
	list = slices.Clone(list)
	for i := range list {
		if list[i].IdempotencyKey == "" {
			list[i].IdempotencyKey = key + "-" + strconv.Itoa(i)
		}
	}
	return sendMany(ctx, c, queue, mediaJSON, wire.AppendInsertMany(make([]byte, gap), atomic, list), len(list))
}

// InsertLines is InsertMany for submissions that are JSON already. The client sends each one unchanged, so the server
// checks exactly what you wrote. Each must be one JSON object on one line with its own "idempotency_key". The client
// repeats the call if its answer is lost, and would then insert a submission without a key twice.
func (c *Client) InsertLines(ctx context.Context, queue string, lines [][]byte, atomic bool) ([]api.InsertResult, error) {
	if !atomic { // as lines one that is broken is no harm to the others
		body := append(make([]byte, gap), bytes.Join(lines, []byte{'\n'})...)
		return sendMany(ctx, c, queue, mediaLines, body, len(lines))
	}
	body := append(make([]byte, gap), `{"atomic":true,"submissions":[`...)
	body = append(body, bytes.Join(lines, []byte{','})...)
	return sendMany(ctx, c, queue, mediaJSON, append(body, "]}"...), len(lines))
}

// sendMany sends the body of an insert of n submissions.
func sendMany(ctx context.Context, c *Client, queue, media string, body []byte, n int) ([]api.InsertResult, error) {
	q := &request{method: http.MethodPost, path: queuePath(queue, "/submissions:batch"), media: media, safe: true, buffer: body}
	answer, err := fetch[api.InsertManyResponse](ctx, c, "insert many", q)
	if err != nil {
		return nil, err
	}
	if len(answer.Results) != n {
		return nil, fmt.Errorf("quern: insert many: the answer has %d results for %d submissions", len(answer.Results), n)
	}
	return answer.Results, nil
}
