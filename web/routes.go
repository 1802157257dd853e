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
	"github.com/quern-queue/quern/sdk/api"
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
	waits    bool                                 // Prefer: wait is honoured
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

	s.queueRoutes(d)
	s.resourceRoutes(d)

	s.raw(d, operation{id: "insert", brings: true, hot: true, method: "POST", path: "/v1/queues/{queue}/submissions",
		scope: scopeProduce, narrow: inQueue | inHandler, tag: tagSubmissions,
		summary: "Insert a submission", about: insertAbout}, insertShape, s.insert)
	s.raw(d, operation{id: "insert-batch", brings: true, hot: true, method: "POST", path: "/v1/queues/{queue}/submissions:batch",
		scope: scopeProduce, narrow: inQueue | inHandler, tag: tagSubmissions,
		summary: "Insert many submissions in one commit", about: insertManyAbout}, insertManyShape,
		insertingMany{s}.handle)
	register(d, operation{id: "list-submissions", method: "GET", path: "/v1/queues/{queue}/submissions",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagSubmissions, compress: true, freeform: true,
		summary: "List submissions, newest first", about: listAbout, params: listParams()}, s.listSubmissions)
	register(d, operation{id: "get-submission", method: "GET", path: "/v1/submissions/{id}", scope: scopeRead,
		narrow: inSub, tag: tagSubmissions, waits: true,
		summary: "Read a submission", about: "With `Prefer: wait=N` (seconds, at most 60) the answer comes when the " +
			"submission leaves the state open, or after N seconds."}, s.getSubmission)
	following{s}.routes(d)
	s.raw(d, operation{id: "wait-submissions", method: "POST", path: "/v1/submissions:wait", scope: scopeRead,
		narrow: inHandler, tag: tagSubmissions, compress: true,
		summary: "Wait until one of many submissions ends, or all", about: waitAbout}, waitShape, waiting{s}.many)
	register(d, operation{id: "change-submission", act: act{"submission.change", "submission {id}"},
		method: "PATCH", path: "/v1/submissions/{id}", scope: scopeOperate,
		narrow: inSub, tag: tagSubmissions,
		summary: "Change the priority of an open submission", about: "CustomPriority sees it at its new place from " +
			"the next reservation on. A submission that has ended answers 409. The priority that it has already is " +
			"no mistake."}, s.changeSubmission)
	register(d, operation{id: "cancel-submission", act: act{"submission.cancel", "submission {id}"},
		method: "POST", path: "/v1/submissions/{id}/cancel",
		scope: scopeOperate, narrow: inSub, tag: tagSubmissions,
		summary: "Cancel a submission", about: "Chunks that are not done are skipped; reservations of it are gone. " +
			"Cancelling what has ended changes nothing and answers with it as it stands."}, s.cancelSubmission)
	register(d, operation{id: "list-chunks", method: "GET", path: "/v1/submissions/{id}/chunks", scope: scopeRead,
		narrow: inSub, tag: tagSubmissions, compress: true, freeform: true,
		summary: "List a submission's chunks by index", params: chunkParams()}, s.listChunks)
	register(d, operation{id: "get-chunk", method: "GET", path: "/v1/submissions/{id}/chunks/{index}", scope: scopeRead,
		narrow: inSub, tag: tagSubmissions,
		summary: "Read one chunk"}, s.getChunk)
	s.raw(d, operation{id: "list-outputs", method: "GET", path: "/v1/submissions/{id}/outputs", scope: scopeRead,
		narrow: inSub, tag: tagSubmissions, compress: true,
		summary: "Stream a submission's outputs in index order", about: "One JSON line per chunk that has an output. " +
			"An answer that is cut off is not whole: the end of the body is the only sign of the last line."}, outputsShape, s.listOutputs)

	reservationRoutes(s, d)

	s.raw(d, operation{id: "livez", method: "GET", path: "/livez", public: true, tag: tagServer,
		summary: "Say that the process serves requests"}, textShape("text/plain"), s.livez)
	register(d, operation{id: "readyz", method: "GET", path: "/readyz", public: true, tag: tagServer, freeform: true,
		summary: "Say whether all parts work", about: "503 while one does not; errors[] names it. With `?verbose` " +
			"every check is listed.", params: readyParams()}, s.readyz)
	register(d, operation{id: "version", method: "GET", path: "/version", scope: scopeRead, narrow: free, tag: tagServer,
		summary: "Say what is running"}, s.getVersion)
	register(d, operation{id: "config", method: "GET", path: "/v1/config", scope: scopeRead, tag: tagServer,
		summary: "Say with which options the server runs, and who set them"}, s.getConfig)
	s.raw(d, operation{id: "metrics", method: "GET", path: "/metrics", scope: scopeMetrics, tag: tagServer,
		summary: "Prometheus metrics"}, textShape("text/plain"), s.metricsHandler())
	docsRoutes(s, d)

	// Probes may ask with HEAD; it is GET without a body and has no place of its own in the document.
	s.echo.HEAD("/livez", s.livez)
	s.operations["/livez"][http.MethodHead] = s.operations["/livez"][http.MethodGet]
	return s.finishDocument(d)
}

