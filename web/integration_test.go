package web

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// A refusal of the engine is answered with its code and pointer.
func TestEngineRefusals(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert(`{"chunks":{"count":1,"prefix":"a/"}}`)
	for _, test := range []struct {
		name, method, path, body string
		status                   int
		code                     queue.Code
		pointer                  string
	}{
		{"unknown block", "POST", reservePath, `{"max":1,"strategy":"Sorted"}`, 422, queue.CodeInvalid, "/strategy"},
		{"bad nesting", "POST", reservePath, `{"max":1,"strategy":"OrElse(Random"}`, 422, queue.CodeInvalid, "/strategy"},
		{"block in the tree", "POST", reservePath, `{"max":1,"strategy":{"type":"or_else","try_first":"random","fallback":{"type":"sorted"}}}`, 422, queue.CodeInvalid, "/strategy/fallback"},
		{"strategy of an exchange", "POST", reservePath + "/exchange", `{"reserve":{"max":1,"strategy":"Sorted"}}`, 422, queue.CodeInvalid, "/reserve/strategy"},
		{"strategy too deep", "POST", reservePath, `{"max":1,"strategy":"` + strings.Repeat(`SelectOnly(\"a\", 1, `, 40) + "Random" + strings.Repeat(")", 40) + `"}`, 422, queue.CodeInvalid, "/strategy"},
		{"strategy of a wrong type", "POST", reservePath, `{"max":1,"strategy":7}`, 422, queue.CodeInvalid, "/strategy"},
		{"negative max", "POST", reservePath, `{"max":-1}`, 422, queue.CodeInvalid, "/max"},
		{"large max", "POST", reservePath, `{"max":1001}`, 422, queue.CodeInvalid, "/max"},
		{"short timeout", "POST", reservePath, `{"max":1,"timeout_ms":50}`, 422, queue.CodeInvalid, "/timeout_ms"},
		{"max of an exchange", "POST", reservePath + "/exchange", `{"reserve":{"max":0}}`, 422, queue.CodeInvalid, "/reserve/max"},
		{"long consumer", "POST", reservePath, `{"max":1,"consumer":"` + strings.Repeat("c", 129) + `"}`, 422, queue.CodeInvalid, "/consumer"},
		{"unknown queue, insert", "POST", "/v1/queues/nowhere/submissions", `{"chunks":{"count":1,"prefix":"a/"}}`, 404, queue.CodeUnknownQueue, ""},
		{"unknown queue, reserve", "POST", "/v1/queues/nowhere/reservations", `{"max":1}`, 404, queue.CodeUnknownQueue, ""},
		{"unknown queue, exchange", "POST", "/v1/queues/nowhere/reservations/exchange", `{"reserve":{"max":1}}`, 404, queue.CodeUnknownQueue, ""},
		{"unknown queue, complete", "POST", "/v1/queues/nowhere/reservations/complete", `{"items":[{"token":"x"}]}`, 404, queue.CodeUnknownQueue, ""},
		{"unknown queue, list", "GET", "/v1/queues/nowhere/submissions", "", 404, queue.CodeUnknownQueue, ""},
		{"unknown queue, values", "GET", "/v1/queues/nowhere/meta-keys/a/values", "", 404, queue.CodeUnknownQueue, ""},
		{"unknown queue, delete", "DELETE", "/v1/queues/nowhere", "", 404, queue.CodeUnknownQueue, ""},
		{"unknown submission", "GET", "/v1/submissions/7", "", 404, queue.CodeUnknownSubmission, ""},
		{"unknown submission, cancel", "POST", "/v1/submissions/7/cancel", "", 404, queue.CodeUnknownSubmission, ""},
		{"unknown submission, chunks", "GET", "/v1/submissions/7/chunks", "", 404, queue.CodeUnknownSubmission, ""},
		{"unknown submission, outputs", "GET", "/v1/submissions/7/outputs", "", 404, queue.CodeUnknownSubmission, ""},
		{"default queue", "DELETE", "/v1/queues/default", "", 409, queue.CodeConflict, ""},
		{"queue name", "PUT", "/v1/queues/-x", `{}`, 422, queue.CodeInvalid, "/path/queue"},
		{"setting", "PUT", "/v1/queues/x", `{"settings":{"max_attempts":2000}}`, 422, queue.CodeInvalid, "/settings/max_attempts"},
		{"cursor", "GET", insertPath + "?cursor=%21", "", 422, queue.CodeInvalid, "/query/cursor"},
		{"long chunk", "POST", insertPath, `{"chunks":{"inline":["` + strings.Repeat("x", queue.MaxChunkBytes+1) + `"]}}`, 422, queue.CodeInvalid, "/chunks/inline"},
		{"long prefix", "POST", insertPath, `{"chunks":{"count":1,"prefix":"` + strings.Repeat("x", queue.MaxPrefixBytes+1) + `"}}`, 422, queue.CodeInvalid, "/chunks/prefix"},
		{"large attachment", "POST", insertPath, `{"chunks":{"count":1,"prefix":"a/"},"attachment":"` + strings.Repeat("x", queue.MaxAttachmentBytes+1) + `"}`, 422, queue.CodeInvalid, "/attachment"},
		{"priority", "POST", insertPath, `{"chunks":{"count":1,"prefix":"a/"},"priority":9007199254740992}`, 422, queue.CodeInvalid, "/priority"},
		{"many meta keys", "POST", insertPath, `{"chunks":{"count":1,"prefix":"a/"},"meta":{` + manyKeys(33) + `}}`, 422, queue.CodeInvalid, "/meta"},
		{"many inline chunks", "POST", insertPath, `{"chunks":{"inline":[` + strings.Repeat(`"",`, queue.MaxInlineChunks) + `""]}}`, 422, queue.CodeInvalid, "/chunks/inline"},
		{"retry_after", "POST", reservePath + "/fail", `{"items":[{"token":"x","retry_after_ms":-1}]}`, 422, queue.CodeInvalid, "/items/0/retry_after_ms"},
	} {
		got := f.send(call{method: test.method, path: test.path, body: test.body})
		p := got.problem(t)
		pointer := ""
		if len(p.Errors) > 0 {
			pointer = p.Errors[0].Pointer
		}
		if got.status != test.status || p.Code != string(test.code) || !strings.HasPrefix(pointer, test.pointer) {
			t.Errorf("%s: got %d %s at %q, want %d %s at %q: %s", test.name, got.status, p.Code, pointer, test.status, test.code, test.pointer, got.body)
		}
	}
	// None of it left a trace.
	var stats api.Stats
	f.do("GET", "/v1/queues/default/stats", "", 200, &stats)
	if stats.SubmissionsOpen != 1 || stats.Ready != 1 || stats.Reserved != 0 {
		t.Errorf("after the refusals: got %+v, want the one submission untouched", stats)
	}
}

