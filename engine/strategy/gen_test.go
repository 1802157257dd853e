package strategy

import (
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/queue"
)

// The generators draw trees from few keys and values, so that filters contradict, limits meet and branches coincide.
var (
	anyKey   = rapid.SampledFrom([]queue.MetaKey{"a", "b", "c-_.9"})
	anyValue = rapid.Custom(func(t *rapid.T) queue.MetaValue {
		switch rapid.IntRange(0, 3).Draw(t, "kind of value") {
		case 0:
			return queue.IntValue(rapid.Int64().Draw(t, "int"))
		case 1:
			return queue.StringValue(rapid.StringN(0, 60, queue.MaxMetaValueBytes).Draw(t, "string"))
		case 2:
			return queue.StringValue(rapid.SampledFrom([]string{"", "1", "a\"\\/b", "\n\u202e\u0000\ufeff", "é😀"}).Draw(t, "string"))
		default:
			return queue.IntValue(rapid.Int64Range(1, 2).Draw(t, "int"))
		}
	})
	anyMax = rapid.OneOf(rapid.Uint32Range(1, 4), rapid.Uint32Range(1, MaxLimit))
	// anyRate is the limit of a MaxRate: of one key or of all chunks, with little to choose from, so that some are alike.
	anyRate = rapid.Custom(func(t *rapid.T) Limit {
		most := anyMax.Draw(t, "max")
		return Limit{
			Key: rapid.OneOf(anyKey, rapid.Just("")).Draw(t, "key"), Max: most, Of: Rate,
			Per:   rapid.SampledFrom([]time.Duration{MinPer, time.Second, time.Minute, 90 * time.Second, MaxPer}).Draw(t, "per"),
			Burst: min(most, rapid.OneOf(rapid.Just(uint32(1)), rapid.Uint32Range(1, 3)).Draw(t, "burst")),
		}
	})
)

// anyMissing draws the usual way more often than the others.
var anyMissing = rapid.SampledFrom([]Missing{MissingUnlimited, MissingUnlimited, MissingOne, MissingNever})

// rateOf draws the numbers of a MaxRate; missing needs a key.
func rateOf(t *rapid.T, underlying block) limited {
	l := limited{limit: anyRate.Draw(t, "limit"), underlying: underlying}
	if l.limit.Key != "" {
		l.missing = anyMissing.Draw(t, "missing")
	}
	return l
}

// anyBlock draws a tree of at most the given depth, at most three alternatives wide.
func anyBlock(depth int) *rapid.Generator[block] { return anyTree(depth, 10) }

// anyTree draws from the kinds up to most: 9 and 10, which score, cannot stand inside of themselves or of Fair.
func anyTree(depth, most int) *rapid.Generator[block] {
	return rapid.Custom(func(t *rapid.T) block {
		anyBlock := func(depth int) *rapid.Generator[block] { return anyTree(depth, most) }
		kinds := most
		if depth == 1 {
			kinds = 3
		}
		switch kind := rapid.IntRange(0, kinds).Draw(t, "block"); kind {
		case 4:
			name := rapid.SampledFrom([]string{"SelectOnly", "SelectAny", "Except"}).Draw(t, "name")
			f := Select(anyKey.Draw(t, "key"), anyValue.Draw(t, "value"))
			if name != "SelectOnly" {
				more := rapid.SliceOfN(rapid.OneOf(anyValue, rapid.Just(queue.IntValue(1))), 0, 4).Draw(t, "values")
				f.Values, f.Except = distinct(append(more, f.Values...)), name == "Except"
			}
			return &selects{name, f, anyBlock(depth-1).Draw(t, "underlying")}
		case 5:
			if most == 10 && rapid.Bool().Draw(t, "without a number") {
				return &preferFewest{anyKey.Draw(t, "key"), anyMissing.Draw(t, "missing"), anyOne(depth-1).Draw(t, "underlying")}
			}
			return &preferDistinct{limited{Limit{Key: anyKey.Draw(t, "key"), Max: anyMax.Draw(t, "max")}, anyMissing.Draw(t, "missing"), anyBlock(depth-1).Draw(t, "underlying")}}
		case 6:
			if rapid.Bool().Draw(t, "rate") {
				return &hardLimit{rateOf(t, anyBlock(depth-1).Draw(t, "underlying")), "MaxRate"}
			}
			return &hardLimit{limited{Limit{Key: anyKey.Draw(t, "key"), Max: anyMax.Draw(t, "max")}, anyMissing.Draw(t, "missing"), anyBlock(depth-1).Draw(t, "underlying")}, "MaxSimultaneous"}
		case 7:
			return &orElse{rapid.SliceOfN(anyBlock(depth-1), 2, 3).Draw(t, "alternatives")}
		case 8:
			key := rapid.OneOf(anyKey, rapid.Just(SubmissionKey)).Draw(t, "key")
			cost := Cost(rapid.IntRange(0, 1).Draw(t, "cost"))
			return &fair{key, cost, anyTree(depth-1, 8).Draw(t, "underlying")}
		case 9, 10:
			return &scoredBlock{anyScored.Draw(t, "scored"), anyTree(depth-1, 8).Draw(t, "underlying")}
		default:
			return orderBlock{Order(kind)}
		}
	})
}

