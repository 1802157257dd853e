package queue

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// Fingerprint names the kind of an error: 16 hexadecimal digits, the beginning of the SHA-256 of its Pattern. Errors that
// differ only in what Pattern replaces have the same one. It is part of the interface: stored filters use it.
func Fingerprint(text string) string {
	var room [256]byte // most errors fit, and allocate nothing
	sum := sha256.Sum256(appendPattern(room[:0], text))
	var name [16]byte
	hex.Encode(name[:], sum[:8])
	return string(name[:])
}

// Pattern is an error text without the parts that change from one occurrence to the next. It replaces, from left to right, by the first
// rule that fits:
//
//	'...' "..." `...`          <s>     closed on the same line; a quote after a letter or digit is an apostrophe
//	8-4-4-4-12 hex digits      <uuid>  not inside a longer word
//	0x and hex digits          <hex>
//	8 or more hex digits       <hex>   with a digit and a letter among them, not inside a longer word
//	fewer of them              <n>     as short ids have now digits alone, now letters too
//	digits                     <n>     with a fraction (1.5), also behind letters (worker7)
//
// All white space becomes single blanks, and none at the ends. Nothing else changes, so letters' case counts.
func Pattern(text string) string { return string(appendPattern(nil, text)) }

// appendPattern appends the pattern to b, which is empty.
func appendPattern(b []byte, text string) []byte {
	for i := 0; i < len(text); {
		inWord := i > 0 && wordByte(text[i-1])
		n, as := 0, ""
		switch c := text[i]; {
		case c == '\'' || c == '"' || c == '`':
			if !inWord {
				n, as = quoted(text[i:]), "<s>"
			}
		case hexByte(c):
			n, as = variable(text[i:], inWord)
		}
		if n == 0 {
			b = append(b, text[i])
			i++
			continue
		}
		b = append(b, as...)
		i += n
	}
	if singleBlanks(b) {
		return b
	}
	return append(b[:0], strings.Join(strings.Fields(string(b)), " ")...)
}

// singleBlanks says that the only white space is single blanks between words. It may return false for such a text, too.
func singleBlanks(b []byte) bool {
	blank := true // before the first byte: no blank may follow
	for _, c := range b {
		if c >= utf8.RuneSelf || c < ' ' || c == ' ' && blank {
			return false
		}
		blank = c == ' '
	}
	return !blank || len(b) == 0
}

// quoted is the length of a quotation at the start of text, 0 when it is not closed on its line.
func quoted(text string) int {
	end := strings.IndexAny(text[1:], text[:1]+"\n")
	if end < 0 || text[1+end] == '\n' {
		return 0
	}
	return end + 2
}

// variable is the length and the stand-in of an id or number at the start of text.
func variable(text string, inWord bool) (n int, as string) {
	if !inWord {
		if n = uuid(text); n > 0 {
			return n, "<uuid>"
		}
		if strings.HasPrefix(text, "0x") || strings.HasPrefix(text, "0X") {
			if n = hexRun(text[2:]); n > 0 {
				return n + 2, "<hex>"
			}
		}
		if n = hexRun(text); n > 0 && (n == len(text) || !wordByte(text[n])) &&
			strings.ContainsAny(text[:n], "0123456789") && strings.Trim(text[:n], "0123456789") != "" {
			if n < 8 {
				return n, "<n>"
			}
			return n, "<hex>"
		}
	}
	n = digits(text)
	if n > 0 && n < len(text) && text[n] == '.' {
		if fraction := digits(text[n+1:]); fraction > 0 {
			n += 1 + fraction
		}
	}
	return n, "<n>"
}

func uuid(text string) int {
	const length = 36
	if len(text) < length || len(text) > length && wordByte(text[length]) {
		return 0
	}
	for i := range length {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash && text[i] != '-' || !dash && !hexByte(text[i]) {
			return 0
		}
	}
	return length
}

func hexRun(text string) int {
	n := 0
	for n < len(text) && hexByte(text[n]) {
		n++
	}
	return n
}

func digits(text string) int {
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return n
}

func hexByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func wordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}
