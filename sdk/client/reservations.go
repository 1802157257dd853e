package client

import (
	"context"
	"iter"
	"net/http"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

// Reservations goes through the chunks that consumers of a queue hold and that the filter means. It ends after the first error.
func (c *Client) Reservations(ctx context.Context, queue string, f api.HeldFilter) iter.Seq2[api.HeldReservation, error] {
	query := given("submission", f.Submission, "consumer", f.Consumer, "limit", positive(f.Limit))
	addMeta(query, f.Meta)
	if f.Overdue {
		query.Set("overdue", "true")
	}
	if f.ByDeadline {
		query.Set("sort", "deadline")
	}
	return pages[api.HeldReservation](ctx, c, "reservations", queuePath(queue, "/reservations"), query)
}

// ReleaseChunk takes a chunk back from the consumer that holds it, with no try counted, and says what was held by whom. actor is who asks,
// where no access token says so; that and the reason are kept in the audit log, and both may be "". It is tried once. api.CodeConflict: no
// consumer holds the chunk.
func (c *Client) ReleaseChunk(ctx context.Context, submission string, index uint32, actor, reason string) (*api.HeldReservation, error) {
	path := submissionPath(submission, "/chunks/"+strconv.FormatUint(uint64(index), 10)+"/release")
	path = queried(path, given("actor", actor, "reason", reason))
	return fetch[api.HeldReservation](ctx, c, "release chunk", &request{method: http.MethodPost, path: path})
}
