package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

// Condition makes a change of a named strategy, or of what is set for a value, depend on what is there; when it does not hold
// the change is refused with api.CodePrecondition. The zero value always holds.
type Condition struct {
	ETag   string // the newest version must have it (api.NamedStrategy.ETag, api.ValueCount.ETag); "*": there must be one
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

// Strategies goes through the queue's named strategies by name.
func (c *Client) Strategies(ctx context.Context, queue string) iter.Seq2[api.NamedStrategy, error] {
	return pages[api.NamedStrategy](ctx, c, "strategies", queuePath(queue, "/strategies"), nil)
}

// Strategy reads a named strategy: a version of it, or as it stands for version 0.
func (c *Client) Strategy(ctx context.Context, queue, name string, version uint32) (*api.NamedStrategy, error) {
	path := strategyPath(queue, name)
	if version > 0 {
		path += "?version=" + strconv.FormatUint(uint64(version), 10)
	}
	return get[api.NamedStrategy](ctx, c, "strategy", path)
}

// PutStrategy names a strategy, or changes the one behind the name. The strategy is in text form, or a JSON tree when it begins
// with '{'. With a condition it is tried once: after a lost answer a second try would meet its own change.
func (c *Client) PutStrategy(ctx context.Context, queue, name, strategy string, when Condition) (*api.NamedStrategy, error) {
	value, err := strategyJSON(strategy)
	if err != nil {
		return nil, err
	}
	q := &request{method: http.MethodPut, path: strategyPath(queue, name), safe: when.none()}
	return send[api.NamedStrategy](ctx, c, "put strategy", when.onto(q), api.StrategyRequest{Strategy: value})
}

// DeleteStrategy deletes a named strategy with all its versions. It is tried once, as DeleteQueue is.
func (c *Client) DeleteStrategy(ctx context.Context, queue, name string, when Condition) error {
	q := &request{method: http.MethodDelete, path: strategyPath(queue, name)}
	return c.do(ctx, c.cold, "delete strategy", when.onto(q), new(reply))
}

// ValidateStrategy says what a strategy means to the queue: canonical forms, branches, and what in it has no effect. The
// strategy is as for PutStrategy, or {"name":"..."} for one that the queue has.
func (c *Client) ValidateStrategy(ctx context.Context, queue, strategy string) (*api.ValidStrategy, error) {
	value, err := strategyJSON(strategy)
	if err != nil {
		return nil, err
	}
	path := queuePath(queue, "/strategies/validate")
	return ask[api.ValidStrategy](ctx, c, "validate strategy", path, api.StrategyRequest{Strategy: value})
}

// StrategiesInUse lists the strategies that consumers reserved by in the last hour, those that handed out most chunks first.
func (c *Client) StrategiesInUse(ctx context.Context, queue string) (*api.StrategiesInUse, error) {
	return whole(ctx, c, "strategies in use", queuePath(queue, "/strategies/in-use"), nil,
		func(page *api.StrategiesInUse) (*[]api.StrategyUse, *string) { return &page.Items, &page.Next })
}

func strategyPath(queue, name string) string {
	return queuePath(queue, "/strategies/"+url.PathEscape(name))
}

// Preview tells what a reserve would hand out now. Nothing is reserved and nothing changes.
func (c *Client) Preview(ctx context.Context, queue string, r *api.PreviewRequest) (*api.PreviewResponse, error) {
	return ask[api.PreviewResponse](ctx, c, "preview", queuePath(queue, "/strategies/preview"), r)
}

// Explain tells how a strategy stands: what reaches each of its blocks, what its limits hold back, and what it would hand out
// by which way.
func (c *Client) Explain(ctx context.Context, queue string, r *api.PreviewRequest) (*api.ExplainResponse, error) {
	return ask[api.ExplainResponse](ctx, c, "explain", queuePath(queue, "/strategies/explain"), r)
}

// Compare tells how what two strategies would hand out now differs.
func (c *Client) Compare(ctx context.Context, queue string, r *api.CompareRequest) (*api.CompareResponse, error) {
	return ask[api.CompareResponse](ctx, c, "compare", queuePath(queue, "/strategies/compare"), r)
}

// Why tells what keeps a strategy from handing out a chunk now: the first obstacle in each of its branches, and about where
// the chunk stands.
func (c *Client) Why(ctx context.Context, id string, index uint32, r *api.WhyRequest) (*api.WhyResponse, error) {
	return ask[api.WhyResponse](ctx, c, "why", submissionPath(id, "/chunks/"+strconv.FormatUint(uint64(index), 10)+"/why"), r)
}

// DiagnoseValue tells why the chunks of a value of a meta key move or do not. That no open submission has the value is no error. With an
// empty key it is about the whole queue: what its chunks wait for, and when they are done.
func (c *Client) DiagnoseValue(ctx context.Context, queue, key string, value api.MetaValue) (*api.Diagnosis, error) {
	if key == "" {
		return get[api.Diagnosis](ctx, c, "diagnose queue", queuePath(queue, "/diagnosis"))
	}
	return get[api.Diagnosis](ctx, c, "diagnose value", valuePath(queue, key, value)+"/diagnosis")
}

// DiagnoseSubmission tells why the chunks of a submission move or do not.
func (c *Client) DiagnoseSubmission(ctx context.Context, id string) (*api.Diagnosis, error) {
	return get[api.Diagnosis](ctx, c, "diagnose submission", submissionPath(id, "/diagnosis"))
}

// Ledgers lists the Fair blocks of a queue that are in use.
func (c *Client) Ledgers(ctx context.Context, queue string) iter.Seq2[api.Ledger, error] {
	return pages[api.Ledger](ctx, c, "ledgers", queuePath(queue, "/ledgers"), nil)
}

// LedgerTenants tells how the tenants of a ledger stand: at most limit (1 to 1000), in the order of sort, which is received, behind or
// ahead.
func (c *Client) LedgerTenants(ctx context.Context, queue, ledger, sort string, limit int) (*api.LedgerTenants, error) {
	query := url.Values{"sort": {sort}, "limit": {strconv.Itoa(limit)}}
	return get[api.LedgerTenants](ctx, c, "ledger", queried(queuePath(queue, "/ledgers/"+url.PathEscape(ledger)), query))
}

// Views lists the indexes that the strategies of a queue stand on, with the memory that they take.
func (c *Client) Views(ctx context.Context, queue string) (*api.Views, error) {
	return whole(ctx, c, "views", queuePath(queue, "/views"), nil,
		func(page *api.Views) (*[]api.View, *string) { return &page.Items, &page.Next })
}

// ChunkMap tells where the chunks of a submission stand, from one up to another (not included; 0: the end), in at
// most this many cells (1 to 1000).
func (c *Client) ChunkMap(ctx context.Context, submission string, from, to uint32, cells int) (*api.ChunkMap, error) {
	query := given("cells", strconv.Itoa(cells), "from", positive(from), "to", positive(to))
	return get[api.ChunkMap](ctx, c, "chunk map", queried(submissionPath(submission, "/map"), query))
}
