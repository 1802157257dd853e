package web

// A call may name a queue of several shards, such as "orders", and need all of them for its answer. It is divided into
// the same call about each shard, "orders~1" to "orders~4", and their answers are joined:
//
//	GET /v1/queues/orders/rules ─┬─ GET /v1/queues/orders~1/rules   in this process (inProcess)
//	                             ├─ GET /v1/queues/orders~2/rules   in this process
//	                             └─ GET /v1/queues/orders~3/rules   the node that serves this shard (Quern-Hop)
//	                  joined ◄───┘
//
// An operation says in its line of the table how its answers are joined (operation.shards). If it says nothing, the
// engine answers the call, or it is refused. Each part has the rights of the caller, so a token sees the same in the
// joined answer as in the shards.
//
// A list can do without a shard that does not serve, and names it in `missing_shards`. A change cannot: it fails with
// the reason of that shard, and says which shards have made it.

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// shardPatience is how long a shard may take for its part. Lists that examine much take seconds, so it is more than
// askMost.
const shardPatience = 15 * time.Second

// joining answers a call about all shards of a queue.
type joining func(x *shardCall) error

// shardCall is a call about all shards of a queue. It lives as long as the call, and only the goroutine of the request
// uses it: other goroutines ask for the parts, and each of them writes its own part.
type shardCall struct {
	c       echo.Context
	f       *forwarding
	engine  *engine.Engine
	streams *streams
	queue   string
	count   int    // of shards
	below   string // the path below the queue, escaped
	body    []byte
}

// shardPart is one shard's part of a call.
type shardPart struct {
	part
	number int
	name   string // orders~2
}

// ofShard marks the context of a part that this process asks itself for: the whole call has entered for its token
// already, and has the turn of it.
type ofShard struct{}

func ofShardCall(c echo.Context) bool { return c.Request().Context().Value(ofShard{}) != nil }

// overShards answers a call that names a queue of several shards, as its operation says. false: it names none.
// It runs before anything else of a call, on the node to which the call came. A part names a shard, and so it is not
// divided again.
func (s *Server) overShards(c echo.Context, op *operation) (bool, error) {
	name := c.Param("queue")
	if !strings.Contains(op.path, "{queue}") {
		name = namedQueue(c)
	}
	count := s.engine.ShardsOf(name)
	if ids := bulkIDs(c.Param("id")); op.tag == tagBulk && ids != nil {
		count = len(ids)
	}
	switch {
	case count < 2:
		return false, nil
	case ofShardCall(c): // it would be divided for ever
		return true, fmt.Errorf("web: the part of a call names the queue %q, which has several shards", name)
	}
	x := &shardCall{c: c, f: s.forwarding, engine: s.engine, streams: s.streams, queue: name, count: count}
	rest := strings.TrimPrefix(c.Request().URL.EscapedPath(), "/v1/queues/")
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		x.below = rest[i:]
	}
	answer := func(c echo.Context) error {
		x.c = c
		defer func() { _ = access.Of(c.Request().Context()).Answer.Hold(0) }() // less always fits
		return op.shards(x)
	}
	if op.streams || op.scope != scopeRead {
		return true, s.compressing(c, op, answer)
	}
	return true, inTurn(s.clock, c, func() error { return s.compressing(c, op, answer) })
}

// readBody keeps the body of the call, which every part is sent. The limit is that of calls that a handler reads
// itself.
func (x *shardCall) readBody() error {
	if x.body != nil || x.c.Request().Body == nil {
		return nil
	}
	if peeked, did := x.c.Get(peekedKey).([]byte); did && len(peeked) <= maxBodyBytes {
		x.body = peeked
		return asText(peeked)
	}
	text, err := io.ReadAll(http.MaxBytesReader(x.c.Response(), x.c.Request().Body, maxBodyBytes))
	x.body = text
	if err != nil {
		return unread(x.c.Request(), err)
	}
	return asText(text)
}

