package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// All calls about reservations may be made twice: complete, fail, extend and release name tokens, and the server answers
// "already" to the second; a reserve whose answer was lost leaves chunks reserved until their deadline, no worse than a
// consumer that crashed.

// Reserved is a reusable answer of ReserveInto. Its byte slices are valid until the next call with it.
type Reserved struct {
	wire.ReserveResponse
	body []byte
}

// Finished is a reusable answer of CompleteInto.
type Finished struct {
	wire.ResultsResponse
	body []byte
}

// Exchanged is a reusable answer of ExchangeInto. Its byte slices are valid until the next call with it.
type Exchanged struct {
	wire.ExchangeResponse
	body []byte
}

// ReserveInto is Reserve without allocations: r and out are reused from call to call.
func (c *Client) ReserveInto(ctx context.Context, queue string, r *wire.ReserveRequest, out *Reserved) error {
	return c.post(ctx, "reserve", queue, "/reservations", milliseconds(r.WaitMS), r, out, &out.body)
}

// CompleteInto is Complete without allocations.
func (c *Client) CompleteInto(ctx context.Context, queue string, r *wire.CompleteRequest, out *Finished) error {
	return c.post(ctx, "complete", queue, "/reservations/complete", 0, r, out, &out.body)
}

// ExchangeInto is Exchange without allocations.
func (c *Client) ExchangeInto(ctx context.Context, queue string, x *wire.ExchangeRequest, out *Exchanged) error {
	var wait time.Duration
	if x.HasReserve {
		wait = milliseconds(x.Reserve.WaitMS)
	}
	return c.post(ctx, "exchange", queue, "/reservations/exchange", wait, x, out, &out.body)
}

// post makes a hot call; the answer's bytes go to *memory and answer points into them.
func (c *Client) post(ctx context.Context, what, queue, suffix string, wait time.Duration, body appender,
	answer decoder, memory *[]byte) error {
	buffer := c.lend()
	defer c.buffers.Put(buffer)
	buffer.B = body.Append(buffer.B)
	q := request{method: http.MethodPost, path: queuePath(queue, suffix), media: mediaJSON, buffer: buffer.B, wait: wait, safe: true}
	r := reply{body: *memory}
	err := c.do(ctx, c.hot, what, &q, &r)
	*memory = r.body
	if err != nil {
		return err
	}
	if err := answer.Decode(r.body); err != nil {
		return fmt.Errorf("quern: %s: the answer is not what the server's interface says: %w", what, err)
	}
	return nil
}

func milliseconds(ms int64) time.Duration { return time.Duration(max(ms, 0)) * time.Millisecond }

// Reserve reserves up to r.Max chunks. If the answer has none, Reason says why.
func (c *Client) Reserve(ctx context.Context, queue string, r *api.ReserveRequest) (*api.ReserveResponse, error) {
	var request wire.ReserveRequest
	request.FromReserve(r)
	var out Reserved
	if err := c.ReserveInto(ctx, queue, &request, &out); err != nil {
		return nil, err
	}
	return reserved(&out.ReserveResponse)
}

// Complete reports chunks as done, with one result per item, in order. The server inserts the submissions of an item
// in the commit of its completion, or does neither.
func (c *Client) Complete(ctx context.Context, queue string, items []api.CompleteItem) ([]api.Result, error) {
	return c.finish(ctx, "complete", queue, len(items), &wire.CompleteRequest{Items: completes(items)})
}

// Fail reports failed attempts, with one result per item, in order.
func (c *Client) Fail(ctx context.Context, queue string, items []api.FailItem) ([]api.Result, error) {
	return c.finish(ctx, "fail", queue, len(items), &wire.FailRequest{Items: fails(items)})
}

// Extend moves the deadlines of reservations, with one result per item, in order. If the server lost a reservation at
// a restart, its consumer holds the chunk again, but under no name. Exchange passes the name.
func (c *Client) Extend(ctx context.Context, queue string, items []api.ExtendItem) ([]api.Result, error) {
	return c.finish(ctx, "extend", queue, len(items), &wire.ExtendRequest{Items: extends(items)})
}

// Release gives chunks back without working on them, at once or after their delay. It returns one result per item, in
// order.
func (c *Client) Release(ctx context.Context, queue string, items []api.ReleaseItem) ([]api.Result, error) {
	request := &wire.ReleaseRequest{Items: make([]wire.ReleaseItem, len(items))}
	for i := range items {
		request.Items[i] = wire.ReleaseItem{Token: []byte(items[i].Token), DelayMS: items[i].DelayMS}
	}
	return c.finish(ctx, "release", queue, len(items), request)
}

