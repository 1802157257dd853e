package web

// The schema of strategies is made of strategy.Forms, the table by which they are also parsed. So a new block is in
// the document, in the generated clients and in the parser by the one declaration of it.
//
//	Strategy      = text │ StrategyByName │ StrategyBlock        at the top of a request
//	StrategyNode  = text │ StrategyBlock                         inside of a block
//	StrategyBlock = oneOf FairBlock, OrElseBlock, ...          told apart by `type`

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/quern-queue/quern/engine/strategy"
)

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

// fieldNotes are what fields mean of which there is more than one of their kind.
var fieldNotes = map[string]string{
	"max":    "How many chunks of one value are in flight at once",
	"window": "How many candidates are scored at once",
	"explore": "One in this many handed-out candidates is the first in the order of underlying, regardless of its " +
		"score; 0: none",
	"underlying": "The strategy that it works on",
	"try_first":  "The strategy that is asked first, instead of branches",
	"fallback":   "The strategy that fills what try_first could not",
}

// A kind of field means the same in every block, so its sentence is here. fieldNotes has those of kinds that do
// not.
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
		return &huma.Schema{Type: huma.TypeInteger, Minimum: &low, Maximum: &high, Description: fieldNotes[f.Name]}
	case strategy.FieldCost:
		return &huma.Schema{Type: huma.TypeString, Enum: []any{strategy.ByChunk.String(), strategy.ByTime.String()},
			Description: "What is shared out: the number of chunks, or the time that they are held"}
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
