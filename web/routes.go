package web

// The route table. Each resource (a small type in its own file) registers its operations here, each
// with one line: an `operation`, which says all that the layers around the handler need to know. So
// no layer has a list of paths of its own.
//
//	operation ──┬─► middleware.go   scope, public, brings, hot, streams, turns
//	            ├─► narrow.go       narrow: the calls that a token bound to queues or a value may make
//	            ├─► reach.go        reach: which node of a cluster answers
//	            ├─► audit.go        act: its name in the audit log when it is refused
//	            └─► openapi.go      id, path, summary, about, params: the document
//
// Two ways to write a handler:
//
//	register, registerIn   a plain function of an input struct; huma decodes it and documents both structs
//	raw                    reads and writes by itself: hot calls, streams, uploads. A shape function documents it
//
// Forgetting a field fails closed: without `narrow` bound tokens are refused, and without a reach the
// server does not start.

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// Scopes. Every operation declares the scopes that its caller's token must have; of
// several any one is enough.
const (
	scopeProduce = access.Produce
	scopeConsume = access.Consume
	scopeRead    = access.Read
	scopeMetrics = access.Metrics
	scopeOperate = access.Operate
	scopePlugins = access.Plugins
	scopeAdmin   = access.Admin
)

// Tags group the operations in the document.
const (
	tagQueues       = "queues"
	tagSubmissions  = "submissions"
	tagReservations = "reservations"
	tagConsumers    = "consumers"
	tagStrategies   = "strategies"
	tagPlugins      = "plugins"
	tagDeadLetters  = "dead letters"
	tagBulk         = "bulk operations"
	tagRules        = "rules"
	tagSchedules    = "schedules"
	tagAccess       = "access"
	tagServer       = "server"
)

// operation is one line of the route table.
type operation struct {
	id      string // operationId, and the route label of metrics
	method  string
	path    string // OpenAPI form: /v1/queues/{queue}
	scope   access.Scopes
	tag     string
	summary string
	about   string // longer description; may be empty
	act     act    // its name in the audit log; zero: it is no act of an operator

	public   bool   // needs no token
	narrow   narrow // how it keeps within a token's restriction
	compress bool   // the answer may be long and microseconds do not matter
	traced   string // the type of its spans; "": it has none
	brings   bool   // brings something new onto the disk: refused while that is full
	hot      bool   // answers by writeJSON only
	// answers for as long as there is something: no page of another site may open it
	streams  bool
	waits    bool                                 // Prefer: wait is honoured
	turns    bool                                 // takes its turn among the reads of its token by itself
	json     bool                                 // huma decodes its body
	freeform bool                                 // reads query parameters that the document cannot name one by one
	accepts  bool                                 // a success answers 202
	creates  reflect.Type                         // the body of a 201, for operations that may create
	params   []*huma.Param                        // parameters beside those of the input struct
	reach    reach                                // which node of a cluster answers it
	spread   spreading                            // answers it by the parts of several nodes; nil: one is enough
	shards   joining                              // answers it for a queue of several shards; nil: the handler
	ok       *atomic.Pointer[prometheus.Observer] // of status 200, looked up once
}

// act names a refused call of an operation in the audit log. The engine, which
// knows what changed, writes the entry of one that succeeds.
type act struct {
	action string // such as "rule.lift"; a PUT that creates or replaces is a "set"
	target string // with parameters of the path: "rule {id}"; "": the queue, the server, or a name in the body
}

// router is where resources register their operations: it has the table, and the parts that all of
// them share.
type router struct {
	*document
	echo       *echo.Echo
	operations map[string]map[string]*operation // by echo path, then by method
	engine     *engine.Engine                   // has the queue that a path names
	auth       *auth
	answers    *answers
	waits      *waits
}

// routes registers the operations of all resources. A new endpoint is a line in the routes of
// its resource and a handler; the tests ask for its script and its place in the golden document.
func (s *Server) routes(o *Options) error {
	files, err := loadDashboard()
	if err != nil {
		return err
	}
	r := &router{document: newDocument(s.echo), echo: s.echo, operations: map[string]map[string]*operation{},
		engine: s.engine, auth: s.auth, answers: s.answers, waits: s.waits}
	pages := newDocsPages(r.api.OpenAPI())
	s.operations, s.document = r.operations, pages.document
	wait := waiting{s.engine, s.auth, s.bodies, s.waits, s.forwarding}
	inserts := &inserting{engine: s.engine, auth: s.auth, bodies: s.bodies, answers: s.answers, tracing: s.tracing,
		nodes: s.forwarding, log: s.log, lines: s.metrics.lines}
	for _, resource := range []interface{ routes(*router) }{
		queues{s.engine, s.forwarding},
		groups{s.engine, s.forwarding},
		metaValues{},
		watching{s.engine, s.streams, &events{run: strconv.FormatUint(o.Seed(), 36)}, s.forwarding},
		strategies{s.engine},
		questions{s.engine},
		pluginHandlers{o.Plugins, s.bodies, s.forwarding},
		deadLetters{s.engine},
		bulks{s.engine, s.forwarding},
		rules{s.engine},
		initialRules{engine.InitialRulesOf(s.engine)},
		schedules{},
		consumers{s.engine, s.log, s.streams, s.forwarding},
		held{s.clock},
		lifecycle{},
		&tokens{s.engine.Tokens(), s.auth, s.bodies},
		auditing{s.engine, s.clock, s.answers, s.streams, s.forwarding},
		nodes{s.engine, o.Node, o.Nodes},
		backups{s.engine.Storage(), o.Version.Version, s.bodies, s.streams},
		inserts,
		wait,
		submissions{s.engine, wait, s.streams, s.bodies.buffers},
		following{s.engine, s.streams},
		&consuming{engine: s.engine, auth: s.auth, bodies: s.bodies, answers: s.answers, waits: s.waits,
			tracing: s.tracing, inserts: inserts, nodes: s.forwarding},
		health{s.engine, o.Plugins, s.waits, o.Version, append([]api.ServerOption{}, o.Config...), o.Gatherer},
		files,
		pages,
	} {
		resource.routes(r)
	}
	answerHead(r.echo, r.operations)
	return r.finishSchemas()
}

