package client

import (
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
	q := &request{method: http.MethodPost, path: queuePath(queue, "/submissions:batch"), media: mediaJSON, safe: true,
		buffer: wire.AppendInsertMany(make([]byte, gap), atomic, list)}
	answer, err := fetch[api.InsertManyResponse](ctx, c, "insert many", q)
	if err != nil {
		return nil, err
	}
	if len(answer.Results) != len(list) {
		return nil, fmt.Errorf("quern: insert many: the answer has %d results for %d submissions", len(answer.Results), len(list))
	}
	return answer.Results, nil
}
