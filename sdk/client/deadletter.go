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
