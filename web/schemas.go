package web

// Parts of the document that reflection cannot see. huma makes a component from a Go type. Three sources are laid
// over it, and each must fit:
//
//	sentences()      the comment of each field in package api     every property needs one
//	propertyNotes()  exceptions, by "Type.property"               each must name a property that exists
//	tags of fields   limits and lists of values

import (
	_ "embed"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// These are the schemas of the types of package api that write their own JSON. Each is a
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

// ofBytes are the sentences about the forms of bytes and contents. The forms are
// components with names, so that generators have a type for each.
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

// finishSchemas adds the parts that Go types cannot express: sentences, limits, and the values that a string may
// have. It fails when a sentence has no property or a property has no sentence, so that the document stays complete.
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

// tagsOf are the notes from the tags of the fields, by the properties of a schema.
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

// The schema of strategies is made of strategy.Forms, the table by which they are also parsed. So a new block is in
// the document, in the generated clients and in the parser by the one declaration of it.
//
//	Strategy      = text │ StrategyByName │ StrategyBlock        at the top of a request
//	StrategyNode  = text │ StrategyBlock                         inside of a block
//	StrategyBlock = oneOf FairBlock, OrElseBlock, ...          told apart by `type`

const (
	schemaStrategy = "Strategy"
	schemaByName   = "StrategyByName"
	schemaNode     = "StrategyNode"
	schemaBlock    = "StrategyBlock"
)

// strategySchemas are the components that describe a strategy: the three ways to give one,
// and a component for each block, which the field type tells apart.
// A name is allowed at the top only: a stored strategy cannot contain another by name, so none can contain itself.
func strategySchemas() map[string]*huma.Schema {
	blocks := &huma.Schema{
		Description:   "A block with its arguments; type says which",
		Discriminator: &huma.Discriminator{PropertyName: "type", Mapping: map[string]string{}},
	}
	schemas := map[string]*huma.Schema{
		schemaStrategy: {
			Description: `What to hand out next. A string is the text form ` +
				`(OrElse(SelectOnly("mode", "preview", Random), OldestFirst)). An object with the field name is ` +
				`a named strategy of the queue, and one with the field type is a block`,
			OneOf: []*huma.Schema{{Type: huma.TypeString}, refTo(schemaByName), refTo(schemaBlock)},
		},
		schemaByName: closed("A strategy that the queue keeps under this name", "name", map[string]*huma.Schema{
			"name": {Type: huma.TypeString, Description: "The name"},
		}),
		schemaNode: {
			Description: `A strategy within another: a string is the text form, ` +
				`or the type of a block without arguments; an object is a block`,
			OneOf: []*huma.Schema{{Type: huma.TypeString}, refTo(schemaBlock)},
		},
		schemaBlock: blocks,
	}
	for _, form := range strategy.Forms() {
		name := form.Name + "Block"
		// A component per block, and not one object with all fields: a generated type then knows which fields a block
		// needs.
		schemas[name] = blockSchema(form)
		blocks.OneOf = append(blocks.OneOf, refTo(name))
		blocks.Discriminator.Mapping[form.Type] = refTo(name).Ref
	}
	return schemas
}

// Unknown fields are refused (closed), as the parser refuses them: a generated client then finds a misspelling when
// it is compiled.
func blockSchema(form strategy.Form) *huma.Schema {
	s := closed("In text: "+form.Usage, "type", map[string]*huma.Schema{
		"type": {Type: huma.TypeString, Enum: []any{form.Type}, Description: "The block"},
	})
	for _, f := range form.Fields {
		s.Properties[f.Name] = fieldSchema(f)
		if f.Name == "max" && f.Optional {
			s.Properties[f.Name].Description +=
				", from which on it comes last; without it, values with the fewest come first"
		}
		if !f.Optional {
			s.Required = append(s.Required, f.Name)
		}
	}
	return s
}

// fieldNotes are the meanings of fields that share their kind with other fields.
var fieldNotes = map[string]string{
	"max":    "How many chunks of one value are in flight at once",
	"window": "How many candidates are scored at once",
	"explore": "One in this many handed-out candidates is the first in the order of underlying, regardless of its " +
		"score; 0: none",
	"underlying": "The strategy that it works on",
	"try_first":  "The strategy that is asked first, instead of branches",
	"fallback":   "The strategy that fills what try_first could not",
}

// Most kinds of fields mean the same in every block, so their sentences are here. fieldNotes has those of the other
// kinds.
func fieldSchema(f strategy.Field) *huma.Schema {
	text := func(about string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: about} }
	switch f.Kind {
	case strategy.FieldKey:
		return text("Meta key")
	case strategy.FieldTenant:
		return text("Meta key of the tenants, or " + strategy.SubmissionKey + ": each submission is one")
	case strategy.FieldValues:
		return &huma.Schema{Type: huma.TypeArray, Items: refTo("MetaValue"), MinItems: new(int(f.Low)),
			MaxItems:    new(int(f.High)),
			Description: "Values of the key. The order does not matter, and a value counts once"}
	case strategy.FieldValue:
		return &huma.Schema{Ref: refTo("MetaValue").Ref, Description: "Value that a submission must have under the key"}
	case strategy.FieldNumber:
		low, high := float64(f.Low), float64(f.High)
		number := &huma.Schema{Type: huma.TypeInteger, Minimum: &low, Maximum: &high, Description: fieldNotes[f.Name]}
		if !f.Percents {
			return number
		}
		number.Description = ""
		percent := &huma.Schema{Type: huma.TypeString, Pattern: "^[1-9][0-9]?%$"}
		return &huma.Schema{OneOf: []*huma.Schema{number, percent}, Description: fieldNotes[f.Name] +
			": a number, or a share of all that are in flight, as in 20%"}
	case strategy.FieldCost:
		return &huma.Schema{Type: huma.TypeString, Enum: []any{strategy.ByChunk.String(), strategy.ByTime.String()},
			Description: "The block shares out chunks by their number, or by the time that they are held"}
	case strategy.FieldMissing:
		ways := []any{strategy.MissingUnlimited.String(), strategy.MissingOne.String(),
			strategy.MissingNever.String()}
		return &huma.Schema{Type: huma.TypeString, Enum: ways,
			Description: "How submissions without the key are treated: the block does not limit them (the " +
				"default), it limits them together as if they had one value, or it never offers them"}
	case strategy.FieldPlugin:
		return text("Name of the plugin")
	case strategy.FieldVersion:
		return text("Version of the plugin, or the first digits of its sha256; without it, the active one")
	case strategy.FieldConfig:
		return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true,
			Description: "Configuration of the plugin"}
	case strategy.FieldExpression:
		return text("Expression whose value is the score")
	case strategy.FieldBlocks:
		two := 2
		return &huma.Schema{Type: huma.TypeArray, Items: refTo(schemaNode), MinItems: &two,
			Description: "The strategies, in the order in which the server asks them; for two, try_first and " +
				"fallback do the same"}
	default:
		return &huma.Schema{Ref: refTo(schemaNode).Ref, Description: fieldNotes[f.Name]}
	}
}

