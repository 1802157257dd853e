package score_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/plugins/score"
	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/scan"
)

func expression(t testing.TB, text string) *strategy.Expression {
	t.Helper()
	e, err := strategy.ParseExpression(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

// still is a clock that does not move: no test here depends on how fast the machine is.
func still() time.Duration { return 0 }

// open puts a formula through all that an upload goes through, and makes a version of it.
func open(t testing.TB, e *strategy.Expression, capacity int, clock func() time.Duration) *host.Version {
	t.Helper()
	module, columns := score.Compile(e)
	if again, _ := score.Compile(e); !bytes.Equal(again, module) {
		t.Errorf("%s: compiled twice, to different modules", e)
	}
	report, violations := scan.Scan(module, scan.DefaultLimits())
	if len(violations) > 0 {
		t.Fatalf("%s: the scan refuses the module: %v", e, violations)
	}
	m, err := instrument.Instrument(module, report, instrument.DefaultOptions())
	if err != nil {
		t.Fatalf("%s: %v", e, err)
	}
	compiled, err := compile.InProcess(t.Context(), m.Bytes, 256)
	if err != nil {
		t.Fatalf("%s: %v", e, err)
	}
	v, err := host.Open(t.Context(), compiled, host.Options{
		Manifest:  &manifest.Manifest{Name: "score", Version: "1.0.0", State: manifest.Pooled, Take: manifest.All, Columns: columns, FuelPerCandidate: manifest.DefaultFuelEach, Pages: 256},
		Instances: 1, Capacity: capacity, Clock: clock,
	})
	if err != nil {
		t.Fatalf("%s: %v", e, err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return v
}

// batch is a window as the plugin interface has it.
func batch(e *strategy.Expression, w *strategy.Window) *abi.Batch {
	_, columns := score.Compile(e)
	b := &abi.Batch{Header: abi.Header{Rows: uint32(w.Rows), Now: 1, Seed: 2, Want: 1}, Dictionary: w.Dictionary}
	for i, v := range w.Columns {
		values := abi.Values{Valid: v.Present}
		switch columns[i].Type {
		case abi.I64:
			values.I64 = v.Numbers
		case abi.U32:
			values.U32 = v.Counts
		case abi.Str:
			values.U32 = v.Words
		}
		b.Columns = append(b.Columns, values)
	}
	return b
}

// compare scores a window in both ways.
func compare(t testing.TB, v *host.Version, e *strategy.Expression, w *strategy.Window) {
	t.Helper()
	scores := make([]float64, w.Rows)
	report, err := v.Score(t.Context(), batch(e, w), scores)
	if err != nil {
		t.Fatalf("%s: %v", e, err)
	}
	skipped := 0
	for row, got := range scores {
		want := e.Eval(w, row)
		if want != want {
			skipped++
		}
		if math.Float64bits(got) != math.Float64bits(want) && (got == got || want == want) {
			t.Fatalf("%s: row %d: got %v (%x), want %v (%x)\ncolumns %v\nwindow %+v", e, row, got, math.Float64bits(got), want, math.Float64bits(want), e.Columns(), w)
		}
	}
	if report.Unwritten != 0 || report.Skipped != skipped {
		t.Fatalf("%s: %d scores are unwritten, want 0; %d skipped, want %d", e, report.Unwritten, report.Skipped, skipped)
	}
}

// window draws the columns of a formula: small numbers that often meet, and the ends of the range.
func window(rnd *rand.Rand, e *strategy.Expression, rows int) *strategy.Window {
	w := &strategy.Window{Rows: rows, Dictionary: []string{"x", "", "preview", "y"}}
	_, columns := score.Compile(e)
	for i, c := range e.Columns() {
		n := rows
		if c.Single() {
			n = 1
		}
		var v strategy.Values
		for range n {
			switch {
			case c.IsString():
				v.Words = append(v.Words, uint32(rnd.IntN(len(w.Dictionary)+1)))
			case columns[i].Type == abi.U32:
				v.Counts = append(v.Counts, []uint32{0, 1, 2, 3, math.MaxUint32, rnd.Uint32()}[rnd.IntN(6)])
			default:
				v.Numbers = append(v.Numbers, []int64{0, 1, -1, 2, 5, math.MaxInt64, math.MinInt64, int64(rnd.Uint64())}[rnd.IntN(8)])
			}
		}
		if columns[i].Nullable {
			for range n {
				v.Present = append(v.Present, rnd.IntN(3) > 0)
			}
			if rnd.IntN(4) == 0 {
				v.Present = nil
			}
		}
		w.Columns = append(w.Columns, v)
	}
	return w
}

// Each operation, function and kind of column does what the reference says, on numbers that are easy and on those that are not.
func TestCompiledAgainstReference(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"1", "skip", "-0", "0/0", "1/0", "-1/0", "priority*10 - attempts*5", "id + index + priority + age + age_s + attempts + max_attempts",
		"available / total - skipped*inflight_submission", "-priority % 7", "priority % age", "priority % -2.5", "age % 0",
		"min(priority, age, meta.a)", "max(priority, -0, 0, 0/0)", "min(0, -0)", "max(-0, 0)", "min(-1/0, meta.a)", "clamp(priority, -1, age)", "clamp(priority, 5, 1)", "abs(priority)", "floor(priority/3)", "ceil(-priority/3)", "sqrt(age)",
		"if(priority > 1, age, attempts)", "if(priority == age, 1, 0)", "if(priority != meta.a, 1, 0)", "if(age >= 2 and not priority < 1 or attempts <= 1, 1, 0)",
		"if(if(age > 1, priority > 1, priority < 1), 1, skip)", `meta.a`, `meta("a", 7)`, `meta("a", meta("b", priority))`, "context.zone", `context("zone", -1)`, `inflight("a")/limit("a")`,
		`if(meta.mode == "preview", 1, 0)`, `if(meta.mode != "preview", 1, 0)`, `if("" == meta.mode, 1, 0)`, `if(context.mode == "x", 1, 0)`, `if(meta.mode == "never seen", 1, 0)`,
		`if(meta.a == meta.b, 1, 0)`, `if(context.warm == meta.model, 10, 0) + priority`, `if(context.a != context.b, 1, 0)`, `if(meta.a == "x" or meta.a == 5, meta("a", 1), 2)`,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			e := expression(t, text)
			v := open(t, e, 256, still)
			rnd := rand.New(rand.NewPCG(1, uint64(len(text))))
			for _, rows := range []int{0, 1, 2, 255, 256} {
				compare(t, v, e, window(rnd, e, rows))
			}
		})
	}
}

// drawn writes a random formula.
type drawn struct{ *rand.Rand }

func (d drawn) one(list ...string) string { return list[d.IntN(len(list))] }

func (d drawn) number(depth int) string {
	kind := d.IntN(9)
	if depth == 0 {
		kind = d.IntN(4)
	}
	switch kind {
	case 0:
		return d.one("0", "1", "2", "3.25", "5m", "1e30", "1e-9", "skip", "1e308")
	case 1:
		return d.one("id", "index", "priority", "age", "age_s", "attempts", "max_attempts", "available", "total", "skipped", "inflight_submission")
	case 2:
		return d.one(`inflight("a")`, `limit("b")`, "meta.a", "meta.b", "context.a")
	case 3:
		return d.one(`meta("a", 1)`, `context("zone", -2)`, `meta("b", meta.a)`)
	case 4:
		return "-(" + d.number(depth-1) + ")"
	case 5:
		return "if(" + d.truth(depth-1) + "," + d.number(depth-1) + "," + d.number(depth-1) + ")"
	case 6:
		return d.one("min", "max", "clamp") + "(" + d.number(depth-1) + "," + d.number(depth-1) + "," + d.number(depth-1) + ")"
	case 7:
		return d.one("abs", "floor", "ceil", "sqrt") + "(" + d.number(depth-1) + ")"
	default:
		return "(" + d.number(depth-1) + ")" + d.one("+", "-", "*", "/", "%") + "(" + d.number(depth-1) + ")"
	}
}

func (d drawn) truth(depth int) string {
	kind := d.IntN(6)
	if depth <= 0 {
		kind, depth = d.IntN(2), 1
	}
	switch kind {
	case 0:
		return d.one(`meta.a == "x"`, `"y" != meta.b`, `context.a == meta.a`, `meta.a != meta.b`, `context.b == ""`, `context.a == context.b`)
	case 1:
		return "(" + d.number(depth-1) + ")+0" + d.one("<", "<=", ">", ">=", "==", "!=") + "(" + d.number(depth-1) + ")"
	case 2:
		return "not (" + d.truth(depth-1) + ")"
	case 3:
		return "if(" + d.truth(depth-1) + "," + d.truth(depth-1) + "," + d.truth(depth-1) + ")"
	default:
		return "(" + d.truth(depth-1) + ") " + d.one("and", "or") + " (" + d.truth(depth-1) + ")"
	}
}

// Whatever the formula, the module gives the bits of the reference.
func TestRandomFormulas(t *testing.T) {
	t.Parallel()
	const seed, formulas = 20, 150
	long := 0
	for n := range formulas {
		rnd := rand.New(rand.NewPCG(seed, uint64(n)))
		text := drawn{rnd}.number(1 + n%5)
		e, err := strategy.ParseExpression(text)
		if err != nil {
			long++ // over one of the limits
			continue
		}
		v := open(t, e, 64, still)
		for range 4 {
			compare(t, v, e, window(rnd, e, 1+rnd.IntN(64)))
		}
	}
	if long > formulas/3 {
		t.Errorf("%d of %d formulas were too long: the test has become tame (seed %d)", long, formulas, seed)
	}
}

// FuzzFormula makes the checks of the two tests above, for every text that parses.
func FuzzFormula(f *testing.F) {
	for n := range 20 {
		f.Add(drawn{rand.New(rand.NewPCG(3, uint64(n)))}.number(3), uint64(n))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		e, err := strategy.ParseExpression(text)
		if err != nil {
			return
		}
		rnd := rand.New(rand.NewPCG(seed, 1))
		compare(t, open(t, e, 16, still), e, window(rnd, e, 1+rnd.IntN(16)))
	})
}

