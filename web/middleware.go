package web

// The life of every request, in one function: observe. Echo calls it for each route, and for paths
// that do not exist.
//
//	observe ─► setHeaders   request id and the headers of every answer (hot calls set them when they answer)
//	        ─► guard        Host header and origin: requests that a browser must not be able to send
//	        ─► admit        the caller, and whether its token allows the call (access.go); before any body is read
//	        ─► answer       another node of the cluster, if that one owns the queue (forward.go), else
//	             └► run     ─► collect    the answer is gathered, so that it can still be refused (answers.go)
//	                        ─► compress   long answers only
//	                        ─► protect    a panic becomes an error
//	                        ─► handler
//	        ─► refuse       an error becomes a problem, unless half an answer is out
//	        ─► account      metrics and the line of the log
//
// The order matters. A client that may not ask causes no work: no body is read and no memory is taken
// before admit. And the audit entry of a refusal is written before the answer leaves, so that a
// client that knows of its refusal finds it in the log.

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine/access"
)

const (
	headerRequestID  = "X-Request-Id"
	headerDurability = "Quern-Durability"
	headerIncomplete = "Quern-Audit-Incomplete"
	headerReplayed   = "Idempotency-Replayed"
	headerExisting   = "Quern-Existing"

	// strictPolicy is for answers that are data: nothing in them may load, run or be framed.
	strictPolicy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

	maxRequestID   = 64
	minCompressed  = 1 << 10
	problemKey     = "quern.problem" // where the transformer leaves its problem, for the access log
	brokenKey      = "quern.broken"  // where the body is, which has its problem
	routeUnmatched = "_unmatched"
)

// observe is the outermost layer of every request: it names the request, sets the headers that
// every answer carries, refuses requests that a browser should not be able to send, turns errors
// and panics into problems, measures and logs.
//
// It returns nil always: the answer is written by then. A failure after the first byte of an answer
// cannot become a problem any more. observe then panics with http.ErrAbortHandler, which cuts the
// connection: a client must never take half an answer for a whole one.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		started := s.clock.now()
		undoEscapes(c)
		op := s.operations[c.Path()][c.Request().Method]
		span := s.tracing.start(c, op)
		if op == nil || !op.hot {
			s.answers.setHeaders(c)
		}
		receive(c, op)

		err := s.guard(c.Request(), op)
		if err == nil {
			s.auth.hops.catchUp(c.Request())
			var use *access.Use
			if use, err = s.auth.admit(c, op, started); use != nil {
				defer use.Leave()
			}
			if use != nil || err == nil && op != nil && !op.public && !isProbe(c.Request()) {
				s.connections.prove(c.Request().Context())
			}
		}
		if err == nil {
			err = s.answer(c, op, next)
		}
		var failure *problem
		begun := false
		if err != nil {
			begun = c.Response().Committed
			failure = s.answers.refuse(c, err)
		} else {
			failure, _ = c.Get(problemKey).(*problem)
		}
		if failure != nil {
			// before the answer is sent: net/http buffers it until the handler returns
			recordRefusal(s.engine.Tokens(), c, op, failure)
		}
		endSpan(span, c, s.account(c, op, failure, started), failure)
		if begun {
			// Half an answer is out. Cutting the connection is the only way left to say
			// that it is not whole.
			panic(http.ErrAbortHandler)
		}
		return nil
	}
}

// undoEscapes gives all readers of a path the same names. The router takes the escaped path apart when its escapes
// matter, such as %2F in a name with a '/', and leaves them in the parts; otherwise, it takes the plain path apart.
func undoEscapes(c echo.Context) {
	if c.Request().URL.RawPath == "" {
		return
	}
	parts := c.ParamValues()
	for i, part := range parts {
		if plain, err := url.PathUnescape(part); err == nil {
			parts[i] = plain
		}
	}
	c.SetParamValues(parts...)
}

// answer runs the handler of an operation, or lets another node of the cluster do it.
func (s *Server) answer(c echo.Context, op *operation, next echo.HandlerFunc) error {
	if op != nil {
		if err := op.wellFormed(c.Request()); err != nil {
			return err
		}
	}
	if op != nil && op.shards != nil {
		if did, err := s.overShards(c, op); did || err != nil {
			return err
		}
	}
	if op != nil && op.spread != nil {
		if s.forwarding.whole(c) {
			if did, err := op.spread(c); did || err != nil {
				return err
			}
		} else if s.forwarding.nodes != nil {
			s.forwarding.noteServed(c)
		}
	}
	at, err := s.forwarding.elsewhere(c, op)
	switch {
	case err != nil:
		return err
	case at != nil:
		return s.forwarding.send(c, at, op.scope == access.Read)
	case op != nil && op.brings:
		if err := s.engine.Storage().Room(); err != nil {
			return err
		}
	}
	return s.run(c, op, next)
}

