package web

// The audit log over HTTP, in three forms of one list: pages of JSON, all of it as lines, and a
// stream of what comes. The scope is admin, as entries name everyone.
//
// An entry is written in the same transaction as the change it is about; here it is only read. Reading is bounded
// per page, since a filter may match nothing in a million entries.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const auditAbout = "The log of changes and refused acts, the latest first. A change and its entry are one commit, " +
	"so neither exists without the other. If the token did not allow an act, its entry has the outcome `refused`, " +
	"and `after` has the `code` and `detail` of the answer. The first sixty refused acts of a token get an entry " +
	"each, and later ones one entry per minute. Its `left_out` counts the refused acts without an entry since the " +
	"previous one. `next` is the cursor of older entries. The server limits how many entries it examines per page, " +
	"so a page with a `next` may be short or empty. `incomplete`, and the header `Quern-Audit-Incomplete` of every " +
	"form of the answer, name the queues whose latest entries may be missing: those in quarantine, and in a cluster " +
	"those whose node did not answer in 2 seconds. With `Accept: application/x-ndjson` the answer has all matching " +
	"entries, one per line. With `Accept: text/event-stream` it " +
	"follows the log, from `since` or from now on, the oldest entry first. `Last-Event-ID` continues after the " +
	"last id, which may have come without an event. Entries of the ten seconds before that id may then come again, " +
	"with the same ids. If the server cannot read the log any further, the last event is `problem`, with a problem " +
	"as its data. A stream does not allow `cursor`, `limit` and `until`."

// auditing are the handlers of the audit log.
type auditing struct {
	engine  *engine.Engine
	clock   *clock
	answers *answers
	streams *streams
	nodes   *forwarding
}

// routes are the part of the table about the audit log.
func (x auditing) routes(r *router) {
	r.raw(operation{id: "list-audit", method: "GET", path: "/v1/audit", scope: scopeAdmin, tag: tagAccess,
		compress: true, freeform: true, streams: true,
		summary: "Read the audit log", about: auditAbout, params: auditList().document()}, auditShape, x.getAudit)
}

// auditList are the parameters of the log.
func auditList() parameters[auditRequest] {
	text := func(name, about string, field func(*auditRequest) *string) parameter[auditRequest] {
		return textParameter(name, about, 0, field)
	}
	at := func(name, about string, field func(*auditRequest) *queue.Time) parameter[auditRequest] {
		return timeParameter(name, about, &huma.Schema{Type: huma.TypeString, Format: "date-time"}, field)
	}
	return slices.Concat(parameters[auditRequest]{
		at("since", "Only acts at this time (RFC 3339) or later",
			func(r *auditRequest) *queue.Time { return &r.filter.Since }),
		at("until", "Only acts before this time", func(r *auditRequest) *queue.Time { return &r.filter.Until }),
		text("actor", "Only acts of this actor", func(r *auditRequest) *string { return &r.filter.Actor }),
		text("action", "Only this action, such as rule.create, or all of a resource, such as rule",
			func(r *auditRequest) *string { return &r.filter.Action }),
		text("queue", "Only acts in this queue", func(r *auditRequest) *string { return &r.filter.Queue }),
		text("target", "Only acts on this object, such as `rule 7`",
			func(r *auditRequest) *string { return &r.filter.Target }),
		choiceParameter("outcome", "Only acts with this outcome; refused: the token did not allow them",
			[]string{queue.ActOK, queue.ActRefused},
			func(r *auditRequest, chosen string) { r.filter.Outcome = chosen }),
	}, pageParameters(func(r *auditRequest) *string { return &r.cursor },
		func(r *auditRequest) *int { return &r.limit }))
}

// One answer has three media types, chosen by Accept. The document lists all, so that a generated client can ask
// for each.
func auditShape(d *document, op *huma.Operation) {
	lines := d.lines("One AuditEntry per line or event", reflect.TypeFor[api.AuditEntry]())
	op.Responses["200"] = &huma.Response{Description: http.StatusText(http.StatusOK),
		Content: map[string]*huma.MediaType{
			contentJSON: {Schema: d.ref(reflect.TypeFor[api.PageAuditEntry]())}, contentLines: lines,
			contentEvents: lines,
		}, Headers: map[string]*huma.Param{headerIncomplete: {Schema: &huma.Schema{Type: huma.TypeString},
			Description: "Names of queues whose latest entries may be missing, separated by commas: those in " +
				"quarantine, and those whose node does not answer"}}}
}

// auditRequest is what a request asks of the log.
type auditRequest struct {
	filter engine.AuditFilter
	cursor string
	limit  int
}

