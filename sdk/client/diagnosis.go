package client

import (
	"context"
	"net/http"

	"github.com/quern-queue/quern/sdk/api"
)

// DiagnoseValue tells why the chunks of a value of a meta key move or do not. That no open submission has the value is no error.
func (c *Client) DiagnoseValue(ctx context.Context, queue, key string, value api.MetaValue) (*api.Diagnosis, error) {
	q := &request{method: http.MethodGet, path: valuePath(queue, key, value) + "/diagnosis", safe: true}
	return fetch[api.Diagnosis](ctx, c, "diagnose value", q)
}

// DiagnoseSubmission tells why the chunks of a submission move or do not.
func (c *Client) DiagnoseSubmission(ctx context.Context, id string) (*api.Diagnosis, error) {
	q := &request{method: http.MethodGet, path: submissionPath(id, "/diagnosis"), safe: true}
	return fetch[api.Diagnosis](ctx, c, "diagnose submission", q)
}
