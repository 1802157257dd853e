package strategy

import (
	"math"
	"strconv"
	"strings"
)

// appendTerm writes the canonical text of a term where one that binds looser than rank needs parentheses.
func appendTerm(dst []byte, t *Term, rank int) []byte {
	if own := t.rank(); own < rank {
		return append(appendTerm(append(dst, '('), t, own), ')')
	}
	switch t.Op {
	case OpNumber:
		return appendNumber(dst, t.Number)
	case OpText:
		return appendQuoted(dst, t.Text)
	case OpColumn, OpValue:
		return appendColumn(dst, t)
	case OpNegate:
		return appendTerm(append(dst, '-'), t.Terms[0], unaryRank)
	case OpNot:
		return appendTerm(append(dst, "not "...), t.Terms[0], notRank)
	}
	if o, ok := operatorOf(t.Op); ok {
		return appendJoined(dst, t, o)
	}
	dst = append(append(dst, t.name...), '(')
	return append(appendTerms(dst, t.Terms), ')')
}

// rank says how tightly the term binds.
func (t *Term) rank() int {
	if o, ok := operatorOf(t.Op); ok {
		return o.rank
	}
	switch t.Op {
	case OpNegate:
		return unaryRank
	case OpNot:
		return notRank
	}
	return atomRank
}

// appendJoined writes products without spaces and other operations with them.
func appendJoined(dst []byte, t *Term, o operator) []byte {
	dst = appendTerm(dst, t.Terms[0], o.rank)
	if o.rank == productRank {
		dst = append(dst, o.text...)
	} else {
		dst = append(append(append(dst, ' '), o.text...), ' ')
	}
	return appendTerm(dst, t.Terms[1], o.rank+1)
}

func appendTerms(dst []byte, terms []*Term) []byte {
	for i, t := range terms {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendTerm(dst, t, orRank)
	}
	return dst
}

func appendColumn(dst []byte, t *Term) []byte {
	dst = append(dst, t.name...)
	_, isValue := formulaValues[t.name]
	switch {
	case t.key == "":
		return dst
	case isValue && len(t.Terms) == 0 && isName(t.key):
		return append(append(dst, '.'), t.key...)
	}
	dst = appendQuoted(append(dst, '('), t.key)
	if len(t.Terms) > 0 {
		dst = appendTerms(append(dst, ", "...), t.Terms)
	}
	return append(dst, ')')
}

// isName says whether a key can be written after a point.
func isName(key string) bool {
	return isNameStart(key[0]) && !strings.ContainsFunc(key, func(r rune) bool { return !isNameStart(byte(r)) && !isDigit(byte(r)) })
}

// appendNumber writes the shortest text that reads as the same number, as JSON has numbers.
func appendNumber(dst []byte, value float64) []byte {
	format := byte('f')
	switch {
	case value != value:
		return append(dst, skip...)
	case value != 0 && (math.Abs(value) < 1e-6 || math.Abs(value) >= 1e21):
		format = 'e'
	}
	return strconv.AppendFloat(dst, value, format, -1, 64)
}
