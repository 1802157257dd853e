package client

import (
	"context"
	"net/url"

	"github.com/quern-queue/quern/sdk/api"
)

// Durations tells how long chunks of a queue waited and ran in the last half hour or, with meta, those of the submissions with this one
// value.
func (c *Client) Durations(ctx context.Context, queue string, meta api.Meta) (*api.Durations, error) {
	query := url.Values{}
	addMeta(query, meta)
	return get[api.Durations](ctx, c, "durations", queried(queuePath(queue, "/durations"), query))
}
