package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

// Condition makes a change depend on the present state of a named strategy or of a value's settings. If it does not
// hold, the server refuses the change with api.CodePrecondition. The zero value always holds.
type Condition struct {
	ETag   string // must be that of the newest version (api.NamedStrategy.ETag, api.ValueCount.ETag); "*": there must be one
	Absent bool   // there must be none
}

func (c Condition) none() bool { return c == Condition{} }

func (c Condition) onto(q *request) *request {
	q.ifMatch = c.ETag
	if c.Absent {
		q.ifNoneMatch = "*"
	}
	return q
}

// Strategies returns the queue's named strategies by name.
func (c *Client) Strategies(ctx context.Context, queue string) iter.Seq2[api.NamedStrategy, error] {
	return pages[api.NamedStrategy](ctx, c, "strategies", queuePath(queue, "/strategies"), nil)
}

// Strategy reads a version of a named strategy; 0 is the newest.
func (c *Client) Strategy(ctx context.Context, queue, name string, version uint32) (*api.NamedStrategy, error) {
	path := strategyPath(queue, name)
	if version > 0 {
		path += "?version=" + strconv.FormatUint(uint64(version), 10)
	}
	return get[api.NamedStrategy](ctx, c, "strategy", path)
}

// PutStrategy stores a strategy under a name, or changes it. The strategy is in text form, or a JSON tree if it
// begins with '{'. With a condition it makes one attempt: if the answer were lost, a second attempt would meet its
// own change.
func (c *Client) PutStrategy(ctx context.Context, queue, name, strategy string, when Condition) (*api.NamedStrategy, error) {
	value, err := strategyJSON(strategy)
	if err != nil {
		return nil, err
	}
	q := &request{method: http.MethodPut, path: strategyPath(queue, name), safe: when.none()}
	return send[api.NamedStrategy](ctx, c, "put strategy", when.onto(q), api.StrategyRequest{Strategy: value})
}

// DeleteStrategy deletes a named strategy with all its versions. Like DeleteQueue, it makes one attempt.
func (c *Client) DeleteStrategy(ctx context.Context, queue, name string, when Condition) error {
	q := &request{method: http.MethodDelete, path: strategyPath(queue, name)}
	return c.do(ctx, c.cold, "delete strategy", when.onto(q), new(reply))
}

// ValidateStrategy returns the canonical forms of a strategy, its branches, and its parts without effect. The
// strategy is as in PutStrategy, or {"name":"..."} for a stored one.
func (c *Client) ValidateStrategy(ctx context.Context, queue, strategy string) (*api.ValidStrategy, error) {
	value, err := strategyJSON(strategy)
	if err != nil {
		return nil, err
	}
	path := queuePath(queue, "/strategies/validate")
	return ask[api.ValidStrategy](ctx, c, "validate strategy", path, api.StrategyRequest{Strategy: value})
}

// StrategiesInUse returns the strategies of reserves in the last hour, those that handed out the most chunks first.
func (c *Client) StrategiesInUse(ctx context.Context, queue string) (*api.StrategiesInUse, error) {
	return whole(ctx, c, "strategies in use", queuePath(queue, "/strategies/in-use"), nil,
		func(page *api.StrategiesInUse) (*[]api.StrategyUse, *string) { return &page.Items, &page.Next })
}

func strategyPath(queue, name string) string {
	return queuePath(queue, "/strategies/"+url.PathEscape(name))
}

// Preview returns the chunks that a reserve would hand out now. It reserves and changes nothing.
func (c *Client) Preview(ctx context.Context, queue string, r *api.PreviewRequest) (*api.PreviewResponse, error) {
	return ask[api.PreviewResponse](ctx, c, "preview", queuePath(queue, "/strategies/preview"), r)
}

// Explain shows the chunks that reach each block of a strategy, those that its limits hold back, and those that it
// would hand out, with their paths.
func (c *Client) Explain(ctx context.Context, queue string, r *api.PreviewRequest) (*api.ExplainResponse, error) {
	return ask[api.ExplainResponse](ctx, c, "explain", queuePath(queue, "/strategies/explain"), r)
}

// Compare compares the chunks that two strategies would hand out now.
func (c *Client) Compare(ctx context.Context, queue string, r *api.CompareRequest) (*api.CompareResponse, error) {
	return ask[api.CompareResponse](ctx, c, "compare", queuePath(queue, "/strategies/compare"), r)
}

// Why explains why a strategy does not hand out a chunk now: the first obstacle in each branch, and the chunk's
// approximate place.
func (c *Client) Why(ctx context.Context, id string, index uint32, r *api.WhyRequest) (*api.WhyResponse, error) {
	return ask[api.WhyResponse](ctx, c, "why", submissionPath(id, "/chunks/"+strconv.FormatUint(uint64(index), 10)+"/why"), r)
}

// DiagnoseValue explains why the chunks of a value of a meta key move or do not move. It is no error if no open
// submission has the value. With an empty key, the answer is about the whole queue: why its chunks wait, and when
// they are done.
func (c *Client) DiagnoseValue(ctx context.Context, queue, key string, value api.MetaValue) (*api.Diagnosis, error) {
	if key == "" {
		return get[api.Diagnosis](ctx, c, "diagnose queue", queuePath(queue, "/diagnosis"))
	}
	return get[api.Diagnosis](ctx, c, "diagnose value", valuePath(queue, key, value)+"/diagnosis")
}

// DiagnoseSubmission explains why the chunks of a submission move or do not move.
func (c *Client) DiagnoseSubmission(ctx context.Context, id string) (*api.Diagnosis, error) {
	return get[api.Diagnosis](ctx, c, "diagnose submission", submissionPath(id, "/diagnosis"))
}

// Ledgers returns the Fair blocks of a queue that are in use.
func (c *Client) Ledgers(ctx context.Context, queue string) iter.Seq2[api.Ledger, error] {
	return pages[api.Ledger](ctx, c, "ledgers", queuePath(queue, "/ledgers"), nil)
}

// LedgerTenants reads the shares of at most limit (1 to 1000) tenants of a ledger. sort is received, behind or ahead.
func (c *Client) LedgerTenants(ctx context.Context, queue, ledger, sort string, limit int) (*api.LedgerTenants, error) {
	query := url.Values{"sort": {sort}, "limit": {strconv.Itoa(limit)}}
	return get[api.LedgerTenants](ctx, c, "ledger", queried(queuePath(queue, "/ledgers/"+url.PathEscape(ledger)), query))
}

// Views returns the indexes of a queue's strategies, with the memory that they take.
func (c *Client) Views(ctx context.Context, queue string) (*api.Views, error) {
	return whole(ctx, c, "views", queuePath(queue, "/views"), nil,
		func(page *api.Views) (*[]api.View, *string) { return &page.Items, &page.Next })
}

// ChunkMap counts the chunks of a submission by state, in at most this many cells (1 to 1000) of equal size. The
// range begins at from and ends before to (0: after the last chunk).
func (c *Client) ChunkMap(ctx context.Context, submission string, from, to uint32, cells int) (*api.ChunkMap, error) {
	query := given("cells", strconv.Itoa(cells), "from", positive(from), "to", positive(to))
	return get[api.ChunkMap](ctx, c, "chunk map", queried(submissionPath(submission, "/map"), query))
}
