package strategy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// read checks the argument of a parameter that is not a block; both forms come here with the token they found. The text of
// `wrong` continues a sentence that begins with the parameter's name or its JSON pointer.
func (p parameter) read(t token) (arg argument, wrong string) {
	switch p.kind {
	case keyParameter:
		arg.key, wrong = readKey(t)
	case tenantParameter:
		arg.key, wrong = readTenantKey(t)
	case valueParameter:
		arg.value, wrong = readValue(t)
	case maxParameter:
		if p.percents && t.kind == stringToken {
			arg.percent, wrong = readPercent(t)
			break
		}
		arg.max, wrong = readMax(t)
	case costParameter:
		arg.cost, wrong = readCost(t)
	case missingParameter:
		arg.missing, wrong = readMissing(t)
	case durationParameter:
		arg.per, wrong = readDuration(t)
	case pluginParameter:
		arg.name, arg.version, wrong = readPlugin(t)
	case settingParameter:
		arg, wrong = p.readSetting(t)
	default:
		panic("strategy: this kind is not read from a token")
	}
	return arg, wrong
}

func readKey(t token) (key queue.MetaKey, wrong string) {
	if t.kind != stringToken {
		return "", fmt.Sprintf("must be a meta key, a string in double quotes; found %s", t)
	}
	var invalid *queue.Error
	if err := queue.ValidMetaKey(t.text); errors.As(err, &invalid) && len(invalid.Problems) > 0 {
		return "", "must be a meta key; this " + invalid.Problems[0].Detail
	} else if err != nil {
		return "", "must be a meta key: " + err.Error()
	}
	return t.text, ""
}

func readTenantKey(t token) (key queue.MetaKey, wrong string) {
	if t.kind == stringToken && t.text == SubmissionKey {
		return SubmissionKey, ""
	}
	if key, wrong = readKey(t); wrong != "" {
		wrong += fmt.Sprintf("; or %q, which makes every submission a tenant of its own", SubmissionKey)
	}
	return key, wrong
}

func readValue(t token) (value queue.MetaValue, wrong string) {
	switch t.kind {
	case stringToken:
		if len(t.text) > queue.MaxMetaValueBytes {
			return value, fmt.Sprintf("must be at most %d bytes long; found %d", queue.MaxMetaValueBytes, len(t.text))
		}
		return queue.StringValue(t.text), ""
	case numberToken:
		n, err := strconv.ParseInt(t.text, 10, 64)
		if err != nil {
			return value, fmt.Sprintf("must be a string or a whole number from -2^63 to 2^63-1, without point or exponent; found %s", t)
		}
		return queue.IntValue(n), ""
	}
	return value, fmt.Sprintf("must be a string in double quotes or a whole number; found %s", t)
}

func readMax(t token) (most uint32, wrong string) {
	n, err := strconv.ParseInt(t.text, 10, 64)
	if t.kind != numberToken || err != nil || n < 1 || n > MaxLimit {
		return 0, fmt.Sprintf("must be a whole number from 1 to %d, without point or exponent; found %s", MaxLimit, t)
	}
	return uint32(n), ""
}

func readCost(t token) (cost Cost, wrong string) {
	if at := slices.Index(costs[:], t.text); at >= 0 && (t.kind == nameToken || t.kind == stringToken) {
		return Cost(at), ""
	}
	return 0, fmt.Sprintf("must be %s: what is shared out, chunks or the time that they are held; found %s",
		strings.Join(costs[:], " or "), t)
}

// opens says whether a token in the text form begins the argument of an optional parameter, rather than the next argument:
// a string, an object, the setting's name, or a bare word in lower case, as no block is.
func (p parameter) opens(t token) bool {
	switch p.kind {
	case keyParameter:
		return t.kind == stringToken
	case configParameter:
		return t.is("{")
	case maxParameter:
		return t.kind != nameToken || !isBlockName(t.text) && t.text != ofMissing.field
	case settingParameter, missingParameter:
		return t.kind == nameToken && t.text == p.field
	}
	return t.kind == nameToken && !isBlockName(t.text)
}

// isBlockName says that a name may be one of a block: other words begin in lower case.
func isBlockName(name string) bool { return name[0] < 'a' || name[0] > 'z' }

// The problems of a strategy as a whole.
var (
	tooDeep = fmt.Sprintf("nests deeper than %d blocks; put fewer blocks inside each other", MaxDepth)
	tooMany = fmt.Sprintf("has more than %d blocks; use fewer", MaxNodes)
)

// escapePointer makes a field name part of a JSON pointer. Names are clipped: no field of ours is long, and an error
// should not carry a long one back.
func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(clip(name))
}

// The shortest and the longest time that a rate may be counted over.
const (
	MinPer = queue.MinPer
	MaxPer = queue.MaxPer
)

// unit is a unit of time as strategies write it.
type unit struct {
	name string
	is   time.Duration
}

// units go from the largest to the smallest.
var units = []unit{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}

// readDuration reads a whole number with a unit, as in 500ms or 1m.
func readDuration(t token) (d time.Duration, wrong string) {
	if t.kind == stringToken {
		if d, is := ParsePer(t.text); is {
			return d, ""
		}
	}
	return 0, fmt.Sprintf("must be a time from 10ms to 7d as a string, a whole number with ms, s, m, h or d, as in \"1m\"; found %s", t)
}

// ParsePer reads the time of a rate: a whole number with ms, s, m, h or d.
func ParsePer(text string) (d time.Duration, is bool) {
	digits := 0
	for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
		digits++
	}
	n, err := strconv.ParseUint(text[:digits], 10, 32)
	for _, u := range units {
		if err != nil || text[digits:] != u.name {
			continue
		}
		if d = time.Duration(n) * u.is; n <= uint64(MaxPer/u.is) && d >= MinPer {
			return d, true
		}
	}
	return 0, false
}

// appendDuration writes a duration with the largest unit that divides it.
func appendDuration(dst []byte, d time.Duration) []byte {
	for _, u := range units {
		if d%u.is == 0 {
			return append(strconv.AppendInt(dst, int64(d/u.is), 10), u.name...)
		}
	}
	return append(dst, d.String()...) // of a limit made by hand
}
