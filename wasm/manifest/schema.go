package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/quern-queue/quern/sdk/abi"
)

// Schema describes the configuration that a plugin accepts: a subset of JSON Schema.
//
//	type                  required: object, string, integer, number or boolean; the schema itself is an object
//	properties            of an object: a schema for each
//	required              of an object: names that must be given; each stands in properties
//	additionalProperties  of an object: false (default true) or one schema for all that properties does not name
//	minimum, maximum      of a number or an integer, inclusive
//	enum                  the values that are allowed
//	default               what a missing property becomes; it satisfies its own schema
//	title, description    for people
//
// Anything else is refused, so that no plugin relies on a check that is not made.
type Schema struct {
	kind       string
	properties map[string]*Schema
	required   []string
	others     *Schema // of additionalProperties
	closed     bool    // additionalProperties: false
	minimum    any     // int64 or float64, nil for none
	maximum    any
	enum       []any
	fallback   any
	hasDefault bool
}

// maxSchemaDepth bounds the sub-schemas on one path; maxDepth bounds the document already.
const maxSchemaDepth = 8

func readSchema(tree any, pointer string, f *findings) *Schema {
	s := (&reader{f}).schema(tree, pointer, 0)
	if s != nil && s.kind != "object" && s.kind != "" {
		f.add(pointer+"/type", "must be object: a configuration is an object")
	}
	return s
}

func (r *reader) schema(tree any, pointer string, depth int) *Schema {
	if depth > maxSchemaDepth {
		r.add(pointer, "is nested deeper than %d schemas", maxSchemaDepth)
		return nil
	}
	o := r.object(pointer, tree, "type", "properties", "required", "additionalProperties", "minimum", "maximum", "enum",
		"default", "title", "description")
	if o == nil {
		return nil
	}
	s := &Schema{properties: map[string]*Schema{}}
	s.kind, _ = o["type"].(string)
	if !slices.Contains([]string{"object", "string", "integer", "number", "boolean"}, s.kind) {
		r.add(pointer+"/type", "must be one of object, string, integer, number, boolean")
		s.kind = ""
		return s
	}
	for _, key := range []string{"title", "description"} {
		if v, given := o[key]; given {
			if _, ok := v.(string); !ok {
				r.add(pointer+"/"+key, "must be a string")
			}
		}
	}
	before := len(r.findings.list)
	r.objectSchema(s, o, pointer, depth)
	r.numberSchema(s, o, pointer)
	r.valueSchema(s, o, pointer, len(r.findings.list) == before)
	return s
}

func (r *reader) only(kinds string, s *Schema, o map[string]any, pointer string, keys ...string) bool {
	ok := true
	for _, key := range keys {
		if _, given := o[key]; given && !slices.Contains(strings.Fields(kinds), s.kind) {
			r.add(pointer+"/"+key, "does not go with the type %s", s.kind)
			ok = false
		}
	}
	return ok
}

func (r *reader) objectSchema(s *Schema, o map[string]any, pointer string, depth int) {
	if !r.only("object", s, o, pointer, "properties", "required", "additionalProperties") || s.kind != "object" {
		return
	}
	if v, given := o["properties"]; given {
		properties, ok := v.(map[string]any)
		if !ok {
			r.add(pointer+"/properties", "must be an object")
		}
		for _, key := range slices.Sorted(maps.Keys(properties)) {
			s.properties[key] = r.schema(properties[key], pointer+"/properties/"+escape(key), depth+1)
		}
	}
	if v, given := o["required"]; given {
		list, ok := v.([]any)
		if !ok {
			r.add(pointer+"/required", "must be an array")
		}
		for i, name := range list {
			key, ok := name.(string)
			if _, known := s.properties[key]; !ok || !known || slices.Contains(s.required, key) {
				r.add(fmt.Sprintf("%s/required/%d", pointer, i), "must be the name of a property, once")
				continue
			}
			s.required = append(s.required, key)
		}
	}
	switch v := o["additionalProperties"].(type) {
	case nil:
		if _, given := o["additionalProperties"]; given {
			r.add(pointer+"/additionalProperties", "must be true, false or a schema")
		}
	case bool:
		s.closed = !v
	default:
		s.others = r.schema(v, pointer+"/additionalProperties", depth+1)
	}
}

func (r *reader) numberSchema(s *Schema, o map[string]any, pointer string) {
	if !r.only("integer number", s, o, pointer, "minimum", "maximum") {
		return
	}
	for key, into := range map[string]*any{"minimum": &s.minimum, "maximum": &s.maximum} {
		v, given := o[key]
		if given && !isNumber(v) {
			r.add(pointer+"/"+key, "must be a number")
		} else if given {
			*into = v
		}
	}
	if s.minimum != nil && s.maximum != nil && compare(s.minimum, s.maximum) > 0 {
		r.add(pointer+"/minimum", "is over the maximum")
	}
}

