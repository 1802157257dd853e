package strategy

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// known is every block of the language by its name. To add one: write block_NAME.go with its type and its definition,
// and add its line here. Both forms, the canonical spelling, the checks and the error texts follow from the definition.
var known = map[string]*definition{
	"Random":          &randomDefinition,
	"OldestFirst":     &oldestFirstDefinition,
	"NewestFirst":     &newestFirstDefinition,
	"CustomPriority":  &customPriorityDefinition,
	"SelectOnly":      &selectOnlyDefinition,
	"SelectAny":       &selectAnyDefinition,
	"Except":          &exceptDefinition,
	"OrElse":          &orElseDefinition,
	"PreferDistinct":  &preferDistinctDefinition,
	"MaxSimultaneous": &maxSimultaneousDefinition,
	"MaxRate":         &maxRateDefinition,
	"Fair":            &fairDefinition,
	"Plugin":          &pluginDefinition,
	"Score":           &scoreDefinition,
}

// block is one node of a strategy.
type block interface {
	definition() *definition

	// arguments are those of the definition's build, one per parameter: the canonical forms are written from them.
	arguments() []argument

	// branches are the branches that the block normalises to, inside the filters and limits of the blocks around it: no two
	// alike, in the order in which they are asked, at most MaxBranches (errTooManyBranches otherwise).
	branches(within demands) ([]Branch, error)

	// note adds to the node of the block the data that only the block knows: its demands, and its text without the blocks inside
	// of it.
	note(n *Node)

	// warn finds parts of the block that have no effect, and goes on with the blocks inside of it. before has the branches that
	// are asked before any of the block's own.
	warn(f *finder, path string, within demands, before []Branch) error
}

// definition describes a block to the parsers and the writers of both forms.
type definition struct {
	name       string      // in the text form; in JSON it is snake
	snake      string      // the "type" in JSON
	parameters []parameter // in the order of the text form; nil: written without parentheses
	scores     bool        // its candidates go in the order of scores
	build      func(args []argument) block
}

type parameterKind uint8

const (
	keyParameter      parameterKind = iota // a meta key
	tenantParameter                        // a meta key, or the pseudo key
	valueParameter                         // a meta value: string or int64
	valuesParameter                        // a list of meta values
	maxParameter                           // 1 to MaxLimit
	costParameter                          // a Cost by its name
	missingParameter                       // a Missing by its name, in text behind the parameter's name and "="
	durationParameter                      // a time, a string as "1m"
	pluginParameter                        // the name of a plugin and maybe a version, one string in text and two fields in JSON
	configParameter                        // a JSON object
	settingParameter                       // a number from low to high, in text behind its name and "="
	formulaParameter                       // an Expression, in JSON a string; only as the first parameter
	blockParameter                         // one block
	blocksParameter                        // two or more blocks; only as the last parameter
)

type parameter struct {
	kind    parameterKind
	caption string // its name in usage and error texts
	field   string // its name in JSON
	// blocksParameter: the two fields that JSON uses instead when there are exactly two blocks; pluginParameter: the
	// field of the version
	pair [2]string

	low, high, usual uint32 // settingParameter: its bounds, and the value that is the same as leaving it out

	percents bool // maxParameter: it may be a percentage as well, as in "20%"

	optional bool // it may be left out, which means the zero argument; the canonical form leaves a zero argument out
}

// argument is the value of one parameter; the parameter's kind decides which field counts.
type argument struct {
	key     queue.MetaKey
	value   queue.MetaValue
	values  []queue.MetaValue // sorted, each once
	max     uint32
	percent uint8 // in place of max; 0: it is max
	per     time.Duration
	cost    Cost
	missing Missing
	blocks  []block // one for blockParameter

	name, version string // of a plugin
	config        string // canonical JSON
	formula       *Expression
	given         bool // settingParameter: max is not the usual value
}

// ofKey is the parameter of every block that looks at one meta key.
var ofKey = parameter{kind: keyParameter, caption: "key", field: "meta_field"}

// underlying is the parameter of every block that wraps one other.
var underlying = parameter{kind: blockParameter, caption: "underlying", field: "underlying"}

// usage shows how the block is written in the text form.
func (d *definition) usage() string {
	if d.parameters == nil {
		return d.name
	}
	captions := make([]string, len(d.parameters))
	for i, p := range d.parameters {
		captions[i] = p.caption
		if p.optional {
			captions[i] = "[" + p.caption + "]"
		}
	}
	return d.name + "(" + strings.Join(captions, ", ") + ")"
}

// fields lists the block's fields in JSON, for error texts.
func (d *definition) fields() string {
	list := []string{"type"}
	for _, p := range d.parameters {
		list = append(list, p.field)
		if p.optional {
			list[len(list)-1] += " (optional)"
		}
		if p.kind == blocksParameter {
			list[len(list)-1] += " (or " + p.pair[0] + " and " + p.pair[1] + ")"
		}
		if p.kind == pluginParameter {
			list = append(list, p.pair[0]+" (optional)")
		}
	}
	return strings.Join(list, ", ")
}

// leftOut says whether the canonical forms do without this argument.
func (p parameter) leftOut(arg argument) bool {
	return p.optional && arg.key == "" && arg.cost == 0 && arg.missing == 0 && arg.config == "" && !arg.given &&
		(p.kind != maxParameter || arg.max == 0)
}

// knownSnake finds a block by its name in JSON, nil when there is none.
func knownSnake(snake string) *definition {
	for _, d := range known {
		if d.snake == snake {
			return d
		}
	}
	return nil
}

// knownNames lists the blocks of the text form, knownTypes those of JSON, for error texts.
func knownNames() string { return strings.Join(slices.Sorted(maps.Keys(known)), ", ") }

func knownTypes() string {
	list := make([]string, 0, len(known))
	for _, d := range known {
		list = append(list, d.snake)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
