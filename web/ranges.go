package web

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// allowedAt says which numbers the field at a pointer of a request may have, as
// docs/LIFECYCLE.md and the document do. It is "" where its type says it all. The engine
// refuses with the same words what fits the type. This is for numbers that do not: their
// refusal must name the limit of the field too, not that of some type.
func allowedAt(request reflect.Type, pointer string) string {
	r, ok := queue.NumberRange(pointer)
	if below, found := strings.CutPrefix(pointer, "/settings"); found {
		r, ok = queue.SettingRange(below)
	}
	if ok {
		return r.String()
	}
	limit := limitAt(request, pointer)
	if limit.Least == nil || limit.Most == nil {
		return ""
	}
	number := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
	return number(*limit.Least) + " to " + number(*limit.Most)
}

// limitAt is what the tags say of the field at a pointer into a type of package api.
// Pointers of a request mirror its types, so the way through the JSON is a way through the fields: a name steps into
// a struct, an index into the elements of a list.
func limitAt(of reflect.Type, pointer string) (limit api.Limit) {
	for name := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		switch of.Kind() {
		case reflect.Slice: // name is an index
			of = of.Elem()
		case reflect.Struct:
			field, found := fieldNamed(of, name)
			if !found {
				return api.Limit{}
			}
			of, limit = field.Type, api.LimitOf(field)
		default:
			return api.Limit{}
		}
	}
	return limit
}

// fieldNamed is the field that has a name in JSON.
func fieldNamed(of reflect.Type, name string) (field reflect.StructField, found bool) {
	for _, field := range reflect.VisibleFields(of) {
		if named, _, _ := strings.Cut(field.Tag.Get("json"), ","); named == name {
			return field, true
		}
	}
	return field, false
}
