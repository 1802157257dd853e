package web

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/sqlitedb"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// silent are the operations that change something and leave no entry in the audit log.
var silent = map[string]string{
	"open-session":   "it changes nothing but who the browser is",
	"close-session":  "the same",
	"dry-run-plugin": "nothing of it stays",
}

// Every operation that changes something for others leaves an entry in the audit log, with the name of the token, the
// request's id and the target. The test fails for an operation that it does not know.
func TestEveryChangeIsInTheAuditLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, admin := f.token(engine.TokenRequest{Name: "ana", Scopes: access.Admin})
	asked := map[string]string{} // by operation: the action that its entry has
	var kept struct{ id, rule, bulk, token string }
	do := func(op, method, path, body, action, target string) answer {
		t.Helper()
		if target == "" && !strings.HasPrefix(action, "queue.") && !strings.HasPrefix(action, "lifecycle.") && action != "server.backup" {
			t.Errorf("%s: an entry about anything but a queue or the server has a target", op)
		}
		header := map[string]string{headerRequestID: "r-" + op, headerOnBehalfOf: "bo"}
		got := f.as(admin, call{method: method, path: path, body: body, header: header})
		if got.status >= 300 {
			t.Fatalf("%s: %d %s", op, got.status, got.body)
		}
		entries := f.audit(admin, "")
		if len(entries) == 0 || entries[0].RequestID != "r-"+op {
			t.Fatalf("%s left no entry", op)
		}
		if e := entries[0]; e.Action != action || e.Actor != "ana" || e.OnBehalfOf != "bo" || e.From != "127.0.0.1" || e.Outcome != "ok" || !aimed(&e, target) {
			t.Errorf("%s left %+v, want the action %s of %s by ana for bo", op, e, action, target)
		}
		asked[op] = action
		return got
	}
	field := func(got answer, name string) string {
		t.Helper()
		var out map[string]any
		got.decode(t, &out)
		text, _ := out[name].(string)
		return text
	}
	insert := func(queueName string) string {
		t.Helper()
		return field(f.as(admin, call{method: "POST", path: "/v1/queues/" + queueName + "/submissions", body: `{"chunks":{"inline":["a","b","c"]},"max_attempts":1,"on_exhausted":"dead_letter"}`}), "id")
	}
	const queues, other = "/v1/queues/", "/v1/queues/other"
	do("put-queue", "PUT", other, `{}`, "queue.create", "")
	do("put-queue", "PUT", queues+"third", `{}`, "queue.create", "")
	do("delete-queue", "DELETE", queues+"third", "", "queue.delete", "")
	do("change-queue", "PATCH", other, `{"settings":{"max_attempts":3}}`, "queue.change", "")
	do("put-meta-value", "PUT", other+"/meta-keys/company/values/7", `{"limit":5}`, "value.set", "company=7")
	do("put-meta-key", "PUT", other+"/meta-keys/company", `{"limit":5}`, "key.set", "company")
	do("delete-meta-key", "DELETE", other+"/meta-keys/company", "", "key.delete", "company")
	do("delete-meta-value", "DELETE", other+"/meta-keys/company/values/7", "", "value.delete", "company=7")
	do("put-group", "PUT", other+"/groups/acme", `{"limits":{"waiting":5}}`, "group.set", "acme")
	do("delete-group", "DELETE", other+"/groups/acme", "", "group.delete", "acme")
	f.as(admin, call{method: "PUT", path: queues + "divided", body: `{"settings":{"shards":2}}`})
	var group api.Group
	f.as(admin, call{method: "PUT", path: queues + "divided/groups/acme", body: `{}`}).decode(t, &group)
	do("move-group", "POST", queues+"divided/groups/acme/move", fmt.Sprintf(`{"shard":%d}`, 3-group.Shard), "group.move", "acme")
	do("drain-shard", "POST", queues+"divided/shards/2/drain", "", "queue.change", "")
	do("reopen-shard", "DELETE", queues+"divided/shards/2/drain", "", "queue.change", "")
	do("put-strategy", "PUT", other+"/strategies/nightly", `{"strategy":"OldestFirst"}`, "strategy.create", "strategy nightly")
	do("delete-strategy", "DELETE", other+"/strategies/nightly", "", "strategy.delete", "strategy nightly")
	kept.rule = field(do("set-rule", "POST", other+"/rules", `{"action":"pause","match":{"meta":{"company":7}}}`, "rule.create", "rule 1"), "id")
	do("lift-rule", "DELETE", other+"/rules/"+kept.rule, "", "rule.lift", "rule 1")
	do("set-initial-rule", "POST", "/v1/initial-rules", `{"action":"pause","match":{"meta":{"company":7}}}`, "initial_rule.set", "initial rule 1")
	do("lift-initial-rule", "DELETE", "/v1/initial-rules/1", "", "initial_rule.lift", "initial rule 1")
	do("put-schedule", "PUT", other+"/schedules/s", `{"spec":"@yearly","template":{"chunks":{"count":1,"template":"x"}}}`, "schedule.create", "schedule s")
	do("pause-schedule", "POST", other+"/schedules/s/pause", "", "schedule.pause", "schedule s")
	do("resume-schedule", "POST", other+"/schedules/s/resume", "", "schedule.resume", "schedule s")
	do("trigger-schedule", "POST", other+"/schedules/s/trigger", "", "schedule.trigger", "schedule s")
	do("backfill-schedule", "POST", other+"/schedules/s/backfill", `{"from":"2020-01-01T00:00:00Z","to":"2022-06-01T00:00:00Z"}`, "schedule.backfill", "schedule s")
	do("delete-schedule", "DELETE", other+"/schedules/s", "", "schedule.delete", "schedule s")
	asked["move-queue"] = "queue.move" // only a cluster moves one: TestAnyNodeAnswers looks for its entry
	kept.id = insert("default")
	do("change-submission", "PATCH", "/v1/submissions/"+kept.id, `{"priority":9}`, "submission.change", "submission "+kept.id)
	for range 100 { // at one a second: it runs until it is cancelled
		f.as(admin, call{method: "POST", path: insertPath, body: `{"meta":{"slow":1},"chunks":{"count":1,"template":"x"},"run_at":"2100-01-01T00:00:00Z"}`})
	}
	kept.bulk = field(do("start-bulk-operation", "POST", "/v1/bulk-operations", `{"queue":"default","action":"reprioritize","priority":3,"filter":{"meta":{"slow":1}},"rate_per_second":1}`, "bulk.start", "bulk operation "), "id")
	do("cancel-bulk-operation", "POST", "/v1/bulk-operations/"+kept.bulk+"/cancel", "", "bulk.cancel", "bulk operation "+kept.bulk)
	reserved := f.as(admin, call{method: "POST", path: queues + "default/reservations", body: `{"max":3,"consumer":"w"}`})
	var held api.ReserveResponse
	reserved.decode(t, &held)
	first := held.Reservations[0]
	do("release-chunk", "POST", fmt.Sprintf("/v1/submissions/%s/chunks/%d/release", first.Submission, first.Index), "", "reservation.release",
		fmt.Sprintf("submission %s chunk %d", first.Submission, first.Index))
	for _, verb := range []string{"drain", "quiet", "resume"} {
		do(verb+"-consumer", "POST", queues+"default/consumers/w/"+verb, "", "consumer."+verb, "consumer w")
	}
	do("release-consumer", "POST", queues+"default/consumers/w/release?reason=it+hangs", "", "consumer.release", "consumer w")
	if got := string(f.audit(admin, "")[0].After); got != `{"reason":"it hangs"}` {
		t.Errorf("the reason for which chunks were taken from a consumer: got %s", got)
	}
	if got := f.as(admin, call{method: "POST", path: queues + "default/consumers/absent/drain"}); got.status != http.StatusNotFound || f.audit(admin, "")[0].Action != "consumer.release" {
		t.Errorf("an order to a consumer that is not there: %d, and the log says it was given", got.status)
	}
	reserved = f.as(admin, call{method: "POST", path: queues + "default/reservations", body: `{"max":3,"consumer":"w"}`})
	reserved.decode(t, &held)
	for _, r := range held.Reservations {
		f.as(admin, call{method: "POST", path: queues + "default/reservations/fail", body: `{"items":[{"token":"` + r.Token + `","error":"no","fatal":true}]}`})
	}
	letter := queues + "default/dead-letters/" + kept.id
	do("redrive-dead-letter", "POST", letter+"/0/redrive", "", "dead_letter.redrive", "submission "+kept.id+" chunk 0")
	do("put-dead-letter-content", "PUT", letter+"/1/content", `"better"`, "dead_letter.change", "submission "+kept.id+" chunk 1")
	do("delete-dead-letter", "DELETE", letter+"/1", "", "dead_letter.delete", "submission "+kept.id+" chunk 1")
	do("forward-dead-letter", "POST", letter+"/2/forward", `{"to":"other"}`, "dead_letter.forward", "submission "+kept.id+" chunk 2")
	do("cancel-submission", "POST", "/v1/submissions/"+insert("default")+"/cancel", "", "submission.cancel", "submission ")
	left := insert("default")
	do("cancel-chunk", "POST", "/v1/submissions/"+left+"/chunks/0/cancel", "", "chunk.cancel", "submission "+left+" chunk 0")
	do("delete-submission", "DELETE", "/v1/submissions/"+insert("default")+"?cancel=true", "", "submission.delete", "submission ")
	do("retry-lifecycle", "POST", queues+"default/lifecycle/retry", "", "lifecycle.retry", "")
	for _, version := range []string{"1.0.0", "2.0.0"} {
		packed, err := manifest.Pack(wasmtest.Scorer(), []byte(declared("p", version, "priority", "age_ms")))
		if err != nil {
			t.Fatal(err)
		}
		got := f.as(admin, call{method: "POST", path: "/v1/plugins", body: string(packed), header: map[string]string{"Content-Type": contentWasm}})
		if e := f.audit(admin, "")[0]; got.status != http.StatusCreated || e.Action != "plugin.upload" || e.Target != "plugin p" || e.Before != nil || !strings.Contains(string(e.After), version) {
			t.Fatalf("upload %s: %d %s, and the log says %+v", version, got.status, got.body, e)
		}
	}
	asked["upload-plugin"] = "plugin.upload"
	const plugin = "/v1/plugins/p"
	for _, a := range []struct{ verb, body string }{
		{"activate", `{"version":"1.0.0"}`}, {"activate", `{"version":"2.0.0"}`}, {"rollback", ""}, {"shadow", `{"version":"2.0.0"}`}, {"canary", `{"version":"2.0.0","percent":5}`},
		{"canary", `{"version":"","percent":0}`}, {"shadow", `{"version":""}`}, {"reset", ""}, {"deactivate", ""},
	} {
		do(a.verb+"-plugin", "POST", plugin+"/"+a.verb, a.body, "plugin."+a.verb, "plugin p")
	}
	do("put-plugin-settings", "PUT", plugin+"/settings", `{}`, "plugin.settings", "plugin p")
	do("delete-plugin-version", "DELETE", plugin+"/versions/2.0.0", "", "plugin.delete_version", "plugin p")
	do("delete-plugin", "DELETE", plugin, "", "plugin.delete", "plugin p")
	do("backup", "POST", "/v1/backup", "", "server.backup", "")
	kept.token = field(do("create-token", "POST", "/v1/tokens", `{"name":"ci","scopes":["read"]}`, "token.create", "token "), "id")
	do("rotate-token", "POST", "/v1/tokens/"+kept.token+"/rotate", `{}`, "token.rotate", "token "+kept.token)
	do("revoke-token", "DELETE", "/v1/tokens/"+kept.token, "", "token.revoke", "token "+kept.token)

	var missing []string
	for _, methods := range f.server.operations {
		for _, op := range methods {
			if op.changes() && asked[op.id] == "" {
				missing = append(missing, op.id)
			}
			resource, verb, _ := strings.Cut(op.act.action, ".")
			if was := asked[op.id]; was != op.act.action && (verb != "set" || !strings.HasPrefix(was, resource+".")) {
				t.Errorf("%s is %s in the log when it goes well, and %s when it is refused", op.id, was, op.act.action)
			}
		}
	}
	if slices.Sort(missing); len(missing) > 0 {
		t.Errorf("this test does not ask for %v", missing)
	}
}

