package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"
)

// maxEvent is the longest line of a stream: 10,000 revoked tokens and room to spare.
const maxEvent = 4 << 20

var errSilent = fmt.Errorf("the server has sent nothing for too long: %w", context.DeadlineExceeded)

// event is one of a stream. One without a name is none: its id only says from where to go on.
type event struct{ name, id, data string }

// events opens a stream and calls fn for every event, until the stream ends or fn fails. It goes on after the event with the id
// last; "": the stream begins. A stream that is silent for longer than patience, which fn may change, is taken for dead.
func events(ctx context.Context, c *Client, what, path, last string, patience *time.Duration, fn func(event) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	failed := func(err error) error {
		if errors.Is(context.Cause(ctx), errSilent) {
			err = errSilent
		}
		return trouble(what, err)
	}
	begin := &opening{standard: c.cold}
	q := &request{method: http.MethodGet, path: path, accept: "text/event-stream", last: last}
	if _, err := c.once(ctx, begin, what, q, new(reply)); err != nil {
		return err
	}
	answer := begin.answer
	defer answer.Body.Close()
	silent := time.AfterFunc(c.timeout, func() { cancel(errSilent) }) // until the first line
	defer silent.Stop()
	if kind := answer.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") { // a proxy's page
		return failed(fmt.Errorf("%w: it is %q, and no stream of events", errUnreadable, kind))
	}
	err := readEvents(answer.Body, func() { silent.Reset(*patience) }, func(e event) error {
		silent.Stop() // fn may take its time
		defer func() { silent.Reset(*patience) }()
		return fn(e)
	})
	if err != nil {
		return failed(err)
	}
	return nil
}

// readEvents reads a stream to its end, or until fn fails. alive is called for every line, also for those that say nothing.
func readEvents(body io.Reader, alive func(), fn func(event) error) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEvent)
	var e event
	var data []string
	for lines.Scan() {
		alive()
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case field == "event":
			e.name = value
		case field == "id":
			e.id = value
		case field == "data":
			data = append(data, value)
		case lines.Text() == "":
			if e.data = strings.Join(data, "\n"); e != (event{}) {
				if err := fn(e); err != nil {
					return err
				}
			}
			e, data = event{}, nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the stream broke: %w", err)
	}
	return nil
}

// followPatience is how long a stream that is followed may be silent. It sends something every 15 seconds.
const followPatience = time.Minute

// place is how far a followed stream has come, and how its events are read.
type place[T any] interface {
	// at is the id to go on after; begun says that the server has sent one.
	at() (id string, begun bool)
	// take returns the item of an event, and says whether it is for the caller.
	take(got event) (item T, fresh bool, err error)
}

// follow goes through the items of a stream until ctx ends. When the stream is cut, or the server restarts, it tries until it can go
// on where it was. It ends after the first error, which is one that trying again does not fix.
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
