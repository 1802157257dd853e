package web

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// pair are two ways to name something: something that is there and hidden, and something that never was.
type pair struct{ hidden, absent string }

// hiding is a server with a visible queue, default, and one named hiddenq, and the things in both that a token may not
// see.
type hiding struct {
	*fixture
	token                               string
	own, letter                         string // a submission that is seen, with a dead chunk 0
	submission, held, rule, ended, bulk pair
}

// absentQueue is the name of no queue, as long as hiddenq is.
const absentQueue = "absentq"

// newHiding makes hidden things in this queue, of company 80001, and visible ones in the queue default, of company 7.
func newHiding(f *fixture, hidden string) *hiding {
	f.Helper()
	h := &hiding{fixture: f}
	dead := func(queueName string, company int) (id string) {
		var made api.Submission
		base := "/v1/queues/" + queueName
		f.do("POST", base+"/submissions", fmt.Sprintf(`{"meta":{"company":%d},"chunks":{"count":4,"template":"x"},"on_exhausted":"dead_letter","max_attempts":1}`, company), 201, &made)
		var got api.ReserveResponse
		f.do("POST", base+"/reservations", fmt.Sprintf(`{"max":2,"strategy":"SelectOnly(\"company\", %d, OldestFirst)"}`, company), 200, &got)
		f.do("POST", base+"/reservations/fail", `{"items":[{"token":"`+got.Reservations[0].Token+`","error":"x","fatal":true}]}`, 200, nil)
		h.held.hidden = got.Reservations[1].Token
		return made.ID
	}
	h.own = dead("default", 7)
	h.submission.hidden = dead(hidden, 80001)
	id, err := queue.ParseSubmissionID(h.submission.hidden)
	if err != nil {
		f.Fatal(err)
	}
	h.submission.absent = (id + 1).String()
	token, ok := queue.ParseToken([]byte(h.held.hidden))
	if !ok {
		f.Fatalf("%s is no token", h.held.hidden)
	}
	token.Submission = id + 1
	h.held.absent = token.String()
	set := func(meta string) string {
		var rule api.Rule
		f.do("POST", "/v1/queues/"+hidden+"/rules", `{"action":"pause","match":{"meta":`+meta+`},"reason":"secret"}`, 201, &rule)
		return rule.ID
	}
	h.ended = pair{set(`{"user":1}`), "998"}
	f.do("DELETE", "/v1/queues/"+hidden+"/rules/"+h.ended.hidden, "", 204, nil)
	h.rule = pair{set(`{"company":80001}`), "999"}
	bulk := api.BulkOperation{State: api.BulkRunning}
	f.do("POST", "/v1/bulk-operations", `{"action":"retry","queue":"`+hidden+`","filter":{"meta":{"company":80001}}}`, 202, &bulk)
	number, ok := queue.ParseBulkID(bulk.ID)
	if !ok {
		f.Fatalf("%s is no id", bulk.ID)
	}
	h.bulk = pair{bulk.ID, (number + 1).String()}
	return h
}

// inPath are the pairs for a parameter of a path; known is false for one that this test does not know.
func (h *hiding) inPath(path, name string) (pairs []pair, known bool) {
	switch {
	case name == "queue":
		return []pair{{"hiddenq", absentQueue}}, true
	case name == "submission" || name == "id" && strings.HasPrefix(path, "/v1/submissions"):
		return []pair{h.submission}, true
	case name == "id" && strings.Contains(path, "/rules/"):
		return []pair{h.rule, h.ended}, true
	case name == "id" && strings.Contains(path, "/bulk-operations/"):
		return []pair{h.bulk}, true
	case name == "value":
		return []pair{{"80001", "80002"}}, true
	case name == "consumer":
		return []pair{{"company=80001%2Fc", "company=80002%2Fc"}}, true
	}
	// These are refused to such tokens whatever they name, or are in a queue whose name was already checked.
	return nil, slices.Contains([]string{"id", "index", "key", "name", "version", "page", "file", "ledger", "group", "shard"}, name)
}

