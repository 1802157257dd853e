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

// Consumers returns a queue's consumers by name: those that are attached or were a moment ago, hold a chunk, or have
// an order. It ends after the first error.
func (c *Client) Consumers(ctx context.Context, queue string) iter.Seq2[api.Consumer, error] {
	return pages[api.Consumer](ctx, c, "consumers", queuePath(queue, "/consumers"), nil)
}

// Consumer reads a consumer with one page of its reservations, the oldest first: limit of them (1 to 1,000; 0: 100)
// from the cursor on. api.CodeUnknownConsumer: the server does not know the name.
func (c *Client) Consumer(ctx context.Context, queue, consumer, cursor string, limit int) (*api.ConsumerDetail, error) {
	query := given("cursor", cursor, "limit", positive(limit))
	return get[api.ConsumerDetail](ctx, c, "consumer", queried(consumerPath(queue, consumer, ""), query))
}

// DrainConsumer tells a consumer to finish its chunks and leave. It gets no new work.
func (c *Client) DrainConsumer(ctx context.Context, queue, consumer string) (*api.Consumer, error) {
	return orderConsumer(ctx, c, queue, consumer, "drain")
}

// QuietConsumer keeps new work from a consumer, which stays attached.
func (c *Client) QuietConsumer(ctx context.Context, queue, consumer string) (*api.Consumer, error) {
	return orderConsumer(ctx, c, queue, consumer, "quiet")
}

// ResumeConsumer takes back the order of DrainConsumer or QuietConsumer. A consumer that has left stays away.
func (c *Client) ResumeConsumer(ctx context.Context, queue, consumer string) (*api.Consumer, error) {
	return orderConsumer(ctx, c, queue, consumer, "resume")
}

func orderConsumer(ctx context.Context, c *Client, queue, consumer, order string) (*api.Consumer, error) {
	return fetch[api.Consumer](ctx, c, order+" consumer",
		&request{method: http.MethodPost, path: consumerPath(queue, consumer, "/"+order), safe: true})
}

// ReleaseConsumer takes back all chunks of a consumer without counting an attempt, and returns their number. actor
// and reason are as in ReleaseChunk. It makes one attempt.
func (c *Client) ReleaseConsumer(ctx context.Context, queue, consumer, actor, reason string) (released int, err error) {
	return letGo(ctx, c, "release", queried(consumerPath(queue, consumer, "/release"), given("actor", actor, "reason", reason)))
}

// Detach ends a consumer's streams and gives its chunks back without counting an attempt. It returns the number of
// these chunks. It makes one attempt.
func (c *Client) Detach(ctx context.Context, queue, consumer string) (released int, err error) {
	return letGo(ctx, c, "detach", consumerPath(queue, consumer, "/detach"))
}

func letGo(ctx context.Context, c *Client, verb, path string) (int, error) {
	got, err := fetch[api.Released](ctx, c, verb+" consumer", &request{method: http.MethodPost, path: path})
	if err != nil {
		return 0, err
	}
	return got.Released, nil
}

func consumerPath(queue, consumer, below string) string {
	return queuePath(queue, "/consumers/"+url.PathEscape(consumer)+below)
}

// ConsumerEvent is an event for an attached consumer. Name is api.EventHello, EventDrain, EventQuiet, EventResume or
// EventRevoked. Hello and Revoked belong to the events of these names.
type ConsumerEvent struct {
	Name    string
	Hello   api.Hello
	Revoked []api.Revoked
}

// silentBeats is how many heartbeats may stay out before a stream is taken for dead.
const silentBeats = 3

// Attach attaches a consumer to the server and calls fn for every event, one at a time. The server knows the consumer
// is alive while the stream is open. Attach returns nil if the server ended the stream in order (because the consumer
// was detached, or the server stops), and otherwise an error. It does not reconnect; Work does.
//
// incarnation is a text that each process draws once. If the consumer's last stream was of another process, all
// reservations under the name end as lost at once, and the server offers their chunks again. Pass "" if this process
// reserved under the name before it first attached.
func (c *Client) Attach(ctx context.Context, queue, consumer, incarnation string, fn func(ConsumerEvent)) error {
	patience := c.timeout // until the server says how often there is a heartbeat
	path := queried(consumerPath(queue, consumer, "/attach"), given("incarnation", incarnation))
	return events(ctx, c, "attach", path, "", &patience, func(got event) error {
		if got.name == "" {
			return nil
		}
		e, err := readEvent(got.name, got.data)
		if err != nil {
			return err
		}
		if beat := milliseconds(e.Hello.HeartbeatMS); beat > 0 {
			patience = silentBeats * beat
		}
		fn(e)
		return nil
	})
}

func readEvent(name, data string) (e ConsumerEvent, err error) {
	e.Name = name
	var into any
	var revoked api.RevokedEvent
	switch name {
	case api.EventHello:
		into = &e.Hello
	case api.EventRevoked:
		into = &revoked
	default:
		return e, nil
	}
	if err := json.Unmarshal([]byte(data), into); err != nil {
		return e, fmt.Errorf("the event %s is not what the server's interface says: %w", name, err)
	}
	e.Revoked = revoked.Items
	return e, nil
}
