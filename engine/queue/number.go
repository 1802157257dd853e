package queue

import "strconv"

// This file writes numbers in sentences of the server. The dashboard and the command line show these sentences beside their own numbers, so
// both must look the same.

// Compact is a number with three digits and a unit, and exact below 10,000: 9,999, then 12.3 k, 98.4 M, 1.20 G.
func Compact(n uint64) string {
	if n < 10_000 {
		return Exact(int64(n))
	}
	x, unit := float64(n), 0
	for x >= 999.5 && unit < len("kMGT") {
		x, unit = x/1000, unit+1
	}
	return strconv.FormatFloat(x, 'f', max(0, 3-len(strconv.Itoa(int(x)))), 64) + " " + "kMGT"[unit-1:unit]
}

// Exact is a number with a comma before each group of three digits: 86,400,000.
func Exact(n int64) string {
	text := strconv.FormatInt(n, 10)
	for end := len(text) - 3; end > 0 && text[end-1] != '-'; end -= 3 {
		text = text[:end] + "," + text[end:]
	}
	return text
}

// One is the singular for 1, and the plural for all other numbers.
func One(n uint64, singular, plural string) string {
	if n == 1 {
		return singular
	}
	return plural
}

// Counted is a number with its noun, of which the plural ends in s.
func Counted(n uint64, noun string) string { return Compact(n) + " " + One(n, noun, noun+"s") }

// Exactly is Counted with all digits.
func Exactly(n uint64, noun string) string {
	return strconv.FormatUint(n, 10) + " " + One(n, noun, noun+"s")
}
