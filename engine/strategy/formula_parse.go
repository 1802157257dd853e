package strategy

import (
	"errors"
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
)

// parseFormula reads a whole source.
func parseFormula(source, pointer string) (*Expression, error) {
	if len(source) > MaxBytes {
		return nil, invalid(pointer, "has %d bytes; at most %d bytes are allowed: use a shorter expression", len(source), MaxBytes)
	}
	s, err := newScanner(source, pointer, "is wrong")
	if err != nil {
		return nil, err
	}
	f := formulaParser{scanner: s}
	if err := f.advance(); err != nil {
		return nil, err
	}
	e, err := f.expression()
	if err != nil {
		return nil, err
	}
	if f.token.kind != endToken {
		return nil, f.problem(f.token.at, "expected an operator or the end of the expression, found %s", f.token)
	}
	return e, nil
}

// formulaParser is a recursive descent with one token in hand; MaxNesting bounds the recursion. Types are checked on the way up.
type formulaParser struct {
	*scanner
	token token
	terms int
	depth int
}

func (f *formulaParser) advance() error {
	next, err := f.scanFormula()
	if err == nil {
		f.token = next
	}
	return err
}

// expression reads a formula up to the first token that cannot be part of it, which stays in hand.
func (f *formulaParser) expression() (*Expression, error) {
	at := f.token.at
	root, err := f.level(orRank)
	if err != nil {
		return nil, err
	}
	if err := f.number(root, "the score"); err != nil {
		if root.kind == truthKind {
			return nil, f.problem(at, "the score must be a number; found true or false: write if(..., 1, 0)")
		}
		return nil, err
	}
	e := &Expression{root: root}
	if err := f.bind(e); err != nil {
		return nil, err
	}
	e.text = string(appendTerm(nil, root, orRank))
	return e, nil
}

// term counts one more node.
func (f *formulaParser) term(t Term) (*Term, error) {
	if f.terms++; f.terms > MaxTerms {
		return nil, f.problem(t.at, "the expression has more than %d terms; use fewer", MaxTerms)
	}
	t.Int, t.Word = -1, -1
	return &t, nil
}

// deeper counts the nesting; the caller takes it back with f.depth--.
func (f *formulaParser) deeper(at int) error {
	if f.depth++; f.depth > MaxNesting {
		return f.problem(at, "the expression nests deeper than %d levels; put fewer parentheses, functions and signs "+
			"inside each other", MaxNesting)
	}
	return nil
}

// level reads terms joined by the operators of a rank. Each term is made of operators that bind tighter.
func (f *formulaParser) level(rank int) (*Term, error) {
	switch rank {
	case notRank:
		return f.not()
	case unaryRank:
		return f.unary()
	}
	left, err := f.level(rank + 1)
	if err != nil {
		return nil, err
	}
	for {
		o, ok := f.operator(rank)
		if !ok {
			return left, nil
		}
		at := f.token.at
		if err := f.advance(); err != nil {
			return nil, err
		}
		right, err := f.level(rank + 1)
		if err != nil {
			return nil, err
		}
		if left, err = f.join(o, at, left, right); err != nil {
			return nil, err
		}
	}
}

// operator says which operator of the rank is in hand.
func (f *formulaParser) operator(rank int) (operator, bool) {
	if f.token.kind != markToken && f.token.kind != nameToken {
		return operator{}, false
	}
	at := slices.IndexFunc(operators, func(o operator) bool { return o.text == f.token.text && o.rank == rank })
	if at < 0 {
		return operator{}, false
	}
	return operators[at], true
}

func (f *formulaParser) not() (*Term, error) {
	if f.token.kind != nameToken || f.token.text != "not" {
		return f.level(compareRank)
	}
	at := f.token.at
	inner, err := f.inside(f.not)
	if err != nil {
		return nil, err
	}
	if inner.kind != truthKind {
		return nil, f.mismatch(inner, "what follows not", truthKind)
	}
	return f.term(Term{Op: OpNot, Terms: []*Term{inner}, kind: truthKind, at: at})
}

func (f *formulaParser) unary() (*Term, error) {
	if !f.token.is("-") {
		return f.atom()
	}
	at := f.token.at
	inner, err := f.inside(f.unary)
	if err != nil {
		return nil, err
	}
	if err := f.number(inner, "what follows -"); err != nil {
		return nil, err
	}
	return f.term(Term{Op: OpNegate, Terms: []*Term{inner}, at: at})
}

// inside steps over the token in hand and reads a term one level deeper.
func (f *formulaParser) inside(read func() (*Term, error)) (*Term, error) {
	if err := f.deeper(f.token.at); err != nil {
		return nil, err
	}
	if err := f.advance(); err != nil {
		return nil, err
	}
	t, err := read()
	f.depth--
	return t, err
}

