package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// mostEncoded is the longest answer that these tests expect: text of at most queue.MaxAnswerBytes, with the JSON around
// it.
const mostEncoded = queue.MaxAnswerBytes + 1<<20

// large inserts a submission of n chunks with a megabyte of text each.
func (f *fixture) large(n int) api.Submission {
	f.Helper()
	one := `"` + strings.Repeat("x", 1_000_000) + `"`
	return f.insert(`{"chunks":{"inline":[` + one + strings.Repeat(","+one, n-1) + `]}}`)
}

// padded inserts n submissions with many bytes of metadata.
func (f *fixture) padded(n int) (ids []string) {
	f.Helper()
	var meta []string
	for i := range 20 {
		meta = append(meta, fmt.Sprintf(`"key%d":%q`, i, strings.Repeat("v", queue.MaxMetaValueBytes)))
	}
	line := `{"meta":{` + strings.Join(meta, ",") + `},"chunks":{"count":1,"prefix":"x/"}}` + "\n"
	for range n / 1000 {
		made := f.send(call{method: "POST", path: insertPath + ":batch", body: strings.Repeat(line, 1000),
			header: map[string]string{"Content-Type": "application/x-ndjson"}})
		if made.status != http.StatusOK {
			f.Fatalf("a batch: got %d %.200s", made.status, made.body)
		}
		var out api.InsertManyResponse
		made.decode(f, &out)
		for i := range out.Results {
			ids = append(ids, out.Results[i].Submission.ID)
		}
	}
	return ids
}

// A reserve hands out as much as fits into an answer. The rest comes with the next calls, each chunk once and as its first try.
func TestReserveIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.large(12)
	seen := map[uint32]int{}
	for calls := 0; len(seen) < 12; calls++ {
		got := f.do("POST", reservePath, `{"max":12}`, 200, nil)
		var out api.ReserveResponse
		got.decode(t, &out)
		if n := len(out.Reservations); n == 0 || len(got.body) > mostEncoded || calls > 12 {
			t.Fatalf("call %d: %d chunks in %d bytes; want 1 or more in at most %d", calls, n, len(got.body), mostEncoded)
		}
		for _, r := range out.Reservations {
			if seen[r.Index]++; seen[r.Index] > 1 || r.Attempt != 1 || len(r.Content.Bytes) != 1_000_000 {
				t.Errorf("chunk %d: handed out %d times, attempt %d, %d bytes", r.Index, seen[r.Index], r.Attempt, len(r.Content.Bytes))
			}
		}
		if stats := queueAt(f.engine, "default").Stats(); stats.Reserved != uint64(len(seen)) {
			t.Errorf("the server counts %d reserved, the client holds %d", stats.Reserved, len(seen))
		}
	}
}

// A page of chunks has as many outputs as fit into an answer, and says where to go on.
func TestPageOfOutputsIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.insert(`{"chunks":{"count":10,"prefix":"x/"}}`)
	for _, r := range f.reserve(`{"max":10}`).Reservations {
		f.results("complete", fmt.Sprintf(`{"token":%q,"output":%q}`, r.Token, strings.Repeat("o", 1_000_000)))
	}
	var indexes []uint32
	for next, pages := "", 0; pages == 0 || next != ""; pages++ {
		got := f.do("GET", "/v1/submissions/"+s.ID+"/chunks?limit=1000&state=done&cursor="+next, "", 200, nil)
		var page api.Page[api.Chunk]
		got.decode(t, &page)
		if next = page.Next; len(got.body) > mostEncoded || pages > 10 {
			t.Fatalf("page %d has %d bytes, want at most %d", pages, len(got.body), mostEncoded)
		}
		for _, c := range page.Items {
			if indexes = append(indexes, c.Index); len(c.Output) != 1_000_000 {
				t.Errorf("chunk %d: %d bytes of output", c.Index, len(c.Output))
			}
		}
	}
	if !slices.Equal(indexes, []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("listed %v, want each chunk once", indexes)
	}
}

