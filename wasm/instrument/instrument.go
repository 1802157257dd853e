// Package instrument rewrites a scanned WebAssembly module so that it cannot run for ever, recurse without end or grow beyond
// its limits. The engine offers no such thing that holds: its own check leaves the module at every loop, costs a factor of four,
// and still lets a tree of calls without loops run on. Counting inside of the module costs some per cent and stops all of them.
//
// What is added, in every rewritten module:
//
//   - fuel: each straight piece of code subtracts what it costs before it runs. A loop and a function check at their head whether
//     there is any left. While a function runs, its fuel is in a local, which the compiler keeps in a register; around calls and
//     at the end it is written to the global SliceExport.
//   - slices: fuel is handed out in slices of Options.Slice units. At the end of each the import quern_v1.tick is called, where
//     the host may look at its clock, and where the rest of the process may stop the world. The fuel that is not yet in a slice is
//     in the global FuelExport. When that is used up too it is set below zero and the module traps.
//   - depth: functions that call others count how many of them are open, downwards in the global DepthExport. When it falls below
//     zero the module traps.
//   - the maximum size of the memory and of every table.
//   - exports of the module's own mutable globals, so that the host can bring an instance back to an earlier state.
//
// A trap with FuelExport and DepthExport at or above zero is the guest's own. After any trap the counters are void: discard the
// instance, or set all three again.
//
//quern:tests pure
package instrument

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quern-queue/quern/wasm/scan"
)

// Version changes whenever the same module is rewritten into other bytes. It belongs into the key of everything that is kept of
// a rewritten module.
const Version = 2

// The exports that every rewritten module has: mutable globals of type i64.
const (
	FuelExport  = scan.ReservedPrefix + "fuel"  // units not yet handed out; below 0 after a trap for want of fuel
	SliceExport = scan.ReservedPrefix + "slice" // units left of the current slice
	DepthExport = scan.ReservedPrefix + "depth" // calls that may still be opened; below 0 after a trap for depth

	globalExport = scan.ReservedPrefix + "global_" // and the index of a mutable global of the guest
)

// Options are what the rewritten module is held to.
type Options struct {
	Slice        int64  // units of fuel between two calls of quern_v1.tick, 1 to 1<<40
	Depth        int64  // calls open at once of functions that call others, 1 to 100,000
	MemoryPages  uint32 // the memory never has more pages of 64 KiB, 1 to 65,536
	TableEntries uint32 // no table ever has more entries, at least 1
}

// DefaultOptions: a slice is some 70 microseconds, and about a millisecond of instructions that all wait for memory, by which a
// deadline may be missed; the rest is as in scan.DefaultLimits.
func DefaultOptions() Options {
	limits := scan.DefaultLimits()
	return Options{Slice: 200_000, Depth: 1_000, MemoryPages: uint32(limits.MemoryPages), TableEntries: uint32(limits.TableEntries)}
}

func (o Options) check() error {
	switch {
	case o.Slice < 1 || o.Slice > 1<<40:
		return fmt.Errorf("instrument: slice is %d; set it between 1 and 1<<40", o.Slice)
	case o.Depth < 1 || o.Depth > 100_000:
		return fmt.Errorf("instrument: depth is %d; set it between 1 and 100,000", o.Depth)
	case o.MemoryPages < 1 || o.MemoryPages > 65_536:
		return fmt.Errorf("instrument: memory pages are %d; set them between 1 and 65,536", o.MemoryPages)
	case o.TableEntries < 1:
		return errors.New("instrument: table entries are 0; set them to 1 or more")
	}
	return nil
}

// Arm splits a budget of fuel into the values to set FuelExport and SliceExport to before a call: the first slice is handed out
// at once, so that a short call never ticks. What a call used is the budget less the sum of both afterwards.
func (o Options) Arm(budget int64) (fuel, slice int64) {
	slice = min(max(budget, 0), o.Slice)
	return max(budget, 0) - slice, slice
}

// State is a mutable global of the guest, exported so that it can be saved and restored.
type State struct {
	Export string
	Type   byte // value type of the format: 0x7f i32, 0x7e i64, 0x7d f32, 0x7c f64
}

// Module is a rewritten module.
type Module struct {
	Bytes []byte
	// Globals are the guest's own mutable globals that hold numbers. With a copy of the memory they are all the state there is,
	// unless scan.Report.HiddenState says that there is more.
	Globals []State
}

// Instrument rewrites module, of which report must be the accepted report. The same input always gives the same bytes.
func Instrument(module []byte, report *scan.Report, o Options) (*Module, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := report.Accepts(module); err != nil {
		return nil, fmt.Errorf("instrument: %w", err)
	}
	for _, e := range report.Exports {
		if strings.HasPrefix(e.Name, scan.ReservedPrefix) {
			return nil, fmt.Errorf("instrument: the export %q is reserved", e.Name)
		}
	}
	return newRewriter(module, report, o).module()
}
