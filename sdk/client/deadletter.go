package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

// DeadLetters goes through a queue's dead letters that the filter means: those of the newest submission first, and of one
// submission by index. It ends after the first error.
func (c *Client) DeadLetters(ctx context.Context, queue string, f api.DeadFilter) iter.Seq2[api.DeadLetter, error] {
	return pages[api.DeadLetter](ctx, c, "dead letters", queuePath(queue, "/dead-letters"), deadQuery(f))
}

// DeadGroups groups them by the fingerprint of their errors.
func (c *Client) DeadGroups(ctx context.Context, queue string, f api.DeadFilter) (*api.DeadGroups, error) {
	return whole(ctx, c, "dead groups", queuePath(queue, "/dead-letters/groups"), deadQuery(f),
		func(page *api.DeadGroups) (*[]api.DeadGroup, *string) { return &page.Items, &page.Next })
}

// Retries goes through the chunks of a queue that failed and will be tried again: those of the newest submission first. errorKind
// is the fingerprint of their last error, "" for any. It ends after the first error.
func (c *Client) Retries(ctx context.Context, queue, errorKind string, meta api.Meta) iter.Seq2[api.Retry, error] {
	query := given("error", errorKind)
	addMeta(query, meta)
	return pages[api.Retry](ctx, c, "retries", queuePath(queue, "/retries"), query)
}

// RetryGroups groups them by the fingerprint of their errors, the largest group first.
func (c *Client) RetryGroups(ctx context.Context, queue string, meta api.Meta) (*api.RetryGroups, error) {
	query := url.Values{}
	addMeta(query, meta)
	return get[api.RetryGroups](ctx, c, "retry groups", queried(queuePath(queue, "/retries/groups"), query))
}

func deadQuery(f api.DeadFilter) url.Values {
	query := given("submission", f.Submission, "fingerprint", f.Fingerprint)
	for name, at := range map[string]api.Time{"died_before": f.DiedBefore, "died_after": f.DiedAfter} {
		if !at.IsZero() {
			query.Set(name, at.UTC().Format("2006-01-02T15:04:05.000Z"))
		}
	}
	addMeta(query, f.Meta)
	return query
}

// DeadLetter reads a dead letter with the history of its last tries. api.CodeUnknownDeadLetter: the chunk is not dead.
func (c *Client) DeadLetter(ctx context.Context, queue, submission string, index uint32) (*api.DeadLetter, error) {
	return get[api.DeadLetter](ctx, c, "dead letter", deadPath(queue, submission, index))
}

// Redrive offers a dead chunk again, with no try counted, and returns its submission. It is tried once: after a lost answer a
// second try would be answered that the chunk is not dead.
func (c *Client) Redrive(ctx context.Context, queue, submission string, index uint32) (*api.Submission, error) {
	return fetch[api.Submission](ctx, c, "redrive",
		&request{method: http.MethodPost, path: deadPath(queue, submission, index) + "/redrive"})
}

// SetDeadLetterContent gives a dead chunk another inline content, for when it is redriven or forwarded, and returns its submission.
// api.CodeConflict: its content is not inline.
func (c *Client) SetDeadLetterContent(ctx context.Context, queue, submission string, index uint32,
	content []byte) (*api.Submission, error) {
	q := &request{method: http.MethodPut, path: deadPath(queue, submission, index) + "/content", safe: true}
	return send[api.Submission](ctx, c, "set content", q, api.Bytes(content))
}

// DeleteDeadLetter gives a dead chunk up for good. It is tried once, as Redrive is.
func (c *Client) DeleteDeadLetter(ctx context.Context, queue, submission string, index uint32) error {
	return c.do(ctx, c.cold, "delete dead letter",
		&request{method: http.MethodDelete, path: deadPath(queue, submission, index)}, new(reply))
}

// ForwardDeadLetter has a dead chunk go on to another queue, and returns its submission here, where it counts as skipped. It is tried
// once, as Redrive is.
func (c *Client) ForwardDeadLetter(ctx context.Context, queue, submission string, index uint32, to string) (*api.Submission, error) {
	q := &request{method: http.MethodPost, path: deadPath(queue, submission, index) + "/forward"}
	return send[api.Submission](ctx, c, "forward dead letter", q, api.ForwardRequest{To: to})
}

func deadPath(queue, submission string, index uint32) string {
	return queuePath(queue, "/dead-letters/"+url.PathEscape(submission)+"/"+strconv.FormatUint(uint64(index), 10))
}

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