// reservationRoutes are what consumers call: the part of the table that is served most.
func reservationRoutes(s *Server, d *document) {
	s.raw(d, operation{id: "reserve", hot: true, method: "POST", path: "/v1/queues/{queue}/reservations",
		scope: scopeConsume, narrow: inQueue | inHandler, tag: tagReservations,
		summary: "Reserve chunks", about: reserveAbout}, reserveShape, s.reserve)
	s.raw(d, operation{id: "complete", hot: true, method: "POST", path: "/v1/queues/{queue}/reservations/complete",
		scope: scopeConsume, narrow: inQueue | inHandler, tag: tagReservations,
		summary: "Report chunks as done", about: resultsAbout}, finishShape[api.CompleteRequest](), s.complete)
	s.raw(d, operation{id: "fail", hot: true, method: "POST", path: "/v1/queues/{queue}/reservations/fail",
		scope: scopeConsume, narrow: inQueue | inHandler, tag: tagReservations,
		summary: "Report tries that did not succeed", about: resultsAbout}, finishShape[api.FailRequest](), s.fail)
	s.raw(d, operation{id: "extend", hot: true, method: "POST", path: "/v1/queues/{queue}/reservations/extend",
		scope: scopeConsume, narrow: inQueue | inHandler, tag: tagReservations,
		summary: "Move the deadlines of reservations", about: resultsAbout}, finishShape[api.ExtendRequest](), s.extend)
	s.raw(d, operation{id: "release", hot: true, method: "POST", path: "/v1/queues/{queue}/reservations/release",
		scope: scopeConsume, narrow: inQueue | inHandler, tag: tagReservations,
		summary: "Give chunks back unworked", about: resultsAbout}, finishShape[api.ReleaseRequest](), s.release)
	s.raw(d, operation{id: "exchange", hot: true, method: "POST", path: "/v1/queues/{queue}/reservations/exchange",
		scope: scopeConsume, narrow: inQueue | inHandler, tag: tagReservations,
		summary: "Finish chunks and reserve the next in one call", about: "What is finished is committed first; then " +
			"chunks are reserved. The fast path of consumers."}, exchangeShape, s.exchange)
}

// queueRoutes are the part of the table about queues themselves.
func (s *Server) queueRoutes(d *document) {
	register(d, operation{id: "list-queues", method: "GET", path: "/v1/queues", scope: scopeRead, narrow: inHandler,
		tag: tagQueues, compress: true,
		summary: "List the queues"}, s.listQueues)
	register(d, operation{id: "get-queue", method: "GET", path: "/v1/queues/{queue}", scope: scopeRead, narrow: inQueue, tag: tagQueues,
		summary: "Read a queue's settings"}, s.getQueue)
	register(d, operation{id: "put-queue", act: act{"queue.set", ""},
		brings: true, method: "PUT", path: "/v1/queues/{queue}", scope: scopeAdmin,
		tag: tagQueues, creates: reflect.TypeFor[api.Queue](),
		summary: "Create a queue or replace its settings",
		about:   "All settings are replaced: one that is left out gets its default. A new queue answers 201."}, s.putQueue)
	register(d, operation{id: "change-queue", act: act{"queue.change", ""},
		method: "PATCH", path: "/v1/queues/{queue}", scope: scopeAdmin, tag: tagQueues,
		summary: "Change some settings of a queue", about: "What is left out stays as it is; the next decisions read " +
			"what is changed, also about what is in flight."}, s.patchQueue)
	register(d, operation{id: "delete-queue", act: act{"queue.delete", ""},
		method: "DELETE", path: "/v1/queues/{queue}", scope: scopeAdmin, tag: tagQueues,
		summary: "Delete a queue", about: "Only a queue without open submissions can be deleted, and never the one named " +
			"default. A queue in quarantine, whose files are damaged or missing, is deleted with `quarantined=true`, whatever was in it; " +
			"of the one named default an empty one takes the place."}, s.deleteQueue)
	register(d, operation{id: "get-stats", method: "GET", path: "/v1/queues/{queue}/stats", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagQueues,
		summary: "Read a queue's numbers", about: "Flat, so that a scaler can read one by name. Reading costs the " +
			"same at any backlog. Totals count from the server's start."}, s.getStats)
}

