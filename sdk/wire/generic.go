package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/sdk/api"
)

// Decode reads a request into v, a pointer to an api type, with encoding/json, and as strictly as the hand-written readers:
// see the package comment. Fields of v that a document leaves out stay as they are. The error is an *Error.
func Decode(data []byte, v any) error {
	if err := syntaxError(data); err != nil {
		return err
	}
	if err := surrogateError(data); err != nil {
		return err
	}
	target := reflect.TypeOf(v).Elem()
	if err := check(bytes.TrimSpace(data), target, ""); err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return &Error{Detail: "does not fit: " + err.Error()}
	}
	return nil
}

// check compares a valid JSON value with the type of its target, in the order of the document, and returns the first
// difference. Null is not allowed: the caller lets it pass where a value may be left out.
func check(raw []byte, t reflect.Type, pointer string) *Error {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return checkSelf(raw, t, pointer)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return check(raw, t.Elem(), pointer)
	case reflect.Struct:
		return checkStruct(raw, t, pointer)
	case reflect.Slice:
		return checkSlice(raw, t, pointer, 0)
	case reflect.Map: // texts as keys, and values of t's type
		return checkMembers(raw, pointer, func(_, at string, value []byte) *Error { return check(value, t.Elem(), at) })
	case reflect.String:
		if raw[0] != '"' {
			return &Error{Pointer: pointer, Detail: stringDetail}
		}
	case reflect.Bool:
		if raw[0] != 't' && raw[0] != 'f' {
			return &Error{Pointer: pointer, Detail: boolDetail}
		}
	case reflect.Float64:
		if _, err := strconv.ParseFloat(string(raw), 64); err != nil || raw[0] == '"' {
			return &Error{Pointer: pointer, Detail: numberDetail}
		}
	case reflect.Interface:
	default:
		return checkWhole(raw, t, pointer)
	}
	return nil
}

// checkSelf lets a type that reads itself speak.
func checkSelf(raw []byte, t reflect.Type, pointer string) *Error {
	if t == reflect.TypeFor[json.RawMessage]() {
		return nil
	}
	if string(raw) == "null" { // such types read null as "none", which is for the caller to allow
		return &Error{Pointer: pointer, Detail: nullDetail(t)}
	}
	err := reflect.New(t).Interface().(json.Unmarshaler).UnmarshalJSON(raw)
	if err == nil {
		return nil
	}
	var field *api.FieldError
	if !errors.As(err, &field) {
		return &Error{Pointer: pointer, Detail: err.Error()}
	}
	return &Error{Pointer: pointer + field.Pointer, Detail: field.Detail}
}

func nullDetail(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[api.Bytes]():
		return api.BytesDetail
	case reflect.TypeFor[api.Time]():
		return api.TimeDetail
	case reflect.TypeFor[api.MetaValue]():
		return api.MetaDetail
	}
	return api.ObjectDetail
}

func checkWhole(raw []byte, t reflect.Type, pointer string) *Error {
	var err error
	var detail string
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		_, err = strconv.ParseInt(string(raw), 10, t.Bits())
		detail = int64Detail
	case reflect.Uint64:
		_, err = strconv.ParseUint(string(raw), 10, 64)
		detail = uint64Detail
	case reflect.Uint32:
		_, err = strconv.ParseUint(string(raw), 10, 32)
		detail = uint32Detail
	case reflect.Uint16:
		_, err = strconv.ParseUint(string(raw), 10, 16)
		detail = uint16Detail
	case reflect.Uint8:
		_, err = strconv.ParseUint(string(raw), 10, 8)
		detail = uint8Detail
	default:
		panic("wire: request types have no fields of type " + t.String())
	}
	if err != nil {
		return &Error{Pointer: pointer, Detail: detail}
	}
	return nil
}

func checkSlice(raw []byte, t reflect.Type, pointer string, most int) *Error {
	if raw[0] != '[' {
		return &Error{Pointer: pointer, Detail: arrayDetail}
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	_, err := decoder.Token()
	for i := 0; err == nil && decoder.More(); i++ {
		if most > 0 && i == most {
			return &Error{Pointer: pointer, Detail: tooMany(most)}
		}
		var element json.RawMessage
		if err = decoder.Decode(&element); err != nil {
			break
		}
		if fault := check(element, t.Elem(), pointer+"/"+strconv.Itoa(i)); fault != nil {
			return fault
		}
	}
	return broken(err, pointer)
}

func checkStruct(raw []byte, t reflect.Type, pointer string) *Error {
	known := knownFields(t)
	given := make(map[string]bool) // with a value
	fault := checkMembers(raw, pointer, func(name, at string, value []byte) *Error {
		field, ok := known[name]
		if !ok {
			return &Error{Pointer: at, Detail: api.UnknownDetail}
		}
		if string(value) == "null" {
			return nil
		}
		given[name] = true
		return checkField(value, field, at)
	})
	if fault != nil {
		return fault
	}
	for field := range t.Fields() {
		if name, required := fieldName(field); required && !given[name] {
			return &Error{Pointer: pointer + "/" + name, Detail: requiredDetail}
		}
	}
	return nil
}

// checkMembers calls one for each member of an object, with its name and pointer. It refuses a name that comes twice.
func checkMembers(raw []byte, pointer string, one func(name, at string, value []byte) *Error) *Error {
	if raw[0] != '{' {
		return &Error{Pointer: pointer, Detail: api.ObjectDetail}
	}
	seen := make(map[string]bool)
	decoder := json.NewDecoder(bytes.NewReader(raw))
	_, err := decoder.Token()
	for err == nil && decoder.More() {
		var token json.Token
		if token, err = decoder.Token(); err != nil {
			break
		}
		name := token.(string)
		at := pointer + "/" + api.EscapePointer(name)
		if seen[name] {
			return &Error{Pointer: at, Detail: api.DuplicateDetail}
		}
		seen[name] = true
		var value json.RawMessage
		if err = decoder.Decode(&value); err != nil {
			break
		}
		if fault := one(name, at, value); fault != nil {
			return fault
		}
	}
	return broken(err, pointer)
}

func checkField(value []byte, field reflect.StructField, pointer string) *Error {
	if field.Type.Kind() == reflect.Slice {
		if most := api.LimitOf(field).Most; most != nil {
			return checkSlice(value, field.Type, pointer, int(*most))
		}
	}
	return check(value, field.Type, pointer)
}

// broken cannot happen in a document that passed syntaxError; refusing is safer than going on.
func broken(err error, pointer string) *Error {
	if err == nil {
		return nil
	}
	return &Error{Pointer: pointer, Detail: "is not valid JSON: " + err.Error()}
}

func knownFields(t reflect.Type) map[string]reflect.StructField {
	known := make(map[string]reflect.StructField, t.NumField())
	for field := range t.Fields() {
		if name, _ := fieldName(field); name != "" {
			known[name] = field
		}
	}
	return known
}

// fieldName is the field's name in JSON, "" when it has none, and whether it must be given.
func fieldName(f reflect.StructField) (name string, required bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" || !f.IsExported() {
		return "", false
	}
	name = cmp.Or(name, f.Name)
	return name, !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") &&
		f.Tag.Get("required") != "false"
}
