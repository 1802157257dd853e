package plugins

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/manifest"
)

// timedBatches is how many batches the figures of a report come from.
const timedBatches = 15

// dryRun scores synthetic batches of none, one and a window of rows, each twice, and measures.
func dryRun(ctx context.Context, v *host.Version, m *manifest.Manifest, r *api.PluginReport) error {
	rows, skipped, unwritten := 0, 0, 0
	r.Deterministic, r.Rows = true, m.WindowDefault
	for seed, n := range []int{0, 1, m.WindowDefault} {
		batch := synthetic(m, n, uint64(seed))
		var first []float64
		for again := range 2 {
			scores := make([]float64, n)
			found, err := v.Try(ctx, batch, scores)
			if err != nil {
				return dryRunError(fmt.Sprintf("a batch of %d rows", n), err)
			}
			rows, skipped, unwritten = rows+n, skipped+found.Skipped, unwritten+found.Unwritten
			r.MemoryPages = max(r.MemoryPages, found.Pages)
			if again == 0 {
				first = scores
				continue
			}
			r.Deterministic = r.Deterministic && slices.EqualFunc(first, scores, sameScore)
		}
	}
	if !r.Deterministic && m.State != manifest.Pooled {
		return refusal("not_deterministic",
			"the same batch gave other scores the second time, although the manifest declares the state "+string(m.State))
	}
	r.SkipShare, r.NaNShare = float64(skipped+unwritten)/float64(rows), float64(skipped)/float64(rows)
	return timed(ctx, v, m, r)
}

// timed measures batches of the default window.
func timed(ctx context.Context, v *host.Version, m *manifest.Manifest, r *api.PluginReport) error {
	var took []time.Duration
	scores := make([]float64, m.WindowDefault)
	batch := synthetic(m, m.WindowDefault, 7)
	for range timedBatches {
		found, err := v.Try(ctx, batch, scores)
		if err != nil {
			return dryRunError("a batch of the default window", err)
		}
		took = append(took, found.Duration)
		r.FuelPerCandidate = float64(found.Fuel) / float64(m.WindowDefault)
	}
	slices.Sort(took)
	r.NsPerCandidate = float64(took[0].Nanoseconds()) / float64(m.WindowDefault)
	r.NsMedian = float64(took[len(took)/2].Nanoseconds()) / float64(m.WindowDefault)
	return nil
}

// sameScore compares bits, but all NaNs are one: WebAssembly leaves only their bits open.
func sameScore(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b && abi.IsNotWritten(a) == abi.IsNotWritten(b)
}

// dryRunError is the error of an upload whose plugin fails in a dry run.
func dryRunError(what string, err error) error {
	var fault *host.Fault
	if !errors.As(err, &fault) || fault.Kind == host.Stopped {
		return fmt.Errorf("plugins: dry run: %w", crowded(err))
	}
	kind := fault.Kind
	if kind == host.Init {
		kind = fault.Cause
	}
	return refusal("dry_run_"+string(kind), "the dry run failed with "+what+": "+fault.Error())
}

// synthetic is a batch of n rows for a manifest's columns: extremes, then numbers of all sizes, with absent values where a column
// may have them. The same arguments give the same batch.
func synthetic(m *manifest.Manifest, n int, seed uint64) *abi.Batch {
	b := &abi.Batch{
		Header:     abi.Header{Rows: uint32(n), Now: 1_700_000_000_000, Seed: seed, Want: 10, Flags: abi.FlagDryRun},
		Dictionary: []string{"", "a", "acme", "\u00e9\u4e16\u754c", string(make([]byte, queue.MaxMetaValueBytes))},
	}
	draw := seed
	for k, column := range m.Columns {
		var values abi.Values
		for row := range int(column.Rows(uint32(n))) {
			draw = scramble(draw + uint64(k)<<32 + uint64(row) + 1)
			number := numberOf(column.Name, row, draw)
			switch column.Type {
			case abi.I64:
				values.I64 = append(values.I64, number)
			case abi.F64:
				values.F64 = append(values.F64, float64(number))
			case abi.Str:
				values.U32 = append(values.U32, uint32(draw%uint64(len(b.Dictionary)+1)))
			case abi.U32:
				values.U32 = append(values.U32, uint32(min(max(number, 0), math.MaxUint32)))
			}
			if column.Nullable {
				values.Valid = append(values.Valid, draw>>40%3 != 0)
			}
		}
		b.Columns = append(b.Columns, values)
	}
	return b
}

// numberOf is the value of a row: the first rows are extremes of the column's values.
func numberOf(column string, row int, draw uint64) int64 {
	signed := column == "priority" || len(column) > 8 && (column[:8] == "meta_i64" || column[:8] == abi.ContextPrefix)
	extremes := []int64{0, 1, math.MaxUint32, 1<<53 - 1, math.MaxInt64}
	if signed {
		extremes = []int64{0, 1, -1, math.MinInt64, math.MaxInt64, 1<<53 - 1, -(1<<53 - 1)}
	}
	if row < 2*len(extremes) {
		return extremes[row%len(extremes)]
	}
	number := int64(draw >> 1 >> (draw % 62)) // of all magnitudes
	if signed && draw&1 == 1 {
		return -number
	}
	return number
}
