package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// A list whose filter matches one of very many submissions may answer with an empty page that has a next one. The Go
// client goes on from it.
func TestEmptyPageWithANextOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("PATCH", "/v1/queues/default", `{"settings":{"durability":"relaxed"}}`, 200, nil)
	wanted := f.insert(`{"meta":{"tenant":1},"chunks":{"count":1,"prefix":"x/"}}`)
	lines := strings.Repeat(`{"meta":{"tenant":2},"chunks":{"count":1,"prefix":"x/"}}`+"\n", 1000)
	for range 21 {
		made := f.send(call{method: "POST", path: insertPath + ":batch", body: lines, header: map[string]string{"Content-Type": "application/x-ndjson"}})
		if made.status != http.StatusOK {
			t.Fatalf("a batch: got %d %s", made.status, made.body)
		}
	}
	var page api.Page[api.Submission]
	f.do("GET", insertPath+"?meta.tenant=1", "", 200, &page)
	if len(page.Items) != 0 || page.Next == "" {
		t.Errorf("the first page: got %d submissions and next %q; want none of the newest, and a next page", len(page.Items), page.Next)
	}
	c, err := client.New("http://" + f.address)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int64]string{1: wanted.ID, 3: ""} {
		var got []string
		for s, err := range c.List(t.Context(), "default", client.ListOptions{Meta: api.Meta{"tenant": api.Int(n)}, Limit: 5}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, s.ID)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("tenant %d: the client lists %q, want %q", n, text, want)
		}
	}
}

// A list of dead letters, too, looks at a part of them for one page, and its pages together have all that match its
// filter.
func TestListOfDeadLettersLooksAtAPart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("PATCH", "/v1/queues/default", `{"settings":{"durability":"relaxed","on_exhausted":"dead_letter","max_attempts":1}}`, 200, nil)
	die := func(tenant, n int, why string) {
		f.insert(fmt.Sprintf(`{"meta":{"tenant":%d},"chunks":{"count":%d,"prefix":"x/"}}`, tenant, n))
		for n > 0 {
			held := f.reserve(`{"max":1000}`).Reservations
			var items []string
			for _, r := range held {
				items = append(items, fmt.Sprintf(`{"token":%q,"error":%q}`, r.Token, why))
			}
			f.results("fail", strings.Join(items, ","))
			n -= len(held)
		}
	}
	die(1, 3, "rare")
	die(2, 6000, "common")
	list := func(filter string) (letters, pages, empty int) {
		for next := ""; pages == 0 || next != ""; pages++ {
			var page api.Page[api.DeadLetter]
			f.do("GET", "/v1/queues/default/dead-letters?limit=1000&"+filter+"&cursor="+next, "", 200, &page)
			if next = page.Next; len(page.Items) == 0 {
				empty++
			}
			letters += len(page.Items)
		}
		return letters, pages, empty
	}
	if letters, _, _ := list("meta.tenant=1"); letters != 3 {
		t.Errorf("of tenant 1: %d letters, want 3", letters)
	}
	if letters, pages, _ := list("meta.tenant=2"); letters != 6000 || pages > 7 {
		t.Errorf("of tenant 2: %d letters on %d pages, want 6,000 on 7 at most", letters, pages)
	}
	if letters, pages, empty := list("fingerprint=" + queue.Fingerprint("rare")); letters != 3 || pages < 2 || empty < 1 {
		t.Errorf("of the rare error: %d letters on %d pages, %d of them empty; want 3, and a first page that looked at a part", letters, pages, empty)
	}
}
