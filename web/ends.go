package web

// GET /v1/queues/{queue}/ends: each submission's end, once, in the order in which the ends became
// durable.
//
// The id of an event is the place of the end: the position of the batch in the journal and a number
// in it, with the shard and the epoch (queue.EndID). A client stores the id together with what it
// did about the end, and comes back with it after any failure, its own or the server's. So the
// stream needs no state on the server.
//
//	id ──► next: engine.Ends.After(id) ──► events with their ids ──► id of the last one
//	         │ Ends.Since(id): a restore has lost ends that the client has               ──► event gap
//	         │ page.Gone > id: retention has removed ends that the client lacks          ──► event gap
//
// A tenant must not learn from ids how much others do, so its ids are sealed (engine.PlaceSealer).
// The id of an event is always the same, so that clients can compare. An id without an event is
// salted and differs each time.

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const endsAbout = "One event `end` per submission that ends, with the submission as its data, in the order in " +
	"which the ends became durable. `meta.KEY`, `state` and `schedule` filter them as in a list. The stream begins " +
	"after `Last-Event-ID`, or after `after`: the id of an event, `0` for all ends that the queue's retention " +
	"kept, or `now`, the default. A client that returns with the id of its last event misses no end and gets none " +
	"twice. If a redrive reopened a submission, the client gets the submission's last end. If retention has " +
	"removed ends after that id, or a restore has lost ends that the client has, an event `gap` comes first. " +
	"Events without data move the id on while nothing matches. When the queue is deleted, the stream ends with an " +
	"event `problem`. A queue of several shards has the ends of each shard in their order, and its stream ends with " +
	"`problem` when a shard does not serve any more."

const (
	// endsBatch is how many ends a stream reads and sends at once.
	endsBatch = 200
	// endsReaders is how many streams read a batch at the same time. Meanwhile its size is not known, so it does not
	// count as an answer.
	endsReaders = 4
)

// following are the handlers of streams of ends.
type following struct {
	engine  *engine.Engine
	streams *streams
}

// routes are the part of the table about ends.
func (f following) routes(r *router) {
	r.raw(operation{id: "follow-ends",
		shards: endsOverShards,
		method: "GET", path: "/v1/queues/{queue}/ends", scope: scopeRead,
		narrow: inQueue | inHandler, tag: tagSubmissions, freeform: true, streams: true,
		summary: "Follow the ends of submissions", about: endsAbout, params: append(endsList().document(), lastEnd())},
		endsShape, f.ends)
}

// endsRequest says which ends are meant, and behind which event the stream begins.
type endsRequest struct {
	engine.ListRequest
	after string
}

// endsList are the parameters of the stream.
func endsList() (list parameters[endsRequest]) {
	ended := slices.DeleteFunc(queue.SubmissionStateNames(),
		func(name string) bool { return name == queue.Open.String() })
	for _, p := range submissionFilter(ended...) {
		list = append(list, parameter[endsRequest]{Param: p.Param,
			read: func(to *endsRequest, name, given string) error { return p.read(&to.ListRequest, name, given) }})
	}
	return append(list, textParameter("after", "Id of the event to begin after, 0, or now", 0,
		func(r *endsRequest) *string { return &r.after }))
}

func lastEnd() *huma.Param {
	return &huma.Param{Name: "Last-Event-ID", In: "header", Schema: &huma.Schema{Type: huma.TypeString},
		Description: "The id of the last event that the client has; it overrides after"}
}

func endsShape(d *document, op *huma.Operation) {
	op.Parameters = append([]*huma.Param{{Name: "queue", In: "path", Required: true, Description: "Name of the queue",
		Schema: &huma.Schema{Type: huma.TypeString}}}, op.Parameters...)
	op.Responses["200"] = &huma.Response{
		Description: "Events until the client leaves: end (Submission), gap (EndsGap), problem (Problem)",
		Content: map[string]*huma.MediaType{contentEvents: d.lines(eventData,
			reflect.TypeFor[api.Submission](), reflect.TypeFor[api.EndsGap](), reflect.TypeFor[api.Problem]())}}
}

// endStream is one follower of the ends of a queue.
type endStream struct {
	of     *engine.Ends
	shards shards
	filter engine.EndFilter
	place  queue.EndID         // the follower has all ends up to here
	all    bool                // it began with all ends that are kept: ends that are no longer kept are no gap
	gone   queue.EndID         // up to here it heard of removed ends
	sealer *engine.PlaceSealer // of a tenant's stream; nil: the follower may know the places
}

