package web

import (
	"errors"
	"strings"
	"unicode"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
)

// This file writes refused acts to the audit log: changes that were asked for with a token
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
