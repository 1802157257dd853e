package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// A refusal names the place: one row per kind of fault, in the request and in the generic reader alike.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ document, pointer, detail string }{
		{`{"complete":[{"token":"a"},{"token":"b","ouput":"x"}]}`, "/complete/1/ouput", api.UnknownDetail},
		{`{"Complete":[]}`, "/Complete", api.UnknownDetail},
		{`{"complete":[],"complete":[]}`, "/complete", api.DuplicateDetail},
		{`{"fail":[{"token":"a","fatal":"yes"}]}`, "/fail/0/fatal", boolDetail},
		{`{"extend":[{}]}`, "/extend/0/token", requiredDetail},
		{`{"reserve":{"max":1e2}}`, "/reserve/max", int64Detail},
		{`{"reserve":{"max":1,"context":{"a/b~c":1.5}}}`, "/reserve/context/a~1b~0c", api.MetaDetail},
		{`{"complete":[{"token":"a","output":{"base64":"###"}}]}`, "/complete/0/output/base64", api.Base64Detail},
		{`[]`, "", api.ObjectDetail},
		{``, "", "is empty; send one JSON value"},
		{`{"complete":[]} {}`, "", "is not valid JSON: invalid character '{' after top-level value (at byte 17)"},
		{`{"oops":1,"complete":[}`, "", "is not valid JSON: invalid character '}' looking for beginning of value (at byte 23)"},
		{`{"reserve":{"max":1,"strategy":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}}`, "", "nests deeper than 32 levels"},
	} {
		var request ExchangeRequest
		want := &Error{Pointer: row.pointer, Detail: row.detail}
		if got := request.Decode([]byte(row.document)); !reflect.DeepEqual(got, error(want)) {
			t.Errorf("%s\n got %v\nwant %v", row.document, got, want)
		}
		var generic api.ExchangeRequest
		if got := Decode([]byte(row.document), &generic); !reflect.DeepEqual(got, error(want)) {
			t.Errorf("%s\n got %v from Decode\nwant %v", row.document, got, want)
		}
	}
}

// JSON lines stand for the same submission as the object, and their faults point into that object.
func TestDecodeLines(t *testing.T) {
	t.Parallel()
	var got InsertRequest
	if err := got.DecodeLines([]byte("{\"priority\":7,\"meta\":{\"a\":1}}\r\n\"one\"\n\n{\"base64\":\"/w==\"}\n{\"text\":\"\"}")); err != nil {
		t.Fatal(err)
	}
	want := [][]byte{[]byte("one"), {0xff}, {}}
	if got.Priority != 7 || len(got.Meta) != 1 || !reflect.DeepEqual(got.Inline, want) {
		t.Errorf("got %+v, want priority 7, one meta key and the chunks %q", got, want)
	}
	if err := got.DecodeLines([]byte("{}\n")); err != nil || got.Inline == nil || len(got.Inline) != 0 || got.Priority != 0 {
		t.Errorf("no chunks: got %+v, %v; want an empty list", got, err)
	}
	for _, row := range []struct{ document, pointer string }{
		{"", ""}, {" \n\n", ""}, {"[]", ""}, {`{"chunks":{"count":1}}`, "/chunks"}, {`{"priority":"x"}` + "\n\"a\"", "/priority"},
		{"{}\n\"a\"\n5", "/chunks/inline/1"}, {"{}\n\"a\"\n\"b\"\n{\"text\":5}", "/chunks/inline/2/text"}, {"{}\n\"a", "/chunks/inline/0"},
		{"{}\n\"a\"\"b\"", "/chunks/inline/0"}, {"{}\n" + strings.Repeat("\"\"\n", 100_001), "/chunks/inline"},
	} {
		err, ok := got.DecodeLines([]byte(row.document)).(*Error)
		if !ok || err.Pointer != row.pointer {
			t.Errorf("%.80q: got %v, want a refusal of %q", row.document, err, row.pointer)
		}
	}
}