// Pages of submissions and waits for them are bounded in bytes. The rest comes with the next call.
func TestSubmissionsOfAnAnswerAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.padded(1000)
	slices.Reverse(ids)
	listed := func(what string) {
		t.Helper()
		var got []string
		for next, pages := "", 0; pages == 0 || next != ""; pages++ {
			answer := f.do("GET", insertPath+"?limit=1000&cursor="+next, "", 200, nil)
			var page api.Page[api.Submission]
			answer.decode(t, &page)
			if next = page.Next; len(answer.body) > mostEncoded || pages > 10 {
				t.Fatalf("%s: page %d has %d bytes, want at most %d", what, pages, len(answer.body), mostEncoded)
			}
			for _, s := range page.Items {
				got = append(got, s.ID)
			}
		}
		if !slices.Equal(got, ids) {
			t.Errorf("%s: listed %d, want all %d once, the newest first", what, len(got), len(ids))
		}
	}
	listed("open")
	for _, id := range ids {
		f.do("POST", "/v1/submissions/"+id+"/cancel", "", 200, nil)
	}
	listed("ended")
	if err := f.engine.Storage().Checkpoint("default"); err != nil {
		t.Fatal(err)
	}
	listed("in the history")
	left, ended := slices.Clone(ids), 0
	for calls := 0; len(left) > 0; calls++ {
		answer := f.do("POST", waitPath, waitBody(true, left...), 200, nil)
		var out api.WaitResponse
		answer.decode(t, &out)
		if len(answer.body) > mostEncoded || len(out.Ended)+out.Open != len(left) || len(out.Ended) == 0 || calls > 10 {
			t.Fatalf("of %d: %d ended and %d open, in %d bytes", len(left), len(out.Ended), out.Open, len(answer.body))
		}
		ended += len(out.Ended)
		left = left[len(out.Ended):]
	}
	if ended != len(ids) {
		t.Errorf("waited for %d, got %d", len(ids), ended)
	}
}

// unread sends a request on a connection of its own, and reads no more than the status.
func (r *rivals) unread(token, method, path, body string) (conn net.Conn, status string) {
	r.Helper()
	conn, err := net.Dial("tcp", r.address)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		r.Fatal(err)
	}
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", method, path, token, len(body), body)
	if err != nil {
		r.Fatal(err)
	}
	line := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(conn, line); err != nil {
		r.Fatal(err)
	}
	return conn, string(line[len(line)-3:])
}

// settled waits until large answers hold nothing. It yields instead of sleeping.
func (r *rivals) settled() {
	r.Helper()
	for r.server.auth.answers.Held.Load() != 0 {
		if r.Context().Err() != nil {
			r.Fatalf("%d bytes of answers are still counted", r.server.auth.answers.Held.Load())
		}
		runtime.Gosched()
	}
}

// A token whose clients ask for pages, outputs and chunks and do not read them is refused in time, while another one's calls are answered.
// When the clients are gone nothing is counted any more, and the chunks that they got wait for their deadlines.
func TestAnswersThatNoOneReadsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 32 << 20
	r := newRivals(t, access.Limits{Answers: most})
	noisy := strings.Repeat("\\u0001", 900_000) // so much longer when it is written that no socket takes all of it
	r.works("insert", r.modest, call{method: "POST", path: insertPath, body: `{"chunks":{"inline":["` + noisy + `"` + strings.Repeat(`,"`+noisy+`"`, 7) + `]}}`})
	held := r.as(r.modest, call{method: "POST", path: reservePath, body: `{"max":2}`})
	var out api.ReserveResponse
	held.decode(t, &out)
	id := out.Reservations[0].Submission
	for _, one := range out.Reservations {
		r.works("complete", r.modest, call{method: "POST", path: reservePath + "/complete", body: `{"items":[{"token":"` + one.Token + `","output":"` + noisy + `"}]}`})
	}
	chunks := "/v1/submissions/" + id + "/chunks?limit=1000"
	for what, ask := range map[string]call{
		"outputs":  {method: "GET", path: chunks},
		"download": {method: "GET", path: "/v1/submissions/" + id + "/outputs"},
		"reserve":  {method: "POST", path: reservePath, body: `{"max":1,"strategy":"OldestFirst"}`}, // not those below
	} {
		var conns []net.Conn
		refused := false
		for !refused && len(conns) < 30 {
			conn, status := r.unread(r.greedy, ask.method, ask.path, ask.body)
			conns = append(conns, conn)
			if now := r.server.auth.answers.Held.Load(); now > most {
				t.Fatalf("%s: large answers hold %d bytes, more than the %d of the token", what, now, most)
			}
			switch status {
			case "429":
				refused = true
			case "200":
			default:
				t.Fatalf("%s: got %s", what, status)
			}
		}
		if !refused || len(conns) < 2 {
			t.Errorf("%s: %d answers that no one reads were begun; want some, and then 429", what, len(conns)-1)
		}
		ask.header = map[string]string{"Accept-Encoding": "identity"} // a compressed answer would be short
		r.refused("token-answer-memory", r.as(r.greedy, ask))
		r.works("another token's page, "+what, r.modest, call{method: "GET", path: chunks})
		r.works("another token's insert, "+what, r.modest, insertOf(""))
		for _, conn := range conns {
			_ = conn.Close()
		}
		r.settled()
		r.works("its own page afterwards", r.greedy, call{method: "GET", path: chunks})
		r.settled()
	}
	if r.server.auth.answers.Refused.Load() == 0 {
		t.Error("no refusal is counted")
	}
}