// resourceRoutes are the parts of the table that stand beside their handlers or below.
func (s *Server) resourceRoutes(d *document) {
	s.valueRoutes(d)
	s.dashboardRoutes(d)
	s.strategyRoutes(d)
	s.questionRoutes(d)
	s.pluginRoutes(d)
	s.deadRoutes(d)
	s.pageRoutes(d)
	s.bulkRoutes(d)
	s.ruleRoutes(d)
	s.scheduleRoutes(d)
	s.consumerRoutes(d)
	held{s}.routes(d)
	s.lifecycleRoutes(d)
	s.tokenRoutes(d)
	s.auditRoutes(d)
	backupRoutes(s, d)
}

// valueRoutes are the part of the table about values of meta keys.
func (s *Server) valueRoutes(d *document) {
	register(d, operation{id: "list-meta-keys", method: "GET", path: "/v1/queues/{queue}/meta-keys", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagQueues, compress: true,
		summary: "List the meta keys with how many values they have", about: listKeysAbout}, s.listKeys)
	register(d, operation{id: "list-meta-values", method: "GET", path: "/v1/queues/{queue}/meta-keys/{key}/values",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagQueues, compress: true,
		summary: "List the values of a meta key with what is ready, in flight and set"}, s.listValues)
	register(d, operation{id: "get-meta-value", method: "GET",
		path: "/v1/queues/{queue}/meta-keys/{key}/values/{value}", scope: scopeRead, narrow: inQueue | inHandler, tag: tagQueues,
		summary: "Read a value of a meta key: what is ready, in flight and set", about: valueAbout}, s.getValue)
	register(d, operation{id: "put-meta-value", act: act{"value.set", "{key}={value}"}, brings: true, method: "PUT",
		path: "/v1/queues/{queue}/meta-keys/{key}/values/{value}", scope: scopeOperate, narrow: inQueue | noTenants,
		tag: tagQueues, creates: reflect.TypeFor[api.ValueCount](),
		summary: "Set a limit and a weight for a value of a meta key", about: putValueAbout}, s.putValue)
	register(d, operation{id: "delete-meta-value", act: act{"value.delete", "{key}={value}"}, method: "DELETE",
		path: "/v1/queues/{queue}/meta-keys/{key}/values/{value}", scope: scopeOperate, narrow: inQueue | noTenants, tag: tagQueues,
		summary: "Remove what is set for a value of a meta key",
		about:   "It is not limited any more, from the next reservation on, and weighs 1. If-Match as for PUT."}, s.deleteValue)
}

// dashboardRoutes are the part of the table about what the dashboard shows, and the dashboard itself.
func (s *Server) dashboardRoutes(d *document) {
	register(d, operation{id: "get-timeseries", method: "GET", path: "/v1/queues/{queue}/timeseries", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagQueues, compress: true,
		summary: "Read a queue's numbers over time", about: seriesAbout}, s.getSeries)
	register(d, operation{id: "get-key-timeseries", method: "GET",
		path: "/v1/queues/{queue}/meta-keys/{key}/timeseries", scope: scopeRead, narrow: inQueue | noTenants,
		tag: tagQueues, compress: true,
		summary: "Read the chunks in flight of a meta key's values over time", about: keySeriesAbout}, s.getKeySeries)
	s.raw(d, operation{id: "events", method: "GET", path: "/v1/events", scope: scopeRead, narrow: noTenants | inHandler, tag: tagQueues,
		summary: "Follow a queue's numbers", about: eventsAbout}, eventsShape, s.getEvents)
	s.raw(d, operation{id: "dashboard", method: "GET", path: "/", public: true, tag: tagServer, compress: true,
		summary: "The dashboard"}, textShape("text/html"), s.getDashboard)
	s.raw(d, operation{id: "dashboard-asset", method: "GET", path: "/assets/{file}", public: true, tag: tagServer, compress: true,
		summary: "A file of the dashboard"}, assetShape, s.getAsset)
}