// refTo names a component, so that a client has one type for it wherever it stands.
func refTo(name string) *huma.Schema { return &huma.Schema{Ref: "#/components/schemas/" + name} }

// closed is an object of which one field is required and no others are known.
func closed(about, required string, properties map[string]*huma.Schema) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeObject, Description: about, AdditionalProperties: false, Required: []string{required},
		Properties: properties,
	}
}

// note is the description of one property.
//
// The sentences of the OpenAPI document are the comments of package api. So each is written once,
// beside the field, and documents it in Go, in the reference and in the clients.
type note struct {
	text  string // "": the comment of its field in package api
	limit api.Limit
	ref   string // its schema; "": that of its type
	null  bool   // it points to an object, and is null without one
}

// noteOf is the note from the tags of a field.
func noteOf(field reflect.StructField) note {
	_, left, _ := strings.Cut(field.Tag.Get("json"), ",")
	object := field.Type.Kind() == reflect.Pointer && field.Type.Elem().Kind() == reflect.Struct
	return note{limit: api.LimitOf(field), ref: field.Tag.Get("schema"), null: object && left == ""}
}

// comments are those of the fields of package api, "TYPE.PROPERTY sentence" a line. A test
// of that package writes them.
//
//go:embed sentences.txt
var comments string

// sentences has the meaning of each property of each schema, which is the comment of its
// field in package api.
func sentences() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(comments) {
		field, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if kind, property, is := strings.Cut(field, "."); is {
			all[answerName(kind)+"."+property] = text
		}
	}
	return all
}

