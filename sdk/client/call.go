package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/sdk/api"
)

// fetch makes a call through net/http and reads the answer with encoding/json.
func fetch[T any](ctx context.Context, c *Client, what string, q *request) (*T, error) {
	var r reply
	if err := c.do(ctx, c.cold, what, q, &r); err != nil {
		return nil, err
	}
	answer := new(T)
	err := json.Unmarshal(r.body, answer)
	if err == nil && !bytes.HasPrefix(bytes.TrimLeft(r.body, " \t\r\n"), []byte("{")) {
		err = errors.New("it is no object") // null would be an answer full of zeros
	}
	if err != nil {
		return nil, fmt.Errorf("quern: %s: the answer is not what the server's interface says: %w", what, err)
	}
	return answer, nil
}

// get reads the answer at a path.
func get[T any](ctx context.Context, c *Client, what, path string) (*T, error) {
	return fetch[T](ctx, c, what, &request{method: http.MethodGet, path: path, safe: true})
}

// send is fetch with a body: value, as JSON.
func send[T any](ctx context.Context, c *Client, what string, q *request, value any) (*T, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("quern: %s: %w", what, err)
	}
	q.media, q.buffer = mediaJSON, append(make([]byte, gap), body...)
	return fetch[T](ctx, c, what, q)
}

// ask posts what does the same when it is posted again, such as a question, so that it may be tried again.
func ask[T any](ctx context.Context, c *Client, what, path string, question any) (*T, error) {
	return send[T](ctx, c, what, &request{method: http.MethodPost, path: path, safe: true}, question)
}

// pages goes through a list page by page.
func pages[T any](ctx context.Context, c *Client, what, path string, query url.Values) iter.Seq2[T, error] {
	return pagesOf(ctx, c, what, path, query, func(page *api.Page[T]) ([]T, string) { return page.Items, page.Next })
}

// pagesOf goes through a list whose pages say more than their items. open takes the items and the next cursor out of a page.
func pagesOf[T, P any](ctx context.Context, c *Client, what, path string, query url.Values,
	open func(*P) (items []T, next string)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query := query
		page, err := get[P](ctx, c, what, queried(path, query))
		for ; err == nil; page, err = get[P](ctx, c, what, queried(path, query)) {
			items, next := open(page)
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			if query, err = further(what, query, next); err != nil {
				break
			}
		}
		var zero T
		yield(zero, err)
	}
}

// further is the query for the page behind a cursor. A server that names the page that it has just sent would have the client read that
// page for ever.
func further(what string, query url.Values, cursor string) (url.Values, error) {
	if query.Get("cursor") == cursor {
		return nil, fmt.Errorf("quern: %s: the answer is not what the server's interface says: behind the page %q comes the same page",
			what, cursor)
	}
	if query = maps.Clone(query); query == nil {
		query = make(url.Values)
	}
	query.Set("cursor", cursor)
	return query, nil
}

// whole reads a list, all its pages together, whose answer says more than its items. open is where it has them, and its next.
func whole[P, T any](ctx context.Context, c *Client, what, path string, query url.Values,
	open func(*P) (items *[]T, next *string)) (*P, error) {
	var all *P
	for {
		page, err := get[P](ctx, c, what, queried(path, query))
		if err != nil {
			return nil, err
		}
		items, next := open(page)
		if all == nil {
			all = page
		} else {
			had, _ := open(all)
			*had = append(*had, *items...)
		}
		if *next == "" {
			return all, nil
		}
		if query, err = further(what, query, *next); err != nil {
			return nil, err
		}
		*next = ""
	}
}

// queried is a path with a query, if there is one.
func queried(path string, query url.Values) string {
	if text := query.Encode(); text != "" {
		return path + "?" + text
	}
	return path
}

// given is the query of those parameters that have a value: names and values by turns.
func given(pairs ...string) url.Values {
	query := make(url.Values)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	return query
}

// positive is a number as a parameter; "", which is not given, when it is not one from 1 on.
func positive[N int | uint32](n N) string {
	if n <= 0 {
		return ""
	}
	return strconv.FormatInt(int64(n), 10)
}

// traceKey is where a context has the trace that calls belong to.
type traceKey struct{}

// WithTraceContext returns a context whose calls belong to a trace: they send it in the headers traceparent and
// tracestate, and the submissions that they insert carry it to their consumers. trace is a W3C traceparent,
// optionally followed by ';' and the tracestate, as in Chunk.Trace. With "", calls belong to no trace. Work gives
// handlers such a context, so the submissions that a handler inserts belong to the trace of its chunk.
func WithTraceContext(ctx context.Context, trace string) context.Context {
	if trace == "" && TraceContext(ctx) == "" {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, trace)
}

// TraceContext returns the trace of WithTraceContext, or "".
func TraceContext(ctx context.Context) string {
	trace, _ := ctx.Value(traceKey{}).(string)
	return trace
}

func (q *request) setTrace(trace string) { q.trace, q.state, _ = strings.Cut(trace, ";") }

// join gives a call the trace of its context, unless it has one already.
func (q *request) join(ctx context.Context) error {
	if q.trace == "" {
		if trace := TraceContext(ctx); trace != "" {
			q.setTrace(trace)
		}
	}
	for _, c := range []byte(q.trace + q.state) {
		if c < ' ' || c > '~' {
			return fmt.Errorf("the trace context %q has characters that none has", q.trace+";"+q.state)
		}
	}
	return nil
}
