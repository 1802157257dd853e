package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// waitSlice is how long one call of Wait asks the server to hold its answer.
const waitSlice = 30 * time.Second

// Get reads a submission.
func (c *Client) Get(ctx context.Context, id string) (*api.Submission, error) {
	return read(ctx, c, "get", id, 0)
}

func read(ctx context.Context, c *Client, what, id string, wait time.Duration) (*api.Submission, error) {
	q := &request{method: http.MethodGet, path: submissionPath(id, ""), safe: true, wait: wait}
	if wait > 0 {
		q.prefer = "wait=" + strconv.Itoa(int(wait/time.Second))
	}
	return fetch[api.Submission](ctx, c, what, q)
}

// Wait waits until the submission has ended and returns it, or returns the error of ctx.
func (c *Client) Wait(ctx context.Context, id string) (*api.Submission, error) {
	for {
		s, err := read(ctx, c, "wait", id, waitSlice)
		if err != nil || s.State != api.StateOpen {
			return s, err
		}
		// A server that does not hold its answers must not be asked in a tight loop.
		if err := pause(ctx, c.random.upTo(backoffBase)); err != nil {
			return s, fmt.Errorf("quern: wait: %w", err)
		}
	}
}

// Cancel ends a submission. Consumers of its reserved chunks get StatusGone.
func (c *Client) Cancel(ctx context.Context, id string) (*api.Submission, error) {
	return fetch[api.Submission](ctx, c, "cancel", &request{method: http.MethodPost, path: submissionPath(id, "/cancel"), safe: true})
}

// CancelChunk gives up one chunk of a submission, which counts as skipped: a consumer that holds it gets StatusGone. A
// chunk that is done, dead or skipped does not change. It returns the chunk in its present state.
func (c *Client) CancelChunk(ctx context.Context, submission string, index uint32) (*api.Chunk, error) {
	path := submissionPath(submission, "/chunks/"+strconv.FormatUint(uint64(index), 10)+"/cancel")
	return fetch[api.Chunk](ctx, c, "cancel chunk", &request{method: http.MethodPost, path: path, safe: true})
}

// DeleteSubmission removes an ended submission with its contents, outputs, attempts and dead letters. With cancel, it
// ends an open submission first; without it, an open submission is a conflict (api.CodeConflict).
// api.CodeUnavailable: the server has recorded the deletion and will finish it by itself. It makes one attempt,
// because a second one would find nothing.
func (c *Client) DeleteSubmission(ctx context.Context, id string, cancel bool) error {
	path := submissionPath(id, "")
	if cancel {
		path += "?cancel=true"
	}
	return c.do(ctx, c.cold, "delete submission", &request{method: http.MethodDelete, path: path}, new(reply))
}

// SetPriority changes the priority of an open submission, from the next reservation on. CustomPriority hands out
// larger ones first. api.CodeConflict: the submission has ended.
func (c *Client) SetPriority(ctx context.Context, id string, priority int64) (*api.Submission, error) {
	q := &request{method: http.MethodPatch, path: submissionPath(id, ""), safe: true}
	return send[api.Submission](ctx, c, "set priority", q, api.SubmissionChange{Priority: &priority})
}

// ListOptions narrows a list of submissions. The zero value lists all.
type ListOptions struct {
	States   []string // any of these
	Meta     api.Meta // all of these
	Schedule string   // inserted by this schedule; "": by any caller

	CreatedBefore time.Time // inserted before this time; zero: at any time
	CreatedAfter  time.Time // inserted at this time or later

	// Largest lists open submissions, those with the most chunks left first: one page
	Largest bool

	Limit int // items per page, 1 to 1,000; 0 is the server's default
}

// List returns a queue's submissions, the newest first, or with o.Largest the largest first. It ends after the first
// error.
func (c *Client) List(ctx context.Context, queue string, o ListOptions) iter.Seq2[api.Submission, error] {
	return pages[api.Submission](ctx, c, "list", queuePath(queue, "/submissions"), o.query())
}

