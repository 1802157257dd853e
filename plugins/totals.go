package plugins

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/host"
)

// totals count since the start of the server.
type totals struct {
	batches, candidates, skipped, unwritten, fallbacks atomic.Uint64
	nanoseconds, fuel                                  atomic.Uint64

	mu       sync.Mutex
	faults   map[host.Kind]uint64
	counters map[string]float64
	last     string // the last fault
}

// add counts a batch.
func (t *totals) add(b *abi.Batch, r *host.Report, err error) {
	t.nanoseconds.Add(uint64(max(r.Duration, 0)))
	t.fuel.Add(uint64(max(r.Fuel, 0)))
	if err == nil {
		t.batches.Add(1)
		t.candidates.Add(uint64(b.Rows))
		t.skipped.Add(uint64(r.Skipped))
		t.unwritten.Add(uint64(r.Unwritten))
		return
	}
	var fault *host.Fault
	if !errors.As(err, &fault) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.faults == nil {
		t.faults = map[host.Kind]uint64{}
	}
	t.faults[fault.Kind]++
	t.last = fault.Error()
}

// count adds to the plugin's own counters. Their names come from manifests: another version may have others, and all are kept up to the
// number that the manifest of one may have times the versions that were used, within maxCounters.
func (t *totals) count(names []string, values []float64) {
	if len(values) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counters == nil {
		t.counters = map[string]float64{}
	}
	for i, v := range values {
		if _, known := t.counters[names[i]]; known || len(t.counters) < maxCounters {
			t.counters[names[i]] += v
		}
	}
}

const maxCounters = 16

// kinds are all kinds of faults, as metrics list them.
func kinds() []host.Kind {
	return []host.Kind{host.Fuel, host.Deadline, host.Depth, host.Trap, host.Status, host.Exit, host.Unwritten, host.Init, host.Stopped}
}

// copies of what is under the lock.
func (t *totals) maps() (faults map[string]uint64, counters map[string]float64, last string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	faults, counters = map[string]uint64{}, map[string]float64{}
	for kind, n := range t.faults {
		faults[string(kind)] = n
	}
	for name, v := range t.counters {
		counters[name] = v
	}
	return faults, counters, t.last
}
