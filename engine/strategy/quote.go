package strategy

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// scanString reads a string as JSON writes it, strictly: a lone surrogate is refused rather than replaced, because the
// value would silently be another one than the producer's.
func (s *scanner) scanString() (token, error) {
	start := s.next
	s.next++
	var decoded strings.Builder
	for from := s.next; s.next < len(s.source); {
		switch c := s.source[s.next]; {
		case c == '"':
			decoded.WriteString(s.source[from:s.next])
			s.next++
			return token{kind: stringToken, text: decoded.String(), at: start}, nil
		case c < ' ':
			return token{}, s.problem(s.next, "control character in a string; expected the escape \\u%04x", c)
		case c == '\\':
			decoded.WriteString(s.source[from:s.next])
			r, err := s.scanEscape()
			if err != nil {
				return token{}, err
			}
			decoded.WriteRune(r)
			from = s.next
		default:
			s.next++
		}
	}
	return token{}, s.problem(start, "string without end; expected a closing '\"'")
}

// scanEscape reads from the backslash to the end of the escape; a surrogate pair counts as one.
func (s *scanner) scanEscape() (rune, error) {
	at := s.next
	if at+1 < len(s.source) {
		if i := strings.IndexByte(`"\/bfnrt`, s.source[at+1]); i >= 0 {
			s.next += 2
			return rune("\"\\/\b\f\n\r\t"[i]), nil
		}
	}
	first, ok := s.scanUnit()
	if !ok {
		return 0, s.problem(at, `unknown escape; expected one of \" \\ \/ \b \f \n \r \t or \u and four hex digits`)
	}
	if !utf16.IsSurrogate(first) {
		return first, nil
	}
	second, ok := s.scanUnit()
	r := utf16.DecodeRune(first, second)
	if !ok || r == utf8.RuneError {
		return 0, s.problem(at, `half a surrogate pair; expected two \u escapes that make one character`)
	}
	return r, nil
}

// scanUnit reads \uXXXX.
func (s *scanner) scanUnit() (rune, bool) {
	rest := s.source[s.next:]
	if len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(rest[2:6], 16, 16)
	if err != nil {
		return 0, false
	}
	s.next += 6
	return rune(unit), true
}

// appendQuoted writes text, which is valid UTF-8, as a JSON string. Beyond JSON's rules it escapes characters that
// could deceive a reader of the canonical text in a log or a terminal: other control characters, separators that some
// readers take for line ends, and the invisible and direction-changing characters. The ranges are fixed rather than
// Unicode's of the day, because the canonical text is an identity.
func appendQuoted(dst []byte, text string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	plain := 0 // most strings are plain to their end
	for plain < len(text) && text[plain] >= ' ' && text[plain] < 0x7f && text[plain] != '"' && text[plain] != '\\' {
		plain++
	}
	dst = append(dst, text[:plain]...)
	for _, r := range text[plain:] {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, '\\', 'n')
		case r == '\r':
			dst = append(dst, '\\', 'r')
		case r == '\t':
			dst = append(dst, '\\', 't')
		case isHidden(r):
			dst = append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

// isHidden holds for characters below U+10000 only, so one escape is enough for each.
func isHidden(r rune) bool {
	return r < 0x20 || r >= 0x7f && r <= 0x9f || // control characters
		r == 0xad || r == 0x61c || r == 0x180e || r == 0xfeff || // soft hyphen, Arabic letter mark, Mongolian separator, byte order mark
		r >= 0x200b && r <= 0x200f || // zero width, direction marks
		r >= 0x2028 && r <= 0x202e || // line and paragraph separators, direction overrides
		r >= 0x2060 && r <= 0x206f // invisible operators, direction isolates
}
