package web

// GET /v1/events: the numbers of queues for dashboards, once a second.
//
//	engine.Frame (one per queue and second, made by the engine's sampler)
//	     │ encode: JSON once per frame, for the first stream that asks
//	     ▼
//	encodedFrame ──► stream, stream, stream ...     the same bytes for all subscribers
//
// A thousand subscribers cost one encoding and a thousand writes. The topics `consumers` and
// `schedules` take longer to make; they are made for the first stream that wants them.
// A subscriber that falls behind gets the newest frame and is told how many it
// missed: no queue of frames grows for it.
//
// This file reads requests and encodes frames. events_stream.go follows them for one subscriber.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const eventsAbout = "Server-sent events about one queue or several; each event names its queue. First comes " +
	"`series`, with the points that the subscriber does not have yet. Then `stats` and `keys` come once per " +
	"second. On request, `consumers` comes with them, and `schedules` when a schedule has changed. Browsers " +
	"reconnect with the last id as Last-Event-ID: a stream of one queue then continues after it, and a stream of " +
	"several queues begins again. For a queue of several shards come the events of each shard, under its name, " +
	"such as `orders~2`. `closed` says which queue the stream does not follow, or no longer, and why. The " +
	"stream ends when no queue is left. If the server can follow none of the queues, it refuses the request. It " +
	"does not wait for a slow subscriber: it sends `skipped` with the number of missed frames, and then the newest " +
	"frame."

// events is shared by the streams: it has the frames of each queue as bytes, made by the first stream that asks.
type events struct {
	run string // names this run of the server in event ids: numbers start from 1 with every start

	mu      sync.Mutex
	encoded map[string]*encodedFrame // by queue
}

// encodedFrame is a frame as it goes out, by topic. It keeps its engine frame, to tell whether that is still the
// newest, and of the frame before only the schedules. If it kept the whole frame before, each would keep the one
// before it alive, and memory would grow for ever. It is immutable but for consumers and schedules, which guard
// themselves (lateTopic), so streams read it without a lock.
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

	// Both are off unless they are named: each costs a question to the engine for every frame.
	consumers, schedules bool

	// Of Last-Event-ID; both are 0 for a stream of several queues.
	last   uint64 // frame number that it has; 0: none
	lastAt queue.Time
}

// watching are the handlers of the dashboard's events.
type watching struct {
	engine  *engine.Engine
	streams *streams
	events  *events
	nodes   *forwarding
}

// routes are the part of the table about them.
func (w watching) routes(r *router) {
	r.raw(operation{id: "events", method: "GET", path: "/v1/events", scope: scopeRead, narrow: noTenants | inHandler,
		tag:     tagQueues,
		streams: true, spread: w.spread, summary: "Follow a queue's numbers", about: eventsAbout,
	}, eventsShape, w.getEvents)
}

