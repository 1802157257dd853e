package strategy

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// scanFormula reads the next token of a formula. It differs from scan in that "-" is an operator, and that numbers may have a
// unit.
func (s *scanner) scanFormula() (token, error) {
	s.skip(func(c byte) bool { return strings.IndexByte(" \t\r\n", c) >= 0 })
	at := s.next
	if at == len(s.source) {
		return token{kind: endToken, at: at}, nil
	}
	two := s.source[at:min(at+2, len(s.source))]
	switch c := s.source[at]; {
	case two == "<=" || two == ">=" || two == "==" || two == "!=":
		s.next += 2
		return token{kind: markToken, text: two, at: at}, nil
	case two == "&&" || two == "||" || c == '!':
		return token{}, s.problem(at, "unexpected %s; expected and, or, not", strings.TrimRight(two, " =("))
	case c == '=':
		return token{}, s.problem(at, "unexpected =; expected == to compare")
	case strings.IndexByte("()+-*/%<>,.", c) >= 0:
		s.next++
		return token{kind: markToken, text: s.source[at:s.next], at: at}, nil
	case c == '"':
		return s.scanString()
	case isDigit(c):
		return s.scanQuantity()
	case isNameStart(c):
		s.skip(func(c byte) bool { return isNameStart(c) || isDigit(c) })
		return token{kind: nameToken, text: s.source[at:s.next], at: at}, nil
	}
	r, _ := utf8.DecodeRuneInString(s.source[at:])
	return token{}, s.problem(at, "unexpected character %s; expected a number, a name, a string in double quotes or "+
		"an operator", strconv.QuoteRuneToASCII(r))
}

// scanQuantity reads a number, with all that looks like part of one: 1.5, 2e3, 5m.
func (s *scanner) scanQuantity() (token, error) {
	at := s.next
	s.skip(func(c byte) bool { return isDigit(c) || c == '.' })
	if rest := s.source[s.next:]; len(rest) > 2 && (rest[0] == 'e' || rest[0] == 'E') &&
		(rest[1] == '-' || rest[1] == '+') && isDigit(rest[2]) {
		s.next += 2
	}
	s.skip(func(c byte) bool { return isNameStart(c) || isDigit(c) || c == '.' })
	text := s.source[at:s.next]
	if _, ok := quantity(text); !ok {
		return token{}, s.problem(at, "expected a finite number such as 10, 0.5 or 1e3 (no leading zeros, digits on "+
			"both sides of a point), or a time such as 500ms, 30s, 5m, 2h or 1d; found %s", clip(text))
	}
	return token{kind: numberToken, text: text, at: at}, nil
}

// quantity is the number that a text says; a time in milliseconds.
func quantity(text string) (float64, bool) {
	number := strings.TrimRight(text, "msdh")
	unit, scale := text[len(number):], 1.0
	if unit != "" {
		scale = durations[unit]
	}
	if !isNumber(number) || scale == 0 {
		return 0, false
	}
	value, err := strconv.ParseFloat(number, 64)
	value *= scale
	return value, err == nil && value-value == 0
}