// join checks the two sides of an operator and makes its term.
func (f *formulaParser) join(o operator, at int, left, right *Term) (*Term, error) {
	kind := numberKind
	switch {
	case o.op == OpAnd || o.op == OpOr:
		kind = truthKind
		for _, side := range []*Term{left, right} {
			if side.kind != truthKind {
				return nil, f.mismatch(side, "each side of "+o.text, truthKind)
			}
		}
	case (o.op == OpEqual || o.op == OpNotEqual) && left.isValue() && right.isValue():
		return f.compareValues(o, at, left, right)
	default:
		if o.rank == compareRank {
			kind = truthKind
		}
		for _, side := range []*Term{left, right} {
			if err := f.number(side, "each side of "+o.text); err != nil {
				return nil, err
			}
		}
	}
	return f.term(Term{Op: o.op, Terms: []*Term{left, right}, kind: kind, at: at})
}

// isValue says that the term is a string or may be one.
func (t *Term) isValue() bool { return t.kind == textKind || t.kind == valueKind }

func (f *formulaParser) compareValues(o operator, at int, left, right *Term) (*Term, error) {
	if left.kind == textKind && right.kind == textKind {
		return nil, f.problem(right.at, "two strings are compared; one side must be meta or context")
	}
	op := OpSame
	if o.op == OpNotEqual {
		op = OpDiffer
	}
	for _, side := range []*Term{left, right} {
		side.text, side.ints = true, left.kind == right.kind
	}
	return f.term(Term{Op: op, Terms: []*Term{left, right}, kind: truthKind, at: at})
}

// number demands that the term is a number, which makes a value one.
func (f *formulaParser) number(t *Term, what string) error {
	if t.kind == valueKind {
		t.kind, t.ints = numberKind, true
	}
	if t.kind == numberKind {
		return nil
	}
	return f.mismatch(t, what, numberKind)
}

func (f *formulaParser) mismatch(t *Term, what string, want termKind) error {
	hint := ""
	if t.kind == textKind {
		hint = "; strings can only be compared with meta or context, by == and !="
	}
	return f.problem(t.at, "%s must be %s; found %s%s", what, kindNames[want], kindNames[t.kind], hint)
}

// atom reads a term without an operator.
func (f *formulaParser) atom() (*Term, error) {
	t := f.token
	switch {
	case t.kind == numberToken:
		value, _ := quantity(t.text) // the scanner has checked it
		return f.step(Term{Op: OpNumber, Number: value, at: t.at})
	case t.kind == stringToken:
		if len(t.text) > queue.MaxMetaValueBytes {
			return nil, f.problem(t.at, "the string has %d bytes, and no value that it could equal has more than %d bytes; "+
				"use a shorter one", len(t.text), queue.MaxMetaValueBytes)
		}
		return f.step(Term{Op: OpText, Text: t.text, kind: textKind, at: t.at})
	case t.is("("):
		inner, err := f.inside(func() (*Term, error) { return f.level(orRank) })
		if err != nil {
			return nil, err
		}
		return inner, f.expect(")")
	case t.kind == nameToken:
		return f.named()
	}
	return nil, f.problem(t.at, "expected a number, a column or a function (%s), found %s", formulaNames(), t)
}

// step makes a term of the token in hand and goes on.
func (f *formulaParser) step(t Term) (*Term, error) {
	if err := f.advance(); err != nil {
		return nil, err
	}
	return f.term(t)
}

func (f *formulaParser) named() (*Term, error) {
	name := f.token
	if column, ok := formulaColumns[name.text]; ok {
		return f.step(Term{Op: OpColumn, Number: column.divisor, name: name.text, at: name.at})
	}
	if _, ok := formulaValues[name.text]; ok {
		return f.value(name)
	}
	if _, ok := formulaCounts[name.text]; ok {
		return f.count(name)
	}
	if _, ok := formulaFunctions[name.text]; ok {
		return f.function(name)
	}
	if name.text == skip {
		return f.step(Term{Op: OpNumber, Number: notANumber, at: name.at})
	}
	return nil, f.problem(name.at, "unknown name %s; expected one of %s", clip(name.text), formulaNames())
}

// value reads meta.KEY, meta("KEY") or meta("KEY", default).
func (f *formulaParser) value(name token) (*Term, error) {
	if err := f.advance(); err != nil {
		return nil, err
	}
	t := Term{Op: OpValue, kind: valueKind, name: name.text, at: name.at}
	if f.token.is(".") {
		if err := f.advance(); err != nil {
			return nil, err
		}
		if f.token.kind != nameToken {
			return nil, f.problem(f.token.at,
				`expected a key of letters, digits and '_' after %s. (others as in %s("my-key")), found %s`, name.text, name.text, f.token)
		}
		if err := f.key(&t, token{kind: stringToken, text: f.token.text, at: f.token.at}); err != nil {
			return nil, err
		}
		return f.term(t)
	}
	if err := f.open(name, `.KEY or ("KEY")`, &t); err != nil {
		return nil, err
	}
	if f.token.is(",") {
		other, err := f.inside(func() (*Term, error) { return f.level(orRank) })
		if err != nil {
			return nil, err
		}
		if err := f.number(other, "the default"); err != nil {
			return nil, err
		}
		t.Terms, t.kind, t.ints = []*Term{other}, numberKind, true
	}
	if err := f.expect(")"); err != nil {
		return nil, err
	}
	return f.term(t)
}

