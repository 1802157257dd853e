package instrument_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/tetratelabs/wazero/sys"

	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/scan"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

const budget = 5_000_000

// Every hostile module that passes the scan is refused by the engine, or ends within its fuel with the fault that it is made for.
func TestHostileModulesEnd(t *testing.T) {
	t.Parallel()
	for _, h := range wasmtest.Corpus() {
		if h.Stage == wasmtest.Scan {
			continue
		}
		t.Run(h.Name, func(t *testing.T) {
			t.Parallel()
			if h.Stage == wasmtest.Compile {
				mustNotInstantiate(t, rewrite(t, h.Build(), instrument.DefaultOptions()).Bytes)
				return
			}
			i := load(t, h.Build(), instrument.DefaultOptions())
			if got := i.fault(); got != h.Fault {
				t.Errorf("the fault is %s, want %s", got, h.Fault)
			}
			if pages := i.Memory().Size() >> 16; pages > 256 {
				t.Errorf("the memory has %d pages, want at most 256", pages)
			}
		})
	}
}

func mustNotInstantiate(t *testing.T, rewritten []byte) {
	t.Helper()
	ctx, r := newRuntime(t)
	host := r.NewHostModuleBuilder(scan.HostModule).NewFunctionBuilder().WithFunc(func(context.Context) {}).Export(scan.TickImport)
	if _, err := host.Instantiate(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Instantiate(ctx, rewritten); err == nil {
		t.Error("the engine takes the rewritten module, want it refused")
	}
}

// fault runs a plugin as the host does, _initialize and one batch of eight rows, and says what went wrong.
func (i *instance) fault() wasmtest.Fault {
	i.t.Helper()
	if i.ExportedFunction("_initialize") != nil {
		if _, _, err := i.call(budget, "_initialize"); err != nil {
			return i.kind(err)
		}
	}
	const rows = 8
	batch := i.writeBatch([]int64{1, 2, 3, 4, 5, 6, 7, 8}, []int64{0, 0, 0, 0, 1, 1, 1, 1})
	results, used, err := i.call(budget, "quern_score", uint64(batch))
	switch {
	case err != nil:
		return i.kind(err)
	case used <= 0 || used > budget:
		i.t.Errorf("a call used %d units of %d", used, budget)
	case int32(results[0]) > 0:
		return wasmtest.GuestError
	}
	for _, score := range i.scores(batch, rows) {
		if math.IsNaN(score) || math.IsInf(score, 0) {
			return wasmtest.BadScores
		}
	}
	return wasmtest.Harmless
}

// kind is how the host distinguishes traps: by the signs of the counters.
func (i *instance) kind(err error) wasmtest.Fault {
	var exit *sys.ExitError
	switch {
	case errors.As(err, &exit):
		return wasmtest.ExitCalled
	case i.value(instrument.DepthExport) < 0:
		return wasmtest.TooDeep
	case i.value(instrument.FuelExport) < 0:
		return wasmtest.OutOfFuel
	}
	return wasmtest.Trap
}

// The batch of the tests: a header of 64 bytes, descriptors, columns, scores that begin as NaN.
func (i *instance) writeBatch(columns ...[]int64) (at uint32) {
	i.t.Helper()
	rows := len(columns[0])
	descriptors, data := 64, 64+16*len(columns)
	scores := data + 8*rows*len(columns)
	b := make([]byte, scores+8*rows)
	binary.LittleEndian.PutUint32(b[8:], uint32(rows))
	binary.LittleEndian.PutUint32(b[12:], uint32(len(columns)))
	binary.LittleEndian.PutUint32(b[16:], uint32(descriptors))
	binary.LittleEndian.PutUint32(b[20:], uint32(scores))
	for c, column := range columns {
		binary.LittleEndian.PutUint32(b[descriptors+16*c:], uint32(data+8*rows*c))
		for row, v := range column {
			binary.LittleEndian.PutUint64(b[data+8*(rows*c+row):], uint64(v))
		}
	}
	for row := range rows {
		binary.LittleEndian.PutUint64(b[scores+8*row:], math.Float64bits(math.NaN()))
	}
	results, _, err := i.call(100_000_000, "quern_alloc", uint64(len(b)))
	if err != nil {
		i.t.Fatal(err)
	}
	at = uint32(results[0])
	if !i.Memory().Write(at, b) {
		i.t.Fatalf("the plugin allocates %d bytes at %d, outside of its memory", len(b), at)
	}
	return at
}

func (i *instance) scores(batch uint32, rows int) []float64 {
	i.t.Helper()
	offset, _ := i.Memory().ReadUint32Le(batch + 20)
	scores := make([]float64, rows)
	for row := range scores {
		v, ok := i.Memory().ReadFloat64Le(batch + offset + uint32(8*row))
		if !ok {
			i.t.Fatal("the scores are outside of the memory")
		}
		scores[row] = v
	}
	return scores
}

// A good plugin scores as it says, and the same batch always takes the same fuel.
func TestScorer(t *testing.T) {
	t.Parallel()
	i := load(t, wasmtest.Scorer(), instrument.DefaultOptions())
	batch := i.writeBatch([]int64{3, -1, 7}, []int64{0, 2, 20})
	var first int64
	for turn := range 3 {
		_, used, err := i.call(budget, "quern_score", uint64(batch))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(i.scores(batch, 3)); got != "[30 -20 -30]" {
			t.Errorf("scores are %s, want [30 -20 -30]", got)
		}
		if turn == 0 {
			first = used
		}
		if used != first || used < 60 || used > 300 {
			t.Errorf("turn %d used %d units, the first %d; want the same, and 20 to 100 for each of 3 rows", turn, used, first)
		}
	}
}

// The fuel is exact at the border: the budget that a call used suffices, one unit less does not.
func TestFuelBorder(t *testing.T) {
	t.Parallel()
	// A loop of n turns, with a check at each head.
	module := wasmtest.Plugin(wasmtest.Code(
		0x03, wasmtest.Empty, 0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x0d, 0, wasmtest.End, 0x41, 0, wasmtest.End))
	for _, slice := range []int64{1, 7, 1_000_000} {
		o := instrument.DefaultOptions()
		o.Slice = slice
		_, used, err := load(t, module, o).call(budget, "quern_score", 1_000)
		if err != nil || used < 1_000 {
			t.Fatalf("a loop of 1,000 turns used %d units and ended with %v", used, err)
		}
		i := load(t, module, o)
		if _, _, err := i.call(used, "quern_score", 1_000); err != nil || i.value(instrument.FuelExport) < 0 {
			t.Errorf("slice %d: with the %d units that it uses the call ended with %v", slice, used, err)
		}
		i = load(t, module, o)
		if _, _, err := i.call(used-20, "quern_score", 1_000); err == nil || i.value(instrument.FuelExport) >= 0 {
			t.Errorf("slice %d: with 20 of %d units less the call ended with %v, fuel %d", slice, used, err, i.value(instrument.FuelExport))
		}
	}
}

// Depth calls may be open at once, and not one more; afterwards the counter is where it was.
func TestDepthBorder(t *testing.T) {
	t.Parallel()
	// score(n) = n == 0 ? 0 : score(n-1), which opens n+1 calls.
	module := wasmtest.Plugin(wasmtest.Code(
		0x20, 0, 0x45, 0x04, wasmtest.I32, 0x41, 0, 0x05, 0x20, 0, 0x41, 1, 0x6b, 0x10, 2, wasmtest.End, wasmtest.End))
	o := instrument.DefaultOptions()
	i := load(t, module, o)
	for range 2 {
		if _, _, err := i.call(budget, "quern_score", uint64(o.Depth-1)); err != nil {
			t.Fatalf("%d open calls end with %v", o.Depth, err)
		}
		if got := i.value(instrument.DepthExport); got != o.Depth {
			t.Fatalf("the depth is %d after a call, want %d", got, o.Depth)
		}
	}
	if _, _, err := i.call(budget, "quern_score", uint64(o.Depth)); err == nil || i.value(instrument.DepthExport) >= 0 || i.value(instrument.FuelExport) < 0 {
		t.Errorf("%d open calls end with %v, depth %d, fuel %d; want a trap with only the depth below zero", o.Depth+1, err, i.value(instrument.DepthExport), i.value(instrument.FuelExport))
	}
}

// The tick may end a call: by taking the fuel away, or by a panic.
func TestTickEndsACall(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*instance){
		"fuel":  func(i *instance) { i.counter(instrument.SliceExport).Set(0); i.counter(instrument.FuelExport).Set(0) },
		"panic": func(*instance) { panic(errors.New("deadline")) },
	} {
		i := load(t, wasmtest.Plugin(wasmtest.Code(0x03, wasmtest.Empty, 0x0c, 0, wasmtest.End, 0x41, 0, wasmtest.End)), instrument.DefaultOptions())
		i.onTick = func(i *instance) {
			if i.ticks == 3 {
				end(i)
			}
		}
		if _, _, err := i.call(1<<40, "quern_score", 0); err == nil || i.ticks != 3 {
			t.Errorf("%s: the call ended with %v after %d ticks, want an error after 3", name, err, i.ticks)
		}
	}
}

// With the exported globals and a copy of the memory, an instance goes back to where it was.
func TestStateIsRestored(t *testing.T) {
	t.Parallel()
	module := wasmtest.Counter()
	rewritten := rewrite(t, module, instrument.DefaultOptions())
	if len(rewritten.Globals) != 1 || rewritten.Globals[0].Type != wasmtest.I64 {
		t.Fatalf("the globals are %v, want one of type i64", rewritten.Globals)
	}
	i := load(t, module, instrument.DefaultOptions())
	batch := i.writeBatch([]int64{0, 0, 0})
	g := i.counter(rewritten.Globals[0].Export)
	for range 3 {
		g.Set(0)
		if _, _, err := i.call(budget, "quern_score", uint64(batch)); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(i.scores(batch, 3), g.Get()); got != "[1 2 3] 3" {
			t.Errorf("scores and counter are %s, want [1 2 3] 3", got)
		}
	}
}