// The header about missing entries is set for all three forms: a stream or lines have no other place for it.
func (x auditing) getAudit(c echo.Context) error {
	in := auditRequest{limit: defaultListLimit}
	if err := auditList().read(c.Request().URL.RawQuery, &in); err != nil {
		return err
	}
	switch accept := c.Request().Header.Get("Accept"); {
	case strings.Contains(accept, contentEvents):
		return x.followAudit(c, in)
	case strings.Contains(accept, contentLines):
		return x.exportAudit(c, in)
	}
	done, err := holdPage(c)
	if err != nil {
		return err
	}
	defer done()
	page, err := x.page(c.Request().Context(), in.filter, in.cursor, in.limit)
	if err != nil {
		return err
	}
	noteLacks(c, page.Lacks)
	out := api.PageAuditEntry{Items: make([]api.AuditEntry, len(page.Items)), Next: page.Next, Incomplete: page.Lacks}
	for i := range page.Items {
		out.Items[i] = apiAuditEntry(&page.Items[i].Act)
	}
	return x.answers.collect(c, func() error { return c.JSON(http.StatusOK, out) }, nil)
}

// page is a page of the log. In a cluster the other nodes add the entries that the log does not
// have yet. They are asked again for each page, because their earlier entries may be in the log
// by now.
func (x auditing) page(ctx context.Context, f engine.AuditFilter, cursor string, limit int) (engine.AuditPage, error) {
	far, err := x.nodes.freshActs(ctx, f, cursor, limit)
	if err != nil {
		return engine.AuditPage{}, err
	}
	return x.engine.Audit(f, cursor, limit, far...)
}

// noteLacks names the queues in the header. It is called before the answer begins.
func noteLacks(c echo.Context, lacks []string) {
	if len(lacks) > 0 {
		c.Response().Header().Set(headerIncomplete, strings.Join(lacks, ","))
	}
}

// holdPage counts a page of the log for the memory of the answer, as it is read and as it is encoded, until done is
// called. Entries can be large (before and after of a change), and exist twice while they are encoded, hence the
// factor.
func holdPage(c echo.Context) (done func(), err error) {
	answer := access.Of(c.Request().Context()).Answer
	err = answer.Hold(2 * queue.MaxAnswerBytes)
	return func() { _ = answer.Hold(0) }, err // less always fits
}

// Before and after stay the JSON that the change wrote. An entry of an old version shows the fields that it had then.
func apiAuditEntry(a *queue.Act) api.AuditEntry {
	return api.AuditEntry{
		At: a.At.API(), Actor: a.Actor, OnBehalfOf: a.OnBehalfOf, From: a.From, Action: a.Action, Queue: a.Queue,
		Target: a.Target,
		Before: json.RawMessage(a.Before), After: json.RawMessage(a.After), RequestID: a.RequestID, Outcome: a.Outcome,
	}
}

// auditPage is how many entries an export reads at once.
// It is larger than a page for people, as no one waits between two of them, and small enough to stop soon when the
// client goes away.
const auditPage = 1000

// exportAudit writes all entries that match, page by page. The first page is read before the answer begins, so that
// an error of it is still an answer with a status.
func (x auditing) exportAudit(c echo.Context, in auditRequest) error {
	done, err := holdPage(c)
	if err != nil {
		return err
	}
	defer done()
	page, err := x.page(c.Request().Context(), in.filter, in.cursor, auditPage)
	if err != nil {
		return err
	}
	noteLacks(c, page.Lacks)
	// From here on, a failure can only break the answer off. The last line is then missing its end, and the client
	// sees that the body is incomplete.
	return x.streams.lines(c, func(writer *bufio.Writer) error {
		lines := json.NewEncoder(writer)
		for {
			for i := range page.Items {
				if err := lines.Encode(apiAuditEntry(&page.Items[i].Act)); err != nil {
					return err
				}
			}
			if page.Next == "" {
				return nil
			}
			if page, err = x.page(c.Request().Context(), in.filter, page.Next, auditPage); err != nil {
				return err
			}
		}
	})
}

// Refused acts go to the audit log: changes that were asked for with a token
// that does not allow them. Reads, and calls of producers and consumers, are no acts. A
// request without a valid token is not stored: its sender is unknown, and anyone can send
// millions. quern_http_request_seconds counts them by route, with the code 401.