func manyKeys(n int) string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf(`"k%d":%d`, i, i)
	}
	return strings.Join(keys, ",")
}

// An insert that announces more than its limit is refused before it is read.
func TestInsertLimitIsAnnounced(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	connection, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", insertPath, maxInsertBytes+1); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != 413 {
		t.Errorf("got %d, want 413", response.StatusCode)
	}
}

// Tokens of other consumers, of no reservation and of the past have their results, and do not spoil the batch.
func TestTokens(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("PUT", "/v1/queues/other", `{}`, 201, nil)
	f.insert(`{"chunks":{"count":3,"prefix":"a/"}}`)
	first, second, third := f.reserveOne(), f.reserveOne(), f.reserveOne()
	forged := []byte(second.Token)
	forged[len(forged)-3] ^= 1
	got := f.results("complete", fmt.Sprintf(`{"token":%q},{"token":%q},{"token":""},{"token":%q},{"token":%q}`, first.Token, forged, strings.Repeat("A", queue.TokenChars), first.Token))
	statuses := make([]string, len(got))
	for i := range got {
		statuses[i] = got[i].Status
	}
	if want := []string{api.StatusOK, api.StatusUnknown, api.StatusUnknown, api.StatusUnknown, api.StatusAlready}; !reflect.DeepEqual(statuses, want) {
		t.Errorf("complete: got %v, want %v", statuses, want)
	}
	if got := f.results("release", fmt.Sprintf(`{"token":%q}`, second.Token)); got[0].Status != api.StatusOK {
		t.Errorf("release: got %+v", got)
	}
	again := f.reserveOne()
	if got := f.results("complete", fmt.Sprintf(`{"token":%q}`, second.Token)); got[0].Status != api.StatusLost || got[0].Code == "" || got[0].Detail == "" {
		t.Errorf("complete with a stale token: got %+v, want lost with code and detail", got)
	}
	var foreign api.ResultsResponse
	f.do("POST", "/v1/queues/other/reservations/complete", fmt.Sprintf(`{"items":[{"token":%q}]}`, third.Token), 200, &foreign)
	if foreign.Results[0].Status != api.StatusUnknown {
		t.Errorf("complete in another queue: got %+v, want unknown", foreign.Results)
	}
	if got := f.results("complete", fmt.Sprintf(`{"token":%q},{"token":%q}`, third.Token, again.Token)); got[0].Status != api.StatusOK || got[1].Status != api.StatusOK {
		t.Errorf("complete: got %+v, want both ok", got)
	}
	if got := f.results("complete", ""); got == nil || len(got) != 0 {
		t.Errorf("an empty batch: got %#v, want an empty list", got)
	}
}

