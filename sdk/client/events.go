package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
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
