package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

// DeadLetters returns a queue's dead letters that match the filter. Those of the newest submission come first, and
// those of one submission by index. It ends after the first error.
func (c *Client) DeadLetters(ctx context.Context, queue string, f api.DeadFilter) iter.Seq2[api.DeadLetter, error] {
	return pages[api.DeadLetter](ctx, c, "dead letters", queuePath(queue, "/dead-letters"), deadQuery(f))
}

// DeadGroups groups dead letters by the fingerprint of their errors.
func (c *Client) DeadGroups(ctx context.Context, queue string, f api.DeadFilter) (*api.DeadGroups, error) {
	return whole(ctx, c, "dead groups", queuePath(queue, "/dead-letters/groups"), deadQuery(f),
		func(page *api.DeadGroups) (*[]api.DeadGroup, *string) { return &page.Items, &page.Next })
}

// Retries returns the chunks of a queue that failed and wait for a retry, those of the newest submission first.
// errorKind is the fingerprint of their last error; "": any. It ends after the first error.
func (c *Client) Retries(ctx context.Context, queue, errorKind string, meta api.Meta) iter.Seq2[api.Retry, error] {
	query := given("error", errorKind)
	addMeta(query, meta)
	return pages[api.Retry](ctx, c, "retries", queuePath(queue, "/retries"), query)
}

// RetryGroups groups chunks that wait for a retry by the fingerprint of their errors, the largest group first.
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

// DeadLetter reads a dead letter with the history of its last attempts. api.CodeUnknownDeadLetter: the chunk is not
// dead.
func (c *Client) DeadLetter(ctx context.Context, queue, submission string, index uint32) (*api.DeadLetter, error) {
	return get[api.DeadLetter](ctx, c, "dead letter", deadPath(queue, submission, index))
}

// Redrive offers a dead chunk again with no attempts counted, and returns its submission. It makes one attempt: if
// the answer were lost, a second attempt would report that the chunk is not dead.
func (c *Client) Redrive(ctx context.Context, queue, submission string, index uint32) (*api.Submission, error) {
	return fetch[api.Submission](ctx, c, "redrive",
		&request{method: http.MethodPost, path: deadPath(queue, submission, index) + "/redrive"})
}

// SetDeadLetterContent replaces the inline content of a dead chunk, before you redrive or forward it. It returns the
// chunk's submission. api.CodeConflict: the content is not inline.
func (c *Client) SetDeadLetterContent(ctx context.Context, queue, submission string, index uint32,
	content []byte) (*api.Submission, error) {
	q := &request{method: http.MethodPut, path: deadPath(queue, submission, index) + "/content", safe: true}
	return send[api.Submission](ctx, c, "set content", q, api.Bytes(content))
}

// DeleteDeadLetter skips a dead chunk for good. Like Redrive, it makes one attempt.
func (c *Client) DeleteDeadLetter(ctx context.Context, queue, submission string, index uint32) error {
	return c.do(ctx, c.cold, "delete dead letter",
		&request{method: http.MethodDelete, path: deadPath(queue, submission, index)}, new(reply))
}

// ForwardDeadLetter forwards a dead chunk to another queue. It returns the original submission, in which the chunk
// counts as skipped. Like Redrive, it makes one attempt.
func (c *Client) ForwardDeadLetter(ctx context.Context, queue, submission string, index uint32, to string) (*api.Submission, error) {
	q := &request{method: http.MethodPost, path: deadPath(queue, submission, index) + "/forward"}
	return send[api.Submission](ctx, c, "forward dead letter", q, api.ForwardRequest{To: to})
}

func deadPath(queue, submission string, index uint32) string {
	return queuePath(queue, "/dead-letters/"+url.PathEscape(submission)+"/"+strconv.FormatUint(uint64(index), 10))
}

const bulkPath = "/v1/bulk-operations"

// StartBulk applies an action to everything that matches a filter, in the background. It makes one attempt: after a
// lost answer, Bulks says whether the operation has started.
func (c *Client) StartBulk(ctx context.Context, r *api.BulkRequest) (*api.BulkOperation, error) {
	return send[api.BulkOperation](ctx, c, "start bulk operation", &request{method: http.MethodPost, path: bulkPath}, r)
}

