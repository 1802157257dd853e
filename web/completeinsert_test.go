package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
	"github.com/quern-queue/quern/sdk/api"
)

// bringable is a submission of one chunk, as a completion brings it.
func bringable(meta ...string) api.BatchSubmission {
	return api.BatchSubmission{NewSubmission: submission(1, meta...)}
}

// completeWith completes a chunk, and inserts submissions with it.
func (s *scene) completeWith(token string, insert ...api.BatchSubmission) api.Result {
	s.Helper()
	return s.results("", "complete", api.CompleteRequest{Items: []api.CompleteItem{{Token: token, Insert: insert}}})[0]
}

// Submissions that completions bring are inserted with them, in a complete and in an exchange, whose reserve finds
// them. A repeated token inserts nothing. After a restart the completions and the submissions are there.
func TestCompletionsInsert(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.insert("", submission(3))
	held := s.reserveAs("", "", 3)
	keyed := bringable("k", "keyed")
	keyed.IdempotencyKey = "once"
	first := s.completeWith(held[0].Token, keyed, bringable("k", "b"))
	if first.Status != api.StatusOK || len(first.Inserted) != 2 {
		t.Fatalf("got %+v, want two submissions", first)
	}
	if again := s.completeWith(held[0].Token, keyed, bringable("k", "b")); again.Status != api.StatusAlready || again.Inserted != nil {
		t.Errorf("again: %+v, want already, and nothing inserted", again)
	}
	if same := s.completeWith(held[1].Token, keyed); same.Status != api.StatusOK || !slices.Equal(same.Inserted, first.Inserted[:1]) {
		t.Errorf("with the same idempotency key: %+v, want %s", same, first.Inserted[0])
	}
	var got api.ExchangeResponse
	s.do("POST", queuePath("", "/reservations/exchange"), api.ExchangeRequest{
		Complete: []api.CompleteItem{{Token: held[2].Token, Output: api.Bytes("out"), Insert: []api.BatchSubmission{bringable("k", "c")}}},
		Reserve:  new(request(`SelectOnly("k", "c", Random)`, 1)),
	}, http.StatusOK, &got)
	if len(got.Complete) != 1 || len(got.Complete[0].Inserted) != 1 || len(got.Reservations) != 1 ||
		got.Reservations[0].Submission != got.Complete[0].Inserted[0] {
		t.Errorf("an exchange: %+v, want it to reserve what its completion brought", got)
	}
	s.reopen(0)
	var page api.Page[api.Submission]
	s.do("GET", queuePath("", "/submissions"), nil, http.StatusOK, &page)
	if len(page.Items) != 4 || page.Items[3].State != api.StateCompleted {
		t.Errorf("after a restart there are %d submissions, want 4, of which the first is completed: %+v", len(page.Items), page.Items)
	}
}

// A completion that brings an invalid submission is refused, with the field. If a rule refuses the submission, the
// consumer still holds the chunk.
func TestCompletionsInsertNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.insert("", submission(1))
	token := s.reserveAs("", "", 1)[0].Token
	wrong := bringable()
	wrong.Chunks = api.Chunks{}
	for _, test := range []struct {
		insert  []api.BatchSubmission
		pointer string
	}{
		{[]api.BatchSubmission{bringable(), wrong}, "/insert/1/chunks"},
		{[]api.BatchSubmission{{IdempotencyKey: strings.Repeat("k", 256), NewSubmission: submission(1)}}, "/insert/0/idempotency_key"},
		{make([]api.BatchSubmission, 101), "/insert"},
	} {
		item := api.CompleteItem{Token: token, Insert: test.insert}
		for path, body := range map[string]any{"complete /items/0": api.CompleteRequest{Items: []api.CompleteItem{item}},
			"exchange /complete/0": api.ExchangeRequest{Complete: []api.CompleteItem{item}}} {
			operation, at, _ := strings.Cut(path, " ")
			p := s.refused("POST", queuePath("", "/reservations/"+operation), body, http.StatusUnprocessableEntity)
			if len(p.Errors) != 1 || p.Errors[0].Pointer != at+test.pointer {
				t.Errorf("%s: got %+v, want %s", operation, p.Errors, at+test.pointer)
			}
		}
	}
	full := make([]api.BatchSubmission, queue.MaxFollowing)
	for i := range full {
		full[i] = bringable()
	}
	many := slices.Repeat([]api.CompleteItem{{Token: token, Insert: full}}, queue.MaxInsertions/queue.MaxFollowing+1)
	p := s.refused("POST", queuePath("", "/reservations/complete"), api.CompleteRequest{Items: many}, http.StatusUnprocessableEntity)
	if len(p.Errors) != 1 || p.Errors[0].Pointer != "/items" {
		t.Errorf("10,100 submissions in one call: %+v", p)
	}
	s.do("POST", queuePath("", "/rules"), api.RuleRequest{Action: api.ActionPause, Effects: api.RuleEffects{Insert: true},
		Match: api.RuleMatch{Meta: api.Meta{"k": api.Text("paused")}}}, http.StatusCreated, nil)
	if got := s.completeWith(token, bringable("k", "fine"), bringable("k", "paused")); got.Status != api.StatusRefused ||
		got.Code != api.CodeRefusedByRule || !strings.HasPrefix(got.Detail, "submission 1 of insert cannot be inserted") {
		t.Errorf("a submission that a rule refuses: %+v", got)
	}
	s.wantCounts("", "reserved 1")
	if got := s.completeWith(token, bringable("k", "fine")); got.Status != api.StatusOK {
		t.Errorf("without that one: %+v", got)
	}
	s.wantCounts("", "ready 1")
}