// query is the list as the server is asked for it.
func (o *ListOptions) query() url.Values {
	query := given("schedule", o.Schedule, "limit", positive(o.Limit))
	query["state"] = o.States
	if o.Largest {
		query.Set("sort", "largest")
	}
	addMeta(query, o.Meta)
	for name, at := range map[string]time.Time{"created_before": o.CreatedBefore, "created_after": o.CreatedAfter} {
		if !at.IsZero() {
			query.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return query
}

// OutputsOf returns the outputs of the submissions that List would return, page by page: those of the newest
// submission first, and of one in the order of the indexes of its chunks. It ends after the first error.
func (c *Client) OutputsOf(ctx context.Context, queue string, o ListOptions) iter.Seq2[api.SubmissionOutput, error] {
	return pages[api.SubmissionOutput](ctx, c, "outputs", queuePath(queue, "/outputs"), o.query())
}

// addMeta adds a filter by meta to a query.
func addMeta(query url.Values, meta api.Meta) {
	for key, value := range meta {
		query.Set("meta."+key, queryValue(value))
	}
}

// queryValue writes a meta value for a query: a string has the prefix s:, so that "123" is not taken for 123.
func queryValue(value api.MetaValue) string {
	if value.IsInt() {
		return value.String()
	}
	return "s:" + value.Text()
}

// Chunks returns a submission's chunks in the order of their indexes. Without states, it returns all.
func (c *Client) Chunks(ctx context.Context, id string, states ...string) iter.Seq2[api.Chunk, error] {
	return pages[api.Chunk](ctx, c, "chunks", submissionPath(id, "/chunks"), url.Values{"state": states})
}

// Outputs returns the outputs of a submission's chunks in the order of their indexes, without chunks that have none.
// It ends after the first error. The client reads the answer as it comes, so it may be of any length. The server ends
// an answer that the caller reads at less than 16 KiB a second on average. So if the work on an output takes long,
// store the outputs first.
func (c *Client) Outputs(ctx context.Context, id string) iter.Seq2[api.Output, error] {
	return func(yield func(api.Output, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		answer, err := c.openOutputs(ctx, id)
		if err != nil {
			yield(api.Output{}, err)
			return
		}
		defer answer.Body.Close()
		lines := bufio.NewReaderSize(answer.Body, 64<<10)
		for {
			line, err := readLine(lines)
			if err == io.EOF && len(line) == 0 {
				return
			}
			var output api.Output
			if err == nil || err == io.EOF {
				err = json.Unmarshal(line, &output)
			}
			if err != nil {
				yield(api.Output{}, fmt.Errorf("quern: outputs: %w", err))
				return
			}
			if !yield(output, nil) {
				return
			}
		}
	}
}

// openOutputs begins to read the outputs, again where that may help.
func (c *Client) openOutputs(ctx context.Context, id string) (*http.Response, error) {
	begin := &opening{standard: c.cold}
	q := &request{method: http.MethodGet, path: submissionPath(id, "/outputs"), safe: true}
	if err := c.do(ctx, begin, "outputs", q, new(reply)); err != nil {
		return nil, err
	}
	return begin.answer, nil
}

// opening is net/http for an answer that is read as it comes: a success is kept unread, and may take any time.
type opening struct {
	*standard
	answer *http.Response
}

func (o *opening) roundTrip(ctx context.Context, q *request, r *reply) error {
	ctx, cancel := context.WithCancelCause(ctx) // ends with its parent, which Outputs cancels when it has read the answer
	silent := time.AfterFunc(o.client.timeout, func() { cancel(errSilent) })
	defer silent.Stop()
	h, err := o.build(ctx, q, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := o.http.Do(h)
	if err != nil {
		if errors.Is(context.Cause(ctx), errSilent) {
			err = errSilent
		}
		return err
	}
	if answer.StatusCode >= 300 {
		defer answer.Body.Close()
		return r.read(answer)
	}
	if !silent.Stop() {
		answer.Body.Close()
		return errSilent
	}
	r.status, r.owner, o.answer = answer.StatusCode, answer.Header.Get(headerOwner), answer
	return nil
}

// maxLine bounds one line of outputs: 1 MiB of output, every byte of it escaped.
const maxLine = 8 << 20

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, errTooLong
		}
		if err != bufio.ErrBufferFull {
			return bytes.TrimSpace(line), err
		}
	}
}
