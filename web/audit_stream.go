package web

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
)

// auditOverlap is how far back a stream of the audit log looks each time: entries of different
// queues become visible in the order of their commits, which is not quite that of their times.
const auditOverlap = 10 * time.Second

// auditPatience is how far back a stream looks while the node of a queue does not answer: its entries come when it
// does again, or when another node has the queue.
const auditPatience = time.Minute

// auditBatch is how many entries a stream reads and sends at once.
const auditBatch = 200

// auditStream is one subscriber of the audit log. It reads the log in passes, each in
// batches from settled to the time at which it began. A pass goes no further, as an entry
// of its own time may become visible after a later one was read: the next pass sends that.
type auditStream struct {
	page    func(f engine.AuditFilter, cursor string, limit int) (engine.AuditPage, error)
	clock   *clock
	filter  engine.AuditFilter
	batch   int
	settled queue.Time      // all entries from before this time are dealt with
	known   map[string]bool // cursors of the entries from then on that are dealt with
	begun   queue.Time      // when the pass began
	cursor  string          // how far the pass has come; "": it is done
	lacks   []string        // queues whose latest entries the pass may lack
}

var always = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// followAudit sends entries as they come, until the client leaves or the server stops. It
// looks once a second, at the pace of frames.
func (x auditing) followAudit(c echo.Context, in auditRequest) error {
	for _, name := range []string{"cursor", "limit", "until"} {
		if c.QueryParams().Has(name) {
			return queue.Invalid("/query/"+name,
				"does not go with a stream of events, which has no pages and no end: leave it out")
		}
	}
	stream, err := x.newAuditStream(c.Request().Context(), in, c.Request().Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	// The first batch is read before the answer begins: a client that comes back to a
	// damaged log gets an error.
	events := stream.place()
	first, err := stream.next()
	if err != nil {
		return err
	}
	noteLacks(c, stream.lacks)
	leave, err := x.streams.begin(c)
	if err != nil {
		return err
	}
	defer leave()
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	for events = append(events, first...); ; {
		if len(events) > 0 && x.streams.send(c, events) != nil {
			return nil
		}
		wait := x.engine.Sampled()
		if stream.cursor != "" {
			wait = always
		}
		select {
		case <-c.Request().Context().Done():
			return nil
		case <-alive.C:
			events = stream.place()
		case <-wait:
			if events, err = stream.next(); err != nil {
				if !engine.Damaged(err) {
					// the client comes back with the id of the last event, to a server
					// that may have restarted
					return nil
				}
				x.streams.fail(c, err) // a client that came back would meet it again, and again
				return err
			}
		}
	}
}

// newAuditStream begins at the time that the filter asks for, now without one, or where a
// stream ended whose last id is `last`. Which of the entries of about that time the
// subscriber has cannot be told from the id, as they did not come in the order of their
// times: all but that one are sent again, and none is missed.
func (x auditing) newAuditStream(ctx context.Context, in auditRequest, last string) (*auditStream, error) {
	a := &auditStream{clock: x.clock, filter: in.filter, batch: auditBatch, settled: in.filter.Since,
		known: map[string]bool{}}
	a.page = func(f engine.AuditFilter, cursor string, limit int) (engine.AuditPage, error) {
		return x.page(ctx, f, cursor, limit)
	}
	if last != "" {
		at, err := engine.AuditTime(last)
		a.settled, a.known[last] = max(a.settled, at.Add(-auditOverlap)), true
		return a, err
	}
	if a.settled != 0 {
		return a, nil
	}
	a.settled = queue.At(a.clock.now()).Add(-auditOverlap)
	for more := true; more; more = a.cursor != "" {
		if _, err := a.next(); err != nil { // what is there already is not sent
			return nil, err
		}
	}
	return a, nil
}

// place tells the client that the stream lives, and when no pass is under way where a
// stream begins that goes on after this one: at settled, also when no entry was sent yet.
func (a *auditStream) place() []byte {
	if a.cursor != "" {
		return []byte(": alive\n\n")
	}
	return []byte("id: " + engine.AuditCursor(a.settled.Add(auditOverlap)) + "\n: alive\n\n")
}

// next is a batch of what the subscriber lacks, as events, the oldest first. It begins a
// pass when none is under way.
func (a *auditStream) next() (events []byte, err error) {
	filter := a.filter
	filter.OldestFirst = true
	if a.cursor == "" {
		a.begun, a.lacks = queue.At(a.clock.now()), nil
		// else nothing is sent until a clock that was set back is where it was
		a.settled = min(a.settled, a.begun.Add(-auditOverlap))
		a.cursor = engine.AuditCursor(a.settled)
	}
	if end := a.begun + 1; filter.Until == 0 || end < filter.Until {
		filter.Until = end
	}
	page, err := a.page(filter, a.cursor, a.batch)
	if err != nil {
		return nil, err
	}
	if len(page.Lacks) > 0 {
		a.lacks = page.Lacks
	}
	for _, entry := range page.Items {
		if a.known[entry.Cursor] {
			continue
		}
		if entry.At >= a.begun.Add(-auditPatience) {
			a.known[entry.Cursor] = true
		}
		data, err := json.Marshal(apiAuditEntry(&entry.Act))
		if err != nil {
			return nil, err
		}
		events = append(append(events, "event: act\nid: "+entry.Cursor+"\ndata: "...), data...)
		events = append(events, "\n\n"...)
	}
	if a.cursor = page.Next; a.cursor == "" {
		overlap := auditOverlap
		if len(a.lacks) > 0 {
			overlap = auditPatience
		}
		a.settled = max(a.settled, a.begun.Add(-overlap))
		maps.DeleteFunc(a.known, func(cursor string, _ bool) bool {
			at, _ := engine.AuditTime(cursor)
			return at < a.settled
		})
	}
	return events, nil
}