// recordRefusal records that a call of an operation was refused. One that failed for
// another reason is not recorded.
func recordRefusal(tokens *engine.Tokens, c echo.Context, op *operation, p *problem) {
	ctx := c.Request().Context()
	if op == nil || op.act.action == "" || access.Of(ctx).Token == nil || p.Code != string(codeForbidden) &&
		!errors.Is(p, errUncovered) {
		return
	}
	tokens.RecordRefused(ctx, engine.Refusal{
		Action: op.act.action, Queue: shown(c.Param("queue")), Target: op.act.targetOf(c), Code: queue.Code(p.Code),
		Detail: p.Detail,
	})
}

// targetOf is the target with the parameters of a request filled in, as the client sent
// them: they are not validated yet.
func (a *act) targetOf(c echo.Context) string {
	target := a.target
	for _, name := range c.ParamNames() {
		value := c.Param(name)
		if name == "value" {
			value = strings.TrimPrefix(value, "s:") // paths mark strings; targets do not
		}
		target = strings.Replace(target, "{"+name+"}", shown(value), 1)
	}
	return target
}

// shown makes a client's text printable and cuts it to a length that can be kept.
func shown(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return unicode.ReplacementChar
	}, clip(text))
}

// A queue puts its entries into the audit log, which all nodes of a cluster share, at its checkpoints. Before a node
// answers with a page of the log, it asks the others for the entries that they have not put there yet. Only nodes can
// ask: a call needs a sealed hop. The path is no part of the API.
const freshActsPath = "/cluster/fresh-acts"

//	client ─► node A ─┬─ what A's queues have not put into the log yet
//	                  ├─ node B  what its queues have not, by freshActsPath
//	                  └─ node C  does not answer within askMost: its queues are in `incomplete`
//	                     then the log itself, as it stands now
//
// The order matters. A queue may put its entries into the log between the two looks. They are then found twice, and
// one is left out. The other way round they would be missed.

// freshActsQuestion is what a node asks.
type freshActsQuestion struct {
	Filter engine.AuditFilter
	Cursor string
	Limit  int
	Bytes  int // the most bytes of entries
}

// freshActsRoute answers for the queues of this node.
func freshActsRoute(e *echo.Echo, core *engine.Engine, sealed *hops) {
	e.GET(freshActsPath, func(c echo.Context) error {
		if sealed.of(c.Request()) == nil {
			return newProblem(codeForbidden, "Only nodes of this cluster ask this.")
		}
		var q freshActsQuestion
		if err := json.Unmarshal([]byte(c.QueryParam("question")), &q); err != nil {
			return newProblem(codeMalformed, "The question cannot be read: "+err.Error())
		}
		acts, err := core.FreshActs(q.Filter, q.Cursor, q.Limit, q.Bytes)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, acts)
	})
}

// freshActs are the entries that the other nodes add to a page of the log. All together they fit into an answer: each
// node gets its share of the bytes. A node that has more says where it stopped, and the page ends there.
func (f *forwarding) freshActs(ctx context.Context, filter engine.AuditFilter, cursor string,
	limit int) ([]engine.FreshActs, error) {
	if f.nodes == nil {
		return nil, nil
	}
	if cursor != "" {
		if _, err := engine.AuditTime(cursor); err != nil { // the others would refuse it too
			return nil, err
		}
	}
	question, err := json.Marshal(freshActsQuestion{filter, cursor, limit,
		queue.MaxAnswerBytes / (len(f.nodes.Others()) + 1)})
	if err != nil {
		return nil, err
	}
	fresh, _ := askOthers[engine.FreshActs](ctx, f, http.MethodGet, freshActsPath+"?question="+
		url.QueryEscape(string(question)))
	return fresh, nil
}

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

// newAuditStream begins at the time that the filter asks for, at the present time without
// one, or where the stream with the last id `last` ended. That id does not tell which
// other entries of about its time the subscriber has, as entries do not come in the order
// of their times. So all but that one are sent again, and none is missed.
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
		if _, err := a.next(); err != nil { // entries that are there already are not sent
			return nil, err
		}
	}
	return a, nil
}

// place tells the client that the stream lives. When no pass is under way, it also gives
// the id from which a later stream can go on: that of settled, even if no entry was sent
// yet.
func (a *auditStream) place() []byte {
	if a.cursor != "" {
		return []byte(": alive\n\n")
	}
	return []byte("id: " + engine.AuditCursor(a.settled.Add(auditOverlap)) + "\n: alive\n\n")
}

// next is a batch of the entries that the subscriber lacks, as events, the oldest first.
// It begins a pass when none is under way.
func (a *auditStream) next() (events []byte, err error) {
	filter := a.filter
	filter.OldestFirst = true
	if a.cursor == "" {
		a.begun, a.lacks = queue.At(a.clock.now()), nil
		// else, after the clock is set back, nothing is sent until it is where it was
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
