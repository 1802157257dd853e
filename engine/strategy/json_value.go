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

func (v *jsonValue) isObject() bool { return v.is("{") }
func (v *jsonValue) isArray() bool  { return v.is("[") }

// describe is how error texts call the value that was found.
func (v *jsonValue) describe() string {
	switch {
	case v.isObject():
		return "an object"
	case v.isArray():
		return "an array"
	}
	return v.String()
}

// maxJSONNesting is how deep a valid strategy can nest objects and arrays: an or_else takes two levels, and a plugin's
// configuration has its own. It bounds the recursion of the reader.
const maxJSONNesting = 2*MaxDepth + maxConfigNesting

type jsonReader struct {
	*scanner
	token    token
	embedded bool // in the text form, where there are no pointers: mistakes are told by line and column
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

func (r *jsonReader) advance() error {
	next, err := r.scan()
	if err == nil {
		r.token = next
	}
	return err
}

// value reads one value and steps past it. path is its JSON pointer.
func (r *jsonReader) value(path string, nesting int) (v jsonValue, err error) {
	v.token = r.token
	switch {
	case nesting > maxJSONNesting && (v.isObject() || v.isArray()):
		err = r.mistake(path, v.at, tooDeep)
	case v.isObject():
		err = r.object(&v, path, nesting)
	case v.isArray():
		err = r.array(&v, path, nesting)
	case v.kind == stringToken, v.kind == numberToken,
		v.kind == nameToken && (v.text == "true" || v.text == "false" || v.text == "null"):
		err = r.advance()
	default:
		err = r.problem(v.at, "expected a value, found %s", v.token)
	}
	return v, err
}

// mistake is one that is not of the grammar.
func (r *jsonReader) mistake(path string, at int, what string) error {
	if r.embedded {
		return r.problem(at, "this %s", what)
	}
	return invalid(path, "%s", what)
}

func (r *jsonReader) object(v *jsonValue, path string, nesting int) error {
	return r.list("}", func() error {
		name := r.token
		if name.kind != stringToken {
			return r.problem(name.at, "expected the name of a field in double quotes, found %s", name)
		}
		at := path + "/" + escapePointer(name.text)
		if slices.Contains(v.names, name.text) {
			return r.mistake(at, name.at, "is given twice; give each field once")
		}
		if err := r.advance(); err != nil {
			return err
		}
		if !r.token.is(":") {
			return r.problem(r.token.at, "expected ':', found %s", r.token)
		}
		if err := r.advance(); err != nil {
			return err
		}
		item, err := r.value(at, nesting+1)
		v.names = append(v.names, name.text)
		v.items = append(v.items, item)
		return err
	})
}

func (r *jsonReader) array(v *jsonValue, path string, nesting int) error {
	return r.list("]", func() error {
		item, err := r.value(path+"/"+strconv.Itoa(len(v.items)), nesting+1)
		v.items = append(v.items, item)
		return err
	})
}

// list reads from the opening mark to the closing one, and the elements between by the given function.
func (r *jsonReader) list(closing string, element func() error) error {
	if err := r.advance(); err != nil {
		return err
	}
	if r.token.is(closing) {
		return r.advance()
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if r.token.is(closing) {
			return r.advance()
		}
		if !r.token.is(",") {
			return r.problem(r.token.at, "expected ',' or '%s', found %s", closing, r.token)
		}
		if err := r.advance(); err != nil {
			return err
		}
	}
}
