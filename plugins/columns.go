package plugins

import (
	"fmt"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/manifest"
)

// columns are the columns that a version reads: as the engine names them, and as the sandbox does, in
// the same order.
type columns struct {
	reads []strategy.Column
	abi   []abi.Column
}

// columnsOf translates a manifest's columns; wrong names those that the engine does not have.
func columnsOf(m *manifest.Manifest) (c *columns, wrong []queue.Problem) {
	c = &columns{abi: m.Columns}
	for i, column := range m.Columns {
		read, ok := propertyOf(column)
		if !ok {
			wrong = append(wrong, queue.Problem{Pointer: fmt.Sprintf("/manifest/columns/%d", i),
				Detail: "is the column " + column.Name + ", which this server does not have"})
		}
		c.reads = append(c.reads, read)
	}
	return c, wrong
}

// propertyOf is the engine's column of the ABI's.
func propertyOf(c abi.Column) (strategy.Column, bool) {
	if c.Single {
		key := c.Name[len(abi.ContextPrefix):]
		if c.Type == abi.Str {
			return strategy.Column{Property: strategy.ContextString, Key: key}, true
		}
		return strategy.Column{Property: strategy.ContextInt, Key: key}, true
	}
	for prefix, property := range map[string]strategy.Property{
		"meta_i64:": strategy.MetaInt, "meta_str:": strategy.MetaString, "inflight:": strategy.InFlight, "limit:": strategy.LimitOf,
	} {
		if len(c.Name) > len(prefix) && c.Name[:len(prefix)] == prefix {
			return strategy.Column{Property: property, Key: c.Name[len(prefix):]}, true
		}
	}
	property, ok := map[string]strategy.Property{
		"submission_id": strategy.ID, "index": strategy.Index, "priority": strategy.Priority, "age_ms": strategy.Age,
		"attempts":     strategy.Attempts,
		"max_attempts": strategy.MaxAttempts, "available": strategy.Available, "total": strategy.Total, "skipped": strategy.Skipped,
		"inflight_submission": strategy.InFlightSubmission,
	}[c.Name]
	return strategy.Column{Property: property}, ok
}

// join adds what is not there yet to reads and says where each column of c is in it.
func (c *columns) join(reads []strategy.Column) (all []strategy.Column, at []int) {
	for _, want := range c.reads {
		k := slices.Index(reads, want)
		if k < 0 {
			k = len(reads)
			reads = append(reads, want)
		}
		at = append(at, k)
	}
	return reads, at
}

// scratch is the memory of a batch.
type scratch struct {
	batch abi.Batch
}

// fill makes a batch of a window whose column k of c is the window's at[k].
func (c *columns) fill(s *scratch, w *strategy.Window, at []int, flags uint32) (*abi.Batch, error) {
	b := &s.batch
	b.Header = abi.Header{Rows: uint32(w.Rows), Now: int64(w.Now), Seed: w.Seed,
		Want: uint32(min(max(w.Want, 0), math.MaxInt32)), Flags: flags}
	b.Dictionary = w.Dictionary
	b.Columns = slices.Grow(b.Columns[:0], len(c.abi))[:len(c.abi)]
	for k := range c.abi {
		if at[k] >= len(w.Columns) {
			return nil, fmt.Errorf("plugins: the window has %d columns, and its scorer reads column %d", len(w.Columns), at[k])
		}
		from, to := &w.Columns[at[k]], &b.Columns[k]
		*to = abi.Values{}
		if c.abi[k].Nullable {
			to.Valid = from.Present
		}
		switch c.abi[k].Type {
		case abi.Str:
			to.U32 = from.Words
		case abi.U32:
			to.U32 = from.Counts
		default:
			to.I64 = from.Numbers
		}
	}
	return b, nil
}

// forget lets go of the window's data.
func (s *scratch) forget() {
	s.batch.Dictionary = nil
	clear(s.batch.Columns)
}
