package web

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// neighbours are two tenants of one queue, and the things of the other one: all of them contain OTHER.
type neighbours struct {
	*fixture
	mine, queueBound string // tokens
	own, other       string // submissions
	held             string // a reservation's token of the other's
	index            uint32 // of its chunk
	otherRule        string
	otherBulk        string
}

const marker = "OTHER"

func newNeighbours(t *testing.T) *neighbours {
	f := newFixture(t)
	n := &neighbours{fixture: f}
	f.do("PATCH", "/v1/queues/default", `{"settings":{"on_exhausted":"dead_letter","max_attempts":1}}`, 200, nil)
	f.do("PUT", "/v1/queues/elsewhere", `{}`, 201, nil)
	n.other = f.insert(`{"meta":{"company":8,"user":"` + marker + `"},"chunks":{"count":9,"prefix":"` + marker + `/"},"group":"` + marker + `"}`).ID
	got := f.reserve(`{"max":2,"consumer":"` + marker + `"}`)
	n.held, n.index = got.Reservations[0].Token, got.Reservations[0].Index
	f.results("fail", `{"token":"`+got.Reservations[1].Token+`","error":"`+marker+`","fatal":true}`)
	var rule api.Rule
	f.do("POST", "/v1/queues/default/rules", `{"action":"pause","match":{"meta":{"company":8}},"reason":"`+marker+`"}`, 201, &rule)
	n.otherRule = rule.ID
	f.do("PUT", "/v1/queues/default/strategies/"+marker, `{"strategy":"SelectOnly(\"user\", \"`+marker+`\", Random)"}`, 201, nil)
	f.do("PUT", "/v1/queues/default/schedules/"+marker, `{"spec":"@every 1h","template":{"chunks":{"count":1,"prefix":"`+marker+`"}}}`, 201, nil)
	f.do("PUT", "/v1/queues/default/meta-keys/company/values/8", `{"limit":5}`, 201, nil)
	var bulk api.BulkOperation
	f.do("POST", "/v1/bulk-operations", `{"action":"retry","queue":"default","filter":{"meta":{"user":"`+marker+`"}},"actor":"`+marker+`"}`, 202, &bulk)
	n.otherBulk = bulk.ID
	for bulk.State == api.BulkRunning { // afterwards nothing of the other's changes by itself
		f.do("GET", "/v1/bulk-operations/"+bulk.ID, "", 200, &bulk)
	}
	n.own = f.insert(`{"meta":{"company":7},"chunks":{"count":3,"prefix":"own/"}}`).ID
	tenant := access.Restriction{Queues: []string{"default"}, Entry: queue.MetaEntry{Key: "company", Value: queue.IntValue(7)}}
	_, n.mine = f.token(engine.TokenRequest{Name: "tenant", Scopes: restrictableScopes, Restriction: tenant})
	_, n.queueBound = f.token(engine.TokenRequest{Name: "elsewhere only", Scopes: restrictableScopes, Restriction: access.Restriction{Queues: []string{"elsewhere"}}})
	return n
}

const restrictableScopes = access.Produce | access.Consume | access.Read | access.Operate

