package wire

import (
	"encoding/base64"
	"math/bits"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/quern-queue/quern/sdk/api"
)

// text is a JSON string for the writers: both halves of the package use them, and a conversion would copy.
type text interface{ ~string | ~[]byte }

// AppendString appends s as a JSON string, byte for byte what encoding/json writes without HTML escaping: quotes,
// backslashes, control characters and U+2028/U+2029 are escaped, invalid UTF-8 becomes \ufffd.
func AppendString[T text](dst []byte, s T) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, s)
	return append(dst, '"')
}

// AppendBytes appends b in the form of api.Bytes: {"text":...} when it is valid UTF-8, else {"base64":...}. Nil is null.
func AppendBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, "null"...)
	}
	if !utf8.Valid(b) {
		dst = append(dst, `{"base64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, b)
		return append(dst, `"}`...)
	}
	dst = append(dst, `{"text":"`...)
	dst = appendEscaped(dst, b)
	return append(dst, `"}`...)
}

// AppendMetaEntry appends one entry to a JSON object of meta that begins at the start of dst: the opening brace when dst is
// empty, else a comma instead of the closing brace. So an object is built entry by entry in a buffer of its own, and is
// complete after each.
func AppendMetaEntry(dst []byte, key string, value api.MetaValue) []byte {
	if len(dst) == 0 {
		dst = append(dst, '{')
	} else {
		dst[len(dst)-1] = ','
	}
	dst = AppendString(dst, key)
	dst = append(dst, ':')
	dst = appendMetaValue(dst, value)
	return append(dst, '}')
}

func appendMetaValue(dst []byte, value api.MetaValue) []byte {
	if value.IsInt() {
		return strconv.AppendInt(dst, value.Int(), 10)
	}
	return AppendString(dst, value.Text())
}

// AppendTime appends a moment (milliseconds since 1970, years up to 9999) as a JSON string in api.TimeFormat.
func AppendTime(dst []byte, ms int64) []byte {
	days, rest := floorDiv(ms, 86_400_000)
	year, month, day := civilFromDays(days)
	hour, rest := rest/3_600_000, rest%3_600_000
	minute, rest := rest/60_000, rest%60_000
	second, milli := rest/1000, rest%1000
	return append(dst, '"',
		digit(year/1000), digit(year/100), digit(year/10), digit(year), '-',
		digit(month/10), digit(month), '-', digit(day/10), digit(day), 'T',
		digit(hour/10), digit(hour), ':', digit(minute/10), digit(minute), ':',
		digit(second/10), digit(second), '.', digit(milli/100), digit(milli/10), digit(milli), 'Z', '"')
}

func digit(n int64) byte { return '0' + byte(n%10) }

func floorDiv(n, by int64) (quotient, rest int64) {
	quotient, rest = n/by, n%by
	if rest < 0 {
		return quotient - 1, rest + by
	}
	return quotient, rest
}

// civilFromDays is the inverse of daysFromCivil, for years from 1 on.
func civilFromDays(days int64) (year, month, day int64) {
	days += 719468
	era, dayOfEra := floorDiv(days, 146097)
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	shifted := (5*dayOfYear + 2) / 153 // months since March
	day = dayOfYear - (153*shifted+2)/5 + 1
	month = (shifted+2)%12 + 1
	year = yearOfEra + era*400
	if month <= 2 {
		year++
	}
	return year, month, day
}

// appendID appends a submission id as a JSON string.
func appendID(dst []byte, id uint64) []byte {
	dst = append(dst, '"')
	dst = strconv.AppendUint(dst, id, 10)
	return append(dst, '"')
}

const hexDigits = "0123456789abcdef"

// appendEscaped appends the inside of a JSON string, stretch by stretch of bytes that stand for themselves.
func appendEscaped[T text](dst []byte, s T) []byte {
	start := 0
	for i := 0; ; {
		i = plainEnd(s, i)
		if i == len(s) {
			return append(dst, s[start:]...)
		}
		c := s[i]
		if c < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
			continue
		}
		r, size := decodeRune(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(append(dst, s[start:i]...), `\ufffd`...)
			start = i + size
		case r == '\u2028' || r == '\u2029':
			dst = append(append(dst, s[start:i]...), `\u202`...)
			dst = append(dst, hexDigits[r&0xf])
			start = i + size
		}
		i += size
	}
}

// plainEnd is the index, from i on, of the first byte that is a quote, a backslash, a control character or not ASCII.
func plainEnd[T text](s T, i int) int {
	for ; i+8 <= len(s); i += 8 {
		if found := special(loadWord(s[i : i+8])); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c == '"' || c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			return i
		}
	}
	return len(s)
}

// loadWord reads eight bytes of s; the compiler makes one load of it.
func loadWord[T text](s T) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func decodeRune[T text](s T) (rune, int) {
	var head [utf8.UTFMax]byte
	return utf8.DecodeRune(head[:copy(head[:], s)])
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}

// member appends the comma, where one is due, and the name of an object's next field.
func member(dst []byte, first *bool, name string) []byte {
	if *first {
		*first = false
		dst = append(dst, '"')
	} else {
		dst = append(dst, ',', '"')
	}
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

// Buffers lends byte buffers for documents. The zero value is ready; it may be used from many goroutines and must not be
// copied. It belongs to a server or a client rather than to the package, so that nothing here changes behind its back.
type Buffers struct{ pool sync.Pool }

// Buffer is a lent buffer; B is empty with whatever capacity it has grown to.
type Buffer struct{ B []byte }

// Get lends a buffer.
func (p *Buffers) Get() *Buffer {
	if b, ok := p.pool.Get().(*Buffer); ok {
		b.B = b.B[:0]
		return b
	}
	return &Buffer{B: make([]byte, 0, 4096)}
}

// Put takes a buffer back; nothing may point into it any more. Buffers of more than 1 MiB are left to the collector.
func (p *Buffers) Put(b *Buffer) {
	if cap(b.B) <= maxKept {
		p.pool.Put(b)
	}
}
