package web

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
)

// auditOverlap is how far back a stream of the audit log looks each time: entries of different queues become visible in the order of
// their commits, which is not quite that of their times.
const auditOverlap = 10 * time.Second

// auditStream is one subscriber of the audit log.
type auditStream struct {
	server *Server
	filter engine.AuditFilter
	from   queue.Time      // entries from this time on are looked at
	known  map[string]bool // cursors from then on that the subscriber has, or that were there before it came
}

// followAudit sends entries as they come, until the client leaves or the server stops. It looks once a second, at the pace of frames.
func (s *Server) followAudit(c echo.Context, in auditRequest) error {
	stream, err := s.newAuditStream(in, c.Request().Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	leave, err := s.beginEvents(c)
	if err != nil {
		return err
	}
	defer leave()
	send := func(event []byte) bool { return s.sendEvent(c, event) == nil }
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	for open := send([]byte(": hello\n\n")); open; {
		_, next, err := s.engine.Frame(engine.DefaultQueue)
		if err != nil {
			return nil
		}
		events, err := stream.next(queue.At(s.now()))
		if err != nil {
			return nil // the client comes back with the id of the last event
		}
		if len(events) > 0 && !send(events) {
			return nil
		}
		select {
		case <-next:
		case <-alive.C:
			open = send([]byte(": alive\n\n"))
		case <-c.Request().Context().Done():
			return nil
		}
	}
	return nil
}

// newAuditStream begins now, or where one ended that sent the entry with the cursor last. Which of the entries of about its time the
// subscriber has cannot be told from that one, as they did not come in the order of their times: all but the last are
// sent again, and none is missed.
func (s *Server) newAuditStream(in auditRequest, last string) (*auditStream, error) {
	a := &auditStream{server: s, filter: in.filter, known: map[string]bool{}}
	if last != "" {
		at, err := engine.AuditTime(last)
		a.from, a.known[last] = at.Add(-auditOverlap), true
		return a, err
	}
	a.from = queue.At(s.now()).Add(-auditOverlap)
	_, err := a.fresh()
	return a, err
}

// next is what came since the last time, as events, the oldest first.
func (a *auditStream) next(now queue.Time) (events []byte, err error) {
	fresh, err := a.fresh()
	for _, entry := range slices.Backward(fresh) {
		data, err := json.Marshal(apiAuditEntry(&entry.Act))
		if err != nil {
			return nil, err
		}
		events = append(append(events, "event: act\nid: "+entry.Cursor+"\ndata: "...), data...)
		events = append(events, "\n\n"...)
	}
	a.from = max(a.from, now.Add(-auditOverlap))
	for cursor := range a.known {
		if at, _ := engine.AuditTime(cursor); at < a.from {
			delete(a.known, cursor)
		}
	}
	return events, err
}

// fresh lists what is not known yet, the latest first, and knows it from then on.
func (a *auditStream) fresh() (list []engine.AuditEntry, err error) {
	filter := a.filter
	filter.Since = max(filter.Since, a.from)
	for cursor, more := "", true; more; more = cursor != "" {
		page, err := a.server.engine.Audit(filter, cursor, auditPage)
		if err != nil {
			return nil, err
		}
		for _, entry := range page.Items {
			if !a.known[entry.Cursor] {
				a.known[entry.Cursor] = true
				list = append(list, entry)
			}
		}
		cursor = page.Next
	}
	return list, nil
}
