package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/quern-queue/quern/sdk/api"
)

// The hand-written readers accept exactly what Decode accepts, with the same values, and refuse the rest with the same
// pointer. Each comparison decodes twice into the same value, so that nothing of the document before shines through.

func FuzzReserve(f *testing.F) {
	seed(f, reserveSeeds)
	var reused ReserveRequest
	f.Fuzz(func(t *testing.T, data []byte) {
		var want api.ReserveRequest
		if !sameError(t, data, reused.Decode(data), Decode(data, &want)) {
			return
		}
		compareReserve(t, data, &reused, &want)
	})
}

func FuzzComplete(f *testing.F) {
	seed(f, completeSeeds)
	var reused CompleteRequest
	f.Fuzz(func(t *testing.T, data []byte) {
		var want rawCompletes
		if !sameError(t, data, reused.Decode(data), Decode(data, &want)) {
			return
		}
		compareCompletes(t, data, reused.Items, want.Items)
	})
}

func FuzzExchange(f *testing.F) {
	seed(f, exchangeSeeds)
	var reused ExchangeRequest
	f.Fuzz(func(t *testing.T, data []byte) {
		var want rawExchange
		if !sameError(t, data, reused.Decode(data), Decode(data, &want)) {
			return
		}
		compareCompletes(t, data, reused.Complete, want.Complete)
		compareExchange(t, data, &reused, &api.ExchangeRequest{Fail: want.Fail, Extend: want.Extend, Reserve: want.Reserve,
			Consumer: want.Consumer})
	})
}

func FuzzExtend(f *testing.F) {
	seed(f, []string{
		`{"items":[]}`, `{"items":[{"token":"a","timeout_ms":5}],"consumer":"host-1"}`, `{"consumer":"x"}`, `{"items":[],"consumer":null}`, `{"items":[],"consumer":7}`, `{"items":[],"items":[]}`,
	})
	var reused ExtendRequest
	f.Fuzz(func(t *testing.T, data []byte) {
		var want api.ExtendRequest
		if !sameError(t, data, reused.Decode(data), Decode(data, &want)) {
			return
		}
		compareExchange(t, data, &ExchangeRequest{Extend: reused.Items, Consumer: reused.Consumer}, &api.ExchangeRequest{Extend: want.Items, Consumer: want.Consumer})
	})
}

func FuzzInsert(f *testing.F) {
	seed(f, insertSeeds)
	var reused InsertRequest
	f.Fuzz(func(t *testing.T, data []byte) {
		var want api.NewSubmission
		if !sameError(t, data, reused.Decode(data), Decode(data, &want)) {
			return
		}
		compareInsert(t, data, &reused, &want)
	})
}

// FuzzAnswer: the readers of answers read every answer that the writers wrote from any values, and give the values back.
// encoding/json reads the same values.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`"content" with \ and €`), "trace", "nothing", uint32(17), int64(1_700_000_000_123), int64(-5), true)
	f.Add([]byte("\xff\x00binary"), "", "", uint32(1<<32-1), int64(253402300799999), int64(1<<53), false)
	f.Add([]byte("\u2028\u2029\x7f<>&\ufffd"), "a\xffb", "all_limited", uint32(0), int64(1), int64(0), true)
	f.Add([]byte("x"), "", "n", uint32(3), int64(1), int64(7), false)
	f.Fuzz(func(t *testing.T, content []byte, trace, reason string, index uint32, at, n int64, isKey bool) {
		checkAnswer(t, content, trace, reason, index, at, n, isKey)
	})
}