// calls are calls of all operations, about things of the other tenant of the queue default.
func (n *neighbours) calls() map[string]call {
	calls := map[string]call{}
	bodies := map[string]string{
		"insert-batch":         `{"submissions":[{"meta":{"company":8},"chunks":{"count":1,"prefix":"x/"}}]}`,
		"insert":               `{"meta":{"company":8},"chunks":{"count":1,"prefix":"x/"}}`,
		"complete":             `{"items":[{"token":"` + n.held + `"}]}`,
		"fail":                 `{"items":[{"token":"` + n.held + `","error":"x"}]}`,
		"extend":               `{"items":[{"token":"` + n.held + `"}]}`,
		"release":              `{"items":[{"token":"` + n.held + `"}]}`,
		"exchange":             `{"complete":[{"token":"` + n.held + `"}],"reserve":{"max":100}}`,
		"reserve":              `{"max":100,"strategy":"SelectOnly(\"company\", 8, Random)"}`,
		"preview":              `{"max":100,"strategy":"SelectOnly(\"company\", 8, Random)"}`,
		"explain":              `{"strategy":"Random","max":5}`,
		"why":                  `{"strategy":"Random"}`,
		"compare":              `{"a":"Random","b":"OldestFirst","max":5}`,
		"set-rule":             `{"action":"pause","match":{"meta":{"company":8}},"reason":"x"}`,
		"start-bulk-operation": `{"action":"cancel","queue":"default","filter":{"meta":{"company":8}}}`,
		"change-submission":    `{"priority":7}`,
		"put-meta-value":       `{"limit":1}`,
		"put-meta-key":         `{"limit":1}`,
		"put-strategy":         `{"strategy":"Random"}`,
		"put-schedule":         `{"spec":"@every 1h","template":{"chunks":{"count":1,"prefix":"x"}}}`,
		"forward-dead-letter":  `{"to":"elsewhere"}`,
		"validate-strategy":    `{"strategy":{"name":"` + marker + `"}}`,
	}
	for path, methods := range n.server.operations {
		for method, op := range methods {
			if method == "HEAD" || op.public {
				continue
			}
			c := call{method: method}
			c.path = filledIn(path, func(name string) string {
				switch {
				case name == ":queue":
					return "default"
				case name == ":submission" || name == ":id" && strings.HasPrefix(path, "/v1/submissions"):
					return n.other
				case name == ":id" && strings.Contains(path, "rules"):
					return n.otherRule
				case name == ":id" && strings.Contains(path, "bulk"):
					return n.otherBulk
				case name == ":index":
					return fmt.Sprint(n.index)
				case name == ":key":
					return "company"
				case name == ":value":
					return "8"
				}
				return marker
			})
			if method != "GET" && method != "DELETE" {
				c.body = bodies[op.id]
				if c.body == "" {
					c.body = "{}"
				}
			}
			calls[op.id] = c
		}
	}
	return calls
}

// state is an admin's view of the other tenant, to compare.
func (n *neighbours) state(admin string) string {
	var all strings.Builder
	for _, path := range []string{
		"/v1/submissions/" + n.other, "/v1/submissions/" + n.other + "/chunks", "/v1/queues/default/rules", "/v1/queues/default/strategies", "/v1/queues/default/schedules/" + marker,
		"/v1/queues/default/meta-keys/company/values/8", "/v1/bulk-operations", "/v1/queues/default/dead-letters",
	} {
		got := n.as(admin, call{method: "GET", path: path})
		fmt.Fprintln(&all, path, got.status, string(got.body))
	}
	return all.String()
}

// A tenant's token neither sees nor changes the things of another tenant of the same queue, by any operation: each is
// refused, or answers with nothing of the other's, and the other's state stays as it was.
func TestTenantsSeeNothingOfOthers(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t)
	_, admin := n.token(engine.TokenRequest{Name: "boss", Scopes: access.Admin})
	before := n.state(admin)
	for id, c := range n.calls() {
		if id == "attach-consumer" {
			continue // a stream: TestTenantsHearNothingOfOthers
		}
		got := n.as(n.mine, c)
		if strings.Contains(string(got.body), marker) && !strings.Contains(got.problem(t).Detail, "token") || strings.Contains(string(got.body), n.other+`"`) {
			t.Errorf("%s %s: answered %d with what is the other's: %s", id, c.path, got.status, got.body)
		}
	}
	if after := n.state(admin); after != before {
		t.Errorf("the other's state was changed:\n%s\nwas\n%s", after, before)
	}
}

