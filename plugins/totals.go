package plugins

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/host"
)

// totals count since the start of the server.
type totals struct {
	batches, candidates, skipped, unwritten atomic.Uint64
	nanoseconds, fuel                       atomic.Uint64
	fallbacks                               fallbacks

	mu       sync.Mutex
	faults   map[host.Kind]uint64
	versions map[string]map[host.Kind]uint64 // the faults by version, of more than maxVersionNames those of the later ones together
	counters map[string]float64
	last     string // the last fault
}

// add counts a batch of a version.
func (t *totals) add(version string, b *abi.Batch, r *host.Report, err error) {
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
	if errors.As(err, &fault) {
		t.fault(version, fault)
	}
}

// fault counts a fault of a version.
func (t *totals) fault(version string, fault *host.Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.faults == nil {
		t.faults = map[host.Kind]uint64{}
	}
	t.faults[fault.Kind]++
	t.of(version)[fault.Kind]++
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

// maxVersionNames bounds the versions of a plugin that metrics show separately.
const maxVersionNames = 4

// of are the faults of a version. t.mu is held.
func (t *totals) of(version string) map[host.Kind]uint64 {
	if t.versions[version] == nil {
		if len(t.versions) >= maxVersionNames {
			version = otherName
		}
		if t.versions == nil {
			t.versions = map[string]map[host.Kind]uint64{}
		}
		if t.versions[version] == nil {
			t.versions[version] = map[host.Kind]uint64{}
		}
	}
	return t.versions[version]
}

// eachVersion calls fn for every version that metrics show separately, and every kind of fault. The versions that are in use are among
// them before they fail, so that the first fault is seen as one more than none.
func (t *totals) eachVersion(inUse []string, fn func(version string, kind host.Kind, n uint64)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, version := range inUse {
		t.of(version)
	}
	for version, faults := range t.versions {
		for _, kind := range kinds() {
			fn(version, kind, faults[kind])
		}
	}
}

// kinds are all kinds of faults, as metrics list them.
func kinds() []host.Kind {
	return []host.Kind{host.Fuel, host.Deadline, host.Depth, host.Trap, host.Status, host.Exit, host.Unwritten, host.Init, host.Stopped}
}

// maps returns copies of the maps under the lock.
func (t *totals) maps() (faults map[string]uint64, counters map[string]float64, last string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	faults, counters = map[string]uint64{}, map[string]float64{}
	for kind, n := range t.faults {
		faults[string(kind)] = n
	}
	maps.Copy(counters, t.counters)
	return faults, counters, t.last
}