func checkAnswer(t *testing.T, content []byte, trace, reason string, index uint32, at, n int64, isKey bool) {
	t.Helper()
	at = 1 + (at&(1<<62-1))%253402300799999
	meta := AppendMetaEntry(AppendMetaEntry(nil, reason, api.Text(trace)), reason+"n", api.Int(n))
	answer := ExchangeResponse{
		Complete: []Result{{Status: "ok"}, {Status: "ok", Inserted: []uint64{1, uint64(index) << 31}}, {Status: "lost", Code: "reservation_lost", Detail: trace}},
		Extend:   []Result{{Status: "ok", Deadline: at}},
		ReserveResponse: ReserveResponse{Reason: reason, HasRetryAfter: true, RetryAfterMS: n, Limited: []Saturated{
			{Key: reason, Value: api.Text(trace), InFlight: index, Limit: index / 2}, {Key: trace, Value: api.Int(n)},
		}, Warnings: []Warning{{reason, "/strategy", trace}, {}}, Reservations: []Reservation{
			{Token: []byte(reason), Submission: uint64(index) << 31, Index: index, Attempt: 1, Deadline: at, ReadyAt: at, Content: content, IsKey: isKey, Meta: meta, Priority: n, Attachment: content, Trace: trace},
			{Deadline: at, ReadyAt: at},
		}},
	}
	data := answer.Append(nil)
	var want api.ExchangeResponse
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatalf("encoding/json refuses what Append wrote: %v\n%s", err, data)
	}
	var got ExchangeResponse
	if err := got.Decode(data); err != nil {
		t.Fatalf("Decode refuses what Append wrote: %v\n%s", err, data)
	}
	again := got.Append(nil) // differs from data only where invalid UTF-8 was replaced
	if utf8.ValidString(trace) && utf8.ValidString(reason) && (utf8.Valid(content) || !isKey) && !bytes.Equal(again, data) {
		t.Errorf("decoded and written again:\n got %s\nwant %s", again, data)
	}
	first := want.Reservations[0]
	key := got.Reservations[0]
	if first.Token != string(key.Token) || first.Submission != fmt.Sprint(key.Submission) || first.Index != key.Index ||
		first.Deadline.UnixMilli() != key.Deadline || first.Trace != key.Trace || first.Priority != key.Priority ||
		first.Content.IsKey != key.IsKey || string(first.Content.Bytes)+first.Content.Key != string(key.Content) ||
		!bytes.Equal(first.Attachment, key.Attachment) {
		t.Errorf("encoding/json reads %+v, Decode %+v", first, key)
	}
	if ready := key.ReadyAt; ready != at || first.ReadyAt.IsZero() != (ready == InsertedAt(key.Submission)) {
		t.Errorf("ready_at is read as %d and %v, want %d", ready, first.ReadyAt, at)
	}
	for i, v := range want.Limited {
		if len(want.Limited) != len(got.Limited) || api.Saturated(got.Limited[i]) != v {
			t.Errorf("limited: encoding/json reads %+v, Decode %+v", want.Limited, got.Limited)
		}
	}
	if len(want.Limited) != len(answer.Limited) {
		t.Errorf("limited: got %+v, want %d of them", want.Limited, len(answer.Limited))
	}
	for i, w := range want.Warnings {
		if len(want.Warnings) != len(got.Warnings) || api.StrategyWarning(got.Warnings[i]) != w {
			t.Errorf("warnings: encoding/json reads %+v, Decode %+v", want.Warnings, got.Warnings)
		}
	}
	if len(want.Warnings) != len(answer.Warnings) {
		t.Errorf("warnings: got %+v, want %d of them", want.Warnings, len(answer.Warnings))
	}
	if want.Extend[0].Deadline.UnixMilli() != at || want.Complete[1].Detail != got.Complete[1].Detail {
		t.Errorf("results: encoding/json reads %+v, Decode %+v", want.Extend, got.Extend)
	}
}

