package instrument_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/scan"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// BenchmarkOverhead runs the same code unchanged and rewritten, one after the other: a scorer over 256 rows (per batch), and
// fib(20) by recursion, which is nothing but calls.
func BenchmarkOverhead(b *testing.B) {
	fib := wasmtest.Plugin(wasmtest.Code(
		0x20, 0, 0x41, 2, 0x48, 0x04, wasmtest.I32, 0x20, 0, 0x05,
		0x20, 0, 0x41, 1, 0x6b, 0x10, 2, 0x20, 0, 0x41, 2, 0x6b, 0x10, 2, 0x6a, wasmtest.End, wasmtest.End))
	for _, c := range []struct {
		name   string
		module []byte
		arg    uint64
	}{{"scorer", wasmtest.Scorer(), 1024}, {"fib20", fib, 20}} {
		b.Run(c.name+"/unchanged", func(b *testing.B) { benchmarkScore(b, c.module, c.arg) })
		b.Run(c.name+"/rewritten", func(b *testing.B) {
			benchmarkScore(b, rewrite(b, c.module, instrument.DefaultOptions()).Bytes, c.arg)
		})
	}
}

func benchmarkScore(b *testing.B, module []byte, arg uint64) {
	ctx, r := newRuntime(b)
	if _, err := r.NewHostModuleBuilder(scan.HostModule).NewFunctionBuilder().WithFunc(func(context.Context) {}).Export(scan.TickImport).Instantiate(ctx); err != nil {
		b.Fatal(err)
	}
	m, err := r.InstantiateWithConfig(ctx, module, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		b.Fatal(err)
	}
	const rows = 256
	batch := bytes.NewBuffer(nil)
	for _, v := range []uint32{0, 64, rows, 2, 64, 96 + 2*8*rows, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 96, 0, 0, 0, 96 + 8*rows, 0, 0, 0} {
		_ = binary.Write(batch, binary.LittleEndian, v)
	}
	m.Memory().Write(1024, batch.Bytes())
	score := m.ExportedFunction("quern_score")
	slice, _ := m.ExportedGlobal(instrument.SliceExport).(api.MutableGlobal)
	stack := make([]uint64, 1)
	for b.Loop() {
		if slice != nil {
			slice.Set(1 << 40)
		}
		stack[0] = arg
		if err := score.CallWithStack(ctx, stack); err != nil {
			b.Fatal(err)
		}
	}
}