// seen fills in a parameter with something that the token may see.
func (h *hiding) seen(path, name string) string {
	switch {
	case name == "queue":
		return "default"
	case name == "submission" || name == "id" && strings.HasPrefix(path, "/v1/submissions"):
		return h.own
	case name == "index":
		return "0"
	case name == "key":
		return "company"
	case name == "value":
		return "7"
	case name == "id":
		return "1"
	}
	return "some"
}

// inBodies are the requests that name something elsewhere than in their path, in the place of %s.
func (h *hiding) inBodies() map[string][]struct {
	c call
	pair
} {
	type named = struct {
		c call
		pair
	}
	list := map[string][]named{}
	add := func(op, method, path, body string, p pair) {
		list[op] = append(list[op], named{call{method: method, path: path, body: body}, p})
	}
	queues := pair{"hiddenq", absentQueue}
	add("list-bulk-operations", "GET", "/v1/bulk-operations?queue=%s", "", queues)
	add("events", "GET", "/v1/events?queue=%s", "", queues)
	add("start-bulk-operation", "POST", "/v1/bulk-operations", `{"action":"cancel","queue":"%s","filter":{"meta":{"company":7}}}`, queues)
	add("start-bulk-operation", "POST", "/v1/bulk-operations", `{"action":"forward","to":"%s","queue":"default","filter":{"meta":{"company":7}}}`, queues)
	add("start-bulk-operation", "POST", "/v1/bulk-operations", `{"action":"cancel","dry_run":true,"queue":"default","filter":{"submission":"%s"}}`, h.submission)
	add("forward-dead-letter", "POST", "/v1/queues/default/dead-letters/"+h.own+"/0/forward", `{"to":"%s"}`, queues)
	add("set-rule", "POST", "/v1/queues/default/rules", `{"action":"pause","match":{"submission":"%s"}}`, h.submission)
	add("wait-submissions", "POST", "/v1/submissions:wait", `{"ids":["%s"],"wait_ms":1}`, h.submission)
	add("list-dead-letters", "GET", "/v1/queues/default/dead-letters?submission=%s", "", h.submission)
	add("list-dead-letter-groups", "GET", "/v1/queues/default/dead-letters/groups?submission=%s", "", h.submission)
	add("list-reservations", "GET", "/v1/queues/default/reservations?submission=%s", "", h.submission)
	add("list-reservations", "GET", "/v1/queues/default/reservations?cursor=%s", "", h.submission)
	add("list-submissions", "GET", "/v1/queues/default/submissions?cursor=%s", "", h.submission)
	for _, verb := range []string{"complete", "fail", "extend", "release"} {
		add(verb, "POST", reservePath+"/"+verb, `{"items":[{"token":"%s"}]}`, h.held)
		add("exchange", "POST", reservePath+"/exchange", `{"`+strings.Replace(verb, "release", "complete", 1)+`":[{"token":"%s"}],"reserve":{"max":1}}`, h.held)
	}
	return list
}

// made are the ids and times of things that a request made.
var made = regexp.MustCompile(`b[0-9]{15,}|"[0-9-]{10}T[0-9:.]{12}Z"`)

// same sends two requests that differ in what they name and reports answers that differ in more.
func (h *hiding) same(op string, p pair, request func(string) call) {
	h.Helper()
	var answers [2]string
	for i, name := range []string{p.hidden, p.absent} {
		c := request(name)
		if c.header == nil {
			c.header = map[string]string{}
		}
		maps.Copy(c.header, map[string]string{headerRequestID: "same"})
		got := h.as(h.token, c)
		header := got.header.Clone()
		header.Del("Date")
		header.Del("Content-Length")
		if len(name) <= 3 {
			name = "rule " + name
		}
		name, _ = url.PathUnescape(name)
		answers[i] = strings.ReplaceAll(fmt.Sprint(got.status, header, string(got.body)), name, "NAME")
		answers[i] = made.ReplaceAllString(answers[i], "MADE")
	}
	if answers[0] != answers[1] {
		c := request(p.hidden)
		h.Errorf("%s %s %s: what is hidden is not answered as what is not there:\n%s\n%s", op, c.path, c.body, answers[0], answers[1])
	}
}