// constant are the header values that every answer shares. They are made once and never appended to.
type constant struct {
	nosniff, referrer, policy, cache, json []string
}

func newConstant() constant {
	return constant{
		nosniff: []string{"nosniff"}, referrer: []string{"no-referrer"}, policy: []string{strictPolicy},
		cache: []string{"no-store"}, json: []string{contentJSON},
	}
}

// setHeaders sets the headers that every answer carries, problems included. Hot calls
// call it when they answer, so that ten thousand waiting calls hold no headers.
func (a *answers) setHeaders(c echo.Context) {
	id := c.Request().Header.Get(headerRequestID)
	if !validRequestID(id) {
		id = a.ids.next()
	}
	header := c.Response().Header()
	header[headerRequestID] = []string{id}
	header["X-Content-Type-Options"] = a.constant.nosniff
	header["Referrer-Policy"] = a.constant.referrer
	header["Content-Security-Policy"] = a.constant.policy
	header["Cache-Control"] = a.constant.cache
}

// requestIDs names the requests that bring no id. The prefix tells the runs of a server apart.
type requestIDs struct {
	prefix string
	last   atomic.Uint64
}

func (r *requestIDs) next() string {
	return string(strconv.AppendUint([]byte(r.prefix), r.last.Add(1), 36))
}

// validRequestID accepts an id that a proxy in front of us may have chosen, and
// nothing that could forge a log line.
func validRequestID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for _, c := range []byte(id) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return true
}

// guard refuses requests that reach this server by a foreign name (DNS rebinding) or from
// a foreign page. The latter may read: no browser shows it the answer. It may not open a
// stream, though that is a GET: it would attach a consumer, or hold a connection.
func (s *Server) guard(r *http.Request, op *operation) error {
	if !s.hosts.allows(r.Host) && !s.certified(r) {
		return newProblem(codeHost, "The Host header is not a name of this server. Use localhost, or start the "+
			"server with this name among its allowed hosts.")
	}
	if op != nil && op.streams {
		r = r.WithContext(r.Context())
		r.Method = http.MethodPost // a method that is checked
	}
	if err := s.crossOrigin.Check(r); err != nil {
		return newProblem(codeCrossOrigin,
			"A page of another site sent this request. Send it from outside a browser, or from a page of this server.")
	}
	return nil
}

// certified says whether the certificate names the host that the request asks for: a browser
// then knows that it talks to this server, and a page under another name cannot have got here.
func (s *Server) certified(r *http.Request) bool {
	if s.certificate == nil || r.TLS == nil {
		return false
	}
	host, ok := bareHost(r.Host)
	return ok && s.certificate.Covers(host)
}

// panicked is a panic on its way to the log.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// run calls the handler and turns a panic into an error. The answer of an operation that
// is neither hot nor a stream is collected.
//
// Reads take their turn within collect, not before: the memory of the answer is counted for the
// token that waits. After a read, `still` asks once more whether this node may answer for the
// queue. A node that lost the queue while it read must not send its answer: another node may have
// changed the queue since.
func (s *Server) run(c echo.Context, op *operation, next echo.HandlerFunc) (err error) {
	if op != nil && !op.hot && !op.streams && !op.public && !isProbe(c.Request()) {
		return s.answers.collect(c, func() error {
			if op.turns || op.scope != scopeRead || op.waits && c.Request().Header.Get("Prefer") != "" {
				return s.compressing(c, op, next)
			}
			if ofShardCall(c) { // the call that asks for this part has the turn
				return s.compressing(c, op, next)
			}
			return inTurn(s.clock, c, func() error { return s.compressing(c, op, next) })
		}, func() error {
			if c.Request().Method != http.MethodGet {
				return nil // an append fenced its change
			}
			return s.forwarding.still(c, op)
		})
	}
	return s.compressing(c, op, next)
}

// compressing runs operations that may answer at length within a compressor, and within
// the same net: a problem written inside a compressor must leave through it.
func (s *Server) compressing(c echo.Context, op *operation, next echo.HandlerFunc) (err error) {
	if op == nil || !op.compress {
		return protect(c, next)
	}
	outer := c.Response()
	defer c.SetResponse(outer)
	s.gzip(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		inner := echo.NewResponse(w, s.echo)
		c.SetResponse(inner)
		err = protect(c, next)
		if err != nil && !inner.Committed {
			c.Set(problemKey, s.answers.refuse(c, err))
			err = nil
		}
	})).ServeHTTP(outer, c.Request())
	return err
}