// parts are the parts of all shards. They do not know yet where their shards are (place).
func (x *shardCall) parts() []*shardPart {
	list := make([]*shardPart, x.count)
	for i := range list {
		list[i] = x.part(i + 1)
	}
	return list
}

// part is the part of one shard: the same call about it. Conditions such as If-Match are not sent along, because the
// ETags of shards differ. If a shard can check one, the caller sets it in the header of its part.
func (x *shardCall) part(number int) *shardPart {
	p := &shardPart{number: number, name: queue.ShardName(x.queue, number)}
	p.path = "/v1/queues/" + url.PathEscape(p.name) + x.below
	p.query, p.body = maps.Clone(x.c.QueryParams()), x.body
	if x.c.Param("queue") == "" { // the query or the body names it
		p.path = ""
		if p.query.Has("queue") {
			p.query.Set("queue", p.name)
		}
	}
	p.header = http.Header{}
	if given := x.c.Request().Header["Idempotency-Key"]; given != nil {
		p.header["Idempotency-Key"] = given
	}
	return p
}

// place finds the nodes that serve the shards. It waits a moment for shards that just move.
// Nothing here assumes that the shards of one queue are on one node, or that any of them is here.
func (x *shardCall) place(parts []*shardPart) {
	for waited := time.Duration(0); x.f.nodes != nil; waited += moveLook {
		look, moving := x.f.nodes.Lookup(), false
		for _, p := range parts {
			p.at, p.err = engine.Elsewhere{}, nil
			at := look.Queue(p.name)
			if at == nil {
				continue
			}
			p.at = *at
			if at.Node == "" || at.Arriving {
				moving = true
				p.err = &queue.Error{Code: queue.CodeMoving,
					Message: fmt.Sprintf("No node of the cluster serves %s at this moment.", p.name)}
			}
		}
		if !moving || waited >= moveWait || x.c.Request().Context().Err() != nil {
			return
		}
		time.Sleep(moveLook)
	}
}

// ask asks the shards for their parts, all at once. The answers are in the parts.
func (x *shardCall) ask(parts []*shardPart) error {
	x.place(parts)
	return x.askPlaced(parts)
}

// askPlaced is ask for parts that know where their shards are.
func (x *shardCall) askPlaced(parts []*shardPart) error {
	ctx, done := context.WithTimeout(context.WithValue(x.c.Request().Context(), ofShard{}, true), shardPatience)
	defer done()
	by := x.f.asker(x.c)
	var asked sync.WaitGroup
	for _, p := range parts {
		if p.err == nil {
			asked.Go(func() { by.ask(ctx, &p.part) })
		}
	}
	asked.Wait()
	if x.c.Request().Context().Err() != nil {
		return newProblem(codeClientGone, "The client went away before the answer.")
	}
	held := 0
	for _, p := range parts {
		held += len(p.text)
	}
	return access.Of(x.c.Request().Context()).Answer.Hold(int64(held))
}

// absent says that a shard did not answer for itself: it does not serve, or its node is away. A node that no longer
// serves the shard refuses with 421, and then the shard is just moving.
func (p *shardPart) absent() bool {
	switch p.status {
	case http.StatusServiceUnavailable, http.StatusMisdirectedRequest, http.StatusGatewayTimeout:
		return true
	}
	return p.err != nil
}

// good says that a shard did its part. We send no redirects, so any status below 400 means that it is done.
func (p *shardPart) good() bool { return p.err == nil && p.status < http.StatusBadRequest }

// problem is the refusal of a shard as the answer to the whole call. It keeps the code, so that clients act as they
// would for a queue of one shard.
func (p *shardPart) problem() *problem {
	var out problem
	switch {
	case queue.CodeOf(p.err) == queue.CodeMoving:
		return newProblem(queue.CodeMoving, p.err.Error())
	case p.err != nil:
		return newProblem(queue.CodeMoving, fmt.Sprintf("The node that serves %s does not answer.", p.name))
	case json.Unmarshal(p.text, &out.Problem) != nil || out.Code == "":
		return newProblem(codeInternal, fmt.Sprintf("%s answered with the status %d.", p.name, p.status))
	case out.Code == string(codeElsewhere): // it moved while it was asked
		return newProblem(queue.CodeMoving, fmt.Sprintf("%s is moving to another node.", p.name))
	}
	seconds, _ := strconv.Atoi(p.header.Get("Retry-After"))
	out.retry = time.Duration(seconds) * time.Second
	out.Instance, out.RequestID = "", ""
	return &out
}

