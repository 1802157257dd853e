package web

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"sync/atomic"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/access"
)

// Scopes: what a token must be allowed to do for an operation. Every operation declares them; of several any one is enough.
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

	public   bool                                 // needs no token
	narrow   narrow                               // how it keeps to what a token is bound to
	compress bool                                 // the answer may be long and microseconds do not matter
	traced   string                               // the type of its spans; "": it has none
	brings   bool                                 // brings something new onto the disk: refused while that is full
	hot      bool                                 // answers by writeJSON only
	streams  bool                                 // answers for as long as there is something: no page of another site may open it
	waits    bool                                 // Prefer: wait is honoured
	turns    bool                                 // takes its turn among the reads of its token by itself
	freeform bool                                 // reads query parameters that the document cannot name one by one
	accepts  bool                                 // a success answers 202
	creates  reflect.Type                         // what a 201 answers, for operations that may create
	params   []*huma.Param                        // parameters beside those of the input struct
	ok       *atomic.Pointer[prometheus.Observer] // of status 200, looked up once
}

// act names a refused call of an operation in the audit log. The entry of one that succeeds is written by the engine,
// which knows what changed.
type act struct {
	action string // such as "rule.lift"; a PUT that creates or replaces is a "set"
	target string // with parameters of the path: "rule {id}"; "": the queue, the server, or what only the body names
}

// routes is the table of all operations. A new endpoint is a line here and a handler in its resource's file; the tests
// ask for its script and its place in the golden document.
func (s *Server) routes() error {
	d := s.newDocument()

	queues{s.engine, s.now}.routes(d)
	metaValues{}.routes(d)
	dashboardRoutes(s, d)
	strategies{s.engine}.routes(d)
	questions{s.engine}.routes(d)
	pluginHandlers{s}.routes(d)
	deadLetters{s.engine}.routes(d)
	bulks{s.engine}.routes(d)
	rules{s.engine}.routes(d)
	schedules{}.routes(d)
	consumers{s}.routes(d)
	held{s.now}.routes(d)
	lifecycle{}.routes(d)
	tokens{s}.routes(d)
	auditing{s}.routes(d)
	backupRoutes(s, d)
	submissions{s}.routes(d)
	following{s}.routes(d)
	consuming{s}.routes(d)

	s.raw(d, operation{id: "livez", method: "GET", path: "/livez", public: true, tag: tagServer,
		summary: "Say that the process serves requests"}, textShape("text/plain"), health{s}.livez)
	register(d, operation{id: "readyz", method: "GET", path: "/readyz", public: true, tag: tagServer, freeform: true,
		summary: "Say whether all parts work", about: "503 while one does not; errors[] names it. With `?verbose` " +
			"every check is listed.", params: readyParams()}, health{s}.readyz)
	register(d, operation{id: "version", method: "GET", path: "/version", scope: scopeRead, narrow: free, tag: tagServer,
		summary: "Say what is running"}, health{s}.getVersion)
	register(d, operation{id: "config", method: "GET", path: "/v1/config", scope: scopeRead, tag: tagServer,
		summary: "Say with which options the server runs, and who set them"}, health{s}.getConfig)
	s.raw(d, operation{id: "metrics", method: "GET", path: "/metrics", scope: scopeMetrics, tag: tagServer,
		summary: "Prometheus metrics"}, textShape("text/plain"), s.metricsHandler())
	docsRoutes(s, d)

	answerHead(s.echo, s.operations)
	return s.finishDocument(d)
}

// answerHead adds HEAD wherever GET is: probes, proxies and crawlers send it. net/http leaves the body out. The OpenAPI document does not
// list it. Streams have none, as they would never end, and attaching changes something.
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
func register[I, O any](d *document, op operation, handler func(context.Context, *I) (*O, error)) {
	s := d.server
	entry := s.add(op)
	described := d.describe(op)
	if op.method == http.MethodPut || op.method == http.MethodPatch || op.method == http.MethodPost {
		described.MaxBodyBytes = maxBodyBytes
		described.BodyReadTimeout = s.patience.read
		described.SkipValidateBody = true
	}
	if op.accepts {
		described.DefaultStatus = http.StatusAccepted
	}
	if op.creates != nil {
		described.Responses["201"] = d.answer(op.creates, http.StatusCreated)
		described.Responses["201"].Headers = map[string]*huma.Param{
			"Location": {Description: "Path of what was created", Schema: &huma.Schema{Type: huma.TypeString}},
		}
	}
	described.RejectUnknownQueryParameters = !op.freeform
	described.Middlewares = huma.Middlewares{s.cold(entry)}
	huma.Register(d.api, described, func(ctx context.Context, in *I) (*O, error) {
		var out *O
		err := bodyProblem(in)
		if err == nil {
			out, err = handler(ctx, in)
		}
		if err != nil {
			if by := credentialIn(ctx); by != nil && errors.Is(err, context.Canceled) && !s.good(by) {
				err = noLongerGood()
			}
			return nil, s.problemOf(err)
		}
		return out, nil
	})
}

// raw adds an operation whose handler reads and writes by itself; shape says what it reads and writes.
func (s *Server) raw(d *document, op operation, shape func(*document, *huma.Operation), handler echo.HandlerFunc) {
	s.add(op)
	described := d.describe(op)
	shape(d, &described)
	d.api.OpenAPI().AddOperation(&described)
	s.echo.Add(op.method, echoPath(op.path), handler)
}

// add enters the operation into the table that observe looks it up in.
func (s *Server) add(op operation) *operation {
	entry := &op
	entry.traced = tracedAs(op.id)
	entry.ok = new(atomic.Pointer[prometheus.Observer])
	path := echoPath(op.path)
	if s.operations[path] == nil {
		s.operations[path] = make(map[string]*operation)
	}
	s.operations[path][op.method] = entry
	return entry
}

// echoPath turns {name} into :name, and a colon that is a colon into what stands for one.
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