// Exchange completes, fails, extends and reserves in one call, in this order. The completions are durable before it
// reserves.
func (c *Client) Exchange(ctx context.Context, queue string, x *api.ExchangeRequest) (*api.ExchangeResponse, error) {
	request := &wire.ExchangeRequest{Complete: completes(x.Complete), Fail: fails(x.Fail), Extend: extends(x.Extend),
		Consumer: []byte(x.Consumer)}
	if x.Reserve != nil {
		request.HasReserve = true
		request.Reserve.FromReserve(x.Reserve)
	}
	var out Exchanged
	if err := c.ExchangeInto(ctx, queue, request, &out); err != nil {
		return nil, err
	}
	if err := sameResults(request, &out); err != nil {
		return nil, err
	}
	held, err := reserved(&out.ReserveResponse)
	if err != nil {
		return nil, err
	}
	return &api.ExchangeResponse{
		Complete: results(out.Complete), Fail: results(out.Fail), Extend: results(out.Extend),
		Reservations: held.Reservations, Reason: held.Reason, RetryAfterMS: held.RetryAfterMS, Limited: held.Limited,
		Warnings: held.Warnings,
	}, nil
}

func (c *Client) finish(ctx context.Context, verb, queue string, items int, body appender) ([]api.Result, error) {
	var out Finished
	if err := c.post(ctx, verb, queue, "/reservations/"+verb, 0, body, &out, &out.body); err != nil {
		return nil, err
	}
	if err := sameLength(verb, items, len(out.Results)); err != nil {
		return nil, err
	}
	return results(out.Results), nil
}

// sameResults reports whether each list of an exchange has a result for every item.
func sameResults(request *wire.ExchangeRequest, out *Exchanged) error {
	return errors.Join(sameLength("complete", len(request.Complete), len(out.Complete)),
		sameLength("fail", len(request.Fail), len(out.Fail)), sameLength("extend", len(request.Extend), len(out.Extend)))
}

func sameLength(what string, items, results int) error {
	if items != results {
		return fmt.Errorf("quern: %s: the answer has %d results for %d items", what, results, items)
	}
	return nil
}

func completes(items []api.CompleteItem) []wire.CompleteItem {
	out := make([]wire.CompleteItem, len(items))
	for i := range items {
		out[i] = wire.CompleteItem{Token: []byte(items[i].Token), Output: items[i].Output}
		for n := range items[i].Insert {
			out[i].Insert = append(out[i].Insert, wire.AppendBatchSubmission(nil, &items[i].Insert[n]))
		}
	}
	return out
}

func fails(items []api.FailItem) []wire.FailItem {
	out := make([]wire.FailItem, len(items))
	for i, item := range items {
		out[i] = wire.FailItem{Token: []byte(item.Token), Error: []byte(item.Error), Fatal: item.Fatal}
		if item.RetryAfterMS != nil {
			out[i].HasRetryAfter, out[i].RetryAfterMS = true, *item.RetryAfterMS
		}
		if !item.RetryAt.IsZero() {
			out[i].RetryAt = item.RetryAt.UnixMilli()
		}
	}
	return out
}

func extends(items []api.ExtendItem) []wire.ExtendItem {
	out := make([]wire.ExtendItem, len(items))
	for i, item := range items {
		out[i] = wire.ExtendItem{Token: []byte(item.Token), TimeoutMS: item.TimeoutMS, Note: []byte(item.Note)}
		if item.Progress != nil {
			out[i].HasProgress, out[i].Progress = true, *item.Progress
		}
	}
	return out
}

func results(in []wire.Result) []api.Result {
	out := make([]api.Result, len(in))
	for i := range in {
		out[i] = resultOf(&in[i])
	}
	return out
}

func resultOf(in *wire.Result) api.Result {
	out := api.Result{Status: in.Status, Code: in.Code, Detail: in.Detail, Deadline: moment(in.Deadline)}
	for _, id := range in.Inserted {
		out.Inserted = append(out.Inserted, strconv.FormatUint(id, 10))
	}
	return out
}

func moment(ms int64) api.Time {
	if ms == 0 {
		return api.Time{}
	}
	return api.At(time.UnixMilli(ms))
}