// anyOne draws a block that may be inside of a PreferDistinct without a number: filters and limits around one order. It is not
// Random, which is refused when the blocks around it come to several limits.
func anyOne(depth int) *rapid.Generator[block] {
	return rapid.Custom(func(t *rapid.T) block {
		kinds := 3
		if depth == 1 {
			kinds = 0
		}
		switch rapid.IntRange(0, kinds).Draw(t, "block") {
		case 1:
			f := Select(anyKey.Draw(t, "key"), anyValue.Draw(t, "value"))
			return &selects{"SelectOnly", f, anyOne(depth-1).Draw(t, "underlying")}
		case 2:
			return &hardLimit{rateOf(t, anyOne(depth-1).Draw(t, "underlying")), "MaxRate"}
		case 3:
			return &hardLimit{limited{Limit{Key: anyKey.Draw(t, "key"), Max: anyMax.Draw(t, "max")}, anyMissing.Draw(t, "missing"), anyOne(depth-1).Draw(t, "underlying")}, "MaxSimultaneous"}
		default:
			return orderBlock{rapid.SampledFrom([]Order{OldestFirst, NewestFirst, CustomPriority}).Draw(t, "order")}
		}
	})
}

// spellText writes a block in the text form in one of its many spellings.
func spellText(t *rapid.T, b block) string {
	space := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n", "\t\r\n  "}).Draw(t, "space") }
	d := b.definition()
	text := space() + d.name + space()
	if d.parameters == nil {
		return text
	}
	var parts []string
	for i, arg := range b.arguments() {
		for _, inner := range arg.blocks {
			parts = append(parts, spellText(t, inner))
		}
		if arg.blocks == nil && !leaveOut(t, d.parameters[i], arg) {
			parts = append(parts, space()+spellArgument(t, d.parameters[i], arg)+space())
		}
	}
	return text + "(" + strings.Join(parts, ",") + ")" + space()
}

// leaveOut draws whether to leave an argument out that is as usual; where nothing says the usual, it must be.
func leaveOut(t *rapid.T, p parameter, arg argument) bool {
	if !p.leftOut(arg) {
		return false
	}
	return p.kind == configParameter || p.kind == keyParameter || p.kind == maxParameter || p.kind == settingParameter && p.usual == 0 || rapid.Bool().Draw(t, "left out")
}

