package web

// One table of fields (queue.AllSettings, ScheduleFields, SubmissionFields) serves five readers: requests, answers,
// the document, the command line and the dashboard's forms. A new field is one row there.
//
//	request ─ readFields ─► engine's struct ─ showFields ─► answer
//	table   ─ noteFields ─► OpenAPI: sentence, range, names, default

import (
	"fmt"
	"path"
	"reflect"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// readFields gives `to` the fields that a request has: in is a pointer to its struct. A
// pointer that is nil and a value that is zero are not given. It checks that values can be
// represented; whether they make sense together is the engine's to say.
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

// showFields gives the fields of an answer, out being a pointer to its struct, what `from` has.
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

// noteFields adds what the document says about those fields that a struct of package api
// has; of is a pointer to it. With usual it says what a field is that is left out.
// The default belongs into the sentence only where leaving a field out means the default (PUT), not where it means
// "as it is" (PATCH).
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
			n.text += fmt.Sprintf("; default %v", v)
		}
		holder := reflect.TypeOf(of).Elem()
		if above := path.Dir(d.Name); above != "." {
			at, _ := (&queue.Field[T]{Name: above}).In(of)
			holder = at.Type()
		}
		out[holder.Name()+"."+path.Base(d.Name)] = n
	}
}
