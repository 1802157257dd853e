package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// Queues returns all queues by name.
func (c *Client) Queues(ctx context.Context) iter.Seq2[api.Queue, error] {
	return pages[api.Queue](ctx, c, "queues", "/v1/queues", nil)
}

// Queue reads a queue with its settings.
func (c *Client) Queue(ctx context.Context, name string) (*api.Queue, error) {
	return get[api.Queue](ctx, c, "queue", queuePath(name, ""))
}

// PutQueue creates a queue, or replaces all its settings; nil fields get their default.
func (c *Client) PutQueue(ctx context.Context, name string, settings api.QueueSettingsInput) (*api.Queue, error) {
	q := &request{method: http.MethodPut, path: queuePath(name, ""), safe: true}
	return send[api.Queue](ctx, c, "put queue", q, api.PutQueueRequest{Settings: settings})
}

// EnsureQueue creates a queue with these settings; nil fields get their default. If the queue exists, it stays as it
// is. EnsureQueue returns the queue. Every process that needs a queue may call this at its start.
func (c *Client) EnsureQueue(ctx context.Context, name string, settings api.QueueSettingsInput) (*api.Queue, error) {
	q := &request{method: http.MethodPut, path: queuePath(name, ""), safe: true, ifNoneMatch: "*"}
	made, err := send[api.Queue](ctx, c, "ensure queue", q, api.PutQueueRequest{Settings: settings})
	var refused *Error
	if errors.As(err, &refused) && refused.Code == api.CodePrecondition {
		return c.Queue(ctx, name)
	}
	return made, err
}

// ChangeQueue changes some settings of a queue; nil fields stay as they are.
func (c *Client) ChangeQueue(ctx context.Context, name string, settings api.QueueSettingsInput) (*api.Queue, error) {
	q := &request{method: http.MethodPatch, path: queuePath(name, ""), safe: true}
	return send[api.Queue](ctx, c, "change queue", q, api.ChangeQueueRequest{Settings: settings})
}

// DeleteOption says which queues DeleteQueue may delete.
type DeleteOption string

// Quarantined makes DeleteQueue delete a queue that is in quarantine, with everything in it.
const Quarantined DeleteOption = "?quarantined=true"

// DeleteQueue deletes a queue without open submissions. It makes one attempt: if the answer were lost, a second
// attempt would report that there is no such queue.
func (c *Client) DeleteQueue(ctx context.Context, name string, options ...DeleteOption) error {
	path := queuePath(name, "")
	for _, option := range options {
		path += string(option)
	}
	return c.do(ctx, c.cold, "delete queue", &request{method: http.MethodDelete, path: path}, new(reply))
}

// MoveQueue moves a queue to another node of the cluster. It returns when that node serves the queue.
func (c *Client) MoveQueue(ctx context.Context, name, node string) (*api.Moved, error) {
	q := &request{method: http.MethodPost, path: queuePath(name, "/move"), safe: true, wait: moveMost}
	return send[api.Moved](ctx, c, "move queue", q, api.MoveRequest{Node: node})
}

// moveMost is how long a server tries to move a queue.
const moveMost = 30 * time.Second

// Stats reads a queue's numbers.
func (c *Client) Stats(ctx context.Context, queue string) (*api.Stats, error) {
	return get[api.Stats](ctx, c, "stats", queuePath(queue, "/stats"))
}

// ServerOptions reads the options of the server.
func (c *Client) ServerOptions(ctx context.Context) ([]api.ServerOption, error) {
	got, err := get[api.ServerOptions](ctx, c, "config", "/v1/config")
	if err != nil {
		return nil, err
	}
	return got.Options, nil
}

// Version reads the server's version.
func (c *Client) Version(ctx context.Context) (*api.Version, error) {
	return get[api.Version](ctx, c, "version", "/version")
}

// Nodes returns the servers of the cluster by name, with the queues that each owns.
func (c *Client) Nodes(ctx context.Context) iter.Seq2[api.Node, error] {
	return pages[api.Node](ctx, c, "nodes", "/v1/nodes", nil)
}

