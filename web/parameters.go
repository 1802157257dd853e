package web

// Query parameters of lists, each declared once: the same value has the entry in the document and
// the function that reads the parameter. huma could read them, but not repeated ones, not
// `meta.KEY=VALUE`, and not with errors that name the parameter. A name that is not declared is
// refused: a misspelt filter must not silently list everything.

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// parameter is a parameter of the query of a list, declared once: its entry in the document, and how it
// is read into T, the list's request. An empty value is none, as a form sends it.
type parameter[T any] struct {
	*huma.Param
	read func(to *T, name, given string) error
}

// parameters are those of one list.
type parameters[T any] []parameter[T]

// document is their entries in the document.
func (all parameters[T]) document() (list []*huma.Param) {
	for _, p := range all {
		list = append(list, p.Param)
	}
	return list
}

// read reads a query. It refuses a name that is none of the parameters. An empty value counts as absent, because a
// form sends all of its fields. `meta.KEY=` is the exception: the empty text is a value. Parameters are read in no
// fixed order, so none may depend on another. wellFormed has refused those that come twice and may not.
func (all parameters[T]) read(raw string, to *T) error {
	values, err := readQuery(raw)
	if err != nil {
		return err
	}
	for name, given := range values {
		pointer, declared := "/query/"+api.EscapePointer(name), name
		if _, is := metaKeyOf(name); is {
			declared = "meta"
		}
		at := slices.IndexFunc(all, func(p parameter[T]) bool { return p.Name == declared })
		if at < 0 || name == "meta" {
			return queue.Invalid(pointer, "is not a parameter of this operation")
		}
		for _, value := range given {
			if value == "" && declared != "meta" {
				continue
			}
			if err := all[at].read(to, name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// readQuery takes a query apart.
func readQuery(raw string) (url.Values, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, queue.Invalid("/query",
			"is not well formed: escape special characters as %%XX and separate parameters by &")
	}
	return values, nil
}

// queryParam is the entry of one parameter in the document.
func queryParam(name, about string, schema *huma.Schema) *huma.Param {
	return &huma.Param{Name: name, In: "query", Description: about, Schema: schema}
}

// textParameter is a text of at most this many bytes; 0: of any length.
// The limit is in bytes, as the engine counts. maxLength in the document counts characters, which for names is the
// same.
func textParameter[T any](name, about string, most int, field func(*T) *string) parameter[T] {
	schema := &huma.Schema{Type: huma.TypeString}
	if most > 0 {
		schema.MaxLength = &most
	}
	return parameter[T]{Param: queryParam(name, about, schema), read: func(to *T, name, given string) error {
		if most > 0 && len(given) > most {
			return queue.Invalid("/query/"+name, "has %d bytes; at most %d are allowed", len(given), most)
		}
		*field(to) = given
		return nil
	}}
}

// choiceParameter is one of some names.
func choiceParameter[T any](name, about string, names []string, set func(to *T, chosen string)) parameter[T] {
	schema := &huma.Schema{Type: huma.TypeString}
	for _, one := range names {
		schema.Enum = append(schema.Enum, one)
	}
	return parameter[T]{Param: queryParam(name, about, schema), read: func(to *T, name, given string) error {
		if !slices.Contains(names, given) {
			return queue.Invalid("/query/"+name, "must be %s", strings.Join(names, " or "))
		}
		set(to, given)
		return nil
	}}
}

// timeParameter is a time; the schema is for the document. Times before 1970 are refused, because 0 means "no bound"
// in requests.
func timeParameter[T any](name, about string, schema *huma.Schema, field func(*T) *queue.Time) parameter[T] {
	return parameter[T]{Param: queryParam(name, about, schema), read: func(to *T, name, given string) error {
		at, err := time.Parse(time.RFC3339, given)
		if err != nil || at.UnixMilli() <= 0 {
			return queue.Invalid("/query/"+name, "must be one RFC 3339 time after 1970, such as 2026-01-31T12:00:00Z")
		}
		*field(to) = queue.At(at)
		return nil
	}}
}

// submissionParameter is the id of a submission.
func submissionParameter[T any](about string, schema *huma.Schema, field func(*T) *queue.SubmissionID) parameter[T] {
	return parameter[T]{Param: queryParam("submission", about, schema),
		read: func(to *T, name, given string) (err error) {
			id, err := submissionAt("/query/"+name, given)
			if err == nil && id == 0 {
				err = queue.Invalid("/query/"+name, "is 0, which no submission has")
			}
			*field(to) = id
			return err
		}}
}

// listParam documents names of a few, repeated or comma-separated.
func listParam(name, about string, names ...string) *huma.Param {
	enum := make([]any, len(names))
	for i, name := range names {
		enum[i] = name
	}
	param := queryParam(name, about, &huma.Schema{Type: huma.TypeArray,
		Items: &huma.Schema{Type: huma.TypeString, Enum: enum}})
	param.Explode = new(true)
	return param
}

// stateParameter is states that are repeated, comma-separated or both.
func stateParameter[T any, S comparable](parse func(string) (S, bool), field func(*T) *[]S,
	names ...string) parameter[T] {
	param := listParam("state", "Only these states; repeated or comma-separated. Without it, all.", names...)
	return parameter[T]{Param: param, read: func(to *T, _, given string) error {
		for name := range strings.SplitSeq(given, ",") {
			state, ok := parse(name)
			switch {
			case name == "":
			case !ok || !slices.Contains(names, name):
				return queue.Invalid("/query/state", "must be of %s", strings.Join(names, ", "))
			case !slices.Contains(*field(to), state):
				*field(to) = append(*field(to), state)
			}
		}
		return nil
	}}
}

// metaParameter is meta.KEY=VALUE, or meta[KEY]=VALUE, once for each key. A key that comes twice is refused: no
// submission has two values of a key, so nothing could match.
func metaParameter[T any](field func(*T) *queue.Meta) parameter[T] {
	param := queryParam("meta",
		"Filter by meta: written as meta.KEY=VALUE or meta[KEY]=VALUE, one parameter per key. A bare whole "+
			"number is the integer; s:TEXT is a string.",
		&huma.Schema{Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeString}})
	param.Style, param.Explode, param.Extensions = "deepObject", new(true), map[string]any{"x-name-prefix": "meta."}
	return parameter[T]{Param: param, read: func(to *T, name, given string) error {
		key, _ := metaKeyOf(name)
		pointer := "/query/" + api.EscapePointer("meta."+key)
		if queue.ValidMetaKey(key) != nil {
			return queue.Invalid(pointer, "is not a meta key: 1 to %d letters, digits, '_', '-' and '.'",
				queue.MaxMetaKeyBytes)
		}
		value, err := queue.ReadValue(pointer, given)
		if err == nil {
			*field(to), err = queue.NewMeta(append(*field(to), queue.MetaEntry{Key: key, Value: value}))
		}
		return err
	}}
}

// shortPages is the sentence of a list whose pages are bounded by more than their limit.
const shortPages = "A page with a `next` may have fewer items than its limit, or none: the server limits how many " +
	"items it examines per page, and the size of a page."

// It is opaque here: the part that made it checks it.
func cursorParameter[T any](field func(*T) *string) parameter[T] {
	return textParameter("cursor", "Cursor from the previous page", 0, field)
}

// pageParameters are those of a list that has pages.
func pageParameters[T any](cursor func(*T) *string, limit func(*T) *int) parameters[T] {
	least, most := 1.0, float64(queue.MaxListLimit)
	return parameters[T]{
		cursorParameter(cursor),
		{Param: queryParam("limit", "Most items of one page",
			&huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most, Default: defaultListLimit}),
			read: readLimit(limit)},
	}
}

// The limit has bounds on both sides: a page of 0 items would have a `next` that leads to itself.
func readLimit[T any](field func(*T) *int) func(to *T, name, given string) error {
	return func(to *T, name, given string) error {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > queue.MaxListLimit {
			return queue.Invalid("/query/"+name, "must be a whole number from 1 to %d", queue.MaxListLimit)
		}
		*field(to) = n
		return nil
	}
}