// FuzzAnswerBytes: whatever a server sends, a reader of answers takes it or gives an *Error.
func FuzzAnswerBytes(f *testing.F) {
	f.Add([]byte(`{"complete":[{"status":"ok","new":[{}]}],"reservations":[{"token":"a","submission":"72057594037927936","content":{"key":"k","new":1}}],"reason":null}`))
	f.Add([]byte(`{"reservations":[],"reason":"all_limited","limited":[{"key":"a","value":-7,"in_flight":5,"limit":5,"new":[]},{"value":"\u20ac"},{"value":null}]}`))
	f.Add([]byte(`{"reservations":[{"submission":"x"}]}`))
	f.Add([]byte(`{"id":"5","queue":"default","state":"open","chunks":3,"created_at":"2026-01-31T00:00:00.000Z","meta":{"a":1}}`))
	var exchange ExchangeResponse
	var submission Submission
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, err := range []error{exchange.Decode(data), submission.Decode(data)} {
			if err == nil && !json.Valid(data) {
				t.Errorf("took what is not JSON: %q", data)
			}
		}
	})
}

// FuzzMeta: the meta of an answer is read as the JSON decoder reads it, and refused with its words.
func FuzzMeta(f *testing.F) {
	seed(f, []string{`{"company":7}`, `{}`, `null`, `{"a":-0,"b":"\u00e9","\ud800":"x"}`, `{"a":1,"a":2}`, `{"a":1.5}`, `{"a":null}`,
		`{"a":9223372036854775808}`, `{"a":"\ud83d\ude00 \ud83d"}`, ` { "a" : 1 , "b" : "" } `, `{` + manyKeys(60) + `}`})
	f.Fuzz(func(t *testing.T, data []byte) {
		var want api.Meta
		refused := json.Unmarshal(data, &want)
		got, err := DecodeMeta(data)
		if fmt.Sprint(err) != fmt.Sprint(refused) || refused == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %v, %v; the JSON decoder has %v, %v", data, got, err, want, refused)
		}
	})
}

func seed(f *testing.F, seeds []string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	for _, s := range brokenSeeds {
		f.Add([]byte(s))
	}
}

// sameError compares the two outcomes and says whether both took the document.
func sameError(t *testing.T, data []byte, got, want error) bool {
	t.Helper()
	if got == nil && want == nil {
		return true
	}
	var g, w *Error
	if (got == nil) != (want == nil) || !errors.As(got, &g) || !errors.As(want, &w) {
		t.Fatalf("hand-written reader: %v\ngeneric reader: %v\ndocument: %q", got, want, data)
	}
	if g.Pointer != w.Pointer || g.Detail != w.Detail {
		t.Fatalf("hand-written reader: %q %q\ngeneric reader: %q %q\ndocument: %q", g.Pointer, g.Detail, w.Pointer, w.Detail, data)
	}
	return false
}

func compareReserve(t *testing.T, data []byte, got *ReserveRequest, want *api.ReserveRequest) {
	t.Helper()
	strategy := []byte(want.Strategy)
	if string(strategy) == "null" {
		strategy = nil
	}
	if got.Max != want.Max || !bytes.Equal(got.Strategy, strategy) || string(got.Consumer) != want.Consumer ||
		got.WaitMS != want.WaitMS || got.TimeoutMS != want.TimeoutMS {
		t.Fatalf("got %+v\nwant %+v\ndocument: %q", got, want, data)
	}
	compareMeta(t, data, got.Context, want.Context)
}

func compareMeta(t *testing.T, data []byte, got []MetaEntry, want api.Meta) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d meta entries, want %d\ndocument: %q", len(got), len(want), data)
	}
	for _, entry := range got {
		value, ok := want[string(entry.Key)]
		if !ok || value.IsInt() != entry.IsInt || value.Int() != entry.Int || value.Text() != string(entry.Text) {
			t.Fatalf("meta %q: got %+v, want %+v\ndocument: %q", entry.Key, entry, value, data)
		}
	}
}

// rawComplete is a completion whose submissions are left as they are: InsertRequest.DecodeNext reads each.
type rawComplete struct {
	Token  string            `json:"token"`
	Output api.Bytes         `json:"output,omitzero"`
	Insert []json.RawMessage `json:"insert,omitempty" limit:"..MaxFollowing"`
}

type rawCompletes struct {
	Items []rawComplete `json:"items" limit:"..MaxBatch"`
}

