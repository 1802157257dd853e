package strategy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Both forms are made of the same few tokens, so one scanner serves both.
type tokenKind uint8

const (
	endToken tokenKind = iota
	nameToken
	stringToken
	numberToken
	markToken // one of ( ) { } [ ] , : =, in a formula the operators
)

type token struct {
	kind tokenKind
	text string // of a string: its content, decoded; otherwise as written
	at   int    // byte offset of its first character
}

// String is the name of the found token in error texts.
func (t token) String() string {
	switch t.kind {
	case endToken:
		return "the end"
	case stringToken:
		return "the string " + string(appendQuoted(nil, clip(t.text)))
	case markToken:
		return "'" + t.text + "'"
	default:
		return clip(t.text)
	}
}

func (t token) is(mark string) bool { return t.kind == markToken && t.text == mark }

// scanner cuts a source into tokens. It only ever sees valid UTF-8: newScanner checks.
type scanner struct {
	source  string
	next    int    // offset of the unread rest
	pointer string // of the source in the request
	subject string // begins the detail of every problem, the position follows: "is not valid JSON"
	formula bool   // a formula comes next
}

func newScanner(source, pointer, subject string) (*scanner, error) {
	s := &scanner{source: source, pointer: pointer, subject: subject}
	for at := 0; at < len(source); {
		r, size := utf8.DecodeRuneInString(source[at:])
		if r == utf8.RuneError && size == 1 {
			return nil, s.problem(at, "expected UTF-8, found the byte 0x%02x", source[at])
		}
		at += size
	}
	return s, nil
}

// problem is the error of a mistake at a byte offset.
func (s *scanner) problem(at int, format string, args ...any) error {
	before := s.source[:at]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return invalid(s.pointer, "%s at line %d, column %d: %s", s.subject, line, column, fmt.Sprintf(format, args...))
}

// scan reads the next token. At the end it returns endToken, as often as asked.
func (s *scanner) scan() (token, error) {
	if s.formula {
		return s.scanFormula()
	}
	for s.next < len(s.source) && strings.IndexByte(" \t\r\n", s.source[s.next]) >= 0 {
		s.next++
	}
	at := s.next
	if at == len(s.source) {
		return token{kind: endToken, at: at}, nil
	}
	switch c := s.source[at]; {
	case strings.IndexByte("(){}[],:=", c) >= 0:
		s.next++
		return token{kind: markToken, text: s.source[at:s.next], at: at}, nil
	case c == '"':
		return s.scanString()
	case c == '-' || isDigit(c):
		return s.scanNumber()
	case isNameStart(c):
		s.skip(func(c byte) bool { return isNameStart(c) || isDigit(c) })
		return token{kind: nameToken, text: s.source[at:s.next], at: at}, nil
	}
	r, _ := utf8.DecodeRuneInString(s.source[at:])
	return token{}, s.problem(at, "unexpected character %s; expected a name, a string in double quotes, a number or "+
		"punctuation", strconv.QuoteRuneToASCII(r))
}

// scanNumber reads a number as JSON writes it. It reads everything that looks like part of one, so that 007 or 1.2.3 is
// one mistake and not two numbers.
func (s *scanner) scanNumber() (token, error) {
	at := s.next
	s.skip(func(c byte) bool { return isNameStart(c) || isDigit(c) || c == '.' || c == '+' || c == '-' })
	text := s.source[at:s.next]
	if !isNumber(text) {
		return token{}, s.problem(at, "expected a number as JSON writes it (no leading zeros, digits on both sides "+
			"of a point), found %s", clip(text))
	}
	return token{kind: numberToken, text: text, at: at}, nil
}

func (s *scanner) skip(while func(c byte) bool) {
	for s.next < len(s.source) && while(s.source[s.next]) {
		s.next++
	}
}

// isNumber checks JSON's grammar: -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?
func isNumber(text string) bool {
	rest := strings.TrimPrefix(text, "-")
	whole, rest := digits(rest)
	if whole == 0 || whole > 1 && strings.TrimPrefix(text, "-")[0] == '0' {
		return false
	}
	if strings.HasPrefix(rest, ".") {
		var fraction int
		if fraction, rest = digits(rest[1:]); fraction == 0 {
			return false
		}
	}
	if rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		rest = rest[1:]
		if rest != "" && (rest[0] == '+' || rest[0] == '-') {
			rest = rest[1:]
		}
		var exponent int
		if exponent, rest = digits(rest); exponent == 0 {
			return false
		}
	}
	return rest == ""
}

// digits counts the leading digits and returns the rest.
func digits(text string) (count int, rest string) {
	for count < len(text) && isDigit(text[count]) {
		count++
	}
	return count, text[count:]
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isNameStart(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }

// clip shortens a piece of the input for an error text.
func clip(text string) string {
	const most = 40
	if len(text) <= most {
		return text
	}
	end := most
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}
