package web

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// Every field of these structs of package api has a declaration, except those that are named here, and a value that is
// read from a request is shown in the answer.
func TestEveryFieldIsDeclared(t *testing.T) {
	t.Parallel()
	holdsDeclared(t, queue.ScheduleFields(), new(api.ScheduleDefinition), "template")
	holdsDeclared(t, queue.SubmissionFields(), new(api.ScheduleTemplate), "meta", "chunks", "attachment", "dead_after_ms", "unique")
	holdsDeclared(t, queue.SubmissionFields(), new(api.NewSubmission), "meta", "chunks", "attachment", "trace", "unique", "after")
	holdsDeclared(t, queue.AllSettings(), new(api.QueueSettings))
	holdsDeclared(t, queue.AllSettings(), new(api.QueueSettingsInput))
}

func holdsDeclared[T any](t *testing.T, fields []*queue.Field[T], of any, others ...string) {
	t.Helper()
	v := reflect.ValueOf(of).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		declared := slices.ContainsFunc(fields, func(d *queue.Field[T]) bool { return d.Name == name })
		if declared == slices.Contains(others, name) {
			t.Errorf("%s.%s: declared is %t", v.Type(), name, declared)
		}
	}
	var kept, again T
	for _, d := range fields {
		at, ok := d.In(of)
		if !ok {
			continue
		}
		if at.Kind() == reflect.Pointer {
			at.Set(reflect.New(at.Type().Elem()))
			at = at.Elem()
		}
		switch at.Interface().(type) {
		case string:
			at.SetString(append(d.Choices(), "text")[0])
		case bool:
			at.SetBool(true)
		case int64:
			at.SetInt(7)
		case uint8, uint16, uint32:
			at.SetUint(7)
		case float64:
			at.SetFloat(0.7)
		case api.Time:
			at.Set(reflect.ValueOf(queue.Time(7).API()))
		case api.Backoff:
			at.Set(reflect.ValueOf(api.Backoff{BaseMS: 7, Factor: 2, CapMS: 9}))
		}
	}
	if err := readFields(fields, of, &kept); err != nil {
		t.Fatal(err)
	}
	shown := reflect.New(v.Type()).Interface()
	showFields(fields, &kept, shown)
	if err := readFields(fields, shown, &again); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(shown, of) || !reflect.DeepEqual(kept, again) {
		t.Errorf("%s: got %+v, want %+v", v.Type(), shown, of)
	}
}
