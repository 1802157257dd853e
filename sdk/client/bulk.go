package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/quern-queue/quern/sdk/api"
)

const bulkPath = "/v1/bulk-operations"

// StartBulk starts to do something with all that a filter means, in the background. It is tried once: after a lost answer, Bulks says
// whether it was started.
func (c *Client) StartBulk(ctx context.Context, r *api.BulkRequest) (*api.BulkOperation, error) {
	return send[api.BulkOperation](ctx, c, "start bulk operation", &request{method: http.MethodPost, path: bulkPath}, r)
}

// Bulks lists the bulk operations of a queue ("": of all) that run, and the last 100 of each queue that have ended, newest first.
func (c *Client) Bulks(ctx context.Context, queue string) iter.Seq2[api.BulkOperation, error] {
	return pages[api.BulkOperation](ctx, c, "bulk operations", bulkPath, given("queue", queue))
}

// Bulk reads how far a bulk operation got.
func (c *Client) Bulk(ctx context.Context, id string) (*api.BulkOperation, error) {
	return get[api.BulkOperation](ctx, c, "bulk operation", bulkPath+"/"+url.PathEscape(id))
}

// CancelBulk stops a bulk operation; what it did stays done, and BulkOperation.CancelledBy says who asked for it, at most 128 bytes.
func (c *Client) CancelBulk(ctx context.Context, id, actor string) (*api.BulkOperation, error) {
	path := queried(bulkPath+"/"+url.PathEscape(id)+"/cancel", given("actor", actor))
	return fetch[api.BulkOperation](ctx, c, "cancel bulk operation", &request{method: http.MethodPost, path: path, safe: true})
}