func protect(c echo.Context, next echo.HandlerFunc) (err error) {
	defer func() {
		if value := recover(); value != nil {
			if value == http.ErrAbortHandler {
				panic(value)
			}
			err = &panicked{value: value, stack: debug.Stack()}
		}
	}()
	return next(c)
}

// account measures the request, whose status it returns, and writes its line of the access
// log: no query, no body, no header of the client but the checked request id. Calls that
// went well are logged at Debug, because they are many.
//
// An answer that began well and was cut off has the status 200 on the wire. Its line has the level
// of the failure all the same, as an operator looks for failures and not for statuses. Without the
// limit per kind of line (lines.go), a client that is refused in a loop would fill the disk with
// the log.
func (s *Server) account(c echo.Context, op *operation, failure *problem, started time.Time) (status int) {
	elapsed := s.clock.now().Sub(started)
	response := c.Response()
	status = response.Status
	if failure != nil && failure.Code == string(codeClientGone) {
		status = statusClientGone
	}
	// The node that the client asked counts the call. It measures the hop too, which is what the client waits for.
	if s.auth.hops.of(c.Request()) == nil {
		s.metrics.observe(op, status, elapsed)
	}

	ctx := c.Request().Context()
	worst := status
	if failure != nil && status != statusClientGone && ctx.Err() == nil {
		worst = failure.Status // an answer that began well and was cut off has the status 200
	}
	level := slog.LevelDebug
	switch {
	case worst >= 500 && failure != nil && failure.retry == 0:
		level = slog.LevelError
	case worst >= 500:
		level = slog.LevelWarn
	case worst >= 400 && worst != statusClientGone:
		level = slog.LevelInfo
	}
	if !s.log.Enabled(ctx, level) {
		return status
	}
	leftOut := 0
	if !s.log.Enabled(ctx, slog.LevelDebug) { // with Debug every call has a line
		kind, may := lineKind{routeUnmatched, strconv.Itoa(worst), worst >= http.StatusInternalServerError}, false
		if op != nil {
			kind.operation = op.id
		}
		if failure != nil {
			kind.code = failure.Code
		}
		if leftOut, may = s.metrics.lines.take(kind, started.Add(elapsed).Sub(s.clock.began)); !may {
			return status
		}
	}
	logCall(s.log, c, op, failure, level, []slog.Attr{
		slog.String("method", c.Request().Method),
		slog.String("path", clip(c.Request().URL.Path)),
		slog.Int("status", status),
		slog.Duration("elapsed", elapsed),
		slog.Int64("bytes", response.Size),
		slog.String("request_id", response.Header().Get(headerRequestID)),
	}, leftOut)
	return status
}

// logCall writes the line of a call. leftOut is how many lines of its kind were not written before it.
func logCall(log *slog.Logger, c echo.Context, op *operation, failure *problem, level slog.Level,
	attributes []slog.Attr, leftOut int) {
	ctx := c.Request().Context()
	if op != nil {
		attributes = append(attributes, slog.String("operation", op.id))
	}
	if caller := access.Of(ctx); caller.Token != nil {
		attributes = append(attributes, slog.String("actor", caller.Token.Name))
		if caller.OnBehalfOf != "" {
			attributes = append(attributes, slog.String("on_behalf_of", caller.OnBehalfOf))
		}
	}
	if leftOut > 0 {
		attributes = append(attributes, slog.Int("left_out", leftOut))
	}
	if failure != nil {
		attributes = append(attributes, slog.String("code", failure.Code))
		if failure.cause != nil {
			attributes = append(attributes, slog.String("error", failure.cause.Error()))
		}
		if p, ok := failure.cause.(*panicked); ok {
			attributes = append(attributes, slog.String("stack", string(p.stack)))
		}
	}
	log.LogAttrs(ctx, level, "request", attributes...)
}

// clip makes a client's text, such as a path, fit for the log: not too long, and without
// the secret of a token.
func clip(path string) string {
	const most = 256
	path = access.Mask(path)
	if len(path) <= most {
		return path
	}
	return path[:most] + "..."
}

// newCompressor compresses large answers of text and JSON for clients that accept it.
func newCompressor() (func(http.Handler) http.HandlerFunc, error) {
	return gzhttp.NewWrapper(gzhttp.MinSize(minCompressed), gzhttp.CompressionLevel(1), gzhttp.EnableZstd(true),
		gzhttp.ContentTypes([]string{"application/json", contentProblem, contentLines, "application/openapi+json",
			"text/html", "text/javascript", "text/css", "image/svg+xml"}))
}