// strategyRoutes are the part of the table about named strategies.
func (s *Server) strategyRoutes(d *document) {
	register(d, operation{id: "list-strategies", method: "GET", path: "/v1/queues/{queue}/strategies", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "List a queue's named strategies by name"}, s.listStrategies)
	register(d, operation{id: "get-strategy", method: "GET", path: "/v1/queues/{queue}/strategies/{name}",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies,
		summary: "Read a named strategy, or an older version of it"}, s.getStrategy)
	register(d, operation{id: "put-strategy", act: act{"strategy.set", "strategy {name}"},
		brings: true, method: "PUT", path: "/v1/queues/{queue}/strategies/{name}",
		scope: scopeOperate, narrow: inQueue | noTenants, tag: tagStrategies, creates: reflect.TypeFor[api.NamedStrategy](),
		summary: "Name a strategy, or change the one behind a name", about: putStrategyAbout}, s.putStrategy)
	register(d, operation{id: "delete-strategy", act: act{"strategy.delete", "strategy {name}"},
		method: "DELETE", path: "/v1/queues/{queue}/strategies/{name}",
		scope: scopeOperate, narrow: inQueue | noTenants, tag: tagStrategies,
		summary: "Delete a named strategy with all its versions",
		about:   "Reservations that ask for it are refused from then on. If-Match as for PUT."}, s.deleteStrategy)
	register(d, operation{id: "validate-strategy", method: "POST", path: "/v1/queues/{queue}/strategies/validate",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies,
		summary: "Say what a strategy means", about: validateAbout}, s.validateStrategy)
}

// questionRoutes are the part of the table about what strategies would do, and why work does not move; none of them changes anything.
func (s *Server) questionRoutes(d *document) {
	ask := questions{s}
	register(d, operation{id: "list-strategies-in-use", method: "GET", path: "/v1/queues/{queue}/strategies/in-use",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "List the strategies that consumers reserved by in the last hour", about: inUseAbout}, ask.inUse)
	register(d, operation{id: "preview", method: "POST", path: "/v1/queues/{queue}/strategies/preview",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagStrategies, compress: true,
		summary: "Say what a reserve would hand out now", about: "Nothing is reserved and nothing changes. A reserve " +
			"that comes later may get something else, and Random draws again each time."}, ask.preview)
	register(d, operation{id: "explain", method: "POST", path: "/v1/queues/{queue}/strategies/explain",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "Show how a strategy stands", about: explainAbout}, ask.explain)
	register(d, operation{id: "compare", method: "POST", path: "/v1/queues/{queue}/strategies/compare",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "Compare what two strategies would hand out now", about: "Both are previewed on the same state with " +
			"the same seed: how many values of each meta key get something, how evenly, and what the two have in common."}, ask.compare)
	register(d, operation{id: "why", method: "POST", path: "/v1/submissions/{id}/chunks/{index}/why", scope: scopeRead,
		narrow: inSub | noTenants, tag: tagStrategies,
		summary: "Say what keeps a strategy from handing out a chunk now", about: "For each branch the first " +
			"obstacle, and about where the chunk stands: how many come before it, and how long that takes at the " +
			"rate of the last minute."}, ask.why)
	register(d, operation{id: "diagnose-meta-value", method: "GET", path: "/v1/queues/{queue}/meta-keys/{key}/values/{value}/diagnosis",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagStrategies, summary: "Say why the chunks of a value move or do not",
		about: diagnosisAbout + valueAbout}, ask.valueDiagnosis)
	register(d, operation{id: "diagnose-submission", method: "GET", path: "/v1/submissions/{id}/diagnosis", scope: scopeRead,
		narrow: inSub | inHandler, tag: tagStrategies, summary: "Say why the chunks of a submission move or do not",
		about: diagnosisAbout}, ask.submissionDiagnosis)
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
		out, err := handler(ctx, in)
		if err != nil {
			if by := credentialIn(ctx); by != nil && errors.Is(err, context.Canceled) && !s.good(by) {
				err = s.noLongerGood()
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