// Bulks returns the running bulk operations of a queue ("": of all queues), and the last 100 ended ones of each
// queue, the newest first.
func (c *Client) Bulks(ctx context.Context, queue string) iter.Seq2[api.BulkOperation, error] {
	return pages[api.BulkOperation](ctx, c, "bulk operations", bulkPath, given("queue", queue))
}

// Bulk reads the progress of a bulk operation.
func (c *Client) Bulk(ctx context.Context, id string) (*api.BulkOperation, error) {
	return get[api.BulkOperation](ctx, c, "bulk operation", bulkPath+"/"+url.PathEscape(id))
}

// CancelBulk stops a bulk operation. Finished work stays done. BulkOperation.CancelledBy records actor, at most 128
// bytes.
func (c *Client) CancelBulk(ctx context.Context, id, actor string) (*api.BulkOperation, error) {
	path := queried(bulkPath+"/"+url.PathEscape(id)+"/cancel", given("actor", actor))
	return fetch[api.BulkOperation](ctx, c, "cancel bulk operation", &request{method: http.MethodPost, path: path, safe: true})
}

// Rules returns a queue's rules, the oldest first.
func (c *Client) Rules(ctx context.Context, queue string) iter.Seq2[api.Rule, error] {
	return pages[api.Rule](ctx, c, "rules", queuePath(queue, "/rules"), nil)
}

// PastRules returns the last 1,000 rules of a queue that ended, the latest first.
func (c *Client) PastRules(ctx context.Context, queue string) iter.Seq2[api.Rule, error] {
	return pages[api.Rule](ctx, c, "past rules", queuePath(queue, "/rules"), url.Values{"state": {"ended"}})
}

// Rule reads an active rule. api.CodeUnknownRule: there is no rule with this id, or it has ended.
func (c *Client) Rule(ctx context.Context, queue, id string) (*api.Rule, error) {
	return get[api.Rule](ctx, c, "rule", rulePath(queue, id))
}

// SetRule sets a pause or a block. There is one for each action and match. Setting the same rule again changes
// nothing; another reason, end or effect changes it.
func (c *Client) SetRule(ctx context.Context, queue string, r *api.RuleRequest) (*api.Rule, error) {
	return ask[api.Rule](ctx, c, "set rule", queuePath(queue, "/rules"), r)
}

// LiftRule ends a rule. actor names the caller, and may be empty. It is no error if the rule has ended already.
func (c *Client) LiftRule(ctx context.Context, queue, id, actor string) error {
	path := queried(rulePath(queue, id), given("actor", actor))
	return c.do(ctx, c.cold, "lift rule", &request{method: http.MethodDelete, path: path, safe: true}, new(reply))
}

func rulePath(queue, id string) string { return queuePath(queue, "/rules/"+url.PathEscape(id)) }

const initialRulesPath = "/v1/initial-rules"

// InitialRules returns the rules that each new queue begins with, the oldest first.
func InitialRules(ctx context.Context, c *Client) iter.Seq2[api.Rule, error] {
	return pages[api.Rule](ctx, c, "initial rules", initialRulesPath, nil)
}

// InitialRule reads a rule that each new queue begins with.
func InitialRule(ctx context.Context, c *Client, id string) (*api.Rule, error) {
	return get[api.Rule](ctx, c, "initial rule", initialRulesPath+"/"+url.PathEscape(id))
}

// SetInitialRule has each queue that is created from now on begin with a pause or a block. Existing queues stay as they
// are. A second one with the same action and match replaces the first.
func SetInitialRule(ctx context.Context, c *Client, r *api.RuleRequest) (*api.Rule, error) {
	return ask[api.Rule](ctx, c, "set initial rule", initialRulesPath, r)
}

// LiftInitialRule has queues that are created from now on begin without a rule. Queues that began with it keep it.
// Lifting it again is no error.
func LiftInitialRule(ctx context.Context, c *Client, id, actor string) error {
	path := queried(initialRulesPath+"/"+url.PathEscape(id), given("actor", actor))
	return c.do(ctx, c.cold, "lift initial rule", &request{method: http.MethodDelete, path: path, safe: true}, new(reply))
}
