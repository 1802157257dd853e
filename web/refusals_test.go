package web

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/sdk/api"
)

// placeholder is a placeholder of a path as echo has it.
var placeholder = regexp.MustCompile(`\\?:[a-z]+`)

// filledIn is a path of the route table with its parameters replaced. A colon behind a backslash is literal.
func filledIn(path string, value func(name string) string) string {
	return placeholder.ReplaceAllStringFunc(path, func(found string) string {
		if literal, ok := strings.CutPrefix(found, `\`); ok {
			return literal
		}
		return value(found)
	})
}

// reasonOf is why an entry says that an act was refused.
func reasonOf(t testing.TB, e *api.AuditEntry) (reason struct {
	Code    string `json:"code"`
	Detail  string `json:"detail"`
	LeftOut int    `json:"left_out"`
}) {
	t.Helper()
	if err := json.Unmarshal(e.After, &reason); err != nil || reason.Code == "" || reason.Detail == "" {
		t.Errorf("%s of %s: the entry says why with %s: %v", e.Action, e.Target, e.After, err)
	}
	return reason
}

// Every operation that leaves an entry in the audit log when it succeeds leaves one when the token lacks its scope:
// actor, address, action, request and reason, once. Operations that change nothing for others, and those of producers
// and consumers, leave none.
func TestEveryRefusedActIsInTheAuditLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, admin := f.token(engine.TokenRequest{Name: "ana", Scopes: access.Admin})
	_, weak := f.token(engine.TokenRequest{Name: "bo", Scopes: access.Metrics})
	want := map[string]string{} // by request id: the action
	for path, methods := range f.server.operations {
		for method, op := range methods {
			if op.public || op.scope == access.None || op.scope&access.Metrics != 0 {
				continue
			}
			id := "r-" + op.id
			header := map[string]string{headerRequestID: id, headerOnBehalfOf: "eve"}
			c := call{method: method, path: filledIn(path, func(string) string { return "777" }), header: header}
			if method != "GET" && method != "DELETE" {
				c.body = "{}"
			}
			if got := f.as(weak, c); got.status != http.StatusForbidden {
				t.Errorf("%s: %d %s", op.id, got.status, got.body)
			}
			takes := method != http.MethodGet && method != http.MethodHead && op.scope&(scopeOperate|scopePlugins|scopeAdmin) != 0 && silent[op.id] == ""
			if takes != (op.act.action != "") {
				t.Errorf("%s: its line in the table says %q of the audit log", op.id, op.act.action)
			}
			if takes {
				want[id] = op.act.action
			}
		}
	}
	if len(want) < 40 {
		t.Errorf("%d operations are acts; there are more", len(want))
	}
	for _, e := range f.audit(admin, "?outcome=refused&limit=1000") {
		if want[e.RequestID] != e.Action {
			t.Errorf("request %s has an entry %s too many", e.RequestID, e.Action)
		}
		delete(want, e.RequestID)
		if e.Actor != "bo" || e.OnBehalfOf != "eve" || e.From != "127.0.0.1" || e.Outcome != "refused" || e.Before != nil || strings.Contains(e.Target, "{") {
			t.Errorf("the entry is %+v", e)
		}
		if reason := reasonOf(t, &e); reason.Code != "forbidden" || !strings.Contains(reason.Detail, "takes the scope") || reason.LeftOut != 0 {
			t.Errorf("%s was refused with %+v", e.Action, reason)
		}
	}
	if len(want) > 0 {
		t.Errorf("no entry tells of %v", want)
	}
	if entries := f.audit(admin, "?outcome=ok"); slices.ContainsFunc(entries, func(e api.AuditEntry) bool { return e.Actor == "bo" }) {
		t.Error("the log says that something went well for a token that was refused everything")
	}
	if got := f.as(admin, call{method: "GET", path: "/v1/audit?outcome=maybe"}); got.status != http.StatusUnprocessableEntity || got.problem(t).Errors[0].Pointer != "/query/outcome" {
		t.Errorf("outcome=maybe: %d %s", got.status, got.body)
	}
}

// Acts beyond a token's restriction, and blocks by others than admins, are refused acts too, with their queue and
// target. A call that fails because it is invalid, or for want of a good token, is none.
func TestActsBeyondTheTokenAreInTheAuditLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, admin := f.token(engine.TokenRequest{Name: "ana", Scopes: access.Admin})
	_, operator := f.token(engine.TokenRequest{Name: "bo", Scopes: access.Operate})
	_, bound := f.token(engine.TokenRequest{Name: "eve", Scopes: access.Operate, Restriction: access.Restriction{Queues: []string{"other"}}})
	f.as(admin, call{method: "PUT", path: "/v1/queues/other", body: "{}"})
	var made api.Submission
	f.as(admin, call{method: "POST", path: insertPath, body: `{"chunks":{"count":1,"template":"x"}}`}).decode(t, &made)
	var rule api.Rule
	f.as(admin, call{method: "POST", path: "/v1/queues/default/rules", body: `{"action":"block","match":{"meta":{"company":7}},"reason":"late"}`}).decode(t, &rule)
	const queues = "/v1/queues/"
	var want []string
	refuse := func(token, method, path, body string, status int, entry string) {
		t.Helper()
		if got := f.as(token, call{method: method, path: path, body: body}); got.status != status {
			t.Fatalf("%s %s: %d %s, want %d", method, path, got.status, got.body, status)
		}
		if entry != "" {
			want = append(want, entry)
		}
	}
	refuse(operator, "POST", queues+"default/rules", `{"action":"block","match":{"queue":true},"reason":"late"}`, 403, "bo rule.create default  forbidden")
	refuse(operator, "DELETE", queues+"default/rules/"+rule.ID, "", 403, "bo rule.lift default rule "+rule.ID+" forbidden")
	refuse(operator, "DELETE", "/v1/tokens/no%1Btoken", "", 403, "bo token.revoke  token no\uFFFDtoken forbidden")
	refuse(bound, "POST", queues+"default/rules", `{"action":"pause","match":{"queue":true}}`, 404, "eve rule.create default  unknown_queue")
	refuse(bound, "DELETE", queues+"default/meta-keys/company/values/s:x", "", 404, "eve value.delete default company=x unknown_queue")
	refuse(bound, "POST", "/v1/submissions/"+made.ID+"/cancel", "", 404, "eve submission.cancel  submission "+made.ID+" unknown_submission")
	refuse(bound, "POST", "/v1/bulk-operations", `{"queue":"default","action":"cancel","filter":{}}`, 404, "eve bulk.start   unknown_queue")
	refuse(bound, "PUT", queues+strings.Repeat("q", 1000), "{}", 403, "eve queue.set "+strings.Repeat("q", 256)+"...  forbidden")
	refuse(operator, "POST", queues+"none/rules", `{"action":"pause","match":{"queue":true}}`, 404, "")
	refuse(operator, "POST", queues+"default/rules", `{}`, 422, "")
	refuse(bound, "GET", queues+"other/rules", "", 403, "")
	refuse("qn_wrong", "POST", queues+"default/rules", `{"action":"pause","match":{"queue":true}}`, 401, "")
	refuse(admin, "DELETE", "/v1/tokens/no%1Btoken", "", 204, "")
	var recorded []string
	entries := f.audit(admin, "?outcome=refused")
	for _, e := range slices.Backward(entries) {
		recorded = append(recorded, strings.Join([]string{e.Actor, e.Action, e.Queue, e.Target, reasonOf(t, &e).Code}, " "))
	}
	if !slices.Equal(recorded, want) {
		t.Errorf("the log tells of\n%s\nwant\n%s", strings.Join(recorded, "\n"), strings.Join(want, "\n"))
	}
	if !strings.Contains(f.log.String(), `operation=set-rule actor=bo`) {
		t.Error("the access log does not say who was refused")
	}
}

// However often a token is refused at once, the entries are few.
func TestRefusedActsDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, admin := f.token(engine.TokenRequest{Name: "ana", Scopes: access.Admin})
	_, weak := f.token(engine.TokenRequest{Name: "bo", Scopes: access.Read})
	for range 300 {
		if got := f.as(weak, call{method: "DELETE", path: "/v1/queues/default"}); got.status != http.StatusForbidden {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	if n := len(f.audit(admin, "?outcome=refused&limit=1000")); n < 60 || n > 70 {
		t.Errorf("%d entries tell of 300 refused acts, want 60 and one for each minute that this took", n)
	}
}

// No operation of the API ignores a parameter that it does not know: it may be a misspelt one.
func TestUnknownParametersAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, admin := f.token(engine.TokenRequest{Name: "ana", Scopes: access.Admin})
	for path, methods := range f.server.operations {
		for method, op := range methods {
			if method == http.MethodHead || !strings.HasPrefix(path, "/v1/") {
				continue
			}
			path := strings.NewReplacer(":queue", "default", "{queue}", "default").Replace(path)
			c := call{method: method, body: "{}", path: filledIn(path, func(string) string { return "777" }) + "?misspelt=1"}
			if method == http.MethodGet || method == http.MethodDelete {
				c.body = ""
			}
			got := f.as(admin, c)
			if got.status != http.StatusUnprocessableEntity || !strings.Contains(string(got.body), `"/query`) {
				t.Errorf("%s %s: got %d %.300s, want 422 that names the parameter", op.id, c.path, got.status, got.body)
			}
		}
	}
}
