package client

import (
	"context"

	"github.com/quern-queue/quern/sdk/api"
)

// DiagnoseValue tells why the chunks of a value of a meta key move or do not. That no open submission has the value is no error. With an
// empty key it is about the whole queue: what its chunks wait for, and when they are done.
func (c *Client) DiagnoseValue(ctx context.Context, queue, key string, value api.MetaValue) (*api.Diagnosis, error) {
	if key == "" {
		return get[api.Diagnosis](ctx, c, "diagnose queue", queuePath(queue, "/diagnosis"))
	}
	return get[api.Diagnosis](ctx, c, "diagnose value", valuePath(queue, key, value)+"/diagnosis")
}

// DiagnoseSubmission tells why the chunks of a submission move or do not.
func (c *Client) DiagnoseSubmission(ctx context.Context, id string) (*api.Diagnosis, error) {
	return get[api.Diagnosis](ctx, c, "diagnose submission", submissionPath(id, "/diagnosis"))
}
