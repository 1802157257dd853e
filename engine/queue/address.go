package queue

import (
	"math"
	"net/url"
	"strconv"
	"strings"
)

// This file reads and writes meta values as text in paths and queries.

// ReadValue reads a meta value of a path or a query: a bare whole number is the integer, the text behind "s:" is a
// string, and so is anything else. A text that looks like a number but is not the shortest form of an int64, such as
// 007, is refused with the pointer. As a string it would find nothing, and its sender would believe that there is
// nothing.
func ReadValue(pointer, text string) (MetaValue, error) {
	if rest, ok := strings.CutPrefix(text, "s:"); ok {
		return StringValue(rest), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && strconv.FormatInt(n, 10) == text {
		return IntValue(n), nil
	}
	if looksLikeNumber(text) {
		return MetaValue{}, Invalid(pointer, "looks like a number but is none from %d to %d in its "+
			"shortest form; put s: before it if it is a string", int64(math.MinInt64), int64(math.MaxInt64))
	}
	return StringValue(text), nil
}

// looksLikeNumber says whether text has only digits after an optional sign. ParseInt or its shortest form refuse some of
// these: 007, +7, and numbers over 64 bits.
func looksLikeNumber(text string) bool {
	digits := strings.TrimLeft(text, "+-")
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

// ValueAddress is the path of a meta value of a queue. A string gets its "s:" exactly when ReadValue would read it as
// something else, or when it would not be itself in a path, as "..".
func ValueAddress(queue string, entry MetaEntry) string {
	text := entry.Value.Text()
	if entry.Value.IsInt() {
		text = strconv.FormatInt(entry.Value.Int(), 10)
	} else if again, err := ReadValue("", text); err != nil || again != entry.Value || strings.Trim(text, ".") == "" {
		text = "s:" + text
	}
	return "/v1/queues/" + url.PathEscape(queue) + "/meta-keys/" + url.PathEscape(entry.Key) + "/values/" + url.PathEscape(text)
}