// getEvents is GET /v1/events. It runs as long as the subscriber stays. Refusals come before the first byte, as
// ordinary answers with a status. From then on the only way to say something is an event.
func (w watching) getEvents(c echo.Context) error {
	in, err := w.parseEvents(c.Request())
	if err != nil {
		return err
	}
	out := newStream(w, c, in)
	if err := out.refused(); err != nil {
		return err
	}
	leave, err := w.streams.begin(c)
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

// parseEvents reads the query and the id of the last event that the subscriber has. It reads the query by hand,
// because a repeated queue parameter and a list of topics are more than huma can read.
func (w watching) parseEvents(r *http.Request) (in eventsRequest, err error) {
	in = eventsRequest{queues: []string{engine.DefaultQueue}, stats: true, keys: true}
	values, err := readQuery(r.URL.RawQuery)
	if err != nil {
		return in, err
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
	in.queues = w.shardsOf(in.queues)
	if len(in.queues) == 1 { // an id is a place in the stream of one queue
		// An id that cannot be read counts as none: browsers send back whatever they have, also after an update of
		// the server, and an error would keep them from reconnecting.
		in.last, in.lastAt = w.events.parseID(r.Header.Get("Last-Event-ID"))
	}
	return in, nil
}

// Whether the queues exist is not checked here: the stream asks for each frame (find), as they can also go later.
func (in *eventsRequest) parseQueues(given []string) error {
	in.queues = nil
	for _, name := range given {
		switch {
		case slices.Contains(in.queues, name):
		case len(in.queues) == queue.MaxQueues:
			return queue.Invalid("/query/queue", "names more than %d queues, the most that a server has",
				queue.MaxQueues)
		default:
			in.queues = append(in.queues, name)
		}
	}
	return nil
}

// shardsOf has the shards of a queue in its place: each has numbers and frames of its own. A shard that does not serve
// is closed in the stream, with the reason, and the others go on.
func (w watching) shardsOf(queues []string) (all []string) {
	for _, name := range queues {
		count := w.engine.ShardsOf(name)
		if count == 0 && !slices.Contains(all, name) {
			all = append(all, name)
		}
		for number := 1; number <= count; number++ {
			if shard := queue.ShardName(name, number); !slices.Contains(all, shard) {
				all = append(all, shard)
			}
		}
	}
	return all
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

// eventID is RUN-NUMBER-TIME. An id of another run of the server is as good as none. Base 36 keeps it short: it is
// sent with every event. The time is in it to find the points of the series that come after it.
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

// encode gives a frame's bytes. The first stream that asks makes them, and holds the lock, so that they are made once.
// A stream that is late may come with an older frame than the one that is known. It is then encoded again, and the
// next stream with the newest frame does the same: rare, and never wrong.
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

// lastSchedules are those of this frame, or, while no stream has asked for them, of the one before. ready is set
// behind the body, so one that is being made counts as not there, and is not waited for.
func (f *encodedFrame) lastSchedules() *lateTopic {
	if f.schedules.ready.Load() {
		return f.schedules
	}
	return f.before
}

// event writes one event. JSON has no line breaks, so that data is one line. The events of one frame share its id.
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
		listParam("topics", "Only these events; repeated or comma-separated. Without it, stats and keys.",
			eventTopics...),
		&huma.Param{Name: "Last-Event-ID", In: "header", Description: "Id of the last event that the subscriber has",
			Schema: text})
	op.Responses["200"] = &huma.Response{Description: "Events until the subscriber leaves: series (Series), stats " +
		"(StatsFrame), keys (KeysFrame), consumers (ConsumersFrame), schedules (SchedulesFrame), skipped (Skipped), " +
		"closed (Closed)",
		Content: map[string]*huma.MediaType{contentEvents: d.lines(eventData,
			reflect.TypeFor[api.StatsFrame](), reflect.TypeFor[api.KeysFrame](), reflect.TypeFor[api.ConsumersFrame](),
			reflect.TypeFor[api.SchedulesFrame](), reflect.TypeFor[api.Skipped](), reflect.TypeFor[api.Closed](),
			reflect.TypeFor[api.Series]())}}
}

// The topics consumers and schedules are not in a queue's frame: they cost nothing while
// no one watches them. The first stream that wants such a topic makes it for a frame,
// outside of the lock that the streams share, and all other streams of the queue send the
// same bytes.

// topicPatience bounds the reading of one topic for a frame. The frame is of use for one second only; more than a few
// missed ones show an operator that something is wrong.
const topicPatience = 5 * time.Second

// lateTopic is a topic of one frame. An error is kept like a result: it ends all streams that want the topic of this
// frame, and their clients come back to a new one.
type lateTopic struct {
	once  sync.Once
	body  []byte // JSON, to tell whether anything changed
	event []byte
	err   error
	ready atomic.Bool // other goroutines may read the fields above
}

// made gives the topic's event, and makes it if needed. If the topic says the same as
// in the frame before, it is that frame's event, and subscribers that had it do not get
// it again.
func (t *lateTopic) made(e *events, name string, f *engine.Frame, before *lateTopic,
	read func(context.Context) (any, error)) ([]byte, error) {
	t.once.Do(func() {
		defer t.ready.Store(true)
		// not the subscriber's: others wait for the same
		ctx, cancel := context.WithTimeout(context.Background(), topicPatience)
		defer cancel()
		data, err := read(ctx)
		if err == nil {
			t.body, err = json.Marshal(data)
		}
		if err != nil {
			t.err = fmt.Errorf("web: event %s: %w", name, err)
			return
		}
		if before != nil && bytes.Equal(before.body, t.body) {
			t.body, t.event = before.body, before.event
			return
		}
		t.event, t.err = e.event(name, f, json.RawMessage(t.body))
	})
	return t.event, t.err
}

// consumersFrame is the frame of the topic consumers: the consumers that an operator
// looks for come first.
func (w watching) consumersFrame(ctx context.Context, queueName string, f *engine.Frame) (any, error) {
	q, err := w.engine.Queue(queueName)
	if err != nil {
		return nil, err
	}
	top, sums, err := q.Consumers.Top(ctx, api.MaxFrameConsumers)
	if err != nil {
		return nil, err
	}
	out := api.ConsumersFrame{
		Queue: queueName, At: f.At.API(), Consumers: sums.Consumers, Attached: sums.Attached, Overdue: sums.Overdue,
		Whole: sums.Whole,
		Top:   make([]api.Consumer, len(top)), Left: sums.Consumers - len(top),
	}
	for i := range top {
		out.Top[i] = apiConsumer(&top[i])
	}
	return out, nil
}

// schedulesFrame is the frame of the topic schedules: the changing part of each schedule, the next due first. Names
// decide between equal times, so that equal contents are equal bytes, and are not sent again.
func (w watching) schedulesFrame(_ context.Context, queueName string, _ *engine.Frame) (any, error) {
	q, err := w.engine.Queue(queueName)
	if err != nil {
		return nil, err
	}
	page, err := q.Schedules.List("", queue.MaxSchedules)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(page.Items, func(a, b queue.ScheduleInfo) int {
		switch {
		// 0 is "never": such schedules come last, not first.
		case (a.Next == 0) != (b.Next == 0):
			if b.Next == 0 {
				return -1
			}
			return 1
		case a.Next != b.Next:
			if a.Next < b.Next {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	out := api.SchedulesFrame{Queue: queueName, Left: max(0, len(page.Items)-api.MaxFrameSchedules),
		Items: []api.ScheduleNow{}}
	for i := range page.Items[:min(len(page.Items), api.MaxFrameSchedules)] {
		in := &page.Items[i]
		one := api.ScheduleNow{
			Name: in.Name, Version: in.Version, State: in.State.String(), Reason: in.Reason, NextAt: nextOf(in),
			LastAt: in.Last.API(), WaitingAt: in.Waiting.API(),
			Emitted: in.Emitted, SkippedMissed: in.Missed, SkippedLate: in.Late, SkippedOverlap: in.Overlapped,
		}
		// 0 is no id; the text "0" would look like one.
		if in.LastID != 0 {
			one.LastSubmission = in.LastID.String()
		}
		for _, e := range in.Recent {
			if e.State == queue.Open {
				one.Open++
			}
		}
		if n := len(in.Recent); n > 0 {
			one.Newest, one.NewestState = in.Recent[n-1].ID.String(), in.Recent[n-1].State.String()
		}
		out.Items = append(out.Items, one)
	}
	return out, nil
}
