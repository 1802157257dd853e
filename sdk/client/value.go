package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

// MetaKeys returns the meta keys of open submissions and those with settings, by name.
func (c *Client) MetaKeys(ctx context.Context, queue string) iter.Seq2[api.MetaKey, error] {
	return pages[api.MetaKey](ctx, c, "meta keys", queuePath(queue, "/meta-keys"), nil)
}

// MetaKey reads a meta key with the defaults of its values. api.CodeUnknownValue: no open submission has the key, and
// it has no default.
func MetaKey(ctx context.Context, c *Client, queue, key string) (*api.MetaKey, error) {
	return get[api.MetaKey](ctx, c, "meta key", keyPath(queue, key))
}

// PutMetaKey sets a default limit, weight, rate and quota for all values of a meta key that have none of their own.
// Like PutValue, it replaces all earlier settings.
func PutMetaKey(ctx context.Context, c *Client, queue, key string, settings api.ValueSettings,
	when Condition) (*api.MetaKey, error) {
	q := &request{method: http.MethodPut, path: keyPath(queue, key), safe: when.none()}
	return send[api.MetaKey](ctx, c, "put meta key", when.onto(q), settings)
}

// DeleteMetaKey removes the default limit, weight, rate and quota of a meta key's values. Like DeleteQueue, it makes
// one attempt.
func DeleteMetaKey(ctx context.Context, c *Client, queue, key string, when Condition) error {
	q := &request{method: http.MethodDelete, path: keyPath(queue, key)}
	return c.do(ctx, c.cold, "unput meta key", when.onto(q), new(reply))
}

func keyPath(queue, key string) string { return queuePath(queue, "/meta-keys/"+url.PathEscape(key)) }

// Values returns the values of a meta key with their chunks and settings. sort is in_flight (or ""), ready, waiting,
// dead, done, oldest, paused, blocked, submissions or weight, the largest first.
func (c *Client) Values(ctx context.Context, queue, key, sort string) iter.Seq2[api.ValueCount, error] {
	path := keyPath(queue, key) + "/values"
	return pages[api.ValueCount](ctx, c, "values", path, given("sort", sort))
}

// Value reads one value of a meta key. api.CodeUnknownValue: no open submission has it, and it has no settings.
func (c *Client) Value(ctx context.Context, queue, key string, value api.MetaValue) (*api.ValueCount, error) {
	return get[api.ValueCount](ctx, c, "value", valuePath(queue, key, value))
}

// PutValue replaces all settings of a value of a meta key: limit, weight, rate and quota. It removes those that are
// nil. They apply from the next reservation on. With a condition it makes one attempt: if the answer were lost, a
// second attempt would meet its own change.
func (c *Client) PutValue(ctx context.Context, queue, key string, value api.MetaValue, settings api.ValueSettings,
	when Condition) (*api.ValueCount, error) {
	q := &request{method: http.MethodPut, path: valuePath(queue, key, value), safe: when.none()}
	return send[api.ValueCount](ctx, c, "put value", when.onto(q), settings)
}

// DeleteValue removes all settings of a value. Like DeleteQueue, it makes one attempt.
func (c *Client) DeleteValue(ctx context.Context, queue, key string, value api.MetaValue, when Condition) error {
	q := &request{method: http.MethodDelete, path: valuePath(queue, key, value)}
	return c.do(ctx, c.cold, "unput value", when.onto(q), new(reply))
}

// valuePath names a value in the form that needs no guessing: a bare whole number, or s: and the text.
func valuePath(queue, key string, value api.MetaValue) string {
	text := "s:" + value.Text()
	if value.IsInt() {
		text = strconv.FormatInt(value.Int(), 10)
	}
	return keyPath(queue, key) + "/values/" + url.PathEscape(text)
}
