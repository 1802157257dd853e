package web

// One subscriber of GET /v1/events. Its goroutine, that of the request, sleeps until the engine has
// sampled (engine.Sampled closes a channel), and then sends the frames that the subscriber lacks.
// Nothing is queued for it, so a slow one costs its place and nothing else.
//
//	begin   retry, hello, and for each queue `series`: the points since Last-Event-ID
//	follow  frames ─► for each queue: gone? `closed` : newer frame? `skipped`, stats, keys, consumers, schedules
//	        until the client, the last queue or the server is gone
//
// The channel of the next sample is taken before the frames are sent. In the other order, a sample
// between the two would be seen only one second later.

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
)

// stream is one subscriber of the events of some queues. Only the goroutine of its request uses it, so it has no
// lock.
type stream struct {
	watching
	c       echo.Context
	request eventsRequest
	queues  []*followed // those that are not closed
}

// followed is a queue that a subscriber follows.
type followed struct {
	name string
	last uint64 // number of the frame that the subscriber has; 0: none
	// Compared by address, not by content: topics that did not change share their bytes.
	schedules []byte // the last that were sent
}

func newStream(w watching, c echo.Context, in eventsRequest) *stream {
	o := &stream{watching: w, c: c, request: in}
	for _, name := range in.queues {
		o.queues = append(o.queues, &followed{name: name, last: in.last})
	}
	return o
}

// find is a queue that serves and that the subscriber may see. It is asked again for every frame, because a queue can
// be deleted, moved to another node or put in quarantine while the stream is open.
func (o *stream) find(name string) (*engine.Queue, error) {
	if token := boundTo(o.c.Request().Context()); token != nil && !token.CoversQueue(name) {
		return nil, unknownQueue(name)
	}
	return o.engine.Queue(name)
}

// refused is why none of the queues can be followed; nil if one can. One queue that can be followed is enough: a
// dashboard with several must not go dark because one is gone.
func (o *stream) refused() (first error) {
	for _, f := range o.queues {
		_, err := o.find(f.name)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// begin sends the points that the subscriber does not have yet. `retry` makes browsers reconnect after one second;
// their default is several.
func (o *stream) begin() error {
	if err := o.send([]byte("retry: 1000\n: hello\n\n")); err != nil || !o.request.stats {
		return err
	}
	for _, f := range o.queues {
		q, err := o.find(f.name)
		if err != nil {
			continue // its frame says so
		}
		frame := q.Frame()
		if frame == nil {
			continue
		}
		// Frames that came since this one was read are in it, and come again as frames: a
		// point that is known already changes nothing.
		event, err := o.events.event(api.EventSeries, frame, q.Series(time.Second, o.request.lastAt.Std()))
		if err != nil {
			return err
		}
		// The frame that the series was read from comes again as stats and keys, so a new subscriber sees numbers at
		// once.
		f.last = 0
		if err := o.send(event); err != nil {
			return err
		}
	}
	return nil
}

// follow sends each frame until the subscriber or the last queue is gone, or the server stops. The heartbeat runs
// beside the frames, also for a queue that changes often: it is cheaper than finding out whether it is needed.
func (o *stream) follow() {
	ctx := o.c.Request().Context()
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	for {
		next := o.engine.Sampled()
		if err := o.frames(); err != nil || len(o.queues) == 0 {
			return
		}
		select {
		case <-next:
		case <-alive.C:
			if err := o.send([]byte(": alive\n\n")); err != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// frames sends the frame of each queue that the subscriber does not have, and closes the queues that are gone. open
// reuses the array of queues: it never has more entries than were read.
func (o *stream) frames() error {
	open := o.queues[:0]
	for _, f := range o.queues {
		gone, err := o.next(f)
		if gone != nil {
			err = o.closed(f.name, gone)
		} else {
			open = append(open, f)
		}
		if err != nil {
			return err
		}
	}
	o.queues = open
	return nil
}

// next sends the frame of a queue if the subscriber does not have it. gone says why there
// is no such queue for it.
func (o *stream) next(f *followed) (gone, err error) {
	q, gone := o.find(f.name)
	if gone != nil {
		return gone, nil
	}
	if frame := q.Frame(); frame != nil && frame.Number != f.last {
		if err = o.frame(f, frame); err != nil {
			_, gone = o.find(f.name) // it may have gone while the topics of the frame were made
		}
	}
	return gone, err
}

// closed says that a queue is followed no longer. It has no id: there is nothing to continue. It has the code and
// text that a request about the queue would get, and no more: internal errors stay in the log.
func (o *stream) closed(name string, why error) error {
	p := o.streams.answers.problemOf(why)
	body, err := json.Marshal(api.Closed{Queue: name, Code: p.Code, Detail: p.Detail})
	if err != nil {
		return fmt.Errorf("web: event %s: %w", api.EventClosed, err)
	}
	return o.send(append(append([]byte("event: "+api.EventClosed+"\ndata: "), body...), "\n\n"...))
}

func (o *stream) frame(to *followed, f *engine.Frame) error {
	encoded, err := o.events.encode(to.name, f)
	if err != nil {
		return err
	}
	// Noted before the frame is sent: a frame that could not be sent ends the stream, so nothing is ever sent twice.
	last := to.last
	to.last = f.Number
	if last != 0 && f.Number > last+1 {
		event, err := o.events.event(api.EventSkipped, f, api.Skipped{Queue: to.name, Frames: f.Number - last - 1})
		if err == nil {
			err = o.send(event)
		}
		if err != nil {
			return err
		}
	}
	if o.request.stats {
		if err := o.send(encoded.stats); err != nil {
			return err
		}
	}
	if o.request.keys {
		if err := o.send(encoded.keys); err != nil {
			return err
		}
	}
	return o.late(to, f, encoded)
}

// late sends the topics that are made only for subscribers that want them. Consumers are sent with every frame, as
// their chunks change all the time. Schedules are sent only when they changed.
func (o *stream) late(to *followed, f *engine.Frame, encoded *encodedFrame) error {
	if o.request.consumers {
		event, err := encoded.consumers.made(o.events, api.EventConsumers, f, nil,
			func(ctx context.Context) (any, error) { return o.consumersFrame(ctx, to.name, f) })
		if err == nil {
			err = o.send(event)
		}
		if err != nil {
			return err
		}
	}
	if !o.request.schedules {
		return nil
	}
	event, err := encoded.schedules.made(o.events, api.EventSchedules, f, encoded.before,
		func(ctx context.Context) (any, error) { return o.schedulesFrame(ctx, to.name, f) })
	if err != nil || len(to.schedules) > 0 && &to.schedules[0] == &event[0] {
		return err // it has the same already
	}
	to.schedules = event
	return o.send(event)
}

func (o *stream) send(event []byte) error { return o.streams.send(o.c, event) }
