package strategy

import (
	"slices"
	"strconv"
)

// json turns a JSON value into a block, which is depth blocks deep in the whole strategy. path is its JSON pointer.
func (p *parser) json(v jsonValue, path string, depth int) (block, error) {
	switch {
	case v.isObject():
		return p.object(v, path, depth)
	case v.kind == stringToken:
		return p.name(v, path, depth)
	}
	return nil, invalid(path, `must be a strategy: an object with a "type", or a string such as `+
		`"random" or "SelectOnly(\"mode\", \"preview\", Random)"; found %s`, v.describe())
}

// name reads a bare string: the snake_case name of a block without arguments, or the text form.
func (p *parser) name(v jsonValue, path string, depth int) (block, error) {
	d := knownSnake(v.text)
	switch {
	case d == nil:
		return p.text(v.text, path, depth)
	case d.parameters != nil:
		return nil, invalid(path, `must have the arguments of %s: an object with the fields %s, or a string with %s`,
			d.snake, d.fields(), d.usage())
	}
	if wrong := p.enter(d, depth); wrong != "" {
		return nil, invalid(path, "%s", wrong)
	}
	return d.build(nil), nil
}

func (p *parser) object(v jsonValue, path string, depth int) (block, error) {
	d, err := v.definition(path)
	if err != nil {
		return nil, err
	}
	if wrong := p.enter(d, depth); wrong != "" {
		return nil, invalid(path, "%s", wrong)
	}
	for _, name := range v.names {
		if !d.hasField(name) {
			return nil, invalid(path+"/"+escapePointer(name), "is not a field of %s; its fields are %s", d.snake, d.fields())
		}
	}
	var args []argument
	for _, q := range d.parameters {
		arg, err := p.field(v, d, q, path, depth)
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
	}
	return d.build(args), nil
}

// definition finds the block that the object's "type" names.
func (j *jsonValue) definition(path string) (*definition, error) {
	kind, ok := j.find("type")
	if !ok {
		return nil, invalid(path+"/type", "is missing; expected one of %s", knownTypes())
	}
	if kind.kind != stringToken {
		return nil, invalid(path+"/type", "must be a string, one of %s; found %s", knownTypes(), kind.describe())
	}
	d := knownSnake(kind.text)
	if d == nil {
		return nil, invalid(path+"/type", "names the unknown block %s; expected one of %s",
			strconv.QuoteToASCII(clip(kind.text)), knownTypes())
	}
	return d, nil
}

func (j *jsonValue) find(name string) (jsonValue, bool) {
	if at := slices.Index(j.names, name); at >= 0 {
		return j.items[at], true
	}
	return jsonValue{}, false
}

func (d *definition) hasField(name string) bool {
	return name == "type" || slices.ContainsFunc(d.parameters, func(p parameter) bool {
		return name == p.field || name != "" && slices.Contains(p.pair[:], name)
	})
}

// field reads the argument of one parameter from its field.
func (p *parser) field(v jsonValue, d *definition, q parameter, path string, depth int) (argument, error) {
	if q.kind == blocksParameter {
		return p.blocks(v, d, q, path, depth)
	}
	item, ok := v.find(q.field)
	at := path + "/" + q.field
	if !ok && q.optional {
		return argument{}, nil
	}
	if !ok {
		return argument{}, invalid(at, "is missing; the fields of %s are %s", d.snake, d.fields())
	}
	if q.kind == blockParameter {
		b, err := p.json(item, at, depth+1)
		return argument{blocks: []block{b}}, err
	}
	if q.kind == formulaParameter && item.kind == stringToken {
		e, err := parseFormula(item.text, at)
		return argument{formula: e}, err
	}
	arg, wrong := q.readJSON(item)
	if q.kind == pluginParameter && wrong == "" {
		return p.version(v, q, arg, path)
	}
	if wrong != "" {
		return argument{}, invalid(at, "%s", wrong)
	}
	return arg, nil
}

// blocks reads two or more blocks: an array in the parameter's own field, or the two fields of the pair.
func (p *parser) blocks(v jsonValue, d *definition, q parameter, path string, depth int) (argument, error) {
	list, isList := v.find(q.field)
	at := path + "/" + q.field
	if !isList {
		return p.pair(v, d, q, path, depth)
	}
	for _, name := range q.pair {
		if _, both := v.find(name); both {
			return argument{}, invalid(path+"/"+name, "cannot be combined with %s; give one or the other", q.field)
		}
	}
	if !list.isArray() {
		return argument{}, invalid(at, "must be an array of at least two strategies; found %s", list.describe())
	}
	if len(list.items) < 2 {
		return argument{}, invalid(at, "must be an array of at least two strategies; found %d", len(list.items))
	}
	var arg argument
	for i, item := range list.items {
		b, err := p.json(item, at+"/"+strconv.Itoa(i), depth+1)
		if err != nil {
			return argument{}, err
		}
		arg.blocks = append(arg.blocks, b)
	}
	return arg, nil
}

func (p *parser) pair(v jsonValue, d *definition, q parameter, path string, depth int) (argument, error) {
	var arg argument
	for _, name := range q.pair {
		item, ok := v.find(name)
		if !ok {
			return argument{}, invalid(path+"/"+name, "is missing; the fields of %s are %s", d.snake, d.fields())
		}
		b, err := p.json(item, path+"/"+name, depth+1)
		if err != nil {
			return argument{}, err
		}
		arg.blocks = append(arg.blocks, b)
	}
	return arg, nil
}

// version adds the version to the name of a plugin.
func (p *parser) version(v jsonValue, q parameter, arg argument, path string) (argument, error) {
	item, ok := v.find(q.pair[0])
	if !ok {
		return arg, nil
	}
	var wrong string
	if arg.version, wrong = readVersion(item.token); wrong != "" {
		return argument{}, invalid(path+"/"+q.pair[0], "%s", wrong)
	}
	return arg, nil
}