// Times are written and read as package time does, over the whole range of years.
func TestTimes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 100_000 {
		ms := 1 + random.Int64N(253402300799999)
		if i%2 == 0 {
			ms = 1 + random.Int64N(4_000_000_000_000)
		}
		want := time.UnixMilli(ms).UTC().Format(`"` + api.TimeFormat + `"`)
		text := AppendTime(nil, ms)
		if string(text) != want {
			t.Fatalf("AppendTime(%d): got %s, want %s", ms, text, want)
		}
		s := scanner{data: text}
		if got := s.time(); got != ms || s.bad {
			t.Fatalf("reading %s: got %d, want %d", text, got, ms)
		}
		if got, ok := parseTime(text[1 : len(text)-1]); ok && got != ms {
			t.Fatalf("parseTime(%s): got %d, want %d", text, got, ms)
		}
	}
}

// Strings and bytes are written as encoding/json writes them, at every alignment of the word-wise loops.
func TestStringsAsStandardLibrary(t *testing.T) {
	t.Parallel()
	const seed = 3
	random := rand.New(rand.NewPCG(seed, seed))
	alphabet := []string{"a", "b", "zzzzzzzz", `"`, `\`, "\n", "\x00", "\x1f", "\x7f", "é", "€", "😀", "\u2028", "\u2029", "\xff", "\xc3", "\ufffd", "<", "&", "/", "\t", "\b", "\f", "\r"}
	for range 20_000 {
		var b strings.Builder
		for range random.IntN(12) {
			b.WriteString(alphabet[random.IntN(len(alphabet))])
		}
		text := b.String()
		var want bytes.Buffer
		encoder := json.NewEncoder(&want)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(text); err != nil {
			t.Fatal(err)
		}
		if got := AppendString(nil, text); string(got)+"\n" != want.String() {
			t.Fatalf("seed %d: AppendString(%q): got %s, want %s", seed, text, got, want.String())
		}
		if got := AppendString(nil, []byte(text)); string(got)+"\n" != want.String() {
			t.Fatalf("seed %d: AppendString of the bytes of %q: got %s, want %s", seed, text, got, want.String())
		}
		object, err := api.Bytes(text).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendBytes(nil, append([]byte{}, text...)); !bytes.Equal(got, object) {
			t.Fatalf("seed %d: AppendBytes(%q): got %s, want %s", seed, text, got, object)
		}
	}
}

// brings has a completion with submissions go across.
func brings(t *testing.T) {
	t.Helper()
	brought := []api.BatchSubmission{{NewSubmission: api.NewSubmission{Chunks: api.Chunks{Count: 1, Prefix: "p/"}}},
		{IdempotencyKey: "k", NewSubmission: api.NewSubmission{Chunks: api.Chunks{Count: 2, Template: "t"}, Priority: 3}}}
	request := CompleteRequest{Items: []CompleteItem{{Token: []byte("t"), Output: []byte("o")}, {Token: []byte("u")}}}
	for i := range brought {
		request.Items[0].Insert = append(request.Items[0].Insert, AppendBatchSubmission(nil, &brought[i]))
	}
	data := request.Append(nil)
	var hand CompleteRequest
	var raw rawCompletes
	if err := errors.Join(hand.Decode(data), Decode(data, &raw)); err != nil {
		t.Fatal(err)
	}
	compareCompletes(t, data, hand.Items, raw.Items)
	for i, text := range hand.Items[0].Insert {
		var one InsertRequest
		if err := one.DecodeNext(text); err != nil || string(one.IdempotencyKey) != brought[i].IdempotencyKey {
			t.Errorf("submission %d: %v, key %q", i, err, one.IdempotencyKey)
		}
		compareInsert(t, data, &one, &brought[i].NewSubmission)
	}
}

// The server's readers read requests as the client's writers write them. So does the generic reader.
func TestRequestsGoAcross(t *testing.T) {
	t.Parallel()
	retry, progress := int64(0), 0.4
	want := api.ExchangeRequest{
		Complete: []api.CompleteItem{{Token: "t1", Output: api.Bytes("a\xff")}, {Token: "t2"}, {Token: "t3", Output: api.Bytes{}}},
		Fail:     []api.FailItem{{Token: "f", Error: "it \"broke\"", Fatal: true, RetryAfterMS: &retry}, {Token: "g", RetryAt: api.At(time.UnixMilli(1_900_000_000_001))}},
		Consumer: "host-1",
		Extend:   []api.ExtendItem{{Token: "e", TimeoutMS: 5000, Progress: &progress, Note: "page \"3\" é"}, {Token: "h"}},
		Reserve:  &api.ReserveRequest{Max: 3, Strategy: json.RawMessage(`"OldestFirst"`), Consumer: "c", WaitMS: 1, TimeoutMS: 2, Context: api.Meta{"z": api.Int(-3), "m": api.Text("x")}},
	}
	request := ExchangeRequest{HasReserve: true}
	for _, item := range want.Complete {
		request.Complete = append(request.Complete, CompleteItem{Token: []byte(item.Token), Output: item.Output})
	}
	for _, item := range want.Fail {
		request.Fail = append(request.Fail, FailItem{Token: []byte(item.Token), Error: []byte(item.Error), Fatal: item.Fatal, HasRetryAfter: item.RetryAfterMS != nil})
		if !item.RetryAt.IsZero() {
			request.Fail[len(request.Fail)-1].RetryAt = item.RetryAt.UnixMilli()
		}
	}
	request.Consumer = []byte("host-1")
	request.Extend = []ExtendItem{{Token: []byte("e"), TimeoutMS: 5000, HasProgress: true, Progress: 0.4, Note: []byte("page \"3\" é")}, {Token: []byte("h")}}
	request.Reserve.FromReserve(want.Reserve)
	data := request.Append(nil)
	var got api.ExchangeRequest
	if err := Decode(data, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s\n got %+v (%v)\nwant %+v", data, got, err, want)
	}
	var hand ExchangeRequest
	if err := hand.Decode(data); err != nil {
		t.Fatal(err)
	}
	compareExchange(t, data, &hand, &want)
	var raw rawExchange
	if err := Decode(data, &raw); err != nil {
		t.Fatal(err)
	}
	compareCompletes(t, data, hand.Complete, raw.Complete)
	brings(t)

	submission := api.NewSubmission{
		Meta: api.Meta{"company": api.Int(123), "mode": api.Text("a\"b")}, Priority: -5, Attachment: api.Bytes("\x00\xff"), OperationsPerChunk: 9,
		Chunks: api.Chunks{Inline: []api.Bytes{api.Bytes("one"), api.Bytes("\xfe"), {}}}, RunAt: api.At(time.UnixMilli(1_800_000_000_123)),
		DeadDeadline: api.At(time.UnixMilli(1_900_000_000_000)), MaxAttempts: 4, OnExhausted: "skip", Group: "g",
	}
	data = AppendInsert(nil, &submission)
	var read api.NewSubmission
	if err := Decode(data, &read); err != nil || !reflect.DeepEqual(read, submission) {
		t.Errorf("%s\n got %+v (%v)\nwant %+v", data, read, err, submission)
	}
	var head api.NewSubmissionHead
	if err := Decode(AppendInsertHead(nil, &submission), &head); err != nil || head.Group != "g" || head.Priority != -5 {
		t.Errorf("head: got %+v, %v", head, err)
	}
}

// A submission object survives the way there and back, and encoding/json reads the same out of it.
func TestSubmissionGoesAcross(t *testing.T) {
	t.Parallel()
	want := Submission{
		ID: 72057594037927936, Queue: "default", State: "failed", Chunks: 7, Ready: 1, Waiting: 2, Reserved: 3, Done: 4, Dead: 5, Skipped: 6,
		CreatedAt: 1_800_000_000_123, Meta: AppendMetaEntry(nil, "a", api.Int(1)), Priority: -1, Group: "g", Shard: 3, OperationsPerChunk: 8, Prefix: "p/",
		Template: "row {index}", HasAttachment: true, RunAt: 1_800_000_000_001, DeadDeadline: 1_800_000_000_002, FinishedAt: 1_800_000_000_003,
		MaxAttempts: 9, OnExhausted: "skip", Failure: "no\nluck", FailedChunk: new(uint32), Paused: 5, Blocked: 6, Forwarded: 7, Trace: "00-a", Schedule: "nightly", ScheduledAt: 1_760_000_000_000,
	}
	for _, row := range []Submission{want, {ID: 1, Queue: "q", State: "open"}} {
		data := row.Append(nil)
		got := Submission{Queue: "other", State: "open", Group: "stale"}
		if err := got.Decode(data); err != nil || !reflect.DeepEqual(got, row) {
			t.Errorf("%s\n got %+v (%v)\nwant %+v", data, got, err, row)
		}
		var standard api.Submission
		if err := json.Unmarshal(data, &standard); err != nil {
			t.Fatal(err)
		}
		if standard.ID != "72057594037927936" && standard.ID != "1" || standard.Failure != row.Failure || standard.Chunks != row.Chunks ||
			milliseconds(standard.CreatedAt) != row.CreatedAt || milliseconds(standard.FinishedAt) != row.FinishedAt {
			t.Errorf("%s\nencoding/json reads %+v", data, standard)
		}
	}
}

// Reading a request into a value that has read one before allocates nothing.
func TestDecodeAllocatesNothing(t *testing.T) {
	complete, exchange := sampleComplete(100), sampleExchange(100)
	var c CompleteRequest
	var x ExchangeRequest
	answer := sampleAnswer(100)
	encoded := answer.Append(nil)
	dst := make([]byte, 0, 2*len(encoded))
	var back ReserveResponse
	for name, run := range map[string]func() error{
		"complete": func() error { return c.Decode(complete) },
		"exchange": func() error { return x.Decode(exchange) },
		"answer":   func() error { return back.Decode(encoded) },
		"append":   func() error { answer.Append(dst[:0]); return nil },
	} {
		got := testing.AllocsPerRun(100, func() {
			if err := run(); err != nil {
				t.Fatal(err)
			}
		})
		if got != 0 {
			t.Errorf("%s: got %v allocations per run, want 0", name, got)
		}
	}
}

// Those that share an insert of many find their submissions in its answer, and nothing where theirs was refused.
func TestInsertManyResponse(t *testing.T) {
	t.Parallel()
	answer := AppendInsertResults(nil, 3, func(i int) InsertResult {
		if i == 1 {
			return InsertResult{Status: api.InsertInvalid, Code: api.CodeInvalid, Detail: "is bad", Pointer: "/submissions/1"}
		}
		return InsertResult{Status: api.InsertCreated, Submission: Submission{ID: uint64(i + 1), Queue: "default", State: "open"}}
	})
	var r InsertManyResponse
	for range 2 { // it may be used again
		if err := r.Decode(answer); err != nil || len(r.Submissions) != 3 || r.Submissions[1] != nil {
			t.Fatalf("%q, %v; want 3 results, the second without a submission", r.Submissions, err)
		}
		for _, i := range []int{0, 2} {
			var s Submission
			if err := s.Decode(r.Submissions[i]); err != nil || s.ID != uint64(i+1) {
				t.Errorf("result %d: %+v, %v", i, s, err)
			}
		}
	}
	for end := range len(answer) {
		if r.Decode(answer[:end]) == nil {
			t.Fatalf("an answer that ends after %d bytes is no error", end)
		}
	}
}

// Every byte of a reservation is sent for every chunk. A field that most readers do not need costs throughput: two times
// that the reader knows once cost a fifth of it.
func TestReservationStaysShort(t *testing.T) {
	t.Parallel()
	const most = 195 // bytes beside content and meta
	answer := sampleAnswer(100)
	carried := len(answer.Reservations[1].Content) + len(answer.Reservations[1].Meta)
	if n := len(answer.Append(nil))/100 - carried; n > most {
		t.Errorf("a reservation takes %d bytes beside its content and meta, want at most %d; leave out what the reader knows", n, most)
	}
}
