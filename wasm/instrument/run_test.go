package instrument_test

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/scan"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// instance is a rewritten module in the engine, with the host's side of the counters.
type instance struct {
	t *testing.T
	api.Module
	options instrument.Options
	ticks   int
	onTick  func(*instance)
}

// rewrite scans and rewrites a plugin, or ends the test.
func rewrite(t testing.TB, module []byte, o instrument.Options) *instrument.Module {
	t.Helper()
	report, violations := scan.Scan(module, scan.DefaultLimits())
	if len(violations) > 0 {
		t.Fatalf("the scan refuses the module: %v", violations)
	}
	out, err := instrument.Instrument(module, report, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func newRuntime(t testing.TB) (context.Context, wazero.Runtime) {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2))
	t.Cleanup(func() {
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return ctx, r
}

// load rewrites a plugin and instantiates it.
func load(t *testing.T, module []byte, o instrument.Options) *instance {
	t.Helper()
	return instantiate(t, rewrite(t, module, o).Bytes, o)
}

func instantiate(t *testing.T, rewritten []byte, o instrument.Options) *instance {
	t.Helper()
	ctx, r := newRuntime(t)
	i := &instance{t: t, options: o}
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	host := r.NewHostModuleBuilder(scan.HostModule)
	host.NewFunctionBuilder().WithFunc(func(context.Context) {
		i.ticks++
		if i.onTick != nil {
			i.onTick(i)
		}
	}).Export(scan.TickImport)
	host.NewFunctionBuilder().WithFunc(func(int32, int32, int32) {}).Export("log")
	if _, err := host.Instantiate(ctx); err != nil {
		t.Fatal(err)
	}
	var err error
	if i.Module, err = r.InstantiateWithConfig(ctx, rewritten, wazero.NewModuleConfig().WithName("").WithStartFunctions()); err != nil {
		t.Fatal(err)
	}
	return i
}

func (i *instance) counter(name string) api.MutableGlobal {
	i.t.Helper()
	g, ok := i.ExportedGlobal(name).(api.MutableGlobal)
	if !ok {
		i.t.Fatalf("the rewritten module exports no mutable global %s", name)
	}
	return g
}

func (i *instance) value(name string) int64 { return int64(i.counter(name).Get()) }

// call runs an exported function on a budget and returns what it used.
func (i *instance) call(budget int64, name string, args ...uint64) (results []uint64, used int64, err error) {
	i.t.Helper()
	fuel, slice := i.options.Arm(budget)
	i.counter(instrument.FuelExport).Set(uint64(fuel))
	i.counter(instrument.SliceExport).Set(uint64(slice))
	results, err = i.ExportedFunction(name).Call(context.Background(), args...)
	return results, budget - i.value(instrument.FuelExport) - i.value(instrument.SliceExport), err
}

// A loop that never ends is stopped when its fuel is used up, and ticks once per slice until then.
func TestFuelStopsALoop(t *testing.T) {
	t.Parallel()
	i := load(t, wasmtest.Plugin(wasmtest.Code(0x03, wasmtest.Empty, 0x0c, 0, wasmtest.End, 0x41, 0, wasmtest.End)), instrument.DefaultOptions())
	slice := instrument.DefaultOptions().Slice
	_, _, err := i.call(5*slice, "quern_score", 0)
	if err == nil {
		t.Fatal("an endless loop returned")
	}
	if i.ticks != 4 {
		t.Errorf("%d ticks, want 4: five slices, the first without", i.ticks)
	}
	if got := i.value(instrument.FuelExport); got >= 0 {
		t.Errorf("fuel is %d after the trap, want below 0", got)
	}
	if got := i.value(instrument.DepthExport); got < 0 {
		t.Errorf("depth is %d after the trap, want 0 or above", got)
	}
}