// reserved makes the api form of an answer. Contents stay where they are: in the answer's bytes, which are not reused.
func reserved(in *wire.ReserveResponse) (*api.ReserveResponse, error) {
	out := &api.ReserveResponse{Reservations: make([]api.Reservation, len(in.Reservations))}
	var metas metaReader
	for i := range in.Reservations {
		r := &in.Reservations[i]
		meta, err := metas.read(r.Meta)
		if err != nil {
			return nil, err
		}
		content := api.Content{Bytes: r.Content}
		if r.IsKey {
			content = api.Content{Key: string(r.Content), IsKey: true}
		}
		out.Reservations[i] = api.Reservation{
			Token: string(r.Token), Submission: strconv.FormatUint(r.Submission, 10), Index: r.Index, Attempt: r.Attempt,
			Deadline: moment(r.Deadline), ReadyAt: moment(r.ReadyAt),
			Content: content, Meta: meta, Priority: r.Priority, Attachment: r.Attachment, Trace: r.Trace,
		}
	}
	if in.Reason != "" {
		out.Reason = &in.Reason
	}
	if in.HasRetryAfter {
		out.RetryAfterMS = &in.RetryAfterMS
	}
	for _, v := range in.Limited {
		out.Limited = append(out.Limited, api.Saturated(v))
	}
	for _, w := range in.Warnings {
		out.Warnings = append(out.Warnings, api.StrategyWarning(w))
	}
	return out, nil
}

// metaReader reads meta objects, once for equal ones: the chunks of one submission have the same, and others often. They share the map,
// which must not be written to.
type metaReader struct{ known map[string]api.Meta }

// knownMetas bounds what a reader remembers; over it everything is forgotten.
const (
	knownMetas     = 1000
	knownMetaBytes = 4096 // of one that is remembered
)

func (m *metaReader) read(raw []byte) (api.Meta, error) {
	if len(raw) == 0 {
		return api.Meta{}, nil
	}
	if meta, is := m.known[string(raw)]; is {
		return meta, nil
	}
	meta, err := wire.DecodeMeta(raw)
	if err != nil {
		return nil, fmt.Errorf("quern: the meta of a reservation is not what the server's interface says: %w", err)
	}
	if m.known == nil || len(m.known) == knownMetas {
		m.known = map[string]api.Meta{}
	}
	if len(raw) <= knownMetaBytes {
		m.known[string(raw)] = meta
	}
	return meta, nil
}

// Reservations returns the chunks that consumers of a queue hold and that match the filter. It ends after the first
// error.
func (c *Client) Reservations(ctx context.Context, queue string, f api.HeldFilter) iter.Seq2[api.HeldReservation, error] {
	query := given("submission", f.Submission, "consumer", f.Consumer, "limit", positive(f.Limit))
	addMeta(query, f.Meta)
	if f.Overdue {
		query.Set("overdue", "true")
	}
	if f.ByDeadline {
		query.Set("sort", "deadline")
	}
	return pages[api.HeldReservation](ctx, c, "reservations", queuePath(queue, "/reservations"), query)
}

// ReleaseChunk takes a chunk back from its consumer without counting an attempt, and returns the chunk and its
// consumer. actor names the caller on a server without access tokens. The audit log records it and the reason; both
// may be "". It makes one attempt. api.CodeConflict: no consumer holds the chunk.
func (c *Client) ReleaseChunk(ctx context.Context, submission string, index uint32, actor, reason string) (*api.HeldReservation, error) {
	path := submissionPath(submission, "/chunks/"+strconv.FormatUint(uint64(index), 10)+"/release")
	path = queried(path, given("actor", actor, "reason", reason))
	return fetch[api.HeldReservation](ctx, c, "release chunk", &request{method: http.MethodPost, path: path})
}

// ahead is how many chunks a worker reserves beyond those that its handlers work on: enough that no handler waits while a call is under
// way, and no more, because no one else can work on these chunks, and a crash delays them. The number depends on how quick handlers are
// and how far away the server is. The worker finds it as TCP finds its window: it begins with none, doubles the number when handlers ran
// out of work and had to wait, and lowers it by an eighth when more than half was left.
type ahead struct {
	n     int
	fixed bool // WorkOptions.Prefetch says how many
	most  int
}

const (
	mostAhead = 1000
	// With answers of this many bytes it is not the number of chunks in a call that makes it slow.
	largeAnswer = 1 << 20
)

func newAhead(o *WorkOptions) ahead {
	if o.Prefetch != 0 {
		return ahead{n: max(o.Prefetch, 0), fixed: true}
	}
	most := min(mostAhead, maxHeld-o.Concurrency)
	return ahead{most: most}
}

// room is how many there can ever be.
func (a *ahead) room() int { return max(a.n, a.most) }

// answered takes in that a call ended when `left` chunks were there that no handler had begun. full: it brought all that it asked for, so
// the server has more. waited: handlers spend a part of their time that counts on waiting for calls.
func (a *ahead) answered(left int, full bool, bytes int, waited bool) {
	switch {
	case a.fixed:
	case left == 0 && full && waited && bytes < largeAnswer:
		a.n = min(max(2*a.n, 1), a.most)
	case left > a.n/2:
		a.n -= max(a.n/8, 1)
	}
}
