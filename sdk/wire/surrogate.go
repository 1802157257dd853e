package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/quern-queue/quern/sdk/api"
)

// surrogateError refuses a document with an escape like \ud83d that is half of a character, nil if it has none. Go would read
// U+FFFD instead, so that different names and values became one, and a consumer got something else than the producer sent.
func surrogateError(data []byte) *Error {
	at := halfPair(data)
	if at < 0 {
		return nil
	}
	return &Error{Pointer: pointerAt(data, at),
		Detail: `has half a surrogate pair; two \u escapes make one character, and bytes that are no text go into {"base64":"..."}`}
}

// halfPair is where the first surrogate without its partner stands in valid JSON, -1 if there is none. A backslash stands in
// strings only.
func halfPair(data []byte) int {
	if !bytes.Contains(data, []byte(`\u`)) {
		return -1
	}
	for i := 0; i < len(data); {
		next := bytes.IndexByte(data[i:], '\\')
		if next < 0 {
			return -1
		}
		i += next
		if escapeSize(data[i:]) != 6 {
			i += 2 // such as \\, which a u may follow
			continue
		}
		r := hex4(data[i+2:])
		if !utf16.IsSurrogate(r) {
			i += 6
			continue
		}
		if escapeSize(data[i+6:]) != 6 || utf16.DecodeRune(r, hex4(data[i+8:])) == utf8.RuneError {
			return i
		}
		i += 12
	}
	return -1
}

// pointerAt is the pointer of the value of a valid document that an offset is in; of a name, that of its object.
func pointerAt(data []byte, at int) string {
	type level struct {
		array bool
		index int
		name  string
		named bool // the name was read, its value comes next
	}
	var path []level
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if err != nil || decoder.InputOffset() > int64(at) {
			break
		}
		if delim, is := token.(json.Delim); is && (delim == '{' || delim == '[') {
			path = append(path, level{array: delim == '['})
			continue
		} else if is {
			path = path[:len(path)-1]
		}
		if len(path) == 0 {
			continue
		}
		switch in := &path[len(path)-1]; {
		case in.array:
			in.index++
		case in.named:
			in.named = false
		default:
			in.name, in.named = token.(string), true
		}
	}
	pointer := ""
	for _, in := range path {
		switch {
		case in.array:
			pointer += "/" + strconv.Itoa(in.index)
		case in.named:
			pointer += "/" + api.EscapePointer(in.name)
		}
	}
	return pointer
}
