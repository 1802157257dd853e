package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Violation is one thing wrong: where (a JSON pointer, "" for the whole) and the rest of a sentence about it.
type Violation struct {
	Pointer string
	Detail  string
}

func (v Violation) String() string { return v.Pointer + " " + v.Detail }

// maxDepth bounds objects within objects: enough for a schema of eight levels.
const maxDepth = 20

// findings collects violations. There are at most maxFindings: a document of nothing but faults must not make a long answer.
type findings struct{ list []Violation }

const maxFindings = 100

func (f *findings) add(pointer, format string, args ...any) {
	if len(f.list) < maxFindings {
		f.list = append(f.list, Violation{pointer, fmt.Sprintf(format, args...)})
	}
}

// parse reads JSON into nil, bool, string, int64, float64, []any and map[string]any. Unlike encoding/json it refuses keys that
// come twice and text that is not UTF-8, so that there is one way to read a document.
func parse(raw []byte, f *findings) (tree any, ok bool) {
	if !utf8.Valid(raw) {
		f.add("", "is not UTF-8")
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	before := len(f.list)
	tree, err := parseValue(d, "", 0, f)
	if err == nil {
		if _, err = d.Token(); err == nil || !errors.Is(err, io.EOF) {
			err = errors.New("there is something after the value")
		} else {
			err = nil
		}
	}
	if err != nil {
		f.add("", "is not valid JSON: %v", err)
	}
	return tree, len(f.list) == before
}

func parseValue(d *json.Decoder, pointer string, depth int, f *findings) (any, error) {
	token, err := d.Token()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}
	switch t := token.(type) {
	case json.Number:
		return parseNumber(t, pointer, f), nil
	case json.Delim:
		if t == '[' {
			return parseArray(d, pointer, depth, f)
		}
		return parseObject(d, pointer, depth, f)
	}
	return token, nil
}

func parseArray(d *json.Decoder, pointer string, depth int, f *findings) (any, error) {
	list := []any{}
	for d.More() {
		v, err := parseValue(d, pointer+"/"+strconv.Itoa(len(list)), depth+1, f)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.Token()
	return list, err
}

func parseObject(d *json.Decoder, pointer string, depth int, f *findings) (any, error) {
	object := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, ok := token.(string)
		if !ok {
			return nil, errors.New("a key is no string")
		}
		at := pointer + "/" + escape(key)
		if _, twice := object[key]; twice {
			f.add(at, "is given twice; give each key once")
		}
		if object[key], err = parseValue(d, at, depth+1, f); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return object, err
}

// parseNumber keeps whole numbers whole, 1.0 and 1e3 included, as JSON Schema has it.
func parseNumber(text json.Number, pointer string, f *findings) any {
	if n, err := strconv.ParseInt(text.String(), 10, 64); err == nil {
		return n
	}
	x, err := strconv.ParseFloat(text.String(), 64)
	if err != nil || math.IsInf(x, 0) {
		f.add(pointer, "is a number that no float64 holds")
		return int64(0)
	}
	if x == math.Trunc(x) && math.Abs(x) <= 1<<53 {
		return int64(x)
	}
	return x
}

func escape(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

// appendCanonical writes a tree in one way only: keys sorted, no spaces, numbers in their shortest form.
func appendCanonical(dst []byte, tree any) []byte {
	switch v := tree.(type) {
	case map[string]any:
		dst = append(dst, '{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendText(dst, key), ':')
			dst = appendCanonical(dst, v[key])
		}
		return append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for i, x := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendCanonical(dst, x)
		}
		return append(dst, ']')
	case string:
		return appendText(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case float64:
		return strconv.AppendFloat(dst, v, 'g', -1, 64)
	case bool:
		return strconv.AppendBool(dst, v)
	}
	return append(dst, "null"...)
}

func appendText(dst []byte, text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil { // a string always encodes
		return append(dst, `""`...)
	}
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}