// A formula at all limits passes the scan, is compiled, and scores the largest batch that there is.
func TestLargest(t *testing.T) {
	t.Parallel()
	var terms []string
	for n := range strategy.MaxColumns {
		terms = append(terms, fmt.Sprintf(`meta("k%d", %d)`, n, n))
	}
	for len(terms)*2 < strategy.MaxTerms-strategy.MaxColumns {
		terms = append(terms, "meta.k1")
	}
	e := expression(t, strings.Join(terms, " + "))
	if n := len(e.Columns()); n != strategy.MaxColumns {
		t.Fatalf("%d columns, want %d", n, strategy.MaxColumns)
	}
	compare(t, open(t, e, abi.MaxCapacity, still), e, window(rand.New(rand.NewPCG(1, 1)), e, abi.MaxCapacity))
}

// A module whose strings find no room with the host does not start: a string without an id would be equal to an absent one.
func TestStringsWithoutRoom(t *testing.T) {
	t.Parallel()
	module, columns := score.Compile(expression(t, `if(meta.mode == "preview", 1, 0)`))
	report, _ := scan.Scan(module, scan.DefaultLimits())
	m, err := instrument.Instrument(module, report, instrument.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := compile.InProcess(t.Context(), m.Bytes, 256)
	if err != nil {
		t.Fatal(err)
	}
	columns[0] = abi.Column{Name: columns[0].Name, Type: abi.U32} // the host interns for columns of strings only
	v, err := host.Open(t.Context(), compiled, host.Options{Manifest: &manifest.Manifest{Columns: columns}, Instances: 1, Capacity: 16, Clock: still})
	var fault *host.Fault
	if !errors.As(err, &fault) || fault.Kind != host.Init || fault.Cause != host.Status {
		t.Errorf("got %v and %v, want a fault of quern_init with a status", v, err)
	}
}
