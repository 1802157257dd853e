package web

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/api"
)

// health are the handlers that say how the server is.
//
// /livez and /readyz answer two different questions. A supervisor restarts a process that is not
// live, so /livez looks at nothing: a restart cures neither a full disk nor a lost database. A load
// balancer leaves out a server that is not ready.
type health struct {
	engine   *engine.Engine
	plugins  *plugins.Catalogue // nil: there are none
	waits    *waits
	version  api.Version
	config   []api.ServerOption
	gatherer prometheus.Gatherer
}

// routes are the part of the table about the server itself.
func (x health) routes(r *router) {
	r.raw(operation{id: "livez", method: "GET", path: "/livez", public: true, tag: tagServer,
		summary: "Check that the process serves requests"}, textShape("text/plain"), x.livez)
	register(r, operation{id: "readyz", method: "GET", path: "/readyz", public: true, tag: tagServer, freeform: true,
		summary: "Check whether all parts work",
		about: "If a part does not work, the answer is 503, and errors[] names the part. With `?verbose` the " +
			"answer lists every check.", params: readyParams()}, x.readyz)
	register(r, operation{id: "version", method: "GET", path: "/version", scope: scopeRead, narrow: free,
		tag: tagServer, summary: "Read the version of the server"}, x.getVersion)
	register(r, operation{id: "config", method: "GET", path: "/v1/config", scope: scopeRead, tag: tagServer,
		summary: "Read the server's options and their sources"}, x.getConfig)
	r.raw(operation{id: "metrics", method: "GET", path: "/metrics", scope: scopeMetrics, tag: tagServer,
		summary: "Prometheus metrics"}, textShape("text/plain"), x.metrics())
}

// livez says that the process serves requests, and nothing about its parts: a probe that
// fails restarts the process, which would not fix a full disk.
func (x health) livez(c echo.Context) error { return c.String(http.StatusOK, "ok\n") }

// readyz fails while a part does not work or the server stops.
func (x health) readyz(ctx context.Context, in *RawQuery) (*output[api.Readiness], error) {
	values, err := readQuery(in.raw)
	if err != nil {
		return nil, err
	}
	for name := range values {
		if name != "verbose" {
			return nil, queue.Invalid("/query/"+api.EscapePointer(name), "is not a parameter of this operation")
		}
	}
	out := &output[api.Readiness]{Body: api.Readiness{Ready: true, Checks: []api.Check{}}}
	var failed []queue.Problem
	// not everybody may see names of queues
	secret := x.engine.Tokens().Table().Required() && ctx.Value(probing{}) == nil && !mayRead(ctx)
	if secret && values.Has("verbose") {
		return nil, newProblem(codeUnauthorized,
			"Every check by name takes a token with the scope read; without ?verbose none is needed.")
	}
	if x.waits.stopped() {
		failed = append(failed, queue.Problem{Pointer: "/checks/server", Detail: "is stopping"})
	}
	// A check that is aside, such as a queue in quarantine, is shown but does not fail the server: the other queues
	// serve, and a load balancer must not take them away.
	for _, check := range x.engine.Ready() {
		if !check.OK && !check.Aside {
			failed = append(failed, queue.Problem{Pointer: "/checks/" + api.EscapePointer(check.Name),
				Detail: check.Detail})
		}
		if values.Has("verbose") {
			out.Body.Checks = append(out.Body.Checks, check.Check)
		}
	}
	if x.plugins != nil && values.Has("verbose") {
		out.Body.Checks = append(out.Body.Checks, x.plugins.Started())
	}
	if len(failed) > 0 && secret {
		return nil,
			newProblem(codeNotReady, "A part of the server does not work; a token with the scope read can see which.")
	}
	if len(failed) > 0 {
		return nil, newProblem(codeNotReady, "A part of the server does not work; errors names it.", failed...)
	}
	return out, nil
}

// mayRead says whether the caller has the scope read, and is bound to nothing.
// The names of checks contain names of queues. A token that is bound to some queues would see those of others.
func mayRead(ctx context.Context) bool {
	token := access.Of(ctx).Token
	return token != nil && token.Scopes.Allow(scopeRead) && !token.Restricted()
}

// readyParams documents ?verbose.
// The parameter has no value, as in Kubernetes: ?verbose, and ?verbose=1 for clients that insist on one.
func readyParams() []*huma.Param {
	return []*huma.Param{{Name: "verbose", In: "query", AllowEmptyValue: true, Description: "List every check by name",
		Schema: &huma.Schema{Type: huma.TypeString}}}
}

func (x health) getVersion(context.Context, *struct{}) (*output[api.Version], error) {
	return &output[api.Version]{Body: x.version}, nil
}

func (x health) getConfig(context.Context, *struct{}) (*output[api.ServerOptions], error) {
	return &output[api.ServerOptions]{Body: api.ServerOptions{Options: x.config}}, nil
}

// metrics serves /metrics in the format the scraper asks for.
// At most four scrapes run at once. An error in one metric leaves the others in the answer, because a missing scrape
// would look like a dead server.
func (x health) metrics() echo.HandlerFunc {
	handler := promhttp.HandlerFor(x.gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: 4,
		ErrorHandling: promhttp.ContinueOnError})
	return func(c echo.Context) error {
		handler.ServeHTTP(c.Response(), c.Request())
		return nil
	}
}