// ends is GET /v1/queues/{queue}/ends. It runs as long as the client stays.
func (f following) ends(c echo.Context) error {
	name := c.Param("queue")
	q, err := f.engine.Queue(name)
	if err != nil {
		return err
	}
	ends := q.Ends()
	stream, err := f.newEndStream(ends, c.Request())
	if err != nil {
		return err
	}
	wake, gone := ends.Follow()
	defer gone()
	leave, err := f.streams.begin(c)
	if err != nil {
		return err
	}
	defer leave()
	ctx := c.Request().Context()
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	if f.streams.send(c, stream.alive()) != nil { // so that the client has a place to come back to
		return nil
	}
	for {
		events, more, err := f.read(c, stream)
		if _, there := f.engine.Queue(name); there != nil && err != nil {
			f.streams.fail(c, there) // the queue was deleted
			return nil
		}
		if engine.Damaged(err) {
			f.streams.fail(c, err) // a client that came back would meet it again, and again
			return err
		}
		if err != nil || len(events) > 0 && f.streams.send(c, events) != nil {
			return nil // the server stops, or the client has gone: it comes back with the id of the last event
		}
		if more && ctx.Err() == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-alive.C:
			if f.streams.send(c, stream.alive()) != nil {
				return nil
			}
		}
	}
}

// read reads the next batch of a stream, and has it count as an answer until it is sent.
func (f following) read(c echo.Context, stream *endStream) (events []byte, more bool, err error) {
	ctx := c.Request().Context()
	select {
	case f.streams.reading <- struct{}{}:
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	defer func() { <-f.streams.reading }()
	if events, more, err = stream.next(c); err == nil {
		err = access.Of(ctx).Answer.Hold(int64(len(events)))
	}
	return events, more, err
}

// newEndStream reads a request.
func (f following) newEndStream(ends *engine.Ends, r *http.Request) (*endStream, error) {
	asked := endsRequest{after: "now"}
	if err := endsList().read(r.URL.RawQuery, &asked); err != nil {
		return nil, err
	}
	list, where, from := asked.ListRequest, "/query/after", asked.after
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		where, from = "/header/Last-Event-ID", last
	}
	s := &endStream{of: ends, shards: f.engine, filter: engine.EndFilter{States: list.States,
		Meta: ownMeta(r.Context(), list.Meta), Schedule: list.Schedule}}
	if tenantOf(r.Context()) != nil {
		sealer := f.engine.Sealer()
		s.sealer = &sealer
	}
	if from == "now" {
		s.place = ends.Last()
		return s, nil
	}
	if !s.begin(from) {
		return nil, queue.Invalid(where,
			"must be the id of an event of this stream, such as 1-3-1234-56, or 0 for all that is kept, or now")
	}
	return s, nil
}

// begin sets where the stream begins: behind the id of an event, or with 0.
func (f *endStream) begin(from string) (ok bool) {
	if f.sealer != nil {
		if f.place, ok = f.sealer.Open(from); ok {
			return true
		}
	}
	f.place, ok = queue.ParseEndID(from)
	if f.sealer != nil { // an id of another token's stream would reveal the places of others
		f.place = queue.EndID{}
	}
	f.all = f.place == queue.EndID{}
	return ok
}

// alive tells the client that the stream lives, and where it is.
func (f *endStream) alive() []byte { return []byte("id: " + f.passing(f.place) + "\n: alive\n\n") }

// id is the id of an event at a place: always the same.
func (f *endStream) id(place queue.EndID) string {
	if f.sealer == nil {
		return place.String()
	}
	return f.sealer.Seal(place, 0)
}

// passing is the id of a place at which there may be no end for this follower. A tenant's
// looks different each time: otherwise it would reveal that others commit.
func (f *endStream) passing(place queue.EndID) string {
	if f.sealer == nil {
		return place.String()
	}
	var salt [4]byte
	rand.Read(salt[:]) // it never fails: the program ends first
	return f.sealer.Seal(place, binary.BigEndian.Uint32(salt[:])|1)
}

// next is a batch of the ends that the follower lacks, as events. more says that there may be more
// already.
//
// `all` stays true until the stream has caught up once. A client that asked for all ends that are
// kept has not missed older ones, so the first removal is no gap for it.
func (f *endStream) next(c echo.Context) (events []byte, more bool, err error) {
	last := f.of.Last()
	if from, same := f.of.Since(f.place); !same {
		events = f.gap(events, from)
		f.place = from
	}
	page, err := f.of.After(c.Request().Context(), f.place.EndPlace, f.filter, endsBatch)
	if err != nil {
		return nil, false, err
	}
	if page.Gone.Compare(f.place) > 0 && page.Gone.Compare(f.gone) > 0 {
		if f.gone = page.Gone; !f.all {
			events = f.gap(events, page.Gone)
		}
	}
	show := submissionFor(c.Request().Context(), f.shards)
	for i := range page.List {
		e := &page.List[i]
		data, err := json.Marshal(show(&e.Submission))
		if err != nil {
			return nil, false, err
		}
		events = fmt.Appendf(events, "event: end\nid: %s\ndata: %s\n\n", f.id(e.ID), data)
	}
	f.place, f.all = page.To, f.all && page.To.Position < last.Position
	return events, page.To.Position < last.Position, nil
}

// gap tells that ends are missing up to a place.
func (f *endStream) gap(events []byte, until queue.EndID) []byte {
	data, _ := json.Marshal(api.EndsGap{After: f.passing(f.place), Until: f.passing(until)}) // two texts
	return fmt.Appendf(events, "event: gap\ndata: %s\n\n", data)
}
