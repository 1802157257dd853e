package strategy

import (
	"strconv"

	"github.com/quern-queue/quern/engine/queue"
)

// appendText writes the canonical text of a block.
func appendText(dst []byte, b block) []byte {
	d := b.definition()
	dst = append(dst, d.name...)
	if d.parameters == nil {
		return dst
	}
	dst = append(dst, '(')
	written := 0
	for i, arg := range b.arguments() {
		if d.parameters[i].leftOut(arg) {
			continue
		}
		dst = append(dst, separator(written, "", ", ")...)
		written++
		switch p := d.parameters[i]; p.kind {
		case blockParameter, blocksParameter:
			for j, inner := range arg.blocks {
				if j > 0 {
					dst = append(dst, ", "...)
				}
				dst = appendText(dst, inner)
			}
		default:
			dst = p.append(dst, arg)
		}
	}
	return append(dst, ')')
}

// appendJSON writes the canonical JSON of a block: "type" first, then the arguments in the order of the text form.
func appendJSON(dst []byte, b block) []byte {
	d := b.definition()
	if d.parameters == nil {
		return appendQuoted(dst, d.snake)
	}
	dst = append(dst, `{"type":`...)
	dst = appendQuoted(dst, d.snake)
	for i, arg := range b.arguments() {
		switch p := d.parameters[i]; {
		case p.leftOut(arg):
		case p.kind == valuesParameter:
			dst = appendValues(appendField(dst, p.field), arg.values, ",")
		case p.kind == costParameter:
			dst = appendQuoted(appendField(dst, p.field), arg.cost.String())
		case p.kind == missingParameter:
			dst = appendQuoted(appendField(dst, p.field), arg.missing.String())
		case p.kind == formulaParameter:
			dst = appendQuoted(appendField(dst, p.field), arg.formula.String())
		case p.kind == settingParameter:
			dst = strconv.AppendUint(appendField(dst, p.field), uint64(arg.max), 10)
		case p.kind == pluginParameter:
			dst = appendQuoted(appendField(dst, p.field), arg.name)
			if arg.version != "" {
				dst = appendQuoted(appendField(dst, p.pair[0]), arg.version)
			}
		case p.kind == blocksParameter && len(arg.blocks) == 2:
			for j, inner := range arg.blocks {
				dst = appendJSON(appendField(dst, p.pair[j]), inner)
			}
		case p.kind == blocksParameter:
			dst = append(appendField(dst, p.field), '[')
			for j, inner := range arg.blocks {
				if j > 0 {
					dst = append(dst, ',')
				}
				dst = appendJSON(dst, inner)
			}
			dst = append(dst, ']')
		case p.kind == blockParameter:
			dst = appendJSON(appendField(dst, p.field), arg.blocks[0])
		default:
			dst = p.append(appendField(dst, p.field), arg)
		}
	}
	return append(dst, '}')
}

func appendField(dst []byte, name string) []byte {
	return append(appendQuoted(append(dst, ','), name), ':')
}

// append writes the argument of a parameter that is not a block: in the text form, and for most in JSON too.
func (p parameter) append(dst []byte, arg argument) []byte {
	switch p.kind {
	case keyParameter, tenantParameter:
		return appendQuoted(dst, arg.key)
	case valueParameter:
		return appendValue(dst, arg.value)
	case valuesParameter:
		return appendValues(dst, arg.values, ", ")
	case maxParameter:
		if arg.percent > 0 {
			return appendQuoted(dst, strconv.Itoa(int(arg.percent))+"%")
		}
		return strconv.AppendUint(dst, uint64(arg.max), 10)
	case costParameter:
		return append(dst, arg.cost.String()...)
	case missingParameter:
		return append(append(append(dst, p.field...), '='), arg.missing.String()...)
	case durationParameter:
		return append(appendDuration(append(dst, '"'), arg.per), '"')
	case formulaParameter:
		return append(dst, arg.formula.String()...)
	case configParameter:
		return append(dst, arg.config...)
	case settingParameter:
		return strconv.AppendUint(append(append(dst, p.field...), '='), uint64(arg.max), 10)
	case pluginParameter:
		if arg.version == "" {
			return appendQuoted(dst, arg.name)
		}
		return appendQuoted(dst, arg.name+"@"+arg.version)
	default:
		panic("strategy: a block is not written as a token")
	}
}

func appendValue(dst []byte, v queue.MetaValue) []byte {
	if v.IsInt() {
		return strconv.AppendInt(dst, v.Int(), 10)
	}
	return appendQuoted(dst, v.Text())
}
