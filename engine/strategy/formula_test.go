package strategy

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/queue"
)

// A formula that is written in many ways has one canonical text, with as few parentheses as keep its meaning, and reads
// certain columns.
func TestFormulas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, canonical, columns string }{
		{"priority*10-attempts*5", "priority*10 - attempts*5", "[{2 } {4 }]"},
		{" ( ( priority ) ) ", "priority", "[{2 }]"},
		{"1+2+3", "1 + 2 + 3", "[]"},
		{"1+(2+3)", "1 + (2 + 3)", "[]"},
		{"(1-2)-3", "1 - 2 - 3", "[]"},
		{"1-(2-3)*-4", "1 - (2 - 3)*-4", "[]"},
		{"-(1+2)", "-(1 + 2)", "[]"},
		{"- -id", "--id", "[{0 }]"},
		{"1/2*3%4", "1/2*3%4", "[]"},
		{"1/(2*3)", "1/(2*3)", "[]"},
		{"if(not id>1 and index<2 or total==3,1,2)", "if(not id > 1 and index < 2 or total == 3, 1, 2)", "[{0 } {1 } {7 }]"},
		{"if(not (id>1 and index<2) and (id<0 or id>9),1,2)", "if(not (id > 1 and index < 2) and (id < 0 or id > 9), 1, 2)", "[{0 } {1 }]"},
		{"if((id>1 and id<2) or id==5,1,2)", "if(id > 1 and id < 2 or id == 5, 1, 2)", "[{0 }]"},
		{"5m + 1.50 + 1e3 + 2h + 500ms + 1d + 1e-7 + 1e21 + 0.5s", "300000 + 1.5 + 1000 + 7200000 + 500 + 86400000 + 1e-07 + 1e+21 + 500", "[]"},
		{`meta("a") + meta.b_1 + meta("c-1") + meta("9")`, `meta.a + meta.b_1 + meta("c-1") + meta("9")`, "[{9 a} {9 b_1} {9 c-1} {9 9}]"},
		{`meta("a", -1) + meta("a")`, `meta("a", -1) + meta.a`, "[{9 a}]"},
		{`context.zone + inflight ( "company" ) - limit("company")`, `context.zone + inflight("company") - limit("company")`, "[{11 company} {13 company} {14 zone}]"},
		{`if(meta.mode=="preview",1,skip)`, `if(meta.mode == "preview", 1, skip)`, "[{10 mode}]"},
		{`if(context.warm_model!=meta("model"),0,1)`, `if(context.warm_model != meta.model, 0, 1)`, "[{9 model} {10 model} {14 warm_model} {15 warm_model}]"},
		{`if(meta.a == 5, meta.a, age_s)`, `if(meta.a == 5, meta.a, age_s)`, "[{9 a} {3 }]"},
		{`min(age, age_s, 3) + clamp(skipped,0,inflight_submission) + max(available, max_attempts)`, `min(age, age_s, 3) + clamp(skipped, 0, inflight_submission) + max(available, max_attempts)`, "[{3 } {8 } {12 } {6 } {5 }]"},
		{`if(if(id>1,id<2,id>3),1,2)`, `if(if(id > 1, id < 2, id > 3), 1, 2)`, "[{0 }]"},
		{`if(meta.a == "\u00e9\n", 1, 2)`, `if(meta.a == "é\n", 1, 2)`, "[{10 a}]"},
		{`if((id+1 > 2) and not not id > 1, 1, 0)`, `if(id + 1 > 2 and not not id > 1, 1, 0)`, "[{0 }]"},
	} {
		e, err := ParseExpression(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if e.String() != c.canonical || fmt.Sprint(e.Columns()) != c.columns {
			t.Errorf("%s\n got %s %v\nwant %s %s", c.text, e, e.Columns(), c.canonical, c.columns)
		}
	}
}

