package check

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"github.com/quern-queue/quern/engine/queue"
)

// This file shows operations of the journal by reflection, so that a new one is shown without being named here.

// fieldsOf are the fields of an operation that are not zero, by their names in snake case.
func fieldsOf(op any) map[string]any {
	out := map[string]any{}
	addFields(out, reflect.Indirect(reflect.ValueOf(op)))
	return out
}

// fieldsText is fields as a line.
func fieldsText(fields map[string]any) string {
	text, _ := json.Marshal(fields) // they were made by fieldsOf
	return string(text)
}

func addFields(out map[string]any, v reflect.Value) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		switch {
		case !field.IsExported() || v.Field(i).IsZero():
		case field.Anonymous && v.Field(i).Kind() == reflect.Struct:
			addFields(out, v.Field(i))
		default:
			out[snake(field.Name)] = shown(v.Field(i))
		}
	}
}

// shown is a value as JSON has it. Of bytes it is their number: contents and outputs do not belong on a screen.
func shown(v reflect.Value) any {
	switch value := v.Interface().(type) {
	case queue.Time:
		return value.Std().UTC()
	case []byte:
		return fmt.Sprintf("%d bytes", len(value))
	case [16]byte:
		return fmt.Sprintf("%x", value)
	case fmt.Stringer:
		return value.String()
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return shown(v.Elem())
	case reflect.Struct:
		out := map[string]any{}
		addFields(out, v)
		return out
	case reflect.Slice, reflect.Array:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = shown(v.Index(i))
		}
		return list
	}
	return v.Interface()
}

// seqOf is the number of the submission that an operation of a part is about; 0: none.
func seqOf(op any) uint32 {
	v := reflect.Indirect(reflect.ValueOf(op)).FieldByName("Seq")
	if !v.IsValid() {
		return 0
	}
	return uint32(v.Uint())
}

// snake is a name in snake case: RunAt is run_at, and ID is id.
func snake(name string) string {
	var b strings.Builder
	before := false // the letter before was a small one
	for i, c := range name {
		if unicode.IsUpper(c) && i > 0 && before {
			b.WriteByte('_')
		}
		before = unicode.IsLower(c)
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
