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

// Rules goes through a queue's rules, the oldest first.
func (c *Client) Rules(ctx context.Context, queue string) iter.Seq2[api.Rule, error] {
	return pages[api.Rule](ctx, c, "rules", queuePath(queue, "/rules"), nil)
}

// PastRules goes through the last 1,000 rules of a queue that were lifted or are over, the one that ended last first.
func (c *Client) PastRules(ctx context.Context, queue string) iter.Seq2[api.Rule, error] {
	return pages[api.Rule](ctx, c, "past rules", queuePath(queue, "/rules"), url.Values{"state": {"ended"}})
}

// Rule reads a rule. api.CodeUnknownRule: there is none of this id, or it has ended.
func (c *Client) Rule(ctx context.Context, queue, id string) (*api.Rule, error) {
	return get[api.Rule](ctx, c, "rule", rulePath(queue, id))
}

// SetRule sets a pause or a block. There is one for each action and match: asking for the same again changes nothing, asking for another
// reason, end or effect changes it.
func (c *Client) SetRule(ctx context.Context, queue string, r *api.RuleRequest) (*api.Rule, error) {
	return ask[api.Rule](ctx, c, "set rule", queuePath(queue, "/rules"), r)
}

// LiftRule ends a rule; actor says who asks, and may be empty. To lift one that has ended is no error.
func (c *Client) LiftRule(ctx context.Context, queue, id, actor string) error {
	path := queried(rulePath(queue, id), given("actor", actor))
	return c.do(ctx, c.cold, "lift rule", &request{method: http.MethodDelete, path: path, safe: true}, new(reply))
}

func rulePath(queue, id string) string { return queuePath(queue, "/rules/"+url.PathEscape(id)) }
