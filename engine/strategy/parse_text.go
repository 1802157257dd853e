package strategy

import "fmt"

// parser builds the tree from either form; a JSON strategy may hold pieces in the text form, and the limits count over
// all of it.
type parser struct {
	nodes  int
	around []*definition // the blocks that the last one entered is inside of, and itself
}

// enter counts one more block, which is depth blocks deep. It returns the text of a broken limit, or "".
func (p *parser) enter(d *definition, depth int) (wrong string) {
	p.nodes++
	switch {
	case depth > MaxDepth:
		return tooDeep
	case p.nodes > MaxNodes:
		return tooMany
	}
	p.around = append(p.around[:depth-1], d)
	return p.misplaced(d)
}

// misplaced says that a block that scores stands where none may.
func (p *parser) misplaced(d *definition) (wrong string) {
	if !d.scores {
		return ""
	}
	for _, outer := range p.around[:len(p.around)-1] {
		switch {
		case outer.scores:
			return fmt.Sprintf("has %s inside of %s, which is not supported; score once, with one of the two", d.name, outer.name)
		case outer == &fairDefinition:
			return fmt.Sprintf("has %s inside of Fair, which is not supported; put Fair inside, as in %s(..., Fair(...))", d.name, d.name)
		}
	}
	return ""
}

// text reads a whole source in the text form, whose outermost block is depth blocks deep in the whole strategy.
func (p *parser) text(source, pointer string, depth int) (block, error) {
	s, err := newScanner(source, pointer, "is wrong")
	if err != nil {
		return nil, err
	}
	t := textParser{parser: p, scanner: s}
	if err := t.advance(); err != nil {
		return nil, err
	}
	root, err := t.block(depth)
	if err != nil {
		return nil, err
	}
	if t.token.kind != endToken {
		return nil, s.problem(t.token.at, "expected nothing more after the strategy, found %s", t.token)
	}
	return root, nil
}

// textParser is a recursive descent with one token in hand; MaxDepth bounds the recursion.
type textParser struct {
	*parser
	*scanner
	token token
}

func (t *textParser) advance() error {
	next, err := t.scan()
	if err == nil {
		t.token = next
	}
	return err
}

// expression reads a formula, whose first token is in hand.
func (t *textParser) expression() (argument, error) {
	f := formulaParser{scanner: t.scanner, token: t.token}
	e, err := f.expression()
	t.token, t.formula = f.token, false
	return argument{formula: e}, err
}

// json reads an argument that is written as in JSON, whose first token is in hand.
func (t *textParser) json(d *definition, p parameter) (argument, error) {
	at := t.token.at
	r := jsonReader{scanner: t.scanner, token: t.token, embedded: true}
	v, err := r.value(t.pointer, 1)
	if err != nil {
		return argument{}, err
	}
	t.token = r.token
	arg, wrong := p.readJSON(v)
	if wrong != "" {
		return argument{}, t.problem(at, "the %s of %s %s", p.caption, d.usage(), wrong)
	}
	return arg, nil
}

func (t *textParser) block(depth int) (block, error) {
	name := t.token
	if name.kind != nameToken {
		return nil, t.problem(name.at, "expected a block (%s), found %s", knownNames(), name)
	}
	d := known[name.text]
	if d == nil {
		return nil, t.problem(name.at, "unknown block %s; expected one of %s (upper and lower case matter)", clip(name.text), knownNames())
	}
	if wrong := t.enter(d, depth); wrong != "" {
		return nil, t.problem(name.at, "the strategy %s", wrong)
	}
	if err := t.advance(); err != nil {
		return nil, err
	}
	if d.parameters == nil {
		if t.token.is("(") {
			return nil, t.problem(t.token.at, "%s has no arguments; expected it without parentheses", d.name)
		}
		return d.build(nil), nil
	}
	args, err := t.arguments(d, depth)
	if err != nil {
		return nil, err
	}
	return d.build(args), nil
}

// arguments reads from the opening to the closing parenthesis.
func (t *textParser) arguments(d *definition, depth int) ([]argument, error) {
	t.formula = d.parameters[0].kind == formulaParameter
	if err := t.expect("(", d); err != nil {
		return nil, err
	}
	args := make([]argument, len(d.parameters))
	first := true
	for i, p := range d.parameters {
		if !first {
			if err := t.expect(",", d); err != nil {
				return nil, err
			}
		}
		if first = p.optional && !p.opens(t.token); first { // the comma was that of the next
			continue
		}
		if wrong := d.outOfPlace(p, t.token); wrong != "" {
			return nil, t.problem(t.token.at, "%s", wrong)
		}
		var err error
		if args[i], err = t.argument(d, p, depth); err != nil {
			return nil, err
		}
	}
	return args, t.expect(")", d)
}

func (t *textParser) argument(d *definition, p parameter, depth int) (argument, error) {
	switch p.kind {
	case blockParameter:
		b, err := t.block(depth + 1)
		return argument{blocks: []block{b}}, err
	case blocksParameter:
		return t.blocks(d, depth)
	case formulaParameter:
		return t.expression()
	case configParameter, valuesParameter:
		return t.json(d, p)
	case settingParameter, missingParameter:
		if err := t.advance(); err != nil {
			return argument{}, err
		}
		if err := t.expect("=", d); err != nil {
			return argument{}, err
		}
	}
	arg, wrong := p.read(t.token)
	if wrong != "" {
		return argument{}, t.problem(t.token.at, "the %s of %s %s", p.caption, d.usage(), wrong)
	}
	return arg, t.advance()
}

func (t *textParser) blocks(d *definition, depth int) (argument, error) {
	var arg argument
	for {
		b, err := t.block(depth + 1)
		if err != nil {
			return argument{}, err
		}
		arg.blocks = append(arg.blocks, b)
		if len(arg.blocks) >= 2 && t.token.is(")") {
			return arg, nil
		}
		if err := t.expect(",", d); err != nil {
			return argument{}, err
		}
	}
}

// expect steps over a mark.
func (t *textParser) expect(mark string, d *definition) error {
	if !t.token.is(mark) {
		return t.problem(t.token.at, "expected '%s' as in %s, found %s", mark, d.usage(), t.token)
	}
	return t.advance()
}