// A token needs the scope produce to insert by a completion, and its restriction and its quotas hold, too. It does not
// learn of rules about others.
func TestCompletionsInsertWithinTheToken(t *testing.T) {
	t.Parallel()
	f := newFixtureSeeded(t, 1, func(s *Server) { s.auth.limits = access.Limits{Submissions: 2} })
	f.insert(`{"meta":{"company":7},"chunks":{"count":4,"prefix":"x/"}}`)
	_, consumes := f.token(engine.TokenRequest{Name: "consumes", Scopes: access.Consume})
	_, tenant := f.token(engine.TokenRequest{Name: "tenant", Scopes: access.Consume | access.Produce | access.Operate,
		Restriction: access.Restriction{Entry: queue.MetaEntry{Key: "company", Value: queue.IntValue(7)}}})
	_, admin := f.token(engine.TokenRequest{Name: "admin", Scopes: access.Operate | access.Consume})
	var held api.ReserveResponse
	if err := json.Unmarshal(f.as(admin, call{method: "POST", path: "/v1/queues/default/reservations", body: `{"max":4}`}).body, &held); err != nil {
		t.Fatal(err)
	}
	complete := func(token string, i int, insert string) answer {
		return f.as(token, call{method: "POST", path: "/v1/queues/default/reservations/complete",
			body: `{"items":[{"token":"` + held.Reservations[i].Token + `","insert":[` + insert + `]}]}`})
	}
	of := func(company int, also string) string {
		return fmt.Sprintf(`{"meta":{"company":%d%s},"chunks":{"count":1,"prefix":"x/"}}`, company, also)
	}
	if got := complete(consumes, 0, of(7, "")); got.status != 403 || !strings.Contains(string(got.body), "produce") {
		t.Errorf("without the scope produce: %d %s", got.status, got.body)
	}
	if got := complete(tenant, 0, of(7, "")+","+of(8, "")); got.status != 403 || !strings.Contains(string(got.body), "/items/0/insert/1/meta") {
		t.Errorf("what is beyond the token: %d %s", got.status, got.body)
	}
	if got := f.as(admin, call{method: "POST", path: "/v1/queues/default/rules",
		body: `{"action":"pause","match":{"meta":{"user":"secret"}},"effects":{"insert":true},"reason":"secret"}`}); got.status != 201 {
		t.Fatalf("a rule: %d %s", got.status, got.body)
	}
	if got := complete(tenant, 0, of(7, `,"user":"secret"`)); got.status != 200 || !strings.Contains(string(got.body), `"refused"`) ||
		strings.Contains(string(got.body), "secret") {
		t.Errorf("a rule about others: %d %s", got.status, got.body)
	}
	if got := complete(tenant, 0, of(7, "")+","+of(7, "")+","+of(7, "")); got.status != 200 || !strings.Contains(string(got.body), "token-submissions") {
		t.Errorf("more than the token may have open: %d %s", got.status, got.body)
	}
	if got := complete(tenant, 0, of(7, "")+","+of(7, "")); !strings.Contains(string(got.body), `"ok","inserted":["`) {
		t.Errorf("as many as it may: %d %s", got.status, got.body)
	}
	if got := complete(tenant, 1, of(7, "")); !strings.Contains(string(got.body), "token-submissions") {
		t.Errorf("one more: %d %s", got.status, got.body)
	}
	if got := complete(consumes, 1, ""); got.status != 200 || !strings.Contains(string(got.body), `{"status":"ok"}`) {
		t.Errorf("a completion that brings nothing: %d %s", got.status, got.body)
	}
}

// An exchange whose commit fails says so: the chunk is not finished, and is still held.
func TestExchangeWhoseCommitFails(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.alone()
	s.insert("", submission(2))
	s.stop()
	s.client.CloseIdleConnections()
	conn, err := sqlitedb.Open(filepath.Join(s.dir, "shards", "0000", "journal.db"), sqlitelog.Kind, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Exec("CREATE TRIGGER sick BEFORE INSERT ON batch WHEN instr(NEW.bytes, CAST('poison' AS BLOB)) " +
		"BEGIN SELECT RAISE(ABORT, 'the disk is sick'); END"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	s.start()
	for i, what := range []string{"complete", "fail"} {
		held := s.reserveAs("", "", 1)[0]
		asked := api.ExchangeRequest{Complete: []api.CompleteItem{{Token: held.Token, Output: api.Bytes("poison")}}}
		if what == "fail" {
			asked = api.ExchangeRequest{Fail: []api.FailItem{{Token: held.Token, Error: "poison"}}}
		}
		asked.Reserve = new(request("Random", 1))
		if p := s.refused("POST", queuePath("", "/reservations/exchange"), asked, http.StatusServiceUnavailable); p.Code != api.CodeCommitFailed {
			t.Errorf("%s: got %+v, want %s", what, p, api.CodeCommitFailed)
		}
		if got := s.statsOf(""); got.DoneTotal != 0 || got.FailedTotal != 0 || got.Ready+got.Reserved != 2 {
			t.Errorf("after %d: %+v, want nothing done or failed", i, got)
		}
	}
}