// A download of outputs that has begun waits for room for its next piece, and then goes on where it was.
func TestDownloadWaitsForRoom(t *testing.T) {
	t.Parallel()
	r := newRivals(t, access.Limits{Answers: 10 << 20})
	r.works("insert", r.modest, call{method: "POST", path: insertPath, body: `{"chunks":{"count":5,"prefix":"x/"}}`})
	var out api.ReserveResponse
	r.as(r.modest, call{method: "POST", path: reservePath, body: `{"max":5}`}).decode(t, &out)
	noisy := strings.Repeat("\u0001", 900_000) // so much longer when it is written that there is no room for two
	var want []byte
	for i, text := range []string{strings.Repeat("x", 60_000), noisy, noisy, "y", noisy} {
		at := slices.IndexFunc(out.Reservations, func(one api.Reservation) bool { return one.Index == uint32(i) })
		r.works("complete", r.modest, call{method: "POST", path: reservePath + "/complete",
			body: fmt.Sprintf(`{"items":[{"token":%q,"output":%s}]}`, out.Reservations[at].Token, jsonText(text))})
		want = appendOutput(want, uint32(i), []byte(text))
	}
	path := "/v1/submissions/" + out.Reservations[0].Submission + "/outputs"
	r.works("insert", r.modest, call{method: "POST", path: insertPath, body: `{"chunks":{"inline":[` + jsonText(noisy) + `]}}`})
	occupant, status := r.unread(r.greedy, "POST", reservePath, `{"max":1}`)
	ask, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+r.address+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	ask.Header = http.Header{"Authorization": {"Bearer " + r.greedy}, "Accept-Encoding": {"identity"}}
	download, err := http.DefaultClient.Do(ask)
	if err != nil {
		t.Fatal(err)
	}
	if status != "200" || download.StatusCode != 200 {
		t.Fatalf("got %s and %s, want a large answer and a download that begins", status, download.Status)
	}
	for over := time.Now().Add(time.Minute); r.server.auth.answers.Refused.Load() < 2; runtime.Gosched() {
		if time.Now().After(over) {
			t.Fatal("the download was never without room")
		}
	}
	_ = occupant.Close()
	got, err := io.ReadAll(download.Body)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes and %v, want the %d of all outputs in order", len(got), err, len(want))
	}
	_ = download.Body.Close()
	r.settled()
}

// jsonText is a text as JSON.
func jsonText(text string) string {
	b, _ := json.Marshal(text) // a text
	return string(b)
}

