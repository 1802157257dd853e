package host_test

import (
	"testing"

	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// caller builds a plugin that imports one function of WASI. Its quern_score runs code, which leaves an i64 on the stack; that
// becomes the bits of the first score.
func caller(name string, params []byte, code func(imported uint32) []byte) []byte {
	b := &wasmtest.Builder{}
	b.Type(nil, nil)
	b.Type([]byte{wasmtest.I32}, []byte{wasmtest.I32})
	b.Type(params, []byte{wasmtest.I32})
	imported := b.ImportFunction("wasi_snapshot_preview1", name, 2)
	b.Memory(2, -1)
	b.Export("memory", wasmtest.Memory, 0)
	b.Export("quern_abi_1", wasmtest.Function, b.Function(0, nil, wasmtest.End))
	b.Export("quern_alloc", wasmtest.Function, b.Function(1, nil, wasmtest.ConstI32(65536), wasmtest.End))
	b.Export("quern_score", wasmtest.Function, b.Function(1, nil,
		0x20, 0, 0x20, 0, 0x28, 2, abi.OffScores, 0x6a, code(imported), 0x37, 3, 0, 0x41, 0, wasmtest.End))
	return b.Bytes()
}

// first is the bits of the first score of a batch at that time with that seed.
func first(t *testing.T, v *host.Version, now int64, seed uint64) uint64 {
	t.Helper()
	b := batch(1)
	b.Now, b.Seed = now, seed
	scores := make([]float64, 1)
	if _, err := v.Score(t.Context(), b, scores); err != nil {
		t.Fatal(err)
	}
	return bitsOf(scores[0])
}

// The clock of a guest stands at the batch's time.
func TestClockStands(t *testing.T) {
	t.Parallel()
	realtime := caller("clock_time_get", []byte{wasmtest.I32, wasmtest.I64, wasmtest.I32}, func(f uint32) []byte {
		return wasmtest.Code(0x41, 0, 0x42, 0, 0x41, 16, wasmtest.Op(0x10, f), 0x1a, 0x41, 16, 0x29, 3, 0)
	})
	v := open(t, realtime, host.Options{Manifest: declare(t)})
	for _, now := range []int64{1_700_000_000_123, 5, 1_700_000_000_123, -1} {
		if got, want := first(t, v, now, 0), uint64(max(0, now))*1_000_000; got != want {
			t.Errorf("at %d ms: got %d ns, want %d", now, got, want)
		}
	}
}

// Chance depends on the batch's seed only.
func TestChanceIsSeeded(t *testing.T) {
	t.Parallel()
	random := caller("random_get", []byte{wasmtest.I32, wasmtest.I32}, func(f uint32) []byte {
		return wasmtest.Code(0x41, 16, 0x41, 8, wasmtest.Op(0x10, f), 0x1a, 0x41, 16, 0x29, 3, 0)
	})
	one, other := open(t, random, host.Options{Manifest: declare(t)}), open(t, random, host.Options{Manifest: declare(t)})
	a, b := first(t, one, 0, 1), first(t, one, 0, 2)
	if a == b || a != first(t, one, 9, 1) || a != first(t, other, 0, 1) {
		t.Errorf("got %x and %x for two seeds, then %x and %x for the first again", a, b, first(t, one, 9, 1), first(t, other, 0, 1))
	}
	// SplitMix64 from 1, as its authors' C code gives it.
	if a != 0x910a2dec89025cc1 {
		t.Errorf("got %#x, want the first number of SplitMix64 from 1", a)
	}
}

// A guest that sleeps is woken at once.
func TestSleepEndsAtOnce(t *testing.T) {
	t.Parallel()
	// A subscription at 128 with a relative timeout of 5 s; then the event's count in the upper half, its error in the lower.
	sleep := caller("poll_oneoff", []byte{wasmtest.I32, wasmtest.I32, wasmtest.I32, wasmtest.I32}, func(f uint32) []byte {
		return wasmtest.Code(
			wasmtest.ConstI32(128+24), wasmtest.ConstI64(5_000_000_000), 0x37, 3, 0,
			wasmtest.ConstI32(128), wasmtest.ConstI32(256), 0x41, 1, wasmtest.ConstI32(512), wasmtest.Op(0x10, f), 0xad,
			wasmtest.ConstI32(512), 0x35, 2, 0, 0x42, 32, 0x86, 0x84)
	})
	v := open(t, sleep, host.Options{Manifest: declare(t)})
	if got := first(t, v, 0, 0); got != 1<<32 {
		t.Errorf("got %#x, want one event and no error", got)
	}
}

// There are no files: only the standard streams exist.
func TestNoFiles(t *testing.T) {
	t.Parallel()
	const badDescriptor = 8
	prestat := caller("fd_prestat_get", []byte{wasmtest.I32, wasmtest.I32}, func(f uint32) []byte {
		return wasmtest.Code(0x41, 3, 0x41, 16, wasmtest.Op(0x10, f), 0xad)
	})
	if got := first(t, open(t, prestat, host.Options{Manifest: declare(t)}), 0, 0); got != badDescriptor {
		t.Errorf("got %d, want %d", got, badDescriptor)
	}
}

// A guest's output is logged by the line, within the limits; addresses outside of the memory end the guest.
func TestPrinting(t *testing.T) {
	t.Parallel()
	write := func(at int32, fd int) []byte {
		return caller("fd_write", []byte{wasmtest.I32, wasmtest.I32, wasmtest.I32, wasmtest.I32}, func(f uint32) []byte {
			return wasmtest.Code(
				wasmtest.ConstI32(128), wasmtest.ConstI32(at), 0x36, 2, 0, wasmtest.ConstI32(132), wasmtest.ConstI32(6), 0x36, 2, 0,
				wasmtest.ConstI32(300), wasmtest.ConstI32(0x0a62_1b61), 0x36, 2, 0, wasmtest.ConstI32(304), wasmtest.ConstI32(0x6463), 0x36, 2, 0, // "a\x1bb\ncd"
				0x41, fd, wasmtest.ConstI32(128), 0x41, 1, wasmtest.ConstI32(136), wasmtest.Op(0x10, f), 0xad)
		})
	}
	v := open(t, write(300, 2), host.Options{Manifest: declare(t)})
	scores := make([]float64, 1)
	report, err := v.Score(t.Context(), batch(1), scores)
	want := []host.Line{{Level: abi.LevelWarn, Text: "a\uFFFDb"}, {Level: abi.LevelWarn, Text: "cd"}}
	if err != nil || bitsOf(scores[0]) != 0 || len(report.Logs) != 2 || report.Logs[0] != want[0] || report.Logs[1] != want[1] {
		t.Errorf("got %v %v %x, want %v", report.Logs, err, bitsOf(scores[0]), want)
	}
	v = open(t, write(-3, 2), host.Options{Manifest: declare(t)})
	if _, err := v.Score(t.Context(), batch(1), scores); kindOf(err) != host.Trap {
		t.Errorf("outside of the memory: got %v, want %s", err, host.Trap)
	}
	v = open(t, write(300, 5), host.Options{Manifest: declare(t)})
	if report, err := v.Score(t.Context(), batch(1), scores); err != nil || len(report.Logs) != 0 || bitsOf(scores[0]) != 8 {
		t.Errorf("to a descriptor that is not there: got %v %v", report.Logs, err)
	}
}
