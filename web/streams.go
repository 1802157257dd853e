package web

// Answers that go on for as long as the client stays share this code: for their room, their
// headers, their writes, and their end.
//
// A stream ends for one of four reasons: its client leaves, its token or session ends (waits.end),
// the server stops, or one write takes longer than patience.write. So begin counts it, and
// registers it with waits, and send sets a deadline for each write.

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
)

const (
	contentEvents = "text/event-stream"

	// maxSubscribers bounds the open event streams: some 30 KB each.
	maxSubscribers = 1000
	maxOwnStreams  = maxSubscribers / 4 * 3 // of one access token, so that others can look too

	// heartbeat is how often a stream without news says that it lives, for proxies that cut silent connections.
	heartbeat = 15 * time.Second
)

// streams are the answers that go on: events, for as long as the client stays, and content
// that is sent as fast as its reader takes it.
type streams struct {
	auth    *auth
	clock   *clock
	waits   *waits
	answers *answers
	reading chan struct{} // has as many as read ends for a stream now

	mu          sync.Mutex
	subscribers int               // of events
	of          map[access.ID]int // the subscribers of each access token
}

// begin answers with a stream of events, for which there must be room. leave ends it.
func (s *streams) begin(c echo.Context) (leave func(), err error) {
	out, err := s.admit(c)
	if err != nil {
		return nil, err
	}
	end, err := s.start(c)
	if err != nil {
		out()
		return nil, err
	}
	return func() {
		end()
		out()
	}, nil
}

// admit counts a stream of events, for which there must be room, and answers nothing yet. out ends that.
func (s *streams) admit(c echo.Context) (out func(), err error) {
	var by access.ID
	if token := access.Of(c.Request().Context()).Token; token != nil {
		by = token.ID
	}
	if !s.enter(by) {
		return nil, newProblem(queue.CodeOverloaded,
			fmt.Sprintf("%d event streams are open, the most this server serves, "+
				"or %d of this access token. Close one.", maxSubscribers, maxOwnStreams))
	}
	return func() { s.leave(by) }, nil
}

// start answers with a stream of events that is not counted. end ends it. Streams of consumers come this way: they
// are bounded by the limits of consumers, and must not compete with dashboards for room.
func (s *streams) start(c echo.Context) (end func(), err error) {
	w := c.Response()
	if !s.waits.enter(w, s.auth.credentialOf(c.Request()), 0) {
		return nil, newProblem(queue.CodeUnavailable, "The server stops.")
	}
	w.Header().Set("Content-Type", contentEvents)
	w.Header().Set("X-Accel-Buffering", "no") // of proxies that would hold events back
	w.WriteHeader(http.StatusOK)
	return func() { s.waits.leave(w) }, nil
}

// enter counts a subscriber in, by its access token ("": none is needed); false: there are
// as many as may be.
func (s *streams) enter(by access.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribers >= maxSubscribers || by != "" && s.of[by] >= maxOwnStreams {
		return false
	}
	if s.of == nil {
		s.of = map[access.ID]int{}
	}
	s.subscribers++
	s.of[by]++
	return true
}

// count is how many streams are open.
func (s *streams) count() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(s.subscribers)
}

func (s *streams) leave(by access.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers--
	if s.of[by]--; s.of[by] == 0 {
		delete(s.of, by)
	}
}

// send writes an event, or several, at once. A subscriber that does not read has the time of an ordinary answer, then
// its stream ends; meanwhile it holds nothing but its place. The event counts only while it is written. So a thousand
// streams that are asleep hold no memory of the budget for answers.
func (s *streams) send(c echo.Context, event []byte) error {
	answer := access.Of(c.Request().Context()).Answer
	if err := answer.Hold(int64(len(event))); err != nil {
		return err // the stream ends, and its client comes back
	}
	defer func() { _ = answer.Hold(0) }() // less always fits
	control := http.NewResponseController(c.Response())
	_ = control.SetWriteDeadline(s.clock.wall().Add(s.clock.patience.write))
	if _, err := c.Response().Write(event); err != nil {
		return err
	}
	return control.Flush()
}

// fail tells the client why its stream ends. The status went out long before, so the problem is an event.
func (s *streams) fail(c echo.Context, err error) {
	p := s.answers.problemOf(err)
	p.RequestID = c.Response().Header().Get(headerRequestID)
	data, err := json.Marshal(p)
	if err != nil {
		data = []byte(`{"title":"Internal error","status":500,"code":"internal"}`)
	}
	// a client that is gone needs none
	_ = s.send(c, append(append([]byte("event: problem\ndata: "), data...), "\n\n"...))
}
