package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// health are the handlers of what says how the server is.
type health struct{ *Server }

// livez says that the process serves requests, and nothing about its parts: a probe that fails restarts the process,
// which would not fix a full disk.
func (s health) livez(c echo.Context) error { return c.String(http.StatusOK, "ok\n") }

// readyz fails while a part does not work or the server stops.
func (s health) readyz(ctx context.Context, in *RawQuery) (*output[api.Readiness], error) {
	values, err := url.ParseQuery(in.raw)
	if err != nil {
		return nil, queue.Invalid("/query", "is not well formed")
	}
	for name := range values {
		if name != "verbose" {
			return nil, queue.Invalid("/query/"+api.EscapePointer(name), "is not a parameter of this operation")
		}
	}
	out := &output[api.Readiness]{Body: api.Readiness{Ready: true, Checks: []api.Check{}}}
	var failed []queue.Problem
	secret := s.engine.Tokens().Table().Required() && ctx.Value(probing{}) == nil && !mayRead(ctx) // names of queues are not for everybody
	if secret && values.Has("verbose") {
		return nil, newProblem(codeUnauthorized,
			"Every check by name takes a token with the scope read; without ?verbose none is needed.")
	}
	if s.waits.stopped() {
		failed = append(failed, queue.Problem{Pointer: "/checks/server", Detail: "is stopping"})
	}
	for _, check := range s.engine.Ready() {
		if !check.OK && !check.Aside {
			failed = append(failed, queue.Problem{Pointer: "/checks/" + api.EscapePointer(check.Name), Detail: check.Detail})
		}
		if values.Has("verbose") {
			out.Body.Checks = append(out.Body.Checks, check.Check)
		}
	}
	if check, ok := s.pluginCheck(); ok && values.Has("verbose") {
		out.Body.Checks = append(out.Body.Checks, check)
	}
	if len(failed) > 0 && secret {
		return nil, newProblem(codeNotReady, "A part of the server does not work; a token with the scope read can see which.")
	}
	if len(failed) > 0 {
		return nil, newProblem(codeNotReady, "A part of the server does not work; errors names it.", failed...)
	}
	return out, nil
}

// pluginCheck says which plugins are not open yet. The server serves without them meanwhile, so it is no failure.
func (s health) pluginCheck() (check api.Check, ok bool) {
	if s.plugins == nil {
		return check, false
	}
	names, active := s.plugins.Starting()
	check = api.Check{Name: "plugins", OK: true, Detail: fmt.Sprintf("%d active", active)}
	if len(names) > 0 {
		shown, more := names, ""
		if len(names) > maxNamesShown {
			shown, more = names[:maxNamesShown], ", ..."
		}
		check.Detail = fmt.Sprintf("%d of %d active plugins are starting, and requests go on without them: %s%s",
			len(names), active, strings.Join(shown, ", "), more)
	}
	return check, true
}

const maxNamesShown = 10

// mayRead says whether the caller has the scope read, and is bound to nothing.
func mayRead(ctx context.Context) bool {
	token := access.Of(ctx).Token
	return token != nil && token.Scopes.Allow(scopeRead) && !token.Restricted()
}

// readyParams documents ?verbose.
func readyParams() []*huma.Param {
	return []*huma.Param{{Name: "verbose", In: "query", AllowEmptyValue: true, Description: "List every check by name",
		Schema: &huma.Schema{Type: huma.TypeString}}}
}

func (s health) getVersion(context.Context, *struct{}) (*output[api.Version], error) {
	return &output[api.Version]{Body: s.version}, nil
}

func (s health) getConfig(context.Context, *struct{}) (*output[api.ServerOptions], error) {
	return &output[api.ServerOptions]{Body: api.ServerOptions{Options: s.config}}, nil
}

// cold is the frame of the operations that huma decodes: content type, body limit and the deadlines of a wait.
func (s *Server) cold(op *operation) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		c := unwrap(ctx)
		r := c.Request()
		if op.method == http.MethodPut || op.method == http.MethodPatch {
			if _, err := s.mediaType(r, contentJSON); err != nil {
				c.Set(problemKey, s.refuse(c, err))
				return
			}
		}
		r.Body = http.MaxBytesReader(c.Response(), r.Body, maxBodyBytes)
		if op.waits && r.Header.Get("Prefer") != "" {
			s.waitLonger(c.Response(), queue.MaxWait) // before enter: stopping sets a deadline too
			s.waits.enter(c.Response(), s.credentialOf(r))
			defer s.waits.leave(c.Response())
		}
		next(ctx)
	}
}
