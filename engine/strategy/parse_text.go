package strategy

// parser builds the tree from either form; a JSON strategy may hold pieces in the text form, and the limits count over
// all of it.
type parser struct{ nodes int }

// enter counts one more block, depth blocks inside each other. It returns what is wrong with that, or "".
func (p *parser) enter(depth int) (wrong string) {
	p.nodes++
	switch {
	case depth > MaxDepth:
		return tooDeep
	case p.nodes > MaxNodes:
		return tooMany
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

func (t *textParser) block(depth int) (block, error) {
	name := t.token
	if name.kind != nameToken {
		return nil, t.problem(name.at, "expected a block (%s), found %s", knownNames(), name)
	}
	d := known[name.text]
	if d == nil {
		return nil, t.problem(name.at, "unknown block %s; expected one of %s (upper and lower case matter)", clip(name.text), knownNames())
	}
	if wrong := t.enter(depth); wrong != "" {
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