// answerHead adds HEAD wherever GET is: probes, proxies and crawlers send it. net/http
// leaves the body out. The OpenAPI document does not list it. Streams have none, as they
// would never end, and attaching changes something.
func answerHead(e *echo.Echo, operations map[string]map[string]*operation) {
	for path, methods := range operations {
		if get := methods[http.MethodGet]; get != nil && !get.streams {
			methods[http.MethodHead] = get
			e.HEAD(path, func(c echo.Context) error {
				r := c.Request().WithContext(c.Request().Context())
				r.Method = http.MethodGet
				c.SetRequest(r)
				e.Router().Find(r.Method, echo.GetPath(r), c)
				return c.Handler()(c)
			})
		}
	}
}

// register adds an operation whose handler is a plain function of an input and an output struct.
func register[I, O any](r *router, op operation, handler func(context.Context, *I) (*O, error)) {
	_, op.json = reflect.TypeFor[I]().FieldByName("Body")
	entry := r.add(op)
	described := r.describe(op)
	if op.method == http.MethodPut || op.method == http.MethodPatch || op.method == http.MethodPost {
		described.MaxBodyBytes = maxBodyBytes
		described.BodyReadTimeout = r.waits.clock.patience.read
		described.SkipValidateBody = true
	}
	if op.accepts {
		described.DefaultStatus = http.StatusAccepted
	}
	if op.creates != nil {
		described.Responses["201"] = r.answer(op.creates, http.StatusCreated)
		described.Responses["201"].Headers = map[string]*huma.Param{
			"Location": {Description: "Path of the created object", Schema: &huma.Schema{Type: huma.TypeString}},
		}
	}
	described.RejectUnknownQueryParameters = !op.freeform
	described.Middlewares = huma.Middlewares{r.cold(entry)}
	huma.Register(r.api, described, func(ctx context.Context, in *I) (*O, error) {
		var out *O
		err := bodyProblem(in)
		if err == nil {
			out, err = handler(ctx, in)
		}
		if err != nil {
			if by := credentialIn(ctx); by != nil && errors.Is(err, context.Canceled) && !r.auth.good(by) {
				err = noLongerGood()
			}
			return nil, r.answers.problemOf(err)
		}
		return out, nil
	})
}

// wellFormed refuses what an operation would read as something else than its caller sent, before the call is divided
// or passed on: a body for huma that is not JSON in UTF-8, or compressed; a query that cannot be read; and a parameter
// that comes twice, of which most operations would take the first.
func (op *operation) wellFormed(r *http.Request) error {
	if op.json {
		if _, err := mediaType(r, contentJSON); err != nil {
			return err
		}
	}
	if r.URL.RawQuery == "" {
		return nil
	}
	values, err := readQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	for name, given := range values {
		repeats := func(p *huma.Param) bool { return p.Name == name && p.Schema.Type == huma.TypeArray }
		if len(given) > 1 && !slices.ContainsFunc(op.params, repeats) {
			return queue.Invalid("/query/"+api.EscapePointer(name), "is given %d times; give it once", len(given))
		}
	}
	return nil
}

// cold is the frame of the operations that huma decodes: body limit and the deadlines of a wait.
func (r *router) cold(op *operation) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		c := unwrap(ctx)
		in := c.Request()
		in.Body = http.MaxBytesReader(c.Response(), in.Body, maxBodyBytes)
		if op.waits && in.Header.Get("Prefer") != "" {
			r.waits.enter(c.Response(), r.auth.credentialOf(in), queue.MaxWait)
			defer r.waits.leave(c.Response())
		}
		next(ctx)
	}
}

// raw adds an operation whose handler reads and writes by itself; shape says what it reads and writes.
func (r *router) raw(op operation, shape func(*document, *huma.Operation), handler echo.HandlerFunc) {
	entry := r.add(op)
	described := r.describe(op)
	shape(r.document, &described)
	entry.params = described.Parameters
	r.api.OpenAPI().AddOperation(&described)
	r.echo.Add(op.method, echoPath(op.path), handler)
}

// add enters the operation into the table that observe looks it up in.
func (r *router) add(op operation) *operation {
	entry := &op
	entry.traced = tracedAs(op.id)
	if entry.reach = reachOf(op.path); entry.reach == nil {
		panic("web: reaches do not say which node answers " + op.path)
	}
	entry.ok = new(atomic.Pointer[prometheus.Observer])
	path := echoPath(op.path)
	if r.operations[path] == nil {
		r.operations[path] = make(map[string]*operation)
	}
	r.operations[path][op.method] = entry
	return entry
}

// echoPath turns {name} into :name, and escapes literal colons.
func echoPath(path string) string {
	out := make([]byte, 0, len(path))
	for _, c := range []byte(path) {
		switch c {
		case '{':
			out = append(out, ':')
		case ':':
			out = append(out, '\\', ':')
		case '}':
		default:
			out = append(out, c)
		}
	}
	return string(out)
}
