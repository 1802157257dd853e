package web

// What reflection cannot see. A component comes from a Go type by huma; then three sources are laid over it, and
// each must fit:
//
//	sentences()      the comment of each field in package api     every property needs one
//	propertyNotes()  exceptions, by "Type.property"               each must name a property that exists
//	tags of fields   limits and lists of values

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quern-queue/quern/engine/queue"
)

// The types of package api that write their own JSON say here what they write. Each is a
// component with a name, so that generated clients have one type for it.
type (
	bytesSchema     struct{}
	contentSchema   struct{}
	metaValueSchema struct{}
	metaSchema      struct{}
	timeSchema      struct{}
)

// No two forms have a field in common, so a generated client can tell them apart by the one that is there.
func (*bytesSchema) Schema(r huma.Registry) *huma.Schema {
	return component(r, "Bytes", &huma.Schema{
		Description: "Opaque bytes. A request has a bare string (text), {text} or {base64}; an answer has {text} " +
			"if they are UTF-8, else {base64}",
		OneOf: []*huma.Schema{{Type: huma.TypeString}, single(r, "Text", "text", ""),
			single(r, "Base64", "base64", "base64")},
	})
}

func (*contentSchema) Schema(r huma.Registry) *huma.Schema {
	return component(r, "Content", &huma.Schema{
		Description: "The content of a chunk: bytes, or the key of an object in object storage. Its one field " +
			"tells which",
		OneOf: []*huma.Schema{single(r, "Text", "text", ""), single(r, "Base64", "base64", "base64"),
			single(r, "Key", "key", "")},
	})
}

func (*metaValueSchema) Schema(r huma.Registry) *huma.Schema {
	most := queue.MaxMetaValueBytes
	return component(r, "MetaValue", &huma.Schema{
		Description: `A string or a whole number of 64 bits; "7" and 7 are different values`,
		OneOf: []*huma.Schema{{Type: huma.TypeString, MaxLength: &most},
			{Type: huma.TypeInteger, Format: "int64"}},
	})
}

func (*metaSchema) Schema(r huma.Registry) *huma.Schema {
	(*metaValueSchema)(nil).Schema(r)
	most := queue.MaxMetaKeys
	return component(r, "Meta", &huma.Schema{
		Type: huma.TypeObject,
		Description: "The metadata that strategies see: letters, digits, '_', '-' and '.' in keys of at " +
			"most 64 bytes",
		AdditionalProperties: &huma.Schema{Ref: "#/components/schemas/MetaValue"}, MaxProperties: &most,
	})
}

func (*timeSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time"}
}

// ofBytes are the sentences about the objects that bytes and contents are: components with
// names, so that generators have a type for each.
var ofBytes = map[string]string{
	"Text":   "Bytes that are UTF-8",
	"Base64": "Bytes in base64",
	"Key":    "The key of an object in object storage",
}

// single is an object with one string.
func single(r huma.Registry, name, field, encoding string) *huma.Schema {
	return component(r, name, closed(ofBytes[name], field, map[string]*huma.Schema{
		field: {Type: huma.TypeString, ContentEncoding: encoding, Description: ofBytes[name]},
	}))
}

// Registered once: the same type is met from many operations.
func component(r huma.Registry, name string, s *huma.Schema) *huma.Schema {
	if r.Map()[name] == nil {
		r.Map()[name] = s
	}
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}

// finishSchemas adds what Go types cannot say: sentences, limits, and which values a
// string may have. It fails when a sentence has no property or a property has no sentence,
// so that the document stays complete.
// A failure here fails the start of the server, and so the first test that makes one: a field without a sentence
// never reaches a release.
func (d *document) finishSchemas() error {
	schemas := d.schema.Map()
	said, notes := sentences(), propertyNotes()
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		if ofBytes[name] != "" {
			continue
		}
		tagged := tagsOf(d.schema, name)
		for _, property := range slices.Sorted(maps.Keys(schemas[name].Properties)) {
			n, noted := notes[name+"."+property]
			if delete(notes, name+"."+property); !noted {
				n = tagged[property]
			}
			if n.text == "" {
				n.text = said[name+"."+property]
			}
			if n.text == "" {
				return fmt.Errorf("web: openapi: nothing says what %s.%s is: give its field in package api a "+
					"comment, then `make golden`", name, property)
			}
			n.apply(schemas[name].Properties[property])
		}
	}
	for name := range notes {
		return fmt.Errorf("web: openapi: propertyNotes speaks of %s, which does not exist", name)
	}
	maps.Copy(schemas, strategySchemas()) // which have their sentences
	return nil
}

// A reference with a sentence beside it is allowed in OpenAPI 3.1. One that may be null needs oneOf, because `type`
// beside a reference would contradict it.
func (n note) apply(s *huma.Schema) {
	s.Description = n.text
	if n.ref != "" {
		s.Ref = "#/components/schemas/" + n.ref
	}
	if n.null && s.Ref != "" {
		s.OneOf, s.Ref = []*huma.Schema{{Ref: s.Ref}, {Type: "null"}}, ""
	}
	// huma calls an unsigned number of 32 bits an int32, which ends at half of its range,
	// and lists nullable, which ours never are.
	if s.Format == "int32" {
		s.Format = "int64"
	}
	if s.Type == huma.TypeArray {
		s.Nullable = false
	}
	if n.limit.Names != nil {
		s.Enum = make([]any, 0, len(n.limit.Names)+1)
		for _, name := range n.limit.Names {
			s.Enum = append(s.Enum, name)
		}
		if s.Nullable {
			s.Enum = append(s.Enum, nil)
		}
	}
	switch most := n.limit.Most; {
	case most == nil:
	case s.Type == huma.TypeArray:
		s.MaxItems = new(int(*most))
	case s.Type == huma.TypeString:
		s.MaxLength = new(int(*most))
	default:
		s.Minimum, s.Maximum = n.limit.Least, most
	}
}

// tagsOf is what the tags of the fields say of the properties of a schema.
func tagsOf(r huma.Registry, schema string) map[string]note {
	of := r.TypeFromRef("#/components/schemas/" + schema)
	if of == nil || of.Kind() != reflect.Struct {
		return nil
	}
	notes := map[string]note{}
	for _, field := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		notes[name] = noteOf(field)
	}
	return notes
}
