package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"

	"github.com/quern-queue/quern/sdk/api"
)

// Queues goes through all queues by name.
func (c *Client) Queues(ctx context.Context) iter.Seq2[api.Queue, error] {
	return pages[api.Queue](ctx, c, "queues", "/v1/queues", url.Values{})
}

// Queue reads a queue with its settings.
func (c *Client) Queue(ctx context.Context, name string) (*api.Queue, error) {
	return fetch[api.Queue](ctx, c, "queue", &request{method: http.MethodGet, path: queuePath(name, ""), safe: true})
}

// PutQueue makes the queue or replaces all its settings; what is nil gets its default.
func (c *Client) PutQueue(ctx context.Context, name string, settings api.QueueSettingsInput) (*api.Queue, error) {
	body, err := json.Marshal(api.PutQueueRequest{Settings: settings})
	if err != nil {
		return nil, fmt.Errorf("quern: put queue: %w", err)
	}
	return fetch[api.Queue](ctx, c, "put queue", &request{method: http.MethodPut, path: queuePath(name, ""),
		media: mediaJSON, buffer: append(make([]byte, gap), body...), safe: true})
}

// ChangeQueue changes some settings of a queue; what is nil stays as it is.
func (c *Client) ChangeQueue(ctx context.Context, name string, settings api.QueueSettingsInput) (*api.Queue, error) {
	body, err := json.Marshal(api.ChangeQueueRequest{Settings: settings})
	if err != nil {
		return nil, fmt.Errorf("quern: change queue: %w", err)
	}
	return fetch[api.Queue](ctx, c, "change queue", &request{method: http.MethodPatch, path: queuePath(name, ""),
		media: mediaJSON, buffer: append(make([]byte, gap), body...), safe: true})
}

// DeleteOption says which queue DeleteQueue deletes.
type DeleteOption string

// Quarantined has DeleteQueue delete a queue that is in quarantine, with all that is in it.
const Quarantined DeleteOption = "?quarantined=true"

// DeleteQueue deletes a queue without open submissions. It is tried once: after a lost answer a second try would be answered
// that there is no such queue.
func (c *Client) DeleteQueue(ctx context.Context, name string, options ...DeleteOption) error {
	path := queuePath(name, "")
	for _, option := range options {
		path += string(option)
	}
	return c.do(ctx, c.cold, "delete queue", &request{method: http.MethodDelete, path: path}, new(reply))
}

// Stats reads a queue's numbers.
func (c *Client) Stats(ctx context.Context, queue string) (*api.Stats, error) {
	return fetch[api.Stats](ctx, c, "stats", &request{method: http.MethodGet, path: queuePath(queue, "/stats"), safe: true})
}

// ServerOptions reads the options that the server runs with.
func (c *Client) ServerOptions(ctx context.Context) ([]api.ServerOption, error) {
	got, err := fetch[api.ServerOptions](ctx, c, "config", &request{method: http.MethodGet, path: "/v1/config", safe: true})
	if err != nil {
		return nil, err
	}
	return got.Options, nil
}

// Version reads the server's version.
func (c *Client) Version(ctx context.Context) (*api.Version, error) {
	return fetch[api.Version](ctx, c, "version", &request{method: http.MethodGet, path: "/version", safe: true})
}