// An operation that does not say how it keeps within a restriction is refused to every token that has one. One that
// does not say it for a value is refused to tokens that are bound to a value.
func TestWhatIsNotNarrowedIsRefused(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t)
	for id, c := range n.calls() {
		op := n.operation(id)
		if c.path == "/v1/queues/default/consumers/"+marker+"/attach" || !restrictableScopes.Allow(op.scope) {
			continue
		}
		got := n.as(n.mine, c)
		if wide := op.narrow == 0 || op.narrow&noTenants != 0; wide && (got.status != 403 || !strings.Contains(string(got.body), "company = 7")) {
			t.Errorf("%s for a tenant: got %d %s, want 403 with what the token is bound to", id, got.status, got.body)
		}
		got = n.as(n.queueBound, c)
		switch {
		case op.narrow == 0 && got.status != 403:
			t.Errorf("%s for a token bound to a queue: got %d %s, want 403", id, got.status, got.body)
		case op.narrow&(inQueue|inSub) != 0 && got.status != 404:
			t.Errorf("%s of another queue: got %d %s, want 404", id, got.status, got.body)
		}
	}
	for id, path := range map[string]string{"events": "/v1/events?queue=default", "list-bulk-operations": "/v1/bulk-operations?queue=default"} {
		if got := n.as(n.queueBound, call{method: "GET", path: path}); strings.Contains(string(got.body), marker) || id == "events" && got.status != 404 {
			t.Errorf("%s of another queue: got %d %s", id, got.status, got.body)
		}
	}
}

func (n *neighbours) operation(id string) *operation {
	for _, methods := range n.server.operations {
		for _, op := range methods {
			if op.id == id {
				return op
			}
		}
	}
	n.Fatalf("no operation %s", id)
	return nil
}

// A tenant may do with its own work what everybody may: insert, list, reserve by any strategy and name, finish, pause,
// cancel.
func TestTenantsWorkWithTheirOwn(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t)
	ok := func(method, path, body string, status int, want ...string) string {
		t.Helper()
		got := n.as(n.mine, call{method: method, path: path, body: body})
		if got.status != status {
			t.Errorf("%s %s %s: got %d %s, want %d", method, path, body, got.status, got.body, status)
		}
		for _, text := range want {
			if !strings.Contains(string(got.body), text) {
				t.Errorf("%s %s: %q is not in %s", method, path, text, got.body)
			}
		}
		return string(got.body)
	}
	ok("POST", insertPath, `{"meta":{"company":7,"mode":"a"},"chunks":{"count":2,"prefix":"more/"}}`, 201)
	for _, meta := range []string{`{}`, `{"company":8}`, `{"company":"7"}`, `{"mode":7}`} {
		ok("POST", insertPath, `{"meta":`+meta+`,"chunks":{"count":2,"prefix":"more/"}}`, 403, "/meta")
	}
	if list := ok("GET", insertPath, "", 200, n.own); strings.Count(list, `"id"`) != 2 {
		t.Errorf("listed: %s, want the two of the tenant", list)
	}
	ok("GET", insertPath+"?meta.company=8", "", 200, `"items":[]`)
	ok("GET", "/v1/submissions/"+n.own, "", 200)
	ok("GET", "/v1/submissions/"+n.own+"/chunks", "", 200)
	ok("GET", "/v1/queues", "", 200, `"default"`)
	ok("GET", "/v1/queues/default", "", 200)
	ok("GET", "/v1/queues/default/meta-keys/company/values/7", "", 200, `"ready":5`)
	for _, strategy := range []string{`"Random"`, `"MaxSimultaneous(\"company\", 1, OldestFirst)"`, `"Fair(\"company\", OldestFirst)"`, `"OrElse(SelectOnly(\"mode\", \"a\", Random), Random)"`, `{"type":"select_only","meta_field":"mode","value":"a","underlying":"random"}`} {
		ok("POST", "/v1/queues/default/strategies/preview", `{"max":3,"strategy":`+strategy+`}`, 200)
		ok("POST", reservePath, `{"max":1,"consumer":"c","strategy":`+strategy+`}`, 200)
	}
	ok("POST", reservePath, `{"max":5,"strategy":{"name":"`+marker+`"}}`, 200, `"reservations":[]`)
	n.as(n.mine, call{method: "POST", path: reservePath, body: `{"max":1}`})
	ok("POST", "/v1/queues/default/rules", `{"action":"pause","match":{"meta":{"company":7}}}`, 201)
	ok("GET", "/v1/queues/default/rules", "", 200, `"company":7`)
	ok("DELETE", "/v1/queues/default/rules/2", "", 204)
	ok("DELETE", "/v1/queues/default/rules/2", "", 204)
	ok("POST", "/v1/bulk-operations", `{"action":"cancel","queue":"default","filter":{"meta":{"company":7}},"dry_run":true}`, 202)
	// How far an operation is depends on how much work all tenants have.
	if got := ok("GET", "/v1/bulk-operations", "", 200, `"company":7`); strings.Contains(got, "examine") || strings.Contains(got, "percent") {
		t.Errorf("a tenant's bulk operation shows what others have: %s", got)
	}
	ok("POST", "/v1/queues/default/rules", `{"action":"pause","match":{"queue":true}}`, 403)
	ok("POST", "/v1/submissions/"+n.own+"/cancel", "", 200, "cancelled")
}

