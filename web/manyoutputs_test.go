package web

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// A token that is bound to a value of meta lists only the outputs of its own submissions, for every filter and every
// cursor.
func TestManyOutputsOfATenant(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var cursor string
	for _, company := range []int{7, 8, 7, 8} {
		f.insert(fmt.Sprintf(`{"meta":{"company":%d},"chunks":{"count":2,"template":"x"}}`, company))
		for _, r := range f.reserve(`{"max":2}`).Reservations {
			f.results("complete", fmt.Sprintf(`{"token":%q,"output":"of %d"}`, r.Token, company))
		}
		var page api.Page[api.SubmissionOutput]
		f.do("GET", "/v1/queues/default/outputs?limit=1", "", 200, &page)
		cursor = page.Next // within a submission of the other one, at last
	}
	tenant := access.Restriction{Queues: []string{"default"}, Entry: queue.MetaEntry{Key: "company", Value: queue.IntValue(7)}}
	_, mine := f.token(engine.TokenRequest{Name: "tenant", Scopes: access.Read, Restriction: tenant})
	_, elsewhere := f.token(engine.TokenRequest{Name: "elsewhere", Scopes: access.Read, Restriction: access.Restriction{Queues: []string{"other"}}})
	for query, want := range map[string]int{"": 4, "?meta.company=7": 4, "?meta.company=8": 0, "?cursor=" + cursor: 4, "?limit=3": 3} {
		got := f.as(mine, call{method: "GET", path: "/v1/queues/default/outputs" + query})
		if n := strings.Count(string(got.body), `"of 7"`); got.status == 200 && n != want || strings.Contains(string(got.body), "of 8") ||
			got.status != 200 && want > 0 {
			t.Errorf("%s: %d %s, want %d outputs of 7", query, got.status, got.body, want)
		}
	}
	if got := f.as(elsewhere, call{method: "GET", path: "/v1/queues/default/outputs"}); got.status != http.StatusNotFound && got.status != http.StatusForbidden {
		t.Errorf("with a token of another queue: %d %s", got.status, got.body)
	}
}

// A page ends before its answer is too long, and the next one begins with the output that did not fit. A client that
// lost an answer can ask for the same page again.
func TestManyOutputsThatAreLong(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const outputs, size = 12, 900_000
	plain := func(c call) answer { return send(f, http.DefaultClient, f.address, c) } // so much takes long to hold against the document
	for range outputs / 4 {
		f.insert(`{"chunks":{"count":4,"template":"x"}}`)
	}
	output := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("long"), size/4))
	for range outputs {
		body := fmt.Sprintf(`{"items":[{"token":%q,"output":{"base64":%q}}]}`, f.reserveOne().Token, output)
		if got := plain(call{method: "POST", path: reservePath + "/complete", body: body}); got.status != 200 {
			t.Fatalf("complete: %d %s", got.status, got.body)
		}
	}
	seen, pages := map[string]bool{}, 0
	for next, more := "", true; more; pages++ {
		c := call{method: "GET", path: "/v1/queues/default/outputs?limit=1000&cursor=" + next}
		got := plain(c)
		if again := plain(c); got.status != 200 || !bytes.Equal(again.body, got.body) {
			t.Fatalf("page %d: %d, and once more %d, with %d and %d bytes", pages, got.status, again.status, len(got.body), len(again.body))
		}
		var page api.Page[api.SubmissionOutput]
		if err := json.Unmarshal(got.body, &page); err != nil {
			t.Fatal(err)
		}
		if bytes := len(page.Items) * size; bytes > queue.MaxAnswerBytes+size {
			t.Errorf("page %d has %d bytes of outputs", pages, bytes)
		}
		for _, o := range page.Items {
			at := fmt.Sprint(o.Submission, "/", o.Index)
			if seen[at] || len(o.Output) != size {
				t.Errorf("%s: came twice, or has %d bytes", at, len(o.Output))
			}
			seen[at] = true
		}
		next, more = page.Next, page.Next != ""
	}
	if len(seen) != outputs || pages < 2 {
		t.Errorf("%d outputs on %d pages, want %d on several", len(seen), pages, outputs)
	}
}
