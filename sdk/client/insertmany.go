package client

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// InsertMany inserts up to 10,000 submissions in one call, and the server makes them durable in one commit. There is one result for each,
// in their order: those that are invalid or refused keep no other from being inserted, unless atomic is true: then none is. Submissions
// without an IdempotencyKey get one, so that the call can be repeated when its answer is lost, and inserts each once.
func (c *Client) InsertMany(ctx context.Context, queue string, list []api.BatchSubmission, atomic bool) ([]api.InsertResult, error) {
	key, err := c.random.key()
	if err != nil {
		return nil, err
	}
	list = slices.Clone(list)
	for i := range list {
		if list[i].IdempotencyKey == "" {
			list[i].IdempotencyKey = key + "-" + strconv.Itoa(i)
		}
	}
	return sendMany(ctx, c, queue, mediaJSON, wire.AppendInsertMany(make([]byte, gap), atomic, list), len(list))
}

// InsertLines is InsertMany of submissions that are JSON already: each is sent as it is, so that the server checks what was written and
// not what this package understood of it. Each is one JSON object on one line and has an "idempotency_key" of its own: the call is
// repeated when its answer is lost, and a submission without one would then be inserted twice.
func (c *Client) InsertLines(ctx context.Context, queue string, lines [][]byte, atomic bool) ([]api.InsertResult, error) {
	if !atomic { // as lines one that is broken is no harm to the others
		body := append(make([]byte, gap), bytes.Join(lines, []byte{'\n'})...)
		return sendMany(ctx, c, queue, mediaLines, body, len(lines))
	}
	body := append(make([]byte, gap), `{"atomic":true,"submissions":[`...)
	body = append(body, bytes.Join(lines, []byte{','})...)
	return sendMany(ctx, c, queue, mediaJSON, append(body, "]}"...), len(lines))
}

// sendMany sends the body of an insert of n submissions.
func sendMany(ctx context.Context, c *Client, queue, media string, body []byte, n int) ([]api.InsertResult, error) {
	q := &request{method: http.MethodPost, path: queuePath(queue, "/submissions:batch"), media: media, safe: true, buffer: body}
	answer, err := fetch[api.InsertManyResponse](ctx, c, "insert many", q)
	if err != nil {
		return nil, err
	}
	if len(answer.Results) != n {
		return nil, fmt.Errorf("quern: insert many: the answer has %d results for %d submissions", len(answer.Results), n)
	}
	return answer.Results, nil
}