// An exchange for whose chunks there is no room reports what it finished. A reserve is refused, and
// its chunk stays ready.
func TestExchangeWithoutRoom(t *testing.T) {
	t.Parallel()
	r := newRivals(t, access.Limits{Answers: 100 << 10})
	r.works("insert", r.modest, insertOf(""))
	var out api.ReserveResponse
	got := r.as(r.greedy, call{method: "POST", path: reservePath, body: `{"max":1}`})
	got.decode(t, &out)
	r.works("insert", r.modest, call{method: "POST", path: insertPath, body: `{"chunks":{"inline":["` + strings.Repeat("x", 900_000) + `"]}}`})
	got = r.works("exchange", r.greedy, call{method: "POST", path: reservePath + "/exchange",
		body: `{"complete":[{"token":"` + out.Reservations[0].Token + `"}],"reserve":{"max":1}}`})
	var done api.ExchangeResponse
	got.decode(t, &done)
	if len(done.Complete) != 1 || done.Complete[0].Status != "ok" || len(done.Reservations) != 0 || done.RetryAfterMS == nil {
		t.Errorf("got %.500s, want the result, no chunk, and when to ask again", got.body)
	}
	r.refused("token-answer-memory", r.as(r.greedy, call{method: "POST", path: reservePath, body: `{"max":1}`}))
	if stats := queueAt(r.engine, "default").Stats(); stats.Ready != 1 || stats.Reserved != 0 {
		t.Errorf("%d ready and %d reserved, want the chunk that no one got to be ready", stats.Ready, stats.Reserved)
	}
	r.settled()
}

// A reserve that waited for its chunk counts for its token like one that did not.
//
//quern:overlapping
func TestAnswerOfAWaitCountsForItsToken(t *testing.T) {
	t.Parallel()
	r := newRivals(t, access.Limits{Answers: 100 << 10})
	begun := r.begin(t.Context(), call{method: "POST", path: reservePath, body: `{"max":1,"wait_ms":60000}`,
		header: map[string]string{"Authorization": "Bearer " + r.greedy}})
	r.waiters(1)
	r.works("insert", r.modest, call{method: "POST", path: insertPath, body: `{"chunks":{"inline":["` + strings.Repeat("x", 900_000) + `"]}}`})
	r.refused("token-answer-memory", <-begun)
	if stats := queueAt(r.engine, "default").Stats(); stats.Ready != 1 || stats.Reserved != 0 {
		t.Errorf("%d ready and %d reserved, want the chunk to be ready again", stats.Ready, stats.Reserved)
	}
	r.settled()
}

// An insert of many is counted before anything is inserted, the audit log before it is read, and a batch of a stream
// while it is sent. A call without room is refused, and a stream without room ends.
func TestWhatIsCountedBeforeItIsMade(t *testing.T) {
	t.Parallel()
	r := newRivals(t, access.Limits{Answers: 100 << 10})
	lines := call{method: "POST", path: insertPath + ":batch", body: strings.Repeat(`{"chunks":{"count":1,"prefix":"x/"}}`+"\n", 300),
		header: map[string]string{"Content-Type": "application/x-ndjson"}}
	r.refused("token-answer-memory", r.as(r.greedy, lines))
	if stats := queueAt(r.engine, "default").Stats(); stats.Ready != 0 {
		t.Errorf("%d chunks are there, want none", stats.Ready)
	}
	_, boss := r.token(engine.TokenRequest{Name: "boss", Scopes: access.Admin})
	rule := call{method: "POST", path: "/v1/queues/default/rules"}
	for i := range auditBatch {
		rule.body = fmt.Sprintf(`{"action":"pause","match":{"meta":{"k":%d}},"reason":%q}`, i, strings.Repeat("x", queue.MaxRuleReasonBytes))
		r.works("a rule", boss, rule)
	}
	for _, accept := range []string{"application/json", contentLines} {
		r.refused("token-answer-memory", r.as(boss, call{method: "GET", path: "/v1/audit", header: map[string]string{"Accept": accept}}))
	}
	before := r.server.auth.answers.Refused.Load()
	got := r.as(boss, call{method: "GET", path: "/v1/audit?since=2001-01-01T00:00:00Z", header: map[string]string{"Accept": contentEvents}})
	if strings.Contains(string(got.body), "event: act") || r.server.auth.answers.Refused.Load() == before {
		t.Errorf("the stream sent %.200s, want it to end before the first batch", got.body)
	}
	r.settled()
}
