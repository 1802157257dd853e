package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

//	subscriber ◄── join ◄─┬─ this node's own stream (inProcess)
//	                      ├─ node B's stream
//	                      └─ node C: no answer in time ─► `closed` for each of its queues
//
// A node that goes away in the middle closes its queues in the stream, and the others go on. The subscriber opens
// the stream again when it wants those queues back; this node does not reconnect for it, because it could not tell
// which events were missed in between.
// A stream of events about queues of several nodes is joined from a stream of each of them. Events come whole, and
// those of one queue in their order, as one node has it.

// maxEventBytes bounds one event of another node.
const maxEventBytes = 8 << 20

// spread is getEvents for queues that several nodes serve.
// As long as one node answers there is a stream. If none does, the refusal of one of them is the answer, because a
// problem in a stream with nothing else in it would look like success.
func (w watching) spread(c echo.Context) (bool, error) {
	in, err := w.parseEvents(c.Request())
	if err != nil || len(in.queues) < 2 {
		return false, nil // the handler refuses it
	}
	about, parts, err := sharedOut(c, in.queues, w.nodes.nodes.Lookup().Queue)
	if err != nil || parts == nil {
		return false, err
	}
	ctx, done := context.WithCancel(c.Request().Context())
	defer done()
	open, refused := w.openAll(ctx, c, about, parts)
	if len(open) == 0 {
		for _, p := range parts {
			if p.err == nil {
				return true, p.relay(c)
			}
		}
		for _, p := range parts {
			return true, p.failure(w.nodes, c)
		}
	}
	leave, err := w.streams.begin(c)
	if err != nil {
		return true, err
	}
	defer leave()
	w.join(ctx, c, about, open, refused)
	return true, nil
}

// openAll opens the streams of all nodes. refused are the events that tell which queues cannot be followed.
// Opening has a deadline, the stream has none. So the two have different contexts: ending the first must not end
// the second.
func (w watching) openAll(ctx context.Context, c echo.Context, about map[string][]string, parts map[string]*part) (
	open map[string]*http.Response, refused [][]byte) {
	type opened struct {
		url    string
		answer *http.Response
		err    error
	}
	answers := make(chan opened, len(parts))
	open = map[string]*http.Response{}
	patient, stop := context.WithTimeout(ctx, askMost) // for the opening of all; an open stream has no deadline
	defer stop()
	by := w.nodes.asker(c)
	for url, p := range parts {
		p.query = queryOf(c, about[url])
		go func() {
			answer, err := by.open(ctx, p)
			answers <- opened{url, answer, err}
		}()
	}
	for waiting := len(parts); waiting > 0; waiting-- {
		select {
		case got := <-answers:
			p := parts[got.url]
			if p.err = got.err; got.err != nil {
				continue
			}
			if p.status, p.header = got.answer.StatusCode, got.answer.Header; p.status == http.StatusOK {
				open[got.url] = got.answer
				continue
			}
			p.text, p.err = io.ReadAll(io.LimitReader(got.answer.Body, maxBodyBytes))
			got.answer.Body.Close()
		case <-patient.Done():
			waiting = 0 // their queues are closed below, and streams that open late end with ctx
		}
	}
	for url, p := range parts {
		if open[url] == nil {
			if p.status == 0 && p.err == nil {
				p.err = patient.Err()
			}
			if p.err != nil {
				_ = p.failure(w.nodes, c) // it is logged
			}
			refused = append(refused, closedEvents(about[url], p)...)
		}
	}
	return open, refused
}

// queryOf is the query of a call about other queues.
func queryOf(c echo.Context, queues []string) url.Values {
	query := url.Values{"queue": queues}
	if topics := c.QueryParams()["topics"]; topics != nil {
		query["topics"] = topics
	}
	return query
}

// closedEvents tell that the queues of a node are followed no longer, and why.
func closedEvents(queues []string, p *part) (events [][]byte) {
	code := string(queue.CodeMoving)
	detail := "The node that serves the queue does not answer, or stops. Open the stream again."
	var problem api.Problem
	if p != nil && p.err == nil && p.status >= http.StatusBadRequest && json.Unmarshal(p.text, &problem) == nil {
		code, detail = problem.Code, problem.Detail
	}
	for _, name := range queues {
		data, _ := json.Marshal(api.Closed{Queue: name, Code: code, Detail: detail}) // three texts
		events = append(events, fmt.Appendf(nil, "event: %s\ndata: %s\n\n", api.EventClosed, data))
	}
	return events
}

// join sends the events of all nodes until the subscriber is gone or all streams have ended. There is one goroutine
// per node, all handing events to this one: only one writes to the subscriber, and events stay whole. Nothing is
// buffered: a slow subscriber holds back the readers, and through them the nodes, whose own limit then ends the
// stream.
func (w watching) join(ctx context.Context, c echo.Context, about map[string][]string,
	open map[string]*http.Response, first [][]byte) {
	events := make(chan []byte)
	ended := make(chan string)
	for url, answer := range open {
		go func() {
			closed := readEvents(ctx, answer.Body, events)
			answer.Body.Close()
			left := slices.DeleteFunc(slices.Clone(about[url]), func(name string) bool { return closed[name] })
			for _, event := range closedEvents(left, nil) {
				deliver(ctx, events, event)
			}
			select {
			case ended <- url:
			case <-ctx.Done():
			}
		}()
	}
	for _, event := range first {
		if w.streams.send(c, event) != nil {
			return
		}
	}
	for running := len(open); running > 0; {
		select {
		case event := <-events:
			if w.streams.send(c, event) != nil {
				return
			}
		case <-ended:
			running--
		case <-ctx.Done():
			return
		}
	}
}

func deliver(ctx context.Context, to chan<- []byte, event []byte) {
	select {
	case to <- event:
	case <-ctx.Done():
	}
}

// readEvents reads a stream event by event, and says which queues it has closed.
// An event may be longer than the reader's buffer, so it is put together from pieces, up to maxEventBytes. An event
// of more is no event of ours, and ends the stream.
func readEvents(ctx context.Context, from io.Reader, to chan<- []byte) (closed map[string]bool) {
	closed = map[string]bool{}
	lines := bufio.NewReaderSize(from, 64<<10)
	var event []byte
	for ctx.Err() == nil {
		line, err := lines.ReadSlice('\n')
		event = append(event, line...)
		switch {
		case err == bufio.ErrBufferFull && len(event) < maxEventBytes:
		case err != nil:
			return closed
		case bytes.HasSuffix(event, []byte("\n\n")):
			if name, is := closedQueue(event); is {
				closed[name] = true
			}
			deliver(ctx, to, event)
			event = nil
		}
	}
	return closed
}

// closedQueue is the queue that an event closes.
// Only its exact beginning is compared: nodes of one version write events in one way, and a full reading of each
// event would cost more than passing it on.
func closedQueue(event []byte) (string, bool) {
	rest, is := bytes.CutPrefix(event, []byte("event: "+api.EventClosed+"\ndata: "))
	var closed api.Closed
	is = is && json.Unmarshal(bytes.TrimSpace(rest), &closed) == nil
	return closed.Queue, is
}
