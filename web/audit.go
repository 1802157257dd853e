package web

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const auditAbout = "Who changed what, the latest first. An entry is durable together with what it tells of: there is " +
	"no change without its entry, and none is told of that did not happen. " +
	"An act that the token did not allow has the outcome `refused`, and `after` has the `code` and `detail` of the " +
	"answer. The first sixty of a token get an entry each, then one a minute does; its `left_out` is the number since " +
	"the previous entry that have none. " +
	"`next` goes on with older ones; a page may be short, or empty, and still have a next one, as only so many " +
	"entries are looked at for one page. " +
	"With `Accept: application/x-ndjson` the answer is all that match, a line each. With `Accept: text/event-stream` " +
	"it is those to come, or those from `since` on, the oldest first; the ids that it sends, also those without an " +
	"event, tell how far it has come, and `Last-Event-ID` takes it up there. Then entries of ten seconds before that " +
	"one may come again, and their ids tell. When the log cannot be read any further, the last event is `problem`, with " +
	"a problem as its data. `cursor`, `limit` and `until` do not go with it."

// auditing are the handlers of the audit log.
type auditing struct{ *Server }

// routes are the part of the table about the audit log.
func (s auditing) routes(d *document) {
	s.raw(d, operation{id: "list-audit", method: "GET", path: "/v1/audit", scope: scopeAdmin, tag: tagAccess,
		compress: true, freeform: true,
		summary: "Read the audit log", about: auditAbout, params: auditParams()}, auditShape, s.getAudit)
}

func auditParams() []*huma.Param {
	text := func(name, doc string) *huma.Param {
		return &huma.Param{Name: name, In: "query", Description: doc, Schema: &huma.Schema{Type: huma.TypeString}}
	}
	return []*huma.Param{
		text("since", "Only what happened at this time (RFC 3339) or later"), text("until", "Only what happened before this time"),
		text("actor", "Only what this actor did"),
		text("action", "Only this action, such as rule.create, or all of a resource, such as rule"),
		text("queue", "Only what was done in this queue"), text("target", "Only what was done to this, such as `rule 7`"),
		{Name: "outcome", In: "query", Description: "Only acts with this outcome; refused: the token did not allow them",
			Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{queue.ActOK, queue.ActRefused}}},
		text("cursor", "The next of the page before"), text("limit", "Most entries, 1 to 1000, 100 unless told"),
	}
}

func auditShape(d *document, op *huma.Operation) {
	lines := d.lines("One AuditEntry per line or event", reflect.TypeFor[api.AuditEntry]())
	op.Responses["200"] = &huma.Response{Description: http.StatusText(http.StatusOK), Content: map[string]*huma.MediaType{
		contentJSON: {Schema: d.ref(reflect.TypeFor[api.Page[api.AuditEntry]]())}, contentLines: lines, contentEvents: lines,
	}}
}

// auditRequest is what a request asks of the log.
type auditRequest struct {
	filter engine.AuditFilter
	cursor string
	limit  int
}

func (s auditing) getAudit(c echo.Context) error {
	in, err := parseAudit(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	switch accept := c.Request().Header.Get("Accept"); {
	case strings.Contains(accept, contentEvents):
		return s.followAudit(c, in)
	case strings.Contains(accept, contentLines):
		return s.exportAudit(c, in)
	}
	page, err := s.engine.Audit(in.filter, in.cursor, in.limit)
	if err != nil {
		return err
	}
	out := api.Page[api.AuditEntry]{Items: make([]api.AuditEntry, len(page.Items)), Next: page.Next}
	for i := range page.Items {
		out.Items[i] = apiAuditEntry(&page.Items[i].Act)
	}
	return c.JSON(http.StatusOK, out)
}

func parseAudit(raw string) (in auditRequest, err error) {
	in.limit = 100
	values, err := url.ParseQuery(raw)
	if err != nil {
		return in, queue.Invalid("/query", "is not well formed")
	}
	texts := map[string]*string{"actor": &in.filter.Actor, "action": &in.filter.Action, "queue": &in.filter.Queue,
		"target": &in.filter.Target, "outcome": &in.filter.Outcome, "cursor": &in.cursor}
	times := map[string]*queue.Time{"since": &in.filter.Since, "until": &in.filter.Until}
	for name, given := range values {
		pointer := "/query/" + api.EscapePointer(name)
		switch {
		case len(given) != 1:
			return in, queue.Invalid(pointer, "is given %d times; give it once", len(given))
		case texts[name] != nil:
			*texts[name] = given[0]
		case times[name] != nil:
			at, err := time.Parse(time.RFC3339, given[0])
			if err != nil || at.UnixMilli() < 0 {
				return in, queue.Invalid(pointer, "%s", api.TimeDetail)
			}
			*times[name] = queue.At(at)
		case name == "limit":
			if in.limit, err = strconv.Atoi(given[0]); err != nil || in.limit < 1 || in.limit > 1000 {
				return in, queue.Invalid(pointer, "must be a number from 1 to 1000")
			}
		default:
			return in, queue.Invalid(pointer, "is not a parameter of this operation")
		}
	}
	switch in.filter.Outcome {
	case "", queue.ActOK, queue.ActRefused:
		return in, nil
	}
	return in, queue.Invalid("/query/outcome", "must be %s or %s", queue.ActOK, queue.ActRefused)
}

func apiAuditEntry(a *queue.Act) api.AuditEntry {
	return api.AuditEntry{
		At: apiTime(a.At), Actor: a.Actor, OnBehalfOf: a.OnBehalfOf, From: a.From, Action: a.Action, Queue: a.Queue, Target: a.Target,
		Before: json.RawMessage(a.Before), After: json.RawMessage(a.After), RequestID: a.RequestID, Outcome: a.Outcome,
	}
}

// auditPage is how many entries an export reads at once.
const auditPage = 1000

// exportAudit writes all that match, page by page.
func (s auditing) exportAudit(c echo.Context, in auditRequest) error {
	page, err := s.engine.Audit(in.filter, in.cursor, auditPage)
	if err != nil {
		return err
	}
	return answerLines(s.Server, c, func(writer *bufio.Writer) error {
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
			if page, err = s.engine.Audit(in.filter, page.Next, auditPage); err != nil {
				return err
			}
		}
	})
}