// answering are the shards that answered, and those that did not. A shard that does not serve is missing. One that
// refuses its part would refuse it from any client, so its reason is the answer to the call.
// refused is why the call as a whole is refused: a shard refused its part, or no shard is there.
func answering(parts []*shardPart) (good []*shardPart, missing []api.MissingShard, refused error) {
	for _, p := range parts {
		switch {
		case p.good():
			good = append(good, p)
		case p.absent():
			why := p.problem()
			missing = append(missing, api.MissingShard{Shard: p.name, Code: why.Code, Detail: why.Detail})
		case refused == nil:
			refused = p.problem()
		}
	}
	if refused == nil && len(good) == 0 {
		refused = parts[0].problem()
	}
	return good, missing, refused
}

// decode reads a shard's answer. An answer that cannot be read is a failure of ours, as shards answer as the server
// does.
func (p *shardPart) decode(into any) error {
	if err := json.Unmarshal(p.text, into); err != nil {
		return fmt.Errorf("web: the answer of %s: %w", p.name, err)
	}
	return nil
}

// relay answers the call with the answer of one shard. Its link leads to the whole queue, because the client named
// that.
func (x *shardCall) relay(p *shardPart) error {
	if !p.good() {
		return p.problem()
	}
	x.linked(p)
	x.c.Response().Header().Set("Content-Type", p.header.Get("Content-Type"))
	x.c.Response().WriteHeader(cmp.Or(p.status, http.StatusOK))
	return p.write(x.c)
}

// linked takes over the headers of a shard's answer that are about the thing that was made or changed.
func (x *shardCall) linked(p *shardPart) {
	header := x.c.Response().Header()
	for _, name := range []string{"Etag", headerDurability, headerReplayed, headerExisting} {
		if value := p.header.Get(name); value != "" {
			header.Set(name, value)
		}
	}
	if at := p.header.Get("Location"); at != "" {
		header.Set("Location", strings.Replace(at, "/v1/queues/"+p.name+"/", "/v1/queues/"+x.queue+"/", 1))
	}
}

// inShard lets one shard answer the call.
func (x *shardCall) inShard(number int) error {
	if err := x.readBody(); err != nil {
		return err
	}
	p := x.part(number)
	for _, name := range conditions {
		if given := x.c.Request().Header[name]; given != nil {
			p.header[name] = given
		}
	}
	if err := x.ask([]*shardPart{p}); err != nil {
		return err
	}
	return x.relay(p)
}

// inFirst lets the first shard answer. That shard keeps the things that exist once in a queue, such as named
// strategies: a reserve of the whole queue looks for them there.
func inFirst(x *shardCall) error { return x.inShard(1) }

// inShardOf lets the shard answer that has the submission of the path.
func inShardOf(param string) joining {
	return func(x *shardCall) error {
		id, err := queue.ParseSubmissionID(x.c.Param(param))
		if err != nil {
			return x.inShard(1) // which refuses it
		}
		return x.inShard(max(1, x.engine.NumberIn(x.queue, id)))
	}
}

// askable are the parts of the shards that a list is about: of all, or of the one that has the submission of its
// filter. The others could not say whether a tenant's token covers this submission.
func (x *shardCall) askable() []*shardPart {
	if id, err := queue.ParseSubmissionID(x.c.QueryParam("submission")); err == nil {
		return []*shardPart{x.part(max(1, x.engine.NumberIn(x.queue, id)))}
	}
	return x.parts()
}
