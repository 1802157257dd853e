package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"
)

// followPatience is how long a stream that is followed may be silent. It sends something every 15 seconds.
const followPatience = time.Minute

// place is how far a stream that is followed has come, and what its events tell.
type place[T any] interface {
	// at is the id to go on after; begun says that the server has sent one.
	at() (id string, begun bool)
	// take says what an event tells, and whether that is for the caller.
	take(got event) (item T, fresh bool, err error)
}

// follow goes through what a stream tells until ctx ends. When the stream is cut, or the server restarts, it tries until it can go on
// where it was. It ends after the first error, which is one that trying again does not fix.
func follow[T any](ctx context.Context, c *Client, what, path string, p place[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		patience := followPatience
		for failures, left := 0, false; ; failures++ {
			id, _ := p.at()
			err := events(ctx, c, what, path, id, &patience, func(got event) error {
				failures = 0
				item, fresh, err := p.take(got)
				if err == nil && fresh && !yield(item, nil) {
					left, err = true, context.Canceled
				}
				return err
			})
			var refused *Error
			_ = errors.As(err, &refused)
			_, begun := p.at()
			switch {
			case left || ctx.Err() != nil:
				return
			case err != nil && (!begun || final(err) ||
				errors.Is(err, errUnreadable) || errors.Is(err, bufio.ErrTooLong)):
				var nothing T
				yield(nothing, err)
				return
			}
			if err != nil {
				c.notices.warn(err, "call", what)
			}
			if pause(ctx, c.backoff(failures, refused)) != nil {
				return
			}
		}
	}
}

var errUnreadable = errors.New("the answer is not what the server's interface says")

// problemIn is the problem that the server has ended a stream with.
func problemIn(got event) error {
	var refused Error
	if err := json.Unmarshal([]byte(got.data), &refused.Problem); err != nil {
		return fmt.Errorf("%w: a problem: %w", errUnreadable, err)
	}
	return &refused
}
