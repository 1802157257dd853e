package queue

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Field declares one field that a request can set: of the settings of a queue or a plugin, of a submission, or of a schedule. T is the
// struct that has the value. The declaration gives the check and its wording, the reading and writing of requests and answers, the text in
// the API's document, and the flag with its help.
type Field[T any] struct {
	Name     string   // in JSON; a duration's name ends with its unit, and a field in another object has a path: template/dead_after_ms
	Sentence string   // what it is, without a full stop
	Range    Range    // of a number
	Names    []string // of values that have names, by value; "" is a value only if it is the default
	Length   int      // of a text: at most this many bytes; 0: it has checks of its own
	sparse   bool     // rows of the catalogue leave it out at its default, as rows of older versions do
	field    field[T]
}

// field is the place of a value in T, and its default.
type field[T any] struct {
	in    func(*T) reflect.Value
	usual reflect.Value
}

func fieldOf[T, V any](in func(*T) *V, usual V) field[T] {
	return field[T]{func(t *T) reflect.Value { return reflect.ValueOf(in(t)).Elem() }, reflect.ValueOf(usual)}
}

// defaults gives the fields of t their defaults.
func defaults[T any](fields []*Field[T], t *T) {
	for _, d := range fields {
		d.field.in(t).Set(d.field.usual)
	}
}

// Choices are the names that the field may have; nil: any value, or any of its range. Only a text field may have "" as one.
func (d *Field[T]) Choices() []string {
	if d.field.usual.Kind() == reflect.String {
		return d.Names
	}
	return slices.DeleteFunc(slices.Clone(d.Names), func(name string) bool { return name == "" })
}

// Text is the sentence, with the meaning of the ends of the range.
func (d *Field[T]) Text() string {
	text := d.Sentence
	if d.Range.Zero != "" {
		text += fmt.Sprintf("; %d: %s", d.Range.Least, d.Range.Zero)
	}
	if d.Range.Full != "" {
		text += fmt.Sprintf("; %d: %s", d.Range.Most, d.Range.Full)
	}
	return text
}

// Value is the field as JSON has it: a duration in its unit (int64), a value that has a name as the name, all others as in t.
func (d *Field[T]) Value(t *T) any { return d.value(d.field.in(t)) }

// Default is the default, in the form of Value.
func (d *Field[T]) Default() any { return d.value(d.field.usual) }

func (d *Field[T]) value(v reflect.Value) any {
	switch {
	case d.Names != nil && v.CanUint():
		return d.Names[v.Uint()]
	case d.Range.Unit != 0:
		return v.Int() / int64(d.Range.Unit)
	}
	return v.Interface()
}

// Set gives t a value in the form of Value. It refuses a value that t cannot hold. Valid of t checks the range.
func (d *Field[T]) Set(t *T, value any) error {
	to, pointer := d.field.in(t), "/"+d.Name
	switch {
	case d.Names != nil:
		i := slices.Index(d.Names, value.(string))
		if i < 0 || value == "" {
			return Invalid(pointer, "must be %s", oneOf(d.Choices()))
		}
		to.SetUint(uint64(i))
	case d.Range.Unit != 0:
		duration, err := d.Range.Duration(pointer, value.(int64))
		if err != nil {
			return err
		}
		to.SetInt(int64(duration))
	case to.Kind() == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		to.Elem().Set(reflect.ValueOf(value))
	default:
		to.Set(reflect.ValueOf(value))
	}
	return nil
}

// Copy gives `to` the field of `from`.
func (d *Field[T]) Copy(to, from *T) { d.field.in(to).Set(d.field.in(from)) }

// Pointer is the field of t.
func (d *Field[T]) Pointer(t *T) any { return d.field.in(t).Addr().Interface() }

// Valid checks the field by its declaration, which must not have another field as its limit.
func (d *Field[T]) Valid(t *T) error { return d.valid(d.field.in(t)) }

