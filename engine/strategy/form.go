package strategy

import (
	"maps"
	"slices"
	"strings"
)

// Form describes how a block is written in JSON, for code that describes the language to others.
type Form struct {
	Name   string // in the text form
	Type   string // the field "type" in JSON
	Usage  string // the text form with its parameters
	Fields []Field
}

// Field is a field of a block in JSON, beside its type.
type Field struct {
	Name      string
	Kind      FieldKind
	Optional  bool
	Percents  bool   // of a FieldNumber: a percentage such as "20%" may stand in its place
	Low, High uint32 // of a FieldNumber; of FieldValues, how many there may be
}

// FieldKind is the kind of a field's value.
type FieldKind uint8

// The kinds.
const (
	FieldKey        FieldKind = iota // a meta key
	FieldTenant                      // a meta key, or SubmissionKey
	FieldValue                       // a meta value
	FieldValues                      // a list of meta values
	FieldNumber                      // a whole number
	FieldCost                        // the name of a Cost
	FieldMissing                     // how submissions without the key are treated: the name of a Missing
	FieldPlugin                      // the name of a plugin
	FieldVersion                     // of a plugin
	FieldConfig                      // an object for a plugin
	FieldExpression                  // a formula
	FieldBlock                       // one strategy
	FieldBlocks                      // two or more strategies
)

// Forms are all blocks, by their names in JSON.
func Forms() (all []Form) {
	for _, d := range slices.SortedFunc(maps.Values(known), func(a, b *definition) int { return strings.Compare(a.snake, b.snake) }) {
		f := Form{Name: d.name, Type: d.snake, Usage: d.usage()}
		for _, p := range d.parameters {
			f.Fields = append(f.Fields, p.formFields()...)
		}
		all = append(all, f)
	}
	return all
}

// formFields are the fields of one parameter. A list of blocks may be two fields instead, so that none of the three must be there.
func (p parameter) formFields() []Field {
	f := Field{Name: p.field, Optional: p.optional}
	switch p.kind {
	case keyParameter:
		f.Kind = FieldKey
	case tenantParameter:
		f.Kind = FieldTenant
	case valueParameter:
		f.Kind = FieldValue
	case valuesParameter:
		f.Kind, f.Low, f.High = FieldValues, 1, MaxSelected
	case maxParameter:
		f.Kind, f.Low, f.High, f.Percents = FieldNumber, 1, MaxLimit, p.percents
	case settingParameter:
		f.Kind, f.Low, f.High = FieldNumber, p.low, p.high
	case costParameter:
		f.Kind = FieldCost
	case missingParameter:
		f.Kind = FieldMissing
	case pluginParameter:
		f.Kind = FieldPlugin
		return []Field{f, {Name: p.pair[0], Kind: FieldVersion, Optional: true}}
	case configParameter:
		f.Kind = FieldConfig
	case formulaParameter:
		f.Kind = FieldExpression
	case blockParameter:
		f.Kind = FieldBlock
	case blocksParameter:
		f.Kind, f.Optional = FieldBlocks, true
		return []Field{f, {Name: p.pair[0], Kind: FieldBlock, Optional: true}, {Name: p.pair[1], Kind: FieldBlock, Optional: true}}
	}
	return []Field{f}
}
