package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/sdk/api"
)

// diagnosis asks about a value of t, or with an id about a submission.
func (s *scene) diagnosis(of string) (got api.Diagnosis) {
	s.Helper()
	path := queuePath("", "/meta-keys/t/values/"+of+"/diagnosis")
	if strings.TrimLeft(of, "0123456789") == "" {
		path = "/v1/submissions/" + of + "/diagnosis"
	}
	s.do("GET", path, nil, http.StatusOK, &got)
	return got
}

func (s *scene) wantDiagnosis(of, want string) {
	s.Helper()
	if got := s.diagnosis(of).Sentence; got != want {
		s.Errorf("diagnosis of %s:\ngot  %s\nwant %s", of, got, want)
	}
}

// by is a reserve of one consumer.
func by(consumer, strategy string, most int) api.ReserveRequest {
	r := request(strategy, most)
	r.Consumer = consumer
	return r
}

// A diagnosis follows a value from its first submission to its last chunk: every open chunk counts for its real cause,
// and the next reserve gets exactly the chunks that the diagnosis says can be handed out.
func TestDiagnosisOfAValue(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.wantDiagnosis("a", "Empty: no open submission has t=a.")
	insert := func(chunks int, change ...func(*api.NewSubmission)) api.Submission {
		n := api.NewSubmission{Meta: api.Meta{"t": api.Text("a"), "region": api.Text("eu")}, OnExhausted: "dead_letter",
			Chunks: api.Chunks{Count: uint32(chunks), Prefix: "x/"}}
		for _, c := range change {
			c(&n)
		}
		return s.insert("", n)
	}
	sub := insert(10)
	s.wantDiagnosis("a", "Not asked for: 10 are selected by no strategy of the last 1s, which is how far back strategies are known.")

	s.advance(2 * time.Hour)
	const eu, one = `SelectOnly("region", "eu", OldestFirst)`, `MaxSimultaneous("t", 1, OldestFirst)`
	s.reserve("", by("w0", `SelectOnly("region", "us", OldestFirst)`, 1))
	s.wantDiagnosis("a", "Not asked for: 10 are selected by no strategy of the last hour.")
	held := s.reserve("", by("w1", one, 5)).Reservations
	s.advance(90 * time.Second)
	s.wantDiagnosis("a", "Held: 1 of 1 in flight, by w1 for 1m 30s; 9 wait.")
	s.wantDiagnosis(sub.ID, "Held: 1 in flight, by w1 for 1m 30s; 9 wait for t=a, which has 1 of 1 in flight.")
	if d := s.diagnosis("a"); d.InFlight != 1 || d.Holders != 1 || d.Oldest == nil || d.Oldest.Consumer != "w1" || d.Oldest.Submission != sub.ID ||
		len(d.Causes) != 1 || d.Causes[0].Kind != api.CauseLimit || d.Causes[0].Detail != "9 wait for t=a, which has 1 of 1 in flight" || d.Causes[0].Chunks != 9 || d.Causes[0].Strategy != one || *d.Causes[0].Max != 1 {
		t.Errorf("at the limit: got %+v, oldest %+v", d, d.Oldest)
	}

	second := s.reserve("", by("w2", eu, 1)).Reservations // another strategy that has no such limit takes one, and could take them all
	s.wantDiagnosis("a", "Ready: 8 can be handed out; 2 in flight, by 2 consumers, the longest by w1 for 1m 30s.")
	s.do("PUT", queuePath("", "/meta-keys/region/values/eu"), `{"limit":2}`, http.StatusCreated, nil)
	s.wantDiagnosis("a", "Held: 2 in flight, by 2 consumers, the longest by w1 for 1m 30s; 8 wait for region=eu, which has 2 of 2 in flight.")

	soon := (12 * time.Second).Milliseconds()
	insert(4, func(n *api.NewSubmission) { n.RunAt = api.At(s.now().Add(time.Hour)) })
	rule := s.setRule("", api.ActionPause, api.RuleMatch{Submission: sub.ID})
	s.results("", "fail", api.FailRequest{Items: []api.FailItem{{Token: held[0].Token, Error: "x", RetryAfterMS: &soon}}})
	s.wantDiagnosis("a", "Paused: 8 are paused by a rule about the submission; 4 are due in 1h; 1 waits for its next try, in 12s; "+
		"1 in flight, by w2 for <1s.")
	var sum uint64
	d := s.diagnosis("a")
	for _, c := range d.Causes {
		sum += c.Chunks
	}
	if sum+d.InFlight != 14 || d.Submissions != 2 || d.Examined != 2 || d.Causes[0].Rule == nil || d.Causes[0].Rule.ID != rule.ID {
		t.Errorf("got %+v, want causes of 14 chunks with those in flight, the rule %s and 2 submissions", d, rule.ID)
	}
	s.liftRule("", rule)
	s.do("DELETE", queuePath("", "/meta-keys/region/values/eu"), nil, http.StatusNoContent, nil)
	s.advance(20 * time.Minute)
	s.wantDiagnosis("a", "Ready: 9 can be handed out, but none has been reserved by a strategy that selects them for 20m; 4 are due in 40m; "+
		"1 in flight, by w2 for 20m.")
	s.advance(time.Hour)
	all := s.reserveAll("", eu)
	if len(all) != 13 {
		t.Fatalf("got %d chunks, want the 13 that were ready", len(all))
	}
	s.failing("", "broken", true, all[0])
	s.completing("", append(all[2:], second...)...)
	s.wantDiagnosis("a", "In flight: 1, by a consumer without a name for <1s; 1 is dead.")
	s.completing("", all[1])
	s.wantDiagnosis("a", "Empty: no open submission has t=a.")
	s.wantDiagnosis(sub.ID, "Empty: the submission has ended, 1 chunk is dead.")
}

