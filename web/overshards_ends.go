package web

// The ends of a queue of several shards: one stream that is joined from the streams of all shards. The ends of one
// shard come in their order. An event's id has the place in every shard, so a client that returns with it misses no end
// and gets none twice:
//
//	shard 1: end 7-0 ─┐
//	shard 2: end 4-1 ─┴─► id 7-0.3-2 ─► id 7-0.4-1
//
// The stream needs all shards. If one does not serve, or stops serving, the stream ends with the reason: without this
// shard's ends, a client would think that they had not happened.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// betweenPlaces separates the ids of shards in an id of the joined stream.
const betweenPlaces = "."

// endsAt takes an id apart. Only a shard can read its own, as a tenant's are sealed. `now`, `0` and nothing mean the
// same in every shard. A shard that was added since has all its ends to give, also if the queue had only one before.
func endsAt(pointer, from string, count int) ([]string, error) {
	ids := strings.Split(from, betweenPlaces)
	if len(ids) > count {
		return nil, queue.Invalid(pointer,
			"must be the id of an event of this stream, or 0 for all that is kept, or now")
	}
	others := "0"
	if from == "" || from == "now" {
		others = from
	}
	for len(ids) < count {
		ids = append(ids, others)
	}
	return ids, nil
}

//	shard 1 ─► readEvents ─┐
//	shard 2 ─► readEvents ─┼─► events ─► joinedEvent ─► client
//	shard 3 ─► readEvents ─┘
//
// shardEvent is an event of one shard; nil: its stream has ended. It comes whole, as lines of several shards must not
// mix.
type shardEvent struct {
	shard int
	text  []byte
}

// endsOverShards joins the streams of all shards. One goroutine for each shard hands its events to this one, so that
// events stay whole, and a slow client holds back all of them.
func endsOverShards(x *shardCall) error {
	pointer, from := "/query/after", x.c.QueryParam("after")
	if last := x.c.Request().Header.Get("Last-Event-ID"); last != "" {
		pointer, from = "/header/Last-Event-ID", last
	}
	ids, err := endsAt(pointer, from, x.count)
	if err != nil {
		return err
	}
	out, err := x.streams.admit(x.c)
	if err != nil {
		return err
	}
	defer out()
	ctx, done := context.WithCancel(context.WithValue(x.c.Request().Context(), ofShard{}, true))
	defer done()
	parts := x.parts()
	x.place(parts)
	by, events := x.f.asker(x.c), make(chan shardEvent)
	for i, p := range parts {
		if p.query.Del("after"); ids[i] != "" {
			p.query.Set("after", ids[i])
		}
		answer, err := x.openEnds(ctx, by, p)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		go func() {
			readAll := make(chan []byte)
			go func() {
				readEvents(ctx, answer.Body, readAll)
				close(readAll)
			}()
			for text := range readAll {
				sendEvent(ctx, events, shardEvent{i, text})
			}
			sendEvent(ctx, events, shardEvent{i, nil})
		}()
	}
	end, err := x.streams.start(x.c)
	if err != nil {
		return err
	}
	defer end()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-events:
			if e.text == nil {
				x.streams.fail(x.c, &queue.Error{Code: queue.CodeMoving, Message: fmt.Sprintf(
					"Shard %d of the queue does not serve any more. Open the stream again.", e.shard+1)})
				return nil
			}
			text, last := joinedEvent(e, ids)
			if x.streams.send(x.c, text) != nil || last {
				return nil
			}
		}
	}
}

// openEnds opens the stream of one shard. A refusal is that of the whole stream.
// It has no deadline: a shard that is slow to open delays the client, and a stream may last for days.
func (x *shardCall) openEnds(ctx context.Context, by *asker, p *shardPart) (*http.Response, error) {
	if p.err != nil {
		return nil, p.problem()
	}
	answer, err := by.open(ctx, &p.part)
	if p.err = err; err != nil {
		return nil, p.problem()
	}
	if p.status, p.header = answer.StatusCode, answer.Header; p.status == http.StatusOK {
		return answer, nil
	}
	defer answer.Body.Close()
	p.text, p.err = io.ReadAll(io.LimitReader(answer.Body, maxBodyBytes))
	return nil, p.problem()
}

// sendEvent hands an event on to the goroutine of the request, unless the client has gone.
func sendEvent(ctx context.Context, to chan<- shardEvent, e shardEvent) {
	select {
	case to <- e:
	case <-ctx.Done():
	}
}

// joinedEvent is an event of one shard in the joined stream, with the places in all shards as its id. It has no id
// until every shard has said where its stream begins. last: it is a problem, and ends the stream.
func joinedEvent(e shardEvent, ids []string) (text []byte, last bool) {
	lines := bytes.Split(bytes.TrimSuffix(e.text, []byte("\n\n")), []byte("\n"))
	for i, line := range lines {
		id, is := bytes.CutPrefix(line, []byte("id: "))
		if is {
			ids[e.shard] = string(id)
			lines[i] = []byte("id: " + strings.Join(ids, betweenPlaces))
			if slices.Contains(ids, "") || slices.Contains(ids, "now") {
				lines[i] = []byte(":")
			}
		}
		last = last || string(line) == "event: "+api.EventProblem
	}
	return append(bytes.Join(lines, []byte("\n")), "\n\n"...), last
}
