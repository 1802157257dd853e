package web

// A consumer that attaches to a queue whose shards are on several nodes. It has one stream, to the node that it asked.
// That node attaches it to its own shards, and holds a stream to each other node for theirs:
//
//	consumer ◄── one stream ─┬─ this node's shards (engine.Attach)
//	                         ├─ node B's stream: hello, revoked, drain, ...
//	                         └─ node C's stream
//
// The first event is one `hello` for all. When one of the streams ends, or a shard is on another node than at the
// beginning, the whole stream ends. The client then attaches again, and is attached where the shards are.
//
// A stream repairs nothing. A consumer may miss something while a shard moves, such as chunks that were taken from it.
// It learns of that when it attaches again and extends the chunks that it holds.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// farAttachment are the streams of a consumer to other nodes. It is nil for a queue whose shards are all here.
type farAttachment struct {
	nodes  *forwarding
	shards []string                    // as they are asked: "orders~2"
	places map[string]engine.Elsewhere // where they were at the beginning
	hello  api.Hello                   // of all other nodes together
	events chan []byte                 // of all other nodes
	ended  chan struct{}               // closed when one stream has ended
	once   sync.Once                   // for closing it
	stop   context.CancelFunc
}

// attachFar attaches a consumer at the other nodes that have shards of a queue. If one of them refuses, the consumer is
// attached nowhere: half an attachment would keep some of its chunks and lose others when it dies.
func (f *forwarding) attachFar(c echo.Context, q engine.Work) (*farAttachment, error) {
	s := f.dispersed(c, q)
	if s == nil || !f.whole(c) {
		return nil, nil
	}
	a := &farAttachment{nodes: f, shards: s.Names(), events: make(chan []byte), ended: make(chan struct{})}
	var err error
	if a.places, err = placesOf(c, a.shards, f.nodes.Lookup().Queue); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(c.Request().Context())
	a.stop = stop
	by, open := f.asker(c), map[string]bool{"": true}
	for _, at := range a.places {
		if open[at.URL] {
			continue
		}
		open[at.URL] = true
		p := &part{at: at, query: c.QueryParams()}
		if err := a.open(ctx, by, p); err != nil {
			stop()
			if p.err != nil {
				err = p.failure(f, c)
			}
			return nil, err
		}
	}
	return a, nil
}

// open attaches the consumer at one node, and takes that one's hello over.
func (a *farAttachment) open(ctx context.Context, by *asker, p *part) error {
	answer, err := by.open(ctx, p)
	if p.err = err; err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return &queue.Error{Code: queue.CodeMoving, Message: fmt.Sprintf("At %s the consumer could not attach: it "+
			"answers %s. Attach again in a moment.", p.name(), answer.Status)}
	}
	events := make(chan []byte)
	go func() {
		readEvents(ctx, answer.Body, events)
		answer.Body.Close()
		close(events)
	}()
	hello, is := helloOf(<-events)
	if !is {
		return &queue.Error{Code: queue.CodeMoving, Message: fmt.Sprintf("At %s the stream of the consumer ended at "+
			"once. Attach again in a moment.", p.name())}
	}
	a.hello.Epoch += hello.Epoch
	a.hello.Reserved += hello.Reserved
	a.hello.ConsumerGraceMS = hello.ConsumerGraceMS
	go func() {
		for event := range events {
			if !bytes.HasPrefix(event, []byte(":")) { // this node sends its own heartbeats
				deliver(ctx, a.events, event)
			}
		}
		a.end()
	}()
	return nil
}

// helloOf reads the first event of a stream. Until it is here the consumer is not attached, so the caller waits for it:
// a client must not hear of chunks that were taken from it before it hears how many the server knows.
func helloOf(event []byte) (hello api.Hello, is bool) {
	rest, is := bytes.CutPrefix(event, []byte("event: "+api.EventHello+"\ndata: "))
	return hello, is && json.Unmarshal(bytes.TrimSpace(rest), &hello) == nil
}

// end ends the whole stream. It may be called more than once, by several goroutines.
func (a *farAttachment) end() {
	a.once.Do(func() { close(a.ended) })
}

// come are the events of the other nodes.
func (a *farAttachment) come() <-chan []byte {
	if a == nil {
		return nil
	}
	return a.events
}

// over is closed when the stream of another node has ended.
func (a *farAttachment) over() <-chan struct{} {
	if a == nil {
		return nil
	}
	return a.ended
}

// moved says that a shard is at another node than at the beginning. It is asked with each heartbeat: a shard that had
// no owner at the beginning has no stream that could end.
func (a *farAttachment) moved() bool {
	if a == nil {
		return false
	}
	look := a.nodes.nodes.Lookup()
	for _, name := range a.shards {
		at := look.Queue(name)
		if at == nil {
			at = &engine.Elsewhere{}
		}
		if at.URL != a.places[name].URL {
			return true
		}
	}
	return false
}

// join adds the hellos of the other nodes to the notice of this node. Epochs add up, as those of the shards of one node
// do: the sum changes when one of them does, and a client looks only for a change.
func (a *farAttachment) join(n *engine.Notice) {
	if a == nil || !n.Hello {
		return
	}
	n.Epoch += a.hello.Epoch
	n.Held += a.hello.Reserved
	n.Grace = max(n.Grace, time.Duration(a.hello.ConsumerGraceMS)*time.Millisecond)
}

// close leaves the other nodes. For them the connection breaks, as it does for this one, so each of them waits for the
// consumer as long as its queue says.
func (a *farAttachment) close() {
	if a != nil {
		a.stop()
	}
}

// elsewhereOnly is the attachment at a node that has no shard of the queue. It greets once, so that the client hears
// `hello` from the others through it.
type elsewhereOnly struct{ greeted bool }

func (e *elsewhereOnly) Wake() <-chan struct{} { return nil }

func (e *elsewhereOnly) Next() engine.Notice {
	hello := !e.greeted
	e.greeted = true
	return engine.Notice{Hello: hello}
}

func (e *elsewhereOnly) Alive()     {}
func (e *elsewhereOnly) Close(bool) {}
