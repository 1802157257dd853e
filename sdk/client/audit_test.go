package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// A stream is read as the standard of server-sent events says.
func TestEventsAreRead(t *testing.T) {
	t.Parallel()
	var got []event
	lines := 0
	body := ": keep-alive\n:\n\nid:7\n\nevent:act\nid: 8\ndata:{\ndata: \"x\":1\ndata:}\nretry: 5\nwhat\n\r\ndata:  two\r\n\r\nevent: act\ndata: cut"
	err := readEvents(strings.NewReader(body), func() { lines++ }, func(e event) error { got = append(got, e); return nil })
	want := []event{{id: "7"}, {"act", "8", "{\n\"x\":1\n}"}, {data: " two"}}
	if err != nil || !slices.Equal(got, want) || lines != 17 {
		t.Errorf("got %q of %d lines, %v; want %q of 17", got, lines, err, want)
	}
}

// auditServer answers one stream after the other, and notes the Last-Event-ID that each was asked for with.
func auditServer(t *testing.T, streams ...string) (c *Client, asked *[]string) {
	t.Helper()
	asked = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := len(*asked)
		*asked = append(*asked, r.Header.Get("Last-Event-ID"))
		if n >= len(streams) {
			http.Error(w, `{"status":403,"code":"forbidden"}`, http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, streams[n])
	}))
	t.Cleanup(server.Close)
	c, err := New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, asked
}

func actEvent(id, target string) string {
	return "event: act\nid: " + id + "\ndata: {\"at\":\"2026-01-01T00:00:00Z\",\"target\":\"" + target + "\"}\n\n"
}

func followed1(t *testing.T, c *Client) (targets []string, last error) {
	t.Helper()
	for e, err := range c.FollowAudit(t.Context(), AuditFilter{}) {
		if last != nil {
			t.Fatalf("after the error %v came %+v, %v", last, e, err)
		}
		if last = err; err == nil {
			targets = append(targets, e.Target)
		}
	}
	return targets, last
}

// A stream that the server ends with a problem is over: coming back would meet it again.
func TestFollowEndsWithTheProblem(t *testing.T) {
	t.Parallel()
	c, asked := auditServer(t, "id: 1-0-1\n\n"+actEvent("1-0-2", "rule 1")+
		`event: problem`+"\n"+`data: {"status":500,"code":"internal","detail":"It cannot be read.","request_id":"r7"}`+"\n\n")
	targets, err := followed1(t, c)
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != "internal" || refused.RequestID != "r7" || !slices.Equal(targets, []string{"rule 1"}) {
		t.Errorf("got %v and %v, want one entry and the problem", targets, err)
	}
	if len(*asked) != 1 {
		t.Errorf("asked %d times, want once", len(*asked))
	}
}

// A stream that is cut goes on where it was; before its first entry, where it began. An entry that comes again is reported once, and one
// that is cut in the middle is reported whole.
func TestFollowAuditGoesOn(t *testing.T) {
	t.Parallel()
	c, asked := auditServer(t, "id: 5.-2.0\n: alive\n\n", "id: 5.-2.0\n: alive\n\n"+actEvent("6.0.1", "a")+strings.TrimSuffix(actEvent("7.0.2", "b"), "\"}\n\n"),
		actEvent("4.0.1", "late")+actEvent("6.0.1", "a")+actEvent("7.0.2", "b")+"event: later\ndata: 1\n\nid: 9.-2.0\n\n")
	targets, err := followed1(t, c)
	var refused *Error
	if !errors.As(err, &refused) || refused.Status != http.StatusForbidden {
		t.Errorf("ended with %v, want the refusal", err)
	}
	if want := []string{"a", "late", "b"}; !slices.Equal(targets, want) {
		t.Errorf("got %v, want %v", targets, want)
	}
	if want := []string{"", "5.-2.0", "6.0.1", "9.-2.0"}; !slices.Equal(*asked, want) {
		t.Errorf("asked with %q, want %q", *asked, want)
	}
}

// An error that another try does not fix ends the follow at once.
func TestFollowAuditEnds(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ stream, want string }{
		"an entry that is no JSON": {"id: 5.-2.0\n\nevent: act\nid: 6.0.1\ndata: {\n\n", "6.0.1"},
		"an entry without an id":   {"id: 5.-2.0\n\nevent: act\ndata: {}\n\n", "no id"},
		"a line that is too long":  {"id: 5.-2.0\n\ndata: " + strings.Repeat("x", maxEvent) + "\n\n", "too long"},
	} {
		client, asked := auditServer(t, c.stream, c.stream)
		if targets, err := followed1(t, client); err == nil || !strings.Contains(err.Error(), c.want) || len(targets) > 0 || len(*asked) != 1 {
			t.Errorf("%s: got %v, %v after %d streams, want an error with %q after one", what, targets, err, len(*asked), c.want)
		}
	}
	client, asked := auditServer(t)
	for _, err := range client.FollowAudit(t.Context(), AuditFilter{Until: time.Now()}) {
		if err == nil || !strings.Contains(err.Error(), "Until") || len(*asked) > 0 {
			t.Errorf("with Until: got %v", err)
		}
	}
	unreachable, err := New("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := followed1(t, unreachable); err == nil {
		t.Error("a server that is not there at the start: no error")
	}
}

// The follow keeps the ids of the last minute, not all, to recognise entries that come again.
func TestFollowAuditForgets(t *testing.T) {
	t.Parallel()
	f := followed{seen: map[string]time.Time{}}
	for n := range 100_000 {
		at, _ := api.Time{Time: time.Unix(int64(n)+1, 0)}.MarshalJSON()
		if _, fresh, err := f.take(event{"act", fmt.Sprint(n), `{"at":` + string(at) + `}`}); err != nil || !fresh {
			t.Fatal(n, fresh, err)
		}
		if len(f.seen) > 1200 {
			t.Fatalf("%d ids are kept of entries a second apart", len(f.seen))
		}
	}
}
