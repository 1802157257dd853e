package wire

import (
	"math"
	"strconv"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

const (
	boolDetail   = "must be true or false"
	int64Detail  = "must be a whole number from -9223372036854775808 to 9223372036854775807"
	uint64Detail = "must be a whole number from 0 to 18446744073709551615"
	uint32Detail = "must be a whole number from 0 to 4294967295"
	uint16Detail = "must be a whole number from 0 to 65535"
	uint8Detail  = "must be a whole number from 0 to 255"
	numberDetail = "must be a number"
)

// number moves over a number by the grammar of JSON.
func (s *scanner) number() {
	if s.bad {
		return
	}
	if s.at('-') {
		s.pos++
	}
	switch {
	case s.at('0'):
		s.pos++
	case s.digits() == 0:
		s.fail("")
		return
	}
	if s.at('.') {
		s.pos++
		if s.digits() == 0 {
			s.fail("")
			return
		}
	}
	if s.at('e') || s.at('E') {
		s.pos++
		if s.at('+') || s.at('-') {
			s.pos++
		}
		if s.digits() == 0 {
			s.fail("")
		}
	}
}

func (s *scanner) at(c byte) bool { return s.pos < len(s.data) && s.data[s.pos] == c }

func (s *scanner) digits() int {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos]-'0' <= 9 {
		s.pos++
	}
	return s.pos - start
}

// count reads a whole number of 32 bits.
func (s *scanner) count() uint32 { return uint32(s.uint(math.MaxUint32, uint32Detail)) }

// uint reads a whole number from 0 to most. No sign, no fraction, no exponent.
func (s *scanner) uint(most uint64, detail string) uint64 {
	if s.bad {
		return 0
	}
	s.peek()
	n, ok := s.magnitude()
	if !ok || n > most {
		s.fail(detail)
		return 0
	}
	return n
}

// int reads an int64. Minus zero is zero.
func (s *scanner) int(detail string) int64 {
	if s.bad {
		return 0
	}
	negative := s.peek() == '-'
	if negative {
		s.pos++
	}
	n, ok := s.magnitude()
	switch {
	case ok && !negative && n <= math.MaxInt64:
		return int64(n)
	case ok && negative && n <= 1<<63:
		return -int64(n)
	}
	s.fail(detail)
	return 0
}

// float reads a number.
func (s *scanner) float() float64 {
	if s.bad {
		return 0
	}
	s.peek()
	start := s.pos
	s.number()
	n, err := strconv.ParseFloat(string(s.data[start:s.pos]), 64)
	if err != nil {
		s.bad = false // the grammar's refusal does not say what the field wants
		s.fail(numberDetail)
		return 0
	}
	return n
}

// magnitude reads digits and refuses what would make them something else than a whole number of 64 bits.
func (s *scanner) magnitude() (n uint64, ok bool) {
	start := s.pos
	for s.pos < len(s.data) {
		digit := uint64(s.data[s.pos] - '0')
		if digit > 9 {
			break
		}
		if n > (math.MaxUint64-digit)/10 {
			return 0, false
		}
		n = n*10 + digit
		s.pos++
	}
	count := s.pos - start
	if count == 0 || count > 1 && s.data[start] == '0' || s.at('.') || s.at('e') || s.at('E') {
		return 0, false
	}
	return n, true
}

func (s *scanner) bool() bool {
	switch s.peek() {
	case 't':
		s.literal("true")
		return !s.bad
	case 'f':
		s.literal("false")
		return false
	}
	s.fail(boolDetail)
	return false
}

// time reads a moment as milliseconds since 1970.
func (s *scanner) time() int64 {
	if s.bad {
		return 0
	}
	if s.peek() != '"' {
		s.fail(api.TimeDetail)
		return 0
	}
	text := s.quoted()
	if s.bad {
		return 0
	}
	if ms, ok := parseTime(text); ok {
		return ms
	}
	var t time.Time
	if err := t.UnmarshalText(text); err != nil || t.UnixMilli() <= 0 {
		s.fail(api.TimeDetail)
		return 0
	}
	return t.UnixMilli()
}

// parseTime reads exactly api.TimeFormat, the form that the server writes; ok is false for any other.
func parseTime(text []byte) (ms int64, ok bool) {
	if len(text) != len(api.TimeFormat) || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' ||
		text[16] != ':' || text[19] != '.' || text[23] != 'Z' {
		return 0, false
	}
	year, ok1 := decimal(text[0:4])
	month, ok2 := decimal(text[5:7])
	day, ok3 := decimal(text[8:10])
	hour, ok4 := decimal(text[11:13])
	minute, ok5 := decimal(text[14:16])
	second, ok6 := decimal(text[17:19])
	milli, ok7 := decimal(text[20:23])
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && ok7) || hour > 23 || minute > 59 || second > 59 || day == 0 || day > 28 ||
		month == 0 || month > 12 || year < 1971 {
		return 0, false // days 29 to 31 need the calendar: the slow way knows it
	}
	days := daysFromCivil(year, month, day)
	return ((days*24+hour)*60+minute)*60_000 + second*1000 + milli, true
}

func decimal(digits []byte) (int64, bool) {
	var n int64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// daysFromCivil counts the days from 1970-01-01 in the Gregorian calendar, for years from 1 on. The year begins in March,
// so that the leap day is its last.
func daysFromCivil(year, month, day int64) int64 {
	if month <= 2 {
		year--
	}
	era := year / 400
	yearOfEra := year - era*400
	dayOfYear := (153*((month+9)%12)+2)/5 + day - 1
	return era*146097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719468
}

// id reads a submission id: a decimal number of at most 63 bits in a string.
func (s *scanner) id() uint64 {
	const detail = "must be a decimal number in a string"
	text := s.str()
	if s.bad {
		return 0
	}
	var n uint64
	for _, c := range text {
		digit := uint64(c - '0')
		if digit > 9 || n > (math.MaxInt64-digit)/10 {
			s.fail(detail)
			return 0
		}
		n = n*10 + digit
	}
	if len(text) == 0 {
		s.fail(detail)
	}
	return n
}

// keep reads a string into dst. It allocates nothing if dst holds the same string already.
func (s *scanner) keep(dst *string) {
	text := s.str()
	if !s.bad && *dst != string(text) {
		*dst = string(text)
	}
}