// A thing that a token may not see gets exactly the answer of a thing that does not exist. This holds in every
// operation, wherever the thing is named (path, query, body), for tokens that are bound to a value, to a queue and to
// both.
func TestWhatIsHiddenIsNotThere(t *testing.T) {
	t.Parallel()
	value := queue.MetaEntry{Key: "company", Value: queue.IntValue(7)}
	for name, test := range map[string]struct {
		hidden string // the queue that has the hidden things
		bound  access.Restriction
	}{
		"tenant": {"default", access.Restriction{Entry: value}},
		"queue":  {"hiddenq", access.Restriction{Queues: []string{"default"}}},
		"both":   {"hiddenq", access.Restriction{Queues: []string{"default"}, Entry: value}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			if len(test.bound.Queues) > 0 {
				f.do("PUT", "/v1/queues/hiddenq", `{}`, 201, nil)
			}
			h := newHiding(f, test.hidden)
			_, h.token = f.token(engine.TokenRequest{Name: "bound", Scopes: restrictableScopes, Restriction: test.bound})
			bodies, asked := h.inBodies(), 0
			for path, methods := range f.server.operations {
				for method, op := range methods {
					for _, at := range bodies[op.id] {
						asked++
						h.same(op.id, at.pair, func(name string) call {
							c := at.c
							c.path, c.body = strings.ReplaceAll(c.path, "%s", name), strings.ReplaceAll(c.body, "%s", name)
							return c
						})
					}
					if op.public || method == http.MethodHead {
						continue
					}
					for _, part := range strings.Split(path, "/") {
						param, is := strings.CutPrefix(part, ":")
						if !is {
							continue
						}
						pairs, known := h.inPath(path, param)
						if !known {
							t.Errorf("%s: how is a %s hidden?", op.id, param)
						}
						for _, p := range pairs {
							if param == "consumer" && op.id == "attach-consumer" {
								continue // a stream: TestTenantsHearNothingOfOthers
							}
							asked++
							h.same(op.id, p, func(name string) call {
								c := call{method: method, path: filledIn(path, func(of string) string {
									if of == ":"+param {
										return name
									}
									return h.seen(path, strings.TrimPrefix(of, ":"))
								})}
								if method != http.MethodGet && method != http.MethodDelete {
									c.body = "{}"
								}
								return c
							})
						}
					}
				}
			}
			if asked < 100 {
				t.Errorf("%d pairs were asked for; want more than 100", asked)
			}
		})
	}
}

