package client

import (
	"context"
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
