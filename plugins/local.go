package plugins

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/scan"
)

// Examine holds a module against everything that a server holds it against before it compiles it. The error is a *queue.Error that lists
// all that is wrong. config may be nil.
func Examine(module, config []byte, l Limits) (*manifest.Manifest, *scan.Report, error) {
	report, m, _, _, err := validate(module, config, &l)
	return m, report, err
}

// Local is a module outside of any server, for tools: scanned, instrumented and compiled in this process.
type Local struct {
	Manifest *manifest.Manifest
	columns  *columns
	config   []byte
	host     *host.Version
}

// OpenLocal examines a module and starts it. Close frees it.
func OpenLocal(ctx context.Context, module, config []byte, l Limits, clock func() time.Duration) (*Local, error) {
	report, m, columns, canonical, err := validate(module, config, &l)
	if err != nil {
		return nil, err
	}
	rewritten, err := instrument.Instrument(module, report, l.rewriting(m))
	if err != nil {
		return nil, fmt.Errorf("plugins: %w", err)
	}
	compiled, err := compile.InProcess(ctx, rewritten.Bytes, uint32(l.Scan.MemoryPages))
	if err != nil {
		return nil, refusal("compile_invalid", err.Error())
	}
	patient := l.Host
	patient.Deadline *= 10
	open, err := host.Open(ctx, compiled, host.Options{
		Manifest: m, Config: canonical, Globals: rewritten.Globals, Hidden: report.HiddenState, Instances: 1,
		Capacity: m.WindowMax, Clock: clock, Limits: patient,
	})
	if err != nil {
		return nil, dryRunError("init", err)
	}
	return &Local{Manifest: m, columns: columns, config: canonical, host: open}, nil
}

// Close frees the module.
func (l *Local) Close() error { return l.host.Close() }

// DryRun tries it as a server does with an upload, and measures.
func (l *Local) DryRun(ctx context.Context) (r api.PluginReport, err error) {
	err = dryRun(ctx, l.host, l.Manifest, &r)
	return r, err
}

// Scored is a batch with its scores.
type Scored struct {
	Columns  []abi.Column
	Batch    *abi.Batch
	Scores   []float64
	Recorded []float64 // the scores in the recording; nil if it has none
	Logs     []host.Line
	Fuel     int64
	Took     time.Duration
}

// Different is how many rows have other bits than the recording.
func (s *Scored) Different() (n int) {
	for i := range s.Recorded {
		if !sameScore(s.Recorded[i], s.Scores[i]) {
			n++
		}
	}
	return n
}

// Synthetic scores a batch of n made-up candidates; the same seed gives the same batch.
func (l *Local) Synthetic(ctx context.Context, n int, seed uint64) (*Scored, error) {
	if n < 0 || n > l.Manifest.WindowMax {
		return nil, queue.Invalid("/rows", "is %d; the plugin takes at most %d candidates at once", n, l.Manifest.WindowMax)
	}
	return l.score(ctx, synthetic(l.Manifest, n, seed), nil)
}

// Replay scores the batch of a recording.
func (l *Local) Replay(ctx context.Context, file []byte) (*Scored, error) {
	record, err := abi.ReadRecord(file)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(record.Columns, l.columns.abi) {
		return nil, queue.Invalid("", "the recording has other columns than the plugin reads")
	}
	return l.score(ctx, &record.Batch, record.Scores)
}

func (l *Local) score(ctx context.Context, b *abi.Batch, recorded []float64) (*Scored, error) {
	s := &Scored{Columns: l.columns.abi, Batch: b, Scores: make([]float64, b.Rows), Recorded: recorded}
	report, err := l.host.Score(ctx, b, s.Scores)
	s.Logs, s.Fuel, s.Took = report.Logs, report.Fuel, report.Duration
	return s, err
}
