//go:build unix

package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// This file has the acts of TestAuditKillNine beside those on rules, values, strategies and settings, each kind in a loop of its own, and
// the checks of the entries of all of them.

// unlogged are the operations that change something and leave no entry in the audit log. Those of moves do nothing here: the server is
// alone, and its queues have one shard.
var unlogged = []string{"dry-run-plugin", "move-queue", "move-group", "drain-shard", "reopen-shard"}

// acts sends changes in an order in which each of them changes something. No other loop touches the resources that it changes.
type acts struct {
	*operators
	ctx                 context.Context
	round, kind, number int
	sent                int
	gone                bool // an act had no answer: the server is gone
}

// do asks for a change by the operation with this id.
func (a *acts) do(operation, method, path, body string, into any) {
	a.sent++
	a.gone = a.gone || !a.act(a.ctx, fmt.Sprintf("%s-%d-kind%d-%d", operation, a.round, a.kind, a.sent), method, path, body, changes, into)
}

// ask sends a call that is not an act.
func (a *acts) ask(method, path, body string, into any) {
	a.gone = a.gone || a.send(a.ctx, "work", method, path, body, into) != nil
}

// kindsOfActs are the loops. A pass that is cut short leaves its resources behind, so each pass makes its own.
var kindsOfActs = []func(*acts){(*acts).queues, (*acts).schedules, (*acts).submissions, (*acts).consumers, (*acts).plugins, (*acts).tokens}

// repeat makes pass after pass until the server is gone; it calls done after the first.
func (o *operators) repeat(ctx context.Context, round, kind int, done func()) {
	a := &acts{operators: o, ctx: ctx, round: round, kind: kind}
	for ; !a.gone; a.number++ {
		kindsOfActs[kind](a)
		if a.number == 0 {
			done()
		}
	}
}

const actsQueue = "/v1/queues/acts"

func (a *acts) queues() {
	made := fmt.Sprintf("/v1/queues/made-%d-%d", a.round, a.number)
	value := fmt.Sprintf("%s/meta-keys/user/values/%d", actsQueue, a.round)
	key := fmt.Sprintf("%s/meta-keys/user-%d", actsQueue, a.round)
	strategy := fmt.Sprintf("%s/strategies/s-%d", actsQueue, a.round)
	a.do("put-queue", "PUT", made, `{}`, nil)
	a.do("delete-queue", "DELETE", made, "", nil)
	a.do("put-meta-value", "PUT", value, `{"limit":5}`, nil)
	a.do("delete-meta-value", "DELETE", value, "", nil)
	a.do("put-meta-key", "PUT", key, `{"limit":5}`, nil)
	a.do("delete-meta-key", "DELETE", key, "", nil)
	group := fmt.Sprintf("%s/groups/g-%d", actsQueue, a.round)
	a.do("put-group", "PUT", group, `{"limits":{"waiting":5}}`, nil)
	a.do("delete-group", "DELETE", group, "", nil)
	var rule api.Rule
	a.do("set-initial-rule", "POST", "/v1/initial-rules", fmt.Sprintf(`{"action":"pause","match":{"meta":{"made":%d}}}`, a.round), &rule)
	a.do("lift-initial-rule", "DELETE", "/v1/initial-rules/"+rule.ID, "", nil)
	a.do("put-strategy", "PUT", strategy, `{"strategy":"OldestFirst"}`, nil)
	a.do("delete-strategy", "DELETE", strategy, "", nil)
	a.do("retry-lifecycle", "POST", actsQueue+"/lifecycle/retry", "", nil)
	a.do("backup", "POST", "/v1/backup", "", nil)
}

func (a *acts) schedules() {
	schedule := fmt.Sprintf("%s/schedules/s-%d-%d", actsQueue, a.round, a.number)
	a.do("put-schedule", "PUT", schedule, `{"spec":"@yearly","template":{"chunks":{"count":1,"template":"x"}}}`, nil)
	a.do("pause-schedule", "POST", schedule+"/pause", "", nil)
	a.do("resume-schedule", "POST", schedule+"/resume", "", nil)
	a.do("trigger-schedule", "POST", schedule+"/trigger", "", nil)
	a.do("backfill-schedule", "POST", schedule+"/backfill", `{"from":"2020-06-01T00:00:00Z","to":"2021-06-01T00:00:00Z"}`, nil)
	a.do("delete-schedule", "DELETE", schedule, "", nil)
}

// submissions changes submissions, one by one and in bulk. The submissions of the bulk operation exist since the first life. They are too
// many for the operation to end before it is cancelled.
func (a *acts) submissions() {
	var made api.Submission
	a.ask("POST", actsQueue+"/submissions", `{"chunks":{"count":2,"template":"x"},"run_at":"2100-01-01T00:00:00Z"}`, &made)
	a.do("change-submission", "PATCH", "/v1/submissions/"+made.ID, `{"priority":9}`, nil)
	a.do("cancel-chunk", "POST", "/v1/submissions/"+made.ID+"/chunks/1/cancel", "", nil)
	a.do("cancel-submission", "POST", "/v1/submissions/"+made.ID+"/cancel", "", nil)
	a.do("delete-submission", "DELETE", "/v1/submissions/"+made.ID, "", nil)
	var bulk api.BulkOperation
	a.do("start-bulk-operation", "POST", "/v1/bulk-operations", fmt.Sprintf(`{"queue":"slow","action":"reprioritize","priority":%d,"filter":{},"rate_per_second":1}`, a.round*1000+a.number), &bulk)
	a.do("cancel-bulk-operation", "POST", "/v1/bulk-operations/"+bulk.ID+"/cancel", "", nil)
}