// valid checks fields by their declarations. A field whose limit is another field comes after that one.
func valid[T any](fields []*Field[T], t *T) error {
	for _, d := range fields {
		if d.Range.Below == "" {
			if err := d.valid(d.field.in(t)); err != nil {
				return err
			}
		}
	}
	for _, d := range fields {
		if d.Range.Below == "" {
			continue
		}
		most := fieldNamed(fields, d.Range.Below).Value(t).(int64)
		if n := d.Value(t).(int64); n < d.Range.Least || n > most {
			return Invalid("/"+d.Name, "is %d; %d to %s (%d) are allowed", n, d.Range.Least, d.Range.Below, most)
		}
	}
	return nil
}

func (d *Field[T]) valid(v reflect.Value) error {
	switch {
	case v.Type() == reflect.TypeFor[Backoff]():
		return v.Interface().(Backoff).valid("/" + d.Name)
	case v.Type() == reflect.TypeFor[*Backoff]() && !v.IsNil():
		return v.Elem().Interface().(Backoff).valid("/" + d.Name)
	case d.Names != nil && !v.Equal(d.field.usual) && !d.named(v):
		return Invalid("/"+d.Name, "must be %s", oneOf(d.Choices()))
	case d.Range != Range{} && !d.Range.Holds(d.number(v)):
		return Invalid("/"+d.Name, "is %v; %s are allowed", d.value(v), d.Range)
	case d.Length > 0 && v.Len() > d.Length:
		return Invalid("/"+d.Name, "has %d bytes; at most %d are allowed", v.Len(), d.Length)
	case d.Length > 0 && !utf8.ValidString(v.String()):
		return Invalid("/"+d.Name, "is not UTF-8")
	case v.Type() == reflect.TypeFor[Time]() && v.Int() < 0:
		return Invalid("/"+d.Name, "is before 1970")
	}
	return nil
}

// named reports whether the value of a field with names is one of them.
func (d *Field[T]) named(v reflect.Value) bool {
	if v.CanUint() {
		return v.Uint() < uint64(len(d.Names)) && d.Names[v.Uint()] != ""
	}
	return slices.Contains(d.Names, v.String())
}

// number is the value of a field that has a range, in its unit.
func (d *Field[T]) number(v reflect.Value) float64 {
	switch {
	case d.Range.Unit != 0:
		return float64(v.Int()) / float64(d.Range.Unit)
	case v.CanUint():
		return float64(v.Uint())
	case v.CanInt():
		return float64(v.Int())
	}
	return v.Float()
}

// In is the field with this name in JSON in a struct of package api; false: the struct has none. config is a pointer to the struct. In also
// looks into its objects.
func (d *Field[T]) In(config any) (reflect.Value, bool) {
	v := reflect.ValueOf(config).Elem()
	for name := range strings.SplitSeq(d.Name, "/") {
		fields := reflect.VisibleFields(v.Type())
		i := slices.IndexFunc(fields, func(f reflect.StructField) bool {
			named, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return named == name
		})
		if i < 0 {
			return v, false
		}
		v = v.FieldByIndex(fields[i].Index)
	}
	return v, true
}

// FlagName is its name on the command line.
func (d *Field[T]) FlagName() string { return FlagName(path.Base(d.Name)) }

// rangeIn is the range of the number at a pointer; false: there is no number with a range.
func rangeIn[T any](fields []*Field[T], pointer string) (Range, bool) {
	pointer = strings.TrimPrefix(pointer, "/")
	if d := fieldNamed(fields, pointer); d != nil {
		return d.Range, d.Range != Range{}
	}
	name, part, _ := strings.Cut(pointer, "/")
	if d := fieldNamed(fields, name); d != nil {
		if of := d.field.usual.Type(); of == reflect.TypeFor[Backoff]() || of == reflect.TypeFor[*Backoff]() {
			return backoffRange(part)
		}
	}
	return Range{}, false
}

func fieldNamed[T any](fields []*Field[T], name string) *Field[T] {
	for _, d := range fields {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// parseName is the value that has a name.
func parseName[V ~uint8](names []string, name string) (V, bool) {
	i := slices.Index(names, name)
	return V(max(i, 0)), i >= 0
}
