package plugins

import (
	"errors"
	"fmt"
	"time"

	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/scan"
)

// MinMemory is the least memory that all plugins together may be given: a sandbox of a page must have room.
const MinMemory = 1 << 20

// Limits bound what uploads and plugins may use.
type Limits struct {
	Scan     scan.Limits // of a module
	Host     host.Limits // of a batch
	Names    int         // plugins
	Versions int         // of one plugin
	Bytes    int64       // of all modules together

	Memory        int64         // bytes of all sandboxes and their code together; those idle for longest are closed to make room
	Instances     int           // sandboxes of one version and configuration at once
	Uses          int           // versions and configurations open at once beside those that are active
	CompileMemory uint64        // address space of a compiling child beyond what it begins with, in bytes; 0 for no limit
	CompileCPU    time.Duration // processor time of a compiling child, in whole seconds, at least one
	Waiting       int           // uploads that wait for the one that is checked

	Faults         int           // within FaultWindow that open a breaker
	FaultWindow    time.Duration //
	OpenFirst      time.Duration // how long a breaker is open the first time; it doubles up to OpenLongest
	OpenLongest    time.Duration //
	Quarantine     int           // openings within QuarantineTime that quarantine
	QuarantineTime time.Duration //
	CPUShare       float64       // of one core, over CPUWindow
	CPUWindow      time.Duration //

	Linger time.Duration // how long what was replaced, or is not asked for, stays open

	LogLines      int // kept per plugin
	LogsPerSecond int // taken per plugin
	RecordEvery   int // of this many batches one is recorded
	Records       int // recordings kept per plugin: as many of faults and as many of samples
	RecordBytes   int // of all recordings of a plugin
	ShadowQueue   int // batches that may wait to be scored by a shadow
}

// DefaultLimits are those of the documentation.
func DefaultLimits() Limits {
	return Limits{
		Scan: scan.DefaultLimits(), Host: host.DefaultLimits(), Names: 1_000, Versions: 100, Bytes: 1 << 30,
		Memory: 512 << 20, Instances: 2, Uses: 64, Waiting: 8, CompileMemory: compile.DefaultLimits().MemoryBytes,
		CompileCPU: compile.DefaultLimits().CPU,
		Faults:     3, FaultWindow: time.Minute, OpenFirst: 5 * time.Second, OpenLongest: 5 * time.Minute, Quarantine: 5,
		QuarantineTime: time.Hour,
		CPUShare:       0.25, CPUWindow: 10 * time.Second, Linger: 5 * time.Minute,
		LogLines: 1_000, LogsPerSecond: 100, RecordEvery: 10_000, Records: 16, RecordBytes: 4 << 20, ShadowQueue: 64,
	}
}

func (l Limits) check() error {
	if err := l.Scan.Check(); err != nil {
		return err
	}
	for _, n := range []int{l.Names, l.Versions, l.Instances, l.Uses, l.Waiting, l.Faults, l.Quarantine, l.LogLines,
		l.LogsPerSecond, l.RecordEvery, l.Records, l.RecordBytes, l.ShadowQueue} {
		if n < 1 {
			return errors.New("plugins: every limit must be at least 1")
		}
	}
	if l.CompileCPU < time.Second {
		return errors.New("plugins: the limit of the compiler's processor time must be at least a second")
	}
	for _, d := range []time.Duration{l.FaultWindow, l.OpenFirst, l.OpenLongest, l.QuarantineTime, l.CPUWindow, l.Linger} {
		if d <= 0 {
			return errors.New("plugins: every time of the limits must be above 0")
		}
	}
	if l.Bytes < 1 || !(l.CPUShare > 0) || l.Scan.MemoryPages > manifest.MaxPages {
		return errors.New("plugins: the limits of bytes, of the CPU share and of memory must be set")
	}
	if l.Memory < MinMemory {
		return fmt.Errorf("plugins: the memory of all plugins together must be at least %d bytes", MinMemory)
	}
	return nil
}