// A tenant's idempotency keys, and those of triggered schedules, never equal keys that clients send, even if a client
// sends the text that they are made of.
func TestMadeKeysAreApart(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t)
	const key, body = "order-1", `{"meta":{"company":7},"chunks":{"count":1,"prefix":"keyed/"}}`
	_, wide := n.token(engine.TokenRequest{Name: "wide", Scopes: restrictableScopes})
	send := func(token, path, key, body string) (id string, status int) {
		t.Helper()
		var out api.Submission
		got := n.as(token, call{method: "POST", path: path, body: body, header: map[string]string{"Idempotency-Key": key}})
		if got.status < 300 {
			got.decode(t, &out)
		}
		return out.ID, got.status
	}
	hash := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	const trigger = "/v1/queues/default/schedules/" + marker + "/trigger"
	for what, c := range map[string]struct{ token, path, body, old string }{
		"a tenant":   {n.mine, insertPath, body, hash("company\x007\x00" + key)},
		"a schedule": {wide, trigger, "", "schedule-trigger-" + hash("trigger\x00default\x00"+marker+"\x00"+key+"\x000")},
	} {
		if _, status := send(wide, insertPath, c.old, `{"chunks":{"count":1,"prefix":"foreign/"}}`); status != 201 {
			t.Errorf("%s: a client's key of the same form: %d, want 201", what, status)
		}
		first, status := send(c.token, c.path, key, c.body)
		if status != 201 {
			t.Errorf("%s: %d beside a client's key of the same form, want 201", what, status)
		}
		if again, status := send(c.token, c.path, key, c.body); status != 200 || again != first {
			t.Errorf("%s again: %d %s, want 200 %s", what, status, again, first)
		}
	}
}

// A tenant need not know which of its submissions have dead letters to see them.
func TestTenantsSeeTheirDeadLetters(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t)
	var got api.ReserveResponse
	n.as(n.mine, call{method: "POST", path: reservePath, body: `{"max":1,"consumer":"c"}`}).decode(t, &got)
	n.as(n.mine, call{method: "POST", path: reservePath + "/fail", body: `{"items":[{"token":"` + got.Reservations[0].Token + `","error":"mine"}]}`})
	for _, path := range []string{"", "?meta.company=7", "?submission=" + n.own} {
		var letters api.Page[api.DeadLetter]
		n.as(n.mine, call{method: "GET", path: "/v1/queues/default/dead-letters" + path}).decode(t, &letters)
		if len(letters.Items) != 1 || letters.Items[0].Submission != n.own {
			t.Errorf("%q: got %+v, want the tenant's one letter", path, letters.Items)
		}
	}
	for path, want := range map[string]string{"": `"count":1,`, "?meta.company=8": `"items":[]`} {
		a := n.as(n.mine, call{method: "GET", path: "/v1/queues/default/dead-letters/groups" + path})
		if a.status != 200 || !strings.Contains(string(a.body), want) || strings.Contains(string(a.body), marker) {
			t.Errorf("groups%s: got %d %s, want %s", path, a.status, a.body, want)
		}
	}
}

