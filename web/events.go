package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	contentEvents = "text/event-stream"

	// maxSubscribers bounds the open event streams: some 30 KB each.
	maxSubscribers = 1000
	maxOwnStreams  = maxSubscribers / 4 * 3 // of one access token, so that others can look too

	// heartbeat is how often a stream without news says that it lives, for proxies that cut what is silent.
	heartbeat = 15 * time.Second

	eventsAbout = "Server-sent events about one queue or several, each of which names its queue: `series` first, with the points " +
		"that the subscriber does not have yet, then once a second `stats` and `keys`, and `consumers` and `schedules` for who " +
		"names these topics; schedules only when something changed. " +
		"All subscribers of a queue are sent the same bytes. The id of an event goes back in Last-Event-ID, as " +
		"browsers do by themselves: the stream of one queue then continues " +
		"with the points after it, and a stream of several begins again. `closed` says of a queue that it is followed no longer, or " +
		"was not from the beginning, and why: when none is left the stream ends, and a request that names none that can be " +
		"followed is refused. A subscriber that is too slow is not waited for: it gets the newest frame, and " +
		"before it `skipped` with how many it missed."
)

// events is what the streams share: the frames of each queue as bytes, made by the first stream that asks.
type events struct {
	run string // names this run of the server in event ids: numbers start from 1 with every start

	mu          sync.Mutex
	subscribers int
	of          map[access.ID]int        // the subscribers of each access token
	encoded     map[string]*encodedFrame // by queue
}

// encodedFrame is a frame as it goes out, by topic.
type encodedFrame struct {
	of          *engine.Frame
	stats, keys []byte

	consumers lateTopic
	schedules *lateTopic // by itself: the frame after it compares with it, and must not keep all of this
	before    *lateTopic // the schedules of the frame before
}

// eventsRequest is what a subscriber asked for.
type eventsRequest struct {
	queues      []string
	stats, keys bool

	consumers, schedules bool

	last   uint64 // frame number that it has; 0: none
	lastAt queue.Time
}

// watching are the handlers of the dashboard's events.
type watching struct{ *Server }

// getEvents is GET /v1/events. It runs as long as the subscriber stays.
func (s watching) getEvents(c echo.Context) error {
	in, err := s.parseEvents(c.Request())
	if err != nil {
		return err
	}
	out := newStream(s.Server, c, in)
	if err := out.refused(); err != nil {
		return err
	}
	leave, err := s.beginEvents(c)
	if err != nil {
		return err
	}
	defer leave()
	if err := out.begin(); err != nil {
		return nil // the subscriber is gone: no one is left to tell
	}
	out.follow()
	return nil
}

// beginEvents answers with a stream of events, for which there must be room. leave ends it.
func (s *Server) beginEvents(c echo.Context) (leave func(), err error) {
	var by access.ID
	if token := access.Of(c.Request().Context()).Token; token != nil {
		by = token.ID
	}
	if !s.events.enter(by) {
		return nil, newProblem(queue.CodeOverloaded, fmt.Sprintf("%d event streams are open, the most this server serves, "+
			"or %d of this access token. Close one.", maxSubscribers, maxOwnStreams))
	}
	w := c.Response()
	s.waitLonger(w, 0)
	if !s.waits.enter(w, s.credentialOf(c.Request())) {
		s.events.leave(by)
		return nil, newProblem(queue.CodeUnavailable, "The server stops.")
	}
	w.Header().Set("Content-Type", contentEvents)
	w.Header().Set("X-Accel-Buffering", "no") // of proxies that would hold events back
	w.WriteHeader(http.StatusOK)
	return func() {
		s.waits.leave(w)
		s.events.leave(by)
	}, nil
}

// parseEvents reads the query and the id of the last event that the subscriber has.
func (s watching) parseEvents(r *http.Request) (in eventsRequest, err error) {
	in = eventsRequest{queues: []string{engine.DefaultQueue}, stats: true, keys: true}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return in, queue.Invalid("/query", "is not well formed")
	}
	for name, given := range values {
		switch {
		case name != "queue" && name != "topics":
			return in, queue.Invalid("/query/"+api.EscapePointer(name), "is not a parameter of this operation")
		case name == "topics":
			err = in.parseTopics(given)
		default:
			err = in.parseQueues(given)
		}
		if err != nil {
			return in, err
		}
	}
	if len(in.queues) == 1 { // an id is a place in the stream of one queue
		in.last, in.lastAt = s.events.parseID(r.Header.Get("Last-Event-ID"))
	}
	return in, nil
}

func (in *eventsRequest) parseQueues(given []string) error {
	in.queues = nil
	for _, name := range given {
		switch {
		case slices.Contains(in.queues, name):
		case len(in.queues) == queue.MaxQueues:
			return queue.Invalid("/query/queue", "names more than %d queues, the most that a server has", queue.MaxQueues)
		default:
			in.queues = append(in.queues, name)
		}
	}
	return nil
}

