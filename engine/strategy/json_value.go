package strategy

import (
	"slices"
	"strconv"
)

// The JSON form is read in two steps: here into plain values, strictly (no duplicate fields, no trailing data), because
// "type" may be the last field of its object; then, in parse_json.go, into blocks.

// jsonValue is one value of the input. Its token is the value itself, or the opening mark of an object or an array.
type jsonValue struct {
	token
	names []string    // of an object, parallel to items
	items []jsonValue // of an object or an array
}

func (j *jsonValue) isObject() bool { return j.is("{") }
func (j *jsonValue) isArray() bool  { return j.is("[") }

// describe is the name of the found value in error texts.
func (j *jsonValue) describe() string {
	switch {
	case j.isObject():
		return "an object"
	case j.isArray():
		return "an array"
	}
	return j.String()
}

// maxJSONNesting is how deep a valid strategy can nest objects and arrays: an or_else takes two levels, and a plugin's
// configuration has its own. It bounds the recursion of the reader.
const maxJSONNesting = 2*MaxDepth + maxConfigNesting

type jsonReader struct {
	*scanner
	token    token
	embedded bool // in the text form, where there are no pointers: mistakes have a line and a column
}

func readJSON(source string) (jsonValue, error) {
	s, err := newScanner(source, pointer, "is not valid JSON")
	if err != nil {
		return jsonValue{}, err
	}
	r := jsonReader{scanner: s}
	if err := r.advance(); err != nil {
		return jsonValue{}, err
	}
	v, err := r.value(pointer, 1)
	if err != nil {
		return jsonValue{}, err
	}
	if r.token.kind != endToken {
		return jsonValue{}, s.problem(r.token.at, "expected nothing more after the strategy, found %s", r.token)
	}
	return v, nil
}

func (j *jsonReader) advance() error {
	next, err := j.scan()
	if err == nil {
		j.token = next
	}
	return err
}

// value reads one value and steps past it. path is its JSON pointer.
func (j *jsonReader) value(path string, nesting int) (v jsonValue, err error) {
	v.token = j.token
	switch {
	case nesting > maxJSONNesting && (v.isObject() || v.isArray()):
		err = j.mistake(path, v.at, tooDeep)
	case v.isObject():
		err = j.object(&v, path, nesting)
	case v.isArray():
		err = j.array(&v, path, nesting)
	case v.kind == stringToken, v.kind == numberToken,
		v.kind == nameToken && (v.text == "true" || v.text == "false" || v.text == "null"):
		err = j.advance()
	default:
		err = j.problem(v.at, "expected a value, found %s", v.token)
	}
	return v, err
}

// mistake is the error of a mistake that is not one of grammar.
func (j *jsonReader) mistake(path string, at int, what string) error {
	if j.embedded {
		return j.problem(at, "this %s", what)
	}
	return invalid(path, "%s", what)
}

func (j *jsonReader) object(v *jsonValue, path string, nesting int) error {
	return j.list("}", func() error {
		name := j.token
		if name.kind != stringToken {
			return j.problem(name.at, "expected the name of a field in double quotes, found %s", name)
		}
		at := path + "/" + escapePointer(name.text)
		if slices.Contains(v.names, name.text) {
			return j.mistake(at, name.at, "is given twice; give each field once")
		}
		if err := j.advance(); err != nil {
			return err
		}
		if !j.token.is(":") {
			return j.problem(j.token.at, "expected ':', found %s", j.token)
		}
		if err := j.advance(); err != nil {
			return err
		}
		item, err := j.value(at, nesting+1)
		v.names = append(v.names, name.text)
		v.items = append(v.items, item)
		return err
	})
}

func (j *jsonReader) array(v *jsonValue, path string, nesting int) error {
	return j.list("]", func() error {
		item, err := j.value(path+"/"+strconv.Itoa(len(v.items)), nesting+1)
		v.items = append(v.items, item)
		return err
	})
}

// list reads from the opening mark to the closing one, and the elements between by the given function.
func (j *jsonReader) list(closing string, element func() error) error {
	if err := j.advance(); err != nil {
		return err
	}
	if j.token.is(closing) {
		return j.advance()
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if j.token.is(closing) {
			return j.advance()
		}
		if !j.token.is(",") {
			return j.problem(j.token.at, "expected ',' or '%s', found %s", closing, j.token)
		}
		if err := j.advance(); err != nil {
			return err
		}
	}
}
