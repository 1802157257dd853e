package wire

import (
	"errors"
	"testing"
)

// Half a surrogate pair is found wherever it stands, and reported with the pointer of its value; in a name, with the pointer of the
// object. Text that only looks like one is accepted.
func TestSurrogateError(t *testing.T) {
	t.Parallel()
	for document, pointer := range map[string]string{
		`"\ud83d"`: "", `["a",{"b":[1,"\ud83dx"]}]`: "/1/b/1", `{"a":{},"b/c":"\ude00\ud83d"}`: "/b~1c", `{"a":1,"\ud83d":2}`: "",
		`{"a":{"\uDE00":2}}`: "/a", `{"a":[[],{}, "x\\\ud83d"]}`: "/a/2", `"\ud83d\u0041"`: "", `"\ud83d\n"`: "", `{"a":"😀","b":"\ud83d\ude00\ud83d"}`: "/b",
	} {
		err := surrogateError([]byte(document))
		if err == nil || err.Pointer != pointer {
			t.Errorf("%s: got %v, want an error at %q", document, err, pointer)
		}
		var v any
		var refused *Error
		if err := Decode([]byte(document), &v); !errors.As(err, &refused) || refused.Pointer != pointer {
			t.Errorf("Decode %s: got %v, want an error at %q", document, err, pointer)
		}
	}
	for _, document := range []string{`"\ud83d\ude00"`, `"\\ud83d"`, `"\\\\ud83d"`, `"\u0041\ud83d\ude00\\"`, `{"\ud83d\ude00":[]}`, `"\u00e9"`, `"\\"`, `7`} {
		if err := surrogateError([]byte(document)); err != nil {
			t.Errorf("%s: got %v, want nothing", document, err)
		}
	}
}
