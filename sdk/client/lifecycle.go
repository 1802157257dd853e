package client

import (
	"context"
	"net/http"

	"github.com/quern-queue/quern/sdk/api"
)

// Lifecycle tells how the life-cycle worker of a queue is doing.
func (c *Client) Lifecycle(ctx context.Context, queue string) (*api.Lifecycle, error) {
	return get[api.Lifecycle](ctx, c, "lifecycle", queuePath(queue, "/lifecycle"))
}

// RetryParked has all parked life-cycle actions of a queue tried again, and says how many there were.
func (c *Client) RetryParked(ctx context.Context, queue string) (int, error) {
	got, err := fetch[api.Retried](ctx, c, "retry parked",
		&request{method: http.MethodPost, path: queuePath(queue, "/lifecycle/retry"), safe: true})
	if err != nil {
		return 0, err
	}
	return got.Retried, nil
}