// aimed says whether an entry names what it is about: target, or one whose number the server draws, or a queue, or the server.
func aimed(e *api.AuditEntry, target string) bool {
	if drawn := strings.HasSuffix(target, " "); drawn || target == "" {
		return strings.HasPrefix(e.Target, target) && (drawn == (len(e.Target) > len(target))) && (e.Queue != "" || drawn || e.Action == "server.backup")
	}
	return e.Target == target
}

// audit reads the log, the latest entry first.
func (f *fixture) audit(token, query string) []api.AuditEntry {
	f.Helper()
	var page api.Page[api.AuditEntry]
	got := f.as(token, call{method: "GET", path: "/v1/audit" + query})
	if got.status != http.StatusOK {
		f.Fatalf("audit: %d %s", got.status, got.body)
	}
	got.decode(f, &page)
	return page.Items
}

// The log is read in pages, filtered, exported as lines and followed as events. A wrong request is refused, and the
// problem names the parameter.
func TestReadingTheAuditLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, admin := f.token(engine.TokenRequest{Name: "ana", Scopes: access.Admin})
	_, reader := f.token(engine.TokenRequest{Name: "bo", Scopes: access.All &^ access.Admin})
	if got := f.as(reader, call{method: "GET", path: "/v1/audit"}); got.status != http.StatusForbidden {
		t.Errorf("without the scope admin: %d, want 403", got.status)
	}
	for query, pointer := range map[string]string{
		"?since=yesterday": "/query/since", "?limit=0": "/query/limit", "?limit=1001": "/query/limit", "?cursor=x": "/cursor", "?who=ana": "/query/who", "?actor=a&actor=b": "/query/actor",
	} {
		got := f.as(admin, call{method: "GET", path: "/v1/audit" + query})
		if got.status != http.StatusUnprocessableEntity || got.problem(t).Errors[0].Pointer != pointer {
			t.Errorf("%s: %d %s, want 422 at %s", query, got.status, got.body, pointer)
		}
	}
	follow := f.followAudit(admin, "")
	for _, company := range []string{"1", "2", "3"} {
		got := f.as(admin, call{method: "POST", path: "/v1/queues/default/rules", body: `{"action":"pause","match":{"meta":{"company":` + company + `}}}`})
		if got.status >= 300 {
			t.Fatalf("rule: %d %s", got.status, got.body)
		}
	}
	want := []string{"rule 1", "rule 2", "rule 3"}
	streamed, ids := follow(3)
	if !slices.Equal(streamed, want) {
		t.Errorf("the stream told of %v, want %v", streamed, want)
	}
	for i, last := range ids { // entries of about one time come in any order: those behind the last one are sent again
		if again, _ := f.followAudit(admin, last)(2); !slices.Equal(again, slices.Delete(slices.Clone(want), i, i+1)) {
			t.Errorf("the stream that goes on after %s told of %v, want the others", want[i], again)
		}
	}
	got := f.as(admin, call{method: "GET", path: "/v1/audit?action=rule.create", header: map[string]string{"Accept": contentLines}})
	var exported []string
	for line := range strings.Lines(string(got.body)) {
		var e api.AuditEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		exported = append(exported, e.Target)
	}
	if slices.Reverse(exported); !slices.Equal(exported, want) {
		t.Errorf("exported %v, want %v", exported, want)
	}
}

