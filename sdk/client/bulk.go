package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"

	"github.com/quern-queue/quern/sdk/api"
)

// StartBulk starts to do something with all that a filter means, in the background. It is tried once: after a lost answer, Bulks says
// whether it was started.
func (c *Client) StartBulk(ctx context.Context, r *api.BulkRequest) (*api.BulkOperation, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("quern: start bulk operation: %w", err)
	}
	q := &request{method: http.MethodPost, path: "/v1/bulk-operations", media: mediaJSON, buffer: append(make([]byte, gap), body...)}
	return fetch[api.BulkOperation](ctx, c, "start bulk operation", q)
}

// Bulks lists the bulk operations of a queue ("": of all) that run, and the last 100 of each queue that have ended, newest first.
func (c *Client) Bulks(ctx context.Context, queue string) iter.Seq2[api.BulkOperation, error] {
	query := url.Values{}
	if queue != "" {
		query.Set("queue", queue)
	}
	return pages[api.BulkOperation](ctx, c, "bulk operations", "/v1/bulk-operations", query)
}

// Bulk reads how far a bulk operation got.
func (c *Client) Bulk(ctx context.Context, id string) (*api.BulkOperation, error) {
	return fetch[api.BulkOperation](ctx, c, "bulk operation",
		&request{method: http.MethodGet, path: "/v1/bulk-operations/" + url.PathEscape(id), safe: true})
}

// CancelBulk stops a bulk operation; what it did stays done, and BulkOperation.CancelledBy says who asked for it, at most 128 bytes.
func (c *Client) CancelBulk(ctx context.Context, id, actor string) (*api.BulkOperation, error) {
	path := "/v1/bulk-operations/" + url.PathEscape(id) + "/cancel"
	if actor != "" {
		path += "?" + url.Values{"actor": {actor}}.Encode()
	}
	return fetch[api.BulkOperation](ctx, c, "cancel bulk operation", &request{method: http.MethodPost, path: path, safe: true})
}
