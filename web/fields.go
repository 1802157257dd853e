package web

// One table of fields (queue.AllSettings, ScheduleFields, SubmissionFields) serves five readers: requests, answers,
// the document, the command line and the dashboard's forms. A new field is one row there.
//
//	request ─ readFields ─► engine's struct ─ showFields ─► answer
//	table   ─ noteFields ─► OpenAPI: sentence, range, names, default

import (
	"fmt"
	"math"
	"path"
	"reflect"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// readFields gives `to` the fields that a request has: in is a pointer to its struct. A
// pointer that is nil and a value that is zero are not given. It checks that values can be
// represented. The engine checks whether they make sense together.
func readFields[T any](fields []*queue.Field[T], in any, to *T) error {
	for _, d := range fields {
		given, ok := d.In(in)
		if !ok || given.IsZero() {
			continue
		}
		if given.Kind() == reflect.Pointer {
			given = given.Elem()
		}
		value := given.Interface()
		switch v := value.(type) {
		case api.Time:
			value = queue.At(v.Time)
		case api.Backoff:
			var err error
			if value, err = queue.NewBackoff("/"+d.Name, v); err != nil {
				return err
			}
		}
		if err := d.Set(to, value); err != nil {
			return err
		}
	}
	return nil
}

// showFields copies the fields of `from` into an answer; out is a pointer to its struct.
func showFields[T any](fields []*queue.Field[T], from *T, out any) {
	for _, d := range fields {
		to, ok := d.In(out)
		if !ok {
			continue
		}
		value := d.Value(from)
		switch v := value.(type) {
		case queue.Time:
			value = v.API()
		case queue.Backoff:
			value = v.API()
		case *queue.Backoff:
			if v == nil {
				continue
			}
			value = v.API()
		}
		if to.Kind() == reflect.Pointer {
			to.Set(reflect.New(to.Type().Elem()))
			to = to.Elem()
		}
		to.Set(reflect.ValueOf(value))
	}
}

// noteFields adds the document's notes about those fields that a struct of package api has; of is a pointer to it.
// With usual, a note names the default. The default belongs into the sentence only where leaving a field out means
// the default (PUT), not where it means "as it is" (PATCH).
func noteFields[T any](out map[string]note, fields []*queue.Field[T], of any, usual bool) {
	for _, d := range fields {
		if _, ok := d.In(of); !ok {
			continue
		}
		n := note{text: d.Text()}
		if d.Range != (queue.Range{}) {
			n.limit.Least, n.limit.Most = new(float64(d.Range.Least)), new(float64(d.Range.Most))
		} else if d.Names != nil {
			n.limit.Names = d.Choices()
		} else if d.Length > 0 {
			n.limit.Most = new(float64(d.Length))
		}
		if v := d.Default(); usual && !reflect.ValueOf(v).IsZero() {
			n.text += "; default " + inProse(v)
		}
		holder := reflect.TypeOf(of).Elem()
		if above := path.Dir(d.Name); above != "." {
			at, _ := (&queue.Field[T]{Name: above}).In(of)
			holder = at.Type()
		}
		out[holder.Name()+"."+path.Base(d.Name)] = n
	}
}

// allowedAt says which numbers the field at a pointer of a request may have, as
// docs/LIFECYCLE.md and the document do. It is "" where the type says it all. For
// numbers that fit the type, the engine refuses with the same words. This is for numbers
// that do not fit: their refusal must name the limit of the field too, not that of some
// type.
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
	return inProse(*limit.Least) + " to " + inProse(*limit.Most)
}

// inProse is a value as sentences have it: whole numbers with commas.
func inProse(v any) string {
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return queue.Exact(r.Int())
	case r.CanUint():
		return queue.Exact(int64(r.Uint()))
	case r.CanFloat() && r.Float() == math.Trunc(r.Float()) && math.Abs(r.Float()) < 1<<53:
		return queue.Exact(int64(r.Float()))
	}
	return fmt.Sprint(v)
}

// limitAt is the limit in the tags of the field at a pointer into a type of package api. Pointers of a request
// mirror its types, so the way through the JSON is a way through the fields: a name steps into a struct, an index
// into the elements of a list.
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
