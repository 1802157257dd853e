package scan

import (
	"crypto/sha256"
	"errors"
)

// FunctionType is a signature, as slices of value type bytes that share the module's memory.
type FunctionType struct{ Params, Results []byte }

// Import is one entry of the import section.
type Import struct {
	Module, Name string
	Kind         Kind
	Type         uint32 // of a function: index into Report.Types
	Global       Global // of a global
	Table        Table  // of a table
}

// Export is one entry of the export section.
type Export struct {
	Name   string
	Kind   Kind
	Index  uint32
	Offset int // in the module
}

// Kind is what an import or export is, with the numbers of the format.
type Kind byte

// The kinds of imports and exports.
const (
	KindFunction Kind = iota
	KindTable
	KindMemory
	KindGlobal
)

func (k Kind) String() string {
	if names := [...]string{"function", "table", "memory", "global"}; int(k) < len(names) {
		return names[k]
	}
	return "unknown kind"
}

// Global is the type of a global.
type Global struct {
	Type    byte // a value type
	Mutable bool
}

// Table is the type of a table. Max is only meaningful with HasMax; entries.
type Table struct {
	Type     byte // a reference type
	Min, Max uint32
	HasMax   bool
}

// Memory is the type of the memory. Max is only meaningful with HasMax; pages of 64 KiB.
type Memory struct {
	Min, Max uint32
	HasMax   bool
}

// Section is where a section's content is in the module.
type Section struct {
	ID         byte
	Name       string // of a custom section
	Start, End int    // content, without id and size; for a custom section behind its name
}

// Report is what a scan learned about a module. Slices share the module's memory: keep both or neither.
type Report struct {
	ABI      int    // the highest version of the plugin interface that the module and this program both know; 0: none
	Manifest []byte // content of the custom section quern.manifest, not interpreted; nil without one

	Sections  []Section
	Types     []FunctionType
	Imports   []Import
	Functions []uint32 // type index of every function, imported ones first
	Tables    []Table  // imported ones first
	Memories  []Memory // imported ones first
	Globals   []Global // imported ones first
	Exports   []Export
	Elements  int // element segments
	Data      int // data segments

	ImportedFunctions, ImportedTables, ImportedMemories, ImportedGlobals int

	Bodies       int // function bodies read to their end
	Instructions int // in all bodies
	CompileCost  int // estimate, see cost.go
	LargestBody  int // bytes
	DeepestBody  int // blocks open at once

	// HiddenState says that the module has code that changes what a copy of memory and mutable globals does not bring back:
	// tables, dropped segments, and globals that hold a vector or a reference.
	HiddenState bool

	Refused int // violations found, listed or not

	sum [sha256.Size]byte
}

// Accepts returns nil when the report is that of module and nothing was refused: the condition for rewriting it.
func (r *Report) Accepts(module []byte) error {
	if r.Refused > 0 {
		return errors.New("scan: the module was refused")
	}
	if sha256.Sum256(module) != r.sum {
		return errors.New("scan: the report is that of another module")
	}
	return nil
}

// FunctionType is the type of the function with this index in the function space. The index is valid in a report that Accepts.
func (r *Report) FunctionType(index uint32) FunctionType { return r.Types[r.Functions[index]] }