var formulaErrors = []struct{ text, detail string }{
	{"", "line 1, column 1: expected a number, a column or a function (age, age_s, "},
	{"prio", "column 1: unknown name prio; expected one of age, age_s, attempts, available, id, index, inflight_submission, max_attempts, priority, skipped, total, context.KEY"},
	{"priority +", "column 11: expected a number, a column or a function"},
	{"priority\n + *", "line 2, column 4: expected a number, a column or a function"},
	{"priority 5", "column 10: expected an operator or the end of the expression, found 5"},
	{"priority > 5", "column 1: the score must be a number; found true or false: write if(..., 1, 0)"},
	{`"x"`, "column 1: the score must be a number; found a string; strings can only be compared"},
	{"1 + (2 > 1)", "column 8: each side of + must be a number; found true or false"},
	{`1 + "x"`, "column 5: each side of + must be a number; found a string; strings can only be compared with meta or context, by == and !="},
	{`if("a" == "b", 1, 0)`, "column 11: two strings are compared; one side must be meta or context"},
	{`if(priority == "b", 1, 0)`, "column 16: each side of == must be a number; found a string"},
	{`if(meta.a < "b", 1, 0)`, "column 13: each side of < must be a number; found a string"},
	{`if(priority < 1 < 2, 1, 0)`, "column 13: each side of < must be a number; found true or false"},
	{`if((priority < 1) == (id < 2), 1, 0)`, "column 14: each side of == must be a number; found true or false"},
	{"if(priority, 1, 0)", "column 4: the condition of if must be true or false; found a number"},
	{"if(meta.a, 1, 0)", "column 4: the condition of if must be true or false; found a value"},
	{"if(id > 1 and 2, 1, 0)", "column 15: each side of and must be true or false; found a number"},
	{"if(not 1, 1, 0)", "column 8: what follows not must be true or false; found a number"},
	{"-(id > 1)", "column 6: what follows - must be a number; found true or false"},
	{"if(id > 1, 1)", "column 1: if has 2 terms; expected if(condition, then, otherwise)"},
	{"if(id > 1, 1, id > 2)", "column 18: each term of if must be a number; found true or false"},
	{"if(id > 1, id < 1, 2) + 1", "column 15: each term of if must be a number; found true or false"},
	{"min(1)", "column 1: min has 1 terms; expected min(a, b, ...)"},
	{"abs(1, 2)", "column 1: abs has 2 terms; expected abs(x)"},
	{"clamp(1, 2, 3, 4)", "expected clamp(x, low, high)"},
	{"abs", "column 4: expected '(' after abs, found the end"},
	{"abs(1", "column 6: expected ',' or ')' within abs(...), found the end"},
	{"(1", "column 3: expected an operator or ')', found the end"},
	{"meta", `column 5: expected .KEY or ("KEY") after meta, found the end`},
	{"meta.5", "column 6: expected a key of letters, digits and '_' after meta."},
	{"meta.", "column 6: expected a key"},
	{`meta("a b")`, `column 6: the key of meta must be a meta key; this has the key "a b"`},
	{`meta(a)`, `column 6: the key of meta must be a meta key, a string in double quotes; found a`},
	{`meta("a", "b")`, `column 11: the default must be a number; found a string`},
	{`limit.a`, `column 6: expected ("KEY") after limit, found '.'`},
	{"1 && 2", "column 3: unexpected &&; expected and, or, not"},
	{"if(!id > 1, 1, 0)", "column 4: unexpected !"},
	{"if(id = 1, 1, 0)", "column 7: unexpected =; expected == to compare"},
	{"1 $ 2", "column 3: unexpected character '$'"},
	{"007", "column 1: expected a finite number"},
	{"1.", "column 1: expected a finite number"},
	{"5 + 5min", "column 5: expected a finite number such as 10, 0.5 or 1e3 (no leading zeros, digits on both sides of a point), or a time such as 500ms, 30s, 5m, 2h or 1d; found 5min"},
	{"1e999", "column 1: expected a finite number"},
	{"1e306d", "column 1: expected a finite number"},
	{`meta.a == "` + longValue + `"`, "column 11: the string has 257 bytes, and no value that it could equal has more than 256 bytes; use a shorter one"},
	{"\xff", "column 1: expected UTF-8, found the byte 0xff"},
	{strings.Repeat("(", MaxNesting+1) + "1" + strings.Repeat(")", MaxNesting+1), "column 33: the expression nests deeper than 32 levels"},
	{strings.Repeat("-", 100_000) + "1", "has 100001 bytes"},
	{strings.Repeat("-", MaxBytes-1) + "1", "column 33: the expression nests deeper than 32 levels"},
	{strings.Repeat("not ", 100) + "1", "the expression nests deeper than 32 levels"},
	{strings.TrimSuffix(strings.Repeat("1+", 129), "+"), "has more than 256 terms"},
}

// The error of every mistake in a formula has its place and the expected input.
func TestFormulaErrors(t *testing.T) {
	t.Parallel()
	for _, c := range formulaErrors {
		_, err := ParseExpression(c.text)
		errorCase{c.text, "/expression", c.detail}.check(t, "ParseExpression", err)
	}
	columns := make([]string, MaxColumns+1)
	for i := range columns {
		columns[i] = fmt.Sprintf("meta.k%d", i)
	}
	formula(t, strings.Join(columns[1:], "+"))
	_, err := ParseExpression(strings.Join(columns, "+"))
	errorCase{"33 columns", "/expression", "column 279: the expression reads more than 32 different columns"}.check(t, "ParseExpression", err)
	formula(t, strings.Repeat("(", MaxNesting)+"1"+strings.Repeat(")", MaxNesting))
	formula(t, strings.TrimSuffix(strings.Repeat("1+", 128), "+"))
}

