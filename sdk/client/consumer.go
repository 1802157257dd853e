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

// Consumers goes through a queue's consumers by name: those that are attached or were a moment ago, hold something or have an
// order. It ends after the first error.
func (c *Client) Consumers(ctx context.Context, queue string) iter.Seq2[api.Consumer, error] {
	return pages[api.Consumer](ctx, c, "consumers", queuePath(queue, "/consumers"), nil)
}

// Consumer reads a consumer with the first page of what it holds, limit chunks (1 to 1,000; 0: 100) from the cursor on, the oldest
// reservation first. api.CodeUnknownConsumer: nothing is known of it.
func (c *Client) Consumer(ctx context.Context, queue, consumer, cursor string, limit int) (*api.ConsumerDetail, error) {
	query := given("cursor", cursor, "limit", positive(limit))
	return get[api.ConsumerDetail](ctx, c, "consumer", queried(consumerPath(queue, consumer, ""), query))
}

// DrainConsumer tells a consumer to finish what it holds and leave; it gets nothing new.
func (c *Client) DrainConsumer(ctx context.Context, queue, consumer string) (*api.Consumer, error) {
	return orderConsumer(ctx, c, queue, consumer, "drain")
}

// QuietConsumer keeps new work from a consumer, which stays.
func (c *Client) QuietConsumer(ctx context.Context, queue, consumer string) (*api.Consumer, error) {
	return orderConsumer(ctx, c, queue, consumer, "quiet")
}

// ResumeConsumer takes back the order that DrainConsumer or QuietConsumer gave a consumer. One that has left
// by then does not come back by it.
func (c *Client) ResumeConsumer(ctx context.Context, queue, consumer string) (*api.Consumer, error) {
	return orderConsumer(ctx, c, queue, consumer, "resume")
}

func orderConsumer(ctx context.Context, c *Client, queue, consumer, order string) (*api.Consumer, error) {
	return fetch[api.Consumer](ctx, c, order+" consumer",
		&request{method: http.MethodPost, path: consumerPath(queue, consumer, "/"+order), safe: true})
}

// ReleaseConsumer takes from a consumer what it holds, with no try counted, and says how many chunks that were. actor and reason are as in
// ReleaseChunk. It is tried once.
func (c *Client) ReleaseConsumer(ctx context.Context, queue, consumer, actor, reason string) (released int, err error) {
	return letGo(ctx, c, "release", queried(consumerPath(queue, consumer, "/release"), given("actor", actor, "reason", reason)))
}

// Detach lets a consumer leave: its streams end and what it holds goes back, with no try counted. It says how many chunks that
// were. It is tried once.
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

// ConsumerEvent is a notification to an attached consumer: Name is one of api.EventHello, EventDrain, EventQuiet, EventResume and
// EventRevoked, and Hello and Revoked belong to the events of these names.
type ConsumerEvent struct {
	Name    string
	Hello   api.Hello
	Revoked []api.Revoked
}

// silentBeats is how many heartbeats may stay out before a stream is taken for dead.
const silentBeats = 3

// Attach keeps a consumer known as long as its stream is open, and calls fn for every event, one at a time. It returns when the
// stream has ended, with nil if the server ended it in order (the consumer was detached, or the server stops), and with an error
// otherwise. It does not come back by itself; Work does.
//
// incarnation is a text that each process draws once. If the consumer's last stream was of another process, what the
// name holds is lost at once and offered again. "" does not say which process it is: for one that reserved under the
// name before it first attached.
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
