package web

import (
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
)

// Each kind of back-off is read correctly, of a queue, of a submission in each of the forms of an insert and of a
// schedule, and shown as it was given. A repeated insert has to have the same one.
func TestBackoffOverHTTP(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for body, shown := range map[string]string{
		`{"kind":"fixed","base_ms":5000,"jitter":"none"}`:                  `{"kind":"fixed","base_ms":5000,"factor":0,"cap_ms":0,"jitter":"none"}`,
		`{"kind":"linear","base_ms":5000,"cap_ms":9000,"jitter":"equal"}`:  `{"kind":"linear","base_ms":5000,"factor":0,"cap_ms":9000,"jitter":"equal"}`,
		`{"kind":"list","delays_ms":[0,2592000000]}`:                       `{"kind":"list","base_ms":0,"factor":0,"cap_ms":0,"delays_ms":[0,2592000000]}`,
		`{"kind":"exponential","base_ms":1000,"cap_ms":0,"jitter":"full"}`: `{"base_ms":1000,"factor":2,"cap_ms":0}`,
		`{"base_ms":1000,"factor":1.5,"cap_ms":2592000000,"delays_ms":[]}`: `{"base_ms":1000,"factor":1.5,"cap_ms":2592000000}`,
		`{"jitter":"none"}`: `{"base_ms":0,"factor":0,"cap_ms":0,"jitter":"none"}`,
	} {
		insert := `{"chunks":{"count":1,"template":"x"},"retry_backoff":` + body + `}`
		for _, test := range []struct{ method, path, body, kind string }{
			{"PUT", "/v1/queues/q", `{"settings":{"retry_backoff":` + body + `,"expiry_backoff":` + body + `}}`, ""},
			{"GET", "/v1/queues/q", "", ""},
			{"POST", insertPath, insert, ""},
			{"POST", insertPath, `{"retry_backoff":` + body + "}\n\"x\"\n", "application/x-ndjson"},
			{"POST", insertPath + ":batch", `{"submissions":[` + insert + `]}`, ""},
			{"PUT", "/v1/queues/default/schedules/s", `{"spec":"@yearly","template":` + insert + `}`, ""},
			{"POST", "/v1/queues/default/schedules/s/trigger", "", ""},
		} {
			call := call{method: test.method, path: test.path, body: test.body}
			if test.kind != "" {
				call.header = map[string]string{"Content-Type": test.kind}
			}
			got := f.send(call)
			if got.status > 201 || !strings.Contains(strings.ReplaceAll(string(got.body), " ", ""), `"retry_backoff":`+shown) {
				t.Errorf("%s %s %s: %d %s\nwant %s in it", test.method, test.path, test.body, got.status, got.body, shown)
			}
		}
	}
	var made api.Submission
	f.do("POST", insertPath, `{"chunks":{"count":1,"template":"x"},"retry_backoff":{"kind":"fixed","base_ms":60000,"jitter":"none"}}`, 201, &made)
	f.do("GET", "/v1/submissions/"+made.ID, "", 200, &made)
	if b := made.RetryBackoff; b == nil || b.Kind != api.BackoffFixed || b.BaseMS != 60_000 || b.Jitter != api.JitterNone {
		t.Errorf("the submission has the back-off %+v", b)
	}
}

// A wrong back-off is refused at its field, with the allowed values, wherever it is given.
func TestBackoffRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for body, want := range map[string]string{
		`{"kind":"wild"}`: `/kind|must be exponential, linear, fixed or list`,
		`{"kind":"fixed","base_ms":1,"jitter":"some"}`:    `/jitter|must be full, equal or none`,
		`{"kind":"fixed","base_ms":86400001}`:             `/base_ms|0 (at once) to 86,400,000 are allowed`,
		`{"kind":"fixed","base_ms":99999999999999999999}`: `/base_ms|0 (at once) to 86,400,000`,
		`{"kind":"fixed","base_ms":1,"factor":2}`:         `/factor|has no meaning for the kind fixed; leave it out`,
		`{"kind":"linear","base_ms":1,"cap_ms":-1}`:       `/cap_ms|0 (none) to 2,592,000,000 are allowed`,
		`{"kind":"linear","base_ms":1,"delays_ms":[1]}`:   `/delays_ms|has no meaning for the kind linear; leave it out`,
		`{"kind":"list"}`: `/delays_ms|has 0 entries; the kind list needs 1 to 16`,
		`{"kind":"list","delays_ms":[1,2592000001]}`:                      `/delays_ms/1|0 (at once) to 2,592,000,000 are allowed`,
		`{"kind":"list","delays_ms":[1],"base_ms":1}`:                     `/base_ms|has no meaning for the kind list; leave it out`,
		`{"base_ms":1,"factor":101}`:                                      `/factor|1 to 100 are allowed`,
		`{"base_ms":1,"factor":"2"}`:                                      `/factor|`,
		`{"base_ms":1,"growth":2}`:                                        `/growth|is not a known field`,
		`{"kind":"list","delays_ms":[` + strings.Repeat("1,", 16) + `1]}`: `/delays_ms|16`,
	} {
		pointer, detail, _ := strings.Cut(want, "|")
		insert := `{"chunks":{"count":1,"template":"x"},"retry_backoff":` + body + `}`
		for _, test := range []struct{ method, path, body, at string }{
			{"PUT", "/v1/queues/q", `{"settings":{"retry_backoff":` + body + `}}`, "/settings/retry_backoff"},
			{"POST", insertPath, insert, "/retry_backoff"},
			{"PUT", "/v1/queues/default/schedules/s", `{"spec":"@yearly","template":` + insert + `}`, "/template/retry_backoff"},
		} {
			got := f.send(call{method: test.method, path: test.path, body: test.body})
			p := got.problem(t)
			if got.status != 422 || len(p.Errors) != 1 || p.Errors[0].Pointer != test.at+pointer || !strings.Contains(p.Errors[0].Detail, detail) {
				t.Errorf("%s %s %s: %d %s\nwant 422 at %s: %s", test.method, test.path, test.body, got.status, got.body, test.at+pointer, detail)
			}
		}
	}
}
