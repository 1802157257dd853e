package api

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"
)

// Bytes read three forms and write the shorter of two. Any other form is refused with a pointer.
func TestBytes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		in   string
		want Bytes
		out  string
	}{
		{`"a\u00e9<"`, Bytes("aé<"), `{"text":"aé<"}`}, {`{"text":"x"}`, Bytes("x"), `{"text":"x"}`}, {` { "base64" : "/w==" } `, Bytes{0xff}, `{"base64":"/w=="}`},
		{`{"base64":"YQ=="}`, Bytes("a"), `{"text":"a"}`}, {`""`, Bytes{}, `{"text":""}`}, {`null`, nil, `null`},
	} {
		var got Bytes
		if err := json.Unmarshal([]byte(row.in), &got); err != nil || !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: got %#v, %v; want %#v", row.in, got, err, row.want)
		}
		out, err := got.MarshalJSON()
		if err != nil || string(out) != row.out {
			t.Errorf("%s: written as %s, %v; want %s", row.in, out, err, row.out)
		}
	}
	for in, pointer := range map[string]string{
		`5`: "", `[]`: "", `{}`: "", `{"text":"a","base64":"YQ=="}`: "", `{"text":5}`: "/text", `{"base64":"?"}`: "/base64",
		`{"base64":"YQ==\n"}`: "/base64", `{"a/b":"x"}`: "/a~1b", `{"text":"a","text":"a"}`: "/text",
	} {
		var field *FieldError
		if err := json.Unmarshal([]byte(in), new(Bytes)); !errors.As(err, &field) || field.Pointer != pointer {
			t.Errorf("%s: got %v, want a refusal of %q", in, err, pointer)
		}
	}
}

// Meta values are strings or int64, and a string never becomes a number.
func TestMeta(t *testing.T) {
	t.Parallel()
	const in = `{"a":-9223372036854775808,"b":"7","c":7,"d":""}`
	var got Meta
	want := Meta{"a": Int(-1 << 63), "b": Text("7"), "c": Int(7), "d": Text("")}
	if err := json.Unmarshal([]byte(in), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if out, err := json.Marshal(got); err != nil || string(out) != in {
		t.Errorf("written as %s, %v; want %s", out, err, in)
	}
	for in, pointer := range map[string]string{
		`{"a":1.0}`: "/a", `{"a":1e2}`: "/a", `{"a":true}`: "/a", `{"a":null}`: "/a", `{"a":[1]}`: "/a", `{"a":9223372036854775808}`: "/a", `{"a":1,"a":1}`: "/a", `[]`: "", `"x"`: "",
	} {
		var field *FieldError
		if err := json.Unmarshal([]byte(in), new(Meta)); !errors.As(err, &field) || field.Pointer != pointer {
			t.Errorf("%s: got %v, want a refusal of %q", in, err, pointer)
		}
	}
}

// Times are written in UTC with milliseconds and read with any offset.
func TestTime(t *testing.T) {
	t.Parallel()
	var got Time
	if err := json.Unmarshal([]byte(`"2026-01-31T12:00:00.123999+02:00"`), &got); err != nil || got.UnixMilli() != 1769853600123 {
		t.Errorf("got %v (%d), %v", got, got.UnixMilli(), err)
	}
	if out, err := json.Marshal(got); err != nil || string(out) != `"2026-01-31T10:00:00.123Z"` {
		t.Errorf("written as %s, %v", out, err)
	}
	if out, err := json.Marshal(Time{}); err != nil || string(out) != "null" {
		t.Errorf("no time is written as %s, %v", out, err)
	}
	if out, err := json.Marshal(At(time.UnixMilli(1769853600000))); err != nil || string(out) != `"2026-01-31T10:00:00.000Z"` {
		t.Errorf("whole second: %s, %v", out, err)
	}
	for _, in := range []string{`5`, `""`, `"2026-01-31"`, `"2026-02-30T00:00:00Z"`, `"0001-01-01T00:00:00Z"`, `{}`} {
		if err := json.Unmarshal([]byte(in), new(Time)); err == nil {
			t.Errorf("%s: got no error", in)
		}
	}
}

// Optional fields that say nothing are not written, and none of the required ones is ever left out.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]any{
		`{"chunks":{}}`: NewSubmission{}, `{"max":0}`: ReserveRequest{}, `{"token":""}`: CompleteItem{}, `{"token":"","output":{"text":""}}`: CompleteItem{Output: Bytes{}},
		`{"settings":{"max_expiries":0}}`: PutQueueRequest{Settings: QueueSettingsInput{MaxExpiries: new(uint8(0))}}, `{}`: PutQueueRequest{},
		`{"reservations":null,"reason":null,"retry_after_ms":null}`: ReserveResponse{}, `{"items":null}`: Page[int]{}, `{"status":"ok"}`: Result{Status: StatusOK},
	} {
		if got, err := json.Marshal(value); err != nil || string(got) != want {
			t.Errorf("%T: got %s, %v; want %s", value, got, err, want)
		}
	}
}