// valueSchema reads enum and default, whose values must satisfy what was read before when that is sound.
func (r *reader) valueSchema(s *Schema, o map[string]any, pointer string, sound bool) {
	if !r.only("string integer number boolean", s, o, pointer, "enum") {
		return
	}
	if v, given := o["enum"]; given {
		list, ok := v.([]any)
		if !ok || len(list) == 0 {
			r.add(pointer+"/enum", "must be an array of at least one value")
		}
		for i, x := range list {
			if sound {
				s.check(x, fmt.Sprintf("%s/enum/%d", pointer, i), r.findings)
			}
		}
		s.enum = list
	}
	if v, given := o["default"]; given && sound {
		s.fallback, s.hasDefault = s.check(v, pointer+"/default", r.findings), true
	}
}

// ValidateConfig checks a configuration against a schema and gives its canonical form: defaults filled in, keys sorted, no
// spaces, so that equal configurations are equal bytes. Empty raw stands for {}. Without a schema only {} is allowed.
func ValidateConfig(schema *Schema, raw []byte) (canonical []byte, violations []Violation) {
	f := &findings{}
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	if len(raw) > abi.MaxConfigBytes {
		f.add("", "has %d bytes; at most %d are allowed", len(raw), abi.MaxConfigBytes)
		return nil, f.list
	}
	tree, ok := parse(raw, f)
	if !ok {
		return nil, f.list
	}
	if schema == nil {
		schema = &Schema{kind: "object", closed: true}
	}
	canonical = appendCanonical(nil, schema.check(tree, "", f))
	if len(f.list) == 0 && len(canonical) > abi.MaxConfigBytes {
		f.add("", "has %d bytes with its defaults; at most %d are allowed", len(canonical), abi.MaxConfigBytes)
	}
	if len(f.list) > 0 {
		return nil, f.list
	}
	return canonical, nil
}

// check notes what about v does not satisfy the schema and returns v with the defaults of its missing properties.
func (s *Schema) check(v any, pointer string, f *findings) any {
	ok := false
	switch s.kind {
	case "string":
		_, ok = v.(string)
	case "boolean":
		_, ok = v.(bool)
	case "integer":
		_, ok = v.(int64)
	case "number":
		ok = isNumber(v)
	case "object":
		_, ok = v.(map[string]any)
	}
	switch {
	case !ok:
		f.add(pointer, "must be %s", article(s.kind))
		return v
	case s.enum != nil && !slices.ContainsFunc(s.enum, func(x any) bool { return reflect.DeepEqual(x, v) }):
		f.add(pointer, "must be one of %s", appendCanonical(nil, s.enum))
	case s.minimum != nil && compare(v, s.minimum) < 0:
		f.add(pointer, "must be at least %v", s.minimum)
	case s.maximum != nil && compare(v, s.maximum) > 0:
		f.add(pointer, "must be at most %v", s.maximum)
	}
	if object, isObject := v.(map[string]any); isObject {
		return s.checkObject(object, pointer, f)
	}
	return v
}

func (s *Schema) checkObject(object map[string]any, pointer string, f *findings) any {
	out := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		at := pointer + "/" + escape(key)
		sub := cmp.Or(s.properties[key], s.others)
		switch {
		case sub != nil:
			out[key] = sub.check(object[key], at, f)
		case s.closed:
			f.add(at, "is not known; known are: %s", strings.Join(slices.Sorted(maps.Keys(s.properties)), ", "))
		default:
			out[key] = object[key]
		}
	}
	for key, sub := range s.properties {
		if _, given := object[key]; !given && sub != nil && sub.hasDefault {
			out[key] = sub.fallback
		}
	}
	for _, key := range s.required {
		if _, there := out[key]; !there {
			f.add(pointer+"/"+escape(key), "is missing")
		}
	}
	return out
}

func article(kind string) string {
	if kind == "integer" {
		return "a whole number"
	}
	if kind == "object" {
		return "an object"
	}
	return "a " + kind
}

func isNumber(v any) bool {
	switch v.(type) {
	case int64, float64:
		return true
	}
	return false
}

// compare orders two numbers; whole ones exactly.
func compare(a, b any) int {
	x, xWhole := a.(int64)
	y, yWhole := b.(int64)
	if xWhole && yWhole {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(float(a), float(b))
}

func float(v any) float64 {
	if n, whole := v.(int64); whole {
		return float64(n)
	}
	x, _ := v.(float64)
	return x
}