const slowSubmissions = 30 // at one a second

// consumers gives orders to a consumer, and deals with the chunks that it fails for good.
func (a *acts) consumers() {
	name := fmt.Sprintf("w-%d-%d", a.round, a.number)
	var made api.Submission
	a.ask("POST", actsQueue+"/submissions", `{"meta":{"name":"`+name+`"},"chunks":{"inline":["a","b","c"]},"max_attempts":1,"on_exhausted":"dead_letter"}`, &made)
	reserve := `{"max":3,"consumer":"` + name + `","strategy":"SelectOnly(\"name\", \"` + name + `\", Random)"}`
	var got api.ReserveResponse
	a.ask("POST", actsQueue+"/reservations", reserve, &got)
	a.do("release-chunk", "POST", "/v1/submissions/"+made.ID+"/chunks/0/release", "", nil)
	for _, verb := range []string{"drain", "quiet", "resume", "release"} {
		a.do(verb+"-consumer", "POST", actsQueue+"/consumers/"+name+"/"+verb, "", nil)
	}
	a.ask("POST", actsQueue+"/reservations", reserve, &got)
	for _, r := range got.Reservations {
		a.ask("POST", actsQueue+"/reservations/fail", `{"items":[{"token":"`+r.Token+`","error":"no","fatal":true}]}`, nil)
	}
	letter := actsQueue + "/dead-letters/" + made.ID
	a.do("redrive-dead-letter", "POST", letter+"/0/redrive", "", nil)
	a.do("put-dead-letter-content", "PUT", letter+"/1/content", `{"text":"better"}`, nil)
	a.do("delete-dead-letter", "DELETE", letter+"/1", "", nil)
	a.do("forward-dead-letter", "POST", letter+"/2/forward", `{"to":"slow"}`, nil)
}

func (a *acts) plugins() {
	name := fmt.Sprintf("p-%d-%d", a.round, a.number)
	for _, version := range []string{"1.0.0", "2.0.0"} {
		packed, err := manifest.Pack(wasmtest.Scorer(), fmt.Appendf(nil, `{"name":%q,"version":%q,"abi":1,"columns":["priority","age_ms"],"window":{"max":1024}}`, name, version))
		if err != nil {
			a.t.Error(err)
		}
		a.do("upload-plugin", "POST", "/v1/plugins", string(packed), nil)
	}
	plugin := "/v1/plugins/" + name
	a.do("activate-plugin", "POST", plugin+"/activate", `{"version":"1.0.0"}`, nil)
	a.do("shadow-plugin", "POST", plugin+"/shadow", `{"version":"2.0.0"}`, nil)
	a.do("canary-plugin", "POST", plugin+"/canary", `{"version":"2.0.0","percent":5}`, nil)
	a.do("deactivate-plugin", "POST", plugin+"/deactivate", "", nil)
	a.do("rollback-plugin", "POST", plugin+"/rollback", "", nil)
	a.do("reset-plugin", "POST", plugin+"/reset", "", nil)
	a.do("put-plugin-settings", "PUT", plugin+"/settings", `{}`, nil)
	a.do("deactivate-plugin", "POST", plugin+"/deactivate", "", nil)
	a.do("delete-plugin-version", "DELETE", plugin+"/versions/2.0.0", "", nil)
	a.do("delete-plugin", "DELETE", plugin, "", nil)
}

func (a *acts) tokens() {
	var made api.Token
	a.do("create-token", "POST", "/v1/tokens", fmt.Sprintf(`{"name":"t-%d-%d","scopes":["read"]}`, a.round, a.number), &made)
	a.do("rotate-token", "POST", "/v1/tokens/"+made.ID+"/rotate", `{}`, nil)
	a.do("revoke-token", "DELETE", "/v1/tokens/"+made.ID, "", nil)
}

// checkAsked sees that each operation of the server's document that changes something was asked for, and that the change was acknowledged.
func (o *operators) checkAsked() {
	var document struct {
		Paths map[string]map[string]struct {
			ID    string `json:"operationId"`
			Scope string `json:"x-scope"`
		}
	}
	o.read("/openapi.json", &document)
	asked := map[string]bool{}
	for id, outcome := range o.asked {
		if digit := strings.IndexAny(id, "0123456789"); digit > 0 && outcome == changes {
			asked[id[:digit-1]] = true
		}
	}
	acts := 0
	for _, methods := range document.Paths {
		for method, op := range methods {
			if method == "get" || !strings.Contains(op.Scope, "operate") && !strings.Contains(op.Scope, "plugins") && !strings.Contains(op.Scope, "admin") || slices.Contains(unlogged, op.ID) {
				continue
			}
			acts++
			if !asked[op.ID] {
				o.t.Errorf("no change by the operation %s was acknowledged: add it to this test", op.ID)
			}
		}
	}
	if acts < 35 {
		o.t.Errorf("the document has %d acts; there are more", acts)
	}
}

