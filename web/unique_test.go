package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// uniqueBody is an insert with a unique key.
func uniqueBody(company int, key, more string) string {
	return fmt.Sprintf(`{"meta":{"company":%d},"chunks":{"count":1,"template":"x"},"unique":{"key":%q%s}}`, company, key, more)
}

// A second insert with a unique key is answered with the first, in each of the forms of an insert, and makes none.
func TestUniqueKeyOverHTTP(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var first, again api.Submission
	f.do("POST", insertPath, uniqueBody(1, "k", ""), 201, &first)
	if first.Existing || first.Unique == nil || first.Unique.Key != "k" || first.Unique.While != "open" {
		t.Errorf("the first answer has existing %v and unique %v", first.Existing, first.Unique)
	}
	got := f.do("POST", insertPath, uniqueBody(2, "k", `,"while":"24h"`), 200, &again)
	if again.ID != first.ID || !again.Existing || got.header.Get("Quern-Existing") != "true" || got.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("the second answer is %s, existing %v, header %q; want %s", again.ID, again.Existing, got.header.Get("Quern-Existing"), first.ID)
	}
	lines := f.send(call{method: "POST", path: insertPath, header: map[string]string{"Content-Type": "application/x-ndjson"}, body: `{"unique":{"key":"k"}}` + "\n" + `"a"` + "\n"})
	if lines.status != 200 || !strings.Contains(string(lines.body), first.ID) {
		t.Errorf("JSON lines: %d %s", lines.status, lines.body)
	}
	var many api.InsertManyResponse
	f.do("POST", insertPath+":batch", `{"atomic":true,"submissions":[`+uniqueBody(1, "k", "")+`,`+uniqueBody(1, "new", "")+`,`+uniqueBody(1, "new", `,"on_conflict":"replace"`)+`]}`, 200, &many)
	if r := many.Results; r[0].Status != api.InsertExisting || r[0].Submission.ID != first.ID || !r[0].Submission.Existing || r[1].Status != api.InsertCreated ||
		r[2].Status != api.InsertExisting || r[2].Submission.ID != r[1].Submission.ID {
		t.Errorf("a batch gave %+v", r)
	}
	var other api.Submission
	f.do("POST", insertPath, uniqueBody(1, "k", `,"on_conflict":"replace"`), 201, &other)
	f.do("GET", "/v1/submissions/"+first.ID, "", 200, &first)
	if other.ID == first.ID || first.State != api.StateCancelled || !strings.Contains(first.Failure, other.ID) {
		t.Errorf("replaced by %s: %s is %s, %q", other.ID, first.ID, first.State, first.Failure)
	}
	for body, pointer := range map[string]string{
		`{"key":""}`: "/unique/key",
		`{"key":"` + strings.Repeat("k", 256) + `"}`: "/unique/key",
		`{"while":"open"}`:                           "/unique/key",
		`{"key":"k","while":"1ms"}`:                  "/unique/while",
		`{"key":"k","while":"721h"}`:                 "/unique/while",
		`{"key":"k","while":"pending"}`:              "/unique/while",
		`{"key":"k","on_conflict":"raise"}`:          "/unique/on_conflict",
		`{"key":"k","scope":"company=7"}`:            "/unique/scope",
	} {
		if got := f.send(call{method: "POST", path: insertPath, body: `{"chunks":{"count":1,"template":"x"},"unique":` + body + `}`}); got.status < 400 || !strings.Contains(string(got.body), `"`+pointer+`"`) {
			t.Errorf("%.60s: %d %s; want it refused at %s", body, got.status, got.body, pointer)
		}
	}
}

// A tenant meets only its own unique keys: it does not learn of submissions of others, cannot replace them, and takes
// no key from them.
func TestUniqueKeysOfTenants(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := map[int]string{}
	for _, company := range []int{7, 8} {
		_, tokens[company] = f.token(engine.TokenRequest{Name: fmt.Sprint("of ", company), Scopes: restrictableScopes,
			Restriction: access.Restriction{Entry: queue.MetaEntry{Key: "company", Value: queue.IntValue(int64(company))}}})
	}
	_, wide := f.token(engine.TokenRequest{Name: "wide", Scopes: restrictableScopes})
	insert := func(token string, company int, more string, status int) (made api.Submission) {
		t.Helper()
		got := f.as(token, call{method: "POST", path: insertPath, body: uniqueBody(company, "k", more)})
		if got.status != status {
			t.Fatalf("company %d: %d %s; want %d", company, got.status, got.body, status)
		}
		got.decode(t, &made)
		return made
	}
	all := insert(wide, 7, "", 201)
	seven := insert(tokens[7], 7, "", 201)
	insert(tokens[8], 8, `,"on_conflict":"replace"`, 201)
	if again := insert(tokens[7], 7, "", 200); again.ID != seven.ID {
		t.Errorf("the tenant was answered with %s, want its own %s", again.ID, seven.ID)
	}
	if again := insert(wide, 8, "", 200); again.ID != all.ID {
		t.Errorf("who is bound to nothing was answered with %s, want %s", again.ID, all.ID)
	}
	for _, id := range []string{all.ID, seven.ID} {
		var now api.Submission
		f.as(wide, call{method: "GET", path: "/v1/submissions/" + id}).decode(t, &now)
		if now.State != api.StateOpen {
			t.Errorf("%s is %s", id, now.State)
		}
	}
}

// A schedule whose unique key is held inserts nothing: a tick counts as skipped, a trigger is answered with the submission.
func TestUniqueKeyOfASchedule(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var made, again api.Submission
	var set api.Schedule
	f.do("PUT", "/v1/queues/default/schedules/s", `{"spec":"@yearly","template":{"chunks":{"count":1,"template":"x"},"unique":{"key":"k","while":"1h","on_conflict":"keep"}}}`, 201, &set)
	if u := set.Definition.Template.Unique; u == nil || *u != (api.Unique{Key: "k", While: "1h0m0s", OnConflict: "keep"}) {
		t.Errorf("the definition has unique %+v", u)
	}
	f.do("POST", "/v1/queues/default/schedules/s/trigger", "", 201, &made)
	got := f.do("POST", "/v1/queues/default/schedules/s/trigger", "", 200, &again)
	if again.ID != made.ID || !again.Existing || got.header.Get("Quern-Existing") != "true" {
		t.Errorf("a second trigger gave %s, existing %v; want %s", again.ID, again.Existing, made.ID)
	}
	var filled api.Backfilled
	f.do("POST", "/v1/queues/default/schedules/s/backfill", `{"from":"2020-01-01T00:00:00Z","to":"2022-01-01T00:00:00Z"}`, 200, &filled)
	if filled.Ticks != 3 || len(filled.Submissions) != 0 {
		t.Errorf("a backfill made %v of %d ticks", filled.Submissions, filled.Ticks)
	}
	f.do("PUT", "/v1/queues/default/schedules/bad", `{"spec":"@yearly","template":{"chunks":{"count":1,"template":"x"},"unique":{"key":""}}}`, 422, nil)
}