var eventTopics = []string{"stats", "keys", "consumers", "schedules"}

// parseTopics reads which events are wanted: names that are repeated, comma-separated or both.
func (in *eventsRequest) parseTopics(given []string) error {
	in.stats, in.keys = false, false
	for topic := range strings.SplitSeq(strings.Join(given, ","), ",") {
		i := slices.Index(eventTopics, topic)
		if i < 0 {
			return queue.Invalid("/query/topics", "must be of %s",
				strings.Join(eventTopics, ", "))
		}
		*[]*bool{&in.stats, &in.keys, &in.consumers, &in.schedules}[i] = true
	}
	return nil
}

// eventID is RUN-NUMBER-TIME. An id of another run of the server is as good as none.
func (e *events) eventID(f *engine.Frame) string {
	return e.run + "-" + strconv.FormatUint(f.Number, 36) + "-" + strconv.FormatInt(int64(f.At), 36)
}

func (e *events) parseID(id string) (number uint64, at queue.Time) {
	rest, ours := strings.CutPrefix(id, e.run+"-")
	first, second, two := strings.Cut(rest, "-")
	if !ours || !two {
		return 0, 0
	}
	number, err := strconv.ParseUint(first, 36, 63)
	millis, err2 := strconv.ParseInt(second, 36, 63)
	if errors.Join(err, err2) != nil || millis < 0 {
		return 0, 0
	}
	return number, queue.Time(millis)
}

// enter counts a subscriber in, by its access token ("": none is needed); false: there are as many as may be.
func (e *events) enter(by access.ID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.subscribers >= maxSubscribers || by != "" && e.of[by] >= maxOwnStreams {
		return false
	}
	if e.of == nil {
		e.of = map[access.ID]int{}
	}
	e.subscribers++
	e.of[by]++
	return true
}

// count is how many streams are open.
func (e *events) count() float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return float64(e.subscribers)
}

func (e *events) leave(by access.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.subscribers--
	if e.of[by]--; e.of[by] == 0 {
		delete(e.of, by)
	}
}

// encode gives a frame's bytes. The first who asks makes them; the lock is held meanwhile, so that they are made once.
func (e *events) encode(queueName string, f *engine.Frame) (*encodedFrame, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known := e.encoded[queueName]; known != nil && known.of == f {
		return known, nil
	}
	stats, err := e.event(api.EventStats, f, &f.Stats)
	if err != nil {
		return nil, err
	}
	keys, err := e.event(api.EventKeys, f, &f.Keys)
	if err != nil {
		return nil, err
	}
	if e.encoded == nil || len(e.encoded) > queue.MaxQueues {
		e.encoded = map[string]*encodedFrame{} // of queues that are gone
	}
	made := &encodedFrame{of: f, stats: stats, keys: keys, schedules: new(lateTopic)}
	if known := e.encoded[queueName]; known != nil {
		made.before = known.lastSchedules()
	}
	e.encoded[queueName] = made
	return made, nil
}

// lastSchedules are those of this frame, or, while no stream has asked for them, of the one before.
func (f *encodedFrame) lastSchedules() *lateTopic {
	if f.schedules.ready.Load() {
		return f.schedules
	}
	return f.before
}

// event writes one event. JSON has no line breaks, so that data is one line.
func (e *events) event(name string, f *engine.Frame, data any) ([]byte, error) {
	body, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("web: event %s: %w", name, err)
	}
	out := append([]byte("event: "+name+"\n"), "id: "+e.eventID(f)+"\ndata: "...)
	return append(append(out, body...), "\n\n"...), nil
}

const eventData = "Each event's data is one line of JSON"

// eventsShape documents the stream.
func eventsShape(d *document, op *huma.Operation) {
	text := &huma.Schema{Type: huma.TypeString}
	queues := queryParam("queue", "Name of a queue; repeated for several. Without it, default.",
		&huma.Schema{Type: huma.TypeArray, Items: text, MaxItems: new(queue.MaxQueues)})
	queues.Explode = new(true)
	op.Parameters = append(op.Parameters, queues,
		listParam("topics", "Only these events; repeated or comma-separated. Without it, stats and keys.", eventTopics...),
		&huma.Param{Name: "Last-Event-ID", In: "header", Description: "Id of the last event that the subscriber has", Schema: text})
	op.Responses["200"] = &huma.Response{Description: "Events until the subscriber leaves: series (Series), stats " +
		"(StatsFrame), keys (KeysFrame), consumers (ConsumersFrame), schedules (SchedulesFrame), skipped (Skipped), closed (Closed)",
		Content: map[string]*huma.MediaType{contentEvents: d.lines(eventData,
			reflect.TypeFor[api.StatsFrame](), reflect.TypeFor[api.KeysFrame](), reflect.TypeFor[api.ConsumersFrame](),
			reflect.TypeFor[api.SchedulesFrame](), reflect.TypeFor[api.Skipped](), reflect.TypeFor[api.Closed](),
			reflect.TypeFor[api.Series]())}}
}
