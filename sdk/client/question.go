package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

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

// ChunkMap tells where the chunks of a submission stand, from one up to another (not included; 0: as far as one answer goes), in at
// most so many cells (1 to 1000).
func (c *Client) ChunkMap(ctx context.Context, submission string, from, to uint32, cells int) (*api.ChunkMap, error) {
	query := given("cells", strconv.Itoa(cells), "from", positive(from), "to", positive(to))
	return get[api.ChunkMap](ctx, c, "chunk map", queried(submissionPath(submission, "/map"), query))
}