// However a formula is spelled, it is read as the same one, and its canonical text too.
func TestFormulaRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := anyFormula(4).Draw(t, "formula")
		e, err := ParseExpression(text)
		if err != nil {
			t.Skip(err)
		}
		spelled := spellFormula(t, e.Root(), orRank)
		for _, source := range []string{e.String(), spelled} {
			again, err := ParseExpression(source)
			if source == spelled && err != nil {
				continue // more parentheses than may be
			}
			if err != nil || again.String() != e.String() || fmt.Sprint(again.Columns()) != fmt.Sprint(e.Columns()) {
				t.Fatalf("%s\nread from %s\n got %v %v, columns %v\nwant %v", text, source, again, err, again.Columns(), e.Columns())
			}
		}
	})
}

// No text makes the parser panic. A formula that it accepts has a canonical text that it accepts again, and a score for every
// row.
func FuzzFormula(f *testing.F) {
	for _, c := range formulaErrors {
		f.Add(c.text)
	}
	for _, text := range []string{"priority*10 - attempts*5", `if(context.warm == meta("m"), 5m, -meta("x", 1))%3`, "clamp(age_s, 0, 1e3)"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseExpression(text)
		if err != nil {
			var invalid *queue.Error
			if !errors.As(err, &invalid) || invalid.Code != queue.CodeInvalid || len(invalid.Problems) != 1 {
				t.Fatalf("%q: got %v, want a *queue.Error of CodeInvalid with one problem", text, err)
			}
			return
		}
		again, err := ParseExpression(e.String())
		if err != nil || again.String() != e.String() {
			t.Fatalf("%q is %s, which is read as %v with the error %v", text, e, again, err)
		}
		w := &Window{Rows: 1, Dictionary: []string{"x"}}
		for _, c := range e.Columns() {
			if c.IsString() {
				w.Columns = append(w.Columns, Values{Words: []uint32{1}})
			} else {
				w.Columns = append(w.Columns, Values{Numbers: []int64{math.MinInt64}})
			}
		}
		if a, b := e.Eval(w, 0), again.Eval(w, 0); math.Float64bits(a) != math.Float64bits(b) && (a == a || b == b) {
			t.Fatalf("%q scores %v, its canonical text %s scores %v", text, a, e, b)
		}
	})
}

// The reference itself, compared with scores worked out by hand, for a candidate with a=7, m="x" and without k, asked with the
// context zone=2, warm="x".
func TestEval(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	for text, want := range map[string]float64{
		"priority*10 - attempts*5": 20, "age_s": 1.5, "-priority": -3, "meta.a": 7, "meta.k": nan, `meta("k", 9)`: 9, `meta("a", 9)`: 7, "meta.m": nan,
		"7 % 3": 1, "-7 % 3": -1, "7.5 % -2": 1.5, "1 % 0": nan, "1/0": inf, "0/0": nan, "min(1, 0/0)": nan, "max(2, 3, 1)": 3, "clamp(5, 0, 3)": 3, "clamp(5, 6, 3)": 6,
		"abs(-2)": 2, "floor(-1.5)": -2, "ceil(-1.5)": -1, "sqrt(9)": 3, "sqrt(-1)": nan, "skip": nan, "5m": 300_000,
		`if(meta.m == "x", 1, 0)`: 1, `if(meta.m == "y", 1, 0)`: 0, `if(meta.k == "x", 1, 0)`: 0, `if(meta.k != "x", 1, 0)`: 1, `if(meta.a == "7", 1, 0)`: 0, "if(meta.a == 7, 1, 0)": 1,
		"if(context.warm == meta.m, 1, 0)": 1, "if(meta.a == meta.a, 1, 0)": 1, "if(meta.a == meta.m, 1, 0)": 0, "if(meta.k == meta.k, 1, 0)": 0, "if(meta.k != meta.k, 1, 0)": 1,
		"context.zone*2": 4, "if(meta.k > 1 or meta.k <= 1, 1, 0)": 0, "if(meta.k != 1, 1, 0)": 1, "if(not meta.k > 1, 1, 0)": 1, "if(1 < 2 and 2 < 1, 1, 0)": 0, "2 - 3 - 4": -5, "2 - (3 - 4)": 3, "2 + 3*4": 14,
	} {
		e := formula(t, text)
		w := &Window{Rows: 1, Dictionary: []string{"x"}}
		for _, c := range e.Columns() {
			values := Values{Numbers: []int64{0}, Present: []bool{true}}
			if c.IsString() {
				values = Values{Words: []uint32{0}}
			}
			switch c {
			case Column{Property: Priority}:
				values.Numbers[0] = 3
			case Column{Property: Attempts}, Column{ContextInt, "zone"}:
				values.Numbers[0] = 2
			case Column{Property: Age}:
				values.Numbers[0] = 1500
			case Column{MetaInt, "a"}:
				values.Numbers[0] = 7
			case Column{MetaString, "m"}, Column{ContextString, "warm"}:
				values.Words[0] = 1
			default:
				values.Present = []bool{false}
			}
			w.Columns = append(w.Columns, values)
		}
		if got := e.Eval(w, 0); got != want && (got == got || want == want) {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}