func spellArgument(t *rapid.T, p parameter, arg argument) string {
	switch {
	case p.kind == settingParameter && !arg.given:
		arg.max = p.usual
	case p.kind == configParameter:
		return spellConfig(t, arg.config)
	case p.kind == valuesParameter:
		return spellValues(t, arg.values)
	case p.kind == pluginParameter:
		return spellString(t, strings.Trim(string(p.append(nil, arg)), `"`))
	case p.kind == formulaParameter:
		return spellFormula(t, arg.formula.Root(), orRank)
	}
	switch {
	case p.kind == keyParameter || p.kind == tenantParameter:
		return spellString(t, arg.key)
	case p.kind == valueParameter && !arg.value.IsInt():
		return spellString(t, arg.value.Text())
	}
	return string(p.append(nil, arg))
}

// spellValues writes a list in any order, with some values twice.
func spellValues(t *rapid.T, values []queue.MetaValue) string {
	list := append(rapid.Permutation(values).Draw(t, "order"), rapid.SliceOfN(rapid.SampledFrom(values), 0, 2).Draw(t, "again")...)
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = spellArgument(t, parameter{kind: valueParameter}, argument{value: v})
	}
	return "[" + strings.Join(texts, " , ") + "]"
}

// spellString writes a JSON string with escapes at random places.
func spellString(t *rapid.T, text string) string {
	const hex = "0123456789ABCDEF"
	quoted := []byte{'"'}
	for _, r := range text {
		if r < 0x80 && (r < ' ' || r == '"' || r == '\\' || rapid.IntRange(0, 9).Draw(t, "escape") == 0) {
			quoted = append(quoted, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		} else {
			quoted = append(quoted, string(r)...)
		}
	}
	return string(append(quoted, '"'))
}

// spellJSON writes a block as JSON in one of its many spellings: fields in any order, pieces in the text form.
func spellJSON(t *rapid.T, b block) string {
	space := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space") }
	d := b.definition()
	switch how := rapid.IntRange(0, 5).Draw(t, "spelling"); {
	case how == 0:
		return space() + spellString(t, spellText(t, b)) + space()
	case how < 4 && d.parameters == nil:
		return space() + spellString(t, d.snake) + space()
	}
	fields := []string{`"type":` + spellString(t, d.snake)}
	for i, arg := range b.arguments() {
		p := d.parameters[i]
		switch {
		case p.kind == blockParameter:
			fields = append(fields, spellString(t, p.field)+space()+":"+spellJSON(t, arg.blocks[0]))
		case p.kind == blocksParameter && len(arg.blocks) == 2 && rapid.Bool().Draw(t, "pair"):
			fields = append(fields, spellString(t, p.pair[0])+":"+spellJSON(t, arg.blocks[0]), spellString(t, p.pair[1])+":"+spellJSON(t, arg.blocks[1]))
		case p.kind == blocksParameter:
			var items []string
			for _, inner := range arg.blocks {
				items = append(items, spellJSON(t, inner))
			}
			fields = append(fields, spellString(t, p.field)+":"+space()+"["+strings.Join(items, ",")+"]")
		case leaveOut(t, p, arg):
		case p.kind == settingParameter:
			_, number, _ := strings.Cut(spellArgument(t, p, arg), "=")
			fields = append(fields, spellString(t, p.field)+":"+number)
		case p.kind == formulaParameter:
			fields = append(fields, spellString(t, p.field)+":"+spellString(t, spellArgument(t, p, arg)))
		case p.kind == pluginParameter:
			fields = append(fields, spellString(t, p.field)+":"+spellString(t, arg.name))
			if arg.version != "" {
				fields = append(fields, spellString(t, p.pair[0])+":"+spellString(t, arg.version))
			}
		case p.kind == costParameter:
			fields = append(fields, spellString(t, p.field)+":"+spellString(t, arg.cost.String()))
		case p.kind == missingParameter:
			fields = append(fields, spellString(t, p.field)+":"+spellString(t, arg.missing.String()))
		default:
			fields = append(fields, spellString(t, p.field)+":"+space()+spellArgument(t, p, arg)+space())
		}
	}
	return space() + "{" + strings.Join(rapid.Permutation(fields).Draw(t, "fields"), ","+space()) + "}"
}