// A tenant learns nothing about others from the ids of its ends: they reveal nothing, those without an end never look
// the same, and a client can come back with them. An id in the open form, which names a place, begins with all ends
// that are kept, whatever the place.
func TestIDsOfEndsTellNothingOfOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	value := queue.MetaEntry{Key: "company", Value: queue.IntValue(7)}
	_, mine := f.token(engine.TokenRequest{Name: "mine", Scopes: restrictableScopes, Restriction: access.Restriction{Entry: value}})
	_, wide := f.token(engine.TokenRequest{Name: "wide", Scopes: restrictableScopes})
	end := func(company int) string {
		t.Helper()
		var made api.Submission
		f.as(wide, call{method: "POST", path: insertPath, body: fmt.Sprintf(`{"meta":{"company":%d},"chunks":{"count":1,"template":"x"}}`, company)}).decode(t, &made)
		if got := f.as(wide, call{method: "POST", path: "/v1/submissions/" + made.ID + "/cancel"}); got.status != 200 {
			t.Fatalf("cancel: %d %s", got.status, got.body)
		}
		return made.ID
	}
	// read gives the id of the first line and those of the next n ends, with their submissions.
	read := func(token, after string, n int) (first string, ids, of []string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+f.address+"/v1/queues/default/ends?after="+after, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil || response.StatusCode != 200 {
			t.Fatalf("after %s: %v, %v", after, response, err)
		}
		defer response.Body.Close()
		lines := bufio.NewScanner(response.Body)
		for signs := 0; len(of) < n && signs < 2 || first == ""; { // by the second sign of life all ends are there
			if !lines.Scan() {
				t.Fatalf("after %s: the stream ended with %v, %v", after, ids, lines.Err())
			}
			if lines.Text() == ": alive" {
				signs++
			}
			if id, is := strings.CutPrefix(lines.Text(), "id: "); is && first == "" {
				first = id
			} else if is {
				ids = append(ids, id)
			}
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
				var sub api.Submission
				if err := json.Unmarshal([]byte(data), &sub); err != nil {
					t.Fatal(err)
				}
				of = append(of, sub.ID)
			}
		}
		return first, ids, of
	}
	own := []string{end(7)}
	end(8)
	own = append(own, end(7))
	_, ids, of := read(mine, "0", 2)
	_, places, _ := read(wide, "0", 3)
	if !slices.Equal(of, own) {
		t.Fatalf("the tenant hears of %v, want %v", of, own)
	}
	for i, id := range ids {
		if queue, ok := queue.ParseEndID(id); ok || len(id) != 64 || strings.Contains(id, places[i]) {
			t.Errorf("the id %q tells where the end is: %v", id, queue)
		}
	}
	if _, again, rest := read(mine, ids[0], 1); !slices.Equal(rest, own[1:]) || !slices.Equal(again, ids[1:]) {
		t.Errorf("behind %s: the ends of %v with the ids %v, want %v with %v", ids[0], rest, again, own[1:], ids[1:])
	}
	for _, old := range []string{places[0], places[2], "1-1-999999-1"} {
		if _, again, of := read(mine, old, 2); !slices.Equal(of, own) || !slices.Equal(again, ids) {
			t.Errorf("behind %s, which is of another stream: the ends of %v, want all", old, of)
		}
	}
	first, _, _ := read(mine, "now", 0)
	second, _, _ := read(mine, "now", 0)
	if first == second {
		t.Error("nothing happened, and the stream says so by the same id")
	}
	last := end(7)
	if _, _, of := read(mine, first, 1); !slices.Equal(of, []string{last}) {
		t.Errorf("behind the place of a sign of life: the end of %v, want that of %s", of, last)
	}
}

// If a rule about more than its value refuses a tenant's insert, the tenant learns that, and nothing of the rule. Of a
// rule about its value it learns all. Its diagnosis does not say until when such a rule holds either.
func TestRefusalsTellNothingOfSharedRules(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	value := queue.MetaEntry{Key: "company", Value: queue.IntValue(7)}
	_, mine := f.token(engine.TokenRequest{Name: "mine", Scopes: restrictableScopes, Restriction: access.Restriction{Entry: value}})
	_, wide := f.token(engine.TokenRequest{Name: "SECRET", Scopes: restrictableScopes})
	const body = `{"meta":{"company":7,"mode":"preview"},"chunks":{"count":1,"template":"x"}}`
	var open api.Submission
	f.as(mine, call{method: "POST", path: insertPath, body: body}).decode(t, &open)
	for match, own := range map[string]bool{`{"meta":{"mode":"preview"}}`: false, `{"queue":true}`: false, `{"meta":{"company":7}}`: true} {
		var rule api.Rule
		f.as(wide, call{method: "POST", path: "/v1/queues/default/rules", body: `{"action":"pause","match":` + match +
			`,"reason":"SECRET","until":"2999-01-01T00:00:00Z","effects":{"insert":true}}`}).decode(t, &rule)
		single := f.as(mine, call{method: "POST", path: insertPath, body: body})
		many := f.as(mine, call{method: "POST", path: insertPath + ":batch", body: `{"submissions":[` + body + `]}`})
		diagnosis := f.as(mine, call{method: "GET", path: "/v1/submissions/" + open.ID + "/diagnosis"})
		if single.status != 423 || !strings.Contains(string(many.body), "refused_by_rule") || !strings.Contains(string(diagnosis.body), "paused") {
			t.Errorf("%s: %d %s, %s, %s; want refusals and a pause", match, single.status, single.body, many.body, diagnosis.body)
		}
		for _, got := range []answer{single, many, diagnosis} {
			for _, text := range []string{"SECRET", "2999", "rule " + rule.ID} {
				if says := strings.Contains(string(got.body), text); says && !own {
					t.Errorf("%s: the tenant learns %q: %s", match, text, got.body)
				} else if !says && own && text == "SECRET" {
					t.Errorf("%s: the tenant is not told %q of a rule about its value: %s", match, text, got.body)
				}
			}
		}
		if got := f.as(wide, call{method: "DELETE", path: "/v1/queues/default/rules/" + rule.ID}); got.status != 204 {
			t.Fatalf("lift: %d %s", got.status, got.body)
		}
	}
}

