package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

// Condition makes a change of a named strategy, or of what is set for a value, depend on what is there; when it does not hold
// the change is refused with api.CodePrecondition. The zero value always holds.
type Condition struct {
	ETag   string // the newest version must have it (api.NamedStrategy.ETag, api.ValueCount.ETag); "*": there must be one
	Absent bool   // there must be none
}

func (c Condition) none() bool { return c == Condition{} }

func (c Condition) onto(q *request) *request {
	q.ifMatch = c.ETag
	if c.Absent {
		q.ifNoneMatch = "*"
	}
	return q
}

// Strategies goes through the queue's named strategies by name.
func (c *Client) Strategies(ctx context.Context, queue string) iter.Seq2[api.NamedStrategy, error] {
	return pages[api.NamedStrategy](ctx, c, "strategies", queuePath(queue, "/strategies"), nil)
}

// Strategy reads a named strategy: a version of it, or as it stands for version 0.
func (c *Client) Strategy(ctx context.Context, queue, name string, version uint32) (*api.NamedStrategy, error) {
	path := strategyPath(queue, name)
	if version > 0 {
		path += "?version=" + strconv.FormatUint(uint64(version), 10)
	}
	return get[api.NamedStrategy](ctx, c, "strategy", path)
}

// PutStrategy names a strategy, or changes the one behind the name. The strategy is in text form, or a JSON tree when it begins
// with '{'. With a condition it is tried once: after a lost answer a second try would meet its own change.
func (c *Client) PutStrategy(ctx context.Context, queue, name, strategy string, when Condition) (*api.NamedStrategy, error) {
	value, err := strategyJSON(strategy)
	if err != nil {
		return nil, err
	}
	q := &request{method: http.MethodPut, path: strategyPath(queue, name), safe: when.none()}
	return send[api.NamedStrategy](ctx, c, "put strategy", when.onto(q), api.StrategyRequest{Strategy: value})
}

// DeleteStrategy deletes a named strategy with all its versions. It is tried once, as DeleteQueue is.
func (c *Client) DeleteStrategy(ctx context.Context, queue, name string, when Condition) error {
	q := &request{method: http.MethodDelete, path: strategyPath(queue, name)}
	return c.do(ctx, c.cold, "delete strategy", when.onto(q), new(reply))
}

// ValidateStrategy says what a strategy means to the queue: canonical forms, branches, and what in it has no effect. The
// strategy is as for PutStrategy, or {"name":"..."} for one that the queue has.
func (c *Client) ValidateStrategy(ctx context.Context, queue, strategy string) (*api.ValidStrategy, error) {
	value, err := strategyJSON(strategy)
	if err != nil {
		return nil, err
	}
	path := queuePath(queue, "/strategies/validate")
	return ask[api.ValidStrategy](ctx, c, "validate strategy", path, api.StrategyRequest{Strategy: value})
}

// StrategiesInUse lists the strategies that consumers reserved by in the last hour, those that handed out most chunks first.
func (c *Client) StrategiesInUse(ctx context.Context, queue string) (*api.StrategiesInUse, error) {
	return whole(ctx, c, "strategies in use", queuePath(queue, "/strategies/in-use"), nil,
		func(page *api.StrategiesInUse) (*[]api.StrategyUse, *string) { return &page.Items, &page.Next })
}

func strategyPath(queue, name string) string {
	return queuePath(queue, "/strategies/"+url.PathEscape(name))
}