// Shards returns the shards of a queue by number. Queue of each is the name of that shard alone, which you can use
// instead of a queue's name.
func (c *Client) Shards(ctx context.Context, queue string) ([]api.Shard, error) {
	page, err := get[api.Page[api.Shard]](ctx, c, "shards", queuePath(queue, "/shards"))
	if err != nil {
		return nil, err
	}
	return page.Items, nil
}

// Groups returns the groups of a queue by name. It ends after the first error.
func (c *Client) Groups(ctx context.Context, queue string) iter.Seq2[api.Group, error] {
	return pages[api.Group](ctx, c, "groups", queuePath(queue, "/groups"), nil)
}

// PutGroup creates a group with limits and a description, or replaces those of an existing one.
func PutGroup(ctx context.Context, c *Client, queue, group string, settings api.PutGroupRequest, when Condition) (*api.Group, error) {
	q := &request{method: http.MethodPut, path: groupPath(queue, group), safe: when.none()}
	return send[api.Group](ctx, c, "put group", when.onto(q), settings)
}

// DeleteGroup deletes a group that has no open submissions.
func DeleteGroup(ctx context.Context, c *Client, queue, group string, when Condition) error {
	q := &request{method: http.MethodDelete, path: groupPath(queue, group)}
	return c.do(ctx, c.cold, "delete group", when.onto(q), new(reply))
}

// MoveGroup moves a group to another shard of its queue, as soon as it has no open submissions.
func MoveGroup(ctx context.Context, c *Client, queue, group string, shard uint8) (*api.Group, error) {
	q := &request{method: http.MethodPost, path: groupPath(queue, group) + "/move", safe: true}
	return send[api.Group](ctx, c, "move group", q, api.MoveGroupRequest{Shard: shard})
}

// DrainShard has a shard of a queue get no new groups, and its groups move to others when they have no open submissions.
func DrainShard(ctx context.Context, c *Client, queue string, shard int) error {
	q := &request{method: http.MethodPost, path: drainPath(queue, shard), safe: true}
	return c.do(ctx, c.cold, "drain shard", q, new(reply))
}

// ReopenShard has a shard that drains get new groups again.
func ReopenShard(ctx context.Context, c *Client, queue string, shard int) error {
	q := &request{method: http.MethodDelete, path: drainPath(queue, shard), safe: true}
	return c.do(ctx, c.cold, "reopen shard", q, new(reply))
}

func drainPath(queue string, shard int) string {
	return queuePath(queue, fmt.Sprintf("/shards/%d/drain", shard))
}

func groupPath(queue, group string) string { return queuePath(queue, "/groups/"+url.PathEscape(group)) }

// Group reads one group of a queue. api.CodeUnknownGroup: no one created it, and no submission has named it.
func (c *Client) Group(ctx context.Context, queue, group string) (*api.Group, error) {
	return get[api.Group](ctx, c, "group", groupPath(queue, group))
}

// Lifecycle reads the state of a queue's life-cycle worker.
func (c *Client) Lifecycle(ctx context.Context, queue string) (*api.Lifecycle, error) {
	return get[api.Lifecycle](ctx, c, "lifecycle", queuePath(queue, "/lifecycle"))
}

// RetryParked retries all parked life-cycle actions of a queue, and returns their number.
func (c *Client) RetryParked(ctx context.Context, queue string) (int, error) {
	got, err := fetch[api.Retried](ctx, c, "retry parked",
		&request{method: http.MethodPost, path: queuePath(queue, "/lifecycle/retry"), safe: true})
	if err != nil {
		return 0, err
	}
	return got.Retried, nil
}

// Durations reads how long chunks of a queue waited and ran in the last half hour. With meta, it covers only
// submissions with this one value.
func (c *Client) Durations(ctx context.Context, queue string, meta api.Meta) (*api.Durations, error) {
	query := url.Values{}
	addMeta(query, meta)
	return get[api.Durations](ctx, c, "durations", queried(queuePath(queue, "/durations"), query))
}