// followAudit opens the stream of acts on rules. The function that it returns reads events, and returns their targets
// and ids.
func (f *fixture) followAudit(token, last string) func(n int) (targets, ids []string) {
	f.Helper()
	request, err := http.NewRequestWithContext(f.Context(), "GET", "http://"+f.address+"/v1/audit?action=rule", nil)
	if err != nil {
		f.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", contentEvents)
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	stream, err := http.DefaultClient.Do(request)
	if err != nil || stream.StatusCode != http.StatusOK || stream.Header.Get("Content-Type") != contentEvents {
		f.Fatalf("the stream: %v, %v", stream, err)
	}
	f.Cleanup(func() { stream.Body.Close() })
	return func(n int) (targets, ids []string) {
		var id string
		for lines := bufio.NewScanner(stream.Body); len(targets) < n && lines.Scan(); {
			if next, is := strings.CutPrefix(lines.Text(), "id: "); is {
				id = next
			}
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
				var e api.AuditEntry
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					f.Fatalf("%s: %v", data, err)
				}
				targets, ids = append(targets, e.Target), append(ids, id)
			}
		}
		return targets, ids
	}
}

// A stream that meets damage in the log behind its first batch says so in its last event: a client that was cut would come back for ever.
//
//quern:overlapping
func TestAuditStreamEndsWithTheProblem(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.alone()
	_, admin := f.token(engine.TokenRequest{Name: "ana", Scopes: access.Admin})
	const entries = auditBatch + 50
	for n := range entries {
		body := fmt.Sprintf(`{"name":"t%d","scopes":["read"]}`, n)
		if got := f.as(admin, call{method: "POST", path: "/v1/tokens", body: body}); got.status != http.StatusCreated {
			t.Fatalf("token: %d %s", got.status, got.body)
		}
	}
	catalogue, err := sqlitedb.SQL(filepath.Join(f.dir, "quern.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer catalogue.Close()
	if _, err := catalogue.Exec("UPDATE audit SET crc = crc + 1 WHERE number = (SELECT max(number) - 10 FROM audit)"); err != nil {
		t.Fatal(err)
	}
	for round := range 2 { // the second goes on where the first ended, as a client does that did not get the problem
		request, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+f.address+"/v1/audit?since=2026-01-01T00:00:00Z", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+admin)
		request.Header.Set("Accept", contentEvents)
		stream, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(stream.Body)
		stream.Body.Close()
		_, last, found := strings.Cut(string(all), "event: problem\ndata: ")
		var p api.Problem
		if !found || json.Unmarshal([]byte(last), &p) != nil || p.Code != "internal" || p.RequestID == "" || !strings.Contains(p.Detail, "is damaged") {
			t.Errorf("round %d: the stream ends with %.300q, %v; want a problem", round, all[max(len(all)-300, 0):], err)
		}
		if acts := strings.Count(string(all), "event: act\n"); acts < auditBatch {
			t.Errorf("round %d: %d entries came before the damage, want a batch of %d", round, acts, auditBatch)
		}
	}
	if got := f.as(admin, call{method: "GET", path: "/v1/audit"}); got.status != http.StatusInternalServerError || !strings.Contains(string(got.body), "is damaged") {
		t.Errorf("the page: %d %s, want a problem that says that a file is damaged", got.status, got.body)
	}
	if log := f.log.String(); !strings.Contains(log, "damaged row in table audit") {
		t.Error("the log of the server does not say what is damaged")
	}
}

// A stream of the log refuses parameters that have no meaning for a stream, and names them.
func TestAuditStreamRefusesPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, admin := f.token(engine.TokenRequest{Name: "ana", Scopes: access.Admin})
	for _, query := range []string{"cursor=x", "limit=3", "until=2026-01-02T03:04:05Z"} {
		got := f.as(admin, call{method: "GET", path: "/v1/audit?" + query, header: map[string]string{"Accept": contentEvents}})
		name, _, _ := strings.Cut(query, "=")
		if p := got.problem(t); got.status != http.StatusUnprocessableEntity || len(p.Errors) != 1 || p.Errors[0].Pointer != "/query/"+name {
			t.Errorf("%s: got %d %+v, want 422 about /query/%s", query, got.status, p, name)
		}
	}
}

