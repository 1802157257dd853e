package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/quern-queue/quern/sdk/api"
)

const (
	ones     = 0x0101010101010101
	highBits = 0x80 * ones
)

// special has a bit in every byte of the word that is a quote, a backslash, a control character or not ASCII. Bytes above the
// first special one may be marked wrongly (a borrow runs upwards), the lowest mark is always right.
func special(word uint64) uint64 {
	quote := word ^ '"'*ones
	slash := word ^ '\\'*ones
	return (word | (word - ' '*ones) | (quote - ones) | (slash - ones)) & highBits
}

// span moves over a string, checks it, and returns what is between the quotes and whether that is its value as it stands.
func (s *scanner) span() (inner []byte, plain bool) {
	if s.bad {
		return nil, false
	}
	data, i := s.data, s.pos+1
	plain = true
	ascii := true
	for {
		for i+8 <= len(data) {
			found := special(binary.LittleEndian.Uint64(data[i:]))
			if found != 0 {
				i += bits.TrailingZeros64(found) / 8
				break
			}
			i += 8
		}
		if i >= len(data) {
			s.fail("")
			return nil, false
		}
		switch c := data[i]; {
		case c == '"':
			inner = data[s.pos+1 : i : i]
			s.pos = i + 1
			if !ascii && plain && !utf8.Valid(inner) {
				plain = false
			}
			return inner, plain
		case c == '\\':
			plain = false
			size := escapeSize(data[i:])
			if size == 0 {
				s.fail("")
				return nil, false
			}
			i += size
		case c < ' ':
			s.fail("")
			return nil, false
		default:
			if c >= utf8.RuneSelf {
				ascii = false
			}
			i++
		}
	}
}

// escapeSize is the length of the escape sequence at the start of data, 0 when it is none.
func escapeSize(data []byte) int {
	if len(data) < 2 {
		return 0
	}
	switch data[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(data) < 6 {
			return 0
		}
		for _, c := range data[2:6] {
			if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
				return 0
			}
		}
		return 6
	}
	return 0
}

// quoted reads a string that begins here.
func (s *scanner) quoted() []byte {
	inner, plain := s.span()
	if plain || s.bad {
		return inner
	}
	start := len(s.scratch)
	s.scratch = unescape(s.scratch, inner)
	return s.scratch[start:len(s.scratch):len(s.scratch)]
}

// unescape appends the value of a checked string exactly as encoding/json understands it: every byte that is not UTF-8 and
// every surrogate without its partner becomes U+FFFD. (Of requests, finish refuses the latter.)
func unescape(dst, inner []byte) []byte {
	for i := 0; i < len(inner); {
		c := inner[i]
		switch {
		case c == '\\' && inner[i+1] == 'u':
			r := hex4(inner[i+2:])
			i += 6
			if utf16.IsSurrogate(r) {
				pair := rune(utf8.RuneError)
				if i+6 <= len(inner) && inner[i] == '\\' && inner[i+1] == 'u' {
					pair = utf16.DecodeRune(r, hex4(inner[i+2:]))
				}
				if pair != utf8.RuneError {
					i += 6
				}
				r = pair
			}
			dst = utf8.AppendRune(dst, r)
		case c == '\\':
			dst = append(dst, unescaped(inner[i+1]))
			i += 2
		case c < utf8.RuneSelf:
			dst = append(dst, c)
			i++
		default:
			r, size := utf8.DecodeRune(inner[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
		}
	}
	return dst
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

func hex4(digits []byte) rune {
	var r rune
	for _, c := range digits[:4] {
		switch {
		case c <= '9':
			c -= '0'
		case c >= 'a':
			c -= 'a' - 10
		default:
			c -= 'A' - 10
		}
		r = r<<4 | rune(c)
	}
	return r
}

const stringDetail = "must be a string"

// str reads a string; it is never nil.
func (s *scanner) str() []byte {
	if s.bad {
		return nil
	}
	if s.peek() != '"' {
		s.fail(stringDetail)
		return nil
	}
	return s.quoted()
}

// bytes reads api.Bytes: a bare string, {"text":...} or {"base64":...}; never nil. With key, {"key":...} is accepted too.
func (s *scanner) bytes(key bool) (value []byte, isKey bool) {
	if s.bad {
		return nil, false
	}
	switch s.peek() {
	case '"':
		return s.quoted(), false
	case '{':
		return s.bytesObject(key)
	}
	s.fail(api.BytesDetail)
	return nil, false
}

const (
	formNone = iota
	formText
	formBase64
	formKey
)

func (s *scanner) bytesObject(key bool) (value []byte, isKey bool) {
	form := formNone
	s.open('{', api.BytesDetail)
	for {
		name, ok := s.field()
		if !ok {
			break
		}
		next := formNone
		switch string(name) {
		case "text":
			next = formText
		case "base64":
			next = formBase64
		case "key":
			if key {
				next = formKey
			}
		}
		switch {
		case next == formNone:
			s.unknown()
		case next == form:
			s.fail(api.DuplicateDetail)
		case form != formNone:
			s.depth-- // two forms at once: the object is wrong, not the field
			s.fail(api.BytesDetail)
		default:
			form = next
			value = s.str()
		}
	}
	if s.bad {
		return nil, false
	}
	switch form {
	case formNone:
		s.fail(api.BytesDetail)
		return nil, false
	case formBase64:
		return s.base64(value), false
	}
	return value, form == formKey
}

// base64 decodes into scratch. Go's decoder skips line breaks even when strict, so they are looked for.
func (s *scanner) base64(text []byte) []byte {
	start := len(s.scratch)
	var err error
	if !bytes.ContainsAny(text, "\r\n") {
		s.scratch, err = base64.StdEncoding.Strict().AppendDecode(s.scratch, text)
		if err == nil && len(s.scratch) == start {
			return []byte{} // not nil, which would be none
		}
		if err == nil {
			return s.scratch[start:len(s.scratch):len(s.scratch)]
		}
	}
	s.fail(api.Base64Detail)
	s.pointer += "/base64"
	return nil
}

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