// The diagnosis for a tenant's token says why its work waits, without the numbers of values that it shares, without
// rules about more than its own, and without strategies.
func TestDiagnosisKeepsToTheTenant(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t)
	_, admin := n.token(engine.TokenRequest{Name: "boss", Scopes: access.Admin})
	n.as(admin, call{method: "POST", path: insertPath, body: `{"meta":{"company":8,"region":"eu"},"chunks":{"count":9,"prefix":"x/"}}`})
	n.as(admin, call{method: "POST", path: insertPath, body: `{"meta":{"company":7,"region":"eu"},"chunks":{"count":5,"prefix":"x/"}}`})
	n.as(admin, call{method: "POST", path: insertPath, body: `{"meta":{"company":7,"region":"ap"},"chunks":{"count":2,"prefix":"x/"}}`})
	n.as(admin, call{method: "POST", path: "/v1/queues/default/rules", body: `{"action":"pause","match":{"meta":{"region":"ap"}},"reason":"` + marker + `"}`})
	n.as(admin, call{method: "PUT", path: "/v1/queues/default/meta-keys/region/values/eu", body: `{"limit":0}`})
	path := "/v1/queues/default/meta-keys/company/values/"
	ask := func(token, of string) (got api.Diagnosis) {
		t.Helper()
		a := n.as(token, call{method: "GET", path: path + of + "/diagnosis"})
		if a.status != http.StatusOK {
			t.Fatalf("got %d %s", a.status, a.body)
		}
		if token == n.mine && strings.Contains(string(a.body), marker) {
			t.Errorf("the tenant is told of the other: %s", a.body)
		}
		a.decode(t, &got)
		return got
	}
	const mine = "Held: 5 wait for a limit on a value shared with others; 3 can be handed out; 2 are paused by a rule."
	const all = "Held: 5 wait, as region=eu has a limit of 0; 3 can be handed out; 2 are paused by region=ap."
	if got := ask(n.mine, "7").Sentence; got != mine {
		t.Errorf("the tenant:\ngot  %s\nwant %s", got, mine)
	}
	got := ask(admin, "7")
	if got.Sentence != all || got.Causes[0].Key != "region" || got.Causes[1].Strategy == "" || got.Causes[2].Rule == nil {
		t.Errorf("the operator:\ngot  %+v\nwant %s", got, all)
	}
	if a := n.as(n.mine, call{method: "GET", path: path + "8/diagnosis"}); a.status != http.StatusNotFound {
		t.Errorf("the other's: got %d %s, want 404", a.status, a.body)
	}
	if a := n.as(n.mine, call{method: "GET", path: "/v1/submissions/" + n.other + "/diagnosis"}); a.status != http.StatusNotFound {
		t.Errorf("the other's submission: got %d %s, want 404", a.status, a.body)
	}
}

// Where nothing moves the forecast is null, in every answer that has one: it is never absent.
func TestForecastIsNullWhereNothingMoves(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.insert(`{"meta":{"company":7},"chunks":{"count":3,"prefix":"x/"}}`).ID
	for path, want := range map[string]int{"/v1/queues/default/stats": 1, "/v1/queues/default/meta-keys/company/values/7/diagnosis": 2,
		"/v1/submissions/" + id + "/diagnosis": 2} {
		a := f.as("", call{method: "GET", path: path})
		if got := strings.Count(string(a.body), `"forecast":null`); a.status != http.StatusOK || got != want {
			t.Errorf("%s: %d %s has %d forecasts that are null, want %d", path, a.status, a.body, got, want)
		}
	}
}