// Of many inserts with one key at the same time, one makes the submission and all answer with the same id.
//
//quern:overlapping
func TestConcurrentReplays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const n = 16
	var wg sync.WaitGroup
	ids, made := make([]string, n), make([]bool, n)
	for i := range n {
		wg.Go(func() {
			got := f.send(call{method: "POST", path: insertPath, body: `{"chunks":{"count":7,"prefix":"a/"}}`, header: map[string]string{"Idempotency-Key": "k"}})
			var out api.Submission
			got.decode(t, &out)
			ids[i], made[i] = out.ID, got.status == 201
			if replayed := got.header.Get(headerReplayed) == "true"; replayed == made[i] || got.header.Get("Location") != "/v1/submissions/"+out.ID {
				t.Errorf("got %d with %s=%q and Location %q", got.status, headerReplayed, got.header.Get(headerReplayed), got.header.Get("Location"))
			}
		})
	}
	wg.Wait()
	count := 0
	for i := range n {
		if made[i] {
			count++
		}
		if ids[i] != ids[0] {
			t.Errorf("ids differ: %v", ids)
		}
	}
	if count != 1 {
		t.Errorf("%d inserts say that they made it, want 1", count)
	}
}

// A list is walked by its cursor: every submission once, newest first.
func TestListCursors(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var want []string
	for i := range 25 {
		want = append([]string{f.insert(fmt.Sprintf(`{"chunks":{"count":1,"prefix":"a/"},"meta":{"n":%d}}`, i%5)).ID}, want...)
	}
	var got []string
	path := insertPath + "?limit=10"
	for cursor := ""; ; {
		var page api.Page[api.Submission]
		f.do("GET", path+"&cursor="+cursor, "", 200, &page)
		for _, item := range page.Items {
			got = append(got, item.ID)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	var filtered api.Page[api.Submission]
	f.do("GET", insertPath+"?meta.n=3&state=open", "", 200, &filtered)
	if len(filtered.Items) != 5 {
		t.Errorf("meta.n=3: got %d, want 5", len(filtered.Items))
	}
}

// Outputs come in index order whatever the order of completion, byte for byte, and a client may take them compressed.
func TestOutputs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const n = 300
	submission := f.insert(fmt.Sprintf(`{"chunks":{"count":%d,"template":"row {index}"}}`, n))
	want := make([][]byte, n)
	for left := n; left > 0; {
		held := f.reserve(`{"max":37}`).Reservations
		items := make([]string, len(held))
		for i, r := range held {
			if content := "row " + strconv.Itoa(int(r.Index)); string(r.Content.Bytes) != content {
				t.Fatalf("content of %d: got %q, want %q", r.Index, r.Content.Bytes, content)
			}
			out := make([]byte, 1+rand.IntN(50))
			for j := range out {
				out[j] = byte(rand.Uint32())
			}
			want[r.Index] = out
			item, err := json.Marshal(api.CompleteItem{Token: r.Token, Output: out})
			if err != nil {
				t.Fatal(err)
			}
			items[i] = string(item)
		}
		for i, result := range f.results("complete", strings.Join(items, ",")) {
			if result.Status != api.StatusOK {
				t.Fatalf("complete %s: got %+v", items[i], result)
			}
		}
		left -= len(held)
	}
	got := f.do("GET", "/v1/submissions/"+submission.ID+"/outputs", "", 200, nil)
	lines := bytes.Split(bytes.TrimSuffix(got.body, []byte("\n")), []byte("\n"))
	if len(lines) != n {
		t.Fatalf("got %d lines, want %d", len(lines), n)
	}
	for i, line := range lines {
		var out api.Output
		if err := json.Unmarshal(line, &out); err != nil {
			t.Fatalf("line %d: %v in %s", i, err, line)
		}
		if int(out.Index) != i || !bytes.Equal(out.Output, want[i]) {
			t.Errorf("line %d: got index %d, %q, want %q", i, out.Index, out.Output, want[i])
		}
	}
	plain := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	if got := send(t, plain, f.address, call{method: "GET", path: "/v1/submissions/" + submission.ID + "/outputs", header: map[string]string{"Accept-Encoding": "gzip"}}); got.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("Content-Encoding: got %q, want gzip", got.header.Get("Content-Encoding"))
	}
}