// A tenant's chunks are finished with the tokens of their reservations, all of a request or none.
func TestTenantsFinishTheirOwn(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t)
	var got api.ReserveResponse
	n.as(n.mine, call{method: "POST", path: reservePath, body: `{"max":3,"consumer":"c"}`}).decode(t, &got)
	if len(got.Reservations) != 3 {
		t.Fatalf("reserved %d, want the tenant's 3", len(got.Reservations))
	}
	mixed := `{"items":[{"token":"` + got.Reservations[0].Token + `"},{"token":"` + n.held + `"}]}`
	for _, verb := range []string{"complete", "fail", "extend", "release"} {
		body := mixed
		if verb == "fail" {
			body = strings.ReplaceAll(mixed, `"}`, `","error":"x"}`)
		}
		if a := n.as(n.mine, call{method: "POST", path: reservePath + "/" + verb, body: body}); a.status != 403 || !strings.Contains(string(a.body), "/items/1/token") {
			t.Errorf("%s: got %d %s, want 403 that points at the other's", verb, a.status, a.body)
		}
	}
	a := n.as(n.mine, call{method: "POST", path: reservePath + "/complete", body: `{"items":[{"token":"` + got.Reservations[0].Token + `"}]}`})
	if !strings.Contains(string(a.body), `"ok"`) {
		t.Errorf("complete: %d %s", a.status, a.body)
	}
	a = n.as(n.mine, call{method: "POST", path: reservePath + "/exchange", body: `{"complete":[{"token":"` + got.Reservations[1].Token + `"}],"extend":[{"token":"` + got.Reservations[2].Token + `"}],"consumer":"c","reserve":{"max":1}}`})
	if strings.Count(string(a.body), `"ok"`) != 2 {
		t.Errorf("exchange: %d %s", a.status, a.body)
	}
}

// Consumers of tenants are named company=7/..., so that two tenants with the same name for one neither see, release nor drain each
// other's.
func TestConsumersOfTenantsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, admin := f.token(engine.TokenRequest{Name: "boss", Scopes: access.Admin})
	tenants := map[int64]string{7: "", 8: ""}
	const consumers = "/v1/queues/default/consumers"
	reserve := func(company int64) (got api.ReserveResponse) {
		t.Helper()
		f.as(tenants[company], call{method: "POST", path: reservePath, body: `{"max":2,"consumer":"c"}`}).decode(t, &got)
		return got
	}
	holds := func(when string, seven, eight uint64) {
		t.Helper()
		want := map[string]uint64{"company=7/c": seven, "company=8/c": eight}
		for name, n := range want {
			var got api.ConsumerDetail
			a := f.as(admin, call{method: "GET", path: consumers + "/" + url.PathEscape(name)})
			if a.status == 200 {
				a.decode(t, &got)
			}
			if got.Reserved != n {
				t.Errorf("%s: %s holds %d, want %d: %d %s", when, name, got.Reserved, n, a.status, a.body)
			}
		}
	}
	for company := range tenants {
		entry := queue.MetaEntry{Key: "company", Value: queue.IntValue(company)}
		_, tenants[company] = f.token(engine.TokenRequest{Name: fmt.Sprint("tenant ", company), Scopes: restrictableScopes, Restriction: access.Restriction{Entry: entry}})
		f.as(admin, call{method: "POST", path: insertPath, body: fmt.Sprintf(`{"meta":{"company":%d},"chunks":{"count":9,"prefix":"x/"}}`, company)})
		reserve(company)
	}
	holds("both reserved as c", 2, 2)
	for _, name := range []string{"c", "company=8%2Fc"} {
		for _, c := range []call{{method: "GET", path: consumers}, {method: "GET", path: consumers + "/" + name}, {method: "POST", path: consumers + "/" + name + "/drain"}, {method: "POST", path: consumers + "/" + name + "/release"}} {
			if got := f.as(tenants[7], c); got.status != 403 {
				t.Errorf("%s %s by a tenant: got %d %s, want 403", c.method, c.path, got.status, got.body)
			}
		}
		f.as(tenants[7], call{method: "POST", path: consumers + "/" + name + "/detach"})
	}
	holds("7 left as c, and as what the other is called", 0, 2)
	reserve(7)
	if got := f.as(admin, call{method: "POST", path: consumers + "/company=7%2Fc/drain"}); got.status != 200 {
		t.Errorf("drain: %d %s", got.status, got.body)
	}
	if got := reserve(7); len(got.Reservations) != 0 || got.Reason == nil || *got.Reason != api.ReasonDraining {
		t.Errorf("the drained one got %+v, want none, because it is drained", got)
	}
	if got := reserve(8); len(got.Reservations) != 2 {
		t.Errorf("the other tenant's got %+v, want 2 chunks: it was not drained", got)
	}
	holds("7 was drained", 2, 4)
}