// A token that is bound to a queue does not get the names of others: neither where a dead letter came from, nor where
// one went, nor where a bulk operation forwards to.
func TestHiddenQueuesAreNotNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("PUT", "/v1/queues/hiddenq", `{}`, 201, nil)
	letter := func(from string) (id string) {
		t.Helper()
		var made api.Submission
		f.do("POST", "/v1/queues/"+from+"/submissions", `{"meta":{"from":"`+from[:1]+`"},"chunks":{"count":1,"template":"x"},"on_exhausted":"dead_letter","max_attempts":1}`, 201, &made)
		var got api.ReserveResponse
		f.do("POST", "/v1/queues/"+from+"/reservations", `{"max":1,"strategy":"SelectOnly(\"from\", \"`+from[:1]+`\", OldestFirst)"}`, 200, &got)
		f.do("POST", "/v1/queues/"+from+"/reservations/fail", `{"items":[{"token":"`+got.Reservations[0].Token+`","error":"x","fatal":true}]}`, 200, nil)
		return made.ID
	}
	in, gone := letter("hiddenq"), letter("default")
	f.do("POST", "/v1/queues/hiddenq/dead-letters/"+in+"/0/forward", `{"to":"default"}`, 200, nil)
	var bulk api.BulkOperation
	f.do("POST", "/v1/bulk-operations", `{"action":"forward","to":"hiddenq","queue":"default","filter":{"submission":"`+gone+`"}}`, 202, &bulk)
	for bulk.State == api.BulkRunning {
		f.do("GET", "/v1/bulk-operations/"+bulk.ID, "", 200, &bulk)
	}
	var copied api.Page[api.Submission]
	for len(copied.Items) == 0 {
		f.do("GET", insertPath+"?meta.from=h", "", 200, &copied)
	}
	copy := copied.Items[0].ID
	f.do("POST", "/v1/submissions/"+copy+"/cancel", "", 200, nil)
	_, wide := f.token(engine.TokenRequest{Name: "wide", Scopes: restrictableScopes})
	_, bound := f.token(engine.TokenRequest{Name: "bound", Scopes: restrictableScopes, Restriction: access.Restriction{Queues: []string{"default"}}})
	for _, c := range []call{
		{method: "GET", path: insertPath}, {method: "GET", path: "/v1/submissions/" + copy}, {method: "POST", path: "/v1/submissions/" + copy + "/cancel"},
		{method: "POST", path: "/v1/submissions:wait", body: `{"ids":["` + copy + `"]}`}, {method: "GET", path: "/v1/submissions/" + gone + "/chunks"},
		{method: "GET", path: "/v1/submissions/" + gone + "/chunks/0"}, {method: "GET", path: "/v1/bulk-operations"},
		{method: "GET", path: "/v1/bulk-operations/" + bulk.ID}, {method: "POST", path: "/v1/bulk-operations/" + bulk.ID + "/cancel"},
	} {
		if got := f.as(wide, c); got.status >= 300 || !strings.Contains(string(got.body), "hiddenq") {
			t.Errorf("%s %s with a token that may see all: %d %s, want the name of the other queue", c.method, c.path, got.status, got.body)
		}
		if got := f.as(bound, c); got.status >= 300 || strings.Contains(string(got.body), "hiddenq") {
			t.Errorf("%s %s: %d %s, want no name of the other queue", c.method, c.path, got.status, got.body)
		}
	}
}