// count reads inflight("KEY") or limit("KEY").
func (f *formulaParser) count(name token) (*Term, error) {
	t := Term{Op: OpColumn, Number: 1, name: name.text, at: name.at}
	if err := f.advance(); err != nil {
		return nil, err
	}
	if err := f.open(name, `("KEY")`, &t); err != nil {
		return nil, err
	}
	if err := f.expect(")"); err != nil {
		return nil, err
	}
	return f.term(t)
}

// open reads the opening parenthesis and the key behind it.
func (f *formulaParser) open(name token, as string, t *Term) error {
	if !f.token.is("(") {
		return f.problem(f.token.at, "expected %s after %s, found %s", as, name.text, f.token)
	}
	if err := f.advance(); err != nil {
		return err
	}
	return f.key(t, f.token)
}

func (f *formulaParser) key(t *Term, from token) error {
	key, wrong := readKey(from)
	if wrong != "" {
		return f.problem(from.at, "the key of %s %s", t.name, wrong)
	}
	t.key = key
	return f.advance()
}

func (f *formulaParser) function(name token) (*Term, error) {
	shape := formulaFunctions[name.text]
	if err := f.advance(); err != nil {
		return nil, err
	}
	if !f.token.is("(") {
		return nil, f.problem(f.token.at, "expected '(' after %s, found %s", name.text, f.token)
	}
	t := Term{Op: shape.op, name: name.text, at: name.at}
	for {
		inner, err := f.inside(func() (*Term, error) { return f.level(orRank) }) // over "(" or ","
		if err != nil {
			return nil, err
		}
		t.Terms = append(t.Terms, inner)
		if f.token.is(")") {
			break
		}
		if !f.token.is(",") {
			return nil, f.problem(f.token.at, "expected ',' or ')' within %s(...), found %s", name.text, f.token)
		}
	}
	if n := len(t.Terms); n < shape.least || shape.most > 0 && n > shape.most {
		return nil, f.problem(name.at, "%s has %d terms; expected %s", name.text, n, signature(name.text))
	}
	if err := f.typed(&t); err != nil {
		return nil, err
	}
	return f.step(t)
}

// signature shows how a function is written.
func signature(name string) string {
	switch shape := formulaFunctions[name]; {
	case shape.op == OpIf:
		return "if(condition, then, otherwise)"
	case shape.op == OpClamp:
		return "clamp(x, low, high)"
	case shape.most == 0:
		return name + "(a, b, ...)"
	}
	return name + "(x)"
}

// typed checks the terms of a function: numbers, but if takes a truth and two of one kind.
func (f *formulaParser) typed(t *Term) error {
	terms := t.Terms
	if t.Op == OpIf {
		if terms[0].kind != truthKind {
			return f.mismatch(terms[0], "the condition of if", truthKind)
		}
		terms = terms[1:]
		if terms[0].kind == truthKind && terms[1].kind == truthKind {
			t.kind = truthKind
			return nil
		}
	}
	for _, inner := range terms {
		if err := f.number(inner, "each term of "+t.name); err != nil {
			return err
		}
	}
	return nil
}

func (f *formulaParser) expect(mark string) error {
	if !f.token.is(mark) {
		return f.problem(f.token.at, "expected an operator or '%s', found %s", mark, f.token)
	}
	return f.advance()
}

// bind gives every term that reads a column its place among the columns.
func (f *formulaParser) bind(e *Expression) error {
	var candidate, context []Column
	collect := func(t *Term) error {
		for _, c := range t.reads() {
			list := &candidate
			if c.Single() {
				list = &context
			}
			if !slices.Contains(*list, c) {
				*list = append(*list, c)
			}
		}
		if n := len(candidate) + len(context); n > MaxColumns {
			return f.problem(t.at, "the expression reads more than %d different columns (a comparison of "+
				"two values takes four); use fewer", MaxColumns)
		}
		return nil
	}
	if err := e.root.each(collect); err != nil {
		return err
	}
	e.columns = slices.Concat(candidate, context)
	return e.root.each(func(t *Term) error {
		for _, c := range t.reads() {
			at := slices.Index(e.columns, c)
			if at < 0 {
				return errors.New("strategy: a column of " + strings.TrimSpace(t.name) + " is not bound")
			}
			if c.IsString() {
				t.Word = at
			} else {
				t.Int = at
			}
		}
		return nil
	})
}

// reads are the columns of the term itself.
func (t *Term) reads() (columns []Column) {
	switch t.Op {
	case OpColumn:
		if property, ok := formulaCounts[t.name]; ok {
			return []Column{{property, t.key}}
		}
		return []Column{{Property: formulaColumns[t.name].property}}
	case OpValue:
		properties := formulaValues[t.name]
		if t.ints {
			columns = append(columns, Column{properties[0], t.key})
		}
		if t.text {
			columns = append(columns, Column{properties[1], t.key})
		}
	}
	return columns
}

// each calls fn for the term and all that are inside of it, in the order of the text, until an error.
func (t *Term) each(fn func(*Term) error) error {
	if err := fn(t); err != nil {
		return err
	}
	for _, inner := range t.Terms {
		if err := inner.each(fn); err != nil {
			return err
		}
	}
	return nil
}