// A stream from far back reads the log in batches, each of few entries, and sends every entry once, the oldest first. One that is cut
// before its first entry goes on where it began, by the id that it was sent at once.
//
//quern:overlapping
func TestAuditStreamReadsInBatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, admin := f.token(engine.TokenRequest{Name: "ana", Scopes: access.Admin})
	pause := func(company int) {
		body := fmt.Sprintf(`{"action":"pause","match":{"meta":{"company":%d}}}`, company)
		if got := f.as(admin, call{method: "POST", path: "/v1/queues/default/rules", body: body}); got.status >= 300 {
			t.Fatalf("rule: %d %s", got.status, got.body)
		}
	}
	read := func(a *auditStream) (targets []string) {
		t.Helper()
		for more := true; more; more = a.cursor != "" {
			events, err := a.next()
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for line := range strings.Lines(string(events)) {
				if data, is := strings.CutPrefix(line, "data: "); is {
					var e api.AuditEntry
					if err := json.Unmarshal([]byte(data), &e); err != nil {
						t.Fatal(err)
					}
					targets, n = append(targets, e.Target), n+1
				}
			}
			if n > a.batch {
				t.Errorf("%d entries in a batch of %d", n, a.batch)
			}
		}
		return targets
	}
	open := func(in auditRequest, last string) *auditStream {
		t.Helper()
		in.filter.Action = "rule"
		a, err := auditing{engine: f.engine, clock: f.server.clock, nodes: f.server.forwarding}.newAuditStream(t.Context(), in, last)
		if err != nil {
			t.Fatal(err)
		}
		a.batch = 3
		return a
	}
	id := func(a *auditStream) string {
		line, _, _ := strings.Cut(string(a.place()), "\n")
		return strings.TrimPrefix(line, "id: ")
	}
	var want []string
	live := open(auditRequest{}, "")
	began := id(live)
	for n := range 20 {
		pause(n)
		want = append(want, fmt.Sprintf("rule %d", n+1))
	}
	far := auditRequest{filter: engine.AuditFilter{Since: 1}}
	all := open(far, "")
	for what, a := range map[string]*auditStream{"live": live, "since 1970": all, "cut before the first entry": open(auditRequest{}, began),
		"since 1970, cut before the first entry": open(far, id(open(far, "")))} {
		if got := read(a); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	pause(20)
	if got := read(all); !slices.Equal(got, []string{"rule 21"}) {
		t.Errorf("then got %v, want rule 21", got)
	}
}