// propertyNotes has the notes that comments and tags of fields in package api lack:
// those of fields that the engine declares, and of pages.
func propertyNotes() map[string]note {
	all := map[string]note{}
	for _, of := range []any{new(api.QueueSettings), new(api.QueueSettingsInput)} {
		noteFields(all, queue.AllSettings(), of, false)
	}
	for _, of := range []any{new(api.NewSubmission), new(api.NewSubmissionHead), new(api.BatchSubmission),
		new(api.Submission), new(api.SubmissionChange)} {
		noteFields(all, queue.SubmissionFields(), of, false)
	}
	noteFields(all, queue.ScheduleFields(), new(api.ScheduleDefinition), true)
	noteFields(all, queue.ScheduleFields(), new(api.SchedulePreviewRequest), true)
	noteFields(all, queue.SubmissionFields(), new(api.ScheduleTemplate), true)
	noteFields(all, queue.PluginSettings(), new(api.PluginSettings), false)
	for of, text := range pageItems {
		all["Page"+of+".items"] = note{text: text}
		all["Page"+of+".next"] = note{text: "Cursor of the next page; absent on the last"}
		if of == "AuditEntry" {
			continue
		}
		all["Page"+of+".missing_shards"] = note{text: "In a list about a queue of several shards: the shards that " +
			"did not answer. The list lacks their items"}
	}
	for of, text := range pageNext {
		all["Page"+of+".next"] = note{text: text}
	}
	return all
}

// pageItems says what a page lists, and pageNext what is special about its next page.
// api.Page is of any type, so its comments cannot say that.
var (
	pageItems = map[string]string{
		"Attempt":          "The attempts, the oldest first",
		"BulkOperation":    "The operations, newest first",
		"Chunk":            "The chunks, by index",
		"Consumer":         "The consumers, by name",
		"DeadLetter":       "The dead letters",
		"Group":            "The groups, by name",
		"Retry":            "The chunks",
		"SubmissionOutput": "The outputs",
		"HeldReservation":  "The reservations, in the order that was asked for",
		"Ledger":           "The ledgers, by branch, the outer ones first",
		"MetaKey":          "The keys, by name",
		"Node":             "The nodes, by name",
		"NamedStrategy":    "The strategies, by name",
		"Plugin":           "The plugins, by name",
		"PluginRecording":  "The recordings, the newest first",
		"PluginScores":     "The open versions of the plugin, those in use first",
		"PluginVersion":    "The versions, the newest first",
		"Queue":            "The queues, by name",
		"Rule":             "The rules",
		"Schedule":         "The schedules, by name",
		"Shard":            "The shards, by number",
		"Submission":       "The submissions, newest first",
		"Token":            "The tokens, the oldest first",
		"ValueCount":       "The values",
	}
	pageNext = map[string]string{
		"Attempt":         "Always absent",
		"BulkOperation":   "Always absent",
		"Ledger":          "Always absent: a queue has at most 64 branches with ledgers",
		"Node":            "Always absent: a cluster has at most 64 nodes",
		"PluginRecording": "Always absent: a plugin has at most 32 recordings",
		"PluginScores":    "Always absent: only open versions are listed",
		"PluginVersion":   "Always absent: a plugin has at most 100 versions",
		"Rule":            "Always absent",
		"Shard":           "Always absent: a queue has at most 16 shards",
		"Token":           "Always absent",
	}
)