type rawExchange struct {
	Complete []rawComplete       `json:"complete,omitempty" limit:"..MaxBatch"`
	Fail     []api.FailItem      `json:"fail,omitempty" limit:"..MaxBatch"`
	Extend   []api.ExtendItem    `json:"extend,omitempty" limit:"..MaxBatch"`
	Reserve  *api.ReserveRequest `json:"reserve,omitempty"`
	Consumer string              `json:"consumer,omitempty"`
}

func compareCompletes(t *testing.T, data []byte, got []CompleteItem, want []rawComplete) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d items, want %d\ndocument: %q", len(got), len(want), data)
	}
	for i := range got {
		if string(got[i].Token) != want[i].Token || !sameBytes(got[i].Output, want[i].Output) ||
			len(got[i].Insert) != len(want[i].Insert) {
			t.Fatalf("item %d: got %q, want %q\ndocument: %q", i, got[i], want[i], data)
		}
		for n, raw := range want[i].Insert {
			if !bytes.Equal(got[i].Insert[n], raw) {
				t.Fatalf("submission %d of item %d: got %q, want %q\ndocument: %q", n, i, got[i].Insert[n], raw, data)
			}
		}
	}
}

func compareExchange(t *testing.T, data []byte, got *ExchangeRequest, want *api.ExchangeRequest) {
	t.Helper()
	if len(got.Fail) != len(want.Fail) || len(got.Extend) != len(want.Extend) || string(got.Consumer) != want.Consumer || got.HasReserve != (want.Reserve != nil) {
		t.Fatalf("got %+v\nwant %+v\ndocument: %q", got, want, data)
	}
	for i, item := range got.Fail {
		w := want.Fail[i]
		if string(item.Token) != w.Token || string(item.Error) != w.Error || item.Fatal != w.Fatal ||
			item.RetryAt != milliseconds(w.RetryAt) || item.HasRetryAfter != (w.RetryAfterMS != nil) || item.HasRetryAfter && item.RetryAfterMS != *w.RetryAfterMS {
			t.Fatalf("fail %d: got %+v, want %+v\ndocument: %q", i, item, w, data)
		}
	}
	for i, item := range got.Extend {
		w := want.Extend[i]
		if string(item.Token) != w.Token || item.TimeoutMS != w.TimeoutMS || string(item.Note) != w.Note ||
			item.HasProgress != (w.Progress != nil) || item.HasProgress && item.Progress != *w.Progress {
			t.Fatalf("extend %d: got %+v, want %+v\ndocument: %q", i, item, w, data)
		}
	}
	if want.Reserve != nil {
		compareReserve(t, data, &got.Reserve, want.Reserve)
	}
}

func compareInsert(t *testing.T, data []byte, got *InsertRequest, want *api.NewSubmission) {
	t.Helper()
	compareMeta(t, data, got.Meta, want.Meta)
	if got.Priority != want.Priority || got.Count != want.Chunks.Count || string(got.Prefix) != want.Chunks.Prefix ||
		string(got.Template) != want.Chunks.Template || !sameBytes(got.Attachment, want.Attachment) ||
		got.OperationsPerChunk != want.OperationsPerChunk || got.RunAt != milliseconds(want.RunAt) ||
		got.DeadDeadline != milliseconds(want.DeadDeadline) || got.MaxAttempts != want.MaxAttempts ||
		string(got.OnExhausted) != want.OnExhausted || string(got.Group) != want.Group ||
		(got.Inline == nil) != (want.Chunks.Inline == nil) || len(got.Inline) != len(want.Chunks.Inline) {
		t.Fatalf("got %+v\nwant %+v\ndocument: %q", got, want, data)
	}
	for i := range got.Inline {
		if !sameBytes(got.Inline[i], want.Chunks.Inline[i]) {
			t.Fatalf("chunk %d: got %q, want %q\ndocument: %q", i, got.Inline[i], want.Chunks.Inline[i], data)
		}
	}
}

func milliseconds(t api.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func sameBytes(got []byte, want api.Bytes) bool {
	return bytes.Equal(got, want) && (got == nil) == (want == nil)
}
