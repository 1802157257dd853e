package web

import (
	"bufio"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const auditAbout = "Who changed what, the latest first. An entry is durable together with what it tells of: there is " +
	"no change without its entry, and no entry of a change that did not happen. " +
	"An act that the token did not allow has the outcome `refused`, and `after` has the `code` and `detail` of the " +
	"answer. The first sixty of a token get an entry each, then one a minute does; its `left_out` is the number since " +
	"the previous entry that have none. " +
	"`next` is the cursor of older ones; a page may be short, or empty, and still have a next one, as only so many " +
	"entries are looked at for one page. " +
	"`incomplete`, and the header `Quern-Audit-Incomplete` of every form of the answer, name the queues in quarantine whose " +
	"latest entries the log may lack. " +
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
		compress: true, freeform: true, streams: true,
		summary: "Read the audit log", about: auditAbout, params: auditList().document()}, auditShape, s.getAudit)
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
		at("since", "Only what happened at this time (RFC 3339) or later", func(r *auditRequest) *queue.Time { return &r.filter.Since }),
		at("until", "Only what happened before this time", func(r *auditRequest) *queue.Time { return &r.filter.Until }),
		text("actor", "Only what this actor did", func(r *auditRequest) *string { return &r.filter.Actor }),
		text("action", "Only this action, such as rule.create, or all of a resource, such as rule",
			func(r *auditRequest) *string { return &r.filter.Action }),
		text("queue", "Only what was done in this queue", func(r *auditRequest) *string { return &r.filter.Queue }),
		text("target", "Only what was done to this, such as `rule 7`", func(r *auditRequest) *string { return &r.filter.Target }),
		choiceParameter("outcome", "Only acts with this outcome; refused: the token did not allow them",
			[]string{queue.ActOK, queue.ActRefused}, func(r *auditRequest, chosen string) { r.filter.Outcome = chosen }),
	}, pageParameters(func(r *auditRequest) *string { return &r.cursor }, func(r *auditRequest) *int { return &r.limit }))
}

func auditShape(d *document, op *huma.Operation) {
	lines := d.lines("One AuditEntry per line or event", reflect.TypeFor[api.AuditEntry]())
	op.Responses["200"] = &huma.Response{Description: http.StatusText(http.StatusOK), Content: map[string]*huma.MediaType{
		contentJSON: {Schema: d.ref(reflect.TypeFor[api.PageAuditEntry]())}, contentLines: lines, contentEvents: lines,
	}, Headers: map[string]*huma.Param{headerIncomplete: {Schema: &huma.Schema{Type: huma.TypeString},
		Description: "Names of queues in quarantine, separated by commas: their latest entries may be missing"}}}
}

// auditRequest is what a request asks of the log.
type auditRequest struct {
	filter engine.AuditFilter
	cursor string
	limit  int
}

func (s auditing) getAudit(c echo.Context) error {
	in := auditRequest{limit: defaultListLimit}
	if err := auditList().read(c.Request().URL.RawQuery, &in); err != nil {
		return err
	}
	lacks := s.engine.AuditLacks(in.filter)
	if len(lacks) > 0 {
		c.Response().Header().Set(headerIncomplete, strings.Join(lacks, ","))
	}
	switch accept := c.Request().Header.Get("Accept"); {
	case strings.Contains(accept, contentEvents):
		return s.followAudit(c, in)
	case strings.Contains(accept, contentLines):
		return s.exportAudit(c, in)
	}
	done, err := holdPage(c)
	if err != nil {
		return err
	}
	defer done()
	page, err := s.engine.Audit(in.filter, in.cursor, in.limit)
	if err != nil {
		return err
	}
	out := api.PageAuditEntry{Items: make([]api.AuditEntry, len(page.Items)), Next: page.Next, Incomplete: lacks}
	for i := range page.Items {
		out.Items[i] = apiAuditEntry(&page.Items[i].Act)
	}
	return collect(s.Server, c, func() error { return c.JSON(http.StatusOK, out) })
}

// holdPage has the answer count for a page of the log, as it is read and as it is encoded, until the function that it returns is called.
func holdPage(c echo.Context) (done func(), err error) {
	answer := access.Of(c.Request().Context()).Answer
	err = answer.Hold(2 * queue.MaxAnswerBytes)
	return func() { _ = answer.Hold(0) }, err // less always fits
}

func apiAuditEntry(a *queue.Act) api.AuditEntry {
	return api.AuditEntry{
		At: a.At.API(), Actor: a.Actor, OnBehalfOf: a.OnBehalfOf, From: a.From, Action: a.Action, Queue: a.Queue, Target: a.Target,
		Before: json.RawMessage(a.Before), After: json.RawMessage(a.After), RequestID: a.RequestID, Outcome: a.Outcome,
	}
}

// auditPage is how many entries an export reads at once.
const auditPage = 1000

// exportAudit writes all that match, page by page.
func (s auditing) exportAudit(c echo.Context, in auditRequest) error {
	done, err := holdPage(c)
	if err != nil {
		return err
	}
	defer done()
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
