package web

import (
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
)

// An insert of many reuses the memory of the one before, and none of its contents: no result, no key and no field.
func TestInsertManyForgetsTheCallBefore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const path = "/v1/queues/default/submissions:batch"
	const full = `{"chunks":{"inline":["a","b"]},"meta":{"company":7},"priority":9,"idempotency_key":"k","group":"g"}`
	const bare = `{"chunks":{"count":1,"prefix":"p/"}}`
	list := func(one string, n int) string {
		return `{"submissions":[` + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + `]}`
	}
	for round := range 3 {
		var before, after api.InsertManyResponse
		f.do("POST", path, list(full, 5), 200, &before)
		for i, r := range before.Results {
			if want := api.InsertReplayed; round+i > 0 && r.Status != want {
				t.Errorf("round %d: submission %d with the key is %s, want %s", round, i, r.Status, want)
			}
		}
		f.do("POST", path, `{"submissions":[`+bare+`,{"chunks":{}},`+bare+`]}`, 200, nil)
		f.do("POST", path, list(bare, 4), 200, &after)
		if len(after.Results) != 4 {
			t.Fatalf("round %d: %d results for 4 submissions", round, len(after.Results))
		}
		for i, r := range after.Results {
			if r.Status != api.InsertCreated || r.Submission == nil || r.Submission.Chunks != 1 || r.Submission.Priority != 0 ||
				r.Submission.Meta != nil || r.Submission.Group != "" {
				t.Errorf("round %d: submission %d is %s %+v, want a new one of one chunk and no more", round, i, r.Status, r.Submission)
			}
		}
	}
}