// The hand-written answer of an insert is that of the reflecting encoder.
func TestInsertAnswersLikeGet(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, body := range []string{
		`{"chunks":{"count":4294967295,"prefix":"s3://bucket/x/"}}`,
		`{"chunks":{"count":3,"template":"<row> & {index} \" \u2028"},"meta":{"a":1,"b":"<x>&\"","c":-9223372036854775808},"priority":-5,"attachment":{"base64":"/w=="},"operations_per_chunk":1000,"max_attempts":3,"on_exhausted":"fail_submission","group":"g","dead_deadline":"2099-01-01T00:00:00Z"}`,
		`{"chunks":{"inline":["",{"text":"a"},{"base64":"AA=="}]},"run_at":"2099-01-31T12:00:00.5+01:00"}`,
	} {
		var inserted, read map[string]any
		answer := f.do("POST", insertPath, body, 201, &inserted)
		f.do("GET", answer.header.Get("Location"), "", 200, &read)
		if !reflect.DeepEqual(inserted, read) {
			t.Errorf("insert %s\n got %v\n get %v", body, inserted, read)
		}
	}
}

// As JSON lines an insert is the same as with inline chunks, through a body of unknown length too.
func TestInsertLines(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const n = 5000
	var body strings.Builder
	body.WriteString(`{"meta":{"kind":"lines"}}` + "\n")
	for i := range n {
		fmt.Fprintf(&body, "%q\n", strings.Repeat("x", 200)+strconv.Itoa(i))
	}
	request, err := http.NewRequest("POST", "http://"+f.address+insertPath, struct{ *strings.Reader }{strings.NewReader(body.String())})
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentLines)
	response, err := f.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var made api.Submission
	if err := json.NewDecoder(response.Body).Decode(&made); err != nil || response.StatusCode != 201 || made.Chunks != n {
		t.Fatalf("got %d %+v, %v, want 201 with %d chunks", response.StatusCode, made, err, n)
	}
	if held := f.server.bodies.held.Load(); held != 0 {
		t.Errorf("%d bytes are still held, want 0", held)
	}
	for _, r := range f.reserve(`{"max":1000}`).Reservations {
		if want := strings.Repeat("x", 200) + strconv.Itoa(int(r.Index)); string(r.Content.Bytes) != want {
			t.Errorf("chunk %d: got %q, want %q", r.Index, r.Content.Bytes, want)
		}
	}
}

// A relaxed queue says so in the answer to every write, and a full one never does.
func TestDurabilityIsSaid(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("PUT", "/v1/queues/fast", `{"settings":{"durability":"relaxed"}}`, 201, nil)
	for name, want := range map[string]string{"fast": "relaxed", "default": ""} {
		at := "/v1/queues/" + name
		var made api.Submission
		answers := map[string]answer{"insert": f.do("POST", at+"/submissions", `{"chunks":{"count":9,"prefix":"a/"}}`, 201, &made)}
		for _, verb := range []string{"complete", "fail", "extend", "release"} {
			var held api.ReserveResponse
			f.do("POST", at+"/reservations", `{"max":1}`, 200, &held)
			answers[verb] = f.do("POST", at+"/reservations/"+verb, fmt.Sprintf(`{"items":[{"token":%q}]}`, held.Reservations[0].Token), 200, nil)
		}
		answers["exchange"] = f.do("POST", at+"/reservations/exchange", `{"reserve":{"max":1}}`, 200, nil)
		answers["cancel"] = f.do("POST", "/v1/submissions/"+made.ID+"/cancel", "", 200, nil)
		for verb, got := range answers {
			if got.header.Get(headerDurability) != want {
				t.Errorf("%s in %s: %s is %q, want %q", verb, name, headerDurability, got.header.Get(headerDurability), want)
			}
		}
	}
}

// The settings that a queue shows can be put back as they are.
func TestSettingsRoundTrip(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var first, second api.Queue
	f.do("GET", "/v1/queues/default", "", 200, &first)
	body, err := json.Marshal(map[string]any{"settings": first.Settings})
	if err != nil {
		t.Fatal(err)
	}
	f.do("PUT", "/v1/queues/default", string(body), 200, &second)
	if !reflect.DeepEqual(first, second) {
		t.Errorf("got %+v, want %+v", second, first)
	}
}

// The log of a whole cycle holds neither content nor tokens nor keys.
func TestCycleLogsNoSecrets(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const canary = "canary-4711"
	f.send(call{method: "POST", path: insertPath, body: `{"chunks":{"inline":["` + canary + `"]},"attachment":"` + canary + `","meta":{"m":"` + canary + `"}}`, header: map[string]string{"Idempotency-Key": canary}})
	held := f.reserve(`{"max":1,"consumer":"` + canary + `"}`).Reservations
	f.results("fail", fmt.Sprintf(`{"token":%q,"error":%q}`, held[0].Token, canary))
	f.do("GET", insertPath+"?meta.m="+canary, "", 200, nil)
	for _, secret := range []string{canary, held[0].Token} {
		if strings.Contains(f.log.String(), secret) {
			t.Errorf("the log has %s:\n%s", secret, f.log)
		}
	}
}