// story is the chain that an entry belongs to: the before of an entry is the after of the one before it in the same story. first is the
// before of the first entry. An entry without a name is in no story, and is about one moment only.
func story(e *api.AuditEntry) (name, first string, is bool) {
	resource, _, _ := strings.Cut(e.Action, ".")
	switch {
	case e.Action == "schedule.pause" || e.Action == "schedule.resume":
		return "enabled", `{"enabled":true}`, true
	case e.Action == "schedule.trigger" || e.Action == "schedule.backfill" || e.Action == "plugin.upload" || e.Action == "plugin.delete_version":
		return "", "", false
	case e.Action == "submission.change":
		return "priority", `{"priority":0}`, true
	}
	return resource, "", slices.Contains([]string{"queue", "group", "value", "key", "strategy", "rule", "schedule", "plugin", "token"}, resource)
}

// checkStories takes all entries, the oldest first. It checks that none is missing between two and that each has the fields that its act
// needs.
func (o *operators) checkStories(entries []api.AuditEntry) {
	after := map[string]string{}
	for i := range entries {
		e := &entries[i]
		if e.Actor != o.actor(e) || e.Outcome != "ok" {
			o.t.Errorf("an entry by another, or of another outcome: %+v", e)
		}
		name, first, is := story(e)
		if !is {
			o.checkMoment(e)
			continue
		}
		key := strings.Join([]string{name, e.Queue, e.Target}, " ")
		want, begun := after[key]
		if !begun {
			want = first
		}
		if string(e.Before) != want {
			o.t.Errorf("%s of %s %s by request %s: before is %s, want what the last entry left: %s", e.Action, e.Queue, e.Target, e.RequestID, e.Before, want)
		}
		after[key] = string(e.After)
	}
}

// checkMoment looks at an entry that stands by itself.
func (o *operators) checkMoment(e *api.AuditEntry) {
	before, in := "", ""
	switch e.Action {
	case "schedule.trigger", "schedule.backfill":
		in = `"submission":`
	case "plugin.upload":
		in = `"version":`
	case "submission.cancel":
		before = `{"available":1,"done":0}`
	case "chunk.cancel": // of a submission whose run_at is to come
		before = `{"state":"waiting"}`
	case "submission.delete":
		before = `{"chunks":2,"done":0,"state":"cancelled"}`
	case "dead_letter.change":
		before = `{"bytes":1,"sha256":"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d","text":"b"}`
		in = `"text":"better"`
	case "initial_rule.set":
		in = `"action":"pause"`
	case "bulk.start":
		in = `"action":"reprioritize"`
	case "plugin.delete_version", "reservation.release", "initial_rule.lift":
		was := map[string]string{"initial_rule.lift": `"action":"pause"`, "plugin.delete_version": `"version":"2.0.0"`, "reservation.release": `"consumer":"w-`}[e.Action]
		if !strings.Contains(string(e.Before), was) || e.After != nil {
			o.t.Errorf("%s tells of %s and %s, want %s before and nothing after", e.Action, e.Before, e.After, was)
		}
		return
	}
	if string(e.Before) != before || in == "" && e.After != nil || !strings.Contains(string(e.After), in) {
		o.t.Errorf("%s of %s tells of %s and %s; want %q before, and %q after", e.Action, e.Target, e.Before, e.After, before, in)
	}
}

// actor is the actor that an entry must have. The first start, which makes a queue, and the first token have none, because there is no
// token yet.
func (o *operators) actor(e *api.AuditEntry) string {
	if e.RequestID == "first start" || strings.HasPrefix(e.RequestID, "first-token") {
		return ""
	}
	return "boss"
}

// prepare makes the token that the loops ask with, and the queues that they work on.
func (o *operators) prepare(t *testing.T) {
	var boss api.Token
	made := o.act(t.Context(), "first-token-0", "POST", "/v1/tokens", `{"name":"boss","scopes":["admin"]}`, changes, &boss)
	o.token = boss.Token
	var reader api.Token
	made = made && o.act(t.Context(), "second-token-0", "POST", "/v1/tokens", `{"name":"reader","scopes":["read"]}`, changes, &reader)
	o.reader = reader.Token
	for _, name := range append([]string{"acts", "slow"}, operatorQueues...) {
		made = made && o.act(t.Context(), "put-queue-0-"+name, http.MethodPut, "/v1/queues/"+name, `{}`, changes, nil)
	}
	for range slowSubmissions {
		made = made && o.send(t.Context(), "work", "POST", "/v1/queues/slow/submissions", `{"chunks":{"count":1,"template":"x"},"run_at":"2100-01-01T00:00:00Z"}`, nil) == nil
	}
	if !made {
		t.Fatal("the queues were not made")
	}
}
